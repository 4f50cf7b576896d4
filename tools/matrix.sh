#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Runs the module's tests on each kernel and filesystem, and writes docs/support.md from what they said.
#   tools/matrix.sh              everything: over seventy guests, two hours or so
#   tools/matrix.sh oom storm    these tests only; the page is written from all results of this commit
# Results are kept by commit in .cache/matrix.  WEIR is the command to run weir with.  Exits with 1 if a cell fails.
set -euo pipefail
cd "$(dirname "$0")/.."
weir=${WEIR:-./weir}
seconds=${SECONDS_EACH:-10} # of each comparison
page=docs/support.md
commit=$(git rev-parse --short HEAD)
[ -z "$(git status --porcelain -- kmod policy)" ] || commit=$commit-dirty
results=.cache/matrix/$commit

columns=(
	"debian:6.12 ext4" "debian:6.12 xfs" "debian:6.12 btrfs"
	"debian:6.1 ext4" "debian:6.1 xfs" "debian:6.1 btrfs"
	"debian:6.12:generic ext4"
	"debian:7.3 ext4" "debian:7.3 xfs" "debian:7.3 btrfs"
	"debian:6.12:cloud:arm64 ext4"
)

# What a test wants besides the sourced scripts and a disk "d"; its arguments after --.
declare -A wants=(
	[lifecycle]="" [oom]="" [storm]="-- 2 100" [contract]="--make WEIR_FAULTS=y" [oracle]="--make WEIR_FAULTS=y"
	[behaviour]="--package util-linux"
	[stacked]="--package nfs-kernel-server --package nfs-common --package fuse-overlayfs --driver nfsd --driver nfsv4"
)
tests=(oracle lifecycle oom storm contract behaviour stacked)

run() { # TEST KERNEL FILESYSTEM
	local speed=32M/s options=${wants[$1]%%--\ *} arguments= out=$results/$1.$2.$3
	case ${wants[$1]} in *"-- "*) arguments=${wants[$1]##*-- } ;; esac
	[ "$1" != contract ] || speed=8M/s
	# words, on purpose
	# shellcheck disable=SC2086
	$weir exec --kernel "$2" --memory 1G --disk "d=1G,$3,$speed" --file kmod/tests/tap.sh:/tap.sh \
		--file kmod/tests/compare.sh:/compare.sh --file kmod/tests/stacks.sh:/stacks.sh --env "SECONDS_EACH=$seconds" $options "kmod/tests/$1.sh" $arguments \
		>"$out.new" 2>"$out.log" </dev/null && echo "# exit 0" >>"$out.new" || echo "# exit $?" >>"$out.new"
	mv "$out.new" "$out.tap"
}

# How a result reads: the number of tests passed, or what failed.
cell() { # FILE
	[ -e "$1" ] || { echo "not run"; return; }
	awk '
		/^ok /{ passed++ }
		/^not ok /{ failed++ }
		/^1\.\.[0-9]+$/{ planned = substr($0, 4) }
		/^# exit /{ exit_status = $3 }
		END {
			if (failed) printf "**%d of %d fail**\n", failed, failed + passed
			else if (exit_status == 125) print "**the guest failed**"
			else if (exit_status || passed != planned) print "**no result**"
			else print passed
		}' "$1"
}

row() { # TEST
	local line="| [$1](../kmod/tests/$1.sh) |" column
	for column in "${columns[@]}"; do
		line+=" $(cell "$results/$1.${column/ /.}.tap") |"
	done
	echo "$line"
}

releases() {
	local column
	for column in "${columns[@]}"; do
		cat "$results"/*."${column/ /.}".log 2>/dev/null
	done | sed -n 's/^weir exec: kernel \([^,]*\),.*/\1/p' | sort -uV | paste -sd, | sed 's/,/, /g'
}

# The same pair of lines for each failing test: where, what.
failures() {
	local file
	for file in "$results"/*.tap; do
		awk -v where="$(basename "$file" .tap)" '
			/^not ok /{ sub(/^not ok [0-9]+ - /, ""); print "- `" where "`: " $0 }' "$file"
	done
}

# What compare.sh printed, as rows: "# compared: WHAT; KiB/s 1, 2; longest write ms 3, 4; host held pages 5, 6"
figures() {
	local column
	for column in "${columns[@]}"; do
		cat "$results"/*."${column/ /.}".tap 2>/dev/null | awk -F '; ' -v where="${column#debian:}" '
			sub(/^# compared: /, "") {
				for (i = 2; i <= 4; i++) gsub(/[A-Za-z\/ ]+ /, "", $i)
				for (i = 2; i <= 4; i++) sub(/, */, " / ", $i)
				printf "| %s | %s | %s | %s | %s |\n", $1, where, $2, $3, $4
			}'
	done | sort -s -t '|' -k 2,2
}

write_page() {
	local column test failed
	echo "<!-- SPDX-License-Identifier: GPL-2.0-only -->"
	echo "# Support matrix"
	echo
	fmt -w 100 <<-END
		Written by \`make matrix\` on $(date -u +%F) at commit $commit; do not edit. One guest per cell (N = 1), 2 CPUs,
		1 GB, emulated, a disk of 32 MB/s (contract: 8 MB/s). Kernels: $(releases).
		A number says how many tests the guest passed; a kernel that warns fails the guest.
		Scenarios by series: [0024](experiments/0024-newer-kernels-and-arm64.md).
	END
	echo
	printf '| test |'
	for column in "${columns[@]}"; do printf ' %s |' "${column#debian:}"; done
	printf '\n| --- |'
	for column in "${columns[@]}"; do printf ' --- |'; done
	echo
	for test in "${tests[@]}"; do row "$test"; done
	failed=$(failures)
	[ -z "$failed" ] || printf '\nWhat failed:\n\n%s\n' "$failed"
	printf '\n## Stock against weir, in the same boot\n\n'
	fmt -w 100 <<-END
		What a writer of 2 MiB/s gets beside a noisy one (\`kmod/tests/compare.sh\`), $seconds s each: stock / weir.
		One measurement per row, emulated: for orders of magnitude.
	END
	echo
	echo "| way to write | where | KiB/s | longest write, ms | host held, pages of 8192 |"
	echo "| --- | --- | --- | --- | --- |"
	figures
}

mkdir -p "$results"
chosen=("$@")
[ $# -gt 0 ] || chosen=("${tests[@]}")
for test in "${chosen[@]}"; do
	[ -n "${wants[$test]+known}" ] || { echo "matrix: no test called $test; known: ${tests[*]}" >&2; exit 2; }
done
for test in "${chosen[@]}"; do
	for column in "${columns[@]}"; do
		# shellcheck disable=SC2086
		run "$test" $column
		echo "$test on $column: $(cell "$results/$test.${column/ /.}.tap")"
	done
done
write_page >"$page.new"
mv "$page.new" "$page"
! grep -q '\*\*' "$page" || { echo "matrix: not all passed, see $page" >&2; exit 1; }
