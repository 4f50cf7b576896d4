# SPDX-License-Identifier: GPL-2.0-only
# Pods come and go while plugin and agent are killed and containerd restarts: none fails for it, no
# knob is lost meanwhile, and in the end each live pod has its knobs and nothing else is counted.
. ./kube.sh

starts=${WEIR_STORM:-30} # by each worker
workers=${WEIR_WORKERS:-2}
kills=${WEIR_KILLS:-10} # of plugin and agent each
restarts=${WEIR_RESTARTS:-2}
pause=${WEIR_PAUSE:-3}           # seconds after each kill
seconds=${WEIR_SECONDS:-1000000} # after which no worker begins another pod
stay=10                          # pods of each worker at most that outlive the next ones
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
# worker NUMBER: by runc and crun in turns. Of its pods each fifth stays: a while, if there are many.
worker() {
	for i in $(seq "$starts"); do
		[ "$(cut -d . -f 1 /proc/uptime)" -lt $over ] || return 0
		runtime=runc
		[ $((i % 2)) -eq 0 ] || runtime=crun
		echo . >>"/tmp/storm.$1.begun"
		made=$(steadily "$1" cripod run --namespace db --annotation weir.dev/dirty-min=1M --runtime $runtime \
			--annotation weir.dev/pod.dirty-bytes=64M "storm-$1-$i" a) || continue
		echo . >>"/tmp/storm.$1.started"
		if [ $((i % 5)) -ne 0 ]; then
			steadily "$1" cripod remove "$made"
			continue
		fi
		echo "$made" >>"/tmp/storm.$1.live"
		if [ "$(wc -l <"/tmp/storm.$1.live")" -gt $stay ]; then
			made=$(head -n 1 "/tmp/storm.$1.live")
			sed -i 1d "/tmp/storm.$1.live"
			keeps "$1" "$made"
			steadily "$1" cripod remove "$made"
		fi
	done
}
protected() { # SANDBOX
	has "$1" a dirty_min 1048576 && has "$1" "" dirty_bytes 67108864
}
# keeps WORKER SANDBOX: it has its knobs, or gets them as soon as plugin and runtime are there
keeps() {
	patient=$(($(date +%s) + 600))
	until protected "$2" >"/tmp/storm.$1.lacks" 2>&1; do
		if [ "$(date +%s)" -ge $patient ]; then
			{ echo "$2 has lost its knobs:"; cat "/tmp/storm.$1.lacks"; } >>"/tmp/storm.$1.failed"
			return
		fi
		sleep 1
	done
	echo . >>/tmp/storm.kept
}
all_protected() {
	for sandbox in $(cat /tmp/storm.*.live); do
		protected "$sandbox" || return 1
	done
}
# lines FILE...: of all of them
lines() {
	cat "$@" 2>/dev/null | wc -l
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
begun=$(cut -d . -f 1 /proc/uptime)
over=$((begun + seconds))
at_work=
for number in $(seq "$workers"); do
	worker "$number" &
	at_work="$at_work $!"
done
killed=0
for time in $(seq "$kills"); do
	plugin_dies && systemctl kill -s KILL storm-agent && killed=$((killed + 1))
	soon sh -c '! systemctl is-active --quiet storm-agent' && agent_starts
	plugin_starts
	[ $((time * restarts / kills)) -eq $(((time - 1) * restarts / kills)) ] || systemctl restart containerd
	sleep "$pause"
done
echo "# after the last kill, $(($(cut -d . -f 1 /proc/uptime) - begun)) s: $(lines /tmp/storm.*.started) pods started"
# shellcheck disable=SC2086 # a list
wait $at_work
rm /tmp/storm.watched
wait $watcher
started=$(lines /tmp/storm.*.started)
echo "# $started pods started in $(($(cut -d . -f 1 /proc/uptime) - begun)) s, $(lines /tmp/storm.kept) looked at before they went; plugin and agent killed $killed times, containerd restarted $restarts times; $(lines /tmp/storm.again) calls asked again"
begun=$((workers * starts))
[ -z "${WEIR_SECONDS:-}" ] || begun=$(lines /tmp/storm.*.begun)
ok "every pod was started" is "$started" "$begun"
ok "without an error" is "$(cat /tmp/storm.*.failed 2>/dev/null | tail -n 5)" ""
ok "plugin and agent were killed as often" is "$killed" "$kills"
ok "no knob was lost on the way" test ! -e /tmp/storm.lost
ok "the plugin is connected" soon connected
ok "every live pod has its knobs" soon all_protected
# One whose container has ended has none; containerd may have taken a live shim for a leaked or a dead one.
[ $failed -eq 0 ] || journalctl --no-pager -b -u containerd -o short-monotonic |
	grep -E 'Starting containerd|leaked shim|load shim|Failed to load|unexpected|level=error' | tail -n 100 | cut -c1-400 | sed 's/^/# /'
live=$(lines /tmp/storm.*.live)
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
