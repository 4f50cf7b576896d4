// SPDX-License-Identifier: GPL-2.0-only

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	"sigs.k8s.io/yaml"
)

// kept is where what a ConfigMap holds lies for its pods.
const kept = "/var/lib/cripod"

// manifest reads the ConfigMaps and the one DaemonSet of a file, as the API's own types and
// strictly: a field that they do not have is an error.
func manifest(text string) (map[string]core.ConfigMap, *apps.DaemonSet, error) {
	configs := map[string]core.ConfigMap{}
	var set *apps.DaemonSet
	for document := range strings.SplitSeq(text, "\n---\n") {
		var kind struct{ Kind string }
		if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
			return nil, nil, err
		}
		var err error
		switch kind.Kind {
		case "ConfigMap":
			var c core.ConfigMap
			err = yaml.UnmarshalStrict([]byte(document), &c)
			configs[c.Name] = c
		case "DaemonSet":
			set = &apps.DaemonSet{}
			err = yaml.UnmarshalStrict([]byte(document), set)
		default:
			err = fmt.Errorf("kind %s: expected ConfigMap or DaemonSet", kind.Kind)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	if set == nil {
		return nil, nil, fmt.Errorf("no DaemonSet")
	}
	return configs, set, nil
}

// apply starts the pod that a DaemonSet has on this node.
func (k *kubelet) apply(ctx context.Context, file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	configs, set, err := manifest(string(text))
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	k.namespace, k.annotations = set.Namespace, set.Spec.Template.Annotations
	spec := set.Spec.Template.Spec
	paths, err := volumes(spec.Volumes, configs)
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	uid := newUID()
	if err := k.makeCgroup(uid); err != nil {
		return "", err
	}
	config := k.sandboxConfig(uid, set.Name)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	sandbox, err := k.runtime.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: config})
	if err != nil {
		return "", fmt.Errorf("RunPodSandbox: %w", err)
	}
	for _, c := range spec.Containers {
		if err := k.launch(ctx, sandbox.PodSandboxId, config, translate(&c, paths)); err != nil {
			return "", err
		}
	}
	return sandbox.PodSandboxId, nil
}

// volumes are the host's paths by the names of volumes.
func volumes(list []core.Volume, configs map[string]core.ConfigMap) (map[string]string, error) {
	paths := map[string]string{}
	for _, v := range list {
		switch {
		case v.HostPath != nil:
			paths[v.Name] = v.HostPath.Path
		case v.ConfigMap != nil:
			c, ok := configs[v.ConfigMap.Name]
			if !ok {
				return nil, fmt.Errorf("volume %s: no ConfigMap %s", v.Name, v.ConfigMap.Name)
			}
			paths[v.Name] = filepath.Join(kept, c.Name)
			if err := os.MkdirAll(paths[v.Name], 0o755); err != nil {
				return nil, err
			}
			for name, text := range c.Data {
				if err := os.WriteFile(filepath.Join(paths[v.Name], name), []byte(text), 0o644); err != nil {
					return nil, err
				}
			}
		default:
			return nil, fmt.Errorf("volume %s: expected hostPath or configMap", v.Name)
		}
	}
	return paths, nil
}

// translate is what kubelet makes of a container for the runtime.
func translate(c *core.Container, paths map[string]string) *cri.ContainerConfig {
	config := &cri.ContainerConfig{
		Metadata: &cri.ContainerMetadata{Name: c.Name},
		Image:    &cri.ImageSpec{Image: c.Image},
		Command:  c.Command,
		Args:     c.Args,
		Labels:   map[string]string{"io.kubernetes.container.name": c.Name},
		Linux: &cri.LinuxContainerConfig{
			Resources: &cri.LinuxContainerResources{MemoryLimitInBytes: c.Resources.Limits.Memory().Value()},
			SecurityContext: &cri.LinuxContainerSecurityContext{
				NamespaceOptions: &cri.NamespaceOption{Network: cri.NamespaceMode_NODE},
				Capabilities:     &cri.Capability{},
				Seccomp:          &cri.SecurityProfile{ProfileType: cri.SecurityProfile_RuntimeDefault},
			},
		},
	}
	for _, m := range c.VolumeMounts {
		config.Mounts = append(config.Mounts, &cri.Mount{ContainerPath: m.MountPath, HostPath: paths[m.Name], Readonly: m.ReadOnly})
	}
	if s := c.SecurityContext; s != nil {
		to := config.Linux.SecurityContext
		if s.Capabilities != nil {
			for _, name := range s.Capabilities.Drop {
				to.Capabilities.DropCapabilities = append(to.Capabilities.DropCapabilities, string(name))
			}
			for _, name := range s.Capabilities.Add {
				to.Capabilities.AddCapabilities = append(to.Capabilities.AddCapabilities, string(name))
			}
		}
		to.ReadonlyRootfs = s.ReadOnlyRootFilesystem != nil && *s.ReadOnlyRootFilesystem
		to.NoNewPrivs = s.AllowPrivilegeEscalation != nil && !*s.AllowPrivilegeEscalation
		if s.RunAsUser != nil {
			to.RunAsUser = &cri.Int64Value{Value: *s.RunAsUser}
		}
	}
	return config
}
