# SPDX-License-Identifier: GPL-2.0-only
# Sourced by tests of tiers, after tap.sh: cgroups with memory, where it lies, an agent.

# limit CGROUP MEGABYTES: makes it, too
limit() {
	mkdir -p "$1"
	echo "$2M" >"$1/memory.max"
}

# hold CGROUP MEGABYTES: anonymous memory of two processes, and a MiB of page cache
hold() {
	mkdir -p "$1"
	for half in 1 2; do
		in_cgroup "$1" sh -c "dd if=/dev/zero bs=$(($2 / 2))M count=1 2>/dev/null | sleep 100000" &
	done
	in_cgroup "$1" dd if=/dev/zero of="/tmp/cache.${1##*/}" bs=1M count=1 2>/dev/null
}

# held CGROUP NODE: bytes of its lists of pages there
held() {
	awk -v node="N$2=" '/^(in)?active_|^unevictable/ {
		for (i = 2; i <= NF; i++) if (index($i, node) == 1) sum += substr($i, length(node) + 1)
	} END { printf "%.0f\n", sum }' "$1/memory.numa_stat"
}

has() { # CGROUP MEGABYTES: in all
	all=$(($(held "$1" 0) + $(held "$1" 1)))
	[ $all -ge $(($2 * 1048576)) ] || { echo "$all in all"; return 1; }
}

# share CGROUP: within 2 % of what its limit makes it, or the 2 MiB that are no difference
share() {
	budget=$(cat "$1/memory.toptier_max")
	slack=$((budget / 50 > 2097152 ? budget / 50 : 2097152))
	between $((budget - slack)) "$(held "$1" 0)" $((budget + slack))
}
shares() {
	for group; do share "$group" || { echo "of $group"; return 1; }; done
}

# finally COMMAND...: succeeds within five minutes, in seconds if the machine is quick
finally() {
	for minute in 1 2 3 4; do
		! soon "$@" >/dev/null || return 0
	done
	soon "$@"
}
took() { # TEXT: a figure for who looks
	echo "# $1 after $(($(cut -d . -f 1 /proc/uptime) - began)) s"
	began=$(cut -d . -f 1 /proc/uptime)
}
says() { # WORDS
	grep -qF -- "$1" /tmp/log || { cat /tmp/log; return 1; }
}
shows() { # WORDS: in the status
	weir tier status >/tmp/status
	grep -qE -- "$1" /tmp/status || { cat /tmp/status; return 1; }
}
shows_not() { # WORDS
	! shows "$1" >/dev/null
}
policy() { # SETTINGS
	printf '[tier]\nlend = false\n%b' "$1" >/tmp/new.toml
	mv /tmp/new.toml /tmp/agent.toml
}
agent() {
	weir agent --policy /tmp/agent.toml --listen none >/tmp/log 2>&1 &
	agent=$!
}
moved() { # bytes, of all cgroups since the agent began
	weir tier status --json | grep -E '"moved_(up|down)"' | tr -dc '0-9\n' |
		awk '{ sum += $1 } END { printf "%.0f\n", sum }'
}
has_moved() {
	[ "$(moved)" -gt 0 ]
}
rests() { # nothing is moved from one look to the next, and nothing was meanwhile
	before=$(moved)
	sleep 7
	shows 'at rest' && is "$(moved)" "$before"
}

# Memory that goes and comes.
offline() { # BLOCK: the kernel tries for as long as it is let
	[ "$(cat "$1/state")" = offline ] || timeout 20 sh -c "echo offline >$1/state" 2>/dev/null
	is "$(cat "$1/state")" offline
}
all_offline() { # NODE: while the agent rests, or the kernel complains of what is on its way there
	for block in "/sys/devices/system/node/node$1"/memory[0-9]*; do
		finally rests && finally offline "$block" || return 1
	done
}
online() { # BLOCK: so that it can go again
	[ "$(cat "$1/state")" = online ] || echo online_movable >"$1/state"
}
all_online() { # NODE
	for block in "/sys/devices/system/node/node$1"/memory[0-9]*; do
		online "$block"
	done
}

# Three tiers.
# told CGROUP TIER KEY: of its memory.tier_stat
told() {
	sed -n "s/^tier$2 .*$3=\([^ ]*\).*/\1/p" "$1/memory.tier_stat"
}
near() { # BYTES WANTED: within 2 %, or 4 MiB: what is no difference, of two tiers
	slack=$(($2 / 50 > 4194304 ? $2 / 50 : 4194304))
	between $(($2 - slack)) "$1" $(($2 + slack))
}
in_tiers() { # CGROUP...: each tier but the last holds what it may
	for group; do
		for tier in 0 1; do
			near "$(held $group "$(told $group $tier nodes)")" "$(told $group $tier budget)" ||
				{ echo "of $group in tier $tier"; return 1; }
		done
	done
}
