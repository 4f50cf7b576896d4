// SPDX-License-Identifier: GPL-2.0-only

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"
)

// update asks as containerd does when a container's resources are to change.
func (n *testNode) update(s *api.PodSandbox, c *api.Container, r *api.LinuxResources) (*api.UpdateContainerResponse, error) {
	return n.runtime.UpdateContainer(context.Background(), &api.UpdateContainerRequest{Pod: s, Container: c, LinuxResources: r})
}

// updated says that an update was carried out.
func (n *testNode) updated(s *api.PodSandbox, c *api.Container) {
	n.t.Helper()
	if err := n.runtime.PostUpdateContainer(context.Background(), &api.StateChangeEvent{Pod: s, Container: c}); err != nil {
		n.t.Error(err)
	}
}

// A resize reaches what the plugin itself has written, which the OCI runtime may not.
func TestResizeOfWhatWasFilled(t *testing.T) {
	n, _ := loaded(t)
	s, c := sandbox("dirty-bytes", "50%"), aContainer("a", 4<<20)
	if err := n.start(s, c); err != nil {
		t.Fatal(err)
	}
	if got := n.file("a/memory.dirty_bytes"); got != "2097152" {
		t.Fatal(got)
	}
	if _, err := n.update(s, c, limited(8<<20)); err != nil {
		t.Fatal(err)
	}
	if got := n.file("a/memory.dirty_bytes"); got != "4194304" {
		t.Error(got)
	}
}

// The module was loaded anew, and an update brings back a floor that was taken back: it is what the OCI
// runtime was told once.
func TestUpdateBringsBackAFloor(t *testing.T) {
	n := newNode(t)
	n.load()
	n.pods, n.containers = []*api.PodSandbox{sandbox()}, []*api.Container{aContainer("a", 0)}
	s, c := n.pods[0], n.containers[0]
	p, stop := n.plug("defaults: [{namespaces: [db], set: {dirty-bytes: 8M}}]")
	defer stop()
	n.counted(p)
	if _, err := n.update(s, c, &api.LinuxResources{Cpu: &api.LinuxCPU{Cpus: "0"}}); err != nil || floors(p) != "" {
		t.Error(err, floors(p))
	}
	n.write("a/memory.dirty_min", "1048576")
	n.updated(s, c)
	if got := floors(p); got != "1048576" {
		t.Errorf("it counts %q", got)
	}
	// One that has ended meanwhile does not.
	n.end(s, c)
	n.updated(s, c)
	if got := floors(p); got != "" {
		t.Errorf("it counts %q when it has ended", got)
	}
}

// A file that the plugin has to write cannot be written: the update fails, and what is there counts.
func TestUpdateCannotWrite(t *testing.T) {
	n, p := loaded(t)
	// Even root can only read it, and it has one number.
	text, err := os.ReadFile("/proc/sys/kernel/random/poolsize")
	if err != nil {
		t.Skip(err)
	}
	size, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	s, c := sandbox("dirty-min", "50%"), aContainer("a", 2*size)
	n.created(s, c)
	file := filepath.Join(n.dir, "sys/fs/cgroup/kubepods/burstable/pod1/a/memory.dirty_min")
	if err := errors.Join(os.Remove(file), os.Symlink("/proc/sys/kernel/random/poolsize", file)); err != nil {
		t.Fatal(err)
	}
	if _, err := n.update(s, c, limited(size)); err == nil || floors(p) != fmt.Sprint(size) {
		t.Errorf("%v, it has %d, %s count", err, size, floors(p))
	}
}

// A limit that is taken away is none; one that is not named stays.
func TestLimitTakenAway(t *testing.T) {
	n, _ := loaded(t)
	s, c := sandbox("dirty-bytes", "50%"), aContainer("a", 4<<20)
	n.created(s, c)
	if _, err := n.update(s, c, limited(0)); err != nil {
		t.Error(err)
	}
	if _, err := n.update(s, c, limited(-1)); err == nil || !strings.Contains(err.Error(), "50% of the memory limit, and there is none") {
		t.Errorf("got %v", err)
	}
}

// What runs without a knob that was refused gets other CPUs all the same, and no other limit.
func TestUpdateOfWhatWasRefused(t *testing.T) {
	n := newNode(t)
	n.load()
	s, c := sandbox("dirty-min", "8M"), aContainer("a", 4<<20)
	n.pods, n.containers = []*api.PodSandbox{s}, []*api.Container{c}
	p, stop := n.plug(allowed)
	defer stop()
	n.counted(p)
	for _, r := range []*api.LinuxResources{{Cpu: &api.LinuxCPU{Cpus: "0"}}, limited(4 << 20)} { // kubelet names both.
		if _, err := n.update(s, c, r); err != nil {
			t.Error(err)
		}
	}
	if got := metric(p, "weir_nri_refused_total"); got != "0" {
		t.Errorf("%s are refused, and nothing was", got)
	}
	if _, err := n.update(s, c, limited(8<<20)); err == nil || metric(p, "weir_nri_refused_total") != "1" {
		t.Error("it is said nowhere that the wish is refused")
	}
}

