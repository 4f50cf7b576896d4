# SPDX-License-Identifier: GPL-2.0-only
# A cgroup below a floor that loses its device's place among those its record remembers, to cgroups
# of its own that come and go: what it wrote before does not vouch anew for what it rewrites of
# another's.  Wants one CPU that counts instructions, the driver brd, and a disk (for mkfs.ext4).
. /tap.sh
insmod /weir.ko || exit 1
modprobe brd rd_nr=1 rd_size=262144 || exit 1
mkdir /tmp/r && mkfs.ext4 -q -F /dev/ram0 && mount /dev/ram0 /tmp/r || exit 1
# nothing is written back by itself while we count
echo 360000 >/proc/sys/vm/dirty_writeback_centisecs
limits 268435456
root=/sys/fs/cgroup
echo "+memory +io" >$root/cgroup.subtree_control
mkdir $root/b $root/c
echo 192M >$root/b/memory.dirty_min
echo "+memory +io" >$root/b/cgroup.subtree_control
mkdir $root/b/old

# writes CGROUP FILE MEBIBYTES, and all is written back
writes() {
	in_cgroup "$1" dd if=/dev/zero of=/tmp/r/$2 bs=256k count=$(($3 * 4)) conv=notrunc 2>/dev/null
	sync
}
foreign_bytes() {
	awk '$1 == "foreign" { print $2 }' $root/b/memory.dirty_stat
}
now_ms() {
	awk '{ print int($1 * 1000) }' /proc/uptime
}
# all is forgiven in a minute
begin() {
	while [ "$(foreign_bytes)" != 0 ]; do
		usleep 500000
	done
	began=$(now_ms)
}
# foreign bytes since then: of 192 MiB a 60th is forgiven in a second, and in each beat a page
since_then() {
	echo $(($(foreign_bytes) + ($(now_ms) - began) * 3376))
}
# foreign: of what b/old rewrites of c's, in bytes
foreign() {
	begin
	writes b/old c 20
	since_then
}
writes c c 20
# the first pass is judged by b's record, as there is none of b/old's
writes b/old own 1
sleep 1
writes b/old own 24
ok "what it rewrites of another's is foreign" between 19000000 "$(foreign)" 24000000
for cycle in 1 2 3; do
	echo "+memory +io" >$root/b/old/cgroup.subtree_control
	for young in $(seq 40); do
		mkdir $root/b/old/$young
		writes b/old/$young young$young 1
		rmdir $root/b/old/$young
	done
	echo "-memory -io" >$root/b/old/cgroup.subtree_control
	# files of theirs are its own now: its wb recorded what they rewrote
	writes b/old own 1
	ok "and so it is after it lost its place $cycle times" \
		between 19000000 "$(foreign)" 24000000
done
finish
