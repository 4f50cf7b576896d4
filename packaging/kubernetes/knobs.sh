# SPDX-License-Identifier: GPL-2.0-only
# Annotations and defaults become files, through the real runtime.
. ./kube.sh

early() { # CONTAINER FILE
	for id in $(ctr -n k8s.io task ls -q); do
		at=$(find /sys/fs/cgroup/kubepods -type d -name "$id")
		echo "$(cat "$at/memory.$2") $(cat "$(dirname "$at")/memory.$2")"
	done | sort -r | head -n 1
}
ok "the plugin starts again" plugin_starts
ok "the pod that started before the module was loaded is protected now" comes_to "16777216 1048576" early a dirty_min
ok "and no longer counts as unprotected" shows "weir_nri_unprotected_pods 0"
ok "its floors count" shows 'weir_nri_floors_bytes{namespace="db"} 34603008'
clear_pods
counted() {
	get /metrics | grep -c 'weir_nri_floors_bytes{'
}
ok "until its cgroup is removed" comes_to 0 counted

plugin_stops
node_policy
ok "the plugin starts with another configuration" plugin_starts

ok "a pod with every knob starts" annotated dirty-min=8M dirty-bytes=64M dirty-ratio=30 dirty-weight=200 \
	dirty-bytes.b=75% dirty-min.b=0 pod.dirty-min=4M pod.dirty-bytes=50% pod.dirty-ratio=40 pod.dirty-weight=300 \
	-- --namespace db --pod-limit 268435456 every a=134217728 b=100663296
every=$pod
ok "its first container has the floor" has "$every" a dirty_min 8388608
ok "the ceiling in bytes" has "$every" a dirty_bytes 67108864
ok "the ceiling as a ratio" has "$every" a dirty_ratio 30
ok "the weight" has "$every" a dirty_weight 200
ok "its second a ceiling of its own, 75% of its memory limit" has "$every" b dirty_bytes 75497472
ok "no floor, as its own annotation says" has "$every" b dirty_min 0
ok "and what is for all of the pod's" has "$every" b dirty_ratio 30
ok "the pod's cgroup has its floor" has "$every" "" dirty_min 4194304
ok "its ceiling, half of its memory limit" has "$every" "" dirty_bytes 134217728
ok "its ratio" has "$every" "" dirty_ratio 40
ok "and its weight" has "$every" "" dirty_weight 300
ok "the namespace's reservation is both floors" shows 'weir_nri_floors_bytes{namespace="db"} 12582912'
ok "the container writes" writes cripod exec "$every" a
ok "and the kernel let it pass because of its floor" admitted "$(cripod pid "$every" a)"

ok "a new memory limit" cripod update "$every" b 50331648
ok "holds" has "$every" b max 50331648
ok "brings a new ceiling" has "$every" b dirty_bytes 37748736
ok "and leaves the rest" has "$every" b dirty_ratio 30
ok "a limit for the other one" cripod update "$every" a 67108864
ok "leaves its bytes" has "$every" a dirty_bytes 67108864
ok "the pod's own limit shrinks" takes "$(dirname "$(group "$every" a)")/memory.max" 201326592 201326592
ok "and its share of it" soon has "$every" "" dirty_bytes 100663296
ok "a third container comes" cripod add "$every" c=33554432
ok "with its knobs" has "$every" c dirty_weight 200
ok "and goes" cripod stop "$every" c
ok "what it reserved is free again" shows 'weir_nri_floors_bytes{namespace="db"} 12582912'

ok "a BestEffort pod starts" pod --qos besteffort best a
ok "with its class's ceiling" has "$pod" a dirty_bytes 8388608
ok "and the pod's" has "$pod" "" dirty_bytes 33554432
ok "an annotation replaces a default" annotated dirty-bytes=1M -- --qos besteffort best2 a
ok "in the container" has "$pod" a dirty_bytes 1048576
ok "not in the pod" has "$pod" "" dirty_bytes 33554432
ok "a Guaranteed pod in a namespace with a default" pod --qos guaranteed --namespace kube-system system a etcd-1=67108864
ok "has it in the container it is for" has "$pod" etcd-1 dirty_min 4194304
ok "a share too" has "$pod" etcd-1 dirty_bytes 33554432
ok "and not in the other" has "$pod" a dirty_min 0
ok "a pod that nothing is said of" pod plain a
ok "has what a cgroup begins with" has "$pod" a dirty_bytes max
ok "crun writes the files as well" annotated dirty-bytes=16M -- --runtime crun crun a
ok "as runc does" has "$pod" a dirty_bytes 16777216
clear_pods
finish
