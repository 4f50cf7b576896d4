# SPDX-License-Identifier: GPL-2.0-only
# A stall as an operator meets it on a system that has weir from its package: README's row for a
# stall of unknown cause names `weir explain`, the first command that it prints is typed as it is,
# and the wait has to come below a tenth within five minutes.  Wants the disk "data" of ./disks.
. ./containers.sh

data=/mnt/data
# p50_ms: the p50 of waits in what `weir explain` said, in ms
p50_ms() {
	sed -n 's/.*p50 \([0-9.]*\) \(us\|ms\|s\),.*/\1 \2/p' /tmp/said | head -n 1 |
		awk '{ print $1 * ($2 == "s" ? 1000 : $2 == "ms" ? 1 : 0.001) }'
}
uptime_s() {
	cut -d . -f 1 /proc/uptime
}

. /etc/os-release
echo "# $PRETTY_NAME, $(uname -r), $(weir --version)"
mkfs.ext4 -q -E lazy_itable_init=1,lazy_journal_init=1 /dev/disk/by-id/virtio-data
mkdir -p $data
mount /dev/disk/by-id/virtio-data $data
limits 67108864
ok "a service floods its disk" systemd-run --quiet --unit flood \
	sh -c "while :; do dd if=/dev/zero of=$data/flood bs=64k count=4000 conv=notrunc; done"
ok "another commits each 50 ms" systemd-run --quiet --unit db \
	sh -c "while :; do dd if=/dev/zero of=$data/db bs=4k count=1 conv=notrunc,fsync; sleep 0.05; done"
sleep 10

began=$(uptime_s)
ok "weir explain answers" sh -c 'weir explain >/tmp/said'
sed 's/^/# /' /tmp/said
ok "the first is the database" grep -q '^/system.slice/db.service: ' /tmp/said
before=$(p50_ms)
command=$(sed -n 's/^  to change //p' /tmp/said | head -n 1)
echo "# typed: $command"
ok "it prints a command" test -n "$command"
ok "which is taken" sh -c "$command"
sleep 5
# 1: it found no stall
ok "weir explain answers again" sh -c 'weir explain /system.slice/db.service >/tmp/said || [ $? = 1 ]'
sed 's/^/# after: /' /tmp/said
after=$(p50_ms)
took=$(($(uptime_s) - began))
echo "# p50 ${before:-?} ms before, ${after:-?} ms after, $took s from the first command to the second answer"
ok "the wait is below a tenth" awk -v b="$before" -v a="$after" 'BEGIN { exit !(b > 0 && a * 10 < b) }'
ok "within five minutes" test $took -le 300

systemctl stop flood db
umount $data
finish
