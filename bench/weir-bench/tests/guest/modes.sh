# SPDX-License-Identifier: GPL-2.0-only
# weir agent with mode = "auto": stock files until the module is loaded, the module's from then on, and
# back, with a request in force all the time; `weir bandwidth` on a unit; and why a kernel takes no
# module, which ends the loading of modules until the guest ends.
. /tap.sh
cd /sys/fs/cgroup || exit 1
ip link set lo up
mkdir -p batch system.slice/backup.service /etc/systemd/system
echo "+memory +io" >cgroup.subtree_control
echo +memory >system.slice/cgroup.subtree_control
limits 67108864
cat >/tmp/agent.toml <<-END
	[stock]
	mode = "auto"
	[[rule]]
	cgroup = "/batch"
	set = { "memory.dirty_bytes" = "8M" }
END
says() { # WORDS
	grep -qF -- "$1" /tmp/log || { cat /tmp/log; return 1; }
}
shows() { # LINE
	wget -q -O /tmp/metrics http://127.0.0.1:9759/metrics
	grep -qxF -- "$1" /tmp/metrics || { grep -F "${1%%[ \{]*}" /tmp/metrics; return 1; }
}
# protected: the request is in force, by one means or the other
protected() {
	[ "$(cat batch/memory.high)" != max ] || grep -qx 8388608 batch/memory.dirty_bytes 2>/dev/null
}
limited() {
	[ "$(cat batch/memory.high)" != max ]
}
holds() { # FILE VALUE
	is "$(cat "$1")" "$2"
}
reason() { # WORD: of a refusal
	weir load --json >/tmp/load 2>&1
	tr -d ' ,"' </tmp/load | grep -qx "reason:$1" || { cat /tmp/load; return 1; }
}

touch /mnt/d/file
in_cgroup batch sh -c 'while :; do dd if=/dev/zero of=/mnt/d/file bs=64k count=64 conv=notrunc 2>/dev/null; sleep 0.5; done' &
writer=$!
weir agent --policy /tmp/agent.toml --scan-every 2s >/tmp/log 2>&1 &
agent=$!
ok "without the module the ceiling is a memory.high" soon limited
ok "the journal says why" says "mode stock: no module is loaded"
ok "and a metric" soon shows 'weir_agent_mode{mode="stock"} 1'

: >/tmp/gaps
(while [ ! -e /tmp/over ]; do protected || date +%s.%N >>/tmp/gaps; sleep 0.1; done) &
watcher=$!
ok "the module is loaded beside it" weir load
ok "the ceiling is the module's" soon holds batch/memory.dirty_bytes 8388608
ok "memory.high is put back" soon holds batch/memory.high max
ok "the journal says so" says "mode module: knobs are the module's"
ok "and the metric" soon shows 'weir_agent_mode{mode="module"} 1'
: >/tmp/over
wait $watcher
ok "at no look was the request not in force" is "$(wc -l </tmp/gaps)" 0
ok "a policy that is read again leaves it so" sh -c 'echo "# more" >>/tmp/agent.toml; kill -HUP '$agent'; sleep 2; grep -qx 8388608 batch/memory.dirty_bytes'

unit=system.slice/backup.service
printf '[Service]\n' >/etc/systemd/system/backup.service
ok "a unit's bandwidth is set" weir bandwidth backup 4M
ok "in its cgroup" holds $unit/memory.dirty_bandwidth 4194304
ok "and for later" grep -qx X-Weir-DirtyBandwidth=4M /etc/systemd/system/backup.service.d/50-weir-bandwidth.conf
ok "the agent keeps it" sh -c 'sleep 5; grep -qx 4194304 '$unit/memory.dirty_bandwidth
kill $writer
wait $writer 2>/dev/null
sync
# A burst is not held: what is owed at its end is paid before the next call ends.
rate() { # seconds that 12 MiB take in the unit, in tenths
	began=$(cut -d ' ' -f 1 /proc/uptime)
	in_cgroup $unit dd if=/dev/zero of=/mnt/d/other bs=256k count=48 2>/dev/null
	awk -v began="$began" '{ print int(($1 - began) * 10) }' /proc/uptime
}
took=$(rate)
echo "# 12 MiB at 4 MiB/s took $took tenths of a second"
ok "12 MiB take three seconds" between 27 "$took" 33
ok "max takes it away" weir bandwidth backup.service max
ok "from the cgroup" holds $unit/memory.dirty_bandwidth max
ok "and from the unit" test ! -e /etc/systemd/system/backup.service.d/50-weir-bandwidth.conf
took=$(rate)
echo "# without a bound $took"
ok "then they take what the disk takes" between 0 "$took" 15
ok "no such unit" sh -c 'weir bandwidth backups 4M 2>&1 | grep -q "there is no unit backups.service"'

in_cgroup batch sh -c 'while :; do dd if=/dev/zero of=/mnt/d/file bs=64k count=64 conv=notrunc 2>/dev/null; sleep 0.5; done' &
writer=$!
ok "the module is unloaded" weir unload
ok "and stock mode is back" soon limited
ok "no module, no bandwidth" sh -c 'weir bandwidth backup 4M 2>&1 | grep -q "module is not loaded"'
kill $writer $agent
wait $agent 2>/dev/null
ok "what the agent set is put back" holds batch/memory.high max

sed 's/\(vermagic=.* \)mod_unload /\1mod_other- /' /weir.ko >/tmp/weir.ko && mv /weir.ko /weir.kept && mv /tmp/weir.ko /weir.ko
ok "a module of another kernel is told apart" reason other-kernel
mv /weir.kept /weir.ko
if silence_ftrace; then
	ok "a module that does not fit is" reason unfit-kernel
	echo 1 >/proc/sys/kernel/ftrace_enabled
fi
mount -t securityfs securityfs /sys/kernel/security 2>/dev/null
echo integrity >/sys/kernel/security/lockdown
ok "lockdown without Secure Boot is" reason lockdown
umount /sys/kernel/security
ok "so it is where a container sees the kernel's log alone" reason lockdown
echo 1 >/sys/module/module/parameters/sig_enforce
ok "module.sig_enforce is" reason sig-enforce
ok "nothing is loaded" test ! -e /sys/module/weir
echo 1 >/proc/sys/kernel/modules_disabled
ok "kernel.modules_disabled is" reason modules-disabled
finish
