# SPDX-License-Identifier: GPL-2.0-only
# Nothing is lost: checksummed memory while shares change every few seconds, so that
# pages are always on their way, and the agent is killed as often. tier-churn.sh SECONDS
. /tap.sh
cd /sys/fs/cgroup || exit 1
seconds=${1:-600}
echo +memory >cgroup.subtree_control
insmod /weir.ko || exit 1
weir tier on >/dev/null || exit 1

# keep CGROUP MEGABYTES: anonymous memory, a file in memory that a process maps or not,
# and what they should come to in the end
keep() {
	mkdir "$1"
	echo $(($2 * 3 * 1048576)) >"$1/memory.max"
	in_cgroup "$1" dd if=/dev/urandom of="/tmp/$1" bs=1M count="$2" 2>/dev/null
	sha256sum <"/tmp/$1" >"/tmp/$1.sum"
	in_cgroup "$1" sh -c "dd if=/tmp/$1 bs=$2M count=1 2>/dev/null |
		{ until [ -e /tmp/end ]; do usleep 200000; done; sha256sum; } >/tmp/$1.memory" &
	keepers="$keepers $!"
}
keepers=
for group in a b c; do keep $group 60; done

# MiB that the kernel has moved since the boot
migrated() {
	awk '$1 == "pgmigrate_success" { printf "%d", $2 / 256 }' /proc/vmstat
}

kills=0
before=$(migrated)
end=$(($(cut -d . -f 1 /proc/uptime) + seconds))
while [ "$(cut -d . -f 1 /proc/uptime)" -lt "$end" ]; do
	for engine in damon move_pages; do
		printf '[tier]\nlend = false\nlook = "1s"\nengine = "%s"\n' $engine >/tmp/agent.toml
		weir agent --policy /tmp/agent.toml --listen none >>/tmp/log 2>&1 &
		agent=$!
		# Twice up or down while it runs, and once when it is gone.
		for ratio in 20 80; do
			weir tier on --ratio $ratio >/dev/null
			usleep $((1500000 + kills % 7 * 400000))
		done
		kill -9 $agent && wait $agent 2>/dev/null
		kills=$((kills + 1))
	done
	weir tier on --ratio $((kills % 2 * 60 + 20)) >/dev/null
done
moved=$(($(migrated) - before))
echo "# $kills agents killed in $seconds s, $moved MiB moved"
touch /tmp/end
wait $keepers
ok "pages were moved" [ "$moved" -gt 0 ]
for group in a b c; do
	ok "$group's memory is as it was" cmp "/tmp/$group.memory" "/tmp/$group.sum"
	sha256sum <"/tmp/$group" >"/tmp/$group.file"
	ok "and its file" cmp "/tmp/$group.file" "/tmp/$group.sum"
done
weir agent --listen none >>/tmp/log 2>&1 &
agent=$!
ok "DAMON is given back by the last agent" comes_to 0 cat /sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds
kill $agent
wait $agent
finish
