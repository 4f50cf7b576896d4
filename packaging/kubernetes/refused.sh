# SPDX-License-Identifier: GPL-2.0-only
# A wish that is wrong or not allowed: the pod's creation fails at once, and the runtime's
# error, which kubelet makes an event of, has the reason.
. ./kube.sh

plugin_stops
runtime false
node_policy
ok "the plugin starts" plugin_starts

begun=$(date +%s)
ok "a value that is none" refused 'weir: pod db/p, container a: annotation weir.dev/dirty-min: invalid value `16MB` for memory.dirty_min: expected bytes with optional K, M, G or T, or `max`, or a share' \
	dirty-min=16MB -- --namespace db p a
echo "# took $(($(date +%s) - begun)) s, sandbox included; what kubelet would show:"
sed 's/^/#   /' /tmp/pod.err
ok "a knob that weir does not have" refused 'unknown annotation weir.dev/dirty-byte: expected weir.dev/ and one of dirty-min,' dirty-byte=1M -- p a
ok "a wrong value for another container" refused 'annotation weir.dev/dirty-bytes.b: invalid value' dirty-bytes.b=x -- p a b
ok "a share of a limit that is not there" refused '75% of the memory limit, and there is none' dirty-bytes=75% -- p a
ok "a pod's share without a limit" refused "for the pod's cgroup: memory.dirty_bytes: 75% of the memory limit" pod.dirty-bytes=75% -- p a
ok "a floor where none is allowed" refused 'a floor (dirty-min) is not allowed in namespace default on this node' dirty-min=1M -- p a
ok "a pod's floor, too" refused 'is not allowed in namespace default' pod.dirty-min=1M -- p a
ok "a floor of 0 needs no leave" annotated dirty-min=0 -- p a
ok "a pod's weight beyond what is" refused 'allows up to 300' pod.dirty-weight=301 -- --namespace db p a
ok "more than a pod may reserve" refused 'would be 26214400 bytes, and a pod in namespace db may reserve 25165824' dirty-min=25M -- --namespace db p a
ok "two containers' floors add up" refused 'would be 31457280 bytes' dirty-min=15M -- --namespace db p a b
ok "a container's and the pod's do" refused 'would be 25169920 bytes' dirty-min=24M pod.dirty-min=4K -- --namespace db p a
ok "nothing of the refused is counted" is "$(get /metrics | grep -c 'weir_nri_floors_bytes{')" 0
ok "a pod within its bounds" annotated dirty-min=24M -- --namespace db first a
first=$pod
ok "a second beyond the namespace's" refused 'other pods of namespace db reserve 25165824, and all of them may reserve 41943040' \
	dirty-min=17M -- --namespace db second a
ok "and one that fits beside it" annotated dirty-min=16M -- --namespace db second a
cripod remove "$first"
ok "what the first reserved is free once it is gone" annotated dirty-min=24M -- --namespace db third a
ok "a metric counts refusals" sh -c 'test "$1" -ge 10' sh "$(get /metrics | sed -n 's/^weir_nri_refused_total //p')"
ok "no refused pod is left" is "$(cripod remove all && ctr -n k8s.io container ls -q | wc -l)" 0
ok "nor its cgroup" is "$(find /sys/fs/cgroup/kubepods -type d -name 'pod*' | wc -l)" 0
finish
