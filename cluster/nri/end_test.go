// SPDX-License-Identifier: GPL-2.0-only

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"
)

// One that failed to start: no end of it is told, and kubelet tries again.
func TestSecondAttempt(t *testing.T) {
	n, p := loaded(t)
	for _, id := range []string{"first", "second"} {
		c := aContainer(id, 0)
		c.Name = "one"
		n.created(sandbox("dirty-min", "3M"), c)
	}
	if !strings.Contains(p.metricsText(), "weir_nri_floors_bytes{namespace=\"db\"} 3145728\n") {
		t.Error(p.metricsText())
	}
}

// end says that a container has ended.
func (n *testNode) end(s *api.PodSandbox, c *api.Container) {
	n.t.Helper()
	if _, err := n.runtime.StopContainer(context.Background(), &api.StopContainerRequest{Pod: s, Container: c}); err != nil {
		n.t.Error(err)
	}
}

// stopped says that a sandbox has ended.
func (n *testNode) stopped(s *api.PodSandbox) {
	n.t.Helper()
	if err := n.runtime.StateChange(context.Background(), &api.StateChangeEvent{Event: api.Event_STOP_POD_SANDBOX, Pod: s}); err != nil {
		n.t.Error(err)
	}
}

// A runtime that was restarted does not tell the end of a pod that it had before.
func TestPodGoneUntold(t *testing.T) {
	n, p := loaded(t)
	s, c := sandbox("dirty-min", "1M", "pod.dirty-min", "64K"), aContainer("a", 0)
	n.created(s, c)
	n.end(s, c)
	if got := floors(p); got != "65536" {
		t.Errorf("its own floor is there: %s", got)
	}
	if err := os.RemoveAll(filepath.Join(n.dir, "sys/fs/cgroup/kubepods/burstable/pod1")); err != nil {
		t.Fatal(err)
	}
	n.soon("nothing is reserved", func() bool { return floors(p) == "" })
}

// A sandbox ends, and kubelet makes another one for the pod: its cgroup stays, with its floor.
func TestSandboxOfALivePodStops(t *testing.T) {
	n := newNode(t)
	n.load()
	n.make("kubepods/burstable/pod2")
	p, stop := n.plug(allowed)
	defer stop()
	n.counted(p)
	s, c := sandbox("pod.dirty-min", "3M"), aContainer("a", 0)
	n.created(s, c)
	n.stopped(s)
	if got := floors(p); got != "3145728" {
		t.Errorf("stopped it counts %q", got)
	}
	other, young := another("b", "pod.dirty-min", "3M")
	other.Linux.CgroupParent = "/kubepods/burstable/pod2"
	if _, err := n.create(other, young); err == nil {
		t.Error("another one gets what is its")
	}
	next, wrong := another("wrong", "pod.dirty-min", "3M", "dirty-byte", "1M")
	next.Uid = s.Uid
	if _, err := n.create(next, wrong); err == nil || floors(p) != "3145728" {
		t.Errorf("%v, refused it counts %q", err, floors(p))
	}
	delete(next.Annotations, "weir.dev/dirty-byte")
	late := aContainer("late", 0)
	late.PodSandboxId = next.Id
	if _, err := n.create(next, late); err != nil || floors(p) != "3145728" {
		t.Errorf("%v, it counts %q", err, floors(p))
	}
	// The first is removed, and the second stops.
	n.stopped(s)
	n.stopped(next)
	if got := floors(p); got != "3145728" {
		t.Errorf("stopped again it counts %q", got)
	}
	if err := os.RemoveAll(filepath.Join(n.dir, "sys/fs/cgroup/kubepods/burstable/pod1")); err != nil {
		t.Fatal(err)
	}
	n.soon("nothing is reserved", func() bool { return floors(p) == "" })
}
