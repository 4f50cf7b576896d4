#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Writes what a build of weir prints into DIRECTORY, to be compared with what another build prints:
#   tools/goldens.sh /tmp/before && ... && tools/goldens.sh /tmp/after && diff -r /tmp/before /tmp/after
#   twin/     run --on twin --json: every scenario, both arms, seed 1
#   traces/   explain and report: every trace and recording in the tree
#   check/    check --json: every scenario without each of its lines, and with the values of each
#             line replaced by "100B" and by "4K"
# WEIR is the command, by default the debug build's.
set -uo pipefail
cd "$(dirname "$0")/.."
out=${1:?usage: tools/goldens.sh DIRECTORY}
weir=${WEIR:-${CARGO_TARGET_DIR:-target}/x86_64-unknown-linux-gnu/debug/weir-bench}
weir=$(realpath "$weir") || exit
# No run of the twin may take longer, in seconds.
most=60
mkdir -p "$out"/{twin,traces,check} || exit
scratch=$(mktemp -d) || exit
trap 'rm -rf "$scratch"' EXIT

# keep FILE COMMAND...: its output and exit status; what the run took is not the same twice
keep() {
	"${@:2}" >"$1" 2>"$scratch/errors"
	echo "exit status $?" >>"$1"
	grep -v '^weir: twin: [0-9]* events' "$scratch/errors" >>"$1"
}

for scenario in scenarios/*.toml scenarios/{twin,fsync}/*.toml; do
	name=${scenario#scenarios/}
	name=${name//\//-}
	keep "$out/twin/$name.json" timeout $most "$weir" run "$scenario" --on twin --seed 1 --json
	! grep -q '^exit status 124$' "$out/twin/$name.json" ||
		echo "goldens: $scenario takes more than $most s on the twin: left out" >&2
done

for trace in node/report/tests/traces/*.{txt,weir}; do
	name=$(basename "$trace")
	keep "$out/traces/$name.explain" "$weir" explain --from "$trace"
	keep "$out/traces/$name.explain.json" "$weir" explain --from "$trace" --json
	keep "$out/traces/$name.report" "$weir" report "$trace"
	keep "$out/traces/$name.perfetto" "$weir" report "$trace" --perfetto /dev/stdout
	keep "$out/traces/$name.html" "$weir" report "$trace" --html /dev/stdout
done

# check FILE: adds what is wrong with the scenario on stdin
check() {
	cat >"$scratch/scenario.toml"
	(cd "$scratch" && "$weir" check --json scenario.toml) >>"$1" 2>&1
}
for scenario in scenarios/*.toml scenarios/twin/*.toml bench/weir-bench/tests/guest/*.toml; do
	name=${scenario//\//-}
	: >"$out/check/$name"
	lines=$(wc -l <"$scenario")
	for ((line = 1; line <= lines; line++)); do
		sed "${line}d" "$scenario" | check "$out/check/$name"
		for value in 100B 4K; do
			sed -E "${line}s/= *(\"[^\"]*\"|[0-9.]+)/= \"$value\"/g" "$scenario" |
				check "$out/check/$name"
		done
	done
done
