# SPDX-License-Identifier: GPL-2.0-only
# Without the module there is no memory.dirty_min: who insists on it is refused by the
# runtime, with a message that names the file; who does not runs as ever.
. ./containers.sh

make_rootfs
ok "podman imports an image" sh -c "tar -C $rootfs -c . | podman import - busy"
run="podman run --rm --network=none"
for runtime in crun runc; do
	ok "$runtime: a container without knobs runs" $run --runtime $runtime busy /bin/true
	shown "podman run --runtime $runtime --cgroup-conf=memory.dirty_min=16777216" \
		$run --runtime $runtime --cgroup-conf=memory.dirty_min=16777216 busy /bin/true
	ok "$runtime: refused, the message names the file" says memory.dirty_min \
		$run --runtime $runtime --cgroup-conf=memory.dirty_min=16777216 busy /bin/true
done

write='echo 16M >/sys/fs/cgroup/system.slice/%n/memory.dirty_min'
ok "a unit whose ExecStartPre may not fail does not start" says "" \
	systemd-run --wait --unit=must.service -p "ExecStartPre=+/bin/sh -c '$write'" true
ok "with ExecStartPre=-+ it does" \
	systemd-run --wait --unit=may.service -p "ExecStartPre=-+/bin/sh -c '$write'" true
finish
