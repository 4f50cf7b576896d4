// SPDX-License-Identifier: GPL-2.0-only

package main

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// counts only grow.
type counts struct {
	adjusted, refused uint64
}

// markDisconnected says that a connection has ended, unless there is another by now.
func (p *plugin) markDisconnected(link connection) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.connection == link {
		p.synced = false
	}
}

// httpHandler answers Prometheus and kubelet's probes. Six metrics in a text format of two line forms
// do not need a library.
func (p *plugin) httpHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write([]byte(p.metricsText()))
	})
	// Ready as soon as the runtime is told what is alive; without the module, too, since pods start.
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.synced {
			http.Error(w, "not connected to the runtime", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	return mux
}

func (p *plugin) metricsText() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	unprotected := 0
	for _, known := range p.pods {
		if known.isUnprotected() || p.unwritten && known.hasWish() {
			unprotected++
		}
	}
	var text strings.Builder
	metric := func(name, kind, help string) {
		fmt.Fprintf(&text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
	}
	one := func(name, kind, help string, value uint64) {
		metric(name, kind, help)
		fmt.Fprintf(&text, "%s %d\n", name, value)
	}
	one("weir_nri_module_present", "gauge", "Whether the module is loaded, so that knobs are there.", boolAsNumber(p.root.ModuleID() != 0))
	one("weir_nri_connected", "gauge", "Whether the runtime is connected, so that containers get knobs.", boolAsNumber(p.synced))
	one("weir_nri_unprotected_pods", "gauge", "Live pods that wish for knobs and lack some, mostly for want of the module.", uint64(unprotected))
	one("weir_nri_adjusted_total", "counter", "Times that a container was given knobs, created or updated.", p.counts.adjusted)
	one("weir_nri_refused_total", "counter", "Times that a container was not created, started or updated for a wish that is wrong or not allowed.", p.counts.refused)
	metric("weir_nri_floors_bytes", "gauge", "What the floors of live pods reserve.")
	sums := p.budget.ReservedByNamespace()
	for _, namespace := range slices.Sorted(maps.Keys(sums)) {
		fmt.Fprintf(&text, "weir_nri_floors_bytes{namespace=%q} %d\n", namespace, sums[namespace])
	}
	return text.String()
}

func boolAsNumber(yes bool) uint64 {
	if yes {
		return 1
	}
	return 0
}
