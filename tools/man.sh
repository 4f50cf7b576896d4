#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Usage: tools/man.sh DIRECTORY [node|bench]
# Writes weir.1 and a man page for each command, weir-run.1 and so on, of its section of docs/weir.1;
# with "node" without what stands there between the comments "bench {" and "}", as in `make static`;
# with "bench" pages of those commands alone, as weir-bench-run.1 and so on, and weir-bench.1.
set -eu
directory=${1:?usage: tools/man.sh DIRECTORY [node|bench]}
cd "$(dirname "$0")/.."
mkdir -p "$directory"

write_bench() {
	pages=$(mktemp -d)
	trap 'rm -rf "$pages"' EXIT
	tools/man.sh "$pages/all"
	tools/man.sh "$pages/node" node
	{
		sed -n '/^\.TH /{s/WEIR/WEIR-BENCH/p;q}' docs/weir.1
		printf '.SH NAME\nweir\\-bench \\- try weir out: scenarios in guests, on simulated hosts and on this machine\n'
		printf '.SH SYNOPSIS\n.B weir\\-bench\n.I command\n.RI [ arguments ]\n.SH COMMANDS\n'
		names=
		for page in "$pages"/all/weir-*.1; do
			name=${page##*/}
			[ -e "$pages/node/$name" ] || names="$names|${name%.1}"
		done
		words=$(echo "${names#|}" | sed 's/weir-//g')
		for name in $(echo "$words" | tr '|' ' '); do
			page=$pages/all/weir-$name.1
			printf '.TP\n.BR weir-bench-%s (1)\n%s\n' "$name" \
				"$(awk '/^\.SH DESCRIPTION/ { getline; print; exit }' "$page")"
			sed -E "s/WEIR-/WEIR-BENCH-/; s/^weir\\\\-/weir\\\\-bench\\\\-/; s/weir\(1\)/weir-bench(1)/
				s/^\\.BR weir \(1\)/.BR weir-bench (1)/; s/\bweir ($words)\b/weir-bench \\1/g" \
				"$page" >"$directory/weir-bench-$name.1"
		done
		printf '.SH SEE ALSO\n.BR weir (1)\n'
	} >"$directory/weir-bench.1"
}

if [ "${2-}" = bench ]; then
	write_bench
	exit
fi
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
