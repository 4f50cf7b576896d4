# SPDX-License-Identifier: GPL-2.0-only
# weir agent lifts the host's limit without the module while the flusher is the bottleneck, leaves it alone for a disk that
# is, and puts it back to the percentage it was, after it was killed, too.  Wants /weir_submit.ko of the lab, dmsetup, a raw
# disk s and a slow disk d.
. /tap.sh
cd /sys/fs/cgroup || exit 1
ip link set lo up
mkdir writers
echo 20 >/proc/sys/vm/dirty_ratio
echo 10 >/proc/sys/vm/dirty_background_ratio
modprobe dm_mod
insmod /weir_submit.ko free=Y
dmsetup create costly --noudevrules --noudevsync --table \
	"0 $(cat /sys/block/"$(basename "$(readlink -f /dev/weir/s)")"/size) weir_submit $(readlink -f /dev/weir/s) 10485760"
dmsetup mknodes
mkdir -p /mnt/s
mkfs.ext4 -q -F /dev/mapper/costly && mount /dev/mapper/costly /mnt/s
echo N >/sys/module/weir_submit/parameters/free

agent() { # LINE of [stock]
	printf '[stock]\n%s\n' "$1" >/tmp/agent.toml
	weir agent --policy /tmp/agent.toml >/tmp/log 2>&1 &
	agent=$!
}
end() { # SIGNAL
	kill "-$1" $agent
	wait $agent 2>/dev/null
}
levels() {
	tr '\n' ' ' </proc/sys/vm/dirty_bytes
	tr '\n' ' ' </proc/sys/vm/dirty_ratio
	tr '\n' ' ' </proc/sys/vm/dirty_background_ratio
}
levels_are() { # LEVELS
	[ "$(levels)" = "$1" ]
}
lifted() {
	[ "$(cat /proc/sys/vm/dirty_bytes)" -gt 0 ]
}
now() { # milliseconds
	awk '{ print int($1 * 1000) }' /proc/uptime
}
burst() { # DISK MIB: milliseconds that it took; a file that is cut off first would be flushed by close()
	began=$(now)
	in_cgroup writers dd if=/dev/zero of="/mnt/$1/burst" bs=128k count=$(($2 * 8)) conv=notrunc 2>/dev/null
	echo $(($(now) - began))
}
waited() { # milliseconds of I/O pressure of the writers, full, so far
	awk '$1 == "full" { sub("total=", "", $5); print int($5 / 1000) }' writers/io.pressure
}
bursts() { # three of 200 MiB, each once all is written
	began=$(waited)
	for i in 1 2 3; do
		sync
		times="$times $(burst s 200)"
		sleep 1
	done
	echo "# $1: bursts of 200 MiB took$times ms, writers waited $(($(waited) - began)) ms"
	cost=$(($(waited) - began))
	times=
}

ok "the module is not loaded" test ! -e /sys/kernel/weir
bursts stock
stock=$cost
sync

agent 'drain_seconds = "auto"'
burst d 300 >/dev/null
sync
burst d 300 >/dev/null
ok "a disk that is the bottleneck gets nothing" is "$(levels)" "0 20 10 "
sync
burst s 300 >/dev/null
ok "a flusher that is gets seconds of drain" soon lifted
ok "which the agent says" grep -q "host: vm.dirty = bytes .* was ratio 20" /tmp/log
bursts auto
ok "bursts wait for a tenth of the time" test "$cost" -le $((stock / 10))
wget -qO /tmp/metrics http://127.0.0.1:9759/metrics
ok "metrics tell the limit" grep -q "^weir_agent_stock_limit_bytes [1-9]" /tmp/metrics
grep "^weir_agent_stock_[ld]" /tmp/metrics | sed 's/^/# /'

end KILL
ok "killed it leaves the limit" lifted
agent ''
ok "the next one puts the percentage back" soon levels_are "0 20 10 "
end TERM
agent 'drain_seconds = 30'
burst s 300 >/dev/null
ok "seconds may be given" soon lifted
end TERM
ok "and are put back at its end" is "$(levels)" "0 20 10 "
finish
