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
	latest = latest.Add(-p.unread())
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := ctx.Err(); err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			p.connection.end(errLate)
		}
		return nil, err
	}
	was, ruled := p.live, p.ruled()
	p.live = map[string]*pod{}
	p.budget = want.Budget{}
	for _, s := range pods {
		s = keepPod(s)
		known := newPod(s)
		known.warned = was[s.GetId()] != nil && was[s.GetId()].warned
		p.live[s.GetId()] = known
		p.countPod(s)
	}
	// What runs comes first: the runtime may list one that never started, and the one after it.
	slices.SortStableFunc(containers, func(a, b *api.Container) int {
		return cmp.Compare(b.GetState(), a.GetState())
	})
	for _, c := range containers {
		known := p.live[c.GetPodSandboxId()]
		if known == nil || known.has(c.GetName()) || c.GetState() == api.ContainerState_CONTAINER_STOPPED {
			continue
		}
		c = keepContainer(c)
		known.containers[c.GetId()] = c
		known.ruled[c.GetId()] = ruled(c.GetId())
		if before := was[c.GetPodSandboxId()]; before != nil {
			known.inherit(before, c.GetId())
		}
		p.count(known.sandbox, c, byFileOrGiven)
	}
	p.module = p.root.Module()
	p.partial = true
	p.log.Info("synchronized", "pods", len(pods), "containers", len(containers), "module", p.module != 0)
	if hurry && time.Now().After(latest) {
		p.connection.end(errLate)
		return nil, errLate
	}
	p.synced = true
	p.connection.learnt()
	return nil, nil
}

// looked notices that the module was loaded, or loaded again, which begins with no knob set: live
// containers get theirs. And that a pod has gone: a runtime that was restarted does not say so of
// those it had before.
func (p *plugin) looked() {
	p.mu.Lock()
	p.bury()
	was := p.module
	if p.synced { // Before that it is Synchronize that looks.
		p.module = p.root.Module()
	}
	loaded := p.module != was && p.module != 0
	if p.module == 0 && was != 0 && p.stock == "" {
		for _, known := range p.live {
			for _, c := range known.containers {
				if p.config.Anything(describe(known.sandbox), c.GetName()) {
					p.unprotected(known, c)
				}
			}
		}
	}
	if p.unwritten {
		p.rules()
	}
	p.mu.Unlock()
	if loaded {
		p.log.Info("the module was loaded: live pods get their knobs")
		p.bring()
	}
}

// bury forgets pods that have neither a container nor a cgroup any more.
func (p *plugin) bury() {
	for id, known := range p.live {
		if len(known.containers) > 0 || p.root.Exists(pathOf(known.sandbox)) {
			continue
		}
		p.budget.Drop(known.sandbox.GetUid(), id, "")
		delete(p.live, id)
		p.rules()
	}
}

// bring sees to it that every live container has its knobs. Between two of them the runtime gets its
// answers.
func (p *plugin) bring() {
	type alive struct{ sandbox, container string }
	var all []alive
	p.mu.Lock()
	for sandbox, known := range p.live {
		p.countPod(known.sandbox)
		for container := range known.containers {
			all = append(all, alive{sandbox, container})
		}
	}
	p.mu.Unlock()
	// One order for the same pods: which of them fit into a budget must not depend on chance.
	slices.SortFunc(all, func(a, b alive) int { return cmp.Compare(a.container, b.container) })
	for _, a := range all {
		p.look(a.sandbox, a.container)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.partial = false
	// Also where no pod wishes for anything: the agent is not to keep what was before.
	p.rules()
}

// look sees to one container's knobs, if it is still alive.
func (p *plugin) look(sandbox, container string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.live[sandbox]
	if known == nil || known.containers[container] == nil {
		return
	}
	c := known.containers[container]
	lacks := known.unprotected[container]
	values, err := p.decide(known.sandbox, c, limitOf(resources(c)))
	delete(known.ruled, container)
	// What was refused was logged, and the container keeps what it has.
	if p.stock != "" {
		if err != nil {
			p.budget.Drop(known.sandbox.GetUid(), sandbox, container)
		}
		return
	}
	if err == nil {
		err = p.fill(known.sandbox, c, values)
		switch {
		case err == nil:
		case !gone(err):
			p.log.Error("a container lacks a knob", "error", err)
			known.unprotected[container] = true
		case lacks:
			known.unprotected[container] = true
		case c.GetState() == api.ContainerState_CONTAINER_CREATED && known.given[container] == nil:
			// It has no cgroup before it starts. What it was allowed it will have then.
			known.given[container] = values
		}
	}
	p.count(known.sandbox, c, byFile)
}

// byFile and byFileOrGiven say what a container reserves, from the floor that its file holds and the
// one that it was given: the second where the file may have lost it, because the module was reloaded.
func byFile(file, _ uint64) uint64            { return file }
func byFileOrGiven(file, given uint64) uint64 { return max(file, given) }

// count notes what a live container reserves. Where there is no file, yet, it is what it was given.
// On a node without the module it is what is wished for, where the agent has a rule for it.
func (p *plugin) count(s *api.PodSandbox, c *api.Container, which func(file, given uint64) uint64) {
	if p.stock != "" {
		if r, err := p.wish(s, c, limitOf(resources(c))); err == nil && p.live[s.GetId()].ruled[c.GetId()] {
			p.budget.Note(describe(s), r)
		}
		return
	}
	given := p.live[s.GetId()].given[c.GetId()].Floor()
	r := want.Request{Pod: s.GetUid(), Sandbox: s.GetId(), Container: c.GetId()}
	r.OfPod.Values = want.Values{knob.DirtyMin: p.root.Floor(pathOf(s), 0)}
	r.OfContainer.Values = want.Values{knob.DirtyMin: which(p.root.Floor(cgroupOf(c), given), given)}
	p.budget.Note(describe(s), r)
}

// countPod notes what a pod's own cgroup reserves, for one without a live container.
func (p *plugin) countPod(s *api.PodSandbox) {
	if p.stock != "" {
		return
	}
	r := want.Request{Pod: s.GetUid(), Sandbox: s.GetId()}
	r.OfPod.Values = want.Values{knob.DirtyMin: p.root.Floor(pathOf(s), 0)}
	p.budget.Note(describe(s), r)
}

// inherit takes over what was known of a container before.
func (known *pod) inherit(before *pod, container string) {
	if given := before.given[container]; given != nil {
		known.given[container] = given
	}
	if before.unprotected[container] {
		known.unprotected[container] = true
	}
}

// has says whether a container of that name is known.
func (known *pod) has(name string) bool {
	for _, c := range known.containers {
		if c.GetName() == name {
			return true
		}
	}
	return false
}
