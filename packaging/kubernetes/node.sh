# SPDX-License-Identifier: GPL-2.0-only
# From a node without weir to a protected pod, by the chart's manifests and images; what each step
# says when it fails; an upgrade; the way back. No API server: the manifests are rendered without the
# container that labels the node (weir-node has tests of its own). The last steps switch the loading
# of modules off, until the guest ends.
. ./kube.sh

plugin_stops
clear_pods
[ ! -e /sys/module/weir ] || module_unloads
rmdir /var/run/nri 2>/dev/null
runtime false
kernel=/lib/modules/$(uname -r)
ok "no module is loaded" test ! -e /sys/module/weir
ok "none is installed" test ! -e "$kernel/updates/weir.ko"
import_gz() {
	zcat "$1" | ctr -n k8s.io images import -
}
begun=$(date +%s)
ok "the image with the programs is imported" import_gz weir.tar.gz
ok "the image with the compiler is imported" import_gz weir-module.tar.gz
imported=$(($(date +%s) - begun))

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
# told WORDS: what kubelet makes the pod's status has them
told() {
	grep -qF -- "$1" /tmp/apply.err || { cat /tmp/apply.err; return 1; }
}
# fails WORDS: the pod does not start, and says so
fails() {
	! applied || { echo "started: $own"; cripod remove "$own"; return 1; }
	told "$1"
}
# without_headers COMMAND...: while the node has none
without_headers() {
	mv "$kernel/build" "$kernel/build.away"
	"$@"
	status=$?
	mv "$kernel/build.away" "$kernel/build"
	return $status
}

only node
ok "a node without a module is told to install one" fails "node: no weir.ko in $kernel/updates: install weir-dkms on the node"
only prebuilt
sed -i 's/- {name: WEIR_REQUIRED, value: "true"}/&\n        - {name: WEIR_RELEASE, value: 6.1.0-other}/' /tmp/weir.yaml
ok "a kernel that the image has no module for, how to make it" fails 'prebuilt: the image has none for 6.1.0-other: `make chart-images PREBUILT=DIRECTORY`'
only headers
ok "a node without headers is told which to install" without_headers fails "install its kernel's headers (Debian: linux-headers-$(uname -r))"
only node packages
ok "one without a network that the archive cannot be reached" fails 'packages: the archive cannot be reached'
ok "and all that was tried is in one message" told 'node: no weir.ko'
ok "nothing was loaded" test ! -e /sys/module/weir
sed -i 's/{name: WEIR_REQUIRED, value: "true"}/{name: WEIR_REQUIRED, value: "false"}/' /tmp/weir.yaml
ok "where the module is not required the pod starts" applied
ok "its plugin is ready" soon connected
ok "and a pod with a wish starts, unprotected" annotated dirty-bytes=8M -- p a
ok "which a metric shows" shows 'weir_nri_unprotected_pods 1'
ok "both go" clear_pods

cp weir.yaml /tmp
begun=$(date +%s)
ok "the pod of the manifest starts" applied
grep ' ended after ' /tmp/apply.err | sed 's/^/# /'
ok "the module is loaded" test -e /sys/kernel/weir/state
ok "its plugin is ready" soon connected
ok "etcd's container has its floor by default" pod --namespace kube-system control etcd
ok "in its file" has "$pod" etcd dirty_min 16777216
etcd=$pod
echo "# from a node without weir to a protected pod: $imported s for the images, $(($(date +%s) - begun)) s for the rest"
cp /var/lib/cripod/*/module/modules/*/updates/weir.ko /var/tmp/weir.ko
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
# sysfs numbers a directory anew when it is made anew.
since=$(ls -di /sys/module/weir)
ok "the next pod starts, as in an upgrade" applied
ok "is ready" soon connected
ok "without building: the module is loaded already" told 'loaded already'
ok "it is the same module" is "$(ls -di /sys/module/weir)" "$since"
ok "etcd's floor was never gone" has "$etcd" etcd dirty_min 16777216
sed -i 's/ *disable = false/  disable = true/' /etc/containerd/config.toml
cripod remove "$own"
systemctl restart containerd && soon ctr -n k8s.io images ls >/dev/null
ok "with NRI switched off the pod starts" applied
ok "and the plugin says how to switch it on" soon grep -qrs 'write `disable = false`, and restart it' /var/log/pods
ok "it is not ready" says '' connected
clear_pods
runtime false
cp weir-uninstall.yaml /tmp/weir.yaml
ok "the uninstaller's pod starts" applied
ok "and no module is left" test ! -e /sys/module/weir
ok "nor its files" test ! -e $kubelet
ok "nor the agent's notes" is "$(ls /run/weir | wc -l)" 0
clear_pods
rmdir /sys/fs/cgroup/system.slice/kubelet.service

only headers
ok "from the node's headers alone" applied
ok "the module is built" told "the module for $(uname -r): from headers"
grep ' ended after ' /tmp/apply.err | sed 's/^/# /'
ok "and loaded" test -e /sys/kernel/weir/state
ok "the plugin is ready" soon connected
ok "a pod has its floor" pod --namespace kube-system control etcd
ok "in its file" has "$pod" etcd dirty_min 16777216
clear_pods
rmmod weir

only node
mkdir -p "$kernel/updates"
# With modversions the kernel does not compare the release.
sed 's/\(vermagic=.* \)mod_unload /\1mod_other- /' /var/tmp/weir.ko >"$kernel/updates/weir.ko"
ok "a module of another kernel is to be rebuilt" fails 'it was built for another kernel, or is no module: rebuild it'
ok "the kernel's words are there" told 'kernel: weir: version magic'
cp /var/tmp/weir.ko "$kernel/updates/weir.ko"
silence_ftrace
ok "a module that refuses says why itself" fails 'is kernel.ftrace_enabled 1?'
echo 1 >/proc/sys/kernel/ftrace_enabled
echo 1 >/sys/module/module/parameters/sig_enforce
ok "where modules must be signed, the key is named" fails 'it is not signed with a key this kernel trusts'
echo 1 >/proc/sys/kernel/modules_disabled
ok "where none may be loaded, the setting" fails 'modules are switched off (kernel.modules_disabled)'
ok "nothing was loaded" test ! -e /sys/module/weir
rm "$kernel/updates/weir.ko"
finish
