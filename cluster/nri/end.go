// SPDX-License-Identifier: GPL-2.0-only

package main

import (
	"context"

	"github.com/containerd/nri/pkg/api"
)

// forgetPredecessors forgets the containers that this one comes after. One of the same name is dead, whether or
// not its end was told: that of one that failed to start is not.
func (p *plugin) forgetPredecessors(s *api.PodSandbox, c *api.Container) {
	known := p.live[s.GetId()]
	if known == nil {
		return
	}
	for id, other := range known.containers {
		if id != c.GetId() && other.GetName() == c.GetName() {
			p.forgetContainer(known, id)
		}
	}
}

// StopContainer forgets a container: its cgroup is gone, and what it reserved with it. The runtime
// says so for those that end by themselves, too, and for those that were refused.
func (p *plugin) StopContainer(_ context.Context, s *api.PodSandbox, c *api.Container) ([]*api.ContainerUpdate, error) {
	p.forgetEnded(s.GetId(), c.GetId())
	return nil, nil
}

// RemoveContainer forgets a container that was never started.
func (p *plugin) RemoveContainer(_ context.Context, s *api.PodSandbox, c *api.Container) error {
	p.forgetEnded(s.GetId(), c.GetId())
	return nil
}

// StopPodSandbox forgets a pod, unless its cgroup has a floor: its next sandbox has the same.
func (p *plugin) StopPodSandbox(_ context.Context, s *api.PodSandbox) error {
	p.forgetEnded(s.GetId(), "")
	return nil
}

// RemovePodSandbox forgets a pod whose end the plugin has missed.
func (p *plugin) RemovePodSandbox(_ context.Context, s *api.PodSandbox) error {
	p.forgetEnded(s.GetId(), "")
	return nil
}

func (p *plugin) forgetEnded(sandbox, container string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.live[sandbox]
	if known == nil {
		return
	}
	if container != "" {
		p.forgetContainer(known, container)
	} else {
		for id := range known.containers {
			p.forgetContainer(known, id)
		}
		if p.reservedBy(known, own, pathOf(known.sandbox), byFile).Floor() == 0 {
			p.forgetPod(known)
		}
		p.forgetDeadPods()
	}
	p.updateRules()
}

func (p *plugin) forgetPod(known *pod) {
	p.budget.Release(known.sandbox.GetUid(), known.sandbox.GetId(), "")
	delete(p.live, known.sandbox.GetId())
}

func (p *plugin) forgetContainer(known *pod, container string) {
	p.budget.Release(known.sandbox.GetUid(), known.sandbox.GetId(), container)
	delete(known.containers, container)
	delete(known.given, container)
	delete(known.wishes, container)
	delete(known.times, container)
	delete(known.unprotected, container)
	delete(known.updating, container)
}

// forgetDeadPods forgets pods that have neither a container nor a cgroup any more, and the dead sandboxes of pods
// that have another one. Both have the same cgroup, so that one gets back what the other was given.
func (p *plugin) forgetDeadPods() {
	for _, known := range p.live {
		next := p.findSuccessor(known)
		if len(known.containers) > 0 || next == nil && p.root.Exists(pathOf(known.sandbox)) {
			continue
		}
		p.forgetPod(known)
		if given := known.given[own]; next != nil && next.given[own] == nil && given != nil {
			next.given[own] = given
			p.countPod(next, byFileOrGiven)
		}
		p.updateRules()
	}
}

// findSuccessor returns another sandbox of the same pod that has containers; nil if there is none. crictl's pods may
// have no UID, any of them.
func (p *plugin) findSuccessor(known *pod) *pod {
	for _, other := range p.live {
		if other != known && len(other.containers) > 0 && other.sandbox.GetUid() == known.sandbox.GetUid() &&
			pathOf(other.sandbox) == pathOf(known.sandbox) {
			return other
		}
	}
	return nil
}
