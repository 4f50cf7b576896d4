// SPDX-License-Identifier: GPL-2.0-only

package main

import (
	"cmp"
	"errors"
	"slices"

	"github.com/containerd/nri/pkg/api"

	"weir.dev/nri/want"
)

// errLate is the end of a connection whose Synchronize may have taken too long: containerd 1.7 then
// asks the plugin nothing any more, and does not say so.
var errLate = errors.New("the runtime hardly waited until all live pods were counted: give it a longer `plugin_request_timeout`, " +
	"in containerd's config.toml below [plugins.\"io.containerd.nri.v1.nri\"]")

// pollModule notices that the module was loaded, or loaded again, which begins with no knob set: live
// containers get theirs, and those that lack some once more, as the module makes its files one after
// the other. And that a pod has gone: a runtime that was restarted does not say so of those it had
// before.
func (p *plugin) pollModule() {
	p.mu.Lock()
	p.forgetDeadPods()
	was := p.module
	if p.synced { // Before that it is Synchronize that looks.
		p.module = p.root.ModuleID()
	}
	loaded := p.module != was && p.module != 0
	// What the module forgot is the agent's from now on.
	gone := p.auto && p.module != was && p.module == 0
	p.partial = p.partial || loaded || gone
	for _, known := range p.pods {
		for _, c := range known.containers {
			if p.stock == "" && p.module == 0 && was != 0 && p.config.WantsAnything(known.Pod, c.name) {
				p.markWithoutModule(known, c)
			}
		}
		known.warned = known.warned && p.module == 0
	}
	if p.unwritten {
		p.updateRules()
	}
	if p.synced && !loaded && !gone && (p.stock != "" || p.module != 0) {
		p.reapplyShares()
		p.checkHalfUpdated()
	}
	var lack []alive
	if p.synced && p.module != 0 {
		lack = p.pickAlive(func(c *container) bool { return c.unprotected })
	}
	p.mu.Unlock()
	if loaded || gone {
		p.log.Info("the module was loaded or unloaded: live pods get their knobs", "module", loaded)
		p.reapplyAll()
		return
	}
	for _, a := range lack {
		p.reapplyTo(a)
	}
}

// reapplyShares computes anew the shares of pods whose own memory limit has changed. NRI tells of that of
// containers alone, and kubelet shrinks a pod after them. The containers it leaves: their owner may have
// set other knobs since, and one that is refused has no say in what is for the pod.
func (p *plugin) reapplyShares() {
	for _, known := range p.pods {
		if known.limit == nil || len(known.containers) == 0 {
			continue
		}
		limit, err := p.root.MemoryLimit(known.own.at)
		if err != nil || limit == *known.limit {
			continue
		}
		// It keeps the new limit, also for what is refused: once is enough.
		g, err := p.decideGrant(known, nil, p.readFacts(known.own.at, ""))
		if err == nil {
			if p.recordGrant(known, nil, g) {
				p.updateRules()
			}
			err = p.writePodKnobs(&known.own, g.toGivePod)
		}
		if errors.Is(err, errUnprotected) {
			for _, c := range known.containers {
				p.markUnprotected(known, c, err) // pollModule tries again for one of them.
				break
			}
		} else if err != nil {
			p.log.Warn("not given to what runs", "namespace", known.Namespace, "pod", known.Name, "reason", err)
		}
		p.recordPodFloors(known, byFile)
	}
}

// checkHalfUpdated looks at updates of which no end was told. One that crun had begun to write may have failed.
func (p *plugin) checkHalfUpdated() {
	for _, known := range p.pods {
		for _, c := range known.containers {
			if c.updating {
				p.removeDoubleFloor(c)
				p.recordContainerFloors(known, c, byFileOrGiven) // It may be under way.
			}
		}
	}
}

// reapplyAll sees to it that every live container has its knobs. Between two of them the runtime gets its
// answers.
func (p *plugin) reapplyAll() {
	p.mu.Lock()
	p.forgetDeadPods()
	for _, known := range p.pods {
		if len(known.containers) > 0 {
			continue
		}
		// A default may have been taken back.
		if w, err := p.config.WantedBy(known.Pod, want.PodItself, func() (uint64, error) { return p.root.MemoryLimit(known.own.at) }); err == nil {
			if len(w.Values) == 0 {
				known.own.wishes = nil
			}
			if len(w.Times) == 0 {
				known.own.times = nil
			}
		}
		p.recordPodFloors(known, byFileOrGiven)
	}
	all := p.pickAlive(func(*container) bool { return true })
	p.mu.Unlock()
	for _, a := range all {
		p.reapplyTo(a)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.partial = false
	for _, known := range p.pods {
		for _, c := range known.containers { // What was refused may have lost what it was given.
			p.recordContainerFloors(known, c, byFile)
		}
	}
	// Also where no pod wishes for anything: the agent is not to keep what was before.
	p.updateRules()
}

// alive is a container and its sandbox.
type alive struct {
	sandbox, container string
	created            bool
}

// pickAlive returns the containers that a function picks, those first that are not started yet, and were
// allowed what they are to have. It is one order for the same pods: which of them fit into a budget
// must not depend on chance.
func (p *plugin) pickAlive(picks func(c *container) bool) []alive {
	var all []alive
	for sandbox, known := range p.pods {
		for id, c := range known.containers {
			if picks(c) {
				all = append(all, alive{sandbox, id, c.state == api.ContainerState_CONTAINER_CREATED})
			}
		}
	}
	slices.SortFunc(all, func(a, b alive) int {
		if a.created != b.created {
			return cmp.Compare(boolAsNumber(b.created), boolAsNumber(a.created))
		}
		return cmp.Compare(a.container, b.container)
	})
	return all
}

// reapplyTo sees to one container's knobs, if it is still alive.
func (p *plugin) reapplyTo(a alive) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.pods[a.sandbox]
	if known == nil || known.containers[a.container] == nil {
		return
	}
	c := known.containers[a.container]
	values, err := p.grantKnobs(known, c, c.limit)
	if errors.Is(err, errUnprotected) {
		return
	}
	if err != nil {
		// It keeps what it has, and lacks nothing that it may have.
		p.log.Warn("not given to what runs", "reason", err)
		c.unprotected = false
		return
	}
	if known.withAgent {
		c.unprotected = false
		return // It is for the agent to set.
	}
	if err = p.writeUnsetKnobs(c, values); isGone(err) && c.state == api.ContainerState_CONTAINER_CREATED {
		// It has no cgroup before it starts. What it was allowed it will have then.
		c.given = values
	} else if err != nil {
		p.markUnprotected(known, c, err)
	}
	p.recordContainerFloors(known, c, byFile)
}
