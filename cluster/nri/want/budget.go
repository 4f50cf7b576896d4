// SPDX-License-Identifier: GPL-2.0-only

package want

import (
	"fmt"
	"math"

	"weir.dev/nri/knob"
)

// Budget keeps what the floors of live pods reserve. Floors add up, also a container's and its
// pod's (docs/knobs.md), and all of them count, but only an annotation's can be refused.
type Budget struct {
	pods map[string]*account
}

// account is one pod's, over all its sandboxes: kubelet may make a second one before the first,
// which is dead, is removed.
type account struct {
	namespace string
	own       uint64
	sandboxes map[string]map[string]uint64
}

// Request is a floor that a container brings, and the one its pod has besides.
type Request struct {
	// Pod is the pod's UID.
	Pod, Sandbox, Container string
	// OfPod and OfContainer are the floors.
	OfPod, OfContainer Wanted
}

func (b *Budget) findOrMakeAccount(uid, namespace, sandbox string) *account {
	if b.pods == nil {
		b.pods = map[string]*account{}
	}
	a := b.pods[uid]
	if a == nil {
		a = &account{namespace: namespace, sandboxes: map[string]map[string]uint64{}}
		b.pods[uid] = a
	}
	if a.sandboxes[sandbox] == nil {
		a.sandboxes[sandbox] = map[string]uint64{}
	}
	return a
}

// RecordFloors counts floors that are there, whatever is allowed.
func (b *Budget) RecordFloors(pod Pod, r Request) {
	a := b.findOrMakeAccount(r.Pod, pod.Namespace, r.Sandbox)
	a.own = r.OfPod.Values.Floor()
	if r.Container != "" {
		a.sandboxes[r.Sandbox][r.Container] = r.OfContainer.Values.Floor()
	}
}

// ReleaseFloors forgets a container that is no more; with container "" the whole sandbox.
func (b *Budget) ReleaseFloors(uid, sandbox, container string) {
	a := b.pods[uid]
	if a == nil {
		return
	}
	if container != "" {
		delete(a.sandboxes[sandbox], container)
		return
	}
	delete(a.sandboxes, sandbox)
	if len(a.sandboxes) == 0 {
		delete(b.pods, uid)
	}
}

// ReservedByNamespace returns what the floors of each namespace reserve, for those that have some.
func (b *Budget) ReservedByNamespace() map[string]uint64 {
	sums := map[string]uint64{}
	for _, a := range b.pods {
		if floor := a.reservedWithout("", ""); floor > 0 {
			sums[a.namespace] = addCapped(sums[a.namespace], floor)
		}
	}
	return sums
}

// reservedWithout returns what a pod reserves without one container.
func (a *account) reservedWithout(sandbox, container string) uint64 {
	sum := a.own
	for id, containers := range a.sandboxes {
		for name, floor := range containers {
			if id != sandbox || name != container {
				sum = addCapped(sum, floor)
			}
		}
	}
	return sum
}

// CheckAllowed says whether the configuration lets the pod have the floors, and the weight of its own, that
// its annotations ask for, and if not, why.
func (b *Budget) CheckAllowed(c *Config, pod Pod, r Request) error {
	if r.OfPod.AsksWeight {
		if err := c.checkWeightAllowed(pod.Namespace, r.OfPod.Values[knob.DirtyWeight]); err != nil {
			return err
		}
	}
	if !r.OfPod.AsksFloor && !r.OfContainer.AsksFloor {
		return nil
	}
	l := c.leaveFor(pod.Namespace)
	if l == nil || l.podFloor == nil && l.namespaceFloor == nil {
		return fmt.Errorf("a floor (%s) is not allowed in namespace %s on this node: the node's configuration allows it by `pod-floor` and `namespace-floor`",
			knob.DirtyMin.Name, pod.Namespace)
	}
	others := uint64(0)
	total := addCapped(r.OfPod.Values.Floor(), r.OfContainer.Values.Floor())
	for uid, a := range b.pods {
		switch {
		case uid == r.Pod:
			a := *a
			a.own = 0
			total = addCapped(total, a.reservedWithout(r.Sandbox, r.Container))
		case a.namespace == pod.Namespace:
			others = addCapped(others, a.reservedWithout("", ""))
		}
	}
	text := knob.DirtyMin.Text
	if most := l.podFloor; most != nil && total > *most {
		return fmt.Errorf("the pod's floors (%s) would be %s bytes, and a pod in namespace %s may reserve %s on this node",
			knob.DirtyMin.Name, text(total), pod.Namespace, text(*most))
	}
	if most := l.namespaceFloor; most != nil && addCapped(others, total) > *most {
		return fmt.Errorf("the pod's floors (%s) would be %s bytes, other pods of namespace %s reserve %s, and all of them may reserve %s on this node",
			knob.DirtyMin.Name, text(total), pod.Namespace, text(others), text(*most))
	}
	return nil
}

// leaveFor returns the entry that counts for pods of a namespace: the last that matches.
func (c *Config) leaveFor(namespace string) *leave {
	for i := len(c.allow) - 1; i >= 0; i-- {
		if c.allow[i].namespaces.matchAny(namespace) {
			return &c.allow[i]
		}
	}
	return nil
}

func (c *Config) checkWeightAllowed(namespace string, weight uint64) error {
	most := uint64(0)
	if l := c.leaveFor(namespace); l != nil {
		most = l.podWeight
	}
	if weight > most {
		return fmt.Errorf("annotation %s%s%s: %d is not allowed in namespace %s on this node: the node's configuration allows up to %d by `pod-weight`",
			Prefix, podScope, knob.DirtyWeight.Name, weight, namespace, most)
	}
	return nil
}

func addCapped(a, b uint64) uint64 {
	if a > math.MaxUint64-b {
		return math.MaxUint64
	}
	return a + b
}
