# SPDX-License-Identifier: GPL-2.0-only
# Sourced by the tests here: containerd with NRI, the images of the pods, the plugin as a
# service, and what pods have.
. ./containers.sh

node=/etc/weir/nri.yaml
address=127.0.0.1:9760

# archive NAME COMMAND...: an image of $rootfs that runs COMMAND, imported
archive() {
	name=$1
	shift
	sh ./oci.sh "localhost/$name:1" $rootfs "$@" >/var/tmp/archive.tar &&
		ctr -n k8s.io images import /var/tmp/archive.tar
}

# runtime SYSTEMD: containerd for pods, with NRI, cgroups by systemd (true) or not (false)
runtime() {
	mkdir -p /etc/containerd
	cat >/etc/containerd/config.toml <<END
version = 2
[timeouts]
  "io.containerd.timeout.shim.load" = "5m"
  "io.containerd.timeout.shim.cleanup" = "5m"
  "io.containerd.timeout.task.state" = "1m"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  SystemdCgroup = $1
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.crun]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.crun.options]
  BinaryName = "/usr/bin/crun"
  SystemdCgroup = $1
[plugins."io.containerd.nri.v1.nri"]
  disable = false
  plugin_request_timeout = "1m"
END
	# A busy machine emulates slowly. The timeouts above are for the same reason: what does not answer
	# within five seconds when containerd starts again is ended, a live pod's shim, too.
	mkdir -p /run/systemd/system/containerd.service.d
	printf '[Service]\nTimeoutStartSec=infinity\n' >/run/systemd/system/containerd.service.d/slow.conf
	systemctl daemon-reload
	systemctl restart containerd && soon ctr -n k8s.io images ls >/dev/null
}

# The module is weir-dkms's; or, to save its build, the file that was put beside these tests.
module_loads() {
	if [ -e weir.ko ]; then insmod ./weir.ko; else systemctl start weir; fi
}
module_unloads() {
	if [ -e weir.ko ]; then rmmod weir; else systemctl stop weir; fi
}

# configure: what the node's owner allows, from standard input
configure() {
	mkdir -p /etc/weir
	cat >$node
}

# node_policy: the configuration of most tests
node_policy() {
	configure <<END
defaults:
- qos: [BestEffort]
  set: {dirty-bytes: 8M}
  pod: {dirty-bytes: 32M}
- namespaces: [kube-system]
  containers: [etcd*]
  set: {dirty-min: 4M, dirty-bytes: 50%}
allow:
- namespaces: [db]
  pod-floor: 24M
  namespace-floor: 40M
  pod-weight: 300
END
}

plugin_starts() {
	systemd-run --quiet --collect --unit weir-nri /usr/local/bin/weir-nri --config $node --listen $address &&
		soon connected
}
plugin_stops() {
	! systemctl is-active --quiet weir-nri || systemctl stop weir-nri
}
plugin_dies() {
	systemctl kill -s KILL weir-nri
	soon gone
}
gone() {
	! systemctl is-active --quiet weir-nri
}
plugin_said() { # WORDS: how often
	journalctl --no-pager -b -u weir-nri | grep -cF -- "$1"
}

# within SECONDS COMMAND...: as soon, for what takes an emulated machine longer than a minute
within() {
	deadline=$(($(date +%s) + $1))
	shift
	until "$@"; do
		[ "$(date +%s)" -lt $deadline ] || return 1
		sleep 0.5
	done
}

get() { # PATH
	bash -c 'exec 3<>"/dev/tcp/$0" && printf "GET $1 HTTP/1.0\r\n\r\n" >&3 && cat <&3' \
		"$(echo $address | tr : /)" "$1" | tr -d '\r'
}
connected() {
	get /healthz 2>/dev/null | grep -qx ok
}
# shows LINE: of the metrics
shows() {
	get /metrics | grep -qxF -- "$1" || { get /metrics | grep -v '^#'; return 1; }
}

# group SANDBOX CONTAINER: its cgroup, as a directory
group() {
	echo "/sys/fs/cgroup$(group_of "$(cripod pid "$1" "$2")")"
}
# has SANDBOX CONTAINER FILE WANTED; the container "" is the pod itself
has() {
	at=$(group "$1" "${2:-a}")
	[ -n "$2" ] || at=$(dirname "$at")
	is "$(cat "$at/memory.$3")" "$4"
}

# pod FLAGS... NAME CONTAINER...: starts one, $pod is its sandbox; output as for ok
pod() {
	pod=$(cripod run "$@" 2>/tmp/pod.err) || { cat /tmp/pod.err; return 1; }
}
# annotated KEY=VALUE... -- ARGUMENTS...: the same with annotations weir.dev/KEY
annotated() {
	flags=
	while [ "$1" != -- ]; do
		flags="$flags --annotation weir.dev/$1"
		shift
	done
	shift
	# shellcheck disable=SC2086 # values here have no spaces
	pod $flags "$@"
}
# refused WORDS KEY=VALUE... -- ARGUMENTS...: is not started, and the runtime's error says why
refused() {
	words=$1
	shift
	if annotated "$@"; then
		echo "started: $pod"
		return 1
	fi
	case $(cat /tmp/pod.err) in
	*"$words"*) ;;
	*) echo "another error than '$words'"; cat /tmp/pod.err; return 1 ;;
	esac
}
clear_pods() {
	cripod remove all
}
