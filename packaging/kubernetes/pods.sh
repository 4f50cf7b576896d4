# SPDX-License-Identifier: GPL-2.0-only
# Two pods on one slow disk, one of which floods it: scenarios/dirty-knobs.toml by annotations alone.
. ./work.sh

victim() { # SECONDS: IOPS and the p99 of its writes in us
	runs "$victim" "$1" --name=victim --rw=write --rate=500k --size=32M --unlink=1 >/tmp/victim &&
		awk -F';' '{ sub(".*=", "", $71); print $49, $71 }' /tmp/victim
}

prepared slow
dirty $((32 << 20)) $((16 << 20))
# shellcheck disable=SC2086 # a list of flags
ok "a noisy pod starts" pod $work --data /mnt/slow noisy a
noisy=$pod
# shellcheck disable=SC2086
ok "and its victim" pod $work --data /mnt/slow victim a
victim=$pod
alone=$(victim 10)
sync
floods "$noisy" 45 --name=noisy --rw=randwrite --size=256M
sleep 10
stock=$(victim 30)
floods_no_more
cripod remove "$victim"
# shellcheck disable=SC2086
ok "the victim starts with a floor" annotated dirty-min=16M -- $work --data /mnt/slow victim a
victim=$pod
floods "$noisy" 45 --name=noisy --rw=randwrite --size=256M
sleep 10
floor=$(victim 30)
floods_no_more
echo "# victim, IOPS and p99 in us: alone $alone, beside the noisy pod $stock, with a floor of 16M $floor"
compared "alone the victim gets its 125 a second" "${alone% *}" ">=" 0.9 125
compared "beside the noisy pod the victim loses half of its rate and more" "${stock% *}" "<=" 0.5 "${alone% *}"
compared "with its floor it keeps its rate" "${floor% *}" ">=" 0.99 "${alone% *}"
over
