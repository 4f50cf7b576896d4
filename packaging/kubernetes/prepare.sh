# SPDX-License-Identifier: GPL-2.0-only
# Debian's containerd takes pods, with images made here, and lets a plugin connect.
. ./kube.sh

modprobe overlay
# A node has them, and pods get copies; this system has no network.
touch /etc/hosts /etc/resolv.conf
make_rootfs
ok "containerd starts, NRI enabled" runtime false
ok "an image for sandboxes is imported" archive pause /bin/sleep 2147483647
ok "and one for containers" archive busy /bin/sh
ok "a pod starts before there is a plugin" pod plain a
ok "and is removed" clear_pods
echo "defalts: []" | configure
ok "the plugin refuses a configuration with a wrong key, and says where" \
	says "$node:1: unknown key \`defalts\`: expected \`allow\`, \`defaults\`" weir-nri --check --config $node
finish
