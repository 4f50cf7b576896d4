# SPDX-License-Identifier: GPL-2.0-only
# A user's own containers: a ceiling is theirs to set, a floor is not, it is taken from
# all users.  What they ask the agent for they do not get.
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

# knobs CGROUP: the floor and the ceiling
knobs() {
	cat "/sys/fs/cgroup$1/memory.dirty_min" "/sys/fs/cgroup$1/memory.dirty_bytes" | paste -sd ' '
}
ask="weir.dev/dirty-min=4M"
printf '[requests]\ncontainers = "all"\n' >/etc/weir/agent.toml
systemctl restart weir-agent
ok "root's container asks for a floor" podman run -d --name roots --network=none --annotation $ask $image /bin/sh -c "$forever"
group=$(group_of "$(podman inspect -f '{{.State.Pid}}' roots)")
group=${group%/container} # which crun makes
ok "a user's asks for the same" as_owner podman run -d --name asks --network=none --annotation $ask $image /bin/sh -c "$forever"
mine=$(group_of "$(as_owner podman inspect -f '{{.State.Pid}}' asks)")
mine=${mine%/container}
ok "a user's unit does" sh -c '
	mkdir -p /home/owner/.config/systemd/user
	printf "[Service]\nExecStart=/bin/sleep infinity\nX-Weir-DirtyMin=4M\n" >/home/owner/.config/systemd/user/mine.service'
ok "and starts" as_owner systemctl --user start mine
ok "a user takes the name of root's container" as_owner systemd-run --user --quiet --slice=app.slice \
	--unit="${group##*/}" --scope sh -c 'sleep 1000 >/dev/null 2>&1 &'
manager=/user.slice/user-$id.slice/user@$id.service/app.slice
ok "root's has its floor" comes_to "4194304 max" knobs "$group"
sleep 11 # a scan
ok "the user's container has none" is "$(knobs "$mine")" "0 max"
ok "nor the user's unit" is "$(knobs $manager/mine.service)" "0 max"
ok "nor what is called like root's" is "$(knobs "$manager/${group##*/}")" "0 max"
podman rm -f -t 0 roots >/dev/null
systemctl stop weir-agent
finish
