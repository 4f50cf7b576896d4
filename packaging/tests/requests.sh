# SPDX-License-Identifier: GPL-2.0-only
# What units and containers ask for, and the agent grants: with the system's own systemd, Podman
# and, where it is installed, Docker.
. ./containers.sh

units=/etc/systemd/system
slice=/sys/fs/cgroup/system.slice
policy=/etc/weir/agent.toml

# unit_file NAME LINES: one that root has written
unit_file() {
	mkdir -p "$(dirname "$1")"
	printf '%b\n' "$2" >"$1"
}
# journal WORDS: the agent has said so, soon
journal() {
	soon sh -c 'journalctl --no-pager -b -u weir-agent -o cat | grep -qF -- "$0"' "$1"
}
# policy TEXT: in effect at once
policy() {
	printf '%b\n' "$1" >$policy
	systemctl reload weir-agent
}
# container_knob RUNTIME NAME FILE: in the container's own cgroup; crun makes another below it
container_knob() {
	own=$(group_of "$($1 inspect -f '{{.State.Pid}}' "$2")")
	cat "/sys/fs/cgroup${own%/container}/memory.$3"
}
# starts RUNTIME NAME OPTION...: in the background
starts() {
	runtime=$1 name=$2
	shift 2
	$runtime run -d --name "$name" --network=none "$@" ${from:-$image} /bin/sh -c "$forever"
}

echo "# $(systemctl --version | head -n 1)"
echo >$policy
ok "the agent starts" systemctl restart weir-agent

# Which systemd takes without a word.
for section in Unit Service Install X-Weir; do
	unit_file /tmp/verify/v.service "[Unit]\n[Service]\nExecStart=/bin/true\n[$section]\nX-Weir-DirtyMin=16M"
	ok "X- keys are taken in [$section]" is "$(systemd-analyze verify --man=no /tmp/verify/v.service 2>&1)" ""
done
unit_file /tmp/verify/v.slice "[Slice]\nX-Weir-DirtyMin=16M"
ok "and in [Slice]" is "$(systemd-analyze verify --man=no /tmp/verify/v.slice 2>&1)" ""
unit_file /tmp/verify/v.service "[Service]\nExecStart=/bin/true\nWeir-DirtyMin=16M"
ok "without the X- systemd complains" sh -c 'systemd-analyze verify --man=no /tmp/verify/v.service 2>&1 | grep -i unknown'

# A service and its drop-in.
unit_file $units/db.service "[Service]\nExecStart=/bin/sleep infinity"
unit_file $units/db.service.d/weir.conf "[Service]\nX-Weir-DirtyMin=16M\nX-Weir-DirtyWeight=400"
systemctl daemon-reload
ok "a service starts" systemctl start db
ok "and has its floor" comes_to $floor cat $slice/db.service/memory.dirty_min
ok "and its weight" comes_to 400 cat $slice/db.service/memory.dirty_weight
ok "the agent says where it is from" journal \
	"/system.slice/db.service: memory.dirty_min = 16M, was 0 (X-Weir-DirtyMin in $units/db.service.d/weir.conf)"
sed -i s/16M/8M/ $units/db.service.d/weir.conf
systemctl daemon-reload
ok "a changed drop-in counts after daemon-reload" comes_to 8388608 cat $slice/db.service/memory.dirty_min
sed -i s/8M/8MB/ $units/db.service.d/weir.conf
systemctl daemon-reload
ok "a wrong value is said, with unit, key and file" journal \
	"error: /system.slice/db.service: X-Weir-DirtyMin in $units/db.service.d/weir.conf: memory.dirty_min: invalid value \`8MB\`"
ok "and counted" soon scrapes 'weir_agent_requests{state="refused"} 1'
ok "and the floor goes" comes_to 0 cat $slice/db.service/memory.dirty_min
ok "and the weight stays" is "$(cat $slice/db.service/memory.dirty_weight)" 400
policy '[[rule]]\ncgroup = "/system.slice/*.service"\nset = { "memory.dirty_weight" = 50 }'
ok "a rule of the policy file wins" comes_to 50 cat $slice/db.service/memory.dirty_weight
policy '[requests]\nsystemd = "off"'
ok "and off is off" comes_to 100 cat $slice/db.service/memory.dirty_weight
policy ""
ok "and on again" comes_to 400 cat $slice/db.service/memory.dirty_weight
rm -r $units/db.service.d
systemctl daemon-reload
ok "without the drop-in all is as before" comes_to 100 cat $slice/db.service/memory.dirty_weight
systemctl stop db

