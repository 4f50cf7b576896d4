# SPDX-License-Identifier: GPL-2.0-only
# A writer with a SCHED_DEADLINE reservation is not held for its weight, as no real-time one is.
# Wants a disk "d" and the package util-linux.
. /tap.sh
limits 33554432
insmod /weir.ko || exit 1
cd /sys/fs/cgroup || exit 1
echo "+memory +io" >cgroup.subtree_control
mkdir a b
echo 400 >a/memory.dirty_weight
# writes CGROUP COMMAND...: in the background; the writer itself is $!, no shell around it
writes() {
	sh -c 'echo 0 >"/sys/fs/cgroup/$0/cgroup.procs" &&
		exec "$@" dd if=/dev/zero of="/mnt/d/$0" bs=64k count=100000 2>/dev/null' "$@" &
}
competes() { # COMMAND...: runs the writer in b, beside an ordinary one in a
	writes a env
	a=$!
	writes b "$@"
	b=$!
	sleep 12
	policy=$(awk '{ print $41 }' /proc/$b/stat)
	slept=$(stat b nr_throttled)
	kill -9 $a $b
	wait
	sync
}
competes env
ordinary=$(stat b nr_weight_held)
competes chrt -d --sched-runtime 5000000 --sched-deadline 50000000 --sched-period 50000000 0
reserved=$(($(stat b nr_weight_held) - ordinary))
echo "# held for its weight: $ordinary times ordinary, $reserved times with a reservation (policy $policy), paused $slept times"
ok "an ordinary writer is held for its weight" between 1 "$ordinary" 100000000
ok "the other one had a reservation" is "$policy" 6
ok "and is not held" is "$reserved" 0
ok "the kernel throttles it" between 1 "$slept" 100000000
finish
