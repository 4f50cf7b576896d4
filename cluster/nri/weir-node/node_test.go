// SPDX-License-Identifier: GPL-2.0-only

package main

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir.dev/nri/standin"
)

// cluster is the API server's stand-in.
type cluster struct{ standin.Cluster }

func (c *cluster) labels(name string) (string, string) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	return c.Nodes[name].Labels[label], c.Nodes[name].Annotations[reason]
}

// start serves c, and is the api of a container in it.
func (c *cluster) start(t *testing.T) *api {
	t.Helper()
	account := t.TempDir()
	server, err := c.StartServer("127.0.0.1:0", account)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", at.Hostname())
	t.Setenv("KUBERNETES_SERVICE_PORT", at.Port())
	a, err := newClusterAPI(account)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// module lays out the files of a loaded module in a state.
func module(t *testing.T, sys, state string) {
	t.Helper()
	at := filepath.Join(sys, "kernel/weir")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	// Whole at once, as sysfs has it.
	if err := os.WriteFile(filepath.Join(at, "new"), []byte(state+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(at, "new"), filepath.Join(at, "state")); err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for range 500 {
		if is() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("not within 5 s: %s", what)
}

// A node is marked as its module and its plugin are, through their changes, and unmarked at the end.
func TestWatch(t *testing.T) {
	c := &cluster{standin.Cluster{Nodes: map[string]*core.Node{"a": standin.NamedNode("a", map[string]string{"zone": "z"}), "b": standin.NamedNode("b", nil)}}}
	a := c.start(t)
	sys := t.TempDir()
	connected := true
	var mu sync.Mutex
	plugin := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if !connected {
			http.Error(answer, "not connected to the runtime", http.StatusServiceUnavailable)
		}
	}))
	defer plugin.Close()
	why := filepath.Join(sys, "why")
	w := watcher{
		node: node{sys: sys, why: why, plugin: plugin.URL}, api: a, name: "a",
		log: slog.New(slog.DiscardHandler), again: time.Hour,
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.watchNode(ctx, 10*time.Millisecond) }()

	is := func(ready, words string) func() bool {
		return func() bool {
			label, why := c.labels("a")
			return label == ready && strings.Contains(why, words) && (words != "" || why == "")
		}
	}
	eventually(t, "not loaded", is("false", "the module is not loaded"))
	if err := os.WriteFile(why, []byte("no headers for 6.12.1:\n install them\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the reason", is("false", "the module is not loaded: no headers for 6.12.1: install them"))
	module(t, sys, "idle")
	eventually(t, "ready", is("true", ""))
	mu.Lock()
	connected = false
	mu.Unlock()
	eventually(t, "plugin gone", is("false", "weir-nri is not ready: not connected to the runtime"))
	mu.Lock()
	connected = true
	mu.Unlock()
	eventually(t, "plugin back", is("true", ""))
	for state, words := range map[string]string{"observe": "only observes", "off": "switched off", "blind": "probes are not called"} {
		module(t, sys, state)
		eventually(t, state, is("false", words))
	}
	module(t, sys, "active")
	eventually(t, "active", is("true", ""))
	c.Mu.Lock()
	before := c.Patches
	c.Mu.Unlock()
	time.Sleep(200 * time.Millisecond)
	c.Mu.Lock()
	if c.Patches != before {
		t.Errorf("%d patches while nothing changed", c.Patches-before)
	}
	if c.Nodes["a"].Labels["zone"] != "z" || len(c.Nodes["b"].Labels) != 0 {
		t.Errorf("other labels, or another node's, changed: %v %v", c.Nodes["a"].Labels, c.Nodes["b"].Labels)
	}
	c.Mu.Unlock()
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if ready, why := c.labels("a"); ready != "" || why != "" || c.Nodes["a"].Labels[modeLabel] != "" {
		t.Errorf("left behind: %q %q %v", ready, why, c.Nodes["a"].Labels)
	}
}

// Where the module may come later, stock mode is what protects pods meanwhile, with the reason; each change has an event.
func TestWatchAuto(t *testing.T) {
	c := &cluster{standin.Cluster{Nodes: map[string]*core.Node{"a": standin.NamedNode("a", nil)}}}
	a := c.start(t)
	sys := t.TempDir()
	why := filepath.Join(sys, "why")
	agent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	if err := os.WriteFile(why, []byte("Secure Boot demands a signature\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	w := watcher{node: node{sys: sys, why: why, auto: true, agent: agent.URL}, api: a, name: "a",
		log: slog.New(slog.DiscardHandler), again: time.Hour}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.watchNode(ctx, 10*time.Millisecond) }()
	is := func(ready, mode, words string) func() bool {
		return func() bool {
			c.Mu.Lock()
			defer c.Mu.Unlock()
			why := c.Nodes["a"].Annotations[reason]
			return c.Nodes["a"].Labels[label] == ready && c.Nodes["a"].Labels[modeLabel] == mode &&
				strings.Contains(why, words) && (words != "" || why == "")
		}
	}
	eventually(t, "stock mode", is("true", "stock", "not loaded: Secure Boot demands a signature"))
	if text := w.metricsText(); !strings.Contains(text, "weir_node_mode{mode=\"stock\"} 1\n") || !strings.Contains(text, "weir_node_mode{mode=\"module\"} 0\n") {
		t.Error(text)
	}
	module(t, sys, "off")
	eventually(t, "switched off", is("true", "stock", "weir.off is on"))
	module(t, sys, "idle")
	eventually(t, "the module", is("true", "module", ""))
	module(t, sys, "blind")
	eventually(t, "blind", is("false", "none", "probes are not called"))
	if err := os.RemoveAll(filepath.Join(sys, "kernel")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "stock mode again", is("true", "stock", "Secure Boot"))
	agent.Close()
	eventually(t, "the agent is gone", is("false", "none", "weir agent is not ready"))
	eventually(t, "an event for each", func() bool {
		c.Mu.Lock()
		defer c.Mu.Unlock()
		return len(c.Events) == 5
	})
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, e := range c.Events {
		told = append(told, e.Type+" "+e.Message)
		if e.Reason != "WeirMode" || e.InvolvedObject.Name != "a" || e.Namespace != "default" {
			t.Errorf("%+v", e)
		}
	}
	for i, words := range []string{"Normal pods are protected by: stock: the module is not loaded: Secure Boot", "Normal pods are protected by: module",
		"Warning pods that start now are not protected: the module is loaded", "Normal pods are protected by: stock", "Warning"} {
		if !strings.HasPrefix(told[i], words) {
			t.Errorf("event %d is %s", i, told[i])
		}
	}
}

// What an API server refuses is tried again, and the probe says so meanwhile.
func TestRefused(t *testing.T) {
	c := &cluster{standin.Cluster{Nodes: map[string]*core.Node{"a": standin.NamedNode("a", nil)}, Refuse: true}}
	a := c.start(t)
	err := a.markNode(context.Background(), "a", state{ready: true})
	if err == nil || !strings.Contains(err.Error(), "403 Forbidden") || !strings.Contains(err.Error(), `cannot patch resource "nodes"`) {
		t.Errorf("%v", err)
	}
	sys := t.TempDir()
	module(t, sys, "idle")
	w := watcher{node: node{sys: sys}, api: a, name: "a", log: slog.New(slog.DiscardHandler), again: time.Hour}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.watchNode(ctx, 10*time.Millisecond) }()
	time.Sleep(100 * time.Millisecond)
	if w.told.Load() {
		t.Error("told, though it was refused")
	}
	c.Mu.Lock()
	c.Refuse = false
	c.Mu.Unlock()
	eventually(t, "marked at last", func() bool { ready, _ := c.labels("a"); return ready == "true" && w.told.Load() })
	stop()
	<-ended
	if err := a.markNode(context.Background(), "gone", state{}); err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("%v", err)
	}
}

