# SPDX-License-Identifier: GPL-2.0-only
# doctor.sh: what `weir doctor` says of a real kernel that forbids tracing, and of one with cgroup v1.
# Wants no module.
. /tap.sh

# ask: once for all that is told of a state
ask() {
	weir doctor >/tmp/doctor
	sed 's/^/# /' /tmp/doctor
}

# tells NAME WORDS: in its line, or in the advice below it
tells() {
	said=$(grep -A 1 "^[A-Za-z?]* *$1 " /tmp/doctor | head -n 2)
	case $said in
	*"$2"*) ;;
	*) echo "$said"; return 1 ;;
	esac
}

[ -e /sys/kernel/tracing/trace ] || mount -t tracefs none /sys/kernel/tracing
ask
ok "probe site: can be read" tells "probe site" "can be traced"
[ -e /sys/kernel/security/lockdown ] || mount -t securityfs none /sys/kernel/security
echo confidentiality >/sys/kernel/security/lockdown
sed 's/^/# lockdown: /' /sys/kernel/security/lockdown
ask
ok "probe site: EPERM, and by what" tells "probe site" "EPERM: Operation not permitted: the kernel is in lockdown (confidentiality)"
ok "probe site: what to do" tells "probe site" "boot with lockdown=integrity"
umount /sys/kernel/tracing 2>/dev/null
umount /sys/kernel/debug 2>/dev/null
ask
ok "probe site: not mounted" tells "probe site" "tracefs is not mounted at /sys/kernel/tracing (ENOENT)"

# As on hosts of cgroup v1. Controllers leave v2 once no cgroup is below its root.
cat /proc/self/cgroup | sed 's/^/# /'
cd /
echo -memory >/sys/fs/cgroup/cgroup.subtree_control
rmdir /sys/fs/cgroup/*/ 2>/dev/null
umount /sys/fs/cgroup
mount -t tmpfs none /sys/fs/cgroup
mkdir /sys/fs/cgroup/freezer /sys/fs/cgroup/unified
mount -t cgroup -o freezer none /sys/fs/cgroup/freezer
sed 's/^/# /' /proc/cgroups
ask
ok "v1: told, and by whom" tells "cgroup v2" "v1 has freezer"
ok "v1: nothing is to be mounted over it" tells "cgroup v2" "boot with systemd.unified_cgroup_hierarchy=1"
mount -t cgroup2 none /sys/fs/cgroup/unified
ask
ok "hybrid: told" tells "cgroup v2" "(hybrid mode): v1 has freezer"
ok "hybrid: nothing is to be mounted over it" sh -c '! grep "mount -t cgroup2" /tmp/doctor'
finish
