# SPDX-License-Identifier: GPL-2.0-only
# What may be wrong while the agent keeps shares: DAMON is another program's, the slow
# tier is full, cgroups vanish while their pages move, values that are none. Every
# state is waited for.
. /tap.sh
. /shares.sh
cd /sys/fs/cgroup || exit 1
echo "+memory +cpuset" >cgroup.subtree_control
insmod /weir.ko || exit 1
weir tier on --ratio 40 >/dev/null || exit 1
damons=/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds
parameters=/sys/module/weir/parameters

on() { # nothing has changed of what is in force
	is "$(cat $parameters/tiers) $(cat $parameters/tier_ratio)" "0;1 40"
}
wrong() { # WORDS COMMAND...: refused with these words, and nothing changes
	words=$1
	shift
	"$@" >/tmp/wrong 2>&1 && { echo "succeeded"; return 1; }
	grep -qF -- "$words" /tmp/wrong || { cat /tmp/wrong; return 1; }
	on
}

for group in a b; do limit $group 126; hold $group 120; done
for group in a b; do ok "$group has its memory" finally has $group 119; done
echo 1 >$damons
policy 'look = "1s"\n'
agent
ok "where DAMON is another program's move_pages is taken" finally says "pages are moved by move_pages"
ok "the status says why" finally shows "another program has set up DAMON"
ok "all come to their shares" finally shares a b
ok "DAMON is left alone" is "$(cat $damons)" 1
echo 0 >$damons

# Values that are none
ok "a ratio beyond 100 is refused" wrong "101 is not in 0..=100" weir tier on --ratio 101
ok "a node that is not there" wrong "no such node" weir tier on --tiers '0;9'
ok "a node in two tiers" wrong "in two tiers" weir tier on --tiers '0;0'
ok "words" wrong "no list of tiers" weir tier on --tiers '0;slow'
ok "a cgroup's ratio beyond 100" refuses a/memory.toptier_ratio 101 "Invalid argument"
policy 'engine = "fast"\n'
ok "an engine that is none is told" finally says "no engine is called that"
ok "and the agent goes on as before" finally shows "pages are moved by move_pages"
ok "all have their shares" shares a b

# The slow tier is full: of memory that is to be there.
limit filler 400
echo 0 >filler/memory.toptier_ratio
echo 1 >filler/cpuset.mems
hold filler 180
ok "the slow tier has another cgroup's memory" finally has filler 175
weir tier on --ratio 1 >/dev/null
ok "who cannot go down waits" finally shows '^/[ab] .*would go down, but there is no room'
weir tier status | sed 's/^/# /'
for pid in $(cat filler/cgroup.procs); do kill -9 "$pid"; done
ok "when there is room" finally rmdir filler
ok "all come to their shares" finally shares a b
weir tier on --ratio 40 >/dev/null

# has_gone_down CGROUP: pages of it were moved
has_gone_down() {
	shows "^/$1 " && ! grep -qE "^/$1 .* 0 +0 +[a-z]" /tmp/status
}
for engine in damon move_pages; do
	policy "engine = \"$engine\"\nlook = \"1s\"\n"
	ok "pages are moved by $engine" finally shows "pages are moved by $engine"
	for round in 1 2 3; do
		limit late 126
		hold late 120
		ok "one more has its memory" finally has late 119
		ok "it is on its way" finally has_gone_down late
		for pid in $(cat late/cgroup.procs); do kill -9 "$pid"; done
		ok "and gone" finally rmdir late
	done
	ok "it is forgotten" finally shows_not '^/late '
	ok "$engine moves pages still" shows "pages are moved by $engine"
	ok "the others come to their shares" finally shares a b
done
ok "no engine failed" sh -c "! grep 'failed:' /tmp/log"
sed 's/^/# /' /tmp/log
kill $agent
ok "the agent ends" finally sh -c "! kill -0 $agent 2>/dev/null"
finish
