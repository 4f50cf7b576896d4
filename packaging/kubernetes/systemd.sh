# SPDX-License-Identifier: GPL-2.0-only
# Cgroups made by systemd, as kubeadm sets nodes up.
. ./kube.sh

plugin_stops
node_policy
ok "containerd with systemd's cgroups" runtime true
ok "the plugin starts" plugin_starts
ok "a pod" annotated dirty-min=8M pod.dirty-min=4M dirty-bytes=50% -- --systemd --namespace db sliced a=67108864
echo "# its cgroup: $(group "$pod" a)"
ok "its container has its floor" has "$pod" a dirty_min 8388608
ok "and its share" has "$pod" a dirty_bytes 33554432
ok "its slice has its own" has "$pod" "" dirty_min 4194304
ok "an update" cripod update "$pod" a 33554432
ok "reaches it" has "$pod" a dirty_bytes 16777216
ok "systemd reloads" systemctl daemon-reload
ok "and leaves the knobs" has "$pod" a dirty_min 8388608
ok "the plugin is killed and comes back" sh -c '. ./kube.sh; plugin_dies; plugin_starts'
ok "the floors count" shows 'weir_nri_floors_bytes{namespace="db"} 12582912'
ok "a BestEffort pod" pod --systemd --qos besteffort best a
ok "has its class's ceiling" has "$pod" a dirty_bytes 8388608
ok "and its slice has the pod's" has "$pod" "" dirty_bytes 33554432
clear_pods

plugin_stops
ok "a pod of crun's starts without the plugin" annotated dirty-min=8M -- --systemd --namespace db --runtime crun crun a=67108864
echo "# its cgroup: $(group "$pod" a)"
floors() { # crun has a cgroup of its own below the scope
	at=$(group "$pod" a)
	echo "$(cat "$at/memory.dirty_min") $(cat "$(dirname "$at")/memory.dirty_min")"
}
ok "the plugin comes" plugin_starts
ok "and gives it its floor" comes_to "0 8388608" floors
ok "an update" cripod update "$pod" a 33554432
ok "leaves one" comes_to "8388608 0" floors
ok "that counts once" soon shows 'weir_nri_floors_bytes{namespace="db"} 8388608'
clear_pods
plugin_stops
finish
