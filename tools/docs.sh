#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Usage: tools/docs.sh DIRECTORY
# Puts README.md and docs/ there, side by side as packages have them, with links that lead to each
# other; what is linked in the source tree alone becomes plain text.
set -eu
directory=${1:?usage: tools/docs.sh DIRECTORY}
cd "$(dirname "$0")/.."
mkdir -p "$directory"
cp README.md docs/*.md docs/kernels.tsv "$directory"
cp -R docs/experiments "$directory"
sed -i 's,](docs/,](,g' "$directory/README.md"
find "$directory" -name '*.md' -exec sed -i 's,\[\([^]]*\)\](\(\.\./\)*\(kmod/\|cluster/\|CONTRIBUTING\)[^)]*),\1,g' {} +
find "$directory" -type f -exec chmod 644 {} +
