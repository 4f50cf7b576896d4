# SPDX-License-Identifier: GPL-2.0-only
# Real runtimes, unchanged: each container's own cgroup has the floor, and the kernel's
# throttle lets the container pass because of it.
. ./containers.sh

make_rootfs
ok "podman imports an image" import podman
for runtime in crun runc; do
	for manager in systemd cgroupfs; do
		how="podman, $runtime, cgroup manager $manager"
		podman="podman --cgroup-manager $manager"
		ok "$how: runs" $podman run -d --name c --network=none --runtime $runtime -v /var/tmp:/data \
			--cgroup-conf=memory.dirty_min=$floor $image /bin/sh -c "$forever"
		pid=$(podman inspect -f '{{.State.Pid}}' c)
		echo "# its cgroup: $(group_of "$pid")"
		ok "$how: has the floor" is "$(knob "$pid" dirty_min)" $floor
		ok "$how: writes" writes $podman exec c
		ok "$how: was let pass" admitted "$pid"
		podman rm -f -t 0 c >/dev/null
	done

	bundle /run/bundle $runtime
	ok "$runtime, OCI unified: runs" $runtime run -d -b /run/bundle --pid-file /run/pid u </dev/null
	pid=$(cat /run/pid)
	ok "$runtime, OCI unified: has the floor" is "$(knob "$pid" dirty_min)" $floor
	ok "$runtime, OCI unified: writes" writes $runtime exec u
	ok "$runtime, OCI unified: was let pass" admitted "$pid"
	$runtime delete -f u
done

bundle /run/bundle runc
ok "containerd, OCI unified: runs" ctr run -d --config /run/bundle/config.json t
pid=$(ctr task ls | awk '$1 == "t" { print $2 }')
ok "containerd, OCI unified: has the floor" is "$(knob "$pid" dirty_min)" $floor
ok "containerd, OCI unified: writes" writes ctr task exec --exec-id w t
ok "containerd, OCI unified: was let pass" admitted "$pid"
ctr task kill -s KILL t
ctr task rm -f t >/dev/null 2>&1
ctr container rm t

# Docker has no option for it, so the file is written once the container is there.
ok "docker imports an image" import docker
ok "docker: runs" docker run -d --name floored --network=none -v /var/tmp:/data $image /bin/sh -c "$forever"
pid=$(docker inspect -f '{{.State.Pid}}' floored)
ok "docker: takes the floor afterwards" takes "/sys/fs/cgroup$(group_of "$pid")/memory.dirty_min" $floor $floor
ok "docker: writes" writes docker exec floored
ok "docker: was let pass" admitted "$pid"
docker rm -f floored >/dev/null

for delegate in no yes; do
	how="systemd, Delegate=$delegate"
	ok "$how: starts" unit $delegate.service + $delegate
	pid=$(systemctl show --value -p MainPID $delegate.service)
	ok "$how: has the floor" is "$(knob "$pid" dirty_min)" $floor
	sleep 5 # a few of its writes
	ok "$how: was let pass" admitted "$pid"
	systemctl daemon-reload
	ok "$how: keeps it over daemon-reload" is "$(knob "$pid" dirty_min)" $floor
	systemctl stop $delegate.service
done

dmesg >/tmp/dmesg
ok "the kernel warned of nothing" sh -c '! grep -E "WARNING:|BUG:|Oops|weir: .*refus" /tmp/dmesg'
finish
