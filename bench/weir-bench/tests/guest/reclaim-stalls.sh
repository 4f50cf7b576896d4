# SPDX-License-Identifier: GPL-2.0-only
# reclaim-stalls.sh STALL...: stages a lack of memory, has it explained, types the command that explain
# prints, and looks again.  STALLs are the functions stage_* below.
# Wants a disk "swap" of 64M/s; LRU=y or n: MGLRU.
. /tap.sh
. /verdict.sh
cd /sys/fs/cgroup || exit 1
# 6.1 may be without
[ ! -e /sys/kernel/mm/lru_gen/enabled ] || echo "${LRU:-y}" >/sys/kernel/mm/lru_gen/enabled
victim=victim

# takes_memory CGROUP MIB PATTERN [RATE]: in the background, until its cgroup is killed
takes_memory() {
	json="{\"size_bytes\": $(($2 << 20)), \"pattern\": \"$3\"${4:+, \"rate\": $4}}"
	(
		echo 0 >"$1/cgroup.procs"
		{ echo mark; exec sleep 3600; } | exec weir-memory "$json" >/dev/null
	) &
}
light() {
	takes_memory victim 2 fault 20
}
# hogs NUMBER MIB
hogs() {
	for _ in $(seq "$1"); do
		takes_memory noisy "$2" churn
	done
}

begin() {
	mkdir victim noisy
	# who computes is not the question
	echo 10000 >victim/cpu.weight
}
end() {
	for group in victim noisy; do
		echo 1 >$group/cgroup.kill
		while grep -q 'populated 1' $group/cgroup.events; do
			sleep 0.1
		done
		rmdir $group
	done
	wait
}

# went_to PART: seconds of the victim's
went_to() {
	sed -n '/"reclaim": {/,/}/p' /tmp/verdict |
		awk -v part="\"$1\":" '$1 == part { all = $2 } END { print all + 0 }'
}
# most STALL PART...: more than half of the time went to these
most() {
	stall=$1
	shift
	sum=$(for part in "$@"; do went_to "$part"; done | awk '{ all += $1 } END { print all }')
	ok "$stall: most of it is $*" \
		awk -v sum="$sum" -v all="$(lost reclaim)" 'BEGIN { exit !(sum * 2 > all) }'
}
# for_whom STALL CGROUP: who took most memory
for_whom() {
	took=$(sed -n '/"taken": \[/,/\]/s/^ *"cgroup": "\(.*\)",$/\1/p' /tmp/verdict | head -n 1)
	ok "$1: memory is reclaimed for $2" is "$took" "$2"
}

tasks() {
	cat victim/cgroup.procs noisy/cgroup.procs | wc -l
}
# cured STALL SECONDS: so long after the command was typed less than a tenth is lost
cured() {
	before=$(lost reclaim)
	alive=$(tasks)
	typed "$1"
	sleep "$2"
	removed "$1" reclaim "$before"
	ok "$1: no task was killed meanwhile ($alive)" is "$(tasks)" "$alive"
}

# others take all memory: a light task writes their pages to swap
stage_swap() {
	begin
	light
	hogs 3 200
	sleep 3
	explained swap reclaim /noisy memory.high
	most swap swap_out scanning_for_others
	for_whom swap /noisy
	cured swap 6
	end
}

# its own limit, with swap
stage_limit() {
	begin
	echo 48M >victim/memory.high
	takes_memory victim 80 churn
	sleep 3
	explained limit reclaim /victim memory.high
	most limit swap_out scanning_for_its_limit
	for_whom limit /victim
	cured limit 4
	end
}

# the same without: what is over the limit has nowhere to go
stage_over_high() {
	swapoff /dev/weir/swap
	begin
	echo 48M >victim/memory.high
	takes_memory victim 80 churn
	sleep 3
	explained over_high reclaim /victim memory.high
	most over_high over_high
	cured over_high 4
	end
	swapon /dev/weir/swap
}

for stall in "$@"; do
	"stage_$stall"
done
finish
