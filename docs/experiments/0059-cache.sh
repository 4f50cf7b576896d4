# SPDX-License-Identifier: GPL-2.0-only
# A bound on a cgroup's page cache, kept once a second by memory.reclaim with swappiness=0, as an agent
# would: refaults that it saves others, and those that it costs the bounded cgroup. Wants disk "d" of
# 64M/s and "e" of 32M/s, both ext4, and 512 MiB of memory.
. /tap.sh
cd /sys/fs/cgroup || exit 1
echo "+memory +io" >cgroup.subtree_control
mkdir work stream
seconds=${SECONDS_EACH:-20}

flat() { # CGROUP KEY
	awk -v key="$2" '$1 == key { print $2 }' "$1/memory.stat"
}
read_bytes() { # CGROUP
	awk '{ for (i = 2; i <= NF; i++) if (sub(/^rbytes=/, "", $i)) sum += $i } END { printf "%d", sum / 1048576 }' "$1/io.stat"
}
# bounded BYTES: stream's page cache, for ever
bounded() {
	while :; do
		over=$(($(flat stream file) - $1))
		[ $over -lt 1048576 ] || echo "$over swappiness=0" >stream/memory.reclaim
		sleep 1
	done 2>/dev/null
}
# work MIB: random reads of a set that fits
work() {
	in_cgroup work fio --name=work --filename=/mnt/e/set --rw=randread --bs=4k --size="$1m" --rate_iops=1000 \
		--time_based --runtime="$seconds" --output-format=json --output=/tmp/work.json >/dev/null 2>&1
}
# reads_once: files, one after the other, larger than memory together
reads_once() {
	in_cgroup stream sh -c 'while :; do for file in /mnt/d/big*; do dd if=$file of=/dev/null bs=128k 2>/dev/null; done; done' &
}
# reads_again: a set of its own of 80 MiB
reads_again() {
	in_cgroup stream fio --name=again --filename=/mnt/d/big1 --rw=randread --bs=4k --size=80m --rate_iops=1000 \
		--time_based --runtime=3000 >/dev/null 2>&1 &
}
# measured LABEL STREAM BOUND: the figures of one
measured() {
	echo 3 >/proc/sys/vm/drop_caches
	in_cgroup work dd if=/mnt/e/set of=/dev/null bs=128k count=$((set * 8)) 2>/dev/null
	in_cgroup work dd if=/mnt/e/set of=/dev/null bs=128k count=$((set * 8)) 2>/dev/null
	"$2"
	sleep 5
	case $3 in
	none) ;;
	high*) echo "${3#high}" >stream/memory.high ;;
	*) bounded "$3" & ;;
	esac
	keeper=$!
	sleep 10
	before="$(flat work workingset_refault_file) $(flat stream workingset_refault_file) $(read_bytes stream) $(read_bytes work)"
	work $set
	after="$(flat work workingset_refault_file) $(flat stream workingset_refault_file) $(read_bytes stream) $(read_bytes work)"
	p99=$(sed -n 's/^ *"99.000000" : \([0-9]*\),*$/\1/p' /tmp/work.json | sort -n | tail -n 1 | awk '{ print $1 / 1e3 }')
	# shellcheck disable=SC2086 # lists of numbers
	set -- "$1" "$2" "$3" $before $after
	echo "# $1, $2, $3: work: $(($8 - $4)) refaults, $((${11} - $7)) MiB read, p99 $p99 us; stream: $(($9 - $5)) refaults, $((${10} - $6)) MiB read, holds $(($(flat stream file) / 1048576)) MiB"
	[ "$3" = none ] || [ "${3#high}" != "$3" ] || kill $keeper
	echo max >stream/memory.high
	echo 1 >stream/cgroup.kill
	wait 2>/dev/null
}

for file in 1 2 3; do
	dd if=/dev/zero of=/mnt/d/big$file bs=1M count=160 2>/dev/null
done
dd if=/dev/zero of=/mnt/e/set bs=1M count=240 2>/dev/null
sync
bound=33554432
echo "# files are there after $(sed "s/ .*//" /proc/uptime) s"
for lru in ${LRU:-y n}; do
	echo "$lru" >/sys/kernel/mm/lru_gen/enabled
	set=200
	for how in none $bound high$bound; do measured "MGLRU $lru" reads_once $how; done
	set=100
	for how in none $bound; do measured "MGLRU $lru" reads_again $how; done
done
ok "measured" true
finish
