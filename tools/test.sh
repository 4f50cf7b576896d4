#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Runs what `make test` runs, and says on stderr what runs now, how many tests of how many are over
# and about how long the rest takes. What cargo and the test programs print is passed on as it is.
#   WEIR_TEST_GUESTS=N  guests side by side (default: one per core, at least 3, if memory allows)
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

# A step is a process group of its own: ending this ends cargo, test programs and guests, too.
job=
end() {
	[ -z "$job" ] || kill -- "-$job" 2>/dev/null
	exit "$1"
}
trap 'end 130' INT
trap 'end 143' TERM
trap 'end 129' HUP

# step TITLE COMMAND...: goes on if the command fails, so that one run shows all that is wrong
step() {
	local begun=$SECONDS left
	step=$((step + 1))
	# of as many steps: with Go, or another Rust, there are more
	left=$(awk -v step=$step -v steps=$steps 'NR >= step { s += $1 } END { if (NR == steps) print s }' "$times" 2>/dev/null)
	[ -z "$left" ] || left=", about $(minutes "$left") left if it is as last time"
	say "step $step of $steps, $1, after $(minutes $SECONDS)$left"
	set -m
	"${@:2}" </dev/null &
	job=$!
	set +m
	wait "$job" || failed+=("$1")
	job=
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

# A guest that counts instructions skips what time it sleeps, and keeps a core busy: one more than
# there are cores for those that go by the clock. One may have 3 GiB of memory.
guests() {
	local fit want
	fit=$(awk '/^MemAvailable:/ { print int($2 / 3145728) }' /proc/meminfo)
	want=$(nproc)
	want=$((want < 3 ? 3 : want))
	echo $((fit < 1 ? 1 : fit < want ? fit : want))
}

# with_progress THREADS NAMES: passes the output of test programs on; one of them runs the tests of
# the file NAMES in their order, and prints a line for each that has ended
with_progress() {
	local threads=$1 begun=$SECONDS said=$SECONDS over=0 among= part= line name left got
	local -a names
	# Tests begin in the order of their names, each when another has ended.
	local -A ended=() is=() from=()
	local next=0
	mapfile -t names <"$2"
	for name in "${names[@]}"; do
		is[$name]=1
	done
	while :; do
		IFS= read -r -t 20 line
		got=$?
		part=$part$line
		# more than 128: no whole line came in time; else the output has ended
		case $got in
		0) line=$part part= && printf '%s\n' "$line" ;;
		*) line= ;;
		esac
		[ $got -eq 0 ] || [ $got -gt 128 ] || break
		case $line in
		# The program of these names has as many tests as are run and ignored.
		"running $3 tests")
			among=yes begun=$SECONDS
			while [ $next -lt "$threads" ] && [ $next -lt ${#names[@]} ]; do
				from[${names[next++]}]=$SECONDS
			done
			;;
		"test "*" ... ignored"*) ;;
		"test "*" ... "*)
			name=${line#test }
			name=${name%% *}
			if [ "${is[$name]-}" ]; then
				ended[$name]=$((SECONDS - ${from[$name]-$begun})) over=$((over + 1))
				[ $next -ge ${#names[@]} ] || from[${names[next++]}]=$SECONDS
			fi
			;;
		esac
		[ "$among" ] && [ $((SECONDS - said)) -ge 10 ] && [ $over -lt ${#names[@]} ] || continue
		said=$SECONDS
		left=
		[ $over -lt "$threads" ] ||
			left=", about $(minutes $(((SECONDS - begun) * (${#names[@]} - over) / over))) left"
		say "$over of ${#names[@]} guest tests over$left; now:$(running "$threads")"
	done
	printf '%s' "$part"
	say "the slowest:"
	for name in "${!ended[@]}"; do
		printf '%5d s  %s\n' "${ended[$name]}" "$name"
	done | sort -rn | head -n 8 >&2
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

# All in one call of cargo: another choice of packages would be built with other features, anew.
run_tests() {
	local threads names all status
	threads=${WEIR_TEST_GUESTS:-$(guests)}
	names=$(mktemp) || return 1
	list() {
		cargo test --quiet --locked --workspace --test guest -- --list "$@" 2>/dev/null |
			sed -n 's/: test$//p' | LC_ALL=C sort
	}
	# The ignored ones are listed, too.
	list >"$names.all"
	list --ignored | LC_ALL=C comm -23 "$names.all" - >"$names"
	all=$(wc -l <"$names.all")
	say "of all tests $(wc -l <"$names") are in guests, $threads side by side"
	RUST_TEST_THREADS=$threads cargo test --locked --workspace --no-fail-fast |
		with_progress "$threads" "$names" "$all"
	status=${PIPESTATUS[0]}
	rm -f "$names" "$names.all"
	return "$status"
}

# What a bare Debian builds with, which setup.sh installs there: the oldest Rust that Cargo.toml allows.
# That of rustup is newer, and takes more.
oldest=$(sed -n 's/^rust-version = "\([0-9.]*\)".*/\1/p' Cargo.toml)
with_oldest_rust() {
	RUSTUP_HOME=$PWD/.cache/rustup CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/oldest-rust \
		rustup run "$oldest" cargo "$@"
}
has_oldest_rust=
if command -v rustup >/dev/null; then
	if RUSTUP_HOME=$PWD/.cache/rustup rustup toolchain install "$oldest" --profile minimal --component clippy --no-self-update >&2; then
		has_oldest_rust=yes steps=$((steps + 1))
	else
		say "Rust $oldest cannot be had: whether a bare Debian can build this is left out"
	fi
fi

# Debian 12's Go is too old for weir-nri, so that setup does not install it: what there is, is used.
go=
if command -v go >/dev/null && tools/setup.sh go 2>/dev/null; then
	go=yes steps=$((steps + 2))
else
	say "no Go that is new enough: the tests of weir-nri and of the chart are left out"
fi

step "format" cargo fmt --all --check
step "lints" cargo clippy --locked --workspace --all-targets -- -D warnings
[ -z "$has_oldest_rust" ] || step "lints with Rust $oldest" with_oldest_rust clippy --locked --workspace --all-targets -- -D warnings
step "documentation" env RUSTDOCFLAGS="-D rustdoc::broken_intra_doc_links -A rustdoc::private_intra_doc_links" \
	cargo doc --quiet --locked --workspace --no-deps --document-private-items
step "building the tests" cargo test --locked --workspace --no-run
step "tests" run_tests
[ -z "$go" ] || step "weir-nri" make --no-print-directory test-nri
[ -z "$go" ] || step "chart" make --no-print-directory test-chart

[ ${#failed[@]} -gt 0 ] || printf '%s\n' "${took[@]}" >"$times"
[ ${#failed[@]} -eq 0 ] || {
	printf 'make test: failed:' >&2
	printf ' %s;' "${failed[@]}" >&2
	echo " after $(minutes $SECONDS)" >&2
	exit 1
}
