// SPDX-License-Identifier: GPL-2.0-only

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"

	"weir.dev/nri/want"
)

// Without the module the agent is told what pods are to have, and the runtime nothing.
func TestStock(t *testing.T) {
	n := newNode(t)
	file := filepath.Join(n.dir, "run/pods.toml")
	p, stop := n.plugAs(allowed, file)
	defer stop()
	says := func() string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, rules, _ := strings.Cut(string(text), "\n")
		return rules
	}
	n.soon("the rules are written", func() bool {
		_, err := os.Stat(file)
		return err == nil
	})
	if got := says(); got != "" {
		t.Errorf("no pod wishes for anything: %s", got)
	}
	s := sandbox("dirty-min", "1M", "dirty-bytes", "50%", "pod.dirty-bytes", "8M")
	c := aContainer("a1", 4<<20)
	got, err := n.create(s, c)
	if err != nil {
		t.Fatal(err)
	}
	n.wants(got)
	pod := "[[rule]]\ncgroup = \"/kubepods/burstable/pod1\"\nset = { \"memory.dirty_bytes\" = \"8388608\" }\n"
	one := func(bytes string) string {
		return "[[rule]]\ncgroup = \"/kubepods/burstable/pod1/*a1*\"\n" +
			"set = { \"memory.dirty_min\" = \"1048576\", \"memory.dirty_bytes\" = \"" + bytes + "\" }\n"
	}
	if got := says(); got != pod+one("2097152") {
		t.Errorf("got %s", got)
	}
	// A share follows the container's limit.
	r, err := n.update(s, c, limited(2<<20))
	if err != nil || len(r.GetUpdate()) != 0 && len(r.GetUpdate()[0].GetLinux().GetResources().GetUnified()) != 0 {
		t.Fatalf("%v, %v", r, err)
	}
	if got := says(); got != pod+one("1048576") {
		t.Errorf("got %s", got)
	}
	// What is not allowed is refused as ever, and no container is unprotected.
	if _, err = n.create(sandbox("dirty-min", "4M"), aContainer("b", 0)); err == nil {
		t.Error("the namespace's floors would be 5M")
	}
	if !strings.Contains(p.metricsText(), "weir_nri_unprotected_pods 0\n") {
		t.Error(p.metricsText())
	}
	n.stopped(s)
	n.soon("the pod is gone", func() bool { return says() == "" })
}

// What was refused does not count, and what was allowed starts whatever is allowed by now.
func TestStockBudget(t *testing.T) {
	n := newNode(t)
	file := filepath.Join(n.dir, "pods.toml")
	forbidden := aContainer("a", 0)
	n.pods, n.containers = []*api.PodSandbox{sandbox("dirty-min", "1T")}, []*api.Container{forbidden}
	p, stop := n.plugAs(allowed, file)
	defer stop()
	n.soon("the rules are written", func() bool {
		_, err := os.Stat(file)
		return err == nil
	})
	if got := floors(p); got != "" {
		t.Errorf("it counts %s", got)
	}
	s, c := sandbox("dirty-min", "3M"), aContainer("b", 0)
	s.Id, s.Uid, c.PodSandboxId = "s2", "2", "s2"
	n.created(s, c)
	less, err := want.Parse("config", []byte("allow: [{namespaces: [db], namespace-floor: 1M}]"))
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	p.config = less
	p.mu.Unlock()
	if err := n.start(s, c); err != nil {
		t.Error(err)
	}
	if got := floors(p); got != "3145728" || !strings.Contains(p.metricsText(), "weir_nri_adjusted_total 1\n") {
		t.Error(got, p.metricsText())
	}
}

// hasRule says whether the agent is told of a cgroup below pods.
func hasRule(t *testing.T, file, cgroup string) bool {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(text), "/kubepods/burstable/"+cgroup+"\"\n")
}

