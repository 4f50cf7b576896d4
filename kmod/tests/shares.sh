# SPDX-License-Identifier: GPL-2.0-only
# What each cgroup gets of a slow disk "d" by weight, of what is its due, and what the disk writes,
# of what it writes without weights in the same guest.  No verdict: docs/experiments/0049 has the table.
#
#   shares.sh SECONDS WINDOWS CGROUP:WEIGHT:TASKS[:rand]... [, CGROUP:...]...
#
# A case ends at a comma.  a/b is a child: its due is its part of its parent's, whose own weight is set
# by a:WEIGHT:0, named before it.  A name that begins with "fsync" or "read" is no flood: it calls fdatasync() after each 4 KiB, 20 a second, or reads 4 KiB
# that are not cached, 20 a second; its latencies are shown instead.
. /tap.sh
seconds=$1 windows=$2
shift 2
insmod /weir.ko || exit 1
cd /sys/fs/cgroup || exit 1
echo "+memory +io" >cgroup.subtree_control
limits "${LIMIT:-67108864}"
disk=$(basename "$(readlink -f /dev/weir/d)")

# split SPEC: name, weight, tasks, order
split() {
	IFS=: read -r name weight tasks order <<-END
		$1
	END
}

# begin SPEC: its cgroup, with its tasks
begin() {
	split "$1"
	case $name in
	*/*)
		mkdir -p "${name%/*}"
		echo "+memory +io" >"${name%/*}/cgroup.subtree_control"
		;;
	esac
	mkdir -p "$name"
	[ "$tasks" != 0 ] || return 0
	file=$(echo "$name" | tr / -)
	case $name in
	fsync*) set -- --rw=write --bs=4k --size=16m --rate_iops=20 --fdatasync=1 --time_based --overwrite=1 ;;
	read*) set -- --rw=randread --bs=4k --size=64m --rate_iops=20 --invalidate=1 --time_based ;;
	*)
		set -- --rw=write --bs=64k --size="${SIZE:-300m}" --fallocate=none --invalidate=0 --time_based
		[ "$order" != rand ] || set -- "$@" --rw=randwrite --bs=4k
		;;
	esac
	# shellcheck disable=SC2016 # the names are fio's
	in_cgroup "$name" fio --name="$file" --numjobs="$tasks" --filename_format='$jobname.$jobnum' \
		--directory=/mnt/d --runtime=9999 --group_reporting --output="/tmp/$file.fio" \
		--percentile_list=50:99 "$@" >/dev/null 2>&1 &
}

written() {
	awk '{ for (i = 2; i <= NF; i++) if (sub("^wbytes=", "", $i)) sum += $i } END { printf "%.0f", sum }' "$1/io.stat"
}

# figures SPEC...: bytes of each flood, of the disk, the time
figures() {
	for spec in "$@"; do
		split "$spec"
		case $name:$tasks in
		fsync* | read*) ;;
		*:0) echo "$name:$weight:parent" ;;
		*) echo "$name:$weight:$(written "$name")" ;;
		esac
	done
	awk '{ print "disk::" $7 * 512 }' "/sys/block/$disk/stat"
	awk '{ print "up::" $1 }' /proc/uptime
}

# window TEXT SPEC...: what happens in that many seconds
window() {
	text=$1
	shift
	figures "$@" >/tmp/before
	sleep "$seconds"
	figures "$@" >/tmp/after
	paste -d: /tmp/before /tmp/after | awk -F: -v text="$text" '
		$1 == "disk" { disk = $6 - $3; next }
		$1 == "up" { time = $6 - $3; next }
		{ weight[$1] = $2 }
		$3 == "parent" { next }
		{ n++; name[n] = $1; got[n] = $6 - $3; all += got[n] }
		function above(name) { return index(name, "/") ? substr(name, 1, index(name, "/") - 1) : "" }
		# its part among its siblings, of what is due to its parent
		function due(name,    of, sum, up) {
			up = above(name)
			for (of in weight)
				if (above(of) == up) sum += weight[of]
			return weight[name] / sum * (up == "" ? 1 : due(up))
		}
		END {
			least = 99
			for (i = 1; i <= n; i++) {
				of = got[i] / all / due(name[i])
				if (n < 7) printf "# %s %s: %.3f of due\n", text, name[i], of
				if (of < least) least = of
				if (of > most) most = of
			}
			printf "shares %s: least %.3f most %.3f, disk %.2f MB/s\n", text, least, most, disk / time / 1e6
		}'
}

# latencies SPEC...: of those that are no floods, which end
latencies() {
	for spec in "$@"; do
		split "$spec"
		case $name in fsync* | read*) ;; *) continue ;; esac
		for task in $(cat "$name/cgroup.procs"); do
			kill -INT "$task"
		done
		for task in $(cat "$name/cgroup.procs"); do
			soon gone "$task"
		done
		grep -A1 'percentiles' "/tmp/$name.fio" | tail -2 | tr -s ' |\n' ' ' | sed "s/^/# $name: /"
		echo
	done
}

gone() {
	[ ! -e "/proc/$1" ]
}

one_case() {
	echo "# case $*"
	for spec in "$@"; do
		begin "$spec"
	done
	sleep 15
	window without "$@"
	latencies "$@"
	for spec in "$@"; do
		split "$spec"
		case $name in fsync* | read*) begin "$spec" ;; esac
		echo "$weight" >"$name/memory.dirty_weight"
	done
	sleep 10
	for _ in $(seq "$windows"); do
		window weights "$@"
	done
	latencies "$@"
	for spec in "$@"; do
		split "$spec"
		echo 1 >"$name/cgroup.kill"
		echo 100 >"$name/memory.dirty_weight"
	done
	wait
	for file in /mnt/d/*; do
		[ ! -f "$file" ] || rm "$file"
	done
	sync
}

while [ $# -gt 0 ]; do
	list=
	while [ $# -gt 0 ] && [ "$1" != , ]; do
		list="$list $1"
		shift
	done
	[ $# -eq 0 ] || shift
	# shellcheck disable=SC2086 # a list
	one_case $list
done
exit 0
