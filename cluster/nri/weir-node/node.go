// SPDX-License-Identifier: GPL-2.0-only

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// node is what can be seen of this one.
type node struct {
	sys, why, plugin, agent string
	// stock says that the node does without the module, auto that it does until it has it.
	stock, auto bool
}

// state is what a node is marked with. A node whose pods are protected by the module has no reason.
type state struct {
	ready bool
	// mode is what protects pods: `module`, `stock` for files of the stock kernel, or `none`.
	mode string
	why  string
}

const (
	byModule  = "module"
	byStock   = "stock"
	byNothing = "none"
)

// moduleState says whether weir's module is in effect, and if not, whether it is there at all.
func (n *node) moduleState() (s state, isThere bool) {
	text, err := os.ReadFile(filepath.Join(n.sys, "kernel/weir/state"))
	if err != nil {
		return state{mode: byNothing, why: n.explainNotLoaded()}, false
	}
	s = state{mode: byNothing}
	switch now := strings.TrimSpace(string(text)); now {
	case "idle", "active":
		return state{ready: true, mode: byModule}, true
	case "observe":
		s.why = "the module only observes: it counts what knobs would do"
	case "off":
		s.why = "the module is switched off: weir.off is on the kernel's command line"
		return s, false
	case "blind":
		s.why = "the module is loaded and its probes are not called: see `weir doctor` on the node"
	default:
		s.why = "the module's state is `" + now + "`"
	}
	return s, true
}

// explainNotLoaded is what the loading of the module left as its last words, in one line.
func (n *node) explainNotLoaded() string {
	if text, err := os.ReadFile(n.why); err == nil {
		if words := strings.Join(strings.Fields(string(text)), " "); words != "" {
			return "the module is not loaded: " + words
		}
	}
	return "the module is not loaded"
}

// currentState says by what pods that start now are protected.
func (n *node) currentState(ctx context.Context) state {
	s, isThere := n.moduleState()
	switch {
	case n.stock:
		s = state{ready: true, mode: byStock}
	case n.auto && !isThere:
		s.ready, s.mode = true, byStock
	case !s.ready:
		return s
	}
	for _, part := range []struct{ name, url string }{{"weir-nri", n.plugin}, {"weir agent", n.agent}} {
		if err := checkReady(ctx, part.url); err != nil {
			return state{mode: byNothing, why: fmt.Sprintf("%s is not ready: %v", part.name, err)}
		}
	}
	return s
}

// checkReady asks a part of weir on this node. Nothing is wrong with a part that is not there to be.
func checkReady(ctx context.Context, url string) error {
	if url == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s", strings.TrimSpace(string(text)))
	}
	return nil
}
