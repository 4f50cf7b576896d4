# SPDX-License-Identifier: GPL-2.0-only
# What a floor's task rewrites of its own files is not foreign, and what it rewrites of another
# cgroup's is, on however many devices it does so in turn.  A group remembers 32.  What it wrote
# before its cgroup had a group vouches for nothing afterwards.  Wants to count instructions, one
# CPU, the driver brd, and a disk (for mkfs.ext4).
. /tap.sh
disks=40
insmod /weir.ko || exit 1
modprobe brd rd_nr=$disks rd_size=16384 || exit 1
# nothing is written back by itself while we count
echo 360000 >/proc/sys/vm/dirty_writeback_centisecs
limits 268435456
echo "+memory +io" >/sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/b /sys/fs/cgroup/c
echo 192M >/sys/fs/cgroup/b/memory.dirty_min

# on each disk a file of c's, and on 32 one of b's
for i in $(seq $disks); do
	mkdir /tmp/$i
	mkfs.ext4 -q -F /dev/ram$((i - 1)) && mount /dev/ram$((i - 1)) /tmp/$i || exit 1
	in_cgroup c dd if=/dev/zero of=/tmp/$i/c bs=512k count=1 2>/dev/null
	[ $i -gt 32 ] || in_cgroup b dd if=/dev/zero of=/tmp/$i/b bs=1M count=2 2>/dev/null
done
sync

# one task of b's rewrites a file on each of the first disks, one after the other, and all is written
foreign=0
rewrites() { # FILE KIBIBYTES DISKS
	files=
	for i in $(seq "$3"); do
		files=$files:/tmp/$i/$1
	done
	in_cgroup b fio --name=b --thread --rw=write --bs=4k --invalidate=0 --fallocate=none \
		--filename="${files#:}" --file_service_type=sequential \
		--size=$(($2 * $3))k >/tmp/fio.out || return 1
	foreign=$(since_then)
	sync
}
foreign_bytes() {
	awk '$1 == "foreign" { print $2 }' /sys/fs/cgroup/b/memory.dirty_stat
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
begin
ok "files of its own are rewritten on 32 disks" rewrites b 2048 32
ok "of which $foreign bytes of 67,108,864 are foreign" between 0 "$foreign" 20000000
begin
ok "another's are on 40" rewrites c 512 40
begin
ok "and once more" rewrites c 512 40
ok "of which $foreign bytes of 20,971,520 are foreign" between 19000000 "$foreign" 27000000

# cgroups below the floor's, at first judged by its group: 6 MiB of their own are reported to that,
# and 6 MiB of another's to their own groups
echo "+memory +io" >/sys/fs/cgroup/b/cgroup.subtree_control
begin
for young in 1 2 3; do
	mkdir /sys/fs/cgroup/b/$young
	in_cgroup b/$young dd if=/dev/zero of=/tmp/$young/young bs=6M count=1 2>/dev/null
	# the beat makes its group
	usleep 900000
	in_cgroup b/$young dd if=/dev/zero of=/tmp/$young/young2 bs=256k count=1 2>/dev/null
	in_cgroup b/$young sh -c 'for i in $(seq 12); do
		dd if=/dev/zero of=/tmp/$i/c bs=512k count=1 conv=notrunc
	done' 2>/dev/null
	sync
	rmdir /sys/fs/cgroup/b/$young
done
foreign=$(since_then)
ok "young cgroups rewrite another's: of 18,874,368 bytes $foreign are foreign" \
	between 16000000 "$foreign" 26000000
for i in $(seq $disks); do
	umount /tmp/$i
done
rmmod weir
finish
