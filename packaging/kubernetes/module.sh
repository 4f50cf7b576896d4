# SPDX-License-Identifier: GPL-2.0-only
# Instead of the packages: the module that was brought.
. ./kube.sh

ok "the module is loaded" module_loads
ok "the files are there" test -e /sys/fs/cgroup/system.slice/memory.dirty_min
finish
