// SPDX-License-Identifier: GPL-2.0-only

package main

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"

	"weir.dev/nri/cgroup"
	"weir.dev/nri/want"
)

// testNode is the runtime's half of NRI, the code that containerd has, beside a directory that stands
// for cgroups. What the kernel and containerd make of it is tested by `make test-kubernetes`.
type testNode struct {
	t          testing.TB
	dir        string
	runtime    *adaptation.Adaptation
	mu         sync.Mutex
	pods       []*api.PodSandbox
	containers []*api.Container
}

func newNode(t testing.TB) *testNode {
	// This machine may be busy with something else.
	adaptation.SetPluginRegistrationTimeout(time.Minute)
	adaptation.SetPluginRequestTimeout(time.Minute)
	n := &testNode{t: t, dir: t.TempDir()}
	var err error
	n.runtime, err = adaptation.New("test", "1", func(ctx context.Context, sync adaptation.SyncCB) error {
		n.mu.Lock()
		defer n.mu.Unlock()
		updates, err := sync(ctx, n.pods, n.containers)
		if len(updates) > 0 {
			t.Error("asked for", updates)
		}
		return err
	}, func(_ context.Context, updates []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
		t.Error("asked for", updates)
		return nil, nil
	}, adaptation.WithSocketPath(n.socket()), adaptation.WithPluginPath(n.dir), adaptation.WithPluginConfigPath(n.dir))
	if err != nil {
		t.Fatal(err)
	}
	if err := n.runtime.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.runtime.Stop)
	return n
}

func (n *testNode) socket() string { return filepath.Join(n.dir, "nri.sock") }

// load makes the module's directory, and its files in the cgroups of the pod and of two containers, and
// in the root's child.
func (n *testNode) load() {
	module := filepath.Join(n.dir, "sys/module/weir")
	// Beside the one that is there, so that it is another one.
	if err := os.MkdirAll(module+".new", 0o755); err != nil {
		n.t.Fatal(err)
	}
	if err := syscall.Rename(module+".new", module); err != nil { // os.Rename replaces no directory
		n.t.Fatal(err)
	}
	for _, at := range []string{"kubepods", "kubepods/burstable/pod1", "kubepods/burstable/pod1/a", "kubepods/burstable/pod1/late"} {
		n.make(at)
	}
}

// make makes one cgroup, with the module's files.
func (n *testNode) make(at string) {
	at = filepath.Join(n.dir, "sys/fs/cgroup", at)
	if err := os.MkdirAll(at, 0o755); err != nil {
		n.t.Fatal(err)
	}
	for file, text := range map[string]string{"memory.dirty_min": "0\n", "memory.dirty_bytes": "max\n", "memory.max": "8388608\n"} {
		// Anew, as the module makes its files.
		_ = os.Remove(filepath.Join(at, file+".new"))
		if err := os.WriteFile(filepath.Join(at, file+".new"), []byte(text), 0o644); err != nil {
			n.t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(at, file+".new"), filepath.Join(at, file)); err != nil {
			n.t.Fatal(err)
		}
	}
}

// write stands for another program that writes to a file below the pod's cgroup.
func (n *testNode) write(name, text string) {
	if err := os.WriteFile(filepath.Join(n.dir, "sys/fs/cgroup/kubepods/burstable/pod1", name), []byte(text+"\n"), 0o644); err != nil {
		n.t.Fatal(err)
	}
}

// plug starts a plugin; the function ends it.
func (n *testNode) plug(config string) (*plugin, func()) { return n.plugAs(config, "") }

// loaded is a node with the module and a plugin that knows all live pods, until the test ends.
func loaded(t testing.TB) (*testNode, *plugin) {
	n := newNode(t)
	n.load()
	p, stop := n.plug(allowed)
	t.Cleanup(stop)
	n.counted(p)
	return n, p
}

// plugAs starts it for a node that does without the module, if a file is given.
func (n *testNode) plugAs(config, stock string) (*plugin, func()) {
	p := n.plugin(config, stock)
	return p, n.connect(p)
}

