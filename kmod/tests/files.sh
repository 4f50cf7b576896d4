# SPDX-License-Identifier: GPL-2.0-only
# The knob files: forms they take, forms they refuse, and what stays after that.
. /tap.sh
insmod /weir.ko || exit 1
mkdir /sys/fs/cgroup/a
limits 268435456
page=$(page_size)
cd /sys/fs/cgroup/a || exit 1
echo "user:x:1000:1000::/:/bin/sh" >>/etc/passwd

# An unprivileged owner does not hook the host's kernel.
echo +memory >cgroup.subtree_control
mkdir d
chown -R 1000:1000 d
# first FILE VALUE: the owner writes what would be the first knob
first() {
	su user -s /bin/sh -c "echo -n '$2' >/sys/fs/cgroup/a/d/$1" 2>&1
}
for write in dirty_bytes=64K dirty_ratio=32 dirty_bandwidth=64K dirty_weight=200 writeback_bytes=64K; do
	file=${write%=*}
	value=$(cat d/memory.$file)
	ok "an owner may not set the first knob of all, $file" sh -c \
		"su user -s /bin/sh -c 'echo ${write#*=} >d/memory.$file' 2>&1 | grep -q 'not permitted'"
	ok "which stays $value" is "$(cat d/memory.$file)" "$value"
	ok "and takes its default" first memory.$file "$value"
done
ok "nothing is hooked, no record made" is "$(hooks) $(cat /sys/kernel/weir/groups)" "0 0"
echo 1 >/sys/module/weir/parameters/tenants_arm
ok "with tenants_arm it may" first memory.dirty_bytes 4M
ok "which hooks" is "$(hooks) $(cat d/memory.dirty_bytes)" "2 4194304"
echo 0 >/sys/module/weir/parameters/tenants_arm
ok "and once hooked, without it" first memory.dirty_ratio 32
ok "but not the first that needs another function" sh -c \
	"su user -s /bin/sh -c 'echo 64K >d/memory.writeback_bytes' 2>&1 | grep -q 'not permitted'"
rmdir d
echo -memory >cgroup.subtree_control
rmmod weir
insmod /weir.ko || exit 1

for file in dirty_min dirty_bytes dirty_ratio dirty_bandwidth dirty_weight writeback_bytes dirty_stat; do
	ok "memory.$file is in a cgroup" test -f memory.$file
	ok "memory.$file is not in the root cgroup" test ! -e ../memory.$file
done
ok "dirty_min defaults to 0" is "$(cat memory.dirty_min)" 0
ok "dirty_bytes defaults to max" is "$(cat memory.dirty_bytes)" max
ok "dirty_ratio defaults to 0" is "$(cat memory.dirty_ratio)" 0

ok "dirty_min takes bytes" takes memory.dirty_min 12345 12345
ok "dirty_min takes K" takes memory.dirty_min 16K 16384
ok "dirty_min takes m" takes memory.dirty_min 16m 16777216
ok "dirty_min takes G and white space" takes memory.dirty_min "  2G
" 2147483648
ok "dirty_min takes max" takes memory.dirty_min max max
ok "dirty_bytes takes M" takes memory.dirty_bytes 64M 67108864
ok "dirty_bytes takes the smallest ceiling" takes memory.dirty_bytes $((2 * page)) $((2 * page))
ok "dirty_bytes takes max" takes memory.dirty_bytes max max
ok "dirty_ratio takes 100" takes memory.dirty_ratio 100 100
ok "dirty_ratio takes 1" takes memory.dirty_ratio 1 1

for value in " " abc -1 +1 0x10 1.5 1Q 16MB "1 2" "16M 16M" maxx MAX K; do
	ok "dirty_min refuses '$value'" refuses memory.dirty_min "$value" "Invalid argument"
	ok "dirty_bytes refuses '$value'" refuses memory.dirty_bytes "$value" "Invalid argument"
done
for value in " " abc -1 101 1000 99999999999999999999 10% 1K 0x1 "1 2" max; do
	ok "dirty_ratio refuses '$value'" refuses memory.dirty_ratio "$value" "Invalid argument"
