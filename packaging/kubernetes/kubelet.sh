# SPDX-License-Identifier: GPL-2.0-only
# A real kubelet, with kube-apiserver and etcd (packaging/kubelet), over containerd: what cripod, which
# talks to the runtime itself, does not show. Pods share the host's network: no CNI plugin is here.
# MemoryQoS is on, as it is by default from Kubernetes 1.37, and configured, without which it sets nothing.
. ./kube.sh

plugin_stops
clear_pods
[ -e /sys/module/weir ] || module_loads
rm -rf /var/lib/kubelet /var/lib/etcd-weir
at=192.0.2.1
kube=/etc/kubernetes
mkdir -p $kube /var/lib/etcd-weir
for program in kubelet kube-apiserver kubectl; do
	zcat $program.gz >/usr/local/bin/$program && chmod 755 /usr/local/bin/$program
done
# Without a network: an address for the node, and the one that pods know the API server by.
busybox ip link set lo up
busybox ip address add $at/32 dev lo
busybox ip address add 10.96.0.1/32 dev lo
openssl genrsa -out $kube/sa.key 2048 2>/dev/null
echo "token,admin,admin,system:masters" >$kube/tokens.csv
cat >$kube/config <<END
{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
 clusters: [{name: c, cluster: {server: "https://$at", insecure-skip-tls-verify: true}}],
 users: [{name: u, user: {token: token}}]}
