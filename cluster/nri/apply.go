// SPDX-License-Identifier: GPL-2.0-only

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/containerd/nri/pkg/api"

	"weir.dev/nri/cgroup"
	"weir.dev/nri/knob"
	"weir.dev/nri/want"
)

// Decisions meet the host here: facts are read for them, and what was decided is written. The plugin's lock is held.

// readFacts looks at a pod's own cgroup, and at that of a container of it, if there is one.
func (p *plugin) readFacts(own, container string) facts {
	f := facts{hasModule: p.root.ModuleID() != 0, podFloor: p.readFloor(own), floor: p.readFloor(container)}
	f.podLimit, f.podLimitError = p.root.MemoryLimit(own)
	return f
}

func (p *plugin) readFloor(at string) floorFile {
	if _, err := p.root.ReadKnob(at, knob.DirtyMin); err != nil {
		return floorFile{}
	}
	return floorFile{p.root.SumOfFloorsOr(at, 0), true}
}

// recordContainerFloors notes what a live container and its pod reserve.
func (p *plugin) recordContainerFloors(known *pod, c *container, which func(file, given uint64) uint64) {
	p.countFloors(known, c, p.readFacts(known.own.at, c.at), which)
}

// recordPodFloors notes what a pod's own cgroup reserves, for one without a live container.
func (p *plugin) recordPodFloors(known *pod, which func(file, given uint64) uint64) {
	p.countFloors(known, nil, p.readFacts(known.own.at, ""), which)
}

// grantKnobs says what a container with a memory limit is to have now, and brings its pod's cgroup there, or hands
// all of it to the agent. Both count from then on.
func (p *plugin) grantKnobs(known *pod, c *container, limit uint64) (want.Values, error) {
	if len(known.containers) == 1 {
		p.forgetDeadPods() // The sandbox that it had before.
	}
	if !p.config.WantsAnything(known.Pod, c.name) {
		if p.forgetWishes(known, c) {
			p.recordContainerFloors(known, c, byFile)
		}
		return nil, nil
	}
	f := p.readFacts(known.own.at, c.at)
	f.limit = limit
	g, err := p.decideGrant(known, c, f)
	switch {
	case errors.Is(err, errUnprotected):
		p.markWithoutModule(known, c)
		return nil, err
	case err == nil:
		if p.recordGrant(known, c, g) {
			p.updateRules()
		}
		if err = p.writePodKnobs(&known.own, g.toGivePod); err == nil {
			return g.toGive, nil
		}
	}
	p.recordContainerFloors(known, c, p.countingRule()) // Of the pod's files some may be written, now or before.
	if errors.Is(err, errUnprotected) {
		if p.root.ModuleID() == 0 { // Unloaded in this moment.
			p.markWithoutModule(known, c)
		} else {
			p.markUnprotected(known, c, err)
		}
	}
	return nil, fmt.Errorf("weir: pod %s/%s, container %s: %w", known.Namespace, known.Name, c.name, err)
}

// writePodKnobs gives a pod's own cgroup what it is to have; nil is nothing that the plugin keeps.
func (p *plugin) writePodKnobs(own *target, values want.Values) error {
	if values == nil {
		return nil
	}
	for _, k := range knob.All {
		if value, ok := values[k]; ok {
			if err := p.root.WriteKnob(own.at, k, value); err != nil {
				return fmt.Errorf("%w: for the pod's cgroup: %w", errUnprotected, err)
			}
		}
	}
	own.given = values
	return nil
}

// hasGrantedFloors says whether the cgroups of a container and of its pod have the floors, and the pod's the weight,
// that are wished for and take leave.
func (p *plugin) hasGrantedFloors(known *pod, c *container) bool {
	f := p.readFacts(known.own.at, c.at)
	f.limit = c.limit
	g, _ := p.decideGrant(known, c, f) // Refused, it says all the same what is wished for.
	if !g.OfPod.AsksFloor && !g.OfContainer.AsksFloor && !g.OfPod.AsksWeight {
		return false
	}
	weight, err := p.root.ReadKnob(known.own.at, knob.DirtyWeight)
	return f.podFloor.bytes >= g.OfPod.Values.Floor() && f.floor.bytes >= g.OfContainer.Values.Floor() &&
		(!g.OfPod.AsksWeight || err == nil && weight == g.OfPod.Values[knob.DirtyWeight])
}

// markUnprotected notes that a knob of a container's, or of its pod's, could not be set. pollModule tries again.
func (p *plugin) markUnprotected(known *pod, c *container, err error) {
	if !c.unprotected {
		p.log.Error("a knob could not be set", "namespace", known.Namespace, "pod", known.Name, "container", c.name, "error", err)
	}
	c.unprotected = true
}

// markWithoutModule notes that a container is without what its pod wishes for, as there is no module.
func (p *plugin) markWithoutModule(known *pod, c *container) {
	if !known.warned {
		p.log.Warn("unprotected: the module is not loaded, annotations and defaults are ignored",
			"namespace", known.Namespace, "pod", known.Name)
	}
	known.warned = true
	c.unprotected = true
}

