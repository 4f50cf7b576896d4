# SPDX-License-Identifier: GPL-2.0-only
# floors.sh [NUMBER]: many cgroups with a floor, and more asked for than the host has.  No hold of
# weir_lock, which a beat or a write takes, lasts long, and the floors never add up to more than 80 %.
# Wants --make WEIR_IRQSOFF=y, --count-instructions, one CPU: an instruction is a nanosecond.
. /tap.sh
number=${1:-2000}
# 2,000 floors in one hold took three times as long
most=${MOST:-250000}
sections=/sys/module/weir/parameters/irqsoff
limits $((256 << 20))
insmod /weir.ko tiers=0 || exit 1
mkdir /sys/fs/cgroup/s
cd /sys/fs/cgroup/s || exit 1
echo "+memory" >cgroup.subtree_control
seq "$number" | xargs mkdir

# floors CGROUP...: the sum of those in force
floors() {
	for group; do
		echo "$group/memory.dirty_stat"
	done | xargs cat | awk '$1 == "floor" { sum += $2 } END { print sum + 0 }'
}

set_all() {
	for i in $(seq "$number"); do
		echo 64K >"$i/memory.dirty_min" || return
	done
}
ok "$number floors" set_all
limit=$(cat /sys/kernel/weir/limit_bytes)
cap=$((limit / 5 * 4))
# of each, less than a page
rounding=$(((number + 8) * 4096))
sleep 1

# Each of eight is to have a fifth: one that is set while the pool is full gets what is left.
mkdir ../a ../a/1 ../a/2 ../a/3 ../a/4 ../a/5 ../a/6 ../a/7 ../a/8 2>/dev/null
echo "+memory" >../a/cgroup.subtree_control
within() {
	local i sum again most_seen=0
	for i in 1 2 3 4 5 6 7 8; do
		echo $((limit / 5)) >../a/$i/memory.dirty_min
		sum=$(floors ../a/[1-8] [0-9]*)
		# a beat between two files adds what one had to what another got
		again=$(floors ../a/[1-8] [0-9]*)
		[ "$sum" -le "$again" ] || sum=$again
		[ "$sum" -le $most_seen ] || most_seen=$sum
	done
	echo "at most $most_seen of $cap after a write"
	between 1 "$most_seen" "$cap"
}
ok "raised one after the other, they stay within 80 % at each write" within
sleep 1
first=$(floors ../a/1)
ok "then each has the same" is "$(floors ../a/2) $(floors ../a/8)" "$first $first"
all=$(floors ../a/[1-8] [0-9]*)
ok "all of them fill the 80 %, and no more" between $((cap - rounding)) "$all" "$cap"
limits $((128 << 20))
sleep 1
all=$(floors ../a/[1-8] [0-9]*)
ok "and follow the limit" between $((cap / 2 - rounding)) "$all" $((cap / 2))
sort -k3,3nr $sections | sed 's/^/# section /'
longest=$(awk '$1 == "lock" && $3 > most { most = $3 } END { print most + 0 }' $sections)
ok "no hold of more than $most ns, was $longest" between 1 "$longest" "$most"
ok "unloads" rmmod weir
finish