END
cat >$kube/kubelet <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: systemd
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
memoryThrottlingFactor: 0.9
memoryReservationPolicy: TieredReservation
failSwapOn: false
runtimeRequestTimeout: 15m
syncFrequency: 10s
evictionPressureTransitionPeriod: 10s
evictionHard: {memory.available: 400Mi, nodefs.available: 1%, imagefs.available: 1%}
END
k() {
	kubectl --kubeconfig $kube/config --namespace db --request-timeout 120s "$@"
}
kubelet_starts() {
	systemd-run --quiet --collect --unit kubelet --property Delegate=yes \
		/usr/local/bin/kubelet --kubeconfig $kube/config --config $kube/kubelet --node-ip $at --hostname-override node
}
api_starts() {
	systemd-run --quiet --collect --unit weir-etcd etcd --data-dir /var/lib/etcd-weir &&
		systemd-run --quiet --collect --unit weir-api /usr/local/bin/kube-apiserver \
			--etcd-servers http://127.0.0.1:2379 --advertise-address $at --secure-port 443 \
			--service-cluster-ip-range 10.96.0.0/16 --kubelet-preferred-address-types InternalIP --token-auth-file $kube/tokens.csv --authorization-mode AlwaysAllow \
			--service-account-issuer https://kubernetes.default.svc --service-account-key-file $kube/sa.key \
			--service-account-signing-key-file $kube/sa.key --disable-admission-plugins ServiceAccount
}
# starts NAME CLASS [KEY=VALUE...]: a pod of a QoS class, with annotations weir.dev/KEY
starts() {
	jq -n --arg name "$1" --arg class "$2" '{
		apiVersion: "v1", kind: "Pod",
		metadata: {name: $name, annotations: ($ARGS.positional | map(split("=") | {key: "weir.dev/\(.[0])", value: .[1]}) | from_entries)},
		spec: {
			nodeName: "node", hostNetwork: true, automountServiceAccountToken: false, terminationGracePeriodSeconds: 1,
			volumes: [{name: "data", hostPath: {path: "/var/tmp"}}],
			containers: [{
				name: "a", image: "localhost/busy:1", imagePullPolicy: "Never", command: ["/bin/sh", "-c", "while :; do sleep 1; done"],
				volumeMounts: [{name: "data", mountPath: "/data"}],
				resources: {
					guaranteed: {requests: {memory: "128Mi", cpu: "100m"}, limits: {memory: "128Mi", cpu: "100m"}},
					burstable: {requests: {memory: "32Mi"}, limits: {memory: "128Mi"}},
					besteffort: {}
				}[$class]
			}]
		}}' --args "$@" | jq '.metadata.annotations |= with_entries(select(.value != null))' >/tmp/pod.json
	k create -f /tmp/pod.json
}
# asks NAME PATH: what the API server has of a pod
asks() {
	k get pod "$1" -o "jsonpath={$2}"
}
runs() {
	is "$(asks "$1" .status.phase) $(asks "$1" '.status.containerStatuses[0].ready')" "Running true"
}
running() {
	within 300 runs "$1"
}
container() {
	asks "$1" '.status.containerStatuses[0].containerID' | sed 's|containerd://||'
}
at_cgroup() { # NAME: of its container
	find /sys/fs/cgroup/kubepods.slice -type d -name "cri-containerd-$(container "$1").scope"
}
# reads NAME FILE WANTED; FILE ../X is the pod's
reads() {
	case $2 in
	../*) is "$(cat "$(dirname "$(at_cgroup "$1")")/memory.${2#../}")" "$3" ;;
	*) is "$(cat "$(at_cgroup "$1")/memory.$2")" "$3" ;;
	esac
}
budget='weir_nri_floors_bytes{namespace="db"}'

ok "containerd with systemd's cgroups" runtime true
node_policy
ok "the plugin starts" plugin_starts
begun=$(date +%s)
ok "etcd and the API server start" api_starts
ok "which answers" within 600 k get --raw /readyz
ok "kubelet starts" kubelet_starts
ok "and registers its node" within 300 k get node node
k get node node -o 'jsonpath={.status.nodeInfo.kubeletVersion} {.status.nodeInfo.containerRuntimeVersion}' | sed 's/^/# kubelet /'
echo
echo "# ready after $(($(date +%s) - begun)) s"
ok "a namespace" k create namespace db

ok "a Guaranteed pod with all that a pod can ask for" starts all guaranteed dirty-min=16M dirty-bytes=50% \
	dirty-weight=200 dirty-bandwidth=8M writeback-bytes=2M pod.dirty-min=2M
ok "a Burstable one" starts some burstable dirty-min=4M
ok "a BestEffort one that asks for nothing" starts none besteffort
for pod in all some none; do
	ok "$pod runs" running $pod
done
ok "its floor is in its file" reads all dirty_min 16777216
ok "half of its memory limit is its ceiling" reads all dirty_bytes 67108864
ok "its weight" reads all dirty_weight 200
ok "its bandwidth" reads all dirty_bandwidth 8388608
ok "its window" reads all writeback_bytes 2097152
ok "and the pod's own floor" reads all ../dirty_min 2097152
ok "the Burstable one has its floor" reads some dirty_min 4194304
ok "the class's default is the BestEffort one's" reads none dirty_bytes 8388608
ok "and its pod's" reads none ../dirty_bytes 33554432
ok "what is reserved is counted" shows "$budget 23068672"

ok "one beyond the budget is created" starts much burstable dirty-min=30M
refusal() {
	asks much '.status.containerStatuses[0].state.waiting.message' | grep -F 'dirty-min'
}
ok "and kubelet's status says what was refused, and why" within 300 refusal
refusal | sed 's/^/# /'
ok "it goes" k delete pod much --wait --timeout 300s
ok "and takes nothing from the budget" soon shows "$budget 23068672"

# kubelet's own memory.high is between request and limit, and stays
high=$(cat "$(at_cgroup some)/memory.high")
echo "# memory.high by kubelet: $high of 134217728; memory.min $(cat "$(at_cgroup some)/memory.min")"
ok "MemoryQoS has set the Burstable one's memory.high" between 33554432 "$high" 134217727
ok "the module needs none of its own: kubelet's stands after a minute" sh -c 'sleep 60; test "$(cat "$0")" = "$1"' \
	"$(at_cgroup some)/memory.high" "$high"

first=$(container all)
ok "the pod is resized in place" k patch pod all --subresource resize --type strategic -p \
	'{"spec":{"containers":[{"name":"a","resources":{"requests":{"memory":"64Mi"},"limits":{"memory":"64Mi"}}}]}}'
ok "the kernel has the limit" within 300 reads all max 67108864
ok "and the ceiling follows: half of it" comes_to 33554432 sh -c 'cat "$0"' "$(at_cgroup all)/memory.dirty_bytes"
ok "the floor is as it was" reads all dirty_min 16777216
ok "it is the same container" is "$(container all) $(asks all '.status.containerStatuses[0].restartCount')" "$first 0"

pid=$(cat "$(at_cgroup all)/cgroup.procs" | head -n 1)
ok "kubelet is restarted" sh -c 'systemctl stop kubelet; ! systemctl is-active --quiet kubelet'
ok "and starts" kubelet_starts
ok "a pod starts after that" starts after burstable dirty-min=1M
ok "and runs" running after
ok "with its floor" reads after dirty_min 1048576
ok "the others never ended" is "$(cat "$(at_cgroup all)/cgroup.procs" | head -n 1)" "$pid"
ok "nor lost a knob" reads all dirty_min 16777216

some=$(container some)
ok "a container ends by itself" sh -c 'kill -9 $(cat "$0/cgroup.procs")' "$(at_cgroup some)"
again() {
	[ "$(container some)" != "$some" ] && runs some
}
ok "kubelet starts another" within 300 again
ok "with the same floor" reads some dirty_min 4194304
ok "which counts once" soon shows "$budget 24117248"

# Page cache is no reason to evict, whether a pod's with a ceiling or with a floor.
cache() { # NAME
	k exec "$1" -- /bin/dd if=/dev/zero of="/data/$1" bs=1024k count=512
}
ok "half a GiB is written in a pod with a ceiling" cache none
ok "and in one with a floor, its limit 128 MiB" cache some
awk '/^MemAvailable|^Cached|^Dirty/' /proc/meminfo | tr '\n' ' ' | sed 's/^/# /'
echo
sleep 30
for pod in all some none after; do
	ok "$pod is not evicted" runs $pod
done
rm -f /var/tmp/none /var/tmp/some
# Memory that is no cache is: this one has no request, and takes more than the node keeps free.
left=$(awk '/^MemAvailable/ { print int($2 / 1024) }' /proc/meminfo)
ok "a greedy pod with a floor starts" starts greedy besteffort dirty-min=1M
ok "and runs" running greedy
ok "its floor counts" soon shows "$budget 25165824"
# a buffer that its reader never takes
k exec greedy -- /bin/sh -c "dd if=/dev/zero bs=$((left - 200))M count=1 | sleep 1000" >/tmp/greedy 2>&1 &
greedy=$!
evicted() {
	is "$(asks greedy .status.reason)" Evicted
}
ok "beyond what the node keeps free it is evicted" within 300 evicted
wait $greedy
echo "# $(asks greedy .status.message)"
ok "what it reserved is free" within 120 shows "$budget 24117248"
for pod in all some after; do
	ok "$pod runs on" runs $pod
done

ok "all pods are deleted" k delete pod --all --wait --timeout 300s
freed() {
	! get /metrics | grep 'weir_nri_floors_bytes{'
}
ok "nothing is reserved" soon freed
ok "no pod of them has a cgroup" is "$(find /sys/fs/cgroup/kubepods.slice -name 'cri-containerd-*.scope' | wc -l)" 0
systemctl stop kubelet weir-api weir-etcd
plugin_stops
clear_pods
rm -rf /var/lib/kubelet /var/lib/etcd-weir $kube
finish
