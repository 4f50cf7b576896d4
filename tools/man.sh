#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Usage: tools/man.sh DIRECTORY [node]
# Writes weir.1 and a man page for each command, weir-run.1 and so on, of its section of docs/weir.1;
# with "node" without what stands there between the comments "bench {" and "}", as in `make static`.
set -eu
directory=${1:?usage: tools/man.sh DIRECTORY [node]}
cd "$(dirname "$0")/.."
mkdir -p "$directory"
awk -v node="${2-}" '
	/^\.\\" bench \{$/ { bench = 1; next }
	/^\.\\" \}$/ { bench = 0; next }
	!(bench && node)
' docs/weir.1 >"$directory/weir.1"
awk -v directory="$directory" '
	/^\.TH / { head = $0 }
	/^\.S[SH] / { if (page) close(page); page = "" }
	/^\.SS weir / {
		name = "weir-" $3
		page = directory "/" name ".1"
		title = head
		sub(/WEIR/, toupper(name), title)
		print title > page
		print ".SH NAME" > page
		getline about
		escaped = name
		sub(/-/, "\\-", escaped)
		print escaped " \\- a command of weir(1)" > page
		print ".SH DESCRIPTION" > page
		print about > page
		next
	}
	page { print > page }
' "$directory/weir.1"
for page in "$directory"/weir-*.1; do
	printf '.SH SEE ALSO\n.BR weir (1)\n' >>"$page"
done
