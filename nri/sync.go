// SPDX-License-Identifier: GPL-2.0-only

package main

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/containerd/nri/pkg/api"

	"weir.dev/nri/cgroup"
	"weir.dev/nri/knob"
	"weir.dev/nri/want"
)

// spare is what must be left of the runtime's patience when Synchronize answers.
const spare = 100 * time.Millisecond

// errLate is the end of a connection whose Synchronize took too long: containerd 1.7 then asks the
// plugin nothing any more, and does not say so.
var errLate = errors.New("the runtime did not wait until all live pods were looked at: give it a longer `plugin_request_timeout`, " +
	"in containerd's config.toml below [plugins.\"io.containerd.nri.v1.nri\"]")

// Synchronize learns what is alive, after a start of the plugin's or of the runtime's. What has a
// floor keeps it and counts, whatever is allowed by now. What was started meanwhile gets its knobs,
// as far as they are allowed; a running container is not ended for a wish.
func (p *plugin) Synchronize(ctx context.Context, pods []*api.PodSandbox, containers []*api.Container) ([]*api.ContainerUpdate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.live
	p.live = map[string]*pod{}
	for _, s := range pods {
		p.live[s.GetId()] = newPod(s)
		if before := was[s.GetId()]; before != nil {
			p.live[s.GetId()].unprotected = before.unprotected
		}
	}
	for _, c := range containers {
		if known := p.live[c.GetPodSandboxId()]; known != nil {
			known.containers[c.GetId()] = c
		}
	}
	p.module = p.root.Module()
	p.log.Info("synchronized", "pods", len(pods), "containers", len(containers), "module", p.module != 0)
	p.bring(false)
	// Also where no pod wishes for anything: the agent is not to keep what was before.
	if err := p.writeRules(); err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < spare {
		p.end(errLate)
		return nil, errLate
	}
	p.synced = true
	return nil, nil
}

// moduleLooked notices that the module was loaded, or loaded again, which begins with no knob set:
// live containers get theirs.
func (p *plugin) moduleLooked() {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.module
	if p.module = p.root.Module(); p.module == was || p.module == 0 {
		return
	}
	p.log.Info("the module was loaded: live pods get their knobs")
	p.bring(true)
}

// bring counts all floors anew and sees to it that every live container has its knobs.
// forgotten says that no file holds what the specification says.
func (p *plugin) bring(forgotten bool) {
	p.budget = want.Budget{}
	type alive struct {
		s *api.PodSandbox
		c *api.Container
	}
	var all []alive
	for _, known := range p.live {
		s := known.sandbox
		r := want.Request{Pod: s.GetUid(), Sandbox: s.GetId()}
		r.OfPod.Values = want.Values{knob.DirtyMin: p.root.Get(pathOf(s), knob.DirtyMin)}
		p.budget.Note(describe(s), r)
		for c := range maps.Values(known.containers) {
			r.Container = c.GetId()
			r.OfContainer.Values = want.Values{knob.DirtyMin: p.floor(c)}
			p.budget.Note(describe(s), r)
			all = append(all, alive{s, c})
		}
	}
	// One order for the same pods: which of them fit into a budget must not depend on chance.
	slices.SortFunc(all, func(a, b alive) int { return cmp.Compare(a.c.GetId(), b.c.GetId()) })
	for _, a := range all {
		values, err := p.decide(a.s, a.c, limitOf(resources(a.c)))
		if err != nil {
			continue // It was logged, and the container keeps what it has.
		}
		// What it was given before, the agent or the node's owner may have changed since.
		if forgotten || !maps.Equal(values, specified(a.c)) {
			p.write(a.c, values)
		}
	}
}

// floor is what a container reserves: its file says it, and where that holds nothing, for want of
// the module until now, its specification.
func (p *plugin) floor(c *api.Container) uint64 {
	if floor := p.root.Get(cgroup.ContainerPath(c.GetLinux().GetCgroupsPath()), knob.DirtyMin); floor > 0 {
		return floor
	}
	return specified(c).Floor()
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
