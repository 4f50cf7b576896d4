// SPDX-License-Identifier: GPL-2.0-only

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"
)

// With the module, values in time are the agent's, and only these.
func TestTimesAreHandedOver(t *testing.T) {
	n := newNode(t)
	n.load()
	file := filepath.Join(n.dir, "run/pods.toml")
	plug := func() (*plugin, func()) {
		p := n.plugin("defaults: [{qos: [Burstable], pod: {dirty-bytes: 5s}}]", "")
		p.times = file
		stop := n.connect(p)
		n.counted(p)
		return p, stop
	}
	says := func() string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, rules, _ := strings.Cut(string(text), "\n")
		return rules
	}
	_, stop := plug()
	s, c := sandbox("writeback-bytes", "10ms", "dirty-bytes", "1M"), aContainer("a1", 0)
	got, err := n.create(s, c)
	if err != nil {
		t.Fatal(err)
	}
	n.wants(got, "dirty_bytes", "1048576")
	want := "[[rule]]\ncgroup = \"/kubepods/burstable/pod1\"\nset = { \"memory.dirty_bytes\" = \"5s\" }\n" +
		"[[rule]]\ncgroup = \"/kubepods/burstable/pod1/*a1*\"\nset = { \"memory.writeback_bytes\" = \"10ms\" }\n"
	if got := says(); got != want {
		t.Errorf("got %s", got)
	}
	if err := n.start(s, c); err != nil {
		t.Error(err)
	}
	// Another process knows them again.
	stop()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	_, stop = plug()
	defer stop()
	if got := says(); got != want {
		t.Errorf("after a restart %s", got)
	}
	n.end(s, c)
	n.stopped(s)
	n.soon("the pod is gone", func() bool { return says() == "" })
}

// Without the module they are beside the other values.
func TestTimesOnStock(t *testing.T) {
	n := newNode(t)
	file := filepath.Join(n.dir, "pods.toml")
	p, stop := n.plugAs(allowed, file)
	n.counted(p)
	n.created(sandbox("dirty-bytes", "2s", "dirty-weight", "50"), aContainer("a", 0))
	want := "set = { \"memory.dirty_bytes\" = \"2s\", \"memory.dirty_weight\" = \"50\" }\n"
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), want) {
		t.Errorf("%v, %s", err, text)
	}
	stop()
	p, stop = n.plugAs(allowed, file)
	defer stop()
	p.mu.Lock()
	kept := p.readRules()["/kubepods/burstable/pod1/*a*"]
	p.mu.Unlock()
	if len(kept.values) != 1 || len(kept.times) != 1 {
		t.Errorf("read back: %v", kept)
	}
}

// Where no agent would follow it, a time is refused, and so is one that the agent would refuse.
func TestTimesWithoutAnAgent(t *testing.T) {
	n, _ := loaded(t)
	for _, c := range []struct {
		annotations []string
		why         string
	}{
		{[]string{"writeback-bytes", "10ms"}, "memory.writeback_bytes of 10ms: the agent follows"},
		{[]string{"pod.dirty-bytes", "5s"}, "weir-nri -times"},
		{[]string{"writeback-bytes", "2s"}, "1ms to 1000ms"},
		{[]string{"dirty-min", "5s"}, "invalid value `5s` for memory.dirty_min"},
	} {
		_, err := n.create(sandbox(c.annotations...), aContainer("a", 0))
		if err == nil || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%v: %v", c.annotations, err)
		}
	}
	n.pods, n.containers = []*api.PodSandbox{}, nil
}
