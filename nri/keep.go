// SPDX-License-Identifier: GPL-2.0-only

package main

import (
	"slices"
	"strings"

	"github.com/containerd/nri/pkg/api"

	"weir.dev/nri/want"
)

// What the runtime tells of a container has its whole environment, a MiB or two, and of a pod all its
// annotations. What is kept for as long as they live is bounded, whoever wrote them: a plugin that
// runs out of memory leaves the node without knobs.

// mostValue is longer, in bytes, than any value that is not refused.
const mostValue = 100

// keepPod is what is kept of a sandbox.
func keepPod(s *api.PodSandbox) *api.PodSandbox {
	var keys []string
	for key := range s.GetAnnotations() {
		if strings.HasPrefix(key, want.Prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	annotations := map[string]string{}
	// One too many are as many as it takes to be refused.
	for _, key := range keys[:min(len(keys), want.MostAnnotations+1)] {
		value := s.GetAnnotations()[key]
		if len(value) > mostValue {
			value = strings.ToValidUTF8(value[:mostValue], "") + "..."
		}
		// A clone, as a part of a string keeps all of it.
		annotations[key] = strings.Clone(value)
	}
	return &api.PodSandbox{Id: s.GetId(), Uid: s.GetUid(), Namespace: s.GetNamespace(), Name: s.GetName(),
		Annotations: annotations, Linux: &api.LinuxPodSandbox{CgroupParent: s.GetLinux().GetCgroupParent()}}
}

// keepContainer is what is kept of a container.
func keepContainer(c *api.Container) *api.Container {
	kept := &api.Container{Id: c.GetId(), PodSandboxId: c.GetPodSandboxId(), Name: c.GetName(), State: c.GetState(),
		Linux: &api.LinuxContainer{CgroupsPath: c.GetLinux().GetCgroupsPath(), Resources: &api.LinuxResources{}}}
	if limit := c.GetLinux().GetResources().GetMemory().GetLimit(); limit != nil {
		kept.Linux.Resources.Memory = &api.LinuxMemory{Limit: api.Int64(limit.GetValue())}
	}
	return kept
}
