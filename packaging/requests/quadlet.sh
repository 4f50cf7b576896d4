# SPDX-License-Identifier: GPL-2.0-only
# Quadlet: keys of the unit for its service, an annotation for the container in it.
. ./containers.sh

file=/etc/containers/systemd/web.container
cgroup=/sys/fs/cgroup/system.slice/web.service
payload() {
	cat $cgroup/libpod-payload-*/memory.dirty_bytes
}

make_rootfs
ok "podman imports an image" import podman
echo >/etc/weir/agent.toml
systemctl restart weir-agent
mkdir -p "$(dirname $file)"
cat >$file <<END
[Container]
Image=$image
Pull=never
Network=none
Exec=/bin/sh -c "$forever"
Annotation=weir.dev/dirty-bytes=64M
[Service]
X-Weir-DirtyMin=16M
END
systemctl daemon-reload
ok "the container starts" systemctl start web
find $cgroup -type d | sed 's/^/# /'
ok "its service has the floor" comes_to $floor cat $cgroup/memory.dirty_min
ok "and the container its ceiling" comes_to 67108864 payload
sed -i /X-Weir/d $file
systemctl daemon-reload
ok "without the key the floor is back" comes_to 0 cat $cgroup/memory.dirty_min
ok "and the ceiling stays" is "$(payload)" 67108864
sed -i s/64M/64MB/ $file
systemctl daemon-reload
ok "the container starts with a wrong value, too" systemctl restart web
ok "which is said" soon sh -c 'journalctl --no-pager -b -u weir-agent -o cat |
	grep -F "libpod-payload" | grep -qF "label weir.dev/dirty-bytes: memory.dirty_bytes: invalid value \`64MB\`"'
ok "and not set" is "$(payload)" max
systemctl stop web weir-agent
rm $file
systemctl daemon-reload
finish
