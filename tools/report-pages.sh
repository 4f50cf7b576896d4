#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Uses pages of `weir report` in a real browser as a reader does (node/report/tests/browser), takes screenshots to be looked at, and
# reads a trace by Perfetto's published schema. Nothing here boots a guest: runs of the twin, and a trace.
#   tools/report-pages.sh WEIR OUT
set -eu
cd "$(dirname "$0")/.."
weir=$1
out=$2
browser=$(command -v chromium-headless-shell || command -v chromium) || {
	echo "report-pages: no browser: run \`tools/setup.sh pages\`" >&2
	exit 1
}
mkdir -p "$out"
out=$(cd "$out" && pwd)

# The sandbox of a browser does not work for root, and these pages are ours.
browse() { # OPTION...
	"$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --virtual-time-budget=5000 "$@" 2>"$out/browser.log" || {
		cat "$out/browser.log" >&2
		exit 1
	}
}

failed=
check() { # PAGE WIDTH [OPTION]
	awk -v before=node/report/tests/browser/before.js -v after=node/report/tests/browser/after.js '
		function put(file, line) { print "<script>"; while ((getline line < file) > 0) print line; print "</script>"; close(file) }
		{ if ($0 == "</body>") put(after); print; if ($0 == "<head>") put(before) }' "$out/$1.html" >"$out/$1.checked.html"
	said=$(browse --window-size="$2,1000" ${3:-} --dump-dom "file://$out/$1.checked.html" |
		sed -n 's/.*<pre id="checked">\(.*\)<\/pre>.*/\1/p')
	echo "$1, $2 wide${3:+, $3}: ${said:-the page said nothing}"
	case $said in
	"ALL WELL"*) ;;
	*) failed=y ;;
	esac
	rm "$out/$1.checked.html"
}

"$weir" run scenarios/dirty-knobs.toml --on twin --record --out "$out/knobs" >"$out/knobs.txt"
(
	cd "$out/knobs"
	"$weir" report stock-1 --html ../one.html
	"$weir" report stock-1 weir-1 --html ../two.html
	"$weir" report stock-1 --perfetto ../trace.pftrace
)
"$weir" report node/report/tests/traces/host-limit.txt --html "$out/trace.html"

for page in one two trace; do
	for width in 390 1100 1700; do
		check "$page" "$width"
	done
	check "$page" 1100 --force-dark-mode
done
browse --window-size=1100,4200 --screenshot="$out/one.png" "file://$out/one.html"
browse --window-size=1700,4200 --screenshot="$out/two.png" "file://$out/two.html"
browse --window-size=390,6200 --screenshot="$out/narrow.png" "file://$out/one.html"
browse --window-size=1100,2200 --blink-settings=preferredColorScheme=0 --screenshot="$out/dark.png" "file://$out/one.html"
browse --print-to-pdf="$out/one.pdf" "file://$out/one.html"
echo "to be looked at: $out/one.png two.png narrow.png dark.png one.pdf"

python3 -m venv "$out/venv"
"$out/venv/bin/pip" install --quiet --no-deps perfetto==0.59.1 protobuf==7.36.2
"$out/venv/bin/python" tools/read-perfetto.py "$out/trace.pftrace" || failed=y
test -z "$failed" || exit 1
