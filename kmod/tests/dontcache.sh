# SPDX-License-Identifier: GPL-2.0-only
# dontcache.sh: writers with RWF_DONTCACHE have the kernel start writeback for reason
# dontcache; they dirty pages as others do, so a ceiling holds them, and explain reads
# the trace.  Wants disk "d" of 8M/s (ext4) and /dontcache (dontcache.c).
. /tap.sh
cd /sys/fs/cgroup || exit 1
trace=/sys/kernel/debug/tracing
insmod /weir.ko || exit 1
limits 268435456
mkdir -p w
for event in writeback_start writeback_queue balance_dirty_pages global_dirty_state; do
	echo 1 >"$trace/events/writeback/$event/enable"
done

in_cgroup w /dontcache /mnt/d/free 32
written=$?
[ $written != 3 ] || { skip "RWF_DONTCACHE" "the kernel or ext4 does not take it"; finish; }
ok "a writer without a knob writes all" is $written 0
sync

echo 4M >w/memory.dirty_bytes
in_cgroup w /dontcache /mnt/d/held 32 &
most=0
while kill -0 $! 2>/dev/null; do
	held=$(awk '/^file_(dirty|writeback) /{ held += $2 } END { print held }' w/memory.stat)
	[ "$held" -le $most ] || most=$held
	sleep 0.1
done
ok "one below a ceiling, too" wait $!
echo "# at most $most bytes dirty or in writeback"
ok "and it holds no more than that" test $most -le 4194304
cat $trace/trace >/tmp/trace
grep reason=dontcache /tmp/trace | head -n 3 | sed 's/^/# /'
ok "writeback is started for it" grep -q reason=dontcache /tmp/trace
weir explain --from /tmp/trace >/tmp/explained
explained=$?
sed 's/^/# /' /tmp/explained
ok "explain reads the trace" between 0 $explained 1
finish
