# SPDX-License-Identifier: GPL-2.0-only
# Kernels that know no slower memory say so. tier-one.sh two: 6.1 has two nodes in one
# tier; tiers that are given by hand are kept. tier-one.sh one: one node.
. /tap.sh
. /shares.sh
cd /sys/fs/cgroup || exit 1
echo +memory >cgroup.subtree_control
insmod /weir.ko || exit 1

no() { # WORDS COMMAND...: fails with these words
	words=$1
	shift
	"$@" >/tmp/no 2>&1 && { echo "succeeded"; return 1; }
	grep -qF -- "$words" /tmp/no || { cat /tmp/no; return 1; }
}

case $1 in
one)
	ok "there is no slower tier" no "one node of memory" weir tier on
	ok "and none is made up" no "no such node" weir tier on --tiers '0;1'
	ok "tiers are off" shows "tiers are off"
	policy ''
	agent
	ok "the one tier may be told" weir tier on --tiers 0
	ok "there is nothing to be moved" finally shows "the host has one tier: no page can be moved"
	;;
two)
	ok "the kernel has one tier" no "all memory in one tier (nodes 0-1)" weir tier on
	ok "how to tell it is said" grep -qF "weir tier on --tiers '0;1'" /tmp/no
	ok "tiers are off" shows "tiers are off"
	# It would hide untouched pages from move_pages.
	echo 0 >/proc/sys/kernel/numa_balancing
	ok "so it is told" weir tier on --tiers '0;1'
	for group in a b c; do limit $group 126; hold $group 120; done
	for group in a b c; do ok "$group has its memory" finally has $group 119; done
	policy ''
	agent
	ok "pages are moved by move_pages" finally says "pages are moved by move_pages"
	ok "the status says why not by DAMON" finally shows "blind to heat; no DAMON: "
	ok "all come to their shares" finally shares a b c
	ok "and rest there" finally rests
	;;
esac
sed 's/^/# /' /tmp/status
kill $agent
wait $agent
finish
