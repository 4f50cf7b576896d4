# SPDX-License-Identifier: GPL-2.0-only
# A node that allows no module: the chart's pod in stock mode. The plugin writes rules down, the agent
# keeps them by the kernel's own files, and takes them back when a pod or the agent ends.
. ./work.sh

plugin_stops
clear_pods
[ ! -e /sys/module/weir ] || module_unloads
rm -f /run/weir/*
runtime false
rules=/run/weir/pods.toml
agent=127.0.0.1:9759

limit_of() { # SANDBOX CONTAINER: memory.high of its cgroup; the container "" is the pod itself
	at=$(group "$1" "${2:-a}")
	[ -n "$2" ] || at=$(dirname "$at")
	cat "$at/memory.high"
}
limited() {
	high=$(limit_of "$@") && echo "$high" && [ "$high" != max ]
}
ruled() { # NUMBER: so many rules
	is "$(grep -c '^\[\[rule\]\]' $rules)" "$1" || { cat $rules; return 1; }
}
agent_shows() { # PATTERN: a line of its metrics
	(
		address=$agent
		get /metrics 2>/dev/null | grep -- "$1"
	)
}
applied() {
	own=$(cripod apply weir-stock.yaml 2>/tmp/apply.err) || { cat /tmp/apply.err; return 1; }
}
held() { # what a pod's container has dirty or in writeback, in MiB
	awk '$1 == "file_dirty" || $1 == "file_writeback" { sum += $2 } END { print int(sum / 1048576) }' "$(group "$1" a)/memory.stat"
}
# most SANDBOX: while it writes 256 MiB, looked at once a second
most() {
	cripod exec "$1" a /bin/dd if=/dev/zero of=/data/flood bs=64k count=4096 >/tmp/flood 2>&1 &
	flood=$!
	most=0
	while kill -0 $flood 2>/dev/null; do
		now=$(held "$1")
		[ "$now" -le $most ] || most=$now
		sleep 1
	done
	wait $flood
	sync
	echo $most
}

ok "the programs' image is imported" sh -c 'zcat weir.tar.gz | ctr -n k8s.io images import -'
ok "a disk of 16 MiB/s" disk fast
ratio=$(cat /proc/sys/vm/dirty_ratio) background=$(cat /proc/sys/vm/dirty_background_ratio)
dirty $((128 << 20)) $((64 << 20))
ok "a pod before there is a plugin" annotated dirty-bytes=8M -- --namespace db-1 --data /mnt/fast before a
before=$pod
without=$(most "$before")
ok "has no limit" is "$(limit_of "$before" a)" max
cripod remove "$before"

ok "the manifest's pod starts in stock mode" applied
ok "its plugin is ready" soon connected
ok "and its agent" soon agent_shows weir_agent_stock_settings
ok "no module is loaded" test ! -e /sys/module/weir
for c in nri agent; do
	pid=$(cripod pid "$own" $c)
	ok "$c has CAP_SYS_RESOURCE alone" is "$(sed -n 's/^CapEff:\t//p' "/proc/$pid/status")" 0000000001000000
done

ok "a pod with wishes starts" annotated dirty-bytes=8M dirty-bandwidth=4M pod.dirty-bytes=50% -- \
	--namespace db-1 --pod-limit 201326592 --data /mnt/fast asks a=67108864
asks=$pod
ok "what the module would have is not there" test ! -e "$(group "$asks" a)/memory.dirty_bytes"
ok "its rules are written down: for the container and the pod" ruled 2
ok "as it asks" grep -qx 'set = { "memory.dirty_bytes" = "8388608", "memory.dirty_bandwidth" = "4194304" }' $rules
ok "the pod's is half of its limit" grep -qx 'set = { "memory.dirty_bytes" = "100663296" }' $rules
ok "its container has a memory.high" soon limited "$asks" a
ok "and so has the pod" soon limited "$asks" ""
ok "it is not counted as unprotected" shows "weir_nri_unprotected_pods 0"
ok "it writes" cripod exec "$asks" a /bin/dd if=/dev/zero of=/data/asks bs=64k count=32 conv=fsync
ok "once it has used the disk, its bandwidth is an io.max" soon grep -q 'wbps=4194304' "$(group "$asks" a)/io.max"
# A second's worth of its bandwidth is less than the ceiling it asks for.
ceiling="^weir_agent_stock_ceiling_bytes{.*$(group_of "$(cripod pid "$asks" a)").*} 4194304$"
ok "the agent's metrics have its ceiling" soon agent_shows "$ceiling"
ok "a wish that is not allowed is refused as ever" refused 'a floor (dirty-min) is not allowed in namespace default' dirty-min=1M -- p a
ok "and a wrong value" refused 'invalid value `16MB`' dirty-bytes=16MB -- --namespace db-1 p a
ok "they leave no rule" ruled 2

ok "a pod with a share of its memory" annotated dirty-bytes=25% -- --namespace db-1 --data /mnt/fast share a=536870912
share=$pod
ok "has a rule" grep -qx 'set = { "memory.dirty_bytes" = "134217728" }' $rules
ok "a new memory limit" cripod update "$share" a 268435456
ok "changes it" grep -qx 'set = { "memory.dirty_bytes" = "67108864" }' $rules
cripod remove "$share"
ok "which goes with the pod" ruled 2

ok "a flood with a ceiling starts" annotated dirty-bytes=8M -- --namespace db-1 --data /mnt/fast flood a
flooding=$pod
ok "it has a memory.high" soon limited "$flooding" a
with=$(most "$flooding")
echo "# most dirty of a writer, looked at once a second, MiB: $without without weir, $with with a ceiling of 8"
ok "it held much without weir" test "$without" -ge 64
# How much less is for guests that count instructions: here an agent that looks late lets it hold more.
ok "and holds less now" test "$with" -le $((without / 2))
cripod remove "$flooding"

ok "a pod with nothing to say" pod other a
other=$pod
ok "has no limit" is "$(limit_of "$other" a)" max
ok "a pod with a floor" annotated dirty-min=16M -- --namespace db-1 floor a
floor=$pod
ok "the other one leaves room for it" soon limited "$other" a
ok "which itself is not limited" is "$(limit_of "$floor" a)" max
cripod remove "$floor"
unlimited() {
	is "$(limit_of "$@")" max
}
ok "until it has gone" soon unlimited "$other" a

cripod remove "$own"
ok "the agent has gone, and its limits" unlimited "$asks" a
ok "the pod's, too" unlimited "$asks" ""
ok "the disk's" is "$(cat "$(group "$asks" a)/io.max")" ""
ok "the next pod of the manifest starts, as in an upgrade" applied
ok "its plugin is ready" soon connected
ok "it has the rules of what lives, no more" ruled 2
ok "and they hold" soon limited "$asks" a
ok "the agent is killed" kill -KILL "$(cripod pid "$own" agent)"
ok "what it has set stays" limited "$asks" a
cripod remove "$own"
ok "the next one starts" applied
ok "its plugin is ready" soon connected
ok "its agent has the limit that the other one left" soon agent_shows "$ceiling"
at=$(dirname "$(group "$asks" a)")
ok "a pod's sandbox ends, and its containers" cripod halt "$asks"
ok "its cgroup has no memory.high any more" comes_to max cat "$at/memory.high"
ok "and there is no rule" ruled 0
clear_pods
ok "nothing is noted as set" says "" grep -o '"directory":[^,]*' /run/weir/stock.json
umount /mnt/fast
echo "$background" >/proc/sys/vm/dirty_background_ratio
echo "$ratio" >/proc/sys/vm/dirty_ratio
finish
