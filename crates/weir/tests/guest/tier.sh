# SPDX-License-Identifier: GPL-2.0-only
# Tiered limits on a real kernel with two tiers: cgroups come to their shares and
# stay there; one vanishes meanwhile, and the agent is killed while DAMON moves pages.
# Nothing here depends on when: every state is waited for. tier.sh [damon]: with
# DAMON, too, cgroups come all the way to their shares, which takes it longer.
. /tap.sh
cd /sys/fs/cgroup || exit 1
echo +memory >cgroup.subtree_control
insmod /weir.ko || exit 1

# hold CGROUP MEGABYTES: anonymous memory of two processes, and a MiB of page cache
hold() {
	mkdir -p "$1"
	echo $(($2 * 1048576 * 21 / 20)) >"$1/memory.max"
	for half in 1 2; do
		in_cgroup "$1" sh -c "dd if=/dev/zero bs=$(($2 / 2))M count=1 2>/dev/null | sleep 100000" &
	done
	in_cgroup "$1" dd if=/dev/zero of="/tmp/cache.$1" bs=1M count=1 2>/dev/null
}

# held CGROUP NODE: bytes of its lists of pages there
held() {
	awk -v node="N$2=" '/^(in)?active_|^unevictable/ {
		for (i = 2; i <= NF; i++) if (index($i, node) == 1) sum += substr($i, length(node) + 1)
	} END { printf "%.0f\n", sum }' "$1/memory.numa_stat"
}

has() { # CGROUP MEGABYTES: in all
	[ $(($(held "$1" 0) + $(held "$1" 1))) -ge $(($2 * 1048576)) ]
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

ok "tiers are off at first" shows "tiers are off"
ok "the kernel's tiers are taken" weir tier on
ok "they are those" is "$(cat /sys/module/weir/parameters/tiers)" "0;1"
ok "without an agent nothing is moved" shows "no agent runs"
for group in a b c d; do hold $group 120; done
for group in a b c d; do ok "$group has its memory" finally has $group 119; done

began=$(cut -d . -f 1 /proc/uptime)
policy 'look = "1s"\n'
agent
ok "DAMON moves pages here" finally says "pages are moved by damon"
ok "and does" finally has_moved
took "DAMON: first pages"
if [ "$1" = damon ]; then
	ok "all come to their shares" finally shares a b c d
	took "DAMON: shares"
	ok "and rest there" finally rests
	ok "all of them" shares a b c d
	sed 's/^/# /' /tmp/status
fi

weir tier on --ratio 40 >/dev/null
kill -9 $agent
wait $agent 2>/dev/null
ok "killed, it leaves working processes" is "$(wc -l <a/cgroup.procs)" 6
policy 'engine = "move_pages"\n'
agent
ok "the next one takes over, with the engine it is told to use" finally says "pages are moved by move_pages"
ok "DAMON is given back" is "$(cat /sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds)" 0
began=$(cut -d . -f 1 /proc/uptime)
for pid in $(cat d/cgroup.procs); do kill -9 "$pid"; done
ok "a cgroup may vanish meanwhile" finally rmdir d
ok "the others come to their new shares" finally shares a b c
took "move_pages: shares"
ok "and rest there" finally rests
ok "all of them" shares a b c
ok "the status says so" shows '^/a .*within its budget'
sed 's/^/# /' /tmp/status
ok "the vanished one is forgotten" finally shows_not '/d '

weir tier off >/dev/null
ok "off is off" finally says "tiers: off"
ok "and stays told" shows "tiers are off"
kill $agent
ok "the agent ends" finally sh -c "! kill -0 $agent 2>/dev/null"
ok "with its last word" finally says "ended"
finish
