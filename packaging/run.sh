#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Boots the Debian system of image.sh on its own stock kernel, emulated, and has it
# install the packages in DIRECTORY and run packaging/tests/*.sh: prints their TAP.
#   packaging/run.sh DIRECTORY [SUITE [TESTS]]
# SUITE is image.sh's. TESTS is a directory whose files come beside those tests, or instead
# of those of the same name: it has a `main` of its own.
#
# The guest has no network.  It gets two disks: a snapshot of the image, which is
# forgotten at the end but lasts over the guest's own reboots, and a tar archive of
# what it is to do; and an empty one for each line `SERIAL SIZE BYTES_A_SECOND` of the file `disks`
# in TESTS.  It answers on its second serial port.
# Exit status: 0 all passed, 1 something did not, 2 unknown: it hung or died.
set -eu
tree=$(dirname "$(readlink -f "$0")")/..
debs=$1
suite=${2:-bookworm}
tests=${3:-}
limit=${WEIR_GUEST_SECONDS:-1500} # 10 minutes is usual with two emulated CPUs

image=$("$tree/packaging/image.sh" "$suite")
# The lab's emulator: Debian 12's own trips over code that the kernel patches.
(cd "$tree" && cargo build --quiet --locked --package lab --example qemu)
emulator=${CARGO_TARGET_DIR:-$tree/target}/x86_64-unknown-linux-gnu/debug/examples/qemu
set -- # the disks that tests want
work=$(mktemp -d "${TMPDIR:-/var/tmp}/weir-system.XXXXXX")
qemu=
trap '[ -z "$qemu" ] || kill $qemu 2>/dev/null || true; rm -rf "$work"' EXIT
trap 'exit 2' HUP INT TERM
mkdir "$work/payload"
cp "$debs"/* "$tree"/packaging/tests/* "$tree/kmod/tests/tap.sh" "$work/payload"
[ -z "$tests" ] || cp "$tests"/* "$work/payload"
# What the caller chose, for the guest's `main`.
env | sed -n "s/^\(WEIR_\(TESTS\|PODS\|STORM\|KILLS\|RESTARTS\|CONTROL\|WORKERS\|PAUSE\|SECONDS\)\)=\(.*\)/export \1='\3'/p" >"$work/payload/choice"
tar -C "$work/payload" -cf "$work/payload.tar" .
: >"$work/answers"

[ ! -e "$work/payload/disks" ] || while read -r serial size rate; do
	truncate -s "$size" "$work/$serial"
	set -- "$@" -drive "if=none,id=$serial,format=raw,cache=unsafe,discard=unmap,file=$work/$serial,throttling.bps-write=$rate" \
		-device "virtio-blk-pci,drive=$serial,serial=$serial"
done <"$work/payload/disks"

# The last line it says.  Without it nothing that came before is a verdict.
over='# the guest is done'

# no_timer_check: on a busy machine the kernel finds the emulated timer wanting and stops there.
TMPDIR=$work timeout "$limit" "$emulator" -name weir-system -M q35 -accel tcg,thread=multi -cpu max -smp 2 -m 2G \
	-nodefaults -display none -kernel "$image/vmlinuz" -initrd "$image/initrd" \
	-append "root=/dev/vda console=ttyS0 no_timer_check" \
	-serial "file:$work/console" -serial "file:$work/answers" \
	-drive "if=none,id=root,format=raw,cache=unsafe,discard=unmap,snapshot=on,file=$image/root.img" \
	-device virtio-blk-pci,drive=root \
	-drive "if=none,id=payload,format=raw,readonly=on,file=$work/payload.tar" \
	-device virtio-blk-pci,drive=payload "$@" &
qemu=$!
tail -n +1 -f --pid=$qemu "$work/answers" &
tail=$!
ended=0
wait $qemu || ended=$?
wait $tail || true
qemu=

if ! grep -qxF "$over" "$work/answers"; then
	[ "$ended" -ne 124 ] || echo "run.sh: the guest was not done after $limit s" >&2
	echo "run.sh: inconclusive; the end of the guest's console:" >&2
	tail -n 40 "$work/console" >&2
	exit 2
fi
! grep -q '^not ok' "$work/answers"
