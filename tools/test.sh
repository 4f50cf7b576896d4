#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Runs what `make test` runs, and says on stderr what runs now, how many tests of how many are over
# and about how long the rest takes. What cargo and the test programs print is passed on as it is.
#   WEIR_TEST_GUESTS=N  guests side by side (default: as many as cores, at least 4, if memory allows)
set -uo pipefail
cd "$(dirname "$0")/.."

steps=5
step=0
failed=()
# What each step took when all last passed, in seconds.
times=${CARGO_TARGET_DIR:-target}/make-test-times
took=()

say() {
	echo "make test: $*" >&2
}

# step TITLE COMMAND...: goes on if the command fails, so that one run shows all that is wrong
step() {
	local begun=$SECONDS left
	step=$((step + 1))
	left=$(tail -n +$step "$times" 2>/dev/null | awk '{ s += $1 } END { if (NR) print s }')
	[ -z "$left" ] || left=", about $(minutes "$left") left if it is as last time"
	say "step $step of $steps, $1, after $(minutes $SECONDS)$left"
	"${@:2}" || failed+=("$1")
	took+=($((SECONDS - begun)))
}

# minutes SECONDS: 45 s, 2 min 05 s
minutes() {
	if [ "$1" -lt 60 ]; then
		echo "$1 s"
	else
		printf '%d min %02d s\n' $(($1 / 60)) $(($1 % 60))
	fi
}

# A guest uses about half a core: its writers sleep. One may have 3 GiB of memory.
guests() {
	local fit want
	fit=$(awk '/^MemAvailable:/ { print int($2 / 3145728) }' /proc/meminfo)
	want=$(nproc)
	want=$((want < 4 ? 4 : want))
	echo $((fit < 1 ? 1 : fit < want ? fit : want))
}

# with_progress THREADS NAMES: passes the output of a test program on, which runs the tests of the
# file NAMES in their order and prints a line for each that has ended
with_progress() {
	local threads=$1 begun=$SECONDS said=$SECONDS over=0 line name left got
	local -a names
	local -A ended=()
	mapfile -t names <"$2"
	while :; do
		IFS= read -r -t 20 line
		got=$?
		# more than 128: no whole line came in time; else the output has ended
		case $got in
		0) printf '%s\n' "$line" ;;
		*) printf '%s' "$line" ;;
		esac
		[ $got -eq 0 ] || [ $got -gt 128 ] || break
		case $line in
		"test "*" ... ignored"*) ;;
		"test "*" ... "*)
			name=${line#test }
			ended[${name%% *}]=1
			over=$((over + 1))
			;;
		esac
		[ $((SECONDS - said)) -ge 10 ] && [ $over -lt ${#names[@]} ] || continue
		said=$SECONDS
		left=
		[ $over -lt "$threads" ] ||
			left=", about $(minutes $(((SECONDS - begun) * (${#names[@]} - over) / over))) left"
		say "$over of ${#names[@]} guest tests over$left; now:$(running "$threads")"
	done
}

# running THREADS: the first of $names that have not ended
running() {
	local name n=0
	for name in "${names[@]}"; do
		[ -z "${ended[$name]-}" ] || continue
		[ $n -lt "$1" ] || break
		n=$((n + 1))
		printf ' %s' "$name"
	done
}

# The doctests of the command are none.
without_guests() {
	local status=0
	cargo test --locked --workspace --exclude weir --no-fail-fast || status=1
	cargo test --locked --package weir --no-fail-fast --bins --test agent --test cli --test manual \
		--test packages --test report --test top || status=1
	return $status
}

in_guests() {
	local threads names status
	threads=${WEIR_TEST_GUESTS:-$(guests)}
	names=$(mktemp) || return 1
	# The ignored ones are listed, too.
	cargo test --quiet --locked --package weir --test guest -- --list 2>/dev/null |
		sed -n 's/: test$//p' | LC_ALL=C sort >"$names"
	cargo test --quiet --locked --package weir --test guest -- --list --ignored 2>/dev/null |
		sed -n 's/: test$//p' | LC_ALL=C sort | LC_ALL=C comm -23 "$names" - >"$names.run"
	say "$(wc -l <"$names.run") tests in guests, $threads side by side"
	cargo test --locked --package weir --test guest -- --test-threads "$threads" |
		with_progress "$threads" "$names.run"
	status=${PIPESTATUS[0]}
	rm -f "$names" "$names.run"
	return "$status"
}

step "format" cargo fmt --all --check
step "lints" cargo clippy --locked --workspace --all-targets -- -D warnings
step "building the tests" cargo test --locked --workspace --no-run
step "tests without guests" without_guests
step "tests in guests" in_guests

[ ${#failed[@]} -gt 0 ] || printf '%s\n' "${took[@]}" >"$times"
[ ${#failed[@]} -eq 0 ] || {
	printf 'make test: failed:' >&2
	printf ' %s;' "${failed[@]}" >&2
	echo " after $(minutes $SECONDS)" >&2
	exit 1
}
