# SPDX-License-Identifier: GPL-2.0-only
# A flood to a slow device, as a USB stick is, fills the host's limit, and a writer to a fast one waits:
# alone, beside the flood, and with a part of the limit for either device by `bdi` of [stock].
# Wants disks "d" of 1M/s and "e" of 16M/s, both ext4, and no module.
. /tap.sh
cd /sys/fs/cgroup || exit 1
ip link set lo up
echo "+memory +io" >cgroup.subtree_control
mkdir flood app
limits 33554432
slow=$(awk '$5 == "/mnt/d" { print $3 }' /proc/self/mountinfo)
fast=$(awk '$5 == "/mnt/e" { print $3 }' /proc/self/mountinfo)

agent() { # BDI
	cat >/tmp/agent.toml <<-END
		[stock]
		bdi = { $1 }
	END
	weir agent --policy /tmp/agent.toml >/tmp/log 2>&1 &
	agent=$!
}
# ended: and everything as it was
ended() {
	kill $agent
	wait $agent
}
written() { # DEVICE: MiB so far, by anyone
	awk '{ print int($7 / 2048) }' "/sys/dev/block/$1/stat"
}
# measured LABEL: a writer of 8 MiB every 3 s to the fast device: its longest write() into $longest and the
# time of its throttled ones into $waited, in ms; what the flood holds into $held, and writes a second
measured() {
	in_cgroup flood sh -c 'while :; do dd if=/dev/zero of=/mnt/d/flood bs=64k count=4000 conv=notrunc 2>/dev/null; done' &
	sleep 20
	before=$(written "$slow")
	in_cgroup app fio --name=app --directory=/mnt/e --rw=write --bs=64k --size=128m --thinktime=3s \
		--thinktime_blocks=128 --time_based --runtime=30 --output-format=json --output=/tmp/app.json >/dev/null 2>&1
	held=$(awk '/^(file_dirty|file_writeback) / { sum += $2 } END { printf "%.1f", sum / 1048576 }' flood/memory.stat)
	slowly=$((($(written "$slow") - before) * 100 / 30))
	figures=$(awk '/"write" :/ { inside = 1 }
		inside && /"clat_ns"/ { clat = 1 }
		inside && /"total_ios"/ { gsub(/[^0-9]/, ""); total = $0 }
		clat && /"max"/ { gsub(/[^0-9]/, ""); max = $0 }
		clat && /"mean"/ { gsub(/[^0-9.]/, ""); printf "%.1f %.1f %d", max / 1e6, total * $0 / 1e6, total; exit }' /tmp/app.json)
	longest=${figures%% *}
	# shellcheck disable=SC2086 # three numbers
	echo "# $1: $(printf '%s ms the longest of its writes, %s ms all of its %s' $figures); the flood holds $held MiB, its disk writes 0.01 x $slowly MiB/s"
	stop flood
}
stop() {
	[ ! -d "$1" ] || echo 1 >"$1/cgroup.kill"
	sleep 1
	sync
}
at_least() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a >= b) }'; }
below() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a < b) }'; }
says() { # WORDS
	grep -qF -- "$1" /tmp/log || { cat /tmp/log; return 1; }
}
is_part() { # PARTS
	is "$(parts max_ratio)" "$1"
}
parts() { # BOUND
	cat "/sys/class/bdi/$slow/$1_fine" 2>/dev/null
}

agent "\"$slow\" = { max_bytes = \"4M\" }"
if [ ! -e "/sys/class/bdi/$slow/max_ratio_fine" ]; then
	ok "an older kernel is told of" soon says "which Linux has from 6.2 on"
	ok "and its agent ends" ended
	finish
fi
is_part() { # PARTS
	is "$(cat "/sys/class/bdi/$slow/max_ratio_fine")" "$1"
}
ok "a ceiling in bytes is a part of the host's limit" soon is_part 125000
ok "which is strict" is "$(cat "/sys/class/bdi/$slow/strict_limit")" 1
ended
measured "beside a flood to the slow device"
without=$longest
ok "a writer to another device waits for the slow one" at_least "$longest" 50
agent "\"$slow\" = { max_bytes = \"4M\", strict_limit = 0 }"
measured "max_bytes of 4M that is not strict"
ended
agent "\"$fast\" = { min_bytes = \"16M\" }"
measured "min_bytes of 16M for the fast device"
ended
agent "\"$slow\" = { max_bytes = \"4M\" }"
measured "max_bytes of 4M"
ok "the slow device holds no more" below "$held" 4.5
ok "and keeps four fifths of its rate" at_least "$slowly" 80
ok "the longest wait of the other one is below a tenth" below "$longest" "$(awk -v a="$without" 'BEGIN { print a / 10 }')"
limits 67108864
ok "the part follows the host's limit" soon is_part 62500
ok "the agent ends" ended
ok "all is put back" is "$(cat "/sys/class/bdi/$slow/max_ratio_fine" "/sys/class/bdi/$slow/strict_limit" "/sys/class/bdi/$fast/min_ratio_fine" | tr '\n' ' ')" "1000000 0 0 "
finish