// What has a rule keeps it, and no more than that, beside what came while the plugin was away, and
// whatever is allowed by now: over another connection, and another plugin.
func TestStockKeepsRules(t *testing.T) {
	less := "allow: [{namespaces: [db], namespace-floor: 2M}]"
	weighty := "allow: [{namespaces: [db], namespace-floor: 4M, pod-weight: 200}]"
	for _, c := range []struct {
		old           []string
		limit         int64
		young         string
		before, after string
		rule, floors  string
	}{
		{[]string{"dirty-min", "3M"}, 0, "3M", allowed, allowed, "old/*z*", "3145728"},
		{[]string{"dirty-min", "3M"}, 0, "1T", allowed, allowed, "old/*z*", "3145728"},
		{[]string{"dirty-min", "3M"}, 0, "2M", allowed, less, "old/*z*", "3145728"},
		{[]string{"pod.dirty-min", "3M"}, 0, "3M", allowed, allowed, "old", "3145728"},
		{[]string{"pod.dirty-min", "3M"}, 0, "2M", allowed, less, "old", "3145728"},
		{[]string{"dirty-min", "3M", "pod.dirty-weight", "200"}, 0, "2M", weighty, allowed, "old/*z*", "3145728"},
		// Its limit grew beyond all that is allowed.
		{[]string{"dirty-min", "50%"}, 64 << 30, "3M", allowed, allowed, "old/*z*", "2097152"},
	} {
		for _, again := range []bool{false, true} {
			n := newNode(t)
			file := filepath.Join(n.dir, "pods.toml")
			p, stop := n.plugAs(c.before, file)
			n.counted(p)
			s, old := another("z", c.old...)
			s.Linux.CgroupParent = "/kubepods/burstable/old"
			old.Linux.Resources = limited(4 << 20)
			n.created(s, old)
			stop()
			newer, young := another("a", "dirty-min", c.young)
			newer.Linux.CgroupParent = "/kubepods/burstable/young"
			if c.limit > 0 {
				old.Linux.Resources = limited(c.limit)
			}
			n.pods, n.containers = []*api.PodSandbox{newer, s}, []*api.Container{young, old}
			if again {
				p.config = n.plugin(c.after, file).config
				stop = n.connect(p)
			} else {
				p, stop = n.plugAs(c.after, file)
			}
			n.counted(p)
			if got := floors(p); got != c.floors || !hasRule(t, file, c.rule) || hasRule(t, file, "young/*a*") {
				text, _ := os.ReadFile(file)
				t.Errorf("%v: floors of %s, %s", c, got, text)
			}
			stop()
		}
	}
}

// Its only container has ended, and kubelet waits before the next: the rule of the pod's own stays.
func TestStockPodWithoutContainers(t *testing.T) {
	n := newNode(t)
	file := filepath.Join(n.dir, "pods.toml")
	p, stop := n.plugAs(allowed, file)
	n.counted(p)
	s, c := sandbox("pod.dirty-min", "3M"), aContainer("a", 0)
	n.created(s, c)
	n.end(s, c)
	stop()
	n.make("kubepods/burstable/pod1")
	n.pods, n.containers = []*api.PodSandbox{s}, nil
	p, stop = n.plugAs(allowed, file)
	defer stop()
	n.counted(p)
	if got := floors(p); got != "3145728" || !hasRule(t, file, "pod1") {
		t.Error(got)
	}
}

// What the node's owner takes back goes, and so does the rule of a pod's dead sandbox beside its live one.
func TestStockTakenBack(t *testing.T) {
	n := newNode(t)
	file := filepath.Join(n.dir, "pods.toml")
	p, stop := n.plugAs("defaults: [{set: {dirty-min: 3M}, pod: {dirty-bytes: 8M}}]", file)
	n.counted(p)
	s, c := sandbox(), aContainer("a", 0)
	dead, _ := another("dead")
	dead.Uid = s.Uid
	n.created(s, c)
	if !hasRule(t, file, "pod1") || !hasRule(t, file, "pod1/*a*") {
		t.Error("it has no rules")
	}
	n.make("kubepods/burstable/pod1")
	stop()
	n.pods = []*api.PodSandbox{dead, s}
	p, stop = n.plugAs(allowed, file)
	defer stop()
	n.counted(p)
	if got := floors(p); got != "" || hasRule(t, file, "pod1") || hasRule(t, file, "pod1/*a*") {
		t.Errorf("it counts %s", got)
	}
	n.end(s, c)
	if hasRule(t, file, "pod1") {
		t.Error("the dead one's is back")
	}
}

// A pod between two containers: the default for its own cgroup goes, whatever else is for its containers.
func TestStockTakenBackBetweenContainers(t *testing.T) {
	const set, pod = "{set: {dirty-bytes: 8M}}", "{pod: {dirty-min: 3M}}"
	for _, c := range []struct {
		s             *api.PodSandbox
		before, after string
	}{
		{sandbox(), "defaults: [" + set + ", " + pod + "]", "defaults: [" + set + "]"},
		{sandbox("dirty-bytes", "8M"), "defaults: [" + pod + "]", ""},
	} {
		n := newNode(t)
		file := filepath.Join(n.dir, "pods.toml")
		n.make("kubepods/burstable/pod1")
		p, stop := n.plugAs(c.before, file)
		n.counted(p)
		one := aContainer("a", 0)
		n.created(c.s, one)
		n.end(c.s, one)
		n.containers = nil
		stop()
		if !hasRule(t, file, "pod1") {
			t.Error("it has no rule")
		}
		p, stop = n.plugAs(c.after, file)
		n.counted(p)
		if got := floors(p); got != "" || hasRule(t, file, "pod1") {
			t.Errorf("%s: it counts %s", c.after, got)
		}
		stop()
	}
}

// A rule of a pod's own share follows the pod's limit.
func TestStockPodIsResized(t *testing.T) {
	n := newNode(t)
	file := filepath.Join(n.dir, "pods.toml")
	n.make("kubepods/burstable/pod1")
	p, stop := n.plugAs(allowed, file)
	defer stop()
	n.counted(p)
	if _, err := n.create(sandbox("pod.dirty-min", "25%"), aContainer("a", 0)); err != nil || floors(p) != "2097152" {
		t.Fatal(err, floors(p))
	}
	n.write("memory.max", "4194304")
	p.pollModule()
	if text, err := os.ReadFile(file); err != nil || floors(p) != "1048576" || !strings.Contains(string(text), `"memory.dirty_min" = "1048576"`) {
		t.Errorf("%v, %s count, %s", err, floors(p), text)
	}
}