# Slices, templates, other names.
unit_file $units/batch.slice "[Slice]\nX-Weir-DirtyBytes=64M"
unit_file $units/batch-x.slice.d/weir.conf "[Slice]\nX-Weir-DirtyBandwidth=8M"
unit_file $units/t@.service "[Service]\nExecStart=/bin/sleep infinity\nSlice=batch-x.slice\nX-Weir-DirtyRatio=10"
unit_file $units/t@1.service.d/weir.conf "[Service]\nX-Weir-DirtyRatio=20"
unit_file $units/alias.service.d/weir.conf "[Service]\nX-Weir-DirtyMin=4M"
ln -s $units/db.service $units/alias.service
systemctl daemon-reload
ok "instances of a template start" systemctl start t@1 t@2 db
batch=/sys/fs/cgroup/batch.slice
ok "a slice has its ceiling" comes_to 67108864 cat $batch/memory.dirty_bytes
ok "and the one below its bandwidth" comes_to 8388608 cat $batch/batch-x.slice/memory.dirty_bandwidth
ok "an instance has its template's" comes_to 10 cat $batch/batch-x.slice/t@2.service/memory.dirty_ratio
ok "or its own" comes_to 20 cat $batch/batch-x.slice/t@1.service/memory.dirty_ratio
ok "what an alias asks for counts, too" comes_to 4194304 cat $slice/db.service/memory.dirty_min
systemctl stop t@1 t@2 db
rm -r $units/batch* $units/t@* $units/alias.service*

# Which of all drop-ins that are called alike counts: as systemd says of a key of its own, for each
# place in turn.
unit_file $units/a-b@.service "[Service]\nExecStart=/bin/sleep infinity"
n_file=0
for at in etc/systemd/system.control run/systemd/system.control etc/systemd/system run/systemd/system \
	usr/local/lib/systemd/system usr/lib/systemd/system; do
	case $at in
	etc/systemd/system | run/systemd/system) names="a-b@1.service a-b@.service a-@1.service a-@.service a-.service service" ;;
	*) names=a-b@.service ;;
	esac
	for name in $names; do
		n_file=$((n_file + 1))
		unit_file /$at/$name.d/weir-order.conf "[Unit]\nDescription=$((n_file * 1048576))\n[Service]\nX-Weir-DirtyBytes=${n_file}M"
	done
done
systemctl daemon-reload
systemctl start a-b@1
by_systemd() {
	systemctl show --value -p Description a-b@1
}
of_a_b() { # in whichever slice
	cat /sys/fs/cgroup/system.slice/*/a-b@1.service/memory.dirty_bytes
}
same=0
while :; do
	wanted=$(by_systemd)
	case $wanted in *[!0-9]* | "") break ;; esac
	comes_to "$wanted" of_a_b >/tmp/order 2>&1 || break
	same=$((same + 1))
	rm "$(grep -rlx "Description=$wanted" /etc/systemd /run/systemd /usr/local/lib/systemd /usr/lib/systemd --include=weir-order.conf)"
	systemctl daemon-reload
done
ok "of $n_file drop-ins each counted when systemd says so" is "$same" "$n_file"
[ "$same" = "$n_file" ] || sed 's/^/# /' /tmp/order
ok "and without any there is no ceiling" comes_to max of_a_b
systemctl stop a-b@1

make_rootfs
for runtime in podman docker; do
	command -v $runtime >/dev/null || continue
	# Podman keeps annotations where they can be read, labels in a data base.
	option=--label
	[ $runtime = docker ] || option=--annotation
	echo "# $($runtime --version)"
	ok "$runtime imports an image" import $runtime
	ok "$runtime: runs" starts $runtime asks $option weir.dev/dirty-bytes=64M $option weir.dev/dirty-min=16M
	ok "$runtime: has its ceiling" comes_to 67108864 container_knob $runtime asks dirty_bytes
	ok "$runtime: a floor takes permission" journal "label weir.dev/dirty-min: memory.dirty_min = 16M takes from others: allow it by"
	ok "$runtime: and is not there" is "$(container_knob $runtime asks dirty_min)" 0
	policy '[requests]\ncontainers = "all"'
	ok "$runtime: with permission it is" comes_to $floor container_knob $runtime asks dirty_min
	policy '[[rule]]\ncgroup = ["/system.slice/docker-*.scope", "/machine.slice/libpod-*.scope"]\nset = { "memory.dirty_bytes" = "32M" }'
	ok "$runtime: a rule wins" comes_to 33554432 container_knob $runtime asks dirty_bytes
	ok "$runtime: and the floor is back" comes_to 0 container_knob $runtime asks dirty_min
	policy ""
	ok "$runtime: without it the label counts" comes_to 67108864 container_knob $runtime asks dirty_bytes
	ok "$runtime: one knows" scrapes 'weir_agent_requests{state="granted"} 1'
	$runtime rm -f -t 0 asks >/dev/null 2>&1 || $runtime rm -f asks >/dev/null
	ok "$runtime: removed, nothing is asked for" soon scrapes 'weir_agent_requests{state="granted"} 0'
done
if command -v docker >/dev/null; then
	ok "an image with labels" docker import --change "LABEL weir.dev/dirty-min=1G weir.dev/dirty-weight=50" \
		/tmp/rootfs.tar labelled
	from=labelled
	ok "a container of it starts" starts docker image
	ok "it may limit itself" comes_to 50 container_knob docker image dirty_weight
	ok "and not take from others" journal "memory.dirty_min = 1G takes from others"
	ok "so it does not" is "$(container_knob docker image dirty_min)" 0
	docker rm -f image >/dev/null
fi
systemctl stop weir-agent
finish
