# SPDX-License-Identifier: GPL-2.0-only
# Without the module there is no memory.dirty_min: who insists on it is refused by the
# runtime, with a message that names the file; who does not runs as ever.
. ./containers.sh

make_rootfs
ok "podman imports an image" import podman
run="podman run --rm --network=none"
for runtime in crun runc; do
	ok "$runtime: a container without knobs runs" $run --runtime $runtime $image /bin/true
	shown "podman run --runtime $runtime --cgroup-conf=memory.dirty_min=16777216" \
		$run --runtime $runtime --cgroup-conf=memory.dirty_min=16777216 $image /bin/true
	ok "$runtime: refused, the message names the file" says memory.dirty_min \
		$run --runtime $runtime --cgroup-conf=memory.dirty_min=16777216 $image /bin/true
done

ok "a unit that insists does not start" says "control process exited with error code" unit must.service + no
ok "which is for want of the file" sh -c \
	'journalctl -b -u must.service | grep "cannot create .*/must.service/memory.dirty_min"'
ok "with ExecStartPre=-+ it starts" unit may.service -+ no
systemctl stop may.service
finish
