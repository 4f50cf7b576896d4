// SPDX-License-Identifier: GPL-2.0-only

package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/containerd/nri/pkg/api"

	"weir.dev/nri/knob"
	"weir.dev/nri/want"
)

// node decides what pods are to have, from what it was told of them and from facts that it is handed: it reads
// and writes no file, and calls nothing of the runtime's. The plugin's lock is held.
type node struct {
	config *want.Config
	// pods are those that are alive, by the id of their sandbox.
	pods   map[string]*pod
	budget want.Budget
	counts counts
	// stock is the file for the agent's rules on a node that allows no module; empty on others.
	stock string
	// auto says that the node may get the module: pods that begin without it are the agent's until they end,
	// which then keeps their rules by the module; pods that begin with it are the plugin's.
	auto bool
	// times is the file for what the agent keeps on others: values in time. Empty if no agent reads one.
	times string
	// partial says that not all pods were looked at since the runtime told what is alive, or since the module
	// was loaded, so that the agent's rules stay as they are.
	partial bool
}

// facts are what the host shows of a pod, and of a container of it, at one moment.
type facts struct {
	hasModule       bool
	podFloor, floor floorFile
	// podLimit and limit are their memory limits in bytes, 0 for none.
	podLimit, limit uint64
	podLimitError   error
}

// floorFile is what a cgroup's file says that it reserves, if there is one.
type floorFile struct {
	bytes   uint64
	isThere bool
}

// grant is what a container and its pod were allowed, with floors that are there.
type grant struct {
	want.Request
	// toGive and toGivePod are for the plugin to set: in the container what it wishes for, in the pod's own
	// cgroup what it is to have. nil where the agent sets them.
	toGive, toGivePod want.Values
}

// errUnprotected is that a container goes without what is wished for, which was noted.
var errUnprotected = errors.New("not all knobs could be set")

// startsPodsWithAgent says whether the agent keeps what pods are to have, whenever they began.
func (n *node) startsPodsWithAgent() bool {
	return n.stock != "" && !n.auto
}

// openContainer notes a container that is created or started. Those that it comes after are forgotten: one of
// the same name is dead, whether or not its end was told, as that of one that failed to start is not.
func (n *node) openContainer(s *api.PodSandbox, c *api.Container, state api.ContainerState) (*pod, *container) {
	known := n.pods[s.GetId()]
	if known == nil {
		known = newPod(s, n.startsPodsWithAgent())
		n.pods[s.GetId()] = known
	}
	known.Annotations = s.GetAnnotations()
	next := newContainer(c)
	next.state = state
	for id, other := range known.containers {
		if id == next.id {
			next.given, next.wishes, next.times = other.given, other.wishes, other.times
			next.unprotected, next.updating = other.unprotected, other.updating
		} else if other.name == next.name {
			n.forgetContainer(known, id)
		}
	}
	known.containers[next.id] = next
	return known, next
}

// decideGrant says what a container of a pod and the pod's own cgroup are to have; without a container, what the pod's
// own is to have. It is an error if they may not.
func (n *node) decideGrant(known *pod, c *container, f facts) (grant, error) {
	g := grant{Request: want.Request{Pod: known.uid, Sandbox: known.sandbox}}
	if c != nil {
		known.withAgent = known.withAgent || n.auto && !f.hasModule
		if !f.hasModule && !known.withAgent {
			return grant{}, errUnprotected
		}
		g.Container = c.id
	}
	var err error
	g.OfPod, err = n.config.WantedBy(known.Pod, want.PodItself, func() (uint64, error) {
		known.limit = &f.podLimit
		return f.podLimit, f.podLimitError
	})
	if err == nil && c != nil {
		g.OfContainer, err = n.config.WantedBy(known.Pod, c.name, func() (uint64, error) { return f.limit, nil })
	}
	if err != nil {
		return grant{}, err
	}
	if !known.withAgent { // The agent takes back what is not wished for any more.
		g.toGive = g.OfContainer.Values
		g.OfPod.KeepFloor(f.podFloor.bytes)
		g.OfContainer.KeepFloor(f.floor.bytes)
		g.toGivePod = g.OfPod.Values
	}
	if err := n.budget.CheckAllowed(n.config, known.Pod, g.Request); err != nil {
		return g, err
	}
	if len(g.OfPod.Values)+len(g.OfPod.Times) > 0 && known.own.at == "" {
		return g, fmt.Errorf("the runtime names no cgroup for the pod, so it cannot have what %spod.* asks for", want.Prefix)
	}
	for _, times := range []want.Times{g.OfContainer.Times, g.OfPod.Times} {
		for k, time := range times {
			if n.rulesFile() == "" {
				return g, fmt.Errorf("%s of %s: the agent follows what disks write in a time, and weir-nri runs without one here: give both the same file (weir-nri -times, weir agent --pods)",
					k.File, time)
			}
		}
	}
	return g, nil
}

