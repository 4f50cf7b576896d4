# SPDX-License-Identifier: GPL-2.0-only
# weight-evaded.sh [SECONDS [ACTION...]]: a tenant that shuffles its tasks and cgroups gets no more of a disk.
#
# "bulk" (200) and "tenant" (100) write as fast as they can.  While the tenant
#   stays      its eight writers stay where they are
#   moves      all writers go from one of its cgroups to the other, ten times a second
#   replaces   the memory controller of its children goes and comes back, five times a second: each
#              time they are new to the kernel, and owe nothing
#   strays     each writer dirties 28 pages there and 64 on an idle disk, so that its passes are
#              about the idle one
#   digs       the same as replaces, with twenty writers 1,000 levels down: what a round has to walk
# bulk is to get what it gets while the tenant stays, and at least half of the disk.
#
# Wants a disk "d" with ext4, slow, one "u", fast, and to count instructions.
. /tap.sh
seconds=${1:-15}
[ $# -eq 0 ] || shift
root=/sys/fs/cgroup
cd $root || exit 1

set_up() {
	limits 16777216
	echo "+memory +io" >cgroup.subtree_control
	mkdir bulk tenant tenant/a tenant/b || return 1
	echo "+memory +io" >tenant/cgroup.subtree_control
	insmod /weir.ko && echo 200 >bulk/memory.dirty_weight
}
# a chain of cgroups below tenant, and twenty at its end
dig() {
	deep=tenant/c
	mkdir $deep || return 1
	for _ in $(seq 1000); do
		echo "+memory +io" >$deep/cgroup.subtree_control || return 1
		deep=$deep/c
		mkdir $deep || return 1
	done
	echo "+memory +io" >$deep/cgroup.subtree_control
	for i in $(seq 20); do
		mkdir $deep/$i || return 1
	done
}
digs() {
	echo -memory >$deep/cgroup.subtree_control
	usleep 50000
	echo +memory >$deep/cgroup.subtree_control
	usleep 50000
}
# as long as there is /tmp/going: writes CGROUP NAME
writes() {
	echo 0 >$root/"$1"/cgroup.procs
	while [ -e /tmp/going ]; do
		dd if=/dev/zero of=/mnt/d/"$2" bs=64k count=128 conv=notrunc 2>/dev/null
	done
}
stays() {
	sleep 1
}
strays() {
	sleep 1
}
moves() {
	for to in b a; do
		for task in $(cat tenant/a/cgroup.procs tenant/b/cgroup.procs); do
			echo "$task" >tenant/$to/cgroup.procs
		done 2>/dev/null
		usleep 100000
	done
}
replaces() {
	echo -memory >tenant/cgroup.subtree_control
	usleep 100000
	echo +memory >tenant/cgroup.subtree_control
	usleep 100000
}
writes_astray() {
	echo 0 >$root/"$1"/cgroup.procs
	awk -v slow=/mnt/d/"$2" -v fast=/mnt/u/"$2" 'BEGIN {
		page = sprintf("%4096s", "")
		while ((getline line <"/tmp/going") >= 0) {
			close("/tmp/going")
			for (i = 0; i < 92; i++) {
				file = i < 28 ? slow : fast
				printf "%s", page >file
				fflush(file)
			}
		}
	}'
}
# 4 KiB pages of the disk that bulk's and all writers' files took
written() { # CGROUP
	awk -v disk="$(cat "/sys/class/block/$(basename "$(readlink -f /dev/weir/d)")/dev")" \
		'$1 == disk { for (i = 2; i <= NF; i++) if (sub("^wbytes=", "", $i)) sum += $i }
		END { printf "%d\n", sum / 1024 }' "$1"/io.stat
}
# what of 1,000 bytes are bulk's
share() { # ACTION
	touch /tmp/going
	(writes bulk bulk) &
	if [ "$1" = digs ]; then
		for i in $(seq 20); do
			(writes $deep/"$i" tenant"$i") &
		done
	else
		how=writes
		[ "$1" != strays ] || how=writes_astray
		for i in 1 2 3 4 5 6 7 8; do
			($how tenant/a tenant$i) &
		done
	fi
	sleep 3
	bulk=$(written bulk)
	tenant=$(written tenant)
	end=$(($(date +%s) + seconds))
	while [ "$(date +%s)" -lt $end ]; do
		$1
	done
	bulk=$(($(written bulk) - bulk))
	tenant=$(($(written tenant) - tenant))
	rm /tmp/going
	wait
	rm -f /mnt/d/* /mnt/u/* 2>/dev/null
	sync
	echo "# $1: bulk $bulk KiB, tenant $tenant KiB"
	echo $((1000 * bulk / (bulk + tenant))) >/tmp/share.$1
}

ok "set up" set_up
for action in ${*:-stays moves replaces strays digs}; do
	[ $action != digs ] || ok "digs" dig
	share $action
	ok "bulk's part of 1,000 while the tenant $action: $(cat /tmp/share.$action)" \
		between 500 "$(cat /tmp/share.$action)" 1000
done
ok "unloads" rmmod weir
finish
