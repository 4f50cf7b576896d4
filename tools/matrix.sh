#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Runs the module's tests and two scenarios on every kernel, one guest at a time, and writes
# docs/support.md from what they said.
#   tools/matrix.sh                     every cell without a result, then the page
#   tools/matrix.sh storm debian:7.3    only cells of these tests, and of these kernels
#   tools/matrix.sh --page              the page alone, from the results there are
# A cell is one test on one kernel and filesystem.  Results are kept by the last commit of the module,
# the kernel's release and what the test's script says, in .cache/matrix: what passed is not run
# again, so an interrupted run goes on where it was, and a new kernel of the archive has no result.
# Two of these side by side share the cells.
# WEIR is the command to run weir with, COMMIT whose results --page shows.  Exits with 1 if a cell fails.
set -euo pipefail
cd "$(dirname "$0")/.."
weir=${WEIR:-./weir}
seconds=${SECONDS_EACH:-3} # of each comparison
page=docs/support.md
verdicts=docs/kernels.tsv # of the oracle: weir kernels --new
module=(kmod policy ":!kmod/tests")
commit=$(git log -1 --abbrev=7 --format=%h -- "${module[@]}")
[ -z "$(git status --porcelain -- "${module[@]}")" ] || commit=$commit-dirty
[ "${1-}" != --page ] || commit=${COMMIT-$commit}
results=.cache/matrix/$commit
compared=target/matrix/compared.md

# The kernels, each with the filesystems that its tests run on.
kernels=(
	"debian:6.1 ext4 xfs btrfs" "debian:6.1:generic ext4 xfs btrfs" "debian:6.1:rt ext4"
	"debian:6.12 ext4 xfs btrfs" "debian:6.12:generic ext4 xfs btrfs" "debian:6.12:rt ext4" "debian:6.12:arm64 ext4"
	"debian:7.2 ext4 xfs btrfs" "debian:7.2:generic ext4 xfs btrfs" "debian:7.2:rt ext4"
	"debian:7.3 ext4 xfs btrfs" "debian:7.3:generic ext4 xfs btrfs" "debian:7.3:rt ext4" "debian:7.3:arm64 ext4"
)

# What a test wants besides the sourced scripts and a disk "d"; its arguments after --.
declare -A wants=(
	[oracle]="--make WEIR_FAULTS=y" [files]="" [lifecycle]="" [oom]="--cpus 1" [storm]="-- 2 100"
	[contract]="--make WEIR_FAULTS=y"
	[hierarchy]="--disk e=1G,ext4,32M/s"
	[behaviour]="--cpus 1 --package util-linux"
	[sleeping-writer]="--append slub_debug=FZPU --disk u=96M,none,1M/s
		-- 2 cgroup controller task module"
	[stacked]="--cpus 1 --package nfs-kernel-server --package nfs-common --package fuse-overlayfs --driver ext4 --driver nfsd --driver nfsv4"
)
declare -A speed=([contract]=8M/s [sleeping-writer]=1M/s)
tests=(oracle files lifecycle contract hierarchy storm oom sleeping-writer behaviour stacked)
# Run as scenarios, in guests that count instructions: every expectation is met, or not.
scenarios=(dirty-knobs ceiling)
# With the script's other disks, or what it compares, ext4 says it all.
only_ext4=" oracle files sleeping-writer ${scenarios[*]} "

is_scenario() { case " ${scenarios[*]} " in *" $1 "*) ;; *) false ;; esac }

# What the script of each test says, in short.
declare -A script
for word in "${tests[@]}"; do script[$word]=$(sha1sum <"kmod/tests/$word.sh" | cut -c 1-6); done
for word in "${scenarios[@]}"; do script[$word]=$(sha1sum <"scenarios/$word.toml" | cut -c 1-6); done

# The release of each kernel, from the lists in the cache.
declare -A release
while read -r name of _; do release[$name]=$of; done < <($weir kernels)

file() { # TEST KERNEL FILESYSTEM: where its result is
	echo "$results/$1-${script[$1]}.${release[$2]-$2}.$3"
}

