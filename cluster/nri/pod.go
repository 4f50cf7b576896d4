// SPDX-License-Identifier: GPL-2.0-only

package main

import (
	"github.com/containerd/nri/pkg/api"

	"weir.dev/nri/cgroup"
	"weir.dev/nri/want"
)

// pod is a sandbox with its live containers, as the runtime described them last.
type pod struct {
	want.Pod
	// uid is the pod's, sandbox the id of this one of its sandboxes.
	uid, sandbox string
	own          target
	containers   map[string]*container
	// limit is the memory limit that shares of the pod's own are of, 0 for none; nil without a share.
	limit *uint64
	// warned says that the log has it that the module was not there.
	warned bool
	// withAgent says that the agent keeps what the pod and its containers are to have. One pod has one keeper
	// until it ends: two would take back what the other has set.
	withAgent bool
}

// container is a live container of a pod.
type container struct {
	target
	id, name string
	state    api.ContainerState
	// limit is its memory limit in bytes, 0 for none.
	limit uint64
}

func newPod(s *api.PodSandbox, withAgent bool) *pod {
	at := cgroup.PodPath(s.GetLinux().GetCgroupParent())
	return &pod{
		Pod: want.Pod{Namespace: s.GetNamespace(), Name: s.GetName(), QoS: cgroup.QoSOf(at), Annotations: s.GetAnnotations()},
		uid: s.GetUid(), sandbox: s.GetId(), own: target{at: at}, containers: map[string]*container{}, withAgent: withAgent,
	}
}

// withoutContainers returns the same pod as it is when all its containers have ended.
func (known *pod) withoutContainers() *pod {
	return &pod{Pod: known.Pod, uid: known.uid, sandbox: known.sandbox, own: target{at: known.own.at}, containers: map[string]*container{},
		withAgent: known.withAgent}
}

// inheritFrom takes over what was known of the pod before, which may be nothing, and the rule that the agent
// has for it.
func (known *pod) inheritFrom(before *pod, kept rule) {
	if before == nil {
		known.own.inheritFrom(nil, kept)
		return
	}
	known.own.inheritFrom(&before.own, kept)
	known.warned = before.warned
	known.withAgent = known.withAgent || before.withAgent
}

// addContainer adds a container, with what was known of it before, in a pod that may be nil, and with the
// rule that the agent has for it.
func (known *pod) addContainer(c *container, before *pod, kept rule) {
	known.containers[c.id] = c
	if before != nil && before.containers[c.id] != nil {
		c.inheritFrom(&before.containers[c.id].target, kept)
	} else {
		c.inheritFrom(nil, kept)
	}
}

// hasContainer says whether a container of that name is known.
func (known *pod) hasContainer(name string) bool {
	for _, c := range known.containers {
		if c.name == name {
			return true
		}
	}
	return false
}

// isUnprotected says whether a container lacks what was wished for.
func (known *pod) isUnprotected() bool {
	for _, c := range known.containers {
		if c.unprotected {
			return true
		}
	}
	return false
}

// hasWish says whether the agent is to keep something of the pod's.
func (known *pod) hasWish() bool {
	for _, c := range known.containers {
		if c.hasWish() {
			return true
		}
	}
	return known.own.hasWish()
}

func newContainer(c *api.Container) *container {
	return &container{target: target{at: cgroup.ContainerPath(c.GetLinux().GetCgroupsPath())}, id: c.GetId(), name: c.GetName(),
		state: c.GetState(), limit: limitOf(c.GetLinux().GetResources())}
}

// limitOf is a memory limit in bytes, 0 for none.
func limitOf(r *api.LinuxResources) uint64 {
	if limit := r.GetMemory().GetLimit().GetValue(); limit > 0 {
		return uint64(limit)
	}
	return 0
}
