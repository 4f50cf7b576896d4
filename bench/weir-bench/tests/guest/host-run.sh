# SPDX-License-Identifier: GPL-2.0-only
# `weir run --on host` in a guest: both arms judged, refusals, and runs that are
# killed: KILLS of them, at random moments, by SIGKILL and SIGINT in turn.
. /tap.sh

kills=${1:-20}
run="weir run --on host --module /weir.ko --yes"

# all that a run could leave behind, as it is now
seen() {
	echo "mounts"
	sort /proc/mounts
	echo "modules"
	cut -d ' ' -f 1 /proc/modules | sort
	echo "cgroups"
	find /sys/fs/cgroup -type d
	cat /sys/fs/cgroup/cgroup.subtree_control
	echo "sysctls"
	grep -s . /proc/sys/vm/dirty_*
	echo "devices"
	ls /sys/block
	grep -s . /sys/block/*/size /sys/block/*/queue/nr_requests /sys/block/*/queue/max_sectors_kb
	echo "files"
	find /tmp /run /dev/shm /mnt -not -path '/tmp/ok.out' -not -path '/tmp/run.*' \
		-not -path '/tmp/before' -not -path '/tmp/now' 2>/dev/null | sort
	echo "processes"
	ps -o args | grep -E 'weir|fio|mkfs|dmsetup' | grep -v '^\[\|grep'
}

nothing_left() {
	seen >/tmp/now
	diff /tmp/before /tmp/now
}

# says FILE TEXT...
says() {
	file=$1
	shift
	for words; do
		grep -qF -e "$words" "$file" || { echo "no '$words' in:"; cat "$file"; return 1; }
	done
}

# the keeper of the run that goes on, and the worker below it, which has its name
keeper() {
	ps -o pid,args | awk '/ weir-keeper$/ { print $1; exit }'
}
worker() {
	ps -o pid,args | awk '/ weir-keeper$/ && n++ { print $1; exit }'
}

# random BELOW, in hundredths of a second
random() {
	echo $(($(od -An -N2 -tu2 /dev/urandom) % $1))
}
pause() {
	sleep "$(printf '%d.%02d' $(($1 / 100)) $(($1 % 100)))"
}

# what modprobe and the first module leave for good is there before
modprobe dm_crypt && modprobe xts
dmsetup --noudevrules --noudevsync create warm --table "0 8 zero" 2>/dev/null
dmsetup --noudevrules --noudevsync remove warm 2>/dev/null
seen >/tmp/before

$run --json /host-run.toml >/tmp/run.json 2>/tmp/run.err
ok "a scenario meets its expectations in both arms" is $? 0
ok "judged as in the lab" says /tmp/run.json '"verdict": "pass"' \
	'"weir.contended.victim.iops"' '"stock.contended.disk/slow.bw_bytes"' \
	'"weir.contended.cgroup/inner/noisy.dirty_max_bytes"'
ok "and nothing is left" nothing_left

# a disk that is there: the directory is the run's own, and goes with it
sed -e '/^write_bandwidth\|^encrypted\|^mount_options/d' /host-run.toml >/tmp/run.toml
mkdir /tmp/run.out
$run --arm stock --disk slow=/mnt/d --record --out /tmp/run.out /tmp/run.toml >/tmp/run.text 2>&1
ok "a directory is a disk" says /tmp/run.text "host disk"
ok "whose expectations of arm weir are skipped" says /tmp/run.text "arm weir was not run"
ok "results are kept" test -s /tmp/run.out/stock-1/results.jsonl -a -s /tmp/run.out/report.json
ok "and a recording of each phase" test -s /tmp/run.out/stock-1/contended.weir
weir report /tmp/run.out/stock-1/contended.weir >/tmp/run.text 2>&1
ok "which weir report reads" is $? 0
ok "and nothing is left in it" nothing_left

# refused: all at once, nothing begun
sed -e 's/^cpus = 1/cpus = 64/' -e 's/256M/900G/' -e 's/size = "1M"/size = "1M", filename = "\/dev\/vda"/' \
	/host-run.toml >/tmp/run.toml
weir run --on host --disk slow=/mnt/d --disk fast=/tmp --yes /tmp/run.toml >/tmp/run.text 2>&1
ok "what cannot be honoured is refused" is $? 2
ok "all of it, with lines" says /tmp/run.text \
	"/tmp/run.toml:10: key \`host.cpus\`: the scenario has 64 CPUs, this machine 1" \
	"key \`disk[0].write_bandwidth\`" "key \`disk[0].encrypted\`" "key \`disk[0].size\`" \
	"key \`disk[0].mount_options\`" "key \`job[2].fio.filename\`" \
	"--disk fast: the scenario has no such disk, it has: slow" \
	"this machine: no weir.ko is installed for this kernel"
weir run --on host --arm stock /host-run.toml </dev/null >/tmp/run.text 2>&1
ok "nothing is changed before the user agrees" is $? 2
ok "who is told what would be" says /tmp/run.text "vm.dirty_bytes = 8388608 (now" "nbd" "--yes to agree"
insmod /weir.ko
sed -e '/^encrypted/d' /host-run.toml >/tmp/run.toml
$run /tmp/run.toml >/tmp/run.text 2>&1
ok "arm stock is refused beside a module" says /tmp/run.text "run \`weir unload\` first, or only --arm weir"
$run --arm weir /tmp/run.toml >/tmp/run.text 2>&1
ok "a module loaded before is used" says /tmp/run.text "weir: weir: done"
ok "and stays" test -e /sys/module/weir
ok "with the parameters it had" is "$(cat /sys/module/weir/parameters/drain_seconds)" 0
rmmod weir
ok "and nothing is left" nothing_left

# killed: weir run itself, in turn by both
sed -e 's/^encrypted/io_cost/' /host-run.toml >/tmp/run.toml
deaths=0
left=0
while [ $deaths -lt "$kills" ]; do
	deaths=$((deaths + 1))
	signal=INT
	[ $((deaths % 2)) -eq 0 ] || signal=KILL
	scenario=/host-run.toml
	[ $((deaths % 4)) -lt 2 ] || scenario=/tmp/run.toml
	moment=$(random 900)
	$run --arm weir $scenario >/tmp/run.text 2>&1 &
	pid=$!
	pause "$moment"
	kill -$signal $pid 2>/dev/null || echo "# over after $moment cs"
	wait $pid
	status=$?
	stage=$(tail -n 1 /tmp/run.text)
	if soon test ! -e /run/weir-run >/tmp/run.why && nothing_left >/tmp/run.why; then
		echo "# $signal after $moment cs ($stage): nothing left, status $status"
	else
		left=$((left + 1))
		echo "# $signal after $moment cs ($stage): status $status, left:"
		sed 's/^/# /' /tmp/run.why
		weir run --on host --clean-up 2>&1 | sed 's/^/# /'
	fi
done
ok "$kills runs that were killed left nothing" is $left 0

# killed: the others, then all
for victim in keeper worker; do
	$run --arm stock /host-run.toml >/tmp/run.text 2>&1 &
	pid=$!
	soon test -e /sys/fs/cgroup/weir-run/victim >/dev/null
	pid=$(keeper)
	[ $victim = keeper ] || pid=$(worker)
	kill -KILL "$pid" || pid=
	wait
	ok "a $victim was there" test -n "$pid"
	ok "a $victim that is killed leaves nothing" nothing_left
	ok "and that is said" says /tmp/run.text "inconclusive"
done
$run --arm stock /host-run.toml >/tmp/run.text 2>&1 &
soon test -e /sys/fs/cgroup/weir-run/victim >/dev/null
kill -STOP "$(keeper)"
kill -KILL $! "$(worker)" "$(keeper)"
wait
ok "all killed at once leave something" test -e /sys/fs/cgroup/weir-run
weir run --on host --clean-up >/tmp/run.text 2>&1
ok "that is found later" says /tmp/run.text "is put back"
ok "and nothing is left" nothing_left
finish
