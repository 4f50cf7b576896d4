# SPDX-License-Identifier: GPL-2.0-only
# The system extension, merged into the /usr of a system that has weir installed by no package.
. ./tap.sh

extensions=/var/lib/extensions
echo "# $(systemctl --version | head -n 1)"
ok "weir is not installed" sh -c '! command -v weir'
mkdir -p $extensions
cp weir.raw $extensions
ok "the image is merged" systemd-sysext merge
systemd-sysext status | sed 's/^/# /'
systemctl daemon-reload
ok "weir is there" sh -c 'weir --version | grep -q "^weir "'
ok "the units are" is "$(systemctl show --property LoadState --value weir-agent.service)" loaded
ok "the agent starts" systemctl start weir-agent
ok "with the extension's policy" cmp /etc/weir/agent.toml /usr/share/weir/agent.toml
ok "in mode auto" soon sh -c 'journalctl --no-pager -b -u weir-agent -o cat | grep -q "mode \(module\|stock\): "'
systemctl stop weir-agent
ok "it is taken out" systemd-sysext unmerge
ok "and nothing of it is left" sh -c '! command -v weir'
rm $extensions/weir.raw /etc/weir/agent.toml
finish