// logAndCountRefusal counts an error that ends what the runtime was about to do, and returns it.
func (p *plugin) logAndCountRefusal(why error) error {
	p.log.Warn("refused", "reason", why)
	return p.countRefusal(why)
}

// readKnob reads a knob of a container's; of a floor also what crun has set.
func (p *plugin) readKnob(at string, k *knob.Knob) (uint64, error) {
	value, err := p.root.ReadKnob(at, k)
	if err == nil && k == knob.DirtyMin {
		value = p.root.SumOfFloorsOr(at, value)
	}
	return value, err
}

// writeUnsetKnobs sets those knobs of a container that exists which hold their default, as if never
// written. Others were set by the OCI runtime, or since then by the agent or the node's owner. It does
// not ask the runtime for it: a plugin's own request for an update deadlocks containerd if it meets
// an event of a pod (containerd#13733), and runc refuses every update of a container whose
// specification names a file that is not there.
func (p *plugin) writeUnsetKnobs(c *container, values want.Values) error {
	if len(values) == 0 {
		c.unprotected = false
		return nil
	}
	if c.at == "" {
		return fmt.Errorf("container %s: the runtime names no cgroup for it", c.name)
	}
	set := false
	for _, k := range knob.All {
		value, ok := values[k]
		if !ok {
			continue
		}
		now, err := p.readKnob(c.at, k)
		if err == nil && now == k.Unset() && now != value {
			err = p.root.WriteKnob(c.at, k, value)
			set = true
		}
		if err != nil {
			return fmt.Errorf("container %s: %w", c.name, err)
		}
	}
	c.unprotected = false
	c.given = values
	if set {
		p.counts.adjusted++
	}
	return nil
}

// rewriteGiven brings files that hold what the container was given to what it is to have. crun writes elsewhere
// than the plugin has: what the plugin wrote must not stay.
func (p *plugin) rewriteGiven(c *container, values want.Values) error {
	for k, was := range c.given {
		value, wished := values[k]
		now, err := p.root.ReadKnob(c.at, k)
		if !wished || err != nil || now != was || value == was {
			continue
		}
		if err := p.root.WriteKnob(c.at, k, value); err != nil && !isGone(err) {
			return err
		}
	}
	return nil
}

// isGone says whether an error is that of a file whose cgroup is removed, or whose module is unloaded.
func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV)
}

// removeDoubleFloor takes back the floor that the plugin wrote, if crun's is there.
func (p *plugin) removeDoubleFloor(c *container) {
	floor := c.given.Floor()
	if below, err := p.root.ReadKnob(cgroup.CrunPath(c.at), knob.DirtyMin); err == nil && floor > 0 && below == floor {
		if err := p.root.WriteKnob(c.at, knob.DirtyMin, knob.DirtyMin.Unset()); err != nil && !isGone(err) {
			p.log.Error("a floor is there twice", "cgroup", c.at, "error", err)
		}
	}
}

// updateToKeepFloor returns an update that leaves a container the floor that it has. The OCI runtime would write the one
// that it was told once, though the container's owner has lowered it, and others have got it since.
func (p *plugin) updateToKeepFloor(known *pod, c *container) []*api.ContainerUpdate {
	w, err := p.config.WantedBy(known.Pod, c.name, func() (uint64, error) { return c.limit, nil })
	if err != nil || !w.AsksFloor {
		return nil
	}
	floor, err := p.root.ReadKnob(cgroup.CrunPath(c.at), knob.DirtyMin) // crun's
	if err != nil {
		floor, err = p.root.ReadKnob(c.at, knob.DirtyMin)
	}
	if err != nil {
		return nil
	}
	return []*api.ContainerUpdate{containerUpdate(c, want.Values{knob.DirtyMin: floor})}
}

func containerUpdate(c *container, values want.Values) *api.ContainerUpdate {
	u := &api.ContainerUpdate{}
	u.SetContainerId(c.id)
	for k, value := range values {
		u.AddLinuxUnified(k.File, k.Text(value))
	}
	return u
}

// forgetEnded forgets a container of a sandbox, or with container "" the sandbox.
func (p *plugin) forgetEnded(sandbox, container string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.pods[sandbox]
	if known == nil {
		return
	}
	if container != "" {
		p.forgetContainer(known, container)
	} else {
		for id := range known.containers {
			p.forgetContainer(known, id)
		}
		if p.reservedBy(known, &known.own, p.readFloor(known.own.at), byFile).Floor() == 0 {
			p.forgetPod(known)
		}
		p.forgetDeadPods()
	}
	p.updateRules()
}

// forgetDeadPods forgets pods that have neither a container nor a cgroup any more, and the dead sandboxes of pods
// that have another one. Both have the same cgroup, so that one gets back what the other was given.
func (p *plugin) forgetDeadPods() {
	for _, known := range p.pods {
		next := p.findSuccessor(known)
		if len(known.containers) > 0 || next == nil && p.root.HasCgroup(known.own.at) {
			continue
		}
		p.forgetPod(known)
		if given := known.own.given; next != nil && next.own.given == nil && given != nil {
			next.own.given = given
			p.recordPodFloors(next, byFileOrGiven)
		}
		p.updateRules()
	}
}
