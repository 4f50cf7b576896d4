# SPDX-License-Identifier: GPL-2.0-only
# Memory that goes offline and comes back while the agent keeps shares: budgets follow,
# cgroups come to the new ones, and a tier without memory is told, not a fault. Wants the second
# tier as a DIMM: --dimm --append "movablecore=512M memhp_default_state=online_movable".
# tier-hotplug.sh ENGINE, as in a policy. Every state is waited for.
. /tap.sh
. /shares.sh
cd /sys/fs/cgroup || exit 1
echo +memory >cgroup.subtree_control
insmod /weir.ko || exit 1

blocks() { # NODE: of memory that may go
	for block in "/sys/devices/system/node/node$1"/memory[0-9]*; do
		! grep -q Movable "$block/valid_zones" || echo "$block"
	done
}
any_offline() { # NODE: one of its blocks; which
	for block in $(blocks "$1"); do
		! offline "$block" >/dev/null || return 0
	done
	return 1
}
budget() {
	cat a/memory.toptier_max
}
alone() { # all memory is of the first tier
	is "$(budget)" $((126 << 20)) && for group in a b c d; do
		is "$(held $group 1)" 0 || return 1
	done
}
runs() {
	kill -0 $agent
}

# The kernel finds the DIMM before it reads how fast that is.
ok "the second node is slower" weir tier on --tiers '0;1'
for group in a b c d; do limit $group 126; hold $group 120; done
for group in a b c d; do ok "$group has its memory" finally has $group 119; done
policy "engine = \"$1\"\nlook = \"1s\"\n"
agent
ok "pages are moved by $1" finally says "pages are moved by $1"
ok "all come to their shares" finally shares a b c d
whole=$(budget)

ok "some slow memory goes offline" finally any_offline 1
slow=$block
ok "more of each limit is for the fast tier" [ "$(budget)" -gt "$whole" ]
ok "all come to these shares" finally shares a b c d
ok "and rest there" finally rests
weir tier status | sed 's/^/# /'
more=$(budget)
ok "some fast memory goes offline" finally any_offline 0
ok "less of each limit is for the fast tier" [ "$(budget)" -lt "$more" ]
ok "all come to these shares, too" finally shares a b c d
weir tier status | sed 's/^/# /'
online "$block"
online "$slow"
ok "all memory is back" is "$(budget)" "$whole"
ok "all come to their shares again" finally shares a b c d

ok "all slow memory goes offline" all_offline 1
ok "the status says so" finally shows "no more than one tier has memory now"
ok "the log, too" says "no more than one tier has memory now"
ok "all of each limit is for the fast tier, and there" finally alone
weir tier status | sed 's/^/# /'
all_online 1
ok "it comes back" is "$(budget)" "$whole"
ok "all come to their shares with it" finally shares a b c d
ok "and rest there" finally rests

ok "all slow memory goes offline again" all_offline 1
echo 1 >/sys/bus/acpi/devices/PNP0C80:00/eject
ok "and out" finally [ ! -e /sys/devices/system/node/node1 ]
ok "the status says so" finally shows "no more than one tier has memory now"
ok "all is in the fast tier" finally alone
ok "the agent runs" runs
kill $agent
wait $agent
finish
