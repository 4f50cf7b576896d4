# SPDX-License-Identifier: GPL-2.0-only
# Tiers of memory: the switch, budgets live, what is held where.  Wants two nodes
# (--tier 512M --tier 768M), the second with a block of memory that can go offline.
. /tap.sh
page=$(page_size)
parameters=/sys/module/weir/parameters
mkdir -p /sys/fs/cgroup/a
insmod /weir.ko || exit 1
echo "+memory +cpuset" >/sys/fs/cgroup/cgroup.subtree_control
cd /sys/fs/cgroup/a || exit 1
echo "+memory +cpuset" >cgroup.subtree_control

files="toptier_min toptier_low toptier_high toptier_max toptier_ratio tier_stat"
# present CGROUP: those of them that are there
present() {
	for file in $files; do
		[ -e "$1/memory.$file" ] && echo "$file"
	done | xargs
}
# tier CGROUP TIER KEY, e.g. tier a 0 bytes
tier() {
	awk -v tier="$2" -v key="$3" '$1 == "tier" tier || $1 == tier {
		for (i = 2; i <= NF; i++)
			if (split($i, pair, "=") == 2 && pair[1] == key)
				print pair[2]
	}' "/sys/fs/cgroup/$1/memory.tier_stat"
}
# pages present on a node, from another source
present_bytes() {
	awk -v node="$1," -v page="$page" '/^Node/ { here = $2 == node }
		here && $1 == "present" { pages += $2 }
		END { printf "%d\n", pages * page }' /proc/zoneinfo
}
# part BYTES: the top tier's of a limit, in whole pages, as the files should have it
part() {
	top=$(($(tier a 0 capacity) / page))
	all=$((top + $(tier a 1 capacity) / page))
	echo $(($1 / page * top / all * page))
}
# says WORDS: the last that the module said of tiers
says() {
	said=$(dmesg | grep "weir: tiers: " | tail -1)
	case $said in
	*"$1"*) ;;
	*) echo "$said"; return 1 ;;
	esac
}

ok "tiers are off" is "$(cat $parameters/tiers)" ""
ok "and there is no file" is "$(present .)" ""
while IFS='|' read -r value why; do
	ok "refuses '$value'" refuses $parameters/tiers "$value" "Invalid argument"
	ok "and says: $why" says "$why"
done <<'BAD'
0;0|in two tiers
0-1;1|in two tiers
0;99|no such node
0;5000|no such node
0;x|not a list
0;1 x|not a list
;0|has no nodes
0;;1|has no nodes
0;1;2;3;4;5;6;7;8|no such node
BAD
ok "still off" is "$(present .)" ""
ok "takes two tiers" takes $parameters/tiers "0;1" "0;1"
ok "the files are there" is "$(present .)" "$files"
ok "and not in the root cgroup" is "$(present ..)" ""
ok "a cgroup made later has them" sh -c 'mkdir b && test -e b/memory.tier_stat'
ok "nothing is hooked for them" is "$(hooks)" 0

ok "capacities are the nodes'" is "$(tier a 0 capacity) $(tier a 1 capacity)" "$(present_bytes 0) $(present_bytes 1)"
ok "no limit, no budget" is "$(cat memory.toptier_high memory.toptier_max | xargs) $(tier a 0 budget) $(tier a 1 budget)" "max max max max"
ok "no protection, none on top" is "$(cat memory.toptier_min memory.toptier_low | xargs)" "0 0"
echo 80M >memory.min
echo 120M >memory.low
echo 200M >memory.high
echo 240M >memory.max
ok "limits are split as memory is" is "$(cat memory.toptier_min memory.toptier_low memory.toptier_high memory.toptier_max | xargs)" \
	"$(part 83886080) $(part 125829120) $(part 209715200) $(part 251658240)"
ok "the budget is of the lower limit" is "$(tier a 0 budget)" "$(part 209715200)"
ok "the rest is the lower tier's" is "$(tier a 1 budget)" $((209715200 - $(part 209715200)))
echo max >memory.high
ok "with high gone, of max" is "$(tier a 0 budget)" "$(part 251658240)"

ok "a child is bound by its parent" is "$(tier a/b 0 budget)" "$(part 251658240)"
ok "its own file shows what it was given" is "$(cat b/memory.toptier_max)" max

ok "a ratio of its own" takes memory.toptier_ratio 50 50
ok "is in force at once" is "$(cat memory.toptier_max) $(tier a 1 budget)" "125829120 125829120"
ok "0 is a ratio too" takes memory.toptier_ratio 0 0
ok "with nothing on top" is "$(cat memory.toptier_max) $(tier a 1 budget)" "0 251658240"
for value in 101 -1 50% x "defaul" "default 1" "" 1.5; do
	[ "$value" ] && ok "refuses '$value'" refuses memory.toptier_ratio "$value" "Invalid argument"
done
ok "default again" takes memory.toptier_ratio default default
ok "one for the host" takes $parameters/tier_ratio 25 25
ok "counts where there is none" is "$(cat memory.toptier_max)" 62914560
ok "refuses 101" refuses $parameters/tier_ratio 101 "result out of range"
ok "refuses words" refuses $parameters/tier_ratio x "Invalid argument"
ok "0 is by capacity" takes $parameters/tier_ratio 0 0
ok "as before" is "$(cat memory.toptier_max)" "$(part 251658240)"

