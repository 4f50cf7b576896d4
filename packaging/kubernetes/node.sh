# SPDX-License-Identifier: GPL-2.0-only
# From a node without weir to a protected pod, by the chart's manifests and images; what each step
# says when it fails; an upgrade; the way back. No API server: the manifests are rendered without the
# container that labels the node (weir-node has tests of its own).
. ./kube.sh

plugin_stops
rmdir /var/run/nri 2>/dev/null
runtime false
ok "no module is loaded" test ! -e /sys/module/weir
import_gz() {
	zcat "$1" | ctr -n k8s.io images import -
}
begun=$(date +%s)
ok "the image with the programs is imported" import_gz weir.tar.gz
ok "the image with the compiler is imported" import_gz weir-module.tar.gz
echo "# importing took $(($(date +%s) - begun)) s"

# only SOURCE...: the manifest with these sources of the module alone
only() {
	sed "/^        - \(node\|prebuilt\|headers\|packages\)$/{
		/- \($(echo "$*" | sed 's/ /\\|/g')\)$/!d
	}" weir.yaml >/tmp/weir.yaml
}
# applied: $own is the pod of /tmp/weir.yaml; output as for ok
applied() {
	own=$(cripod apply /tmp/weir.yaml 2>/tmp/apply.err)
	status=$?
	sed 's/^/# /' /tmp/apply.err
	return $status
}
# fails WORDS: the pod does not start, and says so
fails() {
	! applied || { echo "started: $own"; cripod remove "$own"; return 1; }
	grep -qF -- "$1" /tmp/apply.err
}

only node
ok "a node without a module is told to install one" fails 'node: no weir.ko in /lib/modules/'
only node packages
ok "one without a network that the archive cannot be reached" fails 'packages: the archive cannot be reached'
ok "and all that was tried is in one message" fails 'node: no weir.ko'
ok "nothing was loaded" test ! -e /sys/module/weir
sed 's/{name: WEIR_REQUIRED, value: "true"}/{name: WEIR_REQUIRED, value: "false"}/' /tmp/weir.yaml >/tmp/lax.yaml
mv /tmp/lax.yaml /tmp/weir.yaml
ok "where the module is not required the pod starts" applied
ok "its plugin is ready" soon connected
ok "and a pod with a wish starts, unprotected" annotated dirty-bytes=8M -- p a
ok "which a metric shows" shows 'weir_nri_unprotected_pods 1'
ok "both go" clear_pods

[ -n "${WEIR_SOURCE:-}" ] || WEIR_SOURCE="prebuilt headers"
only $WEIR_SOURCE
begun=$(date +%s)
ok "the pod of the manifest starts, by $WEIR_SOURCE" applied
ok "the module is loaded" test -e /sys/kernel/weir/state
ok "its plugin is ready" soon connected
ok "etcd's container has its floor by default" pod --namespace kube-system control etcd
ok "in its file" has "$pod" etcd dirty_min 16777216
etcd=$pod
echo "# from no module to a protected pod: $(($(date +%s) - begun)) s"
mkdir -p /sys/fs/cgroup/system.slice/kubelet.service
kubelet=/sys/fs/cgroup/system.slice/kubelet.service/memory.dirty_min
ok "kubelet's service has its floor by the agent" soon grep -qx 16777216 $kubelet
for c in nri agent; do
	pid=$(cripod pid "$own" $c)
	ok "$c has CAP_SYS_RESOURCE alone" is "$(sed -n 's/^CapEff:\t//p' "/proc/$pid/status")" 0000000001000000
	echo "# $c resident: $(sed -n 's/^VmRSS:[\t ]*//p' "/proc/$pid/status")"
done
address=127.0.0.1:9759
ok "the agent shows metrics" shows 'weir_module_state{state="active"} 1'
get /metrics | grep '^weir_device_written' | sed 's/^/# /'
address=127.0.0.1:9760
cripod remove "$own"
ok "without the pod knobs stay: etcd's" has "$etcd" etcd dirty_min 16777216
ok "and kubelet's" is "$(cat $kubelet)" 16777216
since=$(cat /sys/module/weir/parameters/observe)$(stat -c %Y /sys/module/weir)
ok "the next pod starts, as in an upgrade" applied
ok "is ready" soon connected
ok "without building: the module is loaded already" grep -q 'loaded already' /tmp/apply.err
ok "it is the same module" is "$(cat /sys/module/weir/parameters/observe)$(stat -c %Y /sys/module/weir)" "$since"
ok "etcd's floor was never gone" has "$etcd" etcd dirty_min 16777216
sed -i 's/ *disable = false/  disable = true/' /etc/containerd/config.toml
cripod remove "$own"
systemctl restart containerd && soon ctr -n k8s.io images ls >/dev/null
ok "with NRI switched off the pod starts" applied
ok "and the plugin says how to switch it on" soon grep -qrs 'disable = false' /var/log/pods
cripod remove all
runtime false
cp weir-uninstall.yaml /tmp/weir.yaml
ok "the uninstaller's pod starts" applied
ok "and no module is left" test ! -e /sys/module/weir
ok "nor its files" test ! -e $kubelet
ok "nor the agent's notes" is "$(ls /run/weir | wc -l)" 0
clear_pods
rmdir /sys/fs/cgroup/system.slice/kubelet.service
finish