run() { # TEST KERNEL FILESYSTEM
	local out options arguments= alone=
	out=$(file "$@")
	if is_scenario "$1"; then
		# ceiling's guests take 10 GiB: one at a time
		[ "$1" != ceiling ] || alone="flock $results/memory.lock"
		$alone $weir run "scenarios/$1.toml" --kernel "$2" --count-instructions --markdown \
			>"$out.new" 2>"$out.log" </dev/null && echo "# exit 0" >>"$out.new" || echo "# exit $?" >>"$out.new"
	else
		options=${wants[$1]%%--\ *}
		case ${wants[$1]} in *"-- "*) arguments=${wants[$1]##*-- } ;; esac
		# words, on purpose.  They count instructions, so that this machine's load does not tell.
		# shellcheck disable=SC2086
		$weir exec --kernel "$2" --count-instructions --memory 1G --timeout 60m --disk "d=1G,$3,${speed[$1]-32M/s}" \
			--file kmod/tests/tap.sh:/tap.sh --file kmod/tests/compare.sh:/compare.sh --file kmod/tests/stacks.sh:/stacks.sh \
			--env "SECONDS_EACH=$seconds" $options "kmod/tests/$1.sh" $arguments \
			>"$out.new" 2>"$out.log" </dev/null && echo "# exit 0" >>"$out.new" || echo "# exit $?" >>"$out.new"
	fi
	mv "$out.new" "$out.tap"
}

# What became of a cell: "passed N", "failed N of M", "guest" (the kernel warned), "none", "absent".
cell() { # FILE
	[ -e "$1.tap" ] || { echo absent; return; }
	awk '
		/^(ok |- ✓)/{ passed++ }
		/^(not ok |- ✗)/{ failed++ }
		/^1\.\.[0-9]+$/{ planned = substr($0, 4) }
		/^(pass|FAIL): [0-9]+ of [0-9]+ expectations/{ planned = $4 }
		/^# exit /{ exit_status = $3 }
		END {
			if (exit_status == 125) print "guest"
			else if (failed) printf "failed %d of %d\n", failed, failed + passed
			else if (exit_status || !passed || passed != planned) print "none"
			else print "passed", passed
		}' "$1.tap"
}

# All cells, a line each: TEST KERNEL FILESYSTEM.  A kernel's guests continue the same saved boots,
# of which the lab keeps a dozen.
cells() {
	local row kernel filesystem test
	for row in "${kernels[@]}"; do
		kernel=${row%% *}
		for test in "${tests[@]}" "${scenarios[@]}"; do
			for filesystem in ${row#* }; do
				case $only_ext4 in *" $test "*) [ "$filesystem" = ext4 ] || continue ;; esac
				echo "$test $kernel $filesystem"
			done
		done
	done
}

# chosen CELL: was its test, and its kernel, asked for?
chosen() { # TEST KERNEL
	local word tests_asked= kernels_asked= has_test= has_kernel=
	for word in "${asked[@]}"; do
		case $word in
		debian:*) kernels_asked=1 && [ "$word" != "$2" ] || has_kernel=1 ;;
		*) tests_asked=1 && [ "$word" != "$1" ] || has_test=1 ;;
		esac
	done
	[ -z "$tests_asked$kernels_asked" ] ||
		{ [ -z "$tests_asked" ] || [ -n "$has_test" ]; } && { [ -z "$kernels_asked" ] || [ -n "$has_kernel" ]; }
}

