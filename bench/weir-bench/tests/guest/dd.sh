# SPDX-License-Identifier: GPL-2.0-only
# dd.sh N LEARN SECONDS: how far apart N dd come that write to the disk "sda", each to a file of its own, in SECONDS after LEARN
# seconds; twice. Nothing is asked of the result: it is what the twin's is held against (docs/experiments/0016-hosts-no-lab-has.md).
. /tap.sh
dds=$1
limits 314572800
for i in $(seq "$dds"); do
	dd if=/dev/zero of="/mnt/sda/$i" bs=4k count=1000000 2>/dev/null &
	echo "/proc/$!/io" >>/tmp/writers
done

# written: of each, how many bytes
written() {
	# shellcheck disable=SC2046 # a list of files
	awk '/^wchar/ { print FILENAME, $2 }' $(cat /tmp/writers)
}

sleep "$2"
for round in 1 2; do
	written >/tmp/before
	sleep "$3"
	written >/tmp/after
	awk -v s="$3" 'NR == FNR { before[$1] = $2; next }
		{ x = ($2 - before[$1]) / 4096 / s; sum += x; squares += x * x; n++
		  if (n == 1 || x < least) least = x
		  if (x > most) most = x }
		END { printf "# %d dd, pages a second: %.2f, least %.2f, most %.2f, %.2f %% apart, Jain %.5f\n",
			n, sum / n, least, most, (most - least) * n / sum * 100, sum * sum / n / squares }' /tmp/before /tmp/after
	ok "all $dds of them write (round $round)" is "$(wc -l </tmp/after)" "$dds"
done
for writer in $(cat /tmp/writers); do
	kill "$(echo "$writer" | cut -d / -f 3)"
done
finish
