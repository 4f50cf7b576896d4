# SPDX-License-Identifier: GPL-2.0-only
# Pods come and go while the plugin is killed: none fails for it, and in the end each live
# pod has its knobs and nothing else is counted.
. ./kube.sh

starts=${WEIR_STORM:-30} # by each of two workers
kills=${WEIR_KILLS:-10}
configure <<END
allow:
- namespaces: [db]
  namespace-floor: 1G
END

# worker NUMBER: of its pods each fifth stays
worker() {
	for i in $(seq "$starts"); do
		made=$(cripod run --namespace db --annotation weir.dev/dirty-min=1M \
			--annotation weir.dev/pod.dirty-bytes=64M "storm-$1-$i" a 2>>"/tmp/storm.$1.failed") || continue
		echo . >>"/tmp/storm.$1.started"
		if [ $((i % 5)) -eq 0 ]; then
			echo "$made" >>/tmp/storm.live
		else
			cripod remove "$made" 2>>"/tmp/storm.$1.failed"
		fi
	done
}
all_protected() {
	while read -r sandbox; do
		has "$sandbox" a dirty_min 1048576 && has "$sandbox" "" dirty_bytes 67108864 || return 1
	done </tmp/storm.live
}

rm -f /tmp/storm.*
runtime false
plugin_starts
worker 1 &
first=$!
worker 2 &
second=$!
killed=0
for time in $(seq "$kills"); do
	plugin_dies && killed=$((killed + 1))
	plugin_starts
	sleep 3
done
wait $first $second
echo "# $(cat /tmp/storm.*.started | wc -l) pods started, plugin killed $killed times"
ok "every pod was started" is "$(cat /tmp/storm.*.started | wc -l)" $((2 * starts))
ok "without an error" test -z "$(cat /tmp/storm.*.failed)"
ok "the plugin was killed as often" is "$killed" "$kills"
ok "every live pod has its knobs" soon all_protected
live=$(wc -l </tmp/storm.live)
ok "and its floor counts, nothing else" shows "weir_nri_floors_bytes{namespace=\"db\"} $((live * 1048576))"
for time in 1 2; do
	ok "containerd restarts" systemctl restart containerd
	ok "the plugin connects again" soon connected
	ok "knobs are kept" all_protected
	ok "and counted" shows "weir_nri_floors_bytes{namespace=\"db\"} $((live * 1048576))"
done
clear_pods
ok "in the end nothing is counted" is "$(get /metrics | grep -c 'weir_nri_floors_bytes{')" 0
ok "and no pod's cgroup is left" is "$(find /sys/fs/cgroup/kubepods -type d -name 'pod*' | wc -l)" 0
plugin_stops
finish