run_all() {
	local test kernel filesystem all done=0 began took=0 left lock
	all=$(cells | while read -r test kernel filesystem; do
		chosen "$test" "$kernel" || continue
		case $(cell "$(file "$test" "$kernel" "$filesystem")") in passed*) continue ;; esac
		echo "$test $kernel $filesystem"
	done)
	[ -n "$all" ] || return 0
	left=$(wc -l <<<"$all")
	while read -r test kernel filesystem; do
		began=$SECONDS
		exec {lock}>"$(file "$test" "$kernel" "$filesystem").lock"
		if ! flock -n "$lock"; then # the other run has it
			exec {lock}>&-
			left=$((left - 1))
			continue
		fi
		case $(cell "$(file "$test" "$kernel" "$filesystem")") in
		passed*) ;; # meanwhile
		*) run "$test" "$kernel" "$filesystem" ;;
		esac
		exec {lock}>&-
		if [ -z "${release[$kernel]-}" ]; then
			learn "$kernel" "$test" "$filesystem"
		fi
		done=$((done + 1)) took=$((took + SECONDS - began))
		printf 'matrix: %d of %d: %s on %s %s: %s in %d s, about %d min left\n' "$done" "$left" "$test" "$kernel" \
			"$filesystem" "$(cell "$(file "$test" "$kernel" "$filesystem")")" $((SECONDS - began)) \
			$((took * (left - done) / done / 60)) >&2
	done <<<"$all"
}

# A kernel that was not in the cache is now: its result gets its release's name.
learn() { # KERNEL TEST FILESYSTEM
	local name of before
	before=$(file "$2" "$1" "$3")
	while read -r name of _; do release[$name]=$of; done < <($weir kernels --cached)
	[ "$(file "$2" "$1" "$3")" = "$before" ] || for end in tap log; do mv "$before.$end" "$(file "$2" "$1" "$3").$end"; done
}

# A row of the demo's table, stock and weir: FILE MEASURE
figure() {
	awk -F '|' -v wanted="$2" '
		{ phase = $2 ~ /[a-z]/ ? $2 : phase; gsub(/^ +| +$/, "", $3) }
		phase ~ /contended/ && $3 == wanted { gsub(/^ +| +$/, "", $4); gsub(/^ +| +$/, "", $5); print $4 " / " $5; exit }' "$1" 2>/dev/null
}

row() { # KERNEL FILESYSTEM...
	local kernel=$1 test filesystem run=0 passed=0 all=0 checks=0 bad= was demo of of_module=$commit
	shift
	while read -r test of filesystem; do
		[ "$of" = "$kernel" ] && ! is_scenario "$test" || continue
		all=$((all + 1))
		was=$(cell "$(file "$test" "$kernel" "$filesystem")")
		case $was in
		absent) continue ;;
		passed*) passed=$((passed + 1)) checks=$((checks + ${was#passed })) ;;
		*) bad="$bad $test" ;;
		esac
		run=$((run + 1))
	done < <(cells)
	demo=$(file dirty-knobs "$kernel" ext4)
	if [ "$run" -eq 0 ] && [ ! -e "$demo.tap" ] && grep "^| ${kernel#debian:} | .* | [0-9a-f]\{7\} |" "$page"; then
		return # as an earlier module's results were
	fi
	was="$passed of $all ($checks checks)"
	[ "$run" -eq "$all" ] || was="$was, $((all - run)) not run"
	[ -z "$bad" ] || was="$was, **failed:$bad**"
	[ "$run" -gt 0 ] || was="not run"
	[ "$run" -gt 0 ] || [ -e "$demo.tap" ] || of_module=
	printf '| %s | %s | %s | %s | %s | %s | %s | %s |\n' "${kernel#debian:}" "${release[$kernel]-?}" \
		"$(oracle "${release[$kernel]-}")" "$was" "$(met "$demo")" \
		"$(met "$(file ceiling "$kernel" ext4)")" "$(figure "$demo.tap" "victim IOPS/solo")" "$of_module"
}

# Whether a scenario's expectations were met: FILE
met() {
	local was
	was=$(cell "$1")
	case $was in
	passed*) echo "${was#passed } of ${was#passed }" ;;
	absent) echo "not run" ;;
	failed*) echo "**${was#failed } missed**" ;;
	*) echo "**no result**" ;;
	esac
}

oracle() { # RELEASE
	awk -F '\t' -v release="$1" '$1 == release { print $6; found = 1; exit } END { if (!found) print "not asked" }' "$verdicts" 2>/dev/null || echo "not asked"
}