// recordGrant notes what was decided, before the pod's files are written, and says whether the agent's rules change.
func (n *node) recordGrant(known *pod, c *container, g grant) bool {
	changes := known.own.setTimes(g.OfPod.Times)
	if c != nil {
		changes = c.setTimes(g.OfContainer.Times) || changes
	}
	n.budget.RecordFloors(known.Pod, g.Request)
	if !known.withAgent {
		return changes
	}
	known.own.wishes = g.OfPod.Values
	if c != nil {
		c.wishes = g.OfContainer.Values
	}
	if !n.partial {
		n.counts.adjusted++
	}
	return true
}

// forgetWishes takes back what a container without any wish had by a default that is no more, and says whether
// that changes what is reserved.
func (n *node) forgetWishes(known *pod, c *container) bool {
	had := known.own.wishes != nil || c.wishes != nil
	known.own.times, c.times = nil, nil
	known.own.wishes, c.wishes = nil, nil
	return had
}

// recordGiven keeps what the runtime is told that a container has from now on.
func (n *node) recordGiven(c *container, values want.Values) {
	n.counts.adjusted++
	c.given = values
}

// countRefusal counts and returns an error that the runtime is told, which ends what it was about to do.
// A container that runs already is refused nothing: with each connection it would count again.
func (n *node) countRefusal(why error) error {
	n.counts.refused++
	return why
}

// forgetContainer forgets a container, and what it reserved.
func (n *node) forgetContainer(known *pod, id string) {
	n.budget.ReleaseFloors(known.uid, known.sandbox, id)
	delete(known.containers, id)
}

// forgetPod forgets a sandbox with its containers, and what they reserved.
func (n *node) forgetPod(known *pod) {
	n.budget.ReleaseFloors(known.uid, known.sandbox, "")
	delete(n.pods, known.sandbox)
}

// findSuccessor returns another sandbox of the same pod that has containers; nil if there is none. crictl's pods may
// have no UID, any of them.
func (n *node) findSuccessor(known *pod) *pod {
	for _, other := range n.pods {
		if other != known && len(other.containers) > 0 && other.uid == known.uid && other.own.at == known.own.at {
			return other
		}
	}
	return nil
}

// byFile and byFileOrGiven say what a container reserves, from the floor that its file holds and the
// one that it was given: the second where the file may have lost it, because the module was reloaded.
func byFile(file, _ uint64) uint64            { return file }
func byFileOrGiven(file, given uint64) uint64 { return max(file, given) }

// countingRule returns how a cgroup counts that was not looked at just now. A module that was loaded anew knows of no
// floor until all were looked at, and what one is to get back is not free.
func (n *node) countingRule() func(file, given uint64) uint64 {
	if n.partial {
		return byFileOrGiven
	}
	return byFile
}

// reservedBy returns what a cgroup of a pod's reserves. Where there is no file, yet, it is what it was given. On a
// node without the module it is what the agent was told.
func (n *node) reservedBy(known *pod, t *target, file floorFile, which func(file, given uint64) uint64) want.Values {
	if known.withAgent {
		return t.wishes
	}
	given := t.given.Floor()
	if !file.isThere {
		file.bytes = given
	}
	return want.Values{knob.DirtyMin: which(file.bytes, given)}
}

// countFloors notes what a live container and its pod reserve; without a container, what the pod's own cgroup does.
func (n *node) countFloors(known *pod, c *container, f facts, which func(file, given uint64) uint64) {
	r := want.Request{Pod: known.uid, Sandbox: known.sandbox}
	r.OfPod.Values = n.reservedBy(known, &known.own, f.podFloor, which)
	if c != nil {
		r.Container = c.id
		r.OfContainer.Values = n.reservedBy(known, &c.target, f.floor, which)
	}
	n.budget.RecordFloors(known.Pod, r)
}

// rulesFile is where rules for the agent are written down; empty if no agent reads one.
func (n *node) rulesFile() string {
	if n.stock != "" {
		return n.stock
	}
	return n.times
}

// rulesText is what the agent is to keep for all live pods, as a policy file.
func (n *node) rulesText() string {
	var text strings.Builder
	text.WriteString("# What live pods are to have. Written by weir-nri, read by the agent.\n")
	add := func(cgroup string, t *target) {
		if len(t.wishes)+len(t.times) > 0 {
			fmt.Fprintf(&text, "[[rule]]\ncgroup = %q\nset = { %s }\n", cgroup, formatSet(t.wishes, t.times))
		}
	}
	for _, sandbox := range slices.Sorted(maps.Keys(n.pods)) {
		known := n.pods[sandbox]
		if known.own.at == "" {
			continue
		}
		add(known.own.at, &known.own)
		for _, id := range slices.Sorted(maps.Keys(known.containers)) {
			add(known.own.at+globBelowPod(id), &known.containers[id].target)
		}
	}
	return text.String()
}
