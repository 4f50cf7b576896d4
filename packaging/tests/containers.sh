# SPDX-License-Identifier: GPL-2.0-only
# Sourced by the tests here: a tiny image and OCI bundle, and how to ask a container's cgroup.
. ./tap.sh

rootfs=/var/tmp/rootfs
image=localhost/busy
floor=16777216
forever="while :; do sleep 1; done"

# A root file system of busybox and nothing else; no registry is involved.
make_rootfs() {
	rm -rf $rootfs
	mkdir -p $rootfs/bin $rootfs/proc $rootfs/dev $rootfs/sys $rootfs/tmp $rootfs/data $rootfs/etc
	cp /bin/busybox $rootfs/bin
	for applet in sh sleep dd cat true; do
		ln -s busybox $rootfs/bin/$applet
	done
}

# import COMMAND...: the same as $image
import() {
	tar -C $rootfs -cf /tmp/rootfs.tar . && "$@" import /tmp/rootfs.tar $image
}

# unit NAME PREFIX DELEGATE: a service that writes, and asks for a floor before it starts
unit() {
	cat >"/run/systemd/system/$1" <<END
[Service]
DynamicUser=yes
StateDirectory=%N
Delegate=$3
ExecStartPre=$2/bin/sh -c 'echo 16M >/sys/fs/cgroup/system.slice/%n/memory.dirty_min'
ExecStart=/bin/sh -c 'while :; do dd if=/dev/zero of=/var/lib/%N/f bs=64k count=64; sleep 1; done'
END
	systemctl daemon-reload && systemctl start "$1"
}

# bundle DIRECTORY RUNTIME: an OCI bundle whose configuration has the floor in its `unified` map
bundle() {
	rm -rf "$1" && mkdir -p "$1" &&
		(cd "$1" && "$2" spec) &&
		jq --arg floor "$floor" --arg root "$rootfs" --arg script "$forever" '
			.linux.resources.unified = {"memory.dirty_min": $floor}
			| .root = {path: $root, readonly: false}
			| .process.terminal = false
			| .process.args = ["/bin/sh", "-c", $script]
			| .linux.namespaces |= map(select(.type != "network"))
			| .mounts += [{destination: "/data", type: "bind", source: "/var/tmp", options: ["rbind", "rw"]}]' \
			"$1/config.json" >"$1/edited.json" &&
		mv "$1/edited.json" "$1/config.json"
}

# group_of PID: its cgroup, below /sys/fs/cgroup
group_of() {
	sed -n 's/^0:://p' "/proc/$1/cgroup"
}

# knob PID FILE: what a file reads in the cgroup the process is in
knob() {
	cat "/sys/fs/cgroup$(group_of "$1")/memory.$2"
}

# says WORDS COMMAND...: fails, and its output has these words
says() {
	words=$1
	shift
	if said=$("$@" 2>&1); then
		echo "succeeded, and said: $said"
		return 1
	fi
	case $said in
	*"$words"*) ;;
	*) echo "another error than '$words': $said"; return 1 ;;
	esac
}

# shown TITLE COMMAND...: what it says and ends with, for the record
shown() {
	title=$1
	shift
	said=$("$@" 2>&1)
	echo "# $title ends with $?:"
	echo "$said" | tail -n 4 | sed 's/^/#   /'
}

# admitted PID: its cgroup went through the throttle, and its floor let it pass
admitted() {
	for key in nr_passes nr_floor_admitted; do
		[ "$(stat "$(group_of "$1")" $key)" -gt 0 ] ||
			{ echo "$key is 0:"; knob "$1" dirty_stat; return 1; }
	done
}

# writes COMMAND...: 8 MiB are written by `COMMAND... dd`, while the host is held to 8 MiB
writes() {
	limits 8388608
	"$@" dd if=/dev/zero of=/data/written bs=64k count=128 2>&1
}

# scrape: the agent's metrics. Debian's minimal system has no HTTP client, but bash has sockets.
scrape() {
	bash -c 'exec 3<>/dev/tcp/127.0.0.1/9759 && printf "GET /metrics HTTP/1.0\r\n\r\n" >&3 && cat <&3'
}
scrapes() { # LINE
	scrape | tr -d '\r' | grep -qxF -- "$1"
}
