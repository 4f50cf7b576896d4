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
	s, c := sandbox(annotations...), aContainer(id, 0)
	s.Id, s.Uid, c.PodSandboxId = "sandbox-"+id, "uid-"+id, "sandbox-"+id
	return s, c
}

// unload takes the module's files away, and its directory.
func (n *testNode) unload() {
	err := filepath.WalkDir(filepath.Join(n.dir, "sys/fs/cgroup"), func(file string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(filepath.Base(file), "memory.dirty") {
			err = os.Remove(file)
		}
		return err
	})
	if err = errors.Join(err, os.Remove(filepath.Join(n.dir, "sys/module/weir"))); err != nil {
		n.t.Fatal(err)
	}
}

// counted waits until all that the runtime has told was looked at.
func (n *testNode) counted(p *plugin) {
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
	s, c := sandbox("dirty-min", "1M"), aContainer("a", 0)
	n.pods, n.containers = []*api.PodSandbox{s}, []*api.Container{c}
	p := n.plugin(allowed, "")
	asked := 0
	p.waited = func() time.Duration {
		if asked++; asked == 2 { // Configure asks first.
			time.Sleep(time.Second)
		}
		return 0
	}
	if err := p.serveConnection(context.Background(), n.socket(), "50"); !errors.Is(err, errLate) || !strings.Contains(err.Error(), "4 MiB") {
		t.Error(err)
	}
}

// A sandbox has stopped, and the runtime, connected again, does not list it: its pod's cgroup has its floor.
func TestStoppedSandboxIsNotListed(t *testing.T) {
	n := newNode(t)
	n.load()
	n.make("kubepods/burstable/pod2")
	p := n.plugin(allowed, "")
	stop := n.connect(p)
	n.counted(p)
	s, c := sandbox("pod.dirty-min", "3M"), aContainer("a", 0)
	n.created(s, c)
	n.stopped(s)
	stop()
	n.pods, n.containers = nil, nil
	stop = n.connect(p)
	defer stop()
	n.counted(p)
	if got := floors(p); got != "3145728" {
		t.Errorf("connected again, it counts %q", got)
	}
	other, young := another("b", "pod.dirty-min", "3M")
	other.Linux.CgroupParent = "/kubepods/burstable/pod2"
	if _, err := n.create(other, young); err == nil {
		t.Error("another one gets what is its")
	}
	// Its next sandbox has the same floor, once.
	next, late := another("late", "pod.dirty-min", "3M")
	next.Uid = s.Uid
	if _, err := n.create(next, late); err != nil || floors(p) != "3145728" {
		t.Errorf("%v, with the next sandbox it counts %q", err, floors(p))
	}
	n.stopped(next)
	if err := os.RemoveAll(filepath.Join(n.dir, "sys/fs/cgroup/kubepods/burstable/pod1")); err != nil {
		t.Fatal(err)
	}
	n.soon("nothing is reserved", func() bool { return floors(p) == "" })
}

