# SPDX-License-Identifier: GPL-2.0-only
# weir agent keeps rules without the module: what it sets is seen in the kernel's own files, holds a
# flood back, is put back when the agent ends or was killed, and yields to another program's.
. /tap.sh
cd /sys/fs/cgroup || exit 1
ip link set lo up
mkdir db flood batch
echo 20 >/proc/sys/vm/dirty_ratio
echo 10 >/proc/sys/vm/dirty_background_ratio
device=$(awk '$9 == "/mnt/d" || $5 == "/mnt/d" { print $3 }' /proc/self/mountinfo | head -n 1)

policy() { # MODE
	cat >/tmp/new.toml <<-END
		[stock]
		mode = "$1"
		limit = ["/flood"]
		sysctl = { "vm.dirty_bytes" = "64M", "vm.dirty_background_bytes" = "32M" }
		bdi = { "$device" = { max_ratio = 90 } }
		[[rule]]
		cgroup = "/db"
		set = { "memory.dirty_min" = "32M", "memory.dirty_weight" = 400 }
		[[rule]]
		cgroup = "/batch"
		set = { "memory.dirty_bandwidth" = "2M" }
	END
	mv /tmp/new.toml /tmp/agent.toml
}
agent() {
	weir agent --policy /tmp/agent.toml --pods /tmp/pods.toml >/tmp/log 2>&1 &
	agent=$!
}
says() { # WORDS
	grep -qF -- "$1" /tmp/log || { cat /tmp/log; return 1; }
}
# below CGROUP BYTES: its memory.high is lower
below() {
	high=$(cat "$1/memory.high")
	[ "$high" != max ] && [ "$high" -lt "$2" ]
}
limited() { # CGROUP
	[ "$(cat "$1/memory.high")" != max ]
}
holds() { # FILE VALUE
	is "$(cat "$1")" "$2"
}
flat() { # CGROUP KEY...
	group=$1
	shift
	for key; do awk -v key="$key" '$1 == key { print $2 }' "$group/memory.stat"; done | awk '{ sum += $1 } END { print sum }'
}
small() { # what db's floor leaves of a freerun of 48M, and what comes until the agent looks again: a burst of up to 30M
	sum=0
	for look in $(seq 40); do
		sum=$((sum + $(flat flood file_dirty file_writeback) / 4096))
		sleep 0.5
	done
	echo "$((sum / 40 * 4096)) bytes, mean of 20 s"
	[ $((sum / 40 * 4096)) -lt 33554432 ]
}
ceiling_is() { # CGROUP BYTES
	wget -qO /tmp/metrics http://127.0.0.1:9759/metrics
	grep -F "weir_agent_stock_ceiling_bytes{cgroup=\"/$1\"}" /tmp/metrics | grep -q " $2$"
}
untouched() {
	is "$(cat db/io.weight flood/memory.high batch/memory.high batch/io.max /proc/sys/vm/dirty_bytes /proc/sys/vm/dirty_ratio /proc/sys/vm/dirty_background_ratio "/sys/class/bdi/$device/max_ratio" | tr '\n' ' ')" \
		"default 100 max max 0 20 10 100 "
}

ok "the module is not loaded" test ! -e /sys/kernel/weir
ok "nothing is set" untouched
policy observe
agent
ok "observing it says what it would set" soon says "/db: io.weight would be 400, is 100 (observing)"
ok "and sets nothing" untouched
kill $agent
wait $agent 2>/dev/null

policy on
agent
ok "the host's limit is set" soon holds /proc/sys/vm/dirty_bytes 67108864
ok "and its background level" soon holds /proc/sys/vm/dirty_background_bytes 33554432
ok "and the device's" soon holds "/sys/class/bdi/$device/max_ratio" 90
ok "the weight is an io.weight" soon holds db/io.weight "default 400"
ok "who leaves room for the floor is limited" soon limited flood
ok "and so is who has a bandwidth" soon limited batch
ok "what is set is noted" grep -q '"directory":"/sys/fs/cgroup/flood"' /run/weir/stock.json

in_cgroup flood fio --name=flood --directory=/mnt/d --bs=64k --rw=write --size=256m --time_based --runtime=10000 --end_fsync=0 >/dev/null 2>&1 &
flood=$!
in_cgroup batch dd if=/dev/zero of=/mnt/d/batch bs=64k count=16 2>/dev/null
sync /mnt/d/batch
ok "a bandwidth is an io.max once the cgroup has used a device" soon grep -q wbps=2097152 batch/io.max
ok "and the agent says what others may wait for behind it" soon says "/batch: others' fsync waits behind"
sleep 10
ok "the flood holds little" small
echo "# $(flat flood file_dirty file_writeback) bytes, memory.high $(cat flood/memory.high), $(flat flood active_file inactive_file) of page cache"
wget -qO /tmp/metrics http://127.0.0.1:9759/metrics
ok "metrics have its ceiling" grep -q 'weir_agent_stock_ceiling_bytes{cgroup="/flood"}' /tmp/metrics
ok "and cgroups as ever" grep -q 'weir_cgroup_dirty_bytes{cgroup="/flood"}' /tmp/metrics
ok "weir explain works" weir explain /flood

kill -KILL $agent
wait $agent 2>/dev/null
ok "killed it leaves everything" holds /proc/sys/vm/dirty_bytes 67108864
ok "the flood's limit, too" limited flood
policy off
agent
ok "the next one puts everything back" soon untouched
ok "and says so" soon says "host: vm.dirty = ratio 20 as before"
policy on
ok "and sets it again as the policy says so" soon limited flood

mkdir pod
printf '[[rule]]\ncgroup = "/pod"\nset = { "memory.dirty_bytes" = "8M" }\n' >/tmp/pods.new
mv /tmp/pods.new /tmp/pods.toml
ok "rules of another file count, too" soon limited pod
ok "others stay as they are" limited flood
mkdir secs
printf '[[rule]]\ncgroup = "/secs"\nset = { "memory.dirty_bytes" = "2s" }\n' >/tmp/pods.new
mv /tmp/pods.new /tmp/pods.toml
ok "a ceiling in seconds is a limit, too" soon limited secs
ok "which begins with the least there is" soon ceiling_is secs 4194304

mkdir -p /etc/systemd/system system.slice
echo +memory >system.slice/cgroup.subtree_control
# first the file: it is read when the cgroup appears
printf '[Service]\nX-Weir-DirtyBytes=8M\n' >/etc/systemd/system/asks.service
mkdir system.slice/asks.service
ok "a unit gets what it asks for" soon limited system.slice/asks.service
rmdir system.slice/asks.service

echo 1G >flood/memory.high
ok "another program's limit is seen" soon says "below another program's 1073741824"
ok "and stood below" below flood 1073741824
echo 25 >/proc/sys/vm/dirty_ratio
ok "of the host, too" soon says "host: vm.dirty stays ratio 25"
kill $agent
ok "the agent ends cleanly" wait $agent
ok "another program's limit comes back" holds flood/memory.high 1073741824
ok "of the host, too" holds /proc/sys/vm/dirty_ratio 25
ok "the rest is put back" is "$(cat batch/memory.high pod/memory.high db/io.weight | tr '\n' ' ')" "max max default 100 "
kill $flood
finish
