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
	// stock says that the node does without the module.
	stock bool
}

// state is what a node is marked with. A node that is ready has no reason.
type state struct {
	ready bool
	why   string
}

// moduleState says whether weir's module is in effect.
func (n *node) moduleState() state {
	text, err := os.ReadFile(filepath.Join(n.sys, "kernel/weir/state"))
	if err != nil {
		return state{why: n.notLoaded()}
	}
	switch now := strings.TrimSpace(string(text)); now {
	case "idle", "active":
		return state{ready: true}
	case "observe":
		return state{why: "the module only observes: it counts what knobs would do"}
	case "off":
		return state{why: "the module is switched off: weir.off is on the kernel's command line"}
	case "blind":
		return state{why: "the module is loaded and its probes are not called: see `weir doctor` on the node"}
	default:
		return state{why: "the module's state is `" + now + "`"}
	}
}

// notLoaded is what the loading of the module left as its last words, in one line.
func (n *node) notLoaded() string {
	if text, err := os.ReadFile(n.why); err == nil {
		if words := strings.Join(strings.Fields(string(text)), " "); words != "" {
			return "the module is not loaded: " + words
		}
	}
	return "the module is not loaded"
}

// currentState says whether pods that start now get their knobs.
func (n *node) currentState(ctx context.Context) state {
	if s := n.moduleState(); !n.stock && !s.ready {
		return s
	}
	for _, part := range []struct{ name, url string }{{"weir-nri", n.plugin}, {"weir agent", n.agent}} {
		if err := checkReady(ctx, part.url); err != nil {
			return state{why: fmt.Sprintf("%s is not ready: %v", part.name, err)}
		}
	}
	return state{ready: true}
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
