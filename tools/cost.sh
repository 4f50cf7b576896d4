#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Counts what weir adds to writes, in instructions, and writes docs/cost.md.
#   tools/cost.sh           counts on Debian's 6.12, and less of it on each other series: half an hour
#   tools/cost.sh LINES     takes what cost.sh printed in guests before
# The lines of other series come last, those of a kernel after a line "# on KERNEL".
set -eu
lines=${1:+$(realpath "$1")}
cd "$(dirname "$0")/.."
series="debian:6.1 debian:6.12 debian:7.2 debian:7.3 debian:7.3:rt debian:6.12:arm64 debian:7.3:arm64"

if [ -z "$lines" ]; then
	# stays: what a failed run has counted is not lost
	mkdir -p target/cost
	lines=target/cost/lines
	echo "# weir $(git rev-parse --short HEAD)" >"$lines"
	for cpus in 1 8; do
		# a status of its own: in a pipe it would be lost
		./weir exec --kernel debian:6.12 --cpus $cpus --timeout 30m --env SPIN_MS=400 --count-instructions \
			--file kmod/tests/tap.sh:/tap.sh --kbuild kmod/tests/cost --disk d=1G,ext4 \
			kmod/tests/cost.sh 1 1000 >>"$lines"
	done
	# a memcg takes half a megabyte of it
	./weir exec --kernel debian:6.12 --cpus 8 --possible-cpus 256 --timeout 30m --count-instructions \
		--env ONLY="floor-here ceiling-here" \
		--file kmod/tests/tap.sh:/tap.sh --kbuild kmod/tests/cost --disk d=1G,ext4 \
		kmod/tests/cost.sh 1 1000 >>"$lines"
	./weir exec --kernel debian:6.12 --cpus 1 --memory 1G --timeout 30m --count-instructions \
		--file kmod/tests/tap.sh:/tap.sh --disk d=1G,ext4,16M/s kmod/tests/flush-cost.sh 20 >>"$lines"
	for kernel in $series; do
		echo "# on $kernel" >>"$lines"
		./weir exec --kernel "$kernel" --cpus 1 --timeout 30m --count-instructions \
			--env ONLY="floors-elsewhere floor-here ceiling-here window-here weight-here" \
			--file kmod/tests/tap.sh:/tap.sh --kbuild kmod/tests/cost --disk d=1G,ext4 \
			kmod/tests/cost.sh 1 >>"$lines"
	done
fi

table() {
	awk -v possible="${1:-}" '
	function figures(row, cpus) {
		return (row, cpus) in cell ? cell[row, cpus] : "not run||"
	}
	function where(key) {
		if (key == "idle") return "no knob anywhere"
		if (key == "floors-elsewhere") return "floors on others"
		if (key == "ceilings-elsewhere") return "ceilings on others"
		if (key == "floor-here") return "floors on the writer'\''s cgroup and others"
		if (key == "ceiling-here") return "ceilings on the writer'\''s cgroup and others"
		if (key == "windows-elsewhere") return "windows on others"
		if (key == "window-here") return "windows on the writer'\''s cgroup and others"
		if (key == "weights-elsewhere") return "weights on others"
		if (key == "weight-here") return "weights on the writer'\''s cgroup and others"
		if (key == "fair-here") return "fair parts, others beside the writer'\''s cgroup"
		if (key == "ceilings-above") return "ceilings on the writer'\''s cgroup and all above it"
		return "unloaded again"
	}
	/^# on / { exit }
	$1 != "cost" { next }
	{ cpus = $2; groups = $3; depth = $4; key = $5; never = $6; pass = $7 - $6; share = $8 / $9; others = $10 }
	key == "absent" {
		base_never[cpus, depth] = never; base_pass[cpus, depth] = pass
		base_share[cpus, depth] = share; base_others[cpus, depth] = others
		next
	}
	{
		row = key SUBSEP groups SUBSEP depth
		if (!(row in seen)) { seen[row] = ++count; rows[count] = row }
		added = pass - base_pass[cpus, depth]
		write = never - base_never[cpus, depth] + pass * share - base_pass[cpus, depth] * base_share[cpus, depth]
		beat = (others - base_others[cpus, depth]) * 2.5 / 1000
		more[row, cpus] = added
		cell[row, cpus] = sprintf("%+d|%+.1f|%+.0f", added, write, beat)
	}
	END {
		if (possible) {
			print "|knobs|others|depth|8 CPUs: pass|256 possible: pass|times|"
			print "|---|---|---|---|---|---|"
			for (i = 1; i <= count; i++) {
				split(rows[i], part, SUBSEP)
				if (!((rows[i], 8) in more && (rows[i], 256) in more) || part[1] !~ /-here$/)
					continue
				times = more[rows[i], 256] / more[rows[i], 8]
				if (times > 2) status = 1
				printf "|%s|%s|%s|%+d|%+d|%.2f|\n", where(part[1]), part[2], part[3], \
					more[rows[i], 8], more[rows[i], 256], times
			}
			exit status
		}
		print "|knobs|others|depth|1 CPU: pass|write|beat|8 CPUs: pass|write|beat|"
		print "|---|---|---|---|---|---|---|---|---|"
		for (i = 1; i <= count; i++) {
			split(rows[i], part, SUBSEP)
			printf "|%s|%s|%s|%s|%s|\n", where(part[1]), part[2], part[3], figures(rows[i], 1), figures(rows[i], 8)
		}
		print ""
		for (cpus = 1; cpus <= 8; cpus += 7)
			if ((cpus, 1) in base_pass)
				printf "Without weir a write takes %d instructions with %d CPU%s, and a pass %d more.\n", \
					base_never[cpus, 1], cpus, (cpus > 1 ? "s" : ""), base_pass[cpus, 1]
	}' "$lines"
}

