# SPDX-License-Identifier: GPL-2.0-only
# Removed, nothing is left.
. ./containers.sh

ok "the packages go" apt-get purge -y weir weir-dkms
ok "the module is unloaded" test ! -e /sys/module/weir
ok "and no longer installed" sh -c '! modinfo weir'
ok "the files are gone" test ! -e /sys/fs/cgroup/system.slice/memory.dirty_min
finish
