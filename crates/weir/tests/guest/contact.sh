# SPDX-License-Identifier: GPL-2.0-only
# contact.sh STALL...: what people come with before they have the module, beside first-contact.sh: each is
# explained, the first command is typed as printed, and the wait has to come below a tenth.
# STALLs are the functions stage_* below. Wants disk "d" of 8M/s (ext4, 1G); fuse wants fuse-overlayfs;
# flusher wants /weir_submit.ko, dm_mod, dmsetup, four CPUs and a disk of 20M/s.
. /tap.sh
. /stacks.sh
. /verdict.sh
cd /sys/fs/cgroup || exit 1
echo "+memory +io" >cgroup.subtree_control

# fio CGROUP OPTION...: in the background, until its cgroup is killed
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
# shown STALL: that nothing helps, with a reason
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

# the host's limit, filled by a neighbour
stage_write() {
	begin app
	flood
	fio_in app --rate=500k --size=64m
	sleep 5
	explained write host_limit /flood memory.high
	before=$(lost throttle)
	typed write
	echo 1 >app/cgroup.kill
	sleep 8
	fio_in app --rate=500k --size=64m
	sleep 2
	removed write throttle "$before"
	end
}

# takes_memory CGROUP MIB PATTERN [RATE]
takes_memory() {
	json="{\"size_bytes\": $(($2 << 20)), \"pattern\": \"$3\"${4:+, \"rate\": $4}}"
	(
		echo 0 >"$1/cgroup.procs"
		{ echo mark; exec sleep 3600; } | exec weir-memory "$json" >/dev/null
	) &
}

# memory of the host, full of what another has dirtied
stage_reclaim() {
	begin app 800000000
	echo 10000 >app/cpu.weight
	flood
	takes_memory app 300 churn
	sleep 20
	explained reclaim reclaim /flood memory.high
	before=$(lost reclaim)
	typed reclaim
	sleep 20
	removed reclaim reclaim "$before"
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

# a client of FUSE whose daemon is held for another's pages
stage_fuse() {
	begin app
	stack fuse /mnt/d
	flood
	in_cgroup app fio --name=job --directory=/mnt/fuse --rw=write --bs=64k --size=64m --rate=500k --time_based --runtime=3000 >/tmp/app.out 2>&1 &
	sleep 5
	explained fuse host_limit /flood memory.high
	before=$(lost fuse)
	typed fuse
	sleep 10
	removed fuse fuse "$before"
	echo 1 >app/cgroup.kill
	sleep 1
	umount /mnt/fuse
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
# close() on NFS: wants nfs-kernel-server, nfs-common, nfsd and nfsv4
stage_close() {
	mkdir /mnt/d/export
	stack nfs /mnt/d/export || exit 1
	begin db 134217728
	flood
	again 'dd if=/dev/zero of=/mnt/nfs/x bs=64k count=4'
	told close
	umount /mnt/nfs
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

# a flusher that submits 8M/s of the 20M/s that the disk could do
stage_flusher() {
	umount /mnt/d
	disk=$(readlink -f /dev/weir/d)
	modprobe dm_mod
	insmod /weir_submit.ko || exit 1
	echo 1 >/sys/module/weir_submit/parameters/free
	echo "0 $(cat "/sys/class/block/${disk##*/}/size") weir_submit $disk 8388608" |
		dmsetup create --noudevsync slow || exit 1
	mount /dev/dm-0 /mnt/d || exit 1
	begin app
	in_cgroup flood fio --name=flood --directory=/mnt/d --rw=write --bs=1m --size=40m --numjobs=8 \
		--thread --end_fsync=1 >/dev/null 2>&1
	echo 0 >/sys/module/weir_submit/parameters/free
	fio_in flood --name=flood --rw=randwrite --bs=128k --size=40m --numjobs=8 --thread "${1:---rate=1700k}"
	fio_in app --rate=500k --size=64m
	sleep 12
	explained flusher host_limit /flood
	before=$(lost throttle)
	typed flusher
	sleep 10
	removed flusher throttle "$before"
	end
}

for stall in "$@"; do
	"stage_$stall"
done
finish
