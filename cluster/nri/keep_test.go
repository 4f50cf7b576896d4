// SPDX-License-Identifier: GPL-2.0-only

package main

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"
)

// A plugin that runs out of memory leaves the node without knobs, and a pod may say many MiB: when it is
// created and when all are told.
func TestKeepsLittle(t *testing.T) {
	n := newNode(t)
	n.load()
	p, stop := n.plug(allowed)
	var pods []*api.PodSandbox
	var containers []*api.Container
	for i := range 40 {
		s, c := another(fmt.Sprint(i), "dirty-bytes", "8M", "dirty-bytes.z", "8M"+strings.Repeat(" ", 1<<16))
		s.Annotations["other"] = strings.Repeat("x", 1<<16)
		for j := range 500 {
			s.Annotations[fmt.Sprint("weir.dev/dirty-bytes.c", j)] = "8M"
		}
		c.Env = []string{"X=" + strings.Repeat("x", 1<<19)}
		_, _ = n.create(s, c)
		pods, containers = append(pods, s), append(containers, c)
	}
	keeps := func(when string) {
		t.Helper()
		n.counted(p)
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.pods) != 40 {
			t.Errorf("%s it knows %d pods", when, len(p.pods))
		}
		for _, known := range p.pods {
			most := 0
			for key, value := range known.Annotations {
				most += len(key) + len(value)
			}
			for _, c := range known.containers {
				most += len(c.id) + len(c.name) + len(c.at)
			}
			if most > 1<<14 {
				t.Errorf("%s it keeps %d bytes of a pod", when, most)
			}
		}
	}
	keeps("created")
	stop()
	n.pods, n.containers = pods, containers
	defer n.connect(p)()
	keeps("told")
}

// NRI's stub collects all parts of a list before it hands it over, so each is made lean as it is read.
func TestLean(t *testing.T) {
	message := &api.SynchronizeRequest{}
	read := func(any) error {
		s, c := another("a", "dirty-bytes", "8M")
		s.Annotations["other"], c.Env = strings.Repeat("x", 1<<16), []string{strings.Repeat("x", 1<<16)}
		message.Pods, message.Containers = []*api.PodSandbox{s}, []*api.Container{c}
		return nil
	}
	_, err := readNeededFields(context.Background(), read, nil, func(_ context.Context, read func(any) error) (any, error) {
		return nil, read(message)
	})
	if size := proto.Size(message); err != nil || size > 1000 || message.Pods[0].Annotations["weir.dev/dirty-bytes"] != "8M" {
		t.Error(err, size, message)
	}
}

func TestTooManyAnnotations(t *testing.T) {
	n, _ := loaded(t)
	s := sandbox()
	for i := range 300 {
		s.Annotations[fmt.Sprintf("weir.dev/dirty-bytes.c%d", i)] = "8M"
	}
	if _, err := n.create(s, aContainer("a", 0)); err == nil || !strings.Contains(err.Error(), "more than 256 annotations begin with weir.dev/") {
		t.Error(err)
	}
}
