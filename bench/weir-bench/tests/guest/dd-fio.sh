# SPDX-License-Identifier: GPL-2.0-only
# dd-fio.sh N LEARN SECONDS: how far apart N threads of fio come that write 4 KiB after 4 KiB to files of 4 MiB, over and over, in SECONDS after LEARN
# seconds; like dd.sh, but with disks in the guest's memory, which files without an end would fill. All files together must be larger than what can be dirty:
# a writer that finds all of its pages dirty rewrites them unthrottled. Nothing is asked of the result.
. /tap.sh
fio="fio --name=dd --directory=/mnt/sda --size=4m --rw=write --ioengine=psync --numjobs=$1 --thread=1"
$fio --bs=1m --overwrite=1 --create_only=1 >/dev/null
sync
$fio --bs=4k --invalidate=0 --time_based=1 --ramp_time="$2" --runtime="$3" --eta=never --output-format=terse --output=/tmp/fio.out
# Field 47: KiB written.
awk -F ';' -v s="$3" '$47 > 0 { x = $47 / 4 / s; sum += x; squares += x * x; n++
		if (n == 1 || x < least) least = x
		if (x > most) most = x }
	END { printf "# %d writers, pages a second: %.2f, least %.2f, most %.2f, %.2f %% apart, Jain %.5f\n",
		n, sum / n, least, most, (most - least) * n / sum * 100, sum * sum / n / squares }' /tmp/fio.out
ok "all $1 of them wrote" is "$(awk -F ';' '$47 > 0' /tmp/fio.out | wc -l)" "$1"
finish
