# SPDX-License-Identifier: GPL-2.0-only
# At boot the module is there before anything that could want its files.
. ./containers.sh

started() { # UNIT: when its first process was started, in microseconds since boot
	systemctl show --value -p ExecMainStartTimestampMonotonic "$1"
}

loaded=$(systemctl show --value -p ActiveEnterTimestampMonotonic weir.service)
echo "# weir.service active after $loaded us, exposure: $(systemd-analyze security weir.service --no-pager 2>/dev/null | tail -n 1)"
ok "the unit is active" systemctl is-active weir.service
systemctl is-active --quiet weir.service || journalctl --no-pager -b -u weir.service | sed 's/^/# /'
for unit in containerd.service docker.service podman.service; do
	at=$(started $unit)
	[ "$at" -gt 0 ] || { systemctl start $unit; at=$(started $unit); }
	ok "loaded before $unit started" test "$loaded" -lt "$at"
	ok "and $unit is ordered after it" sh -c \
		"systemctl show --value -p After $unit | tr ' ' '\n' | grep -x weir.service"
done
finish
