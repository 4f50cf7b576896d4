# SPDX-License-Identifier: GPL-2.0-only
# The playbook, run for real on this machine: from nothing to a service with its floor and back.
. ./containers.sh

export ANSIBLE_LOCALHOST_WARNING=false ANSIBLE_NOCOLOR=1 LC_ALL=C.UTF-8
# play UNITS: as an operator would with these knobs
play() {
	packages=$(printf '%s,' "$PWD"/*.deb)
	ansible-playbook -i localhost, -c local weir.yml \
		--extra-vars "{weir_packages: [${packages%,}], weir_units: {db.service: $1}}"
}
# changes N UNITS: so many tasks changed something, none failed
changes() {
	play "$2" >/tmp/play 2>&1
	grep -q "changed=$1 .*failed=0" /tmp/play || { cat /tmp/play; return 1; }
}

echo "# $(ansible --version | head -n 1)"
printf '[Service]\nExecStart=/bin/sleep infinity\n' >/etc/systemd/system/db.service
start=$(date +%s)
systemctl daemon-reload
systemctl start db
ok "weir is not there" test ! -e /sys/fs/cgroup/system.slice/db.service/memory.dirty_min
ok "a playbook brings it" changes 5 '{DirtyMin: 16M}'
echo "# it took $(($(date +%s) - start)) s, most of it the module's build, under emulation"
# To save that, the file that was put beside these tests.
[ ! -e weir.ko ] || insmod ./weir.ko
ok "the service has its floor" comes_to $floor cat /sys/fs/cgroup/system.slice/db.service/memory.dirty_min
ok "once more changes nothing" changes 0 '{DirtyMin: 16M}'
ok "without the knob" changes 1 '{}'
ok "the floor is back" comes_to 0 cat /sys/fs/cgroup/system.slice/db.service/memory.dirty_min
systemctl stop db
rm -r /etc/systemd/system/db.service*
systemctl daemon-reload
finish
