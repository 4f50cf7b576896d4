# SPDX-License-Identifier: GPL-2.0-only
# Instead of the packages: the module that was brought, and the command of the chart's image.
. ./kube.sh

ok "the command is there" sh -c 'zcat weir.tar.gz | tar -xO layer.tar | tar -xC /usr/local ./bin/weir'

ok "the module is loaded" module_loads
ok "the files are there" test -e /sys/fs/cgroup/system.slice/memory.dirty_min
finish
