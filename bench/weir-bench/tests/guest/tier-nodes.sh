# SPDX-License-Identifier: GPL-2.0-only
# Three tiers on three nodes, and a cgroup with a limit whose children have none: they
# come to their shares of each tier, and follow limits that are written, and cgroups
# that come and go, while all are at rest. Every state is waited for.
# tier-nodes.sh ENGINE: as in a policy, and as the status calls it
. /tap.sh
. /shares.sh
cd /sys/fs/cgroup || exit 1
echo +memory >cgroup.subtree_control
insmod /weir.ko || exit 1

halves() { # the children have half of their parent's budget each
	for child in outer/x outer/y; do
		near "$(held $child 0)" $(($(told outer 0 budget) / 2)) ||
			{ echo "of $child"; return 1; }
	done
}
settled() {
	in_tiers outer single && halves
}
fast() { # CGROUP: has its share of the first tier
	near "$(held "$1" 0)" "$(told "$1" 0 budget)"
}

ok "the kernel's tiers are taken" weir tier on
ok "they are three" is "$(cat /sys/module/weir/parameters/tiers)" "0;1;2"
limit outer 252
echo +memory >outer/cgroup.subtree_control
hold outer/x 120
hold outer/y 120
limit single 126
hold single 120
for group in outer/x outer/y single; do ok "$group has its memory" finally has $group 119; done

began=$(cut -d . -f 1 /proc/uptime)
policy "engine = \"$1\"\nlook = \"1s\"\n"
agent
ok "pages are moved by $1" finally says "pages are moved by $1"
ok "all come to their shares of each tier" finally settled
took "$1: shares of three tiers"
ok "and rest there" finally rests
ok "all of them" settled
sed 's/^/# /' /tmp/status

# At rest limits are read again only when the kernel tells that they were written.
echo 150M >single/memory.max
ok "a limit is followed" finally fast single
echo 126M >single/memory.max
echo 40 >single/memory.toptier_ratio
ok "and a ratio of its own" finally in_tiers single
echo default >single/memory.toptier_ratio
limit late 42
hold late 40
ok "a cgroup that comes late has its memory" finally has late 40
ok "and comes to its shares" finally in_tiers late single
for pid in $(cat late/cgroup.procs); do kill -9 "$pid"; done
ok "it goes" finally rmdir late
ok "and is forgotten" finally shows_not '/late '
kill $agent
wait $agent
finish
