#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Usage: tools/man.sh DIRECTORY
# Writes a man page for each command, weir-run.1 and so on, of its section of docs/weir.1.
set -eu
directory=${1:?usage: tools/man.sh DIRECTORY}
cd "$(dirname "$0")/.."
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
' docs/weir.1
for page in "$directory"/weir-*.1; do
	printf '.SH SEE ALSO\n.BR weir (1)\n' >>"$page"
done