// plugin makes one.
func (n *testNode) plugin(config, stock string) *plugin {
	c, err := want.Parse("config", []byte(config))
	if err != nil {
		n.t.Fatal(err)
	}
	p := newPlugin(c, cgroup.Root(filepath.Join(n.dir, "sys/fs/cgroup")), slog.New(slog.DiscardHandler))
	p.stock = stock
	return p
}

// connect has a plugin serve the runtime; the function ends it.
func (n *testNode) connect(p *plugin) func() {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		_ = p.serveConnection(ctx, n.socket(), "50")
		close(done)
	}()
	n.soon("synchronized", func() bool { return strings.Contains(p.metricsText(), "weir_nri_connected 1") })
	// It has answered; the runtime asks it only when it has the answer.
	n.runtime.BlockPluginSync().Unblock()
	return func() { stop(); <-done }
}

func (n *testNode) soon(what string, ok func() bool) {
	n.t.Helper()
	for range 6000 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	n.t.Fatalf("not within a minute: %s", what)
}

func (n *testNode) file(name string) string {
	text, err := os.ReadFile(filepath.Join(n.dir, "sys/fs/cgroup/kubepods/burstable/pod1", name))
	if err != nil {
		n.t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

func sandbox(annotations ...string) *api.PodSandbox {
	s := &api.PodSandbox{Id: "s1", Uid: "1", Name: "p", Namespace: "db", Annotations: map[string]string{},
		Linux: &api.LinuxPodSandbox{CgroupParent: "/kubepods/burstable/pod1"}}
	for i := 0; i < len(annotations); i += 2 {
		s.Annotations["weir.dev/"+annotations[i]] = annotations[i+1]
	}
	return s
}

func aContainer(id string, limit int64) *api.Container {
	return &api.Container{Id: id, PodSandboxId: "s1", Name: id, Linux: &api.LinuxContainer{
		CgroupsPath: "/kubepods/burstable/pod1/" + id,
		Resources:   limited(limit)}}
}

// limited are resources that name a memory limit in bytes.
func limited(limit int64) *api.LinuxResources {
	return &api.LinuxResources{Memory: &api.LinuxMemory{Limit: api.Int64(limit)}}
}

// create asks as containerd does, and does what it is told to. What a container's specification has
// containerd does not tell again.
func (n *testNode) create(s *api.PodSandbox, c *api.Container) (map[string]string, error) {
	n.t.Helper()
	r, err := n.runtime.CreateContainer(context.Background(), &api.CreateContainerRequest{Pod: s, Container: c})
	if err != nil {
		return nil, err
	}
	unified := r.GetAdjust().GetLinux().GetResources().GetUnified()
	for file, value := range unified {
		if _, err := os.Stat(filepath.Join(n.dir, "sys/fs/cgroup/kubepods/burstable/pod1", c.Id, file)); err == nil {
			n.write(filepath.Join(c.Id, file), value)
		}
	}
	n.pods, n.containers = []*api.PodSandbox{s}, append(n.containers, c)
	return unified, nil
}

// created is create for a test that ends if the plugin refuses.
func (n *testNode) created(s *api.PodSandbox, c *api.Container) {
	n.t.Helper()
	if _, err := n.create(s, c); err != nil {
		n.t.Fatal(err)
	}
}

// start says what containerd says before a container's first process runs.
func (n *testNode) start(s *api.PodSandbox, c *api.Container) error {
	return n.runtime.StateChange(context.Background(), &api.StateChangeEvent{Event: api.Event_START_CONTAINER, Pod: s, Container: c})
}

const allowed = "allow: [{namespaces: [db], namespace-floor: 4M}]"

func (n *testNode) wants(got map[string]string, pairs ...string) {
	n.t.Helper()
	want := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		want["memory."+pairs[i]] = pairs[i+1]
	}
	if !maps.Equal(got, want) {
		n.t.Errorf("got %v, want %v", got, want)
	}
}

func TestCreateAndUpdate(t *testing.T) {
	n, p := loaded(t)
	s := sandbox("dirty-min", "1M", "dirty-bytes", "50%", "pod.dirty-bytes", "25%")
	c := aContainer("a", 4<<20)
	got, err := n.create(s, c)
	if err != nil {
		t.Fatal(err)
	}
	n.wants(got, "dirty_min", "1048576", "dirty_bytes", "2097152")
	if got := n.file("memory.dirty_bytes"); got != "2097152" {
		t.Errorf("the pod has %s", got)
	}
	r, err := n.update(s, c, limited(2<<20))
	if err != nil || len(r.GetUpdate()) != 1 {
		t.Fatalf("%v, %v", r, err)
	}
	n.wants(r.GetUpdate()[0].GetLinux().GetResources().GetUnified(), "dirty_min", "1048576", "dirty_bytes", "1048576")

	_, err = n.create(sandbox("dirty-min", "4M"), aContainer("b", 0))
	if err == nil || !strings.Contains(err.Error(), "weir: pod db/p, container b: the pod's floors (dirty-min) would be 5242880 bytes") {
		t.Errorf("got %v", err)
	}
	if !strings.Contains(p.metricsText(), "weir_nri_floors_bytes{namespace=\"db\"} 1048576\n") {
		t.Error(p.metricsText())
	}
	n.stopped(s)
	if strings.Contains(p.metricsText(), "weir_nri_floors_bytes{") {
		t.Error(p.metricsText())
	}
}

func TestRestartKeepsTheBudget(t *testing.T) {
	n := newNode(t)
	n.load()
	_, stop := n.plug(allowed)
	n.created(sandbox("dirty-min", "3M"), aContainer("a", 0))
	stop()
	// Created while no plugin was there.
	n.containers = append(n.containers, aContainer("late", 0))
	p, stop := n.plug(allowed)
	defer stop()
	n.counted(p)
	// Both together are more than is allowed: the one that has its floor keeps it.
	if n.file("late/memory.dirty_min") != "0" || !strings.Contains(p.metricsText(), "weir_nri_floors_bytes{namespace=\"db\"} 3145728\n") {
		t.Error(n.file("late/memory.dirty_min"), p.metricsText())
	}
	if _, err := n.create(sandbox("dirty-min", "2M"), aContainer("b", 0)); err == nil {
		t.Error("a floor beyond the budget is given")
	}
}

func TestModuleComesAndGoes(t *testing.T) {
	n := newNode(t)
	p, stop := n.plug(allowed)
	defer stop()
	got, err := n.create(sandbox("dirty-min", "1M", "pod.dirty-min", "64K"), aContainer("a", 0))
	if err != nil || len(got) != 0 {
		t.Fatalf("%v, %v", got, err)
	}
	if !strings.Contains(p.metricsText(), "weir_nri_unprotected_pods 1\n") {
		t.Error(p.metricsText())
	}
	for range 2 {
		n.load()
		n.soon("the container gets its floor", func() bool { return n.file("a/memory.dirty_min") == "1048576" })
		if got := n.file("memory.dirty_min"); got != "65536" {
			t.Errorf("the pod has %s", got)
		}
	}
	if !strings.Contains(p.metricsText(), "weir_nri_unprotected_pods 0\n") {
		t.Error(p.metricsText())
	}
}

func TestCreatedBeforeThePluginWasAsked(t *testing.T) {
	n := newNode(t)
	n.load()
	p, stop := n.plug(allowed)
	defer stop()
	s := sandbox("dirty-min", "1M", "dirty-bytes", "50%")
	if err := n.start(s, aContainer("late", 4<<20)); err != nil {
		t.Fatal(err)
	}
	if floor, ceiling := n.file("late/memory.dirty_min"), n.file("late/memory.dirty_bytes"); floor != "1048576" || ceiling != "2097152" {
		t.Error(floor, ceiling)
	}
	if !strings.Contains(p.metricsText(), "weir_nri_floors_bytes{namespace=\"db\"} 1048576\n") {
		t.Error(p.metricsText())
	}
	if err := n.start(sandbox("dirty-min", "4M"), aContainer("b", 0)); err == nil || !strings.Contains(err.Error(), "would be 5242880 bytes") {
		t.Errorf("got %v", err)
	}
	if !strings.Contains(p.metricsText(), "weir_nri_adjusted_total 1\n") {
		t.Error(p.metricsText())
	}
	// What the runtime, or another program, has set by then stays.
	c := aContainer("a", 4<<20)
	n.created(s, c)
	n.write("a/memory.dirty_bytes", "1048576")
	if err := n.start(s, c); err != nil || n.file("a/memory.dirty_bytes") != "1048576" {
		t.Error(err, n.file("a/memory.dirty_bytes"))
	}
	// One that was created, and has no cgroup yet, when the plugin connected.
	stop()
	early := aContainer("early", 4<<20)
	n.pods, n.containers = []*api.PodSandbox{s}, []*api.Container{early}
	p, stop = n.plug(allowed)
	defer stop()
	n.make("kubepods/burstable/pod1/early")
	if err := n.start(s, early); err != nil || n.file("early/memory.dirty_min") != "1048576" {
		t.Error(err, n.file("early/memory.dirty_min"))
	}
}

func TestModuleReloadedWithoutThePlugin(t *testing.T) {
	n := newNode(t)
	n.load()
	_, stop := n.plug(allowed)
	n.created(sandbox("dirty-min", "1M", "dirty-bytes", "2M"), aContainer("a", 0))
	n.write("a/memory.dirty_bytes", "4096000")
	stop()
	_, stop = n.plug(allowed)
	n.soon("it is looked at", func() bool { return n.file("a/memory.dirty_min") == "1048576" })
	if got := n.file("a/memory.dirty_bytes"); got != "4096000" {
		t.Errorf("what the agent has set since is %s", got)
	}
	stop()
	n.load()
	_, stop = n.plug(allowed)
	defer stop()
	n.soon("its knobs are back", func() bool {
		return n.file("a/memory.dirty_min") == "1048576" && n.file("a/memory.dirty_bytes") == "2097152"
	})
}

// The runtime had given up the answer that gave it knobs.
func TestStartOfWhatWasNotGiven(t *testing.T) {
	n, p := loaded(t)
	s, c := sandbox("dirty-min", "1M"), aContainer("a", 0)
	if _, _, err := p.CreateContainer(context.Background(), s, c); err != nil {
		t.Fatal(err)
	}
	if err := n.start(s, c); err != nil || n.file("a/memory.dirty_min") != "1048576" {
		t.Error(err, n.file("a/memory.dirty_min"))
	}
}

// What was allowed at its creation starts, and counts, even if others have taken its place since.
func TestStartOfWhatWasAllowed(t *testing.T) {
	for _, floor := range []string{"dirty-min", "pod.dirty-min"} {
		n := newNode(t)
		n.load()
		_, stop := n.plug(allowed)
		s, c := sandbox(floor, "3M"), aContainer("a", 0)
		n.created(s, c)
		stop()
		// Another plugin, and the list of what is alive comes without it.
		n.containers = nil
		p, stop := n.plug("allow: [{namespaces: [db], namespace-floor: 1M}]")
		if err := n.start(s, c); err != nil {
			t.Error(floor, err)
		}
		if got := floors(p); got != "3145728" {
			t.Errorf("%s: it counts %s", floor, got)
		}
		// A knob of the agent's is no leave.
		n.write("late/memory.dirty_bytes", "1048576")
		if err := n.start(sandbox(floor, "4M"), aContainer("late", 0)); err == nil {
			t.Errorf("%s: what was not allowed starts", floor)
		}
		stop()
	}
}

// A pod's weight was allowed at a container's creation, and is not any more: the container starts.
func TestStartOfWhatMayWeighNoMore(t *testing.T) {
	n := newNode(t)
	n.load()
	n.write("memory.dirty_weight", "100")
	_, stop := n.plug("allow: [{namespaces: [db], pod-weight: 200}]")
	s, c := sandbox("pod.dirty-weight", "200", "dirty-bytes", "2M"), aContainer("a", 0)
	n.created(s, c)
	if got := n.file("memory.dirty_weight"); got != "200" {
		t.Errorf("it weighs %s", got)
	}
	stop()
	n.containers = nil
	p, stop := n.plug("")
	defer stop()
	n.counted(p)
	if err := n.start(s, c); err != nil {
		t.Error(err)
	}
	// No leave for what its cgroup does not have.
	if err := n.start(sandbox("pod.dirty-weight", "300"), aContainer("late", 0)); err == nil {
		t.Error("what was not allowed starts")
	}
	if err := n.start(sandbox("pod.dirty-weight", "200", "dirty-min", "1M"), aContainer("late", 0)); err == nil {
		t.Error("a floor that was not allowed starts beside a weight that was")
	}
}

// Its only container has ended, and kubelet waits before the next: the pod's own floor is there.
func TestPodWithoutContainers(t *testing.T) {
	n := newNode(t)
	n.load()
	n.write("memory.dirty_min", "65536")
	n.pods = []*api.PodSandbox{sandbox("pod.dirty-min", "64K")}
	p, stop := n.plug(allowed)
	defer stop()
	if !strings.Contains(p.metricsText(), "weir_nri_floors_bytes{namespace=\"db\"} 65536\n") {
		t.Error(p.metricsText())
	}
}

// A runtime that was restarted in the middle of a start lists what never ran beside what came after.
func TestRunningBesideItsFirstAttempt(t *testing.T) {
	n := newNode(t)
	n.load()
	s := sandbox("dirty-min", "1M")
	stale, runs := aContainer("0", 0), aContainer("a", 0)
	stale.Name, stale.State, runs.State = "a", api.ContainerState_CONTAINER_CREATED, api.ContainerState_CONTAINER_RUNNING
	n.pods, n.containers = []*api.PodSandbox{s}, []*api.Container{stale, runs}
	p, stop := n.plug(allowed)
	defer stop()
	n.soon("it has its floor", func() bool { return n.file("a/memory.dirty_min") == "1048576" })
	n.soon("which counts once", func() bool {
		return strings.Contains(p.metricsText(), "weir_nri_floors_bytes{namespace=\"db\"} 1048576\n")
	})
}

// A floor that its pod does not wish for any more stays, and counts, until the pod ends.
func TestFloorNotWishedForAnyMore(t *testing.T) {
	n := newNode(t)
	n.load()
	n.write("a/memory.dirty_min", "1048576")
	n.write("memory.dirty_min", "65536")
	n.pods, n.containers = []*api.PodSandbox{sandbox()}, []*api.Container{aContainer("a", 0)}
	p, stop := n.plug("defaults: [{namespaces: [db], set: {dirty-bytes: 8M}}]")
	defer stop()
	n.soon("it is looked at", func() bool { return n.file("a/memory.dirty_bytes") == "8388608" })
	n.soon("both count", func() bool { return floors(p) == "1114112" })
	if _, err := n.update(n.pods[0], n.containers[0], &api.LinuxResources{Cpu: &api.LinuxCPU{Cpus: "0"}}); err != nil || floors(p) != "1114112" {
		t.Error(err, floors(p))
	}
}

// One of the pod's own files is not there, as in a module built without it. What the others hold counts.
func TestPodsFileMissing(t *testing.T) {
	n := newNode(t)
	n.load()
	n.make("kubepods/burstable/pod2")
	p, stop := n.plug(allowed)
	defer stop()
	n.counted(p)
	s, c := sandbox("pod.dirty-min", "3M", "pod.dirty-bandwidth", "1M"), aContainer("a", 0)
	if err := n.start(s, c); err != nil || n.file("memory.dirty_min") != "3145728" || floors(p) != "3145728" || unprotected(p) != "1" {
		t.Error(err, n.file("memory.dirty_min"), floors(p), unprotected(p))
	}
	other, late := another("late", "pod.dirty-min", "3M", "pod.dirty-bandwidth", "1M")
	other.Linux.CgroupParent = "/kubepods/burstable/pod2"
	if err := n.start(other, late); err == nil || !strings.Contains(err.Error(), "other pods of namespace db reserve 3145728") {
		t.Errorf("got %v", err)
	}
	if got := n.file("../pod2/memory.dirty_min"); got != "0" || floors(p) != "3145728" {
		t.Error(got, floors(p))
	}
	n.end(s, c)
	// The maker of the pod is told, rather than that its container goes without its own knobs.
	s.Annotations["weir.dev/dirty-bytes"] = "2M"
	if _, err := n.create(s, aContainer("next", 0)); err == nil || !strings.Contains(err.Error(), "memory.dirty_bandwidth: no such file") {
		t.Errorf("got %v", err)
	}
	if floors(p) != "3145728" || unprotected(p) != "0" {
		t.Error(floors(p), unprotected(p))
	}
}

// The runtime took the plugin for dead and went on: what it asked about does not count.
func TestGivenUp(t *testing.T) {
	_, p := loaded(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, _, err := p.CreateContainer(ctx, sandbox("dirty-min", "1M"), aContainer("a", 0)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if strings.Contains(p.metricsText(), "weir_nri_floors_bytes{") {
		t.Error(p.metricsText())
	}
}

// metric is the value of a line of the metrics; "" if there is none.
func metric(p *plugin, name string) string {
	_, after, _ := strings.Cut(p.metricsText(), "\n"+name+" ")
	value, _, _ := strings.Cut(after, "\n")
	return value
}

// floors is what the metrics say of the namespace's floors, in bytes; "" for none.
func floors(p *plugin) string { return metric(p, `weir_nri_floors_bytes{namespace="db"}`) }

// unprotected is how many pods lack something.
func unprotected(p *plugin) string { return metric(p, "weir_nri_unprotected_pods") }

// The agent has set one knob before the start; another was given, and the answer was lost.
func TestStartBesideAKnobOfTheAgents(t *testing.T) {
	n, p := loaded(t)
	s, c := sandbox("dirty-min", "1M"), aContainer("a", 0)
	if _, _, err := p.CreateContainer(context.Background(), s, c); err != nil {
		t.Fatal(err)
	}
	n.write("a/memory.dirty_bytes", "1048576")
	if err := n.start(s, c); err != nil || n.file("a/memory.dirty_min") != "1048576" || n.file("a/memory.dirty_bytes") != "1048576" {
		t.Error(err, n.file("a/memory.dirty_min"), n.file("a/memory.dirty_bytes"))
	}
}

// crun gives a pod and its container cgroups as it makes them with systemd; the function writes, as it
// does, what it is told of the container's floor.
func (n *testNode) crun(s *api.PodSandbox, c *api.Container) (scope string, write func(floor string)) {
	slice := "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice"
	s.Linux.CgroupParent = filepath.Base(slice)
	c.Linux.CgroupsPath = filepath.Base(slice) + ":cri-containerd:a"
	scope = slice + "/cri-containerd-a.scope"
	for at := scope + "/container"; at != "."; at = filepath.Dir(at) {
		n.make(at)
	}
	// As n.write and n.file take it.
	scope = "../../../" + scope
	return scope, func(floor string) { n.write(scope+"/container/memory.dirty_min", floor) }
}

// crun has set it below systemd's scope: it was allowed, and starts whatever is allowed by now.
func TestStartOfWhatCrunWasTold(t *testing.T) {
	n := newNode(t)
	n.load()
	s, c := sandbox("dirty-min", "3M"), aContainer("a", 0)
	_, write := n.crun(s, c)
	write("3145728")
	p, stop := n.plug("allow: [{namespaces: [db], namespace-floor: 1M}]")
	defer stop()
	if err := n.start(s, c); err != nil || floors(p) != "3145728" {
		t.Error(err, floors(p))
	}
}

// One lacks its knob, and another of the pod that gets its own does not hide that.
func TestUnprotectedBesideAnother(t *testing.T) {
	n, p := loaded(t)
	s, lacks, has := sandbox("dirty-min", "1M"), aContainer("none", 0), aContainer("a", 0)
	for _, c := range []*api.Container{lacks, has} {
		if err := n.start(s, c); err != nil {
			t.Error(err)
		}
	}
	if !strings.Contains(p.metricsText(), "weir_nri_unprotected_pods 1\n") {
		t.Error(p.metricsText())
	}
	n.end(s, lacks)
	if !strings.Contains(p.metricsText(), "weir_nri_unprotected_pods 0\n") {
		t.Error(p.metricsText())
	}
}

// The question lay unread for long, as the plugin got no CPU: the runtime may have given it up.
func TestStarved(t *testing.T) {
	n := newNode(t)
	p := newPlugin(&want.Config{}, cgroup.Root(n.dir), slog.New(slog.DiscardHandler))
	waited := time.Duration(0)
	p.waited = func() time.Duration { return waited }
	if _, err := p.Configure(context.Background(), "", "", ""); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	if _, err := p.Synchronize(ctx, nil, nil); err != nil {
		t.Error(err)
	}
	waited = 50 * time.Minute
	if _, err := p.Synchronize(ctx, nil, nil); err != nil {
		t.Error("threads have waited side by side, for longer than there was to wait:", err)
	}
	for minutes, late := range map[time.Duration]bool{40: false, 50: true} {
		p.configuredAt, waited = time.Now().Add(-2*time.Hour), minutes*time.Minute
		if _, err := p.Synchronize(ctx, nil, nil); errors.Is(err, errLate) != late {
			t.Error(minutes, err)
		}
	}
}

// Of more threads than CPUs some wait.
func TestWaitedForCPU(t *testing.T) {
	if _, err := os.Stat("/proc/self/schedstat"); err != nil {
		t.Skip("the kernel does not say how long tasks wait for a CPU")
	}
	var over atomic.Bool
	defer over.Store(true)
	before := waitedForCPU()
	for range 2*runtime.NumCPU() + 1 {
		go func() {
			runtime.LockOSThread()
			for !over.Load() {
			}
		}()
	}
	n := &testNode{t: t}
	n.soon("threads have waited", func() bool { return waitedForCPU() > before })
}

// hurried is a context whose time is over in this very moment.
type hurried struct{ context.Context }

func (hurried) Deadline() (time.Time, bool) { return time.Now().Add(-time.Second), true }

// containerd 1.7 keeps a plugin that was late connected, and asks it nothing.
func TestTooLateToBeAsked(t *testing.T) {
	n := newNode(t)
	p := newPlugin(&want.Config{}, cgroup.Root(n.dir), slog.New(slog.DiscardHandler))
	ended := make(chan error)
	go func() { ended <- p.serveConnection(context.Background(), n.socket(), "50") }()
	n.soon("synchronized", func() bool { return strings.Contains(p.metricsText(), "weir_nri_connected 1") })
	if _, err := p.Synchronize(hurried{context.Background()}, nil, nil); !errors.Is(err, errLate) {
		t.Error(err)
	}
	select {
	case err := <-ended:
		if !errors.Is(err, errLate) {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it stays connected")
	}
	if !strings.Contains(p.metricsText(), "weir_nri_connected 0\n") {
		t.Error(p.metricsText())
	}
}

// BenchmarkStart times what the runtime waits for when it creates and starts a container: with no
// plugin, with one that the pod does not concern, and with knobs for container and pod.
func BenchmarkStart(b *testing.B) {
	knobs := []string{"dirty-min", "1M", "dirty-bytes", "50%", "pod.dirty-bytes", "25%"}
	for _, c := range []struct {
		name string
		plug bool
		pod  *api.PodSandbox
	}{{"none", false, sandbox(knobs...)}, {"plain", true, sandbox()}, {"knobs", true, sandbox(knobs...)}} {
		b.Run(c.name, func(b *testing.B) {
			n := newNode(b)
			n.load()
			if c.plug {
				_, stop := n.plug(allowed)
				defer stop()
			}
			if c.name == "knobs" { // As the OCI runtime writes them between the two.
				n.write("a/memory.dirty_min", "1048576")
				n.write("a/memory.dirty_bytes", "2097152")
			}
			times := []time.Duration{}
			for b.Loop() {
				a := aContainer("a", 4<<20)
				begun := time.Now()
				r, err := n.runtime.CreateContainer(context.Background(), &api.CreateContainerRequest{Pod: c.pod, Container: a})
				err = errors.Join(err, n.start(c.pod, a))
				times = append(times, time.Since(begun))
				if given := len(r.GetAdjust().GetLinux().GetResources().GetUnified()) > 0; err != nil || given != (c.name == "knobs") {
					b.Fatalf("%v, %v", r, err)
				}
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2].Microseconds()), "us-median")
			b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "us-p99")
		})
	}
}