# A row for each place of a window or weight: what a MiB that is written back takes.
by_window() {
	echo "|knob|instructions a MiB|added|"
	echo "|---|---|---|"
	awk '
	function where(key) {
		if (key == "absent") return "without weir"
		if (key == "idle") return "no knob anywhere"
		if (key == "window-elsewhere") return "window on another cgroup"
		if (key == "weight-elsewhere") return "weight on another cgroup"
		if (key == "weight-here") return "weights on both"
		if (key == "unloaded") return "unloaded again"
		return "window of " substr(key, 8) "iB"
	}
	$1 != "flush" { next }
	{ each = $3 / $4 }
	$2 == "absent" { base = each }
	{ printf "|%s|%.2f M|%+.0f %%|\n", where($2), each / 1e6, 100 * (each / base - 1) }' "$lines"
}

# A row for each series: what a write and a pass take, and what is added to them.
by_series() {
	echo "|kernel|write|pass|no knob: write|pass|floors on others: pass|own floor: pass|own ceiling: pass|own window: pass|own weight: pass|"
	echo "|---|---|---|---|---|---|---|---|---|---|"
	awk '
	function row() {
		if (kernel)
			printf "|%s|%d|%d|%+d|%+d|%+d|%+d|%+d|%+d|%+d|\n", kernel, write["absent"], pass["absent"], \
				write["idle"] - write["absent"], added("idle"), added("floors-elsewhere"), \
				added("floor-here"), added("ceiling-here"), added("window-here"), added("weight-here")
	}
	function added(where) { return pass[where] - pass["absent"] }
	/^# on / { row(); kernel = $3; sub(/^debian:/, "", kernel); next }
	kernel && $1 == "cost" && $4 == 1 { write[$5] = $6; pass[$5] = $7 - $6 }
	END { row() }' "$lines"
}

worst=0
{
	cat <<END
<!-- SPDX-License-Identifier: GPL-2.0-only -->
<!-- Written by \`make cost\`: change tools/cost.sh, not this file. -->
# What weir costs

$(fmt -w 100 <<PARAGRAPH
Instructions that weir adds, counted by the emulator: kernel $(awk '/^# kernel/ { print $3; exit }' "$lines"),
weir as of commit $(awk '/^# weir/ { print $3; exit }' "$lines"), ext4, one guest each with one and with eight CPUs,
and one where 256 are possible. The host stays far below its limits, so no pass sleeps.
PARAGRAPH
)

- *pass*: instructions added to one pass through the kernel's throttle, a call of
  \`balance_dirty_pages()\`. Median of 2,048.
- *write*: instructions added to a buffered write of 4 KiB, with its part of a pass. Here the kernel
  makes one pass in about 256 writes; under pressure it makes more, at most one in each write.
- *beat*: thousands of instructions a second that the rest of the guest takes more than without
  weir, timer interrupts included.
- *others*: number of other cgroups with the same knob. *depth*: level of the writer's cgroup.

END
	table
	cat <<'END'

## Possible CPUs

The kernel keeps a cgroup's counts for each possible CPU, present or not. The table compares a pass
on 8 CPUs without and with 248 more possible ones. `make cost` fails if it takes more than twice as
much.

END
	table possible || worst=1
	cat <<'END'

## Windows and weights

Both hold flushers, not writers: as long as nothing else is set, no pass is hooked. This is what the
whole guest executes for each MiB of a flood that a disk of 16 MB/s writes, one CPU, within 4 %.

END
	by_window
	cat <<'END'

## Series and architectures

One CPU, depth 1, one other cgroup. The first two figures are the instructions of a write and of a
pass without weir; the others are what weir adds.

END
	by_series
	cat <<'END'

## What grows, and with what

- Writers under a floor or ceiling make more passes: that is their cost per write. A write without a
  pass costs nothing more.
- **Unused floors** lower the host's limit, so all passes of others go through both hooks.
- **CPUs.** A pass of a cgroup with a knob adds up one word per CPU and counter.
- **Other cgroups** are visited by the beat in turn, within a fixed budget.
- **Depth.** A pass looks up the record of each ancestor.
END
} >docs/cost.md.new
mv docs/cost.md.new docs/cost.md
[ "$worst" = 0 ] || { echo "tools/cost.sh: with 256 possible CPUs a pass adds more than twice what it does with 8" >&2; exit 1; }
