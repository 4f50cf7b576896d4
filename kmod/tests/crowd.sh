# SPDX-License-Identifier: GPL-2.0-only
# crowd.sh [OTHERS]: what a write to a knob takes must not grow with the number of other cgroups that
# have a record.  Wants --count-instructions, which makes the clock count instructions.
. /tap.sh
others=${1:-2000}
insmod /weir.ko || exit 1
cd /sys/fs/cgroup || exit 1
echo +memory >cgroup.subtree_control
mkdir one crowd
echo +memory >crowd/cgroup.subtree_control
make() { # FROM TO
	i=$1
	while [ $i -lt "$2" ]; do
		mkdir crowd/$i || return 1
		i=$((i + 1))
	done
}
recorded() {
	[ "$(cat /sys/kernel/weir/groups)" -ge "$1" ]
}
now() { # hundredths of a second
	read -r up _ </proc/uptime
	echo "${up%.*}${up#*.}"
}
writes() { # 400 of them
	start=$(now)
	i=0
	while [ $i -lt 200 ]; do
		echo 64M >one/memory.dirty_bytes
		echo 65M >one/memory.dirty_bytes
		i=$((i + 1))
	done
	echo $(($(now) - start))
}
make 0 10
# a knob above all of them
echo 512M >crowd/memory.dirty_bytes
ok "10 others have records" soon recorded 11
writes >/dev/null
few=$(writes)
make 10 "$others"
ok "$others others have records" soon recorded $((others + 1))
many=$(writes)
echo "# 400 writes: ${few}0 ms beside 10 others, ${many}0 ms beside $others"
# what the beat takes in that time included
ok "a write takes at most half as long again" between 0 "$many" $((few * 3 / 2 + 2))
finish
