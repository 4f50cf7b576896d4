# SPDX-License-Identifier: GPL-2.0-only
# The chart's mode auto on nodes of every kind: a pod is protected by the module where the kernel takes
# it, and by stock files where not, and the node says by which and why. The API server is a stand-in that
# merges patches by the API's own code. Headers come while the pod runs, or, where a weir.ko was brought
# (an emulated machine compiles for minutes), that module does. The last steps lock the kernel down and
# demand signatures, until the guest ends: nothing that loads the module comes after this.
. ./kube.sh

plugin_stops
clear_pods
[ ! -e /sys/module/weir ] || module_unloads
rm -f /run/weir/*
runtime false
kernel=/lib/modules/$(uname -r)
marks=/run/marks
systemd-run --quiet --collect --unit weir-api /usr/local/bin/cripod serve $marks
ok "the programs' image is imported" sh -c 'zcat weir.tar.gz | ctr -n k8s.io images import -'
ok "the compiler's, too" sh -c 'zcat weir-module.tar.gz | ctr -n k8s.io images import -'

applied() {
	own=$(cripod apply weir-auto.yaml 2>/tmp/apply.err) || { cat /tmp/apply.err; return 1; }
}
# marked MODE WORDS: label and annotation of the node; without words it has no reason
marked() {
	mode=$(jq -r '.metadata.labels["weir.dev/mode"] // ""' $marks/node.json) || return 1
	why=$(jq -r '.metadata.annotations["weir.dev/reason"] // ""' $marks/node.json)
	echo "mode '$mode', reason: $why"
	[ "$mode" = "$1" ] || return 1
	case $why in
	*"$2"*) [ -n "$2" ] || [ -z "$why" ] ;;
	*) return 1 ;;
	esac
}
ready() { # what `kubectl get nodes -l weir.dev/ready=true` finds
	is "$(jq -r '.metadata.labels["weir.dev/ready"]' $marks/node.json)" true
}
told() { # WORDS: the last event has them
	tail -n 1 $marks/events | grep -F -- "$1" || { cat $marks/events; return 1; }
}
limited() { # SANDBOX: by a stock kernel's file
	high=$(cat "$(group "$1" a)/memory.high") && echo "$high" && [ "$high" != max ]
}
since() {
	echo $(($(date +%s) - $1))
}
# stays_stock KIND WORDS: a node of this kind says so, and a pod with a wish is protected all the same
stays_stock() {
	begun=$(date +%s)
	ok "$1: the pod of the manifest starts" applied
	ok "$1: its plugin is ready" soon connected
	ok "$1: a pod with a wish starts" annotated dirty-bytes=8M -- --namespace db-1 first a
	first=$pod
	ok "$1: it is protected by a stock file" soon limited "$first"
	took=$(since "$begun")
	ok "$1: the node is marked, with the reason" within 120 marked stock "$2"
	ok "$1: and ready" ready
	ok "$1: an event tells of it" told "Normal pods are protected by: stock: the module is not loaded"
	ok "$1: no module is loaded" test ! -e /sys/module/weir
	echo "# $1: protected in $took s, marked in $(since "$begun") s: $(marked stock "$2")"
}
ended() { # as the pods of a node that is drained
	cripod remove "$first" && cripod remove "$own"
}

ok "no module is installed" test ! -e "$kernel/updates/weir.ko"
mv "$kernel/build" "$kernel/build.away"
stays_stock "no headers" "the node has no headers of it to build one from"
before=$(group "$first" a)
begun=$(date +%s)
mv "$kernel/build.away" "$kernel/build"
mkdir -p "$kernel/updates"
come="headers come"
if [ -e weir.ko ]; then
	come="a module comes"
	cp weir.ko "$kernel/updates/.new" && mv "$kernel/updates/.new" "$kernel/updates/weir.ko"
fi
ok "$come: it is loaded" within 1200 test -e /sys/kernel/weir/state
echo "# $come: loaded after $(since "$begun") s"
kept() { # the request of before, by the module and by nothing else
	is "$(cat "$before/memory.dirty_bytes") $(cat "$before/memory.high")" "8388608 max"
}
ok "$come: what was asked before is the module's" within 120 kept
ok "$come: the node is marked, without a reason" within 120 marked module ""
ok "$come: and ready" ready
ok "$come: an event tells of it" told "Normal pods are protected by: module"
echo "# $come: marked after $(since "$begun") s"
ok "$come: a new pod has its knob from the start" annotated dirty-bytes=8M -- --namespace db-1 second a
ok "$come: in its file" has "$pod" a dirty_bytes 8388608
cripod remove "$pod"
cp /var/lib/cripod/*/module/modules/*/updates/weir.ko "$kernel/updates"
ok "the pods end" ended
ok "and leave no mark" is "$(jq -c '[.metadata.labels, .metadata.annotations]' $marks/node.json)" "[null,null]"

begun=$(date +%s)
ok "module: the next pod starts" applied
ok "module: its plugin is ready" soon connected
ok "module: a pod with a wish starts" annotated dirty-bytes=8M -- --namespace db-1 first a
first=$pod
ok "module: it is protected by weir's own" has "$first" a dirty_bytes 8388608
took=$(since "$begun")
ok "module: the node is marked, without a reason" within 120 marked module ""
echo "# module: protected in $took s, marked in $(since "$begun") s"
ok "module: no limit is set" is "$(cat "$(group "$first" a)/memory.high")" max
ok "module: the pods end" ended
rmmod weir

silence_ftrace
stays_stock "refused by the module" "is kernel.ftrace_enabled 1?"
echo 1 >/proc/sys/kernel/ftrace_enabled
ok "refused by the module: the pods end" ended
echo integrity >/sys/kernel/security/lockdown
stays_stock "lockdown" "which the kernel's lockdown demands"
ok "lockdown: the pods end" ended
echo 1 >/sys/module/module/parameters/sig_enforce
stays_stock "module.sig_enforce=1" "which module.sig_enforce demands"
ok "module.sig_enforce=1: the pods end" ended
rm "$kernel/updates/weir.ko"
systemctl stop weir-api
finish
