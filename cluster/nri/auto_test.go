// SPDX-License-Identifier: GPL-2.0-only

package main

import (
	"path/filepath"
	"testing"

	"github.com/containerd/nri/pkg/api"
)

// plugAuto starts a plugin for a node that may get the module; the function ends it.
func (n *testNode) plugAuto(file string) (*plugin, func()) {
	p := n.plugin(allowed, file)
	p.auto = true
	return p, n.connect(p)
}

// A pod that began without the module stays with the agent, whose rule the module keeps once it is there; one that
// begins with it has its knobs from the plugin. No request is lost on the way, nor kept by both.
func TestAutoChangesOver(t *testing.T) {
	n := newNode(t)
	file := filepath.Join(n.dir, "pods.toml")
	p, stop := n.plugAuto(file)
	n.counted(p)
	old, before := another("z", "dirty-min", "1M", "pod.dirty-bytes", "8M")
	old.Linux.CgroupParent = "/kubepods/burstable/old"
	got, err := n.create(old, before)
	if err != nil {
		t.Fatal(err)
	}
	n.wants(got)
	if !hasRule(t, file, "old") || !hasRule(t, file, "old/*z*") || unprotected(p) != "0" {
		t.Errorf("without the module the agent has no rule, %s unprotected", unprotected(p))
	}

	n.load()
	n.soon("the module is seen", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return p.module != 0 && !p.partial })
	if !hasRule(t, file, "old") || !hasRule(t, file, "old/*z*") {
		t.Error("the change took the pod's rules")
	}
	newer, young := another("a", "dirty-min", "2M")
	if got, err = n.create(newer, young); err != nil {
		t.Fatal(err)
	}
	n.wants(got, "dirty_min", "2097152")
	if hasRule(t, file, "pod1/*a*") || floors(p) != "3145728" {
		t.Errorf("two keepers for a pod, or floors of %s", floors(p))
	}
	// A container that is made anew in the old pod is the agent's, too.
	again, next := another("y", "dirty-min", "1M", "pod.dirty-bytes", "8M")
	again.Id, again.Linux, next.PodSandboxId = old.Id, old.Linux, old.Id
	again.Uid = old.Uid
	next.Name = before.Name
	if got, err = n.create(again, next); err != nil || len(got) != 0 || !hasRule(t, file, "old/*y*") {
		t.Errorf("%v, %v", got, err)
	}

	// Another plugin, as after an upgrade, knows which pods are whose.
	stop()
	n.pods, n.containers = []*api.PodSandbox{old, newer}, []*api.Container{next, young}
	p, stop = n.plugAuto(file)
	defer stop()
	n.counted(p)
	if !hasRule(t, file, "old/*y*") || hasRule(t, file, "pod1/*a*") || floors(p) != "3145728" {
		t.Errorf("after a restart floors of %s", floors(p))
	}

	// Without the module all are the agent's.
	n.unload()
	n.soon("the agent has the newer pod's rule", func() bool { return hasRule(t, file, "pod1/*a*") })
	if !hasRule(t, file, "old/*y*") || unprotected(p) != "0" {
		t.Errorf("%s pods are unprotected", unprotected(p))
	}
}
