# SPDX-License-Identifier: GPL-2.0-only
# Pods come and go while plugin and agent are killed and containerd restarts: none fails for it, no
# knob is lost meanwhile, and in the end each live pod has its knobs and nothing else is counted.
. ./kube.sh

starts=${WEIR_STORM:-30} # by each of two workers
kills=${WEIR_KILLS:-10}  # of plugin and agent each
restarts=${WEIR_RESTARTS:-2}
floors='weir_nri_floors_bytes{namespace="db"}'
configure <<END
allow:
- namespaces: [db]
  namespace-floor: 1G
END

# steadily WORKER COMMAND...: as kubelet asks: again while the runtime does not answer, which a
# restart of it does to whoever asks. That takes more than five minutes where a shim does not answer:
# see the timeouts in kube.sh.
steadily() {
	error=/tmp/storm.$1.error
	shift
	patient=$(($(date +%s) + 600))
	until "$@" 2>"$error"; do
		if [ "$(date +%s)" -ge $patient ] || ! grep -qE 'code = Unavailable|code = Canceled|connection refused|not initialized yet' "$error"; then
			cat "$error" >>"${error%error}failed"
			return 1
		fi
		echo . >>/tmp/storm.again
		sleep 1
	done
}
# worker NUMBER: of its pods each fifth stays
worker() {
	for i in $(seq "$starts"); do
		made=$(steadily "$1" cripod run --namespace db --annotation weir.dev/dirty-min=1M \
			--annotation weir.dev/pod.dirty-bytes=64M "storm-$1-$i" a) || continue
		echo . >>"/tmp/storm.$1.started"
		if [ $((i % 5)) -eq 0 ]; then
			echo "$made" >>/tmp/storm.live
		else
			steadily "$1" cripod remove "$made"
		fi
	done
}
all_protected() {
	while read -r sandbox; do
		has "$sandbox" a dirty_min 1048576 && has "$sandbox" "" dirty_bytes 67108864 || return 1
	done </tmp/storm.live
}
agent_starts() {
	systemd-run --quiet --collect --unit storm-agent weir agent --listen none --policy /tmp/storm.toml
}
counted() {
	get /metrics | grep '^weir_nri_floors_bytes{'
}
# The agent's knob, and a live pod's: sampled until the storm is over.
watch() {
	while [ -e /tmp/storm.watched ]; do
		[ "$(cat $kept)" = 8388608 ] || echo "the agent's: $(cat $kept)" >>/tmp/storm.lost
		[ "$(cat "$first_pod/memory.dirty_min")" = 2097152 ] || echo "the pod's" >>/tmp/storm.lost
		sleep 0.5
	done
}

plugin_stops
rm -f /tmp/storm.*
runtime false
plugin_starts
mkdir -p /sys/fs/cgroup/storm
kept=/sys/fs/cgroup/storm/memory.dirty_min
printf '[[rule]]\ncgroup = "/storm"\nset = { "memory.dirty_min" = "8M" }\n' >/tmp/storm.toml
agent_starts
ok "the agent sets its knob" soon grep -qx 8388608 $kept
ok "a pod that lives through it all" annotated dirty-min=2M -- --namespace db lives a
first_pod=$(group "$pod" a)
touch /tmp/storm.watched
watch &
watcher=$!
worker 1 &
first=$!
worker 2 &
second=$!
killed=0
for time in $(seq "$kills"); do
	plugin_dies && systemctl kill -s KILL storm-agent && killed=$((killed + 1))
	soon sh -c '! systemctl is-active --quiet storm-agent' && agent_starts
	plugin_starts
	[ $((time * restarts / kills)) -eq $(((time - 1) * restarts / kills)) ] || systemctl restart containerd
	sleep 3
done
wait $first $second
rm /tmp/storm.watched
wait $watcher
echo "# $(cat /tmp/storm.*.started | wc -l) pods started, plugin and agent killed $killed times, containerd restarted $restarts times; $(cat /tmp/storm.again 2>/dev/null | wc -l) calls asked again"
ok "every pod was started" is "$(cat /tmp/storm.*.started | wc -l)" $((2 * starts))
ok "without an error" is "$(cat /tmp/storm.*.failed 2>/dev/null | tail -n 5)" ""
ok "plugin and agent were killed as often" is "$killed" "$kills"
ok "no knob was lost on the way" test ! -e /tmp/storm.lost
ok "the plugin is connected" soon connected
ok "every live pod has its knobs" soon all_protected
live=$(wc -l </tmp/storm.live)
ok "and its floor counts, nothing else" comes_to "$floors $(((live + 2) * 1048576))" counted
ok "the agent's is there" is "$(cat $kept)" 8388608
clear_pods
ok "in the end nothing is counted" is "$(counted)" ""
left() {
	find /sys/fs/cgroup/kubepods -type d -name 'pod*' | while read -r at; do
		echo "$at, below it $(find "$at" -mindepth 1 -type d | wc -l): $(find "$at" -name cgroup.procs -exec cat {} + |
			xargs -r ps -o pid=,args= -p | tr '\n' ';')"
	done
}
ok "and no pod's cgroup is left" is "$(left)" ""
systemctl stop storm-agent
rmdir /sys/fs/cgroup/storm
plugin_stops
finish
