# SPDX-License-Identifier: GPL-2.0-only
# tenant-weight.sh [SECONDS]: a tenant's weights divide what the tenant gets, and
# change nothing outside.  Services of root's and two tenants share a slow disk "d";
# shares by io.stat, in windows of SECONDS.  A flusher's turn at one of the six is some
# MiB: in a window of 60 s one turn more or less is 2 points.  Wants a guest that counts
# instructions.
. /tap.sh
seconds=${1:-200}
insmod /weir.ko || exit 1
cd /sys/fs/cgroup || exit 1
echo "+memory +io" >cgroup.subtree_control
limits 16777216
mkdir sys single pair
for name in sys single pair; do
	echo "+memory +io" >$name/cgroup.subtree_control
done
outside="sys/s1 sys/s2 sys/s3"
all="$outside single/x pair/a pair/b"

# written: of each cgroup, bytes written back so far
written() {
	for name in $all; do
		awk -v name="$name" '{ for (i = 2; i <= NF; i++) if (sub("^wbytes=", "", $i)) sum += $i }
			END { print name, sum + 0 }' "$name/io.stat"
	done
}

# window NAME: what each gets meanwhile, in tenths of a percent, into /tmp/NAME
window() {
	written >/tmp/begin
	sleep "$seconds"
	written | paste -d' ' /tmp/begin - | awk '{ bytes[NR] = $4 - $2; name[NR] = $1; all += bytes[NR] }
		END { for (i = 1; i <= NR; i++) print name[i], int(1000 * bytes[i] / all); print "KiB", int(all / 1024) }' >"/tmp/$1"
	echo "# $1: $(tr '\n' ' ' <"/tmp/$1")"
}

# share WINDOW CGROUP...: of these together
share() {
	window=$1 sum=0
	shift
	for name in "$@"; do
		sum=$((sum + $(awk -v name="$name" '$1 == name { print $2 }' "/tmp/$window")))
	done
	echo $sum
}

# near BEFORE AFTER CGROUP...: within two points each, on average
near() {
	before=$1 after=$2
	shift 2
	was=$(share "$before" "$@") is=$(share "$after" "$@")
	between $((was - 20 * $#)) "$is" $((was + 20 * $#))
}

# keeps BEFORE AFTER CGROUP...: no more than two points less each, on average
keeps() {
	before=$1 after=$2
	shift 2
	between $(($(share "$before" "$@") - 20 * $#)) "$(share "$after" "$@")" 1000
}

# held CGROUP...: how often these were, together
held() {
	sum=0
	for name in "$@"; do
		sum=$((sum + $(stat "$name" nr_weight_held)))
	done
	echo $sum
}

for name in $all; do
	mkdir $name
	in_cgroup $name fio --name=w --filename="/mnt/d/$(echo $name | tr / _)" --rw=write --bs=64k --size=40m \
		--invalidate=0 --fallocate=posix --time_based --runtime=9999 --output=/dev/null &
done
sleep 40
window default
echo 101 >single/x/memory.dirty_weight
sleep 15
window single
ok "a weight of an only child leaves its share" near default single single/x
ok "and that of the services" near default single $outside
ok "no writer is held for it" is "$(held $all)" 0

echo 400 >pair/b/memory.dirty_weight
sleep 15
window divided
# a flusher's time that the light one leaves goes to all others, 2.4 points each here
ok "two that are divided take nothing from the services" keeps default divided $outside
ok "nor from the other tenant" keeps default divided single/x
ok "nor get more than before" between 150 "$(share divided pair/a pair/b)" $(($(share default pair/a pair/b) + 20))
ok "no writer outside is held" is "$(held $outside single/x)" 0
ok "the light writer inside is" between 1 "$(held pair/a)" 1000000
ok "they share 1 : 4" between 300 $((100 * $(share divided pair/b) / $(share divided pair/a))) 520
ok "the portions are of their parent's part" is "$(stat pair/a weight_portion) $(stat pair/b weight_portion)" "2000 8000"
echo "# held: light $(held pair/a), heavy $(held pair/b)"
for name in $all; do
	echo 1 >$name/cgroup.kill
done
{ wait; } 2>/dev/null
finish