// A container's owner lowers its floor, and another pod gets it: an update of the CPUs does not bring it
// back, though the OCI runtime was told of it.
func TestUpdateBringsBackNoFloorThatIsNotFree(t *testing.T) {
	for _, crun := range []bool{false, true} {
		n := newNode(t)
		n.load()
		p, stop := n.plug(allowed)
		n.counted(p)
		s, c := sandbox("dirty-min", "75%"), aContainer("a", 4<<20)
		write := func(floor string) { n.write("a/memory.dirty_min", floor) }
		if crun {
			_, write = n.crun(s, c)
		}
		given, err := n.create(s, c)
		if err != nil {
			t.Fatal(err)
		}
		write("0")
		if _, err := n.update(s, c, limited(64<<30)); err == nil || floors(p) != "" {
			t.Errorf("%v, %s count", err, floors(p))
		}
		other, young := another("late", "dirty-min", "3M")
		n.created(other, young)
		r, err := n.update(s, c, &api.LinuxResources{Cpu: &api.LinuxCPU{Cpus: "0"}})
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range r.GetUpdate() { // To what it was told before.
			maps.Copy(given, u.GetLinux().GetResources().GetUnified())
		}
		write(given["memory.dirty_min"])
		n.updated(s, c)
		if got := floors(p); got != "3145728" {
			t.Errorf("%s are reserved of 4M", got)
		}
		stop()
	}
}

// crun writes below what the plugin has filled: the floor is there once, and counts as what is there.
func TestUpdateByCrunOfWhatWasFilled(t *testing.T) {
	n := newNode(t)
	n.load()
	s, c := sandbox("dirty-min", "50%"), aContainer("a", 4<<20)
	scope, write := n.crun(s, c)
	p, stop := n.plug(allowed)
	defer stop()
	n.counted(p)
	if err := n.start(s, c); err != nil || n.file(scope+"/memory.dirty_min") != "2097152" {
		t.Fatal(err, n.file(scope+"/memory.dirty_min"))
	}
	for _, limit := range []int64{0, 8 << 20, 2 << 20} { // 0 leaves it as it is.
		before := floors(p)
		r, err := n.update(s, c, limited(limit))
		if err != nil || len(r.GetUpdate()) != 1 {
			t.Fatalf("%v, %v", r, err)
		}
		floor := r.GetUpdate()[0].GetLinux().GetResources().GetUnified()["memory.dirty_min"]
		// It may fail, and crun write nothing: then there is what was before, or what the plugin wrote.
		if got := floors(p); got != max(floor, before) {
			t.Errorf("%d: %s count, of %s and %s", limit, got, before, floor)
		}
		write(floor)
		n.updated(s, c)
		if has := n.file(scope + "/memory.dirty_min"); has != "0" || floors(p) != floor {
			t.Errorf("%d: the scope has %s, beside %s below; %s count", limit, has, floor, floors(p))
		}
	}
}

// An update fails after crun has written, of which no event tells: the floor is there once within two seconds.
func TestUpdateByCrunThatFails(t *testing.T) {
	n := newNode(t)
	n.load()
	s, c := sandbox("dirty-min", "25%"), aContainer("a", 4<<20)
	scope, write := n.crun(s, c)
	p, stop := n.plug(allowed)
	defer stop()
	n.counted(p)
	if err := n.start(s, c); err != nil || n.file(scope+"/memory.dirty_min") != "1048576" {
		t.Fatal(err, n.file(scope+"/memory.dirty_min"))
	}
	if _, err := n.update(s, c, limited(8<<20)); err != nil {
		t.Fatal(err)
	}
	p.pollModule() // Nothing is written yet.
	if has := n.file(scope + "/memory.dirty_min"); has != "2097152" || floors(p) != has {
		t.Errorf("under way: the scope has %s, %s count", has, floors(p))
	}
	write("2097152")
	p.pollModule()
	if has := n.file(scope + "/memory.dirty_min"); has != "0" || floors(p) != "2097152" {
		t.Errorf("failed: the scope has %s, beside 2097152 below; %s count", has, floors(p))
	}
}

