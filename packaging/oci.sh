#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Makes an image of a directory, without a registry or a daemon, as the archive that `ctr images
# import`, `podman load` and `docker load` read: one layer, a configuration, a list of both.
#   packaging/oci.sh NAME:TAG DIRECTORY COMMAND... >ARCHIVE
# The same directory gives the same archive. Words of the command have no quotes in them.
set -eu
name=$1
directory=$2
shift 2

work=$(mktemp -d "${TMPDIR:-/var/tmp}/oci.XXXXXX")
trap 'rm -rf "$work"' EXIT
pack() { # DIRECTORY FILE...
	tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C "$@"
}
pack "$directory" -cf "$work/layer.tar" .
layer=$(sha256sum <"$work/layer.tar" | cut -d ' ' -f 1)
command=$(printf ',"%s"' "$@")
printf '{"architecture":"amd64","os":"linux","config":{"Entrypoint":[%s],"Env":["PATH=/bin"]},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
	"${command#,}" "$layer" >"$work/config.json"
printf '[{"Config":"config.json","RepoTags":["%s"],"Layers":["layer.tar"]}]' "$name" >"$work/manifest.json"
pack "$work" -cf - manifest.json config.json layer.tar
