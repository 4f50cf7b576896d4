#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# Prometheus text format: blanks at the end of a line are to be ignored, as those at its start are.
# promtool 2.53.3 and 3.5.3 refuse a whole file for one: after a value they take the blank for the
# beginning of a time stamp, after a type for a part of the type's name. The official Python client
# follows the page. One such line costs all metrics of the file, not one.
# shellcheck source=findings/common.inc
. "$(dirname "$(readlink -f "$0")")/common.inc"

unpack_debs new sid \
	promtool=3.5.3+ds1-6:1fb8bad7b932e7a44bccb12517f0bd96d5d5d83f15d3a1c0e2aa705cbf93fe90
unpack_debs old trixie \
	promtool=2.53.3+ds1-2:ff27654eacc95abd846d344e91fe4ba3b4f0588a50d606ed1d2f09ad3408722f
unpack_python prometheus_client==0.26.0 fa93d06737aa02bacd05794768508bb97d2fbee28cb3bca04eaae92f0ca953d6

cat >client.py <<'END'
import sys
sys.path.insert(0, "python")
from prometheus_client.parser import text_string_to_metric_families
families = list(text_string_to_metric_families(sys.stdin.read()))
print("reads it" if families[0].type == "gauge" and families[0].samples[0].value == 1.0 else families)
END

check_metrics() { # FOLDER
	"$1/usr/bin/promtool" check metrics <metrics >said 2>&1 && echo "reads it" || sed 's/^.*in line/refuses line/' said
}

state_case "promtool 3.5.3+ds1-6 and 2.53.3+ds1-2, prometheus_client 0.26.0" \
	"all three read the file wherever the blank is" \
	"Prometheus, Exposition formats, \"Line format\": leading and trailing whitespace is ignored"
seen=
for place in nowhere "before the value's line" "after the value" "after the type"; do
	before='' after='' after_type=''
	case $place in
	before*) before=' ' ;;
	*value) after=' ' ;;
	*type) after_type=' ' ;;
	esac
	printf '# HELP up_now Is it up?\n# TYPE up_now gauge%s\n%sup_now 1%s\n' "$after_type" "$before" "$after" >metrics
	seen+="$place: 3.5.3 $(check_metrics new); 2.53.3 $(check_metrics old); Python $(python3 client.py <metrics)"$'\n'
done
conclude "${seen%$'\n'}" "nowhere: 3.5.3 reads it; 2.53.3 reads it; Python reads it
before the value's line: 3.5.3 reads it; 2.53.3 reads it; Python reads it
after the value: 3.5.3 refuses line 3: expected integer as timestamp, got \"\"; 2.53.3 refuses line 3: expected integer as timestamp, got \"\"; Python reads it
after the type: 3.5.3 refuses line 2: unknown metric type \"gauge \"; 2.53.3 refuses line 2: unknown metric type \"gauge \"; Python reads it"
