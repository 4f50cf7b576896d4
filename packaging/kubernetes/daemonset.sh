# SPDX-License-Identifier: GPL-2.0-only
# The plugin as the manifest has it: its own image, in a pod, with one capability.
. ./kube.sh

plugin_stops
runtime false
ok "the plugin's image is imported" sh -c 'zcat weir.tar.gz | ctr -n k8s.io images import -'
own=$(cripod apply weir-nri.yaml 2>&1)
ok "the manifest's pod starts" test ! "${own##*cripod:*}" = ""
ok "and is ready" soon connected
pid=$(cripod pid "$own" nri)
ok "with no capability but CAP_SYS_RESOURCE" is "$(sed -n 's/^CapEff:\t//p' "/proc/$pid/status")" 0000000001000000
ok "a pod gets a floor" annotated dirty-min=16M pod.dirty-min=1M dirty-bytes=50% -- --namespace db-1 asks a=67108864
ok "in its container" has "$pod" a dirty_min 16777216
ok "in its own cgroup" has "$pod" "" dirty_min 1048576
ok "its share" has "$pod" a dirty_bytes 33554432
ok "what is not allowed is refused" refused 'not allowed in namespace default' dirty-min=1M -- p a
ok "the default of the manifest holds" pod --namespace kube-system control etcd
ok "for the container it names" has "$pod" etcd dirty_min 16777216
echo "# resident: $(sed -n 's/^VmRSS:[\t ]*//p' "/proc/$pid/status")"
ok "the pod of the plugin goes" cripod remove "$own"
ok "and leaves knobs as they are" has "$pod" etcd dirty_min 16777216
clear_pods
finish
