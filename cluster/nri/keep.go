// SPDX-License-Identifier: GPL-2.0-only

package main

import (
	"context"
	"slices"
	"strings"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/ttrpc"

	"weir.dev/nri/want"
)

// The runtime's description of a container has its whole environment, a MiB or two, and that of a pod
// all its annotations. A plugin that runs out of memory leaves the node without knobs, so parts that it
// does not need of a message go before anything else sees it: NRI's stub collects all that is alive
// before it hands it over.

// readNeededFields reads one message.
func readNeededFields(ctx context.Context, read ttrpc.Unmarshaler, _ *ttrpc.UnaryServerInfo, answer ttrpc.Method) (any, error) {
	return answer(ctx, func(message any) error {
		if err := read(message); err != nil {
			return err
		}
		switch m := message.(type) {
		case *api.SynchronizeRequest:
			for i, s := range m.Pods {
				m.Pods[i] = copyNeededOfPod(s)
			}
			for i, c := range m.Containers {
				m.Containers[i] = copyNeededOfContainer(c)
			}
		case *api.CreateContainerRequest:
			m.Pod, m.Container = copyNeededOfPod(m.Pod), copyNeededOfContainer(m.Container)
		case *api.UpdateContainerRequest:
			m.Pod, m.Container = copyNeededOfPod(m.Pod), copyNeededOfContainer(m.Container)
		case *api.StateChangeEvent:
			m.Pod, m.Container = copyNeededOfPod(m.Pod), copyNeededOfContainer(m.Container)
		}
		return nil
	})
}

// mostValue is longer, in bytes, than a value needs to be.
const mostValue = 100

// copyNeededOfPod is what is needed of a sandbox.
func copyNeededOfPod(s *api.PodSandbox) *api.PodSandbox {
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

// copyNeededOfContainer is what is needed of a container.
func copyNeededOfContainer(c *api.Container) *api.Container {
	kept := &api.Container{Id: c.GetId(), PodSandboxId: c.GetPodSandboxId(), Name: c.GetName(), State: c.GetState(),
		Linux: &api.LinuxContainer{CgroupsPath: c.GetLinux().GetCgroupsPath(), Resources: &api.LinuxResources{}}}
	if limit := c.GetLinux().GetResources().GetMemory().GetLimit(); limit != nil {
		kept.Linux.Resources.Memory = &api.LinuxMemory{Limit: api.Int64(limit.GetValue())}
	}
	return kept
}
