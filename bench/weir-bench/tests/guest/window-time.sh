# SPDX-License-Identifier: GPL-2.0-only
# weir agent keeps a window in milliseconds on a real kernel: it is what the disk writes for the cgroup
# in that time, alone and beside another that writes. Wants a disk "d" of 16 MB/s.
. /tap.sh
cd /sys/fs/cgroup || exit 1
mkdir flood more
limits 67108864

job() { # CGROUP: a process of fio that appends in it as fast as it is let
	in_cgroup "$1" fio --name="$1" --directory=/mnt/d --rw=write --bs=64k --size=900m --fallocate=none \
		--time_based --runtime=10000 >/dev/null 2>&1 &
}
policy() { # VALUE
	printf '[[rule]]\ncgroup = ["/flood", "/more"]\nset = { "memory.writeback_bytes" = "%s" }\n' "$1" >/tmp/new.toml
	mv /tmp/new.toml /tmp/agent.toml
}
holds() { # FILE VALUE
	is "$(cat "$1")" "$2"
}
window() { # CGROUP
	cat "$1/memory.writeback_bytes"
}
rate() { # of the disk in KiB/s over ten seconds
	before=$(awk '{ printf "%d", $7 }' /sys/block/weir0/stat)
	sleep 10
	echo $((($(awk '{ printf "%d", $7 }' /sys/block/weir0/stat) - before) / 20))
}

policy 1s
ok "more than a second is refused" sh -c '! weir agent --check /tmp/agent.toml >/tmp/said 2>&1'
ok "with what is accepted" grep -qF '`1ms` to `1000ms`' /tmp/said

insmod /weir.ko || exit 1
job flood
sleep 10
stock=$(rate)
policy 10ms
weir agent --listen none --policy /tmp/agent.toml >/tmp/log 2>&1 &
agent=$!
ok "a cgroup that was not seen to write gets 1 MiB" soon holds more/memory.writeback_bytes 1048576
sleep 20
own=$(rate)
echo "# disk: $stock KiB/s without, $own with; window $(window flood)"
ok "the window is what the disk writes in the time" between 130000 "$(window flood)" 190000
ok "the disk writes on" between $((stock * 9 / 10)) "$own" 20000
lines=$(grep -c /flood: /tmp/log)
sleep 20
ok "the window rests while nothing changes" between 0 $(($(grep -c /flood: /tmp/log) - lines)) 2

job more
sleep 40
echo "# both: $(window flood), $(window more)"
ok "beside another it is what is left for it" between 65536 "$(window flood)" 110000
ok "and the other has the same" between 65536 "$(window more)" 110000
policy 100ms
sleep 10
ok "another time holds soon" between 600000 "$(window flood)" 1100000
printf '' >/tmp/agent.toml
ok "without the rule there is none" soon holds flood/memory.writeback_bytes max
kill $agent
ok "the agent ends cleanly" wait $agent
sed 's/^/# /' /tmp/log
echo 1 >flood/cgroup.kill
echo 1 >more/cgroup.kill
finish
