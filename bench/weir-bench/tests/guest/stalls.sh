# SPDX-License-Identifier: GPL-2.0-only
# stalls.sh STALL...: stages a stall, has it explained, types the command that
# explain prints, and looks again.  STALLs are the functions stage_* below.
# Wants disks "d" of 1M/s and "e" of 4M/s, both ext4, and MODULE=y to load weir.ko.
. /tap.sh
. /verdict.sh
cd /sys/fs/cgroup || exit 1
[ "$MODULE" != y ] || insmod /weir.ko || exit 1

# writes CGROUP FILE OPTION...: fio in the background, until its cgroup is killed
writes() {
	[ "$1" != "$victim" ] || again="$*"
	group=$1
	file=$2
	shift 2
	in_cgroup "$group" fio --name=job --filename="$file" --rw=write --bs=4k --size=512M \
		--fallocate=none --time_based --runtime=300 "$@" >"/tmp/$(basename "$group").out" 2>&1 &
}

# top_shows CAUSE CULPRIT: of the victim, in one of two looks
top_shows() {
	weir top --json -n 2 --every 3s >/tmp/top || return 1
	grep -q "\"victim\":\"/$victim\",\"cause\":\"$1\",\"culprit\":\"$2\"" /tmp/top && is "$(wc -l </tmp/top)" 2 ||
		{ cat /tmp/top; return 1; }
}

# waits_in FILE PATTERN: a task of the victim's does, by /proc/TASK/FILE; its cgroup's pressure would be of any wait
waits_in() {
	while read -r task; do
		grep -q "$2" "/proc/$task/$1" 2>/dev/null && return
	done <"$victim/cgroup.threads"
	false
}

# until_stalled [FILE PATTERN]: in the throttle, or there, in ten looks, however slow the machine is
until_stalled() {
	looks=0
	for try in $(seq 600); do
		waits_in "${1:-wchan}" "${2:-^\(balance_dirty_pages\|io_schedule_timeout\)}" && looks=$((looks + 1))
		[ $looks -lt 10 ] || return 0
		sleep 0.1
	done
	echo "# $victim does not stall"
}

# until_held PAGES: so many of the host's are dirty or being written
until_held() {
	for try in $(seq 600); do
		held=$(awk '/^nr_(dirty|writeback) /{ n += $2 } END { print n }' /proc/vmstat)
		[ "$held" -lt "$1" ] || return 0
		sleep 0.1
	done
	echo "# no $1 pages are dirty"
}

# cured STALL SECONDS: some time after the printed command is typed a writer that begins then, and
# has nothing to catch up with, meets less than a tenth of the stall
cured() {
	before=$(lost throttle)
	typed "$1"
	echo 1 >"$victim/cgroup.kill"
	sleep "$2"
	# shellcheck disable=SC2086 # a list of arguments
	writes $again
	sleep 1
	removed "$1" throttle "$before"
}

begin() {
	victim=victim
	mkdir -p victim noisy
	limits 33554432
	# a journal that commits meanwhile makes writers wait too: only fsync shall
	for disk in d e; do
		mount -o remount,noatime,commit=300 /mnt/$disk
	done
}