// Cleaning takes weir's marks from every node, and nothing else.
func TestClean(t *testing.T) {
	c := &cluster{standin.Cluster{Nodes: map[string]*core.Node{
		"a": standin.NamedNode("a", map[string]string{label: "true", "zone": "z"}),
		"b": standin.NamedNode("b", map[string]string{label: "false"}),
		"c": standin.NamedNode("c", map[string]string{"zone": "z"}),
	}}}
	c.Nodes["b"].Annotations = map[string]string{reason: "no headers", "other": "stays"}
	if err := c.start(t).unmarkAll(context.Background(), slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	for name, n := range c.Nodes {
		if _, marked := n.Labels[label]; marked {
			t.Errorf("%s: %v", name, n.Labels)
		}
	}
	if c.Nodes["a"].Labels["zone"] != "z" || len(c.Nodes["b"].Annotations) != 1 || c.Patches != 2 {
		t.Errorf("%v %v, %d patches", c.Nodes["a"].Labels, c.Nodes["b"].Annotations, c.Patches)
	}
}

// Cleaning waits for the DaemonSet that unloads, one that its controller has seen.
func TestCleanAfter(t *testing.T) {
	set := &apps.DaemonSet{
		ObjectMeta: meta.ObjectMeta{Generation: 1},
		Status:     apps.DaemonSetStatus{ObservedGeneration: 1, DesiredNumberScheduled: 3},
	}
	c := &cluster{standin.Cluster{Sets: map[string]*apps.DaemonSet{"/apis/apps/v1/namespaces/n/daemonsets/weir-unload": set}}}
	a := c.start(t)
	log := slog.New(slog.DiscardHandler)
	if err := a.waitForDaemonSet(context.Background(), log, "n/weir-unload", time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if set.Status.NumberReady != 4 {
		t.Errorf("it was asked until %d of 3 were ready", set.Status.NumberReady-1)
	}
	set.Generation = 2
	short, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := a.waitForDaemonSet(short, log, "n/weir-unload", time.Millisecond); err == nil {
		t.Error("a DaemonSet that no controller has seen counts")
	}
	if err := a.waitForDaemonSet(context.Background(), log, "n/gone", time.Millisecond); err == nil || !strings.Contains(err.Error(), "GET /apis") {
		t.Errorf("%v", err)
	}
}

// A container without a service account, and a server of another authority, are refused with words.
func TestNoAccount(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	if _, err := newClusterAPI("/nowhere"); err == nil || !strings.Contains(err.Error(), "KUBERNETES_SERVICE_HOST") {
		t.Errorf("%v", err)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "1")
	if _, err := newClusterAPI("/nowhere"); err == nil || !strings.Contains(err.Error(), "no service account in this container") {
		t.Errorf("%v", err)
	}
}

// A node that does without the module is ready when its parts are.
func TestStock(t *testing.T) {
	answering := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer answering.Close()
	n := node{sys: t.TempDir(), stock: true, plugin: answering.URL, agent: answering.URL}
	if s := n.currentState(context.Background()); !s.ready {
		t.Error(s.why)
	}
	answering.Close()
	if s := n.currentState(context.Background()); s.ready || !strings.Contains(s.why, "weir-nri is not ready") {
		t.Errorf("%+v", s)
	}
}
