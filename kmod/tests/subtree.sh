# SPDX-License-Identifier: GPL-2.0-only
# A floor covers its subtree: writers in children, and in cgroups made and removed
# meanwhile, beside a noisy neighbour that keeps the host at its limit.
# Wants a disk "d" of 8M/s.
. /tap.sh
cd /sys/fs/cgroup || exit 1
limits 33554432
insmod /weir.ko || exit 1
echo +memory +io >cgroup.subtree_control
mkdir -p pod/scope/container/leaf noisy
for above in pod pod/scope pod/scope/container; do
	echo +memory +io >$above/cgroup.subtree_control
done
leaf=pod/scope/container/leaf
page=$(page_size)

holds() {
	[ "$(awk -v page="$page" '/^nr_dirty |^nr_writeback /{ n += $2 } END { print n * page }' /proc/vmstat)" -gt "$1" ]
}

held() {
	echo $(($(stat "$1" subtree_dirty) + $(stat "$1" subtree_writeback)))
}

# unused LOW HIGH: what is reserved of all floors
unused() {
	between "$1" "$(cat /sys/kernel/weir/unused_bytes)" "$2"
}

# admitted CGROUP, throttled CGROUP
admitted() {
	stat "$1" nr_floor_admitted
}
throttled() {
	stat "$1" nr_throttled
}

echo 16M >pod/memory.dirty_min
ok "the floor is reserved, all of it" is "$(stat pod floor_unused)" 16777216
in_cgroup noisy sh -c 'while :; do dd if=/dev/zero of=/mnt/d/noisy bs=64k count=2048 conv=notrunc 2>/dev/null; done' &
noisy=$!
ok "the neighbour holds what is left" soon holds 12582912

dirty /mnt/d/leaf 8 $leaf
ok "a writer three levels down is never throttled below the floor" is "$(throttled $leaf)" 0
ok "because of the floor" between 1 "$(admitted $leaf)" 100000000
ok "what it holds is held under the floor above" between 4194304 "$(held pod)" 12582912
ok "and is not reserved any more" between 4194304 "$(stat pod floor_unused)" 12582912

mkdir pod/fresh
dirty /mnt/d/fresh 4 pod/fresh
ok "nor is one in a cgroup made since" is "$(throttled pod/fresh)" 0

# a removed cgroup's pages stay the subtree's
before=$(stat pod floor_unused)
soon rmdir pod/fresh
ok "a removed child's pages still count" between 0 "$(stat pod floor_unused)" $((before + 2097152))

# two children: the first to ask
mkdir pod/one pod/two
# a beat, so that what is admitted counts as theirs
sleep 1
dirty /mnt/d/one 24 pod/one
ok "beyond the floor a child is throttled" between 1 "$(throttled pod/one)" 100000
ok "as much as the floor went unthrottled" between 1 "$(admitted pod/one)" 100000000
dirty /mnt/d/two 4 pod/two
ok "its sibling shares the floor: nothing is left for it at once" between 0 "$(stat pod floor_unused)" 8388608

# a floor inside another is on top of it
rmdir pod/one
echo 8M >pod/two/memory.dirty_min
ok "both count in the pool" is "$(cat /sys/kernel/weir/floors_bytes)" 25165824
sync
passes=$(throttled pod/two)
dirty /mnt/d/two 20 pod/two
ok "inner and outer floor together let 20M through" is "$(throttled pod/two)" "$passes"
ok "the inner one is full" between 0 "$(stat pod/two floor_unused)" 1048576
ok "and what is beyond it fills the outer" between 1048576 "$(stat pod floor_unused)" 12582912

kill $noisy
wait $noisy 2>/dev/null
killall dd 2>/dev/null
sync
# but for the journal's pages that writers dirtied, which count as foreign for a while
ok "with nothing dirty all is unused" soon unused 24117248 25165824
rmdir pod/two $leaf pod/scope/container pod/scope
ok "the inner floor goes with its cgroup" soon unused 15728640 16777216
echo 0 >pod/memory.dirty_min
ok "nothing stays reserved" is "$(cat /sys/kernel/weir/unused_bytes)" 0
finish