// It was allowed a floor when it was created, and has no cgroup for it before it starts.
func TestCreatedNotStarted(t *testing.T) {
	n := newNode(t)
	n.load()
	s, early := sandbox("dirty-min", "3M"), aContainer("early", 0)
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

// A default was taken back, and the plugin started anew, between its creation and its start: the OCI
// runtime writes what it was told then. Or less is there than is wished for now.
func TestStartCountsWhatIsThere(t *testing.T) {
	for has, s := range map[string]*api.PodSandbox{"3145728": sandbox(), "1048576": sandbox("dirty-min", "2M")} {
		n := newNode(t)
		n.load()
		early := aContainer("early", 0)
		early.State = api.ContainerState_CONTAINER_CREATED
		n.pods, n.containers = []*api.PodSandbox{s}, []*api.Container{early}
		p, stop := n.plug(allowed)
		n.counted(p)
		n.make("kubepods/burstable/pod1/early")
		n.write("early/memory.dirty_min", has)
		if err := n.start(s, early); err != nil || floors(p) != has {
			t.Errorf("%v, it has %s, %s count", err, has, floors(p))
		}
		stop()
	}
}

// What lacks its knobs counts until it has them, and is tried again: over a resize, another
// connection and another plugin.
func TestStillUnprotected(t *testing.T) {
	n := newNode(t)
	n.load()
	p, stop := n.plug(allowed)
	s, c := sandbox("dirty-min", "1M"), aContainer("none", 4<<20)
	shows := func(when string) {
		t.Helper()
		n.counted(p)
		if got := unprotected(p); got != "1" {
			t.Errorf("%s %s pods lack something", when, got)
		}
	}
	if err := n.start(s, c); err != nil {
		t.Fatal(err)
	}
	shows("started")
	if _, err := n.update(s, c, limited(8<<20)); err != nil {
		t.Error(err)
	}
	shows("resized")
	stop()
	c.State = api.ContainerState_CONTAINER_RUNNING
	n.pods, n.containers = []*api.PodSandbox{s}, []*api.Container{c}
	stop = n.connect(p)
	shows("connected again")
	stop()
	p, stop = n.plug(allowed)
	defer stop()
	shows("with another plugin")
	n.make("kubepods/burstable/pod1/none")
	n.soon("it has its floor", func() bool { return unprotected(p) == "0" && n.file("none/memory.dirty_min") == "1048576" })
}

// The module makes its files one after the other, the parents' first.
func TestModuleHalfLoaded(t *testing.T) {
	n := newNode(t)
	p, stop := n.plug(allowed)
	defer stop()
	s, c := sandbox("dirty-min", "1M", "pod.dirty-bytes", "8M"), aContainer("a", 0)
	n.created(s, c)
	if err := os.MkdirAll(filepath.Join(n.dir, "sys/fs/cgroup/kubepods/burstable/pod1/a"), 0o755); err != nil {
		t.Fatal(err)
	}
	n.make("kubepods")
	p.pollModule()
	if got := unprotected(p); got != "1" || !strings.Contains(p.metricsText(), "weir_nri_refused_total 0\n") {
		t.Errorf("%s pods lack something: %s", got, p.metricsText())
	}
	if err := n.start(s, c); err != nil {
		t.Error(err)
	}
	for _, at := range []string{"kubepods/burstable/pod1", "kubepods/burstable/pod1/a"} {
		n.make(at)
	}
	p.pollModule()
	if got := unprotected(p); got != "0" || n.file("a/memory.dirty_min") != "1048576" || n.file("memory.dirty_bytes") != "8388608" {
		t.Errorf("%s pods lack something, %s, %s", got, n.file("a/memory.dirty_min"), n.file("memory.dirty_bytes"))
	}
}

// kubelet waits before its next container, and the module is loaded anew: what the pod had is not free.
func TestModuleReloadedBetweenContainers(t *testing.T) {
	n, p := loaded(t)
	s, c := sandbox("pod.dirty-min", "3M"), aContainer("a", 0)
	n.created(s, c)
	n.end(s, c)
	n.unload()
	p.pollModule()
	n.load()
	p.pollModule()
	if got := floors(p); got != "3145728" {
		t.Errorf("it counts %s", got)
	}
	if _, err := n.create(s, aContainer("late", 0)); err != nil || n.file("memory.dirty_min") != "3145728" {
		t.Error(err, n.file("memory.dirty_min"))
	}
}

// The same with a sandbox that stops, and another one that the pod gets while there is no module.
func TestModuleReloadedBetweenSandboxes(t *testing.T) {
	n, p := loaded(t)
	s, c := sandbox("pod.dirty-min", "3M"), aContainer("a", 0)
	n.created(s, c)
	n.stopped(s)
	n.unload()
	p.pollModule()
	other, young := another("late", "dirty-min", "3M")
	other.Linux.CgroupParent = "/kubepods/burstable/pod2"
	next, last := another("z", "pod.dirty-min", "3M")
	next.Uid = s.Uid
	n.created(other, young)
	n.created(next, last)
	if got := floors(p); got != "3145728" {
		t.Errorf("it counts %q", got)
	}
	n.load()
	p.pollModule()
	if floor, late := n.file("memory.dirty_min"), n.file("late/memory.dirty_min"); floor != "3145728" || late != "0" || floors(p) != floor {
		t.Errorf("it has %s, the young one %s, %s count", floor, late, floors(p))
	}
}

// The module goes with the knobs of those that live, and is told of once for each pod.
func TestModuleUnloaded(t *testing.T) {
	n, p := loaded(t)
	log := logs(p)
	s := sandbox("dirty-min", "1M")
	n.created(s, aContainer("a", 0))
	for lines := 1; lines <= 2; lines++ {
		n.unload()
		n.soon("it shows", func() bool { return unprotected(p) == "1" })
		for _, id := range []string{"b1", "b2", "b3"} {
			c := aContainer(id, 0)
			c.Name = "b"
			if _, err := n.create(s, c); err != nil {
				t.Error(err)
			}
			n.end(s, c)
		}
		p.mu.Lock()
		if got := strings.Count(log.String(), "unprotected"); got != lines {
			t.Errorf("%d lines: %s", got, log.String())
		}
		p.mu.Unlock()
		n.load()
		n.soon("it has its floor", func() bool { return unprotected(p) == "0" && n.file("a/memory.dirty_min") == "1048576" })
	}
}

// What may not have its knobs does not lack them.
func TestRefusedIsNotUnprotected(t *testing.T) {
	n := newNode(t)
	n.load()
	n.pods, n.containers = []*api.PodSandbox{sandbox("dirty-min", "8M")}, []*api.Container{aContainer("a", 0)}
	p, stop := n.plug(allowed)
	defer stop()
	n.counted(p)
	n.unload()
	n.soon("it shows", func() bool { return unprotected(p) == "1" })
	n.load()
	n.soon("it is refused", func() bool { return unprotected(p) == "0" })
}

// A pod's own floor, and that of a container which has no cgroup yet, come before those of pods that
// came while there was no module.
func TestModuleReloadedBesideAYoungPod(t *testing.T) {
	for key, state := range map[string]api.ContainerState{
		"pod.dirty-min": api.ContainerState_CONTAINER_RUNNING, "dirty-min": api.ContainerState_CONTAINER_CREATED,
	} {
		n := newNode(t)
		if state == api.ContainerState_CONTAINER_RUNNING {
			n.load()
		}
		p, stop := n.plug(allowed)
		n.counted(p)
		s, old := sandbox(key, "3M"), aContainer("old", 0)
		n.created(s, old)
		if state == api.ContainerState_CONTAINER_RUNNING {
			n.make("kubepods/burstable/pod1/old")
			if err := n.start(s, old); err != nil {
				t.Fatal(err)
			}
			n.unload()
			n.soon("it shows", func() bool { return unprotected(p) == "1" })
		}
		other, young := another("a", "dirty-min", "3M")
		other.Linux = &api.LinuxPodSandbox{CgroupParent: "/kubepods/burstable/pod2"}
		young.Linux.CgroupsPath = "/kubepods/burstable/pod2/a"
		n.created(other, young)
		if err := n.start(other, young); err != nil {
			t.Fatal(err)
		}
		n.make("kubepods/burstable/pod2")
		n.make("kubepods/burstable/pod2/a")
		n.load()
		has := func() string { return n.file("../pod2/a/memory.dirty_min") }
		n.soon("a floor is there", func() bool {
			return has() != "0" || n.file("memory.dirty_min") != "0" || key == "dirty-min" && floors(p) == "3145728"
		})
		if got := has(); got != "0" || floors(p) != "3145728" {
			t.Errorf("%s: the young one has %s, %s count", key, got, floors(p))
		}
		stop()
	}
}

// So it does if the first of the pod's containers to be looked at runs without its wish, which is refused.
func TestModuleReloadedBesideWhatWasRefused(t *testing.T) {
	n := newNode(t)
	n.load()
	n.write("memory.dirty_min", "3145728")
	s := sandbox("pod.dirty-min", "3M", "dirty-min.a", "8M")
	other, young := another("late", "dirty-min", "3M")
	other.Linux.CgroupParent = "/kubepods/burstable/pod2"
	last := aContainer("z", 0)
	n.pods, n.containers = []*api.PodSandbox{s, other}, []*api.Container{aContainer("a", 0), young, last}
	p, stop := n.plug(allowed)
	defer stop()
	n.counted(p)
	n.unload()
	p.pollModule()
	n.load()
	p.pollModule()
	has := func(when string) {
		t.Helper()
		n.counted(p)
		if floor, late := n.file("memory.dirty_min"), n.file("late/memory.dirty_min"); floor != "3145728" || late != "0" || floors(p) != floor {
			t.Errorf("%s the pod has %s, the young one %s, %s count", when, floor, late, floors(p))
		}
	}
	has("loaded anew,")
	n.end(s, last)
	n.unload()
	p.pollModule()
	n.load()
	p.pollModule()
	if got := floors(p); got != "" || n.file("memory.dirty_min") != "0" {
		t.Errorf("nothing was given back, and %s count", got)
	}
}

// logs has a plugin write its log to a buffer, to be read while its lock is held.
func logs(p *plugin) *bytes.Buffer {
	log := &bytes.Buffer{}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log = slog.New(slog.NewTextHandler(log, nil))
	return log
}

// Cgroups come and go, and it is the same module: what the owner took back stays so.
func TestAnotherCgroupIsNoOtherModule(t *testing.T) {
	n := newNode(t)
	n.make("first.slice")
	n.load()
	p, stop := n.plug(allowed)
	defer stop()
	n.counted(p)
	s, c := sandbox("dirty-bytes", "2M"), aContainer("a", 0)
	n.created(s, c)
	n.write("a/memory.dirty_bytes", "max")
	n.make("a.slice")
	p.pollModule()
	if err := os.RemoveAll(filepath.Join(n.dir, "sys/fs/cgroup/first.slice")); err != nil {
		t.Fatal(err)
	}
	p.pollModule()
	if got := n.file("a/memory.dirty_bytes"); got != "max" {
		t.Error(got)
	}
}