# an unprivileged owner of a delegated subtree gets no more than it was given
mkdir b/d
chown -R 1000:1000 b/d b
echo "user:x:1000:1000::/:/bin/sh" >>/etc/passwd
owner() {
	su user -s /bin/sh -c "echo -n '$1' >/sys/fs/cgroup/a/b/memory.toptier_ratio" 2>&1
}
owner_refused() {
	owner "$1" | grep -q "not permitted" && is "$(cat b/memory.toptier_ratio)" "$2"
}
ok "its owner cannot raise its ratio" owner_refused 99 default
ok "but can lower it" sh -c "su user -s /bin/sh -c 'echo 10 >b/memory.toptier_ratio'"
ok "and not take it back" owner_refused default 10
rmdir b/d
echo default >b/memory.toptier_ratio

# what is held where; shared memory and cache count for who touched them first
near() {
	between $(($2 - 2097152)) "$1" $(($2 + 2097152))
}
put() {
	echo "$1" >b/cpuset.mems && in_cgroup a/b dd if=/dev/zero of="/tmp/$1" bs=64k count="$2" 2>/dev/null
}
mkdir -p /tmp && mount -t tmpfs none /tmp
put 1 512 && put 0 256
holds() {
	near "$(tier "$1" 0 bytes)" "$2" && near "$(tier "$1" 1 bytes)" "$3"
}
ok "16M on node 0, 32M on node 1" soon holds a/b 16777216 33554432
ok "its parent holds it too" holds a 16777216 33554432
# the kernel's own count, brought up to date when it is read
numa_stat() {
	awk -v node="N$1=" '$1 ~ /^(inactive_|active_)?(anon|file)$|^unevictable$/ && $1 ~ /_|une/ {
		for (i = 2; i <= NF; i++)
			if (index($i, node) == 1)
				bytes += substr($i, length(node) + 1)
	} END { printf "%d\n", bytes }' memory.numa_stat
}
agree() {
	near "$(tier a 0 bytes)" "$(numa_stat 0)" && near "$(tier a 1 bytes)" "$(numa_stat 1)"
}
ok "as memory.numa_stat has it" soon agree
if [ -e /sys/kernel/mm/lru_gen/enabled ]; then
	was=$(cat /sys/kernel/mm/lru_gen/enabled)
	[ "$was" = 0x0000 ] && other=y || other=n
	echo $other >/sys/kernel/mm/lru_gen/enabled
	ok "whichever lists they are in" soon holds a/b 16777216 33554432
	echo "$was" >/sys/kernel/mm/lru_gen/enabled
	ok "and back" soon holds a/b 16777216 33554432
fi
rmdir b
ok "a removed child's pages are still its parent's" soon holds a 16777216 33554432
rm /tmp/0 /tmp/1
ok "until they are gone" soon holds a 0 0
ok "swap is the last tier" is "$(tail -1 memory.tier_stat)" "swap bytes=0"

# memory that goes offline, and comes back
all=$(tier a 1 capacity)
before=$(cat memory.toptier_max)
for block in /sys/devices/system/node/node1/memory[0-9]*; do
	# the kernel tries for as long as it is let
	timeout 20 sh -c "echo offline >$block/state" 2>/dev/null && break
done
if [ "$(cat "$block/state")" = offline ]; then
	ok "less memory below" test "$(tier a 1 capacity)" -lt "$all"
	ok "is a larger part above" test "$(cat memory.toptier_max)" -gt "$before"
	ok "as it should be" is "$(cat memory.toptier_max)" "$(part 251658240)"
	echo online >"$block/state"
	ok "back with it" is "$(cat memory.toptier_max)" "$before"
else
	echo "# no block of node 1 can be taken offline here"
fi

ok "one tier is all of a limit" sh -c "echo '0-1;' >$parameters/tiers && cat memory.toptier_max | grep -qx 251658240"
echo >$parameters/tiers
ok "off again" is "$(cat $parameters/tiers)$(present .)" ""
while read -r value; do
	echo "$value" >$parameters/tiers
	cat memory.tier_stat memory.toptier_max >/dev/null 2>&1
done <<'SWITCHES'
0;1

0
1;0

0;1
SWITCHES
(while :; do cat memory.tier_stat; done >/dev/null 2>&1) &
reader=$!
i=0
while [ $i -lt 20 ]; do
	echo >$parameters/tiers
	echo "0;1" >$parameters/tiers
	i=$((i + 1))
done
kill $reader
wait $reader 2>/dev/null
ok "switched twenty times under a reader" is "$(present .)" "$files"
ok "unloaded with tiers on" rmmod weir
ok "no file is left" is "$(present .)" ""
ok "a bad value at load is refused" sh -c '! insmod /weir.ko tiers="0;0"'
ok "a good one is in force" sh -c 'insmod /weir.ko tiers="0;1" tier_ratio=50 && cat memory.toptier_max | grep -qx 125829120'
rmmod weir
finish
