# SPDX-License-Identifier: GPL-2.0-only
# A real etcd in a pod, and one that floods its disk, as in scenarios/fsync.toml: what helps is a
# ceiling by annotation.
. ./work.sh

prepared fast etcd
dirty $((64 << 20)) $((32 << 20))
url=127.0.0.1:2379
# shellcheck disable=SC2086
ok "a pod for etcd starts" pod $work --data /mnt/fast etcd a
etcd=$pod
cripod exec "$etcd" a /bin/etcd --data-dir=/data/etcd --listen-client-urls=http://$url --advertise-client-urls=http://$url \
	--listen-peer-urls=http://127.0.0.1:2380 --log-level=error >/tmp/etcd 2>&1 &
served=$!
etcd_answers() {
	bash -c 'exec 3<>"/dev/tcp/$0" && printf "GET /health HTTP/1.0\r\n\r\n" >&3 && grep -q true <&3' "$(echo $url | tr : /)" 2>/dev/null
}
ok "etcd answers" soon etcd_answers
# puts SECONDS: keeps 10 puts a second, one after the other; prints how many a second there were, and the upper bound, in
# ms, of what 99 % of the flushes of etcd's log took
cat >/tmp/puts <<'PUTS'
at=/dev/tcp/${1%:*}/${1#*:}
flushes() {
	exec 4<>"$at"
	printf 'GET /metrics HTTP/1.0\r\n\r\n' >&4
	sed -n 's/^etcd_disk_wal_fsync_duration_seconds_bucket{le="\(.*\)"} \(.*\)\r*$/\1 \2/p' <&4 | tr -d '\r'
	exec 4>&-
}
flushes >/tmp/before
exec 3<>"$at"
body='{"key":"aw==","value":"'$(head -c 400 /dev/zero | base64 -w 0)'"}'
begun=${EPOCHREALTIME/./} end=$((${EPOCHREALTIME/./} + $2 * 1000000)) n=0
while now=${EPOCHREALTIME/./}; [ "$now" -lt "$end" ]; do
	due=$((begun + n * 100000))
	if [ "$now" -lt "$due" ]; then
		sleep "$(printf '0.%06d' $((due - now)))"
		continue
	fi
	# What could not be put in time is not made up for.
	[ $((now - due)) -lt 100000 ] || begun=$((now - n * 100000))
	printf 'POST /v3/kv/put HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s' ${#body} "$body" >&3
	length=0
	while IFS= read -r line <&3 && line=${line%$'\r'} && [ -n "$line" ]; do
		case $line in Content-Length:*) length=${line#*: } ;; esac
	done
	read -r -N "$length" answer <&3
	case $answer in *revision*) n=$((n + 1)) ;; *) echo "$answer" >&2; exit 1 ;; esac
done
flushes >/tmp/after
paste -d ' ' /tmp/before /tmp/after | awk -v n=$n -v s="$2" '{ bound[NR] = $1; count[NR] = $4 - $2 }
	END { for (i = 1; i < NR && count[i] < 0.99 * count[NR]; i++); printf "%.1f %s\n", n / s, bound[i] == "+Inf" ? 9999999 : bound[i] * 1000 }'
PUTS
puts() {
	bash /tmp/puts "$url" "$1"
}
alone=$(puts 10)
# shellcheck disable=SC2086
ok "a pod that floods starts" pod $work --data /mnt/fast flood a
floods "$pod" 40 --name=flood --rw=write --size=700M --fallocate=none
sleep 5
stock=$(puts 30)
floods_no_more
wrote=$(awk -F';' '{ print $48 }' /tmp/flood)
cripod remove "$pod"
# shellcheck disable=SC2086
ok "another starts with a ceiling" annotated dirty-bytes=512K -- $work --data /mnt/fast flood a
floods "$pod" 40 --name=flood --rw=write --size=700M --fallocate=none
sleep 5
ceiling=$(puts 30)
floods_no_more
echo "# the flood, KiB/s: $wrote, with a ceiling of 512K $(awk -F';' '{ print $48 }' /tmp/flood)"
echo "# etcd, puts a second and bound of 99 % of its flushes in ms: alone $alone, beside a flood $stock, with a ceiling of 512K on it $ceiling"
compared "alone etcd keeps 10 puts a second" "${alone% *}" ">=" 0.9 10
compared "beside a flood etcd gets less than half of its rate" "${stock% *}" "<=" 0.5 "${alone% *}"
compared "with a ceiling on the flood it keeps it" "${ceiling% *}" ">=" 0.95 "${alone% *}"
compared "and its flushes are ten times shorter" "${ceiling#* }" "<=" 0.1 "${stock#* }"
clear_pods
wait $served
over