// kubelet makes another sandbox for a pod: the dead one has no rule beside it, nor gets it back.
func TestStockAnotherSandbox(t *testing.T) {
	n := newNode(t)
	file := filepath.Join(n.dir, "pods.toml")
	n.make("kubepods/burstable/pod1")
	p, stop := n.plugAs("defaults: [{pod: {dirty-bytes: 8M}}]", file)
	defer stop()
	n.counted(p)
	s, c := sandbox(), aContainer("a", 0)
	n.created(s, c)
	n.end(s, c)
	newer, next := another("next")
	newer.Uid = s.Uid
	n.created(newer, next)
	if text, err := os.ReadFile(file); err != nil || strings.Count(string(text), "[[rule]]") != 1 {
		t.Errorf("%v, %s", err, text)
	}
	n.end(newer, next)
	if text, err := os.ReadFile(file); err != nil || strings.Count(string(text), "[[rule]]") != 1 {
		t.Errorf("%v, when it has ended %s", err, text)
	}
}

// A default is changed beside a dead sandbox: there is one rule for the cgroup that both have. The pod has
// two containers, as the first one of a pod has its dead sandbox forgotten when it is looked at.
func TestStockChangedBesideADeadSandbox(t *testing.T) {
	n := newNode(t)
	file := filepath.Join(n.dir, "pods.toml")
	n.make("kubepods/burstable/pod1")
	p, stop := n.plugAs("defaults: [{pod: {dirty-bytes: 8M}}]", file)
	n.counted(p)
	s := sandbox()
	for _, id := range []string{"a", "b"} {
		n.created(s, aContainer(id, 0))
	}
	stop()
	dead, _ := another("dead")
	dead.Uid = s.Uid
	n.pods = []*api.PodSandbox{dead, s}
	p, stop = n.plugAs("defaults: [{pod: {dirty-bytes: 4M}}]", file)
	defer stop()
	n.counted(p)
	if text, err := os.ReadFile(file); err != nil || strings.Count(string(text), "[[rule]]") != 1 || !strings.Contains(string(text), "4194304") {
		t.Errorf("%v, %s", err, text)
	}
}

// Pods that crictl made without a UID are not one.
func TestStockPodsWithoutUID(t *testing.T) {
	n := newNode(t)
	file := filepath.Join(n.dir, "pods.toml")
	n.make("kubepods/burstable/pod1")
	p, stop := n.plugAs(allowed, file)
	defer stop()
	n.counted(p)
	s, c := sandbox("pod.dirty-bytes", "8M"), aContainer("a", 0)
	other, young := another("b", "pod.dirty-bytes", "8M")
	s.Uid, other.Uid, other.Linux.CgroupParent = "", "", "/kubepods/burstable/pod2"
	n.created(s, c)
	n.end(s, c)
	n.created(other, young)
	if !hasRule(t, file, "pod1") || !hasRule(t, file, "pod2") {
		t.Error("one is taken for the other")
	}
}

// A Synchronize that took too long: the agent gets the rules of those that live all the same.
func TestStockTooLate(t *testing.T) {
	n := newNode(t)
	file := filepath.Join(n.dir, "pods.toml")
	p := n.plugin(allowed, file)
	ended := make(chan error)
	go func() { ended <- p.serveConnection(context.Background(), n.socket(), "50") }()
	n.counted(p)
	s, c := another("a", "dirty-min", "3M")
	if _, err := p.Synchronize(hurried{context.Background()}, []*api.PodSandbox{s}, []*api.Container{c}); !errors.Is(err, errLate) {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, errLate) || !hasRule(t, file, "pod1/*a*") {
		t.Error(err, hasRule(t, file, "pod1/*a*"))
	}
}

// The agent's file cannot be written: pods start all the same, and it shows, until it can.
func TestStockUnwritten(t *testing.T) {
	n := newNode(t)
	dir := filepath.Join(n.dir, "run")
	file := filepath.Join(dir, "pods.toml")
	p, stop := n.plugAs(allowed, file)
	n.counted(p)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s, c := another("z", "dirty-min", "3M")
	if _, err := n.create(s, c); err != nil {
		t.Error(err)
	}
	if got := unprotected(p); got != "1" {
		t.Errorf("%s pods lack something", got)
	}
	// Its wish is known, over another connection, too.
	stop()
	newer, young := another("a", "dirty-min", "3M")
	n.pods, n.containers = []*api.PodSandbox{newer, s}, []*api.Container{young, c}
	stop = n.connect(p)
	defer stop()
	n.counted(p)
	if got := floors(p); got != "3145728" {
		t.Error(got)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	n.soon("it is written", func() bool { return unprotected(p) == "0" })
	if !hasRule(t, file, "pod1/*z*") || hasRule(t, file, "pod1/*a*") {
		t.Error("another one has a rule")
	}
}
