// SPDX-License-Identifier: GPL-2.0-only

package main

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/containerd/nri/pkg/api"

	"weir.dev/nri/knob"
	"weir.dev/nri/want"
)

// errLate is the end of a connection whose Synchronize may have taken too long: containerd 1.7 then
// asks the plugin nothing any more, and does not say so.
var errLate = errors.New("the runtime hardly waited until all live pods were counted: give it a longer `plugin_request_timeout`, " +
	"in containerd's config.toml below [plugins.\"io.containerd.nri.v1.nri\"]")

// Synchronize learns what is alive, after a start of the plugin's or of the runtime's. What has a
// floor keeps it and counts, whatever is allowed by now. What was started meanwhile gets its knobs,
// as far as they are allowed, when the runtime has its answer; a running container is not ended for
// a wish.
func (p *plugin) Synchronize(ctx context.Context, pods []*api.PodSandbox, containers []*api.Container) ([]*api.ContainerUpdate, error) {
	deadline, hurry := ctx.Deadline()
	// Some of it is for the way of the answer.
	latest := deadline.Add(-time.Until(deadline) / 4)
	// The deadline counts from where the question was read, at the runtime from where it was asked.
	latest = latest.Add(-p.timeUnread())
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := ctx.Err(); err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			p.connection.endWith(errLate)
		}
		return nil, err
	}
	was, rules := p.live, p.readRules()
	p.live = map[string]*pod{}
	p.budget = want.Budget{}
	for _, s := range pods {
		known := newPod(s)
		known.inheritFrom(was[s.GetId()], own, rules[pathOf(s)])
		p.live[s.GetId()] = known
		p.countPod(known, byFileOrGiven)
	}
	// What the runtime does not list has no container, but its pod's cgroup may be there, with its floor.
	for id, before := range was {
		if p.live[id] == nil && p.root.Exists(pathOf(before.sandbox)) {
			known := newPod(before.sandbox)
			known.inheritFrom(before, own, rules[pathOf(before.sandbox)])
			if p.reservedBy(known, own, pathOf(before.sandbox), byFileOrGiven).Floor() > 0 {
				p.live[id] = known
				p.countPod(known, byFileOrGiven)
			}
		}
	}
	// What runs comes first: the runtime may list one that never started, and the one after it.
	slices.SortStableFunc(containers, func(a, b *api.Container) int {
		return cmp.Compare(b.GetState(), a.GetState())
	})
	for _, c := range containers {
		known := p.live[c.GetPodSandboxId()]
		if known == nil || known.hasContainer(c.GetName()) || c.GetState() == api.ContainerState_CONTAINER_STOPPED {
			continue
		}
		known.containers[c.GetId()] = c
		known.inheritFrom(was[c.GetPodSandboxId()], c.GetId(), rules[pathOf(known.sandbox)+belowPod(c.GetId())])
		p.countContainer(known.sandbox, c, byFileOrGiven)
	}
	p.module = p.root.ModuleID()
	p.partial = true
	p.log.Info("synchronized", "pods", len(pods), "containers", len(containers), "module", p.module != 0)
	if hurry && time.Now().After(latest) {
		p.connection.endWith(errLate)
		return nil, errLate
	}
	p.synced = true
	p.connection.markLearnt()
	return nil, nil
}

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
	for _, known := range p.live {
		for _, c := range known.containers {
			if p.stock == "" && p.module == 0 && was != 0 && p.config.WantsAnything(describePod(known.sandbox), c.GetName()) {
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
		lack = p.pickAlive(func(known *pod, container string) bool { return known.unprotected[container] })
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
	for _, known := range p.live {
		if known.limit == nil || len(known.containers) == 0 {
			continue
		}
		s := known.sandbox
		limit, err := p.root.MemoryLimit(pathOf(s))
		if err != nil || limit == *known.limit {
			continue
		}
		r := want.Request{Pod: s.GetUid(), Sandbox: s.GetId()}
		// It keeps the new limit, also for what is refused: once is enough.
		if r.OfPod, err = p.wishOfPod(s); err == nil {
			err = p.reserveAndApply(s, r)
		}
		if errors.Is(err, errUnprotected) {
			for _, c := range known.containers {
				p.markUnprotected(known, c, err) // pollModule tries again for one of them.
				break
			}
		} else if err != nil {
			p.log.Warn("not given to what runs", "namespace", s.GetNamespace(), "pod", s.GetName(), "reason", err)
		}
		p.countPod(known, byFile)
	}
}

// reapplyAll sees to it that every live container has its knobs. Between two of them the runtime gets its
// answers.
func (p *plugin) reapplyAll() {
	p.mu.Lock()
	p.forgetDeadPods()
	for _, known := range p.live {
		if len(known.containers) > 0 {
			continue
		}
		if w, err := p.wishOfPod(known.sandbox); err == nil { // A default may have been taken back.
			if len(w.Values) == 0 {
				delete(known.wishes, own)
			}
			if len(w.Times) == 0 {
				delete(known.times, own)
			}
		}
		p.countPod(known, byFileOrGiven)
	}
	all := p.pickAlive(func(*pod, string) bool { return true })
	p.mu.Unlock()
	for _, a := range all {
		p.reapplyTo(a)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.partial = false
	for _, known := range p.live {
		for _, c := range known.containers { // What was refused may have lost what it was given.
			p.countContainer(known.sandbox, c, byFile)
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
func (p *plugin) pickAlive(picks func(known *pod, container string) bool) []alive {
	var all []alive
	for sandbox, known := range p.live {
		for container, c := range known.containers {
			if picks(known, container) {
				all = append(all, alive{sandbox, container, c.GetState() == api.ContainerState_CONTAINER_CREATED})
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
	known := p.live[a.sandbox]
	if known == nil || known.containers[a.container] == nil {
		return
	}
	c := known.containers[a.container]
	values, err := p.decideValues(known.sandbox, c, limitOf(resourcesOf(c)))
	if errors.Is(err, errUnprotected) {
		return
	}
	if err != nil {
		// It keeps what it has, and lacks nothing that it may have.
		p.log.Warn("not given to what runs", "reason", err)
		delete(known.unprotected, a.container)
		return
	}
	if p.isForAgent(known) {
		delete(known.unprotected, a.container)
		return // It is for the agent to set.
	}
	if err = p.fillUnset(known.sandbox, c, values); isGone(err) && c.GetState() == api.ContainerState_CONTAINER_CREATED {
		// It has no cgroup before it starts. What it was allowed it will have then.
		known.given[a.container] = values
	} else if err != nil {
		p.markUnprotected(known, c, err)
	}
	p.countContainer(known.sandbox, c, byFile)
}

// byFile and byFileOrGiven say what a container reserves, from the floor that its file holds and the
// one that it was given: the second where the file may have lost it, because the module was reloaded.
func byFile(file, _ uint64) uint64            { return file }
func byFileOrGiven(file, given uint64) uint64 { return max(file, given) }

// countingRule returns how a cgroup counts that was not looked at just now. A module that was loaded anew knows of no
// floor until all were looked at, and what one is to get back is not free.
func (p *plugin) countingRule() func(file, given uint64) uint64 {
	if p.partial {
		return byFileOrGiven
	}
	return byFile
}

// countContainer notes what a live container and its pod reserve. Where there is no file, yet, it is what they
// were given. On a node without the module it is what the agent was told.
func (p *plugin) countContainer(s *api.PodSandbox, c *api.Container, which func(file, given uint64) uint64) {
	known := p.live[s.GetId()]
	r := want.Request{Pod: s.GetUid(), Sandbox: s.GetId(), Container: c.GetId()}
	r.OfPod.Values = p.reservedBy(known, own, pathOf(s), which)
	r.OfContainer.Values = p.reservedBy(known, c.GetId(), cgroupOf(c), which)
	p.budget.Record(describePod(s), r)
}

// countPod notes what a pod's own cgroup reserves, for one without a live container.
func (p *plugin) countPod(known *pod, which func(file, given uint64) uint64) {
	s := known.sandbox
	r := want.Request{Pod: s.GetUid(), Sandbox: s.GetId()}
	r.OfPod.Values = p.reservedBy(known, own, pathOf(s), which)
	p.budget.Record(describePod(s), r)
}

// reservedBy returns what a cgroup of a pod's reserves: a container's, or as `own` the pod's.
func (p *plugin) reservedBy(known *pod, key, at string, which func(file, given uint64) uint64) want.Values {
	if p.isForAgent(known) {
		return known.wishes[key]
	}
	given := known.given[key].Floor()
	return want.Values{knob.DirtyMin: which(p.root.FloorOr(at, given), given)}
}

// inheritFrom takes over what was known of a container before, or as `own` of the pod; and the rule that
// the agent has for it.
func (known *pod) inheritFrom(before *pod, key string, kept rule) {
	if len(kept.values) > 0 {
		known.wishes[key] = kept.values
		known.withAgent = true
	}
	if len(kept.times) > 0 {
		known.times[key] = kept.times
	}
	if before == nil {
		return
	}
	known.warned = before.warned
	known.withAgent = known.withAgent || before.withAgent
	if given := before.given[key]; given != nil {
		known.given[key] = given
	}
	if wish := before.wishes[key]; wish != nil {
		known.wishes[key] = wish
	}
	if times := before.times[key]; times != nil {
		known.times[key] = times
	}
	if before.unprotected[key] {
		known.unprotected[key] = true
	}
	if before.updating[key] {
		known.updating[key] = true
	}
}

// hasContainer says whether a container of that name is known.
func (known *pod) hasContainer(name string) bool {
	for _, c := range known.containers {
		if c.GetName() == name {
			return true
		}
	}
	return false
}