done
for value in 9223372036854775808 18446744073709551616 99999999999999999999999 8388608T; do
	ok "dirty_min refuses $value" refuses memory.dirty_min $value "result out of range"
done
ok "dirty_bytes refuses less than two pages" refuses memory.dirty_bytes $((2 * page - 1)) "result out of range"
ok "dirty_bytes refuses 0" refuses memory.dirty_bytes 0 "result out of range"

ok "floors are scaled to 80 % of the limit" sh -c '
	limit=$(cat /sys/kernel/weir/limit_bytes)
	floor=$(awk "/^floor /{print \$2}" memory.dirty_stat)
	test $floor -gt 0 && test $floor -le $((limit / 100 * 80))'
echo 0 >memory.dirty_min
echo 0 >memory.dirty_ratio

# a ceiling bounds the subtree: the tightest on the path is what is effective
mkdir b
echo +memory >cgroup.subtree_control
ok "a cgroup with children takes a ceiling" takes memory.dirty_bytes 64M 67108864
ok "its child is under it" is "$(stat a/b ceiling)" 67108864
ok "the child takes a wider one of its own" takes b/memory.dirty_bytes 128M 134217728
ok "and stays under its parent's" is "$(stat a/b ceiling)" 67108864
ok "or a tighter one" takes b/memory.dirty_bytes 32M 33554432
ok "which holds for it" is "$(stat a/b ceiling)" 33554432
ok "and not for the parent" is "$(stat a ceiling)" 67108864
echo max >b/memory.dirty_bytes
echo max >memory.dirty_bytes

# floors add up over levels: one inside another is on top of it
echo 8M >memory.dirty_min
echo 4M >b/memory.dirty_min
ok "a floor and one below it are reserved once each" is "$(cat /sys/kernel/weir/unused_bytes)" 12582912
rmdir b
ok "a removed cgroup's is given back" comes_to 8388608 cat /sys/kernel/weir/unused_bytes
echo 0 >memory.dirty_min
ok "and so is one that is cleared" is "$(cat /sys/kernel/weir/limit_in_force_bytes)" "$(cat /sys/kernel/weir/limit_bytes)"

# an unprivileged owner of a delegated subtree
mkdir d
chown -R 1000:1000 d
# of which its subtree has a share, first come first served
echo 8M >memory.dirty_min
# owner FILE VALUE: writes as the owner; echoes the error if there is one
owner() {
	su user -s /bin/sh -c "echo -n '$2' >/sys/fs/cgroup/a/d/$1" 2>&1
}
owner_refused() {
	owner "$1" "$2" | grep -q "not permitted" && is "$(cat d/"$1")" "$3"
}
owner_takes() {
	owner "$1" "$2" && is "$(cat d/"$1")" "$3"
}
ok "its owner cannot give itself a floor" owner_refused memory.dirty_min 1M 0
echo 8M >d/memory.dirty_min
ok "nor raise one it was given" owner_refused memory.dirty_min 9M 8388608
ok "but can lower it" owner_takes memory.dirty_min 4M 4194304
ok "and can set a ceiling" owner_takes memory.dirty_bytes 4M 4194304

# and not as root of a user namespace of its own either
in_namespace() {
	su user -s /bin/sh -c "unshare -Ur sh -c 'id -u && echo -n $2 >/sys/fs/cgroup/a/d/$1'" 2>&1
}
namespace_refused() {
	out=$(in_namespace "$1" "$2")
	case $out in
	0*"not permitted"*) is "$(cat d/"$1")" "$3" ;;
	*) echo "$out"; return 1 ;;
	esac
}
ok "nor as root of a user namespace" namespace_refused memory.dirty_min 9M 4194304
# 8M, and of 4M what the ceiling of 4M lets it fill
ok "all that is reserved is what root has allowed" is "$(cat /sys/kernel/weir/floors_bytes)" 11534336
echo 2M >memory.dirty_bytes
ok "clearing its ceiling" owner_takes memory.dirty_bytes max max
ok "gets it past no ancestor's" is "$(stat a/d ceiling)" 2097152
rmdir d
finish