end() {
	for group in victim noisy above/victim above; do
		[ -d "$group" ] || continue
		echo 1 >"$group/cgroup.kill"
		while grep -q 'populated 1' "$group/cgroup.events"; do
			sleep 0.1
		done
		rmdir "$group"
	done
	wait
	# what is dirty is not worth waiting for
	rm -rf /mnt/d/* /mnt/e/*
}

# bdi_of DIRECTORY: the device mounted there
bdi_of() {
	awk -v at="$1" '$5 == at { print $3 }' /proc/self/mountinfo
}

# with_module KNOB, or without it OTHER
with_module() {
	if [ "$MODULE" = y ]; then echo "$1"; else echo "$2"; fi
}

# the host's limit, filled by a neighbour
stage_host() {
	begin
	writes noisy /mnt/d/noisy
	until_held 6500
	writes victim /mnt/d/victim --rate=500k
	until_stalled
	explained host host_limit /noisy "$(with_module memory.dirty_min memory.high)"
	ok "host: top shows who stalls whom" top_shows host_limit /noisy
	cured host 5
	end
}

# a byte setting, scaled down to a small cgroup
stage_cgroup() {
	begin
	echo 48M >victim/memory.max
	writes victim /mnt/d/victim --rate=1300k
	until_stalled
	explained cgroup cgroup_limit /victim "$(with_module memory.dirty_min vm.dirty_bytes)"
	cured cgroup 2
	end
}

# a cgroup above that bounds it: a ceiling, or without weir its memory
stage_ancestor() {
	begin
	mkdir -p above
	echo "+memory +io" >above/cgroup.subtree_control
	mkdir -p above/victim
	victim=above/victim
	if [ "$MODULE" = y ]; then echo 2M >above/memory.dirty_bytes; else echo 48M >above/memory.max; fi
	writes above/victim /mnt/d/victim --rate=1300k
	until_stalled
	explained ancestor ancestor_limit /above "$(with_module memory.dirty_bytes memory.max)"
	cured ancestor 2
	end
}

# a device that is kept to its share: made strict by hand, or by being FUSE
stage_device() {
	begin
	bdi=$(bdi_of /mnt/d)
	directory=/mnt/d
	knob=strict_limit
	pace=--rate=1300k
	if [ -e "/sys/class/bdi/$bdi/strict_limit" ]; then
		echo 1 >"/sys/class/bdi/$bdi/strict_limit"
		echo 5 >"/sys/class/bdi/$bdi/max_ratio"
	else
		. /stacks.sh
		modprobe fuse
		mkdir /tmp/below
		stack fuse /tmp/below
		directory=/mnt/fuse
		bdi=$(bdi_of /mnt/fuse)
		knob=max_ratio
		# A write() of a page asks the daemon first, so it is never ahead of it. Bursts of larger ones are: more than
		# this device's hundredth of the host's limit, less than all of it.
		pace="--bs=1M --size=64M --thinktime=500ms --thinktime_blocks=4"
	fi
	# shellcheck disable=SC2086 # a list of arguments
	writes victim "$directory/victim" $pace
	until_stalled
	explained device device_limit "$bdi" $knob
	cured device 2
	end
	if [ $knob = max_ratio ]; then
		umount /mnt/fuse
	else
		echo 100 >"/sys/class/bdi/$bdi/max_ratio"
	fi
}

# pages that may not be written as fast as the disk could
stage_iomax() {
	begin
	echo "$(bdi_of /mnt/e) wbps=262144" >victim/io.max
	dirty /mnt/e/fill 28 victim
	writes victim /mnt/e/victim --rate=1m
	until_stalled
	explained iomax io_max /victim io.max
	cured iomax 10
	end
}

# fsync while the journal carries another task's data
stage_fsync() {
	begin
	limits 268435456
	writes noisy /mnt/d/noisy --rate=3m
	until_held 1500
	writes victim /mnt/d/victim --rate=100k --fsync=1
	# fsync() is number 74; of a task that runs the file says so
	until_stalled syscall "^74 "
	explained fsync fsync_or_journal /noisy "$(with_module memory.writeback_bytes nr_requests)"
	end
}

# what a cgroup may dirty a second; with the module alone
stage_bandwidth() {
	begin
	echo 128K >victim/memory.dirty_bandwidth
	writes victim /mnt/d/victim --rate=512k
	until_stalled wchan "^weir_bandwidth_"
	explained bandwidth bandwidth /victim memory.dirty_bandwidth
	ok "bandwidth: top shows it, too" top_shows bandwidth /victim
	end
}

# reads that are held back: nothing that dirty pages have to do with
stage_reads() {
	begin
	dirty /mnt/e/file 8 noisy
	sync
	echo "$(bdi_of /mnt/e) rbps=65536" >victim/io.max
	in_cgroup victim fio --name=job --filename=/mnt/e/file --rw=randread --bs=4k --direct=1 \
		--time_based --runtime=300 >/dev/null 2>&1 &
	sleep 3
	explained reads not_writeback /victim io.max
	end
}

for stall in "$@"; do
	"stage_$stall"
done
finish
