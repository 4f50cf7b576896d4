# SPDX-License-Identifier: GPL-2.0-only
# An exclusive redirection of balance_dirty_pages() and domain_dirty_limits(), by
# weir_redirect.ko and without weir, beside bpftrace, a livepatch and
# kernel.ftrace_enabled=0: docs/experiments/0001-exclusive-redirection.md.  Wants
# --no-module, the modules of redirect/ and livepatch/, bpftrace, a slow disk "d".
. /tap.sh
trace=/sys/kernel/tracing
patch=/sys/kernel/livepatch/weir_livepatch
mkdir -p /sys/fs/cgroup/a
[ -e $trace/trace ] || mount -t tracefs tracefs $trace
limits 33554432

# Behind the ftrace site, which the wrappers jump over: 5 bytes, 9 with an ENDBR.
for at in 5 9; do
	echo "p:body balance_dirty_pages+$at" >>$trace/kprobe_events && break
done 2>/dev/null
echo 1 >$trace/events/kprobes/body/enable

body() {
	awk '$1 == "body" { print $2 }' $trace/kprobe_profile
}
got() { # PARAMETER of weir_redirect
	cat "/sys/module/weir_redirect/parameters/$1"
}
# sets entries, skipped, ran: what 48 MiB of writes come to
work() {
	entries=$(got entries) skipped=$(got skipped) ran=$(body)
	dirty /mnt/d/a 48 a
	entries=$(($(got entries) - entries)) skipped=$(($(got skipped) - skipped))
	ran=$(($(body) - ran))
	total=$((total + entries))
	echo "# $1: entries $entries, skipped $skipped, ran $ran"
	ok "$1: half are left out" between $((entries / 2)) $skipped $((entries / 2 + 1))
	ok "$1: those do not run, and the others do" is $ran $((entries - skipped))
}
# follow PROGRAM: until it is attached
follow() {
	: >/tmp/bpf
	bpftrace -B line -e "$1 interval:s:1 { printf(\"tick\\n\"); }" >/tmp/bpf 2>&1 &
	follower=$!
	soon grep -q tick /tmp/bpf
}
beside() { # NAME PROGRAM MAPS
	total=0
	insmod /weir_redirect.ko skip=1
	follow "$2"
	work "$1 after it"
	rmmod weir_redirect
	insmod /weir_redirect.ko skip=1
	work "$1 before it"
	kill -INT $follower
	wait $follower
	for map in $3; do
		ok "$1: @$map counts each entry once" grep -qx "@$map: $total" /tmp/bpf
	done
	work "$1 gone"
	rmmod weir_redirect
}

f=balance_dirty_pages
beside kprobes "kprobe:$f { @entry = count(); } kretprobe:$f { @exit = count(); }" "entry exit"
beside trampolines "kfunc:$f { @entry = count(); } kretfunc:$f { @exit = count(); }" "entry exit"

insmod /weir_redirect.ko skip=1
ok "a livepatch is refused" sh -c 'insmod /weir_livepatch.ko 2>&1 | grep -q busy'
work "beside a refused livepatch"
if silence_ftrace; then
	before=$(got entries)
	dirty /mnt/d/a 48 a
	ok "ftrace_enabled=0 takes it away" is "$(got entries)" "$before"
	ok "a livepatch is refused even then" sh -c 'insmod /weir_livepatch.ko 2>&1 | grep -q busy'
	echo 1 >/proc/sys/kernel/ftrace_enabled
	work "ftrace_enabled is 1 again"
else
	skip "ftrace_enabled=0 takes it away" "$no_switch"
fi
rmmod weir_redirect

insmod /weir_livepatch.ko
ok "it is refused beside a livepatch" sh -c 'insmod /weir_redirect.ko 2>&1 | grep -q busy'
ok "a transition ends" comes_to 0 cat $patch/transition
echo 0 >$patch/enabled
ok "the patch can be reverted" soon test ! -e $patch
insmod /weir_redirect.ko skip=1
work "the patch is gone"
rmmod weir_redirect

insmod /weir_redirect.ko permanent=1
ok "permanent: refuses ftrace_enabled=0" sh -c '! echo 0 >/proc/sys/kernel/ftrace_enabled'
for writer in 1 2 3 4 5 6 7 8; do
	dirty "/mnt/d/$writer" 32 a &
done
sleep 3
echo "# unloading with $(got inside) tasks inside"
ok "unloads under load" rmmod weir_redirect
wait
finish
