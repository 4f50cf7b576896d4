# SPDX-License-Identifier: GPL-2.0-only
# `weir bandwidth` with the system's own systemd: what a unit dirties a second is bounded at once, after
# restarts, and until `max`.
. ./containers.sh

units=/etc/systemd/system
slice=/sys/fs/cgroup/system.slice
# needs_reload UNIT: systemd has not read its files
needs_reload() {
	systemctl show --property NeedDaemonReload --value "$1"
}
# dirtied UNIT: bytes so far, of its main process
dirtied() {
	sed -n 's/^write_bytes: //p' "/proc/$(systemctl show --property MainPID --value "$1")/io"
}
# rate UNIT: KiB a second, over ten
rate() {
	from=$(dirtied "$1") began=$(cut -d ' ' -f 1 /proc/uptime)
	sleep 10
	to=$(dirtied "$1")
	awk -v bytes=$((to - from)) -v began="$began" '{ print int(bytes / 1024 / ($1 - began)) }' /proc/uptime
}
# fails STATUS WORDS UNIT: nothing is set
fails() {
	weir bandwidth "$3" 4M >/tmp/said 2>&1
	is $? "$1" && grep -qF -- "$2" /tmp/said || { cat /tmp/said; return 1; }
}

echo "# $(systemctl --version | head -n 1)"
echo >/etc/weir/agent.toml
ok "the agent starts" systemctl restart weir-agent
printf '[Service]\nExecStartPre=/bin/sleep 3\nExecStart=/bin/dd if=/dev/zero of=/var/tmp/written bs=64k count=16000\n' >$units/writer.service
systemctl daemon-reload
ok "a unit that does not run gets a bound" weir bandwidth writer 2M
ok "systemd has read it" is "$(needs_reload writer)" no
ok "and has nothing to say of it" is "$(systemd-analyze verify --man=no writer.service 2>&1 | grep -i weir)" ""
systemctl start writer
ok "it has it when it runs" comes_to 2097152 cat $slice/writer.service/memory.dirty_bandwidth
rate=$(rate writer)
echo "# at 2 MiB a second it dirtied $rate KiB a second"
ok "which bounds it" between 1800 "$rate" 2250
ok "another counts at once" weir bandwidth writer.service 4M
ok "in its cgroup" is "$(cat $slice/writer.service/memory.dirty_bandwidth)" 4194304
sleep 2
rate=$(rate writer)
echo "# at 4 MiB $rate"
ok "and bounds it" between 3600 "$rate" 4500
systemctl restart writer
ok "a unit that starts again has it" comes_to 4194304 cat $slice/writer.service/memory.dirty_bandwidth
systemctl restart weir-agent
sleep 3
ok "an agent that does leaves it" is "$(cat $slice/writer.service/memory.dirty_bandwidth)" 4194304
ok "it is shown" sh -c 'weir bandwidth writer | grep -q "writer.service: 4194304; .*/50-weir-bandwidth.conf asks for 4M"'
ok "max takes it away" weir bandwidth writer max
ok "from its cgroup" comes_to max cat $slice/writer.service/memory.dirty_bandwidth
ok "and from its files" test ! -e $units/writer.service.d/50-weir-bandwidth.conf
ok "which systemd has read" is "$(needs_reload writer)" no
systemctl stop writer

printf '[Slice]\n' >$units/batch.slice
systemctl daemon-reload
systemctl start batch.slice
ok "a slice is bounded, too" weir bandwidth batch.slice 8M
ok "in its own section" grep -qx '\[Slice\]' $units/batch.slice.d/50-weir-bandwidth.conf
ok "and by the agent" comes_to 8388608 cat /sys/fs/cgroup/batch.slice/memory.dirty_bandwidth
weir bandwidth batch.slice max >/dev/null
ok "a unit that is not there is named" fails 1 "there is no unit nosuch.service" nosuch
ok "and what is no unit with a cgroup" fails 1 "expected a service, slice" a.timer
ok "a rate that is none is a usage error" sh -c 'weir bandwidth writer 4MB; test $? = 2'
rm -rf $units/writer.service* $units/batch.slice* /var/tmp/written
systemctl daemon-reload
finish
