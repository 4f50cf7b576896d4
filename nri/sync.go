// SPDX-License-Identifier: GPL-2.0-only

package main

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"github.com/containerd/nri/pkg/api"

	"weir.dev/nri/knob"
	"weir.dev/nri/want"
)

// errLate is the end of a connection whose Synchronize took too long: containerd 1.7 then asks the
// plugin nothing any more, and does not say so.
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
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.live
	p.live = map[string]*pod{}
	p.budget = want.Budget{}
	for _, s := range pods {
		p.live[s.GetId()] = newPod(s)
		if before := was[s.GetId()]; before != nil {
			p.live[s.GetId()].unprotected = before.unprotected
		}
	}
	for _, c := range containers {
		if known := p.live[c.GetPodSandboxId()]; known != nil {
			known.containers[c.GetId()] = c
			p.count(known.sandbox, c, func(file, specified uint64) uint64 { return max(file, specified) })
		}
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

// moduleLooked notices that the module was loaded, or loaded again, which begins with no knob set:
// live containers get theirs.
func (p *plugin) moduleLooked() {
	p.mu.Lock()
	was := p.module
	p.module = p.root.Module()
	loaded := p.module != was && p.module != 0
	p.mu.Unlock()
	if loaded {
		p.log.Info("the module was loaded: live pods get their knobs")
		p.bring()
	}
}

// bring sees to it that every live container has its knobs. Between two of them the runtime gets its
// answers.
func (p *plugin) bring() {
	type alive struct{ sandbox, container string }
	var all []alive
	p.mu.Lock()
	for sandbox, known := range p.live {
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
	if err := p.writeRules(); err != nil {
		p.log.Error("the agent's rules are not up to date", "error", err)
	}
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
	values, err := p.decide(known.sandbox, c, limitOf(resources(c)))
	if err == nil {
		// It may have ended, or have no cgroup yet: then StartContainer sees to it.
		if err = p.fill(c, values); err != nil && !errors.Is(err, fs.ErrNotExist) {
			p.log.Error("a container lacks a knob", "error", err)
		}
	}
	// What was refused was logged, and the container keeps what it has.
	p.count(known.sandbox, c, func(file, specified uint64) uint64 { return file })
}

// count notes what a live container and its pod reserve: which is for the caller to say from what
// the file holds and what the specification does. Where there is no file, it is what is specified.
func (p *plugin) count(s *api.PodSandbox, c *api.Container, which func(file, specified uint64) uint64) {
	if p.stock != "" {
		return
	}
	r := want.Request{Pod: s.GetUid(), Sandbox: s.GetId(), Container: c.GetId()}
	r.OfPod.Values = want.Values{knob.DirtyMin: p.root.Floor(pathOf(s), 0)}
	specified := specified(c).Floor()
	r.OfContainer.Values = want.Values{knob.DirtyMin: which(p.root.Floor(cgroupOf(c), specified), specified)}
	p.budget.Note(describe(s), r)
}

// specified is what a container's specification has of weir's files.
func specified(c *api.Container) want.Values {
	values := want.Values{}
	for _, k := range knob.All {
		if text, ok := resources(c).Unified[k.File]; ok {
			if value, err := k.Parse(text); err == nil {
				values[k] = value
			}
		}
	}
	return values
}
