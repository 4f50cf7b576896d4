# SPDX-License-Identifier: GPL-2.0-only
# The plugin killed, containerd restarted, the module unloaded and loaded: live pods keep
# their knobs or get them back, and budgets stay right.
. ./kube.sh

plugin_stops
runtime false
node_policy
ok "the plugin starts" plugin_starts

floors='weir_nri_floors_bytes{namespace="db"}'
ok "a pod with floors" annotated dirty-min=16M pod.dirty-min=2M -- --namespace db keeps a
keeps=$pod
kept() {
	has "$keeps" a dirty_min 16777216 && has "$keeps" "" dirty_min 2097152
}

ok "the plugin is killed" plugin_dies
ok "the pod keeps its knobs" kept
ok "a pod that comes meanwhile starts" annotated dirty-min=20M dirty-bytes=32M -- --namespace db late a
late=$pod
ok "without knobs" has "$late" a dirty_min 0
ok "the plugin comes back" plugin_starts
ok "the first pod's floors are kept and count, and the late one's do" shows "$floors 39845888"
ok "which it has now" comes_to "" has "$late" a dirty_min 20971520
ok "and its ceiling" has "$late" a dirty_bytes 33554432
ok "at once the budget is what it was" refused 'other pods of namespace db reserve 39845888' dirty-min=3M -- --namespace db p a
for time in 2 3 4 5; do
	plugin_dies
	plugin_starts || echo "not ok - start $time"
done
ok "killed five times, knobs and budget are the same" kept
ok "to the byte" shows "$floors 39845888"

ok "containerd restarts" systemctl restart containerd
ok "the plugin connects again" soon connected
ok "the pod keeps its knobs" kept
ok "and its budget" shows "$floors 39845888"
ok "a new pod gets its knobs" annotated dirty-min=1M -- --namespace db new a
ok "as before" has "$pod" a dirty_min 1048576
ok "a container ends by itself" sh -c 'kill -9 "$(cripod pid "$1" a)"' sh "$pod"
ok "and what it reserved is free" soon shows "$floors 39845888"
cripod remove "$pod"
ok "with the plugin away, a pod goes" sh -c 'systemctl kill -s KILL weir-nri; cripod remove "$1"' sh "$late"
ok "and does not count when it is back" sh -c '. ./kube.sh; soon gone; plugin_starts && shows "$1"' sh "$floors 18874368"

ok "a pod's sandbox ends, and its containers" cripod halt "$keeps"
ok "its own floor counts, as its cgroup stays" soon shows "$floors 2097152"
again() {
	keeps=$(cripod again --namespace db "$keeps" a)
}
ok "another sandbox starts for it" again
ok "with its knobs" kept
ok "which count once" soon shows "$floors 18874368"
plugin_dies
ok "also for a plugin that comes now" sh -c '. ./kube.sh; plugin_starts && soon shows "$1"' sh "$floors 18874368"

ok "the module is unloaded" module_unloads
ok "a pod starts, unprotected" annotated dirty-min=1M -- --namespace db without a
without=$pod
ok "which shows, as does that the other one lost its knobs" soon shows "weir_nri_unprotected_pods 2"
shown "a container's update while its file is missing" cripod update "$keeps" a 268435456
ok "the module is loaded" module_loads
ok "the pod that lived through it gets its knobs back" soon kept
ok "and the other one gets them" soon has "$without" a dirty_min 1048576
ok "which shows" shows "weir_nri_unprotected_pods 0"
ok "in the budget as well" shows "$floors 19922944"
ok "an update works again" cripod update "$keeps" a 134217728
ok "the plugin ends within a second" timeout 5 systemctl stop weir-nri
ok "and leaves knobs as they are" kept
clear_pods

ok "it starts again" plugin_starts
ok "a pod has a floor by default" pod --namespace kube-system control etcd=67108864
ok "as the default says" has "$pod" etcd dirty_min 4194304
plugin_stops
module_unloads
module_loads
echo "allow: []" | configure
ok "the default is taken back, the module loaded anew" plugin_starts
ok "and the pod has no floor" soon has "$pod" etcd dirty_min 0
ok "an update" cripod update "$pod" etcd 134217728
ok "brings it back" has "$pod" etcd dirty_min 4194304
ok "and then it counts" soon shows 'weir_nri_floors_bytes{namespace="kube-system"} 4194304'
clear_pods
plugin_stops
finish