// A node that is a container itself has a floor of the same size at its root: it is not one of crun's.
func TestUpdateBelowARootWithAFloor(t *testing.T) {
	n := newNode(t)
	n.load()
	n.write("../../../memory.dirty_min", "1048576")
	p, stop := n.plug(allowed)
	defer stop()
	n.counted(p)
	s, c := sandbox("dirty-min", "1M"), aContainer("a", 4<<20)
	n.created(s, c)
	n.updated(s, c)
	if got := n.file("a/memory.dirty_min"); got != "1048576" || floors(p) != "1048576" {
		t.Errorf("it has %s, %s count", got, floors(p))
	}
}

// A default was taken back that the plugin had filled: crun was never told of it, and what is below the
// scope is none of it.
func TestUpdateByCrunOfWhatWasTakenBack(t *testing.T) {
	n := newNode(t)
	n.load()
	s, c := sandbox("dirty-bytes", "2M"), aContainer("a", 4<<20)
	scope, _ := n.crun(s, c)
	n.write(scope+"/memory.dirty_min", "1048576")
	n.pods, n.containers = []*api.PodSandbox{s}, []*api.Container{c}
	p, stop := n.plug(allowed)
	defer stop()
	n.counted(p)
	n.updated(s, c)
	if got := n.file(scope + "/memory.dirty_min"); got != "1048576" || floors(p) != got {
		t.Errorf("it has %s, %s count", got, floors(p))
	}
}

// The pod's own limit changes after its containers', of which no event tells: a share of it follows.
func TestPodIsResized(t *testing.T) {
	n, p := loaded(t)
	log := logs(p)
	s, c := sandbox("pod.dirty-min", "25%", "dirty-bytes", "2M"), aContainer("a", 0)
	if _, err := n.create(s, c); err != nil || n.file("memory.dirty_min") != "2097152" {
		t.Fatal(err, n.file("memory.dirty_min"))
	}
	n.write("a/memory.dirty_bytes", "max")
	for _, limit := range []string{"4194304", "68719476736", "max"} { // Of the second it is refused, the third has none.
		n.write("memory.max", limit)
		p.pollModule()
		p.pollModule()
		if got := n.file("memory.dirty_min"); got != "1048576" || floors(p) != "1048576" {
			t.Errorf("of %s it has %s, %s count", limit, got, floors(p))
		}
	}
	if got := n.file("a/memory.dirty_bytes"); got != "max" {
		t.Errorf("what the owner took back is %s", got)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if strings.Count(log.String(), "not given") != 2 {
		t.Error(log)
	}
}

// A share of a default has nothing to be of until the pod is given a limit.
func TestPodGetsALimit(t *testing.T) {
	n := newNode(t)
	n.load()
	p, stop := n.plug("defaults: [{namespaces: [db], pod: {dirty-bytes: 25%}}]")
	defer stop()
	n.counted(p)
	n.write("memory.max", "max")
	if _, err := n.create(sandbox(), aContainer("a", 0)); err != nil || n.file("memory.dirty_bytes") != "max" {
		t.Fatal(err, n.file("memory.dirty_bytes"))
	}
	n.write("memory.max", "4194304")
	p.pollModule()
	if got := n.file("memory.dirty_bytes"); got != "1048576" {
		t.Error(got)
	}
}

// A container that runs without its wish, which is refused, does not keep its pod's share as it was.
func TestPodIsResizedBesideWhatWasRefused(t *testing.T) {
	n := newNode(t)
	n.load()
	s := sandbox("pod.dirty-min", "25%", "dirty-min.late", "8M")
	n.pods, n.containers = []*api.PodSandbox{s}, []*api.Container{aContainer("a", 0), aContainer("late", 0)}
	p, stop := n.plug(allowed)
	defer stop()
	n.counted(p)
	for range 10 { // Of the two one was asked, by chance.
		for limit, share := range map[string]string{"4194304": "1048576", "8388608": "2097152"} {
			n.write("memory.max", limit)
			p.pollModule()
			if got := n.file("memory.dirty_min"); got != share || floors(p) != share {
				t.Fatalf("of %s it has %s, %s count", limit, got, floors(p))
			}
		}
	}
}

// A resize that was under way when its container ended.
func TestUpdateOfWhatHasEnded(t *testing.T) {
	n, p := loaded(t)
	s, c := sandbox("dirty-min", "50%"), aContainer("a", 4<<20)
	n.created(s, c)
	n.end(s, c)
	if _, err := n.update(s, c, limited(8<<20)); err != nil || floors(p) != "" {
		t.Error(err, floors(p))
	}
}
