# SPDX-License-Identifier: GPL-2.0-only
# What a pod's start takes: no plugin, the plugin with a pod that it does not concern, and
# with knobs for the container and the pod.  In turns, so that the machine's load is in all.
. ./kube.sh

each=${WEIR_PODS:-10} # pods in a turn; three turns
bench() { # FILE FLAGS...
	file=$1
	shift
	cripod bench "$@" $each >>$file
}
knobs="--namespace db --annotation weir.dev/dirty-min=1M --annotation weir.dev/dirty-bytes=50% --annotation weir.dev/pod.dirty-bytes=64M"
rm -f /tmp/none /tmp/plain /tmp/knobs
runtime false
cripod bench 2 >/dev/null
for turn in 1 2 3; do
	ok "turn $turn without the plugin" bench /tmp/none
	plugin_starts
	ok "with it, without knobs" bench /tmp/plain
	# shellcheck disable=SC2086 # a list of flags
	ok "with knobs" bench /tmp/knobs $knobs
	plugin_stops
done
for kind in none plain knobs; do
	sort -n /tmp/$kind | awk -v kind=$kind '{ t[NR] = $1 } END {
		printf "# %s: N %d, ms of a start: median %.1f, p99 %.1f, range %.1f to %.1f\n",
			kind, NR, (t[int((NR + 1) / 2)] + t[int(NR / 2) + 1]) / 2, t[int(NR * 0.99 + 0.99)], t[1], t[NR] }'
done
finish
