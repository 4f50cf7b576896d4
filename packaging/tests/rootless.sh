# SPDX-License-Identifier: GPL-2.0-only
# A user's own containers: a ceiling is theirs to set, a floor is not, it is taken from
# everybody.
. ./containers.sh

make_rootfs
loginctl enable-linger owner
id=$(id -u owner)
for second in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
	[ ! -S /run/user/$id/bus ] || break
	sleep 1
done
as_owner() {
	runuser -u owner -- env -C /home/owner XDG_RUNTIME_DIR=/run/user/$id \
		DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/$id/bus "$@"
}
run="as_owner podman run --rm --network=none"

ok "a user imports an image" import as_owner podman
ok "a user's container runs" $run $image /bin/true
ok "a user sets a ceiling" $run --cgroup-conf=memory.dirty_bytes=67108864 $image /bin/true
ok "and finds it in the container's cgroup" sh -c '
	[ "$1" = 67108864 ]' sh "$($run --cgroup-conf=memory.dirty_bytes=67108864 $image /bin/cat /sys/fs/cgroup/memory.dirty_bytes)"
shown "a user's podman run --cgroup-conf=memory.dirty_min=16777216" \
	$run --cgroup-conf=memory.dirty_min=$floor $image /bin/true
ok "a user's floor is refused" says "Operation not permitted" \
	$run --cgroup-conf=memory.dirty_min=$floor $image /bin/true
finish
