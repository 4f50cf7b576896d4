# SPDX-License-Identifier: GPL-2.0-only
# neighbour.sh [SECONDS] [SEED]: what a neighbour of the hostile tenant (hostile/) notices of its
# hostility.
#
# The disk has two partitions, one bdi: a tenant's fsync commits the journal of its own filesystem
# only.  On the neighbours' are
#   quick   a floor of 8 MiB, 4 MiB/s of 4 KiB write() over and over the same MiB: its 99th
#           percentile.  Of 8 MiB at 400 KiB/s half a per cent and more of the writes wait for
#           a journal or a CPU, and many take 15 to 28 us instead of 9: that percentile was of
#           one kind or another by chance (docs/experiments/0040)
#   bulk    a weight of 200, as fast as it can: bytes that reach the disk
# On the tenant's, weight 100, write in turns "polite", "steady", "steady", "polite": the hostile one
# without its hostility but with as many writers, then the hostile one.  What both rounds of a kind
# come to is compared: bulk must get 95 % or more of what the polite tenant leaves it, or of two
# thirds of the disk if that is less, and quick's percentile may be 5 % longer at most.
#
# CPU time is not weir's: the neighbours' cgroups have all of it that they want.
# Wants an empty disk "d", 4 MB/s, /hostile, and to count instructions.
. /tap.sh
seconds=${1:-60}
seed=${2:-1}
root=/sys/fs/cgroup
cd $root || exit 1

set_up() {
	disk=$(readlink -f /dev/weir/d)
	printf 'n\np\n1\n\n+450M\nn\np\n2\n\n\nw\n' | fdisk "$disk" >/dev/null
	soon test -b "${disk}p2" || soon test -b "${disk}2" || return 1
	[ -b "${disk}p2" ] && disk=${disk}p
	mkdir -p /mnt/tenant /mnt/own
	mkfs.ext4 -q -F "${disk}1" && mount "${disk}1" /mnt/tenant || return 1
	mkfs.ext4 -q -F "${disk}2" && mount "${disk}2" /mnt/own || return 1
	mkdir /mnt/tenant/files
	chown 1000:1000 /mnt/tenant/files
	echo "+memory +io +cpu" >cgroup.subtree_control
	mkdir quick bulk tenant || return 1
	echo 10000 >quick/cpu.weight
	echo 1000 >bulk/cpu.weight
	echo 1 >tenant/cpu.weight
	for file in . cgroup.procs cgroup.threads cgroup.subtree_control; do
		chown 1000:1000 tenant/$file || return 1
	done
	limits 16777216
	insmod /weir.ko || return 1
	echo 8M >quick/memory.dirty_min
	echo 200 >bulk/memory.dirty_weight
}

written() { # CGROUP
	awk '{ for (i = 2; i <= NF; i++) if (sub("^wbytes=", "", $i)) sum += $i }
		END { printf "%d\n", sum / 1024 }' $root/"$1"/io.stat
}

# phase KIND: adds a line to /tmp/KIND
phase() {
	/hostile $root/tenant /mnt/tenant/files $((seconds + 10)) "$seed" "$1" >/tmp/played 2>&1 &
	tenant=$!
	sleep 10
	before=$(written bulk)
	beside=$(written tenant)
	in_cgroup quick fio --name=quick --filename=/mnt/own/quick --rw=write --bs=4k --size=1m \
		--rate=4m --fallocate=posix --invalidate=0 --time_based --runtime="$seconds" \
		--output-format=json --output=/tmp/quick.json || return 1
	after=$(written bulk)
	p99=$(awk '$1 == "\"99.000000\"" { print $3 + 0; exit }' /tmp/quick.json)
	longest=$(awk '/"write" :/ { here = 1 } here && /"max"/ && n++ == 1 { print $3 + 0; exit }' /tmp/quick.json)
	echo "# $1: quick p99 $p99 ns, longest $longest ns; bulk $(((after - before) / seconds)) KiB/s," \
		"tenant $((($(written tenant) - beside) / seconds)) KiB/s, quick held $(stat quick nr_throttled)" | tee -a /tmp/told
	echo "$p99 $((after - before)) $(($(written tenant) - beside))" >>/tmp/$1
	wait $tenant || { cat /tmp/played; return 1; }
	rm -rf /mnt/tenant/files/*
	rmdir tenant/base
}

# mean COLUMN of both rounds, of a kind
mean() {
	awk -v column="$2" '{ sum += $column } END { printf "%d\n", sum / NR }' /tmp/"$1"
}
per_mille() { # COLUMN: the hostile one's of the polite one's
	echo $((1000 * $(mean steady "$1") / $(mean polite "$1")))
}

ok "set up" set_up
# shellcheck disable=SC2016 # the name is fio's
in_cgroup bulk fio --name=bulk --filename=/mnt/own/bulk --rw=write --bs=64k --size=64m --invalidate=0 \
	--fallocate=posix --time_based --runtime=99999 --output=/dev/null &
bulk=$!
ok "warmed up" phase polite
rm /tmp/polite
for kind in polite steady steady polite; do
	ok "$kind" phase $kind
done
cat /tmp/told
sed '/^#/d' /tmp/played | xargs -n 12 echo '#'
ok "quick: p99 per mille of what it is beside the polite tenant: $(per_mille 1)" \
	between 0 "$(per_mille 1)" 1050
# what its weight gives it, of what both had
due=$((2 * ($(mean steady 2) + $(mean steady 3)) / 3))
[ $due -lt "$(mean polite 2)" ] || due=$(mean polite 2)
bulk_got=$((1000 * $(mean steady 2) / due))
ok "bulk: bytes, per mille of what is due to it: $bulk_got" between 950 $bulk_got 100000
ok "quick was never throttled" is "$(stat quick nr_throttled_below_floor)" 0
kill $bulk
killall -q fio
ok "unloads" rmmod weir
finish
