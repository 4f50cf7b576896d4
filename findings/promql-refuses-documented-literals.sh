#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# PromQL: the page "Querying basics" gives 1_000_000, .123_456_789 and 0x_53_AB_F3_82 as examples of
# numbers. Prometheus 3.5.3 reads all three. Prometheus' own grammar for editors, lezer-promql
# 0.315.0, is later than that server and refuses an underscore after 0x. promql-parser 0.11.0, which
# declares itself compatible with Prometheus 3, refuses all three. A rule that the server runs does
# not pass a check by either.
# shellcheck source=findings/common.inc
. "$(dirname "$(readlink -f "$0")")/common.inc"

require_programs node
unpack_debs packages sid \
	promtool=3.5.3+ds1-6:1fb8bad7b932e7a44bccb12517f0bd96d5d5d83f15d3a1c0e2aa705cbf93fe90
unpack_npm @prometheus-io/lezer-promql@0.315.0 739e839b4c7de198ce50e331b0fdae59c20b3b5f0f73f1819633f225c9bf7587
unpack_npm @lezer/lr@1.4.12 64382ee7f144221e4c655f2034393c6be9cecaf5ea2ec1c1edeb99424defb272
unpack_npm @lezer/common@1.5.5 ed93cee36403124f51eae638b8a032d6694914c19704de7610db7f2a9441c963
unpack_npm @lezer/highlight@1.2.5 e349eec1ff4382439c1e6286ae937e0203a8349c5192e2e133863391775ac7ff
# One wheel each for Python 3.11, 3.12 and 3.13.
unpack_python promql-parser==0.11.0 \
	98a6e31c832819165b9332e7308bf3b15f1fe8844630bdc2bacce8621cc26cfe \
	8d590c02939826952b0f5b2a64f1906cb60c16ecb25de8a4ee5443c8f55e2dcd \
	c819642a4e81277053e915e53ad413f231827d972c98a60d7e870960ce29c53c

cat >editor.mjs <<'END'
import { parser } from "@prometheus-io/lezer-promql";
let verdict = "reads";
parser.parse(process.argv[2]).iterate({ enter(node) { if (node.type.isError) verdict = "refuses"; } });
console.log(verdict);
END
cat >library.py <<'END'
import sys
sys.path.insert(0, "python")
import promql_parser
try:
    promql_parser.parse(sys.argv[1])
    print("reads")
except ValueError:
    print("refuses")
END

state_case "promtool 3.5.3+ds1-6, @prometheus-io/lezer-promql 0.315.0, promql-parser 0.11.0" \
	"each number is read by all three" \
	"Prometheus, querying/basics.md, \"Float literals and time durations\": examples"
seen=
# The first three are examples without underscores, from the same page.
for number in 3.4e-9 0x8f 1h30m 1_000_000 .123_456_789 0x_53_AB_F3_82; do
	server=refuses
	if packages/usr/bin/promtool --experimental promql format "$number" >>log 2>&1; then server=reads; fi
	seen+="$number: promtool $server, lezer-promql $(node editor.mjs "$number"), promql-parser $(python3 library.py "$number")"$'\n'
done
conclude "${seen%$'\n'}" "3.4e-9: promtool reads, lezer-promql reads, promql-parser reads
0x8f: promtool reads, lezer-promql reads, promql-parser reads
1h30m: promtool reads, lezer-promql reads, promql-parser reads
1_000_000: promtool reads, lezer-promql reads, promql-parser refuses
.123_456_789: promtool reads, lezer-promql reads, promql-parser refuses
0x_53_AB_F3_82: promtool reads, lezer-promql refuses, promql-parser refuses"
