# SPDX-License-Identifier: GPL-2.0-only
# Pods come and go while plugin and agent are killed and containerd restarts: none fails for it, no
# knob is lost meanwhile, and in the end each live pod has its knobs and nothing else is counted.
# WEIR_CONTROL=1 is the same storm without weir: pods that ask for nothing, and restarts of containerd.
. ./kube.sh

starts=${WEIR_STORM:-30} # by each worker
workers=${WEIR_WORKERS:-2}
kills=${WEIR_KILLS:-10} # of plugin and agent each
restarts=${WEIR_RESTARTS:-2}
pause=${WEIR_PAUSE:-3}           # seconds after each kill
seconds=${WEIR_SECONDS:-1000000} # after which no worker begins another pod
stay=10                          # pods of each worker at most that outlive the next ones
control=${WEIR_CONTROL:-}
wishes="--annotation weir.dev/dirty-min=1M --annotation weir.dev/pod.dirty-bytes=64M"
floors='weir_nri_floors_bytes{namespace="db"}'
configure <<END
allow:
- namespaces: [db]
  namespace-floor: 1G
END

# steadily WORKER COMMAND...: as kubelet asks: again while the runtime does not answer, which a
# restart of it does to its callers. That takes more than five minutes where a shim does not answer:
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
		# shellcheck disable=SC2086 # a list of flags
		made=$(steadily "$1" cripod run --namespace db --runtime $runtime $wishes "storm-$1-$i" a) || continue
		echo . >>"/tmp/storm.$1.started"
		if [ $((i % 5)) -ne 0 ]; then
			steadily "$1" cripod remove "$made"
			continue
		fi
		process=$(steadily "$1" cripod pid "$made" a)
		echo "$made ${process:-none}" >>"/tmp/storm.$1.live"
		if [ "$(wc -l <"/tmp/storm.$1.live")" -gt $stay ]; then
			oldest=$(head -n 1 "/tmp/storm.$1.live")
			sed -i 1d "/tmp/storm.$1.live"
			made=${oldest% *}
			if runs "${oldest#* }"; then
				keeps "$1" "$made"
			else
				ends "$oldest"
				steadily "$1" cripod status "$made" a >>/tmp/storm.status
			fi
			steadily "$1" cripod remove "$made"
		fi
	done
}
# What is looked at twice a second for each pod is read by this shell: an emulated machine takes longer
# to start a program than all the rest of the storm.
runs() { # PROCESS: is in a pod
	read -r line 2>/dev/null <"/proc/$1/cgroup" || return 1
	case $line in
	*kubepods*) ;;
	*) return 1 ;;
	esac
}
holds() { # FILE VALUE
	read -r value <"$1" && [ "$value" = "$2" ]
}
# ends SANDBOX PROCESS: notes the first time that it is seen
ends() {
	grep -qF "$1" /tmp/storm.ended 2>/dev/null ||
		echo "$1, seen after $(cut -d ' ' -f 1 /proc/uptime) s" >>/tmp/storm.ended
}
protected() { # SANDBOX
	[ -z "$control" ] || return 0
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
# all_protected: those of the workers that run
all_protected() {
	cat /tmp/storm.[1-9]*.live 2>/dev/null | while read -r sandbox process; do
		! runs "$process" || protected "$sandbox" || return 1
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
# The agent's knob, and a live pod's, and whether the others live: sampled until the storm is over.
watch() {
	while [ -e /tmp/storm.watched ]; do
		for list in /tmp/storm.*.live; do
			while read -r sandbox process; do
				# A worker takes a pod from its list before it removes it.
				runs "$process" || ! grep -qsF "$sandbox" /tmp/storm.*.live || ends "$sandbox $process"
			done <"$list"
		done
		sleep 0.5
		[ -z "$control" ] || continue
		holds $kept 8388608 || echo "the agent's: $(cat $kept)" >>/tmp/storm.lost
		holds "$first_pod/memory.dirty_min" 2097152 || echo "the pod's" >>/tmp/storm.lost
	done
}

# what_ended: what the runtime says of pods that were to live, and what happened around them
what_ended() {
	log=/tmp/storm.containerd
	journalctl --no-pager -b -u containerd -o short-monotonic >$log
	touch /tmp/storm.ended
	while read -r sandbox process rest; do
		id=$(cripod status "$sandbox" a 2>&1)
		echo "# ended: $sandbox, process $process $rest: $id"
		id=${id%% *}
		grep -F -e "$sandbox" -e "$id" $log | tail -n 40 | cut -c1-500 | sed 's/^/#   /'
	done </tmp/storm.ended
	[ ! -e /tmp/storm.status ] || sed 's/^/# ended, removed since: /' /tmp/storm.status
	grep -E 'Starting containerd|Started containerd|Stopping containerd|Stopped containerd|leaked shim|load shim|Failed to load|unexpected|level=error' $log |
		tail -n 150 | cut -c1-400 | sed 's/^/# /'
	journalctl --no-pager -b -k -o short-monotonic | grep -iE 'kill|oom|segfault|weir' | tail -n 30 | sed 's/^/# kernel: /'
}

plugin_stops
rm -f /tmp/storm.*
runtime false
kept=/sys/fs/cgroup/storm/memory.dirty_min
if [ -z "$control" ]; then
	plugin_starts
	mkdir -p /sys/fs/cgroup/storm
	printf '[[rule]]\ncgroup = "/storm"\nset = { "memory.dirty_min" = "8M" }\n' >/tmp/storm.toml
	agent_starts
	ok "the agent sets its knob" soon grep -qx 8388608 $kept
	ok "a pod that lives through it all" annotated dirty-min=2M -- --namespace db lives a
else
	ok "no module is loaded" test ! -e /sys/module/weir
	wishes=
	ok "a pod that lives through it all" pod --namespace db lives a
fi
first_pod=$(group "$pod" a)
echo "$pod $(cripod pid "$pod" a)" >/tmp/storm.0.live
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
	if [ -z "$control" ]; then
		plugin_dies && systemctl kill -s KILL storm-agent && killed=$((killed + 1))
		soon sh -c '! systemctl is-active --quiet storm-agent' && agent_starts
		plugin_starts
	fi
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
ok "each pod that was to live on runs" is "$(cat /tmp/storm.ended 2>/dev/null)" ""
if [ -z "$control" ]; then
	ok "plugin and agent were killed as often" is "$killed" "$kills"
	ok "no knob was lost on the way" test ! -e /tmp/storm.lost
	ok "the plugin is connected" soon connected
	ok "every live pod has its knobs" soon all_protected
	live=$(cat /tmp/storm.*.live | while read -r sandbox process; do ! runs "$process" || echo "$sandbox"; done | wc -l)
	# The one that lives through it all has one more.
	runs "$(sed 's/.* //' /tmp/storm.0.live)" && live=$((live + 1))
	ok "and its floor counts, nothing else" comes_to "$floors $((live * 1048576))" counted
	ok "the agent's is there" is "$(cat $kept)" 8388608
fi
[ $failed -eq 0 ] || what_ended
clear_pods
[ -n "$control" ] || ok "in the end nothing is counted" is "$(counted)" ""
left() {
	find /sys/fs/cgroup/kubepods -type d -name 'pod*' | while read -r at; do
		echo "$at, below it $(find "$at" -mindepth 1 -type d | wc -l): $(find "$at" -name cgroup.procs -exec cat {} + |
			xargs -r ps -o pid=,args= -p | tr '\n' ';')"
	done
}
ok "and no pod's cgroup is left" is "$(left)" ""
[ -z "$control" ] || finish
systemctl stop storm-agent
rmdir /sys/fs/cgroup/storm
plugin_stops
finish
