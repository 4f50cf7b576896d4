// SPDX-License-Identifier: GPL-2.0-only

package main

import (
	"context"
	"errors"

	"github.com/containerd/nri/pkg/api"

	"weir.dev/nri/cgroup"
	"weir.dev/nri/knob"
	"weir.dev/nri/want"
)

// UpdateContainer evaluates shares anew when a container's memory limit changes.
func (p *plugin) UpdateContainer(ctx context.Context, s *api.PodSandbox, c *api.Container, r *api.LinuxResources) ([]*api.ContainerUpdate, error) {
	if err := p.lockUnlessLate(ctx); err != nil {
		return nil, err
	}
	defer p.mu.Unlock()
	known := p.live[s.GetId()]
	if known == nil || known.containers[c.GetId()] == nil {
		return nil, nil // It has ended, or did not begin: then StartContainer sees to it.
	}
	c.State = known.containers[c.GetId()].GetState()
	// kubelet names the limit, too, when it changes the CPUs alone.
	limit := limitOf(resourcesOf(c))
	stays := r.GetMemory().GetLimit().GetValue() == 0 || limitOf(r) == limit
	if !stays {
		limit = limitOf(r)
	}
	values, err := p.decideValues(s, c, limit)
	switch {
	case err == nil, errors.Is(err, errUnprotected):
	case stays:
		return p.keepFloor(s, c), nil // It was refused, started without, and is to get other CPUs, say.
	default:
		return nil, p.countRefusal(err)
	}
	resourcesOf(c).Memory = &api.LinuxMemory{Limit: api.Int64(int64(limit))}
	if len(values) == 0 {
		return nil, nil
	}
	// crun writes elsewhere than the plugin has: what it wrote must not stay.
	for k, was := range known.given[c.GetId()] {
		value, wished := values[k]
		now, err := p.root.ReadKnob(cgroupOf(c), k)
		if !wished || err != nil || now != was || value == was {
			continue
		}
		if err := p.root.WriteKnob(cgroupOf(c), k, value); err != nil && !isGone(err) {
			p.countContainer(s, c, byFile) // It stays as it is.
			return nil, err
		}
	}
	p.recordGiven(s, c, values)
	known.updating[c.GetId()] = true
	p.countContainer(s, c, byFileOrGiven) // The update may fail, and what is there stay.
	return []*api.ContainerUpdate{containerUpdate(c, values)}, nil
}

// PostUpdateContainer counts what the OCI runtime has made of an update. It writes all that it was ever
// told of a container, also what has been taken back since. crun writes a floor below the one that the
// plugin wrote, if that could not be told in time: one of them goes, when the other is there.
func (p *plugin) PostUpdateContainer(_ context.Context, s *api.PodSandbox, c *api.Container) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.live[s.GetId()]
	if known == nil || known.containers[c.GetId()] == nil {
		return nil
	}
	p.removeDoubleFloor(known, c)
	delete(known.updating, c.GetId())
	p.countContainer(s, c, p.countingRule())
	return nil
}

// removeDoubleFloor takes back the floor that the plugin wrote, if crun's is there.
func (p *plugin) removeDoubleFloor(known *pod, c *api.Container) {
	at, floor := cgroupOf(c), known.given[c.GetId()].Floor()
	if below, err := p.root.ReadKnob(cgroup.CrunPath(at), knob.DirtyMin); err == nil && floor > 0 && below == floor {
		if err := p.root.WriteKnob(at, knob.DirtyMin, knob.DirtyMin.Unset()); err != nil && !isGone(err) {
			p.log.Error("a floor is there twice", "cgroup", at, "error", err)
		}
	}
}

// checkHalfUpdated looks at updates of which no end was told. One that crun had begun to write may have failed.
func (p *plugin) checkHalfUpdated() {
	for _, known := range p.live {
		for id := range known.updating {
			p.removeDoubleFloor(known, known.containers[id])
			p.countContainer(known.sandbox, known.containers[id], byFileOrGiven) // It may be under way.
		}
	}
}

// keepFloor returns an update that leaves a container the floor that it has. The OCI runtime would write the one
// that it was told once, though the container's owner has lowered it, and others have got it since.
func (p *plugin) keepFloor(s *api.PodSandbox, c *api.Container) []*api.ContainerUpdate {
	w, err := p.config.ForContainer(describePod(s), c.GetName(), func() (uint64, error) { return limitOf(resourcesOf(c)), nil })
	if err != nil || !w.AsksFloor {
		return nil
	}
	at := cgroupOf(c)
	floor, err := p.root.ReadKnob(cgroup.CrunPath(at), knob.DirtyMin) // crun's
	if err != nil {
		floor, err = p.root.ReadKnob(at, knob.DirtyMin)
	}
	if err != nil {
		return nil
	}
	return []*api.ContainerUpdate{containerUpdate(c, want.Values{knob.DirtyMin: floor})}
}

func containerUpdate(c *api.Container, values want.Values) *api.ContainerUpdate {
	u := &api.ContainerUpdate{}
	u.SetContainerId(c.GetId())
	for k, value := range values {
		u.AddLinuxUnified(k.File, k.Text(value))
	}
	return u
}
