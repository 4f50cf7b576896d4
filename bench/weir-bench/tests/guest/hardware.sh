# SPDX-License-Identifier: GPL-2.0-only
# tools/hardware.sh in a guest, whose disk "d" is the real one: refusals, one scenario of the kit, and
# what its archive has.
. /tap.sh

kit=/kit/tools/hardware.sh
export WEIR=weir WEIR_MODULE=/weir.ko WEIR_REPEAT=1 TMPDIR=/tmp

# refused WORDS ARGUMENTS...
refused() {
	words=$1
	shift
	said=$(sh $kit "$@" 2>&1)
	is "$?" 2 && case $said in
	*"$words"*) ;;
	*) echo "another error than '$words': $said"; return 1 ;;
	esac
}
ok "a file is no disk" refused "no directory" /tap.sh
ok "nor is a tmpfs" refused "expected ext4, xfs or btrfs" /tmp /tmp/kit.tar.gz weight
ok "a scenario that the kit lacks is named" refused "no scenario nope" /mnt/d /tmp/kit.tar.gz nope

sh $kit /mnt/d /tmp/kit.tar.gz weight >/tmp/kit.out 2>/tmp/kit.err
ended=$?
cat /tmp/kit.out
sed 's/^/# /' /tmp/kit.err
ok "two floods have what their weights say" is $ended 0
mkdir /tmp/kit
ok "the archive is one" tar -xzf /tmp/kit.tar.gz -C /tmp/kit
ok "it says what the host is" grep -q "^kernel: $(uname -r)" /tmp/kit/host.txt
ok "and the disk" grep -q "^mount: .* /mnt/d ext4 " /tmp/kit/host.txt
ok "and has the table" grep -q "disk" /tmp/kit/weight.txt
for arm in stock weir; do
	ok "and what arm $arm measured" test -s /tmp/kit/weight/$arm-1/results.jsonl
done
ok "nothing stays on the disk" is "$(ls /mnt/d | grep -v lost+found)" ""
finish