# Where a test failed, and what it said.
failures() {
	local test kernel filesystem
	cells | while read -r test kernel filesystem; do
		awk -v where="$test, ${kernel#debian:}, $filesystem" '
			/^not ok /{ sub(/^not ok [0-9]+ - /, ""); print "- " where ": " $0 }
			/^- ✗/{ sub(/^- ✗ /, ""); print "- " where ":\n  " $0 }' "$(file "$test" "$kernel" "$filesystem").tap" 2>/dev/null || true
	done
}

# What compare.sh printed, as rows: "# compared: WHAT; KiB/s 1, 2; longest write ms 3, 4; host held pages 5, 6"
figures() {
	local test kernel filesystem
	echo "| way to write | where | KiB/s | longest write, ms | host held, pages of 8192 |"
	echo "| --- | --- | --- | --- | --- |"
	cells | while read -r test kernel filesystem; do
		awk -F '; ' -v where="${kernel#debian:} $filesystem" '
			sub(/^# compared: /, "") {
				for (i = 2; i <= 4; i++) gsub(/[A-Za-z\/ ]+ /, "", $i)
				for (i = 2; i <= 4; i++) sub(/, */, " / ", $i)
				printf "| %s | %s | %s | %s | %s |\n", $1, where, $2, $3, $4
			}' "$(file "$test" "$kernel" "$filesystem").tap" 2>/dev/null || true
	done | sort -s -t '|' -k 2,2
}

write_page() {
	local row failed
	echo "<!-- SPDX-License-Identifier: GPL-2.0-only -->"
	echo "# Support matrix"
	echo
	fmt -w 100 <<-END
		Written by \`make matrix\` on $(date -u +%F); do not edit. One guest per cell (N = 1). Guests
		count instructions; some with modules before 50211fb went by the host's clock. A test
		passes if all its checks pass and the kernel logs no warning.
	END
	echo
	fmt -w 100 <<-END
		*Oracle*: the verdict of \`weir doctor --btf\` on the kernel's package. *Tests*: those of
		[kmod/tests](../kmod/tests/README.md) that \`tools/matrix.sh\` names, on ext4; cloud and generic amd64 kernels
		also on xfs and btrfs. *Demo* and *ceiling*: expectations met of dirty-knobs.toml and ceiling.toml. *Victim*: the part of its solo rate that the demo's victim keeps, stock / weir. *Module*: its commit.
	END
	echo
	echo "| kernel | release | oracle | tests passed | demo | ceiling | victim | module |"
	echo "| --- | --- | --- | --- | --- | --- | --- | --- |"
	for row in "${kernels[@]}"; do
		# shellcheck disable=SC2086
		row $row
	done
	failed=$(failures)
	[ -z "$failed" ] || printf '\nFailed:\n\n%s\n' "$failed"
	echo
	fmt -w 100 <<-END
		[kernels.tsv](kernels.tsv), written by \`make kernels\`, has the oracle's verdict on each kernel of the
		archive. [0033](experiments/0033-every-current-kernel.md) has earlier results, and compares stock and weir for
		each way to write.
	END
}

mkdir -p "$results" "$(dirname "$compared")"
asked=()
for word in "$@"; do
	case $word in
	--page) continue ;;
	debian:*) case " ${kernels[*]} " in *" $word "*) ;; *) echo "matrix: no kernel $word; known:" "${kernels[@]%% *}" >&2; exit 2 ;; esac ;;
	*) [ -n "${wants[$word]+known}" ] || is_scenario "$word" ||
		{ echo "matrix: no test called $word; known: ${tests[*]} ${scenarios[*]}" >&2; exit 2; } ;;
	esac
	asked+=("$word")
done
[ "${1-}" = --page ] || run_all
write_page >"$page.new"
mv "$page.new" "$page"
figures >"$compared"
echo "matrix: $page is written; stock against weir for each way to write: $compared" >&2
! grep -q '\*\*' "$page" || { echo "matrix: not all passed, see $page" >&2; exit 1; }
