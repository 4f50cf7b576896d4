# SPDX-License-Identifier: GPL-2.0-only
# cost.sh [CGROUPS...]: instructions that weir adds to a pass and to a 4 KiB write,
# by weir_cost.ko, beside so many other cgroups with knobs and at depth 1 and 8.
# SPIN_MS=400 measures the beat too.  ONLY="floor-here ceiling-here" leaves out other places than these.
# Prints lines "cost CPUS CGROUPS DEPTH WHERE NEVER ALWAYS PASSES WRITES OTHERS", CPUS being the possible ones.
# Wants --count-instructions, --kbuild kmod/tests/cost and a disk "d".
. /tap.sh
spin=${SPIN_MS:-0}
[ $# -gt 0 ] || set -- 1
limits 1073741824
cd /sys/fs/cgroup || exit 1
echo "# kernel $(uname -r)"
cpus=$(($(sed 's/.*-//' /sys/devices/system/cpu/possible) + 1))
mkdir others

# in DEPTH: a new cgroup so deep, its controllers on all the way
deep() {
	here=d$1
	mkdir $here
	level=1
	while [ $level -lt "$1" ]; do
		echo "+memory +io" >$here/cgroup.subtree_control
		here=$here/d
		mkdir $here
		level=$((level + 1))
	done
}

# measure GROUPS DEPTH WHERE: sets pass, the instructions of one
measure() {
	case " ${ONLY:-$3} absent idle unloaded " in
	*" $3 "*) ;;
	*) return ;;
	esac
	in_cgroup "$here" insmod /weir_cost.ko file=/mnt/d/measured.$2 spin_ms="$spin" || return 1
	figures=$(cd /sys/module/weir_cost/parameters && cat never always passes writes others | tr '\n' ' ')
	rmmod weir_cost
	echo "cost $cpus $1 $2 $3 $figures"
	# shellcheck disable=SC2086 # a list
	set -- $figures
	never=$1
	pass=$(($2 - $1))
}

# as_stock TEXT WHERE: the pass that was measured last takes what it took, if it was measured there
as_stock() {
	case " ${ONLY:-$2} " in
	*" $2 "*) ok "$1: a pass takes what it took" is "$pass" "$stock_pass" ;;
	esac
}

# the same knob in so many other cgroups
knobs() { # FILE VALUE COUNT
	i=0
	while [ $i -lt "$3" ]; do
		[ -d others/$i ] || mkdir others/$i
		echo "$2" >others/$i/memory.$1
		i=$((i + 1))
	done
}

echo "+memory +io" >others/cgroup.subtree_control
# let what the boot left behind settle
sync
sleep 10
for depth in 1 8; do
	deep $depth
	measure 0 $depth absent
	stock_never=$never
	stock_pass=$pass
	insmod /weir.ko
	measure 0 $depth idle
	ok "depth $depth: with no knob a write takes what it took" is $never $stock_never
	ok "depth $depth: and a pass too ($pass)" is $pass $stock_pass
	for count in "$@"; do
		knobs dirty_min 64K "$count"
		measure "$count" $depth floors-elsewhere
		ok "depth $depth, $count others: a write without a pass takes what it took" is $never $stock_never
		echo 64M >$here/memory.dirty_min
		measure "$count" $depth floor-here
		echo 0 >$here/memory.dirty_min
		knobs dirty_min 0 "$count"
		knobs dirty_bytes 64M "$count"
		measure "$count" $depth ceilings-elsewhere
		echo 64M >$here/memory.dirty_bytes
		measure "$count" $depth ceiling-here
		echo max >$here/memory.dirty_bytes
		knobs dirty_bytes max "$count"
		# a pass that was hooked for a floor stays so until the module goes
		rmmod weir
		insmod /weir.ko
		knobs writeback_bytes 4M "$count"
		measure "$count" $depth windows-elsewhere
		as_stock "depth $depth, $count windows" windows-elsewhere
		echo 4M >$here/memory.writeback_bytes
		measure "$count" $depth window-here
		echo max >$here/memory.writeback_bytes
		knobs writeback_bytes max "$count"
		knobs dirty_weight 200 "$count"
		measure "$count" $depth weights-elsewhere
		echo 400 >$here/memory.dirty_weight
		measure "$count" $depth weight-here
		as_stock "depth $depth, $count weights" weight-here
		echo 100 >$here/memory.dirty_weight
		knobs dirty_weight 100 "$count"
		rmmod weir
		insmod /weir.ko fair=1
		# another that writes: one alone has no part
		in_cgroup others/0 dd if=/dev/zero of=/mnt/d/other bs=64k count=16 2>/dev/null
		measure "$count" $depth fair-here
		rmmod weir
		insmod /weir.ko
	done
	above=${here%%/*}
	echo 64M >$here/memory.dirty_bytes
	while [ "$above" != "$here" ] && echo 64M >"$above/memory.dirty_bytes" && [ -d "$above/d" ]; do
		above=$above/d
	done
	[ $depth = 1 ] || measure 0 $depth ceilings-above
	rmmod weir
	measure 0 $depth unloaded
	ok "depth $depth: after unload as before" is "$never $pass" "$stock_never $stock_pass"
done
finish
