// SPDX-License-Identifier: GPL-2.0-only

package main

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
)

// another is a pod with one container, beside sandbox and container.
func another(id string, annotations ...string) (*api.PodSandbox, *api.Container) {
	s, c := sandbox(annotations...), container(id, 0)
	s.Id, s.Uid, c.PodSandboxId = "sandbox-"+id, "uid-"+id, "sandbox-"+id
	return s, c
}

// unload takes the module's files away.
func (n *node) unload() {
	err := filepath.WalkDir(filepath.Join(n.dir, "cgroups"), func(file string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(filepath.Base(file), "memory.dirty") {
			err = os.Remove(file)
		}
		return err
	})
	if err != nil {
		n.t.Fatal(err)
	}
}

// counted waits until all that the runtime has told was looked at.
func (n *node) counted(p *plugin) {
	n.t.Helper()
	n.soon("live pods were looked at", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.synced && !p.partial
	})
}

// NRI 0.8 ends the connection when its own time is over, before the plugin knows.
func TestClosedBeforeAllWasCounted(t *testing.T) {
	n := newNode(t)
	n.load()
	adaptation.SetPluginRequestTimeout(300 * time.Millisecond)
	s, c := sandbox("dirty-min", "1M"), container("a", 0)
	n.pods, n.containers = []*api.PodSandbox{s}, []*api.Container{c}
	p := n.plugin(allowed, "")
	asked := 0
	p.waited = func() time.Duration {
		if asked++; asked == 2 { // Configure asks first.
			time.Sleep(time.Second)
		}
		return 0
	}
	if err := p.connect(context.Background(), n.socket(), "50"); !errors.Is(err, errLate) || !strings.Contains(err.Error(), "4 MiB") {
		t.Error(err)
	}
}

// It was allowed a floor when it was created, and has no cgroup for it before it starts.
func TestCreatedNotStarted(t *testing.T) {
	n := newNode(t)
	n.load()
	s, early := sandbox("dirty-min", "3M"), container("early", 0)
	early.State = api.ContainerState_CONTAINER_CREATED
	n.pods, n.containers = []*api.PodSandbox{s}, []*api.Container{early}
	p, stop := n.plug(allowed)
	defer stop()
	n.counted(p)
	if got := floors(p); got != "3145728" {
		t.Errorf("it counts %q", got)
	}
	s2, c := another("a", "dirty-min", "3M")
	if _, err := n.create(s2, c); err == nil {
		t.Error("another one gets what is its")
	}
	n.make("kubepods/burstable/pod1/early")
	if err := n.start(s, early); err != nil || n.file("early/memory.dirty_min") != "3145728" {
		t.Error(err, n.file("early/memory.dirty_min"))
	}
	n.end(s, early)
	if got := floors(p); got != "" {
		t.Errorf("it counts %q when it has ended", got)
	}
}

func unprotected(p *plugin) string {
	_, after, _ := strings.Cut(p.metrics(), "\nweir_nri_unprotected_pods ")
	pods, _, _ := strings.Cut(after, "\n")
	return pods
}

// What lacks its knobs counts until it has them.
func TestStillUnprotected(t *testing.T) {
	n := newNode(t)
	n.load()
	p, stop := n.plug(allowed)
	defer stop()
	if err := n.start(sandbox("dirty-min", "1M"), container("none", 0)); err != nil {
		t.Fatal(err)
	}
	p.bring()
	if got := unprotected(p); got != "1" {
		t.Errorf("%s pods lack something", got)
	}
	n.make("kubepods/burstable/pod1/none")
	p.bring()
	if got := unprotected(p); got != "0" || n.file("none/memory.dirty_min") != "1048576" {
		t.Errorf("%s pods lack something, %s", got, n.file("none/memory.dirty_min"))
	}
}

// The module goes with the knobs of those that live, and is told of once for each pod.
func TestModuleUnloaded(t *testing.T) {
	n := newNode(t)
	n.load()
	p, stop := n.plug(allowed)
	defer stop()
	var log bytes.Buffer
	p.mu.Lock()
	p.log = slog.New(slog.NewTextHandler(&log, nil))
	p.mu.Unlock()
	s := sandbox("dirty-min", "1M")
	if _, err := n.create(s, container("a", 0)); err != nil {
		t.Fatal(err)
	}
	n.unload()
	n.soon("it shows", func() bool { return unprotected(p) == "1" })
	for _, id := range []string{"b1", "b2", "b3"} {
		c := container(id, 0)
		c.Name = "b"
		if _, err := n.create(s, c); err != nil {
			t.Error(err)
		}
		n.end(s, c)
	}
	p.mu.Lock()
	if got := strings.Count(log.String(), "unprotected"); got != 1 {
		t.Errorf("%d lines: %s", got, log.String())
	}
	p.mu.Unlock()
	n.load()
	n.soon("it has its floor", func() bool { return unprotected(p) == "0" && n.file("a/memory.dirty_min") == "1048576" })
}

// A resize that was under way when its container ended.
func TestUpdateOfWhatHasEnded(t *testing.T) {
	n := newNode(t)
	n.load()
	p, stop := n.plug(allowed)
	defer stop()
	s, c := sandbox("dirty-min", "50%"), container("a", 4<<20)
	if _, err := n.create(s, c); err != nil {
		t.Fatal(err)
	}
	n.end(s, c)
	if _, err := n.update(s, c, limited(8<<20)); err != nil || floors(p) != "" {
		t.Error(err, floors(p))
	}
}

// A new cgroup whose name comes first is no other module: what the owner took back stays so.
func TestAnotherCgroupIsNoOtherModule(t *testing.T) {
	n := newNode(t)
	n.load()
	p, stop := n.plug(allowed)
	defer stop()
	s, c := sandbox("dirty-bytes", "2M"), container("a", 0)
	if _, err := n.create(s, c); err != nil {
		t.Fatal(err)
	}
	n.write("a/memory.dirty_bytes", "max")
	was := p.root.Module()
	for _, at := range []string{"a.slice", "z.slice"} {
		n.make(at)
	}
	p.looked()
	if now := p.root.Module(); now != was || n.file("a/memory.dirty_bytes") != "max" {
		t.Error(was, now, n.file("a/memory.dirty_bytes"))
	}
}
