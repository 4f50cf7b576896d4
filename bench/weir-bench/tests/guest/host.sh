# SPDX-License-Identifier: GPL-2.0-only
# doctor, load, status and unload on a real kernel, as root, in a guest.
number=0
result() { # STATUS TEXT
	number=$((number + 1))
	if [ "$1" -eq 0 ]; then echo "ok $number - $2"; else echo "not ok $number - $2"; sed 's/^/# /' /tmp/out; fi
}
# Runs weir and compares its exit status.
run() { # STATUS ARGS...
	wanted=$1
	shift
	weir "$@" >/tmp/out 2>&1
	got=$?
	[ $got -eq "$wanted" ]
	result $? "weir $* ends with $wanted (got $got)"
}
says() { # TEXT
	grep -qF -- "$1" /tmp/out
	result $? "and says: $1"
}

mkdir /sys/fs/cgroup/db
release=$(uname -r)
updates=/lib/modules/$release/updates
run 1 doctor
says "no weir.ko for this kernel in $updates"
mv /weir.ko /built.ko # which load would find
run 2 load
says "there is no weir.ko for Linux $release in $updates"
mv /built.ko /weir.ko
mkdir -p "$updates"
cp /weir.ko "$updates/"
run 0 doctor
grep -qxF "Linux $release can run weir." /tmp/out
result $? "and says so"
run 1 status
says "not loaded"

# 7.3 takes 1 only
if sh -c 'echo 0 >/proc/sys/kernel/ftrace_enabled' 2>/dev/null; then
	run 1 doctor
	says "switched off, which silences the hooks"
	run 1 load
	says "kernel: weir: refusing to load"
	echo 1 >/proc/sys/kernel/ftrace_enabled
else
	number=$((number + 1))
	echo "ok $number - ftrace switched off # SKIP this kernel takes kernel.ftrace_enabled=1 only"
fi

echo "this is no module" >/tmp/weir.ko
run 1 load --module /tmp/weir.ko
says "it was built for another kernel, or is no module"

run 0 load
says "weir is loaded (idle)"
run 0 load
says "weir is loaded already (idle)"
run 0 status
says "idle: no knob is set, the kernel behaves as stock"
run 0 doctor
says "weir is loaded, the memory.dirty_* files are its own"

echo 16M >/sys/fs/cgroup/db/memory.dirty_min
run 0 status
says "active: in effect"
grep -q '^db  *16M ' /tmp/out
result $? "and lists the cgroup with its floor"
run 0 status --json
says '"path": "db"'
run 0 unload
says "weir is unloaded"
[ ! -e /sys/fs/cgroup/db/memory.dirty_min ]
result $? "and its files are gone"
run 0 unload
says "weir is not loaded"

run 0 load --observe
echo 16M >/sys/fs/cgroup/db/memory.dirty_min
run 0 status
says "observe: counting what it would do, changing nothing"
run 0 unload
echo "1..$number"
