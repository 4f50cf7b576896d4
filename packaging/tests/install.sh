# SPDX-License-Identifier: GPL-2.0-only
# The packages: DKMS builds and signs the module here, in the guest, and its unit loads it
# at once.
. ./containers.sh

start=$(date +%s)
ok "the packages install" apt-get install -y --no-install-recommends ./weir_*.deb ./weir-dkms_*.deb
echo "# it took $(($(date +%s) - start)) s, most of it the build, under emulation"
sed -n 's/^/# /p' /tmp/ok.out | tail -n 12
ok "dkms has it installed for this kernel" sh -c 'dkms status weir | grep "$(uname -r).*installed"'
ok "the module is signed with the machine's own key" sh -c 'modinfo -F signer weir | grep .'
ok "weir doctor finds nothing missing" weir doctor
ok "the unit is active" systemctl is-active weir.service
ok "the files are there" test -e /sys/fs/cgroup/system.slice/memory.dirty_min
ok "a restart unloads and loads" systemctl restart weir.service
ok "weir status says idle" sh -c 'weir status | grep -w idle'
since=$(systemctl show --value -p ActiveEnterTimestampMonotonic weir.service)
ok "the package installs once more, as in an upgrade" dpkg -i ./weir_*.deb
ok "which keeps the module loaded" is \
	"$(systemctl show --value -p ActiveEnterTimestampMonotonic weir.service) $(cat /sys/kernel/weir/state)" "$since idle"
finish
