# SPDX-License-Identifier: GPL-2.0-only
# contact.sh STALL...: what people come with before they have the module, beside first-contact.sh: each is
# explained, the first command is typed as printed, and the wait has to come below a tenth.
# STALLs are the functions stage_* below. Wants disk "d" of 8M/s (ext4, 1G).
. /tap.sh
. /verdict.sh
. /stacks.sh
cd /sys/fs/cgroup || exit 1
echo "+memory +io" >cgroup.subtree_control
disk=$(readlink -f /dev/weir/d)
queue=/sys/class/block/${disk##*/}/queue
depth=$(cat "$queue/nr_requests") size=$(cat "$queue/max_sectors_kb")

# fio_in CGROUP OPTION...: in the background, until its cgroup is killed
fio_in() {
	group=$1
	shift
	in_cgroup "$group" fio --name=job --directory=/mnt/d --rw=write --bs=4k --time_based --runtime=3000 \
		"$@" >"/tmp/$group.out" 2>&1 &
}
flood() {
	in_cgroup flood sh -c 'while :; do dd if=/dev/zero of=/mnt/d/flood bs=64k count=8000 conv=notrunc 2>/dev/null; done' &
	sleep 8
}
begin() {
	mkdir -p flood "$1"
	victim=$1
	limits "${2:-33554432}"
}
end() {
	for group in flood "$victim"; do
		[ -d "$group" ] || continue
		echo 1 >"$group/cgroup.kill"
		while grep -q 'populated 1' "$group/cgroup.events"; do
			sleep 0.1
		done
		rmdir "$group"
	done
	wait
	# what was typed may have narrowed it
	echo "$depth" >"$queue/nr_requests"
	echo "$size" >"$queue/max_sectors_kb"
	# pages of a removed cgroup are the root's
	rm -rf /mnt/d/*
	sync
}
p50() { sed -n 's/^ *"p50_ms": \([0-9.]*\).*/\1/p' /tmp/verdict | head -n 1; }
longest() { sed -n 's/^ *"max_ms": \([0-9.]*\).*/\1/p' /tmp/verdict | head -n 1; }
# shorter STALL BEFORE AFTER: by a command that was printed
shorter() {
	echo "# $1: $2 ms before, $3 ms after"
	ok "$1: the command brings the wait below a tenth" \
		awk -v b="$2" -v a="$3" 'BEGIN { exit !(b > 0 && a * 10 < b) }'
}
# nothing_helps STALL: that nothing does, with a reason
nothing_helps() {
	ok "$1: it says that nothing helps" is "$(first why)" nothing_helps
	ok "$1: and prints no remedy" is "$(grep -c '"knob"' /tmp/verdict)" 0
}

# all that a filesystem has dirty, of one who syncs it
stage_syncfs() {
	begin db 134217728
	flood
	in_cgroup db sh -c 'while :; do echo x >>/mnt/d/log; sync -f /mnt/d/log; sleep 0.2; done' &
	seconds=30
	explained syncfs fsync_or_journal /flood
	# one that does not end is seen by looks alone
	before=$(awk -v p50="$(p50)" -v all="$(lost fsync)" 'BEGIN { print (p50 > 0 ? p50 : all * 1000) }')
	typed syncfs
	sleep 20
	explain
	sed 's/^/# after: /' /tmp/verdict
	shorter syncfs "$before" "$(p50)"
	seconds=8
	end
}

# the host's limit, filled by a neighbour, for one that wants a quarter of the disk: a slower one waits
# for the journal as long
stage_write() {
	begin app
	flood
	fio_in app --rate=2m --size=64m
	sleep 5
	explained write host_limit /flood memory.high
	before=$(lost throttle)
	typed write
	echo 1 >app/cgroup.kill
	sleep 8
	fio_in app --rate=2m --size=64m
	sleep 2
	removed write throttle "$before"
	end
}

# a database's fsync behind what a neighbour's io.max lets go at a time
stage_inverted() {
	begin db 67108864
	bdi=$(awk '$5 == "/mnt/d" { print $3 }' /proc/self/mountinfo)
	echo "$bdi wbps=1048576" >flood/io.max
	flood
	fio_in db --size=8m --fsync=1 --thinktime=50ms
	seconds=20
	explained inverted io_max /flood
	before=$(longest)
	typed inverted
	sleep 10
	explain
	sed 's/^/# after: /' /tmp/verdict
	shorter inverted "$before" "$(longest)"
	seconds=8
	end
}

# again COMMAND: in a loop, in the cgroup of the victim
again() {
	in_cgroup db sh -c "while :; do $1; sleep 0.05; done" >/dev/null 2>&1 &
}
# told STALL: that it is a wait for what is written, behind the flood, at all
told() {
	sleep 2
	explained "$1" fsync_or_journal /flood
	echo 1 >db/cgroup.kill
	sleep 1
}
# ways to wait for one's own writes that are no fsync()
stage_ways() {
	begin db 134217728
	flood
	cd /mnt/d && mkdir w && cd /sys/fs/cgroup || exit 1
	again 'echo x >/mnt/d/w/new; mv /mnt/d/w/new /mnt/d/w/old'
	told rename
	again 'echo x >/mnt/d/w/cut'
	told truncate
	fio_in db --size=8m --sync=dsync --thinktime=50ms
	told O_DSYNC
	fio_in db --size=8m --ioengine=io_uring --fsync=1 --thinktime=50ms
	told io_uring
	again 'fsfreeze --freeze /mnt/d; fsfreeze --unfreeze /mnt/d'
	told freeze
	fsfreeze --unfreeze /mnt/d
	end
}
# one who writes faster than the disk, alone: nothing lets it write faster
stage_alone() {
	begin app
	in_cgroup app sh -c 'while :; do dd if=/dev/zero of=/mnt/d/flood bs=64k count=8000 conv=notrunc 2>/dev/null; done' &
	sleep 8
	explained alone host_limit /app
	nothing_helps alone
	end
}

# a client of FUSE, whose daemon meets the host's limit, which a neighbour fills; what it waits for the
# daemon's own work and the journal's stays
stage_fuse() {
	begin app
	stack fuse /mnt/d
	flood
	seconds=16
	client &
	explained fuse host_limit /flood memory.high
	wait $!
	before=$(p99)
	typed fuse
	sleep 6
	client
	shorter fuse "$before" "$(p99)"
	seconds=8
	umount /mnt/fuse
	end
}
client() {
	in_cgroup app fio --name=job --directory=/mnt/fuse --rw=write --bs=64k --rate=2m --size=64m \
		--time_based --runtime=18 --output-format=json --output=/tmp/client.json >/dev/null 2>&1
}
# of the client's writes, in ms
p99() {
	sed -n 's/^ *"99.000000" : \([0-9]*\),*$/\1/p' /tmp/client.json | sort -n | tail -n 1 |
		awk '{ print $1 / 1000000 }'
}
# one that writes faster than the disk, alone
stage_fuse_alone() {
	begin app
	stack fuse /mnt/d
	in_cgroup app dd if=/dev/zero of=/mnt/fuse/x bs=64k count=30000 2>/dev/null &
	sleep 8
	explained fuse-alone host_limit /
	nothing_helps fuse-alone
	umount /mnt/fuse
	end
}
# a flusher that submits 8M/s of the 20M/s that the disk could do; wants /weir_submit.ko, dm_mod, dmsetup, four CPUs
stage_flusher() {
	umount /mnt/d
	modprobe dm_mod
	insmod /weir_submit.ko || exit 1
	echo 1 >/sys/module/weir_submit/parameters/free
	echo "0 $(cat "/sys/class/block/${disk##*/}/size") weir_submit $disk 8388608" |
		dmsetup create --noudevsync slow || exit 1
	mount /dev/dm-0 /mnt/d || exit 1
	begin app
	in_cgroup app fio --name=job --directory=/mnt/d --rw=write --bs=1m --size=40m --numjobs=8 \
		--thread --end_fsync=1 >/dev/null 2>&1
	echo 0 >/sys/module/weir_submit/parameters/free
	paced
	sleep 12
	explained flusher host_limit /app '[assist]'
	ok "flusher: it is said to be" grep -q flusher-bound /tmp/verdict
	before=$(lost throttle)
	ip link set lo up
	# in the foreground, as it was printed
	command=$(cat /tmp/command)
	echo "# $command"
	sh -c "$command" >/tmp/agent.out 2>&1 &
	agent=$!
	sleep 15
	# one that has nothing to catch up with
	echo 1 >app/cgroup.kill
	sleep 1
	paced
	sleep 20
	removed flusher throttle "$before"
	ok "flusher: it is the agent" kill $agent
	sed 's/^/# agent: /' /tmp/agent.out
	end
}

# an operator who has read the README alone: what stalls is not known, the text is read, what it prints
# first is typed; all of it within five minutes
stage_stranger() {
	begin db 134217728
	flood
	fio_in db --size=8m --fsync=1 --thinktime=50ms
	sleep 4
	began=$(uptime_s)
	weir explain >/tmp/said
	ended=$?
	sed 's/^/# /' /tmp/said
	echo "explain ended with $ended" >/tmp/verdict
	ok "stranger: explained" is $ended 0
	ok "stranger: the first is the database" grep -q '^/db: ' /tmp/said
	before=$(said_p50)
	sed -n 's/^  to change //p' /tmp/said | head -n 1 >/tmp/command
	typed stranger
	weir explain /db >/tmp/said
	sed 's/^/# after: /' /tmp/said
	took=$(($(uptime_s) - began))
	echo "# $took s from the first command to the second look"
	shorter stranger "$before" "$(said_p50)"
	ok "stranger: within five minutes" test $took -le 300
	end
}
# eight threads that want 13.6M/s together
paced() { fio_in app --rw=randwrite --bs=128k --size=40m --numjobs=8 --thread --rate=1700k; }
uptime_s() { sed 's/[. ].*//' /proc/uptime; }
# the p50 of waits in the text, in ms
said_p50() {
	sed -n 's/.*p50 \([0-9.]*\) \(ms\|s\),.*/\1 \2/p' /tmp/said | head -n 1 |
		awk '{ print $2 == "s" ? $1 * 1000 : $1 }'
}

for stall in "$@"; do
	"stage_$stall"
done
finish
