#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Has a real Prometheus scrape weir's agent, promtool check what it gets and test the alert rules, and every
# query of the Grafana dashboard answered; for `make metrics`.
#
# The programs are Debian's, unpacked into weir's cache and not installed: the package would start a server.
set -eu
cd "$(dirname "$0")/.."
PATH=$PATH:${HOME:-/root}/.cargo/bin
programs=${WEIR_CACHE:-$PWD/.cache/weir}/prometheus

if ! [ -x "$programs/usr/bin/promtool" ]; then
	downloads=$(mktemp -d)
	trap 'rm -rf "$downloads"' EXIT
	echo "metrics.sh: asking apt for prometheus" >&2
	(cd "$downloads" && apt-get download -qq prometheus) ||
		{ echo "metrics.sh: apt has no prometheus: is the list of packages there (apt-get update)?" >&2; exit 1; }
	mkdir -p "$programs"
	dpkg-deb -x "$downloads"/prometheus_*.deb "$programs"
	# From Debian 13 on promtool is a package of its own.
	if ! [ -x "$programs/usr/bin/promtool" ]; then
		(cd "$downloads" && apt-get download -qq promtool) ||
			{ echo "metrics.sh: apt has no promtool" >&2; exit 1; }
		dpkg-deb -x "$downloads"/promtool_*.deb "$programs"
	fi
fi
"$programs/usr/bin/prometheus" --version >&2
(cd cluster/prometheus && "$programs/usr/bin/promtool" check rules weir.rules.yaml &&
	"$programs/usr/bin/promtool" test rules weir.rules-test.yaml) >&2
PATH=$programs/usr/bin:$PATH cargo test --locked --package weir --test agent -- --ignored --nocapture prometheus
