# SPDX-License-Identifier: GPL-2.0-only
# node.sh: the static binary of `make static`, /node, in roots that hold nothing else beside /proc and
# /sys, and in one with a static busybox. A stall is staged, explained there, and recorded.
# Wants disk "d" of 1M/s (ext4), and no module.
. /tap.sh
cd /sys/fs/cgroup || exit 1
echo "+memory +io" >cgroup.subtree_control
mkdir flood
limits 16777216
[ -e /sys/kernel/tracing/trace ] || mount -t tracefs none /sys/kernel/tracing

# root DIRECTORY: what a container's runtime gives every image
root() {
	mkdir -p "$1/proc" "$1/sys" "$1/tmp"
	mount -t proc proc "$1/proc"
	mount -o rbind /sys "$1/sys"
	cp /node "$1/weir"
}

# alone ARGUMENT...: weir, in a root with nothing else
alone() {
	chroot /alone /weir "$@"
}

# cause FILE: the first in a verdict
cause() {
	sed -n 's/^ *"cause": "\([^"]*\)".*/\1/p' "$1" | head -n 1
}

# ends STATUS COMMAND...
ends() {
	wanted=$1
	shift
	"$@"
	is $? "$wanted"
}

# says WORDS COMMAND...: whatever its status
says() {
	words=$1
	shift
	said=$("$@" 2>&1)
	case $said in
	*"$words"*) ;;
	*) echo "$said"; return 1 ;;
	esac
}

root /alone
echo "# $(uname -srm), /node has $(wc -c </node) bytes"
ok "the root has a binary, /proc, /sys and /tmp" is "$(ls /alone | tr '\n' ' ')" "proc sys tmp weir "
ok "it says its version" says "weir " alone --version

in_cgroup flood dd if=/dev/zero of=/mnt/d/flood bs=64k count=64000 2>/dev/null &
flood=$!
sleep 25 # until its dirty pages reach the limit

alone explain flood --for "${SECONDS_EACH:-8}s" --json >/tmp/alone.json 2>/tmp/alone.err
status=$?
sed 's/^/# /' /tmp/alone.err
ok "explain: something stalled" is $status 0
ok "explain: the host's limit decides" is "$(cause /tmp/alone.json)" host_limit
ok "explain: the culprit is the flood" grep -q '"culprit": "/flood"' /tmp/alone.json
ok "explain: in words" says "/flood" alone explain --for 3s
ok "record: a file" alone record /tmp/flood.weir --for 4s
ok "explain --from: the same cause" sh -c 'chroot /alone /weir explain --from /tmp/flood.weir --json >/tmp/from.json'
ok "explain --from: names it" is "$(cause /tmp/from.json)" host_limit
ok "report: sums up" says "/flood" alone report /tmp/flood.weir
ok "report: draws a page" alone report /tmp/flood.weir --html /tmp/page.html
ok "top: a line for the flood" says "/flood" alone top -b -n 1 --every 2s

# The guest's own is Debian's busybox-static.
root /small
mkdir -p /small/bin
cp /usr/bin/busybox /small/bin/busybox
ok "busybox: is static" chroot /small /bin/busybox true
chroot /small /bin/busybox sh -c '/weir explain /flood --for 5s --json' >/tmp/small.json
ok "busybox: explain beside it" is "$(cause /tmp/small.json)" host_limit

kill $flood
ok "doctor: ends with 1, as no module is installed" ends 1 alone doctor
alone doctor >/tmp/doctor
sed 's/^/# /' /tmp/doctor
ok "doctor: the functions are there" grep -q '^ok    functions' /tmp/doctor
ok "doctor: the one thing missing is the module" is "$(grep '^FAIL' /tmp/doctor | awk '{ print $2 }' | tr '\n' ' ')" "module "
ok "status: not loaded" says "not loaded" alone status
ok "load: says where the module would be" says "there is no weir.ko for Linux" alone load
printf '[[rule]]\ncgroup = "/flood"\nset = { "memory.dirty_bytes" = "4M" }\n' >/alone/tmp/agent.toml
ok "agent: checks a policy" ends 0 alone agent --check /tmp/agent.toml
ok "tier: says what it lacks" says "weir" alone tier
ok "completions: of its own commands" says "explain" alone completions bash
ok "run: is elsewhere" says "./weir run in weir's source tree" alone run x.toml
finish
