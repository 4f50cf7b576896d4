# SPDX-License-Identifier: GPL-2.0-only
# knob-fuzz.sh [WRITES]: mutated values into the knob files, from two processes
# at once, and the value read back after each (knob-fuzz.c).  Wants /knob-fuzz.
. /tap.sh
writes=${1:-4000}
cd /sys/fs/cgroup || exit 1
mkdir a b keeper
insmod /weir.ko tiers=0 || exit 1

# alone: nothing else keeps hooks in place
ok "on its own" /knob-fuzz a $((writes / 100)) 1
sed 's/^/# /' /tmp/ok.out

# beside a knob elsewhere
echo 1M >keeper/memory.dirty_min
echo 16M >keeper/memory.dirty_bytes
/knob-fuzz b $((writes / 2)) 2 >/tmp/b.out 2>&1 &
other=$!
ok "$((writes / 2)) writes" /knob-fuzz a $((writes / 2)) 3
sed 's/^/# /' /tmp/ok.out
ok "$((writes / 2)) more beside them" wait $other
sed 's/^/# /' /tmp/b.out
echo 0 >keeper/memory.dirty_min
echo max >keeper/memory.dirty_bytes
rmdir a b
ok "idle once the cgroups are gone" comes_to idle state
rmmod weir
finish
