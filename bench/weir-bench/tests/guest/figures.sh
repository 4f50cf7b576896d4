# SPDX-License-Identifier: GPL-2.0-only
# What weir shows of the host's pages, live and from a recording, is what was set in bytes,
# whatever the size of this kernel's pages.  Wants a disk "d" slower than a writer.
. /tap.sh
limits 33554432
mkdir /sys/fs/cgroup/noisy
in_cgroup noisy sh -c 'while [ ! -e /tmp/over ]; do
	dd if=/dev/zero of=/mnt/d/noise bs=64k count=1600 conv=notrunc 2>/dev/null
done' &

says() { # FILE WORDS
	grep -qF -- "$2" "$1" || { cat "$1"; return 1; }
}
usleep 3000000
weir record --for 8s /tmp/recording >/tmp/log 2>&1
weir explain --for 8s /noisy >/tmp/live 2>&1
weir explain --from /tmp/recording >/tmp/recorded 2>&1
for look in live recorded; do
	ok "$look: the limit is what was set" says /tmp/$look "the host's limit is 32.0 MiB: vm.dirty_bytes 33554432"
	ok "$look: and freerun half way from background" says /tmp/$look "(16.0 MiB + 32.0 MiB) / 2"
	held=$(sed -n 's/.*the host held \([0-9]*\)\..* MiB (median).*/\1/p' /tmp/$look)
	ok "$look: the host holds what it may" between 20 "$held" 33
done
weir top --json -n 2 >/tmp/top 2>&1
ok "top: the limit is what was set" says /tmp/top '"freerun_bytes":25165824'
: >/tmp/over
finish
