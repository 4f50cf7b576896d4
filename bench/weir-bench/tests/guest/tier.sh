# SPDX-License-Identifier: GPL-2.0-only
# Tiered limits on a real kernel with two tiers: cgroups come to their shares and
# stay there; one vanishes meanwhile, and the agent is killed while DAMON moves pages.
# Nothing here depends on when: every state is waited for. tier.sh [damon]: with
# DAMON, too, cgroups come all the way to their shares, which takes it longer.
. /tap.sh
. /shares.sh
cd /sys/fs/cgroup || exit 1
echo +memory >cgroup.subtree_control
insmod /weir.ko || exit 1

ok "tiers are off at first" shows "tiers are off"
ok "the kernel's tiers are taken" weir tier on
ok "they are those" is "$(cat /sys/module/weir/parameters/tiers)" "0;1"
ok "without an agent nothing is moved" shows "no agent runs"
for group in a b c d; do limit $group 126; hold $group 120; done
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
