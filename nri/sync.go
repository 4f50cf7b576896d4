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
	was, rules := p.live, p.kept()
	p.live = map[string]*pod{}
	p.budget = want.Budget{}
	for _, s := range pods {
		known := newPod(s)
		known.inherit(was[s.GetId()], own, rules[pathOf(s)])
		p.live[s.GetId()] = known
		p.countPod(known, byFileOrGiven)
	}
	// What the runtime does not list has no container, but its pod's cgroup may be there, with its floor.
	for id, before := range was {
		if p.live[id] == nil && p.root.Exists(pathOf(before.sandbox)) {
			known := newPod(before.sandbox)
			known.inherit(before, own, rules[pathOf(before.sandbox)])
			if p.reserved(known, own, pathOf(before.sandbox), byFileOrGiven).Floor() > 0 {
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
		if known == nil || known.has(c.GetName()) || c.GetState() == api.ContainerState_CONTAINER_STOPPED {
			continue
		}
		known.containers[c.GetId()] = c
		known.inherit(was[c.GetPodSandboxId()], c.GetId(), rules[pathOf(known.sandbox)+below(c.GetId())])
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
// containers get theirs, and those that lack some once more, as the module makes its files one after
// the other. And that a pod has gone: a runtime that was restarted does not say so of those it had
// before.
func (p *plugin) looked() {
	p.mu.Lock()
	p.bury()
	was := p.module
	if p.synced { // Before that it is Synchronize that looks.
		p.module = p.root.Module()
	}
	loaded := p.module != was && p.module != 0
	p.partial = p.partial || loaded
	for _, known := range p.live {
		for _, c := range known.containers {
			if p.stock == "" && p.module == 0 && was != 0 && p.config.Anything(describe(known.sandbox), c.GetName()) {
				p.unprotected(known, c)
			}
		}
		known.warned = known.warned && p.module == 0
	}
	if p.unwritten {
		p.rules()
	}
	if p.synced && !loaded && (p.stock != "" || p.module != 0) {
		p.resized()
		p.halfUpdated()
	}
	var lack []alive
	if p.synced && p.module != 0 {
		lack = p.alive(func(known *pod, container string) bool { return known.unprotected[container] })
	}
	p.mu.Unlock()
	if loaded {
		p.log.Info("the module was loaded: live pods get their knobs")
		p.bring()
		return
	}
	for _, a := range lack {
		p.look(a)
	}
}

// resized computes anew the shares of pods whose own memory limit has changed. NRI tells of that of
// containers alone, and kubelet shrinks a pod after them. The containers it leaves: their owner may have
// set other knobs since, and one that is refused has no say in what is for the pod.
func (p *plugin) resized() {
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
			err = p.allot(s, r)
		}
		if errors.Is(err, errUnprotected) {
			for _, c := range known.containers {
				p.lacks(known, c, err) // looked tries again for one of them.
				break
			}
		} else if err != nil {
			p.log.Warn("not given to what runs", "namespace", s.GetNamespace(), "pod", s.GetName(), "reason", err)
		}
		p.countPod(known, byFile)
	}
}

// bring sees to it that every live container has its knobs. Between two of them the runtime gets its
// answers.
func (p *plugin) bring() {
	p.mu.Lock()
	p.bury()
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
	all := p.alive(func(*pod, string) bool { return true })
	p.mu.Unlock()
	for _, a := range all {
		p.look(a)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.partial = false
	for _, known := range p.live {
		for _, c := range known.containers { // What was refused may have lost what it was given.
			p.count(known.sandbox, c, byFile)
		}
	}
	// Also where no pod wishes for anything: the agent is not to keep what was before.
	p.rules()
}

// alive is a container and its sandbox.
type alive struct {
	sandbox, container string
	created            bool
}

// alive are the containers that a function picks, those first that are not started yet, and were
// allowed what they are to have. It is one order for the same pods: which of them fit into a budget
// must not depend on chance.
func (p *plugin) alive(picks func(known *pod, container string) bool) []alive {
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
			return cmp.Compare(number(b.created), number(a.created))
		}
		return cmp.Compare(a.container, b.container)
	})
	return all
}

// look sees to one container's knobs, if it is still alive.
func (p *plugin) look(a alive) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.live[a.sandbox]
	if known == nil || known.containers[a.container] == nil {
		return
	}
	c := known.containers[a.container]
	values, err := p.decide(known.sandbox, c, limitOf(resources(c)))
	if errors.Is(err, errUnprotected) {
		return
	}
	if err != nil {
		// It keeps what it has, and lacks nothing that it may have.
		p.log.Warn("not given to what runs", "reason", err)
		delete(known.unprotected, a.container)
		return
	}
	if p.stock != "" {
		return // It is for the agent to set.
	}
	if err = p.fill(known.sandbox, c, values); gone(err) && c.GetState() == api.ContainerState_CONTAINER_CREATED {
		// It has no cgroup before it starts. What it was allowed it will have then.
		known.given[a.container] = values
	} else if err != nil {
		p.lacks(known, c, err)
	}
	p.count(known.sandbox, c, byFile)
}

// byFile and byFileOrGiven say what a container reserves, from the floor that its file holds and the
// one that it was given: the second where the file may have lost it, because the module was reloaded.
func byFile(file, _ uint64) uint64            { return file }
func byFileOrGiven(file, given uint64) uint64 { return max(file, given) }

// there is how a cgroup counts that was not looked at just now. A module that was loaded anew knows of no
// floor until all were looked at, and what one is to get back is not free.
func (p *plugin) there() func(file, given uint64) uint64 {
	if p.partial {
		return byFileOrGiven
	}
	return byFile
}

// count notes what a live container and its pod reserve. Where there is no file, yet, it is what they
// were given. On a node without the module it is what the agent was told.
func (p *plugin) count(s *api.PodSandbox, c *api.Container, which func(file, given uint64) uint64) {
	known := p.live[s.GetId()]
	r := want.Request{Pod: s.GetUid(), Sandbox: s.GetId(), Container: c.GetId()}
	r.OfPod.Values = p.reserved(known, own, pathOf(s), which)
	r.OfContainer.Values = p.reserved(known, c.GetId(), cgroupOf(c), which)
	p.budget.Note(describe(s), r)
}

// countPod notes what a pod's own cgroup reserves, for one without a live container.
func (p *plugin) countPod(known *pod, which func(file, given uint64) uint64) {
	s := known.sandbox
	r := want.Request{Pod: s.GetUid(), Sandbox: s.GetId()}
	r.OfPod.Values = p.reserved(known, own, pathOf(s), which)
	p.budget.Note(describe(s), r)
}

// reserved is what a cgroup of a pod's reserves: a container's, or as `own` the pod's.
func (p *plugin) reserved(known *pod, key, at string, which func(file, given uint64) uint64) want.Values {
	if p.stock != "" {
		return known.wishes[key]
	}
	given := known.given[key].Floor()
	return want.Values{knob.DirtyMin: which(p.root.Floor(at, given), given)}
}

// inherit takes over what was known of a container before, or as `own` of the pod; and the rule that
// the agent has for it.
func (known *pod) inherit(before *pod, key string, kept rule) {
	if len(kept.values) > 0 {
		known.wishes[key] = kept.values
	}
	if len(kept.times) > 0 {
		known.times[key] = kept.times
	}
	if before == nil {
		return
	}
	known.warned = before.warned
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

// has says whether a container of that name is known.
func (known *pod) has(name string) bool {
	for _, c := range known.containers {
		if c.GetName() == name {
			return true
		}
	}
	return false
}
