# SPDX-License-Identifier: GPL-2.0-only
# The second of three tiers goes offline, all of it: what was there goes to the third, what
# the limits leave of the first two stays in the first, and both change places as before.
# That is the third node, which is to be a DIMM: --dimm --append "movablecore=768M
# memhp_default_state=online_movable".
# tier-gap.sh ENGINE, as in a policy. Every state is waited for.
. /tap.sh
. /shares.sh
cd /sys/fs/cgroup || exit 1
echo +memory >cgroup.subtree_control
insmod /weir.ko || exit 1

ok "the tiers are taken" weir tier on --tiers '0;2;1'
for group in a b c d; do limit $group 126; hold $group 120; done
for group in a b c d; do ok "$group has its memory" finally has $group 119; done
policy "engine = \"$1\"\nlook = \"1s\"\n"
agent
ok "pages are moved by $1" finally says "pages are moved by $1"
ok "all come to their shares of each tier" finally in_tiers a b c d
ok "the second tier has some of it" [ "$(held a 2)" -gt 8388608 ]

ok "all memory of the second tier goes offline" all_offline 2
ok "no cgroup has any there" is "$(held a 2)" 0
ok "all come to their shares of the others" finally in_tiers a b c d
ok "and rest there" finally rests
sed 's/^/# /' /tmp/status
in_third=$(held a 1)
weir tier on --tiers '0;2;1' --ratio 72 >/dev/null
ok "less of the first goes down across the gap" finally in_tiers a b c d
ok "to the third" [ "$(held a 1)" -gt $((in_third + 4194304)) ]
weir tier on --tiers '0;2;1' --ratio 85 >/dev/null
ok "more of it comes up" finally in_tiers a b c d
weir tier on --tiers '0;2;1' --ratio 72 >/dev/null
all_online 2
ok "it comes back, and all come to their shares of each tier" finally in_tiers a b c d
ok "the second tier has some of it again" [ "$(held a 2)" -gt 8388608 ]
kill $agent
wait $agent
finish
