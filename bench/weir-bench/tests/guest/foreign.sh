# SPDX-License-Identifier: GPL-2.0-only
# A stall recorded by trace-cmd is explained from the file alone: trace.dat in both
# versions, compressed or not, and its text.  So is weir's own recording.  Wants a disk "d" of 1M/s with ext4 and
# the package trace-cmd.
. /tap.sh
cd /sys/fs/cgroup || exit 1
mkdir victim noisy
limits 33554432
# Writers wait for a commit of the journal, too, sometimes for all of the seconds that are looked at.
umount /mnt/d && tune2fs -O ^has_journal /dev/weir/d >/dev/null && mount -t ext4 /dev/weir/d /mnt/d || exit 1
in_cgroup noisy fio --name=job --filename=/mnt/d/noisy --rw=write --bs=4k --size=512M --time_based --runtime=3000 >/dev/null 2>&1 &
# However slow the machine is: the host is full, then writers wait.
until awk '/^nr_(dirty|writeback) /{ n += $2 } END { exit n < 6500 }' /proc/vmstat; do sleep 0.1; done
in_cgroup victim fio --name=job --filename=/mnt/d/victim --rw=write --bs=4k --size=64M --rate=500k --time_based --runtime=3000 >/dev/null 2>&1 &
until sed 's|.*|/proc/&/wchan|' victim/cgroup.threads | xargs cat 2>/dev/null | grep -qE 'balance_dirty_pages|io_schedule_timeout'; do sleep 0.1; done
inode=$(ls -di victim | awk "{ print \$1 }")
cd /tmp || exit 1

# explains FILE CAUSE TEXT
explains() {
	weir explain --from "$1" --json >/tmp/out 2>&1
	grep -q "\"cause\": \"$2\"" /tmp/out && grep -qF "$3" /tmp/out || { cat /tmp/out; return 1; }
}

# refuses_file FILE TEXT
refuses_file() {
	weir explain --from "$1" >/tmp/out 2>&1
	is $? 2 && grep -qF "$2" /tmp/out || { cat /tmp/out; return 1; }
}

record() {
	trace-cmd record -q -o "$@" sleep 3 >/tmp/out 2>&1 || { cat /tmp/out; return 1; }
}

all="-e balance_dirty_pages -e global_dirty_state -e sched_switch"
ok "trace-cmd records" record all.dat $all
ok "its file is explained" explains all.dat host_limit "inode:$inode"
ok "and what was slept is known" explains all.dat host_limit '"measured": "slept"'
ok "trace-cmd makes version 6 of it" trace-cmd convert --file-version 6 -i all.dat -o six.dat
ok "that is explained" explains six.dat host_limit '"measured": "slept"'
ok "trace-cmd leaves version 7 uncompressed" trace-cmd convert --file-version 7 --compression none -i all.dat -o none.dat
ok "that is explained" explains none.dat host_limit '"measured": "slept"'
trace-cmd report -i all.dat >all.txt 2>/dev/null
ok "so is its text" explains all.txt host_limit '"measured": "slept"'
same() {
	for file in all.dat six.dat none.dat all.txt; do
		weir explain --from $file --json | grep -E '"(cause|cgroup|count)"' >"$file.out"
		cmp "$file.out" all.dat.out || { diff "$file.out" all.dat.out; return 1; }
	done
}
ok "all four say the same" same

ok "trace-cmd records pauses alone" record few.dat -e balance_dirty_pages
ok "then which limit decided cannot be told" explains few.dat cannot_tell "has no global_dirty_state events"
ok "and what was slept is not known" explains few.dat cannot_tell '"measured": "announced"'

head -c 100000 all.dat >cut.dat
ok "a file that is cut is refused" refuses_file cut.dat "it is cut"
size=$(wc -c <six.dat)
head -c $((size - 8192)) six.dat >short.dat
ok "one that lacks the end is used as far as it goes" explains short.dat host_limit "the file ends before the data of CPU"
ok "weir records" weir record own.weir --for 4s
ok "its file is explained, with all there is to know" explains own.weir host_limit '"culprit": "/noisy"'
sums_up() {
	weir report own.weir >/tmp/out 2>&1 && grep -q '^/noisy  *host_limit  *[0-9]' /tmp/out || { cat /tmp/out; return 1; }
}
ok "and summed up" sums_up
ok "a file that is there is kept" sh -c '! weir record own.weir --for 1s'
weir record killed.weir --for 300s &
recorder=$!
until [ -e killed.weir ] && [ "$(wc -c <killed.weir)" -gt 1500 ]; do sleep 0.1; done
kill -KILL $recorder
wait $recorder
ok "what a killed one leaves is of use" explains killed.weir host_limit "the recording has no end"
ok "and the next one tidies up after it" sh -c 'weir record next.weir --for 1s && ! grep weir_ /sys/kernel/tracing/kprobe_events'

# A small buffer is not emptied until it has lost some.
weir record lost.weir --for 300s --buffer 4K >lost.out 2>&1 &
recorder=$!
until [ -e lost.weir ] && [ "$(wc -c <lost.weir)" -gt 100 ]; do sleep 0.1; done
kill -STOP $recorder
until cat /sys/kernel/tracing/instances/weir-$recorder/per_cpu/*/stats | grep -q '^overrun: [1-9]'; do sleep 0.1; done
kill -CONT $recorder
sleep 1
kill -TERM $recorder
wait $recorder
counts_losses() {
	grep -q ' [1-9][0-9]* events lost' lost.out || { cat lost.out; return 1; }
}
ok "what the buffer has no room for is counted" counts_losses
ok "and said by who explains it" explains lost.weir host_limit "records were lost: times are too low"

head -c 100000 /dev/urandom >random
ok "one that is something else is refused" refuses_file random "neither a trace.dat file nor text"
: >empty
ok "so is an empty one" refuses_file empty "it is empty"
trace-cmd report -i all.dat 2>/dev/null | grep -E "balance_dirty_pages|global_dirty_state" | tail -n 40 | sed 's/^/# /'
kill $(cat /sys/fs/cgroup/victim/cgroup.procs /sys/fs/cgroup/noisy/cgroup.procs)
finish
