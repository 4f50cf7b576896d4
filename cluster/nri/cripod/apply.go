// SPDX-License-Identifier: GPL-2.0-only

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	"sigs.k8s.io/yaml"
)

// kept is where volumes lie that are not the host's, as below /var/lib/kubelet.
const kept = "/var/lib/cripod"

// logs are where kubelet has the runtime write what containers print.
const logs = "/var/log/pods"

// graceKey is where kubelet keeps, of each container, how many seconds its end may take.
const graceKey = "io.kubernetes.pod.terminationGracePeriod"

// told is how much of a failed container's output kubelet puts into the pod's status.
const told = 2048

// parseManifest reads the ConfigMaps and the one DaemonSet of a file, as the API's own types and
// strictly: a field that they do not have is an error. Other kinds are the API server's business.
func parseManifest(text string) (map[string]core.ConfigMap, *apps.DaemonSet, error) {
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
			if set != nil {
				return nil, nil, fmt.Errorf("two DaemonSets: %s and another", set.Name)
			}
			set = &apps.DaemonSet{}
			err = yaml.UnmarshalStrict([]byte(document), set)
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

// applyDaemonSet starts the pod that a DaemonSet has on this node: its init containers one after the other,
// each to its end, then its containers.
func (k *kubelet) applyDaemonSet(ctx context.Context, file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	configs, set, err := parseManifest(string(text))
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	k.namespace, k.annotations = set.Namespace, set.Spec.Template.Annotations
	spec := set.Spec.Template.Spec
	uid := newUID()
	paths, err := volumePaths(spec.Volumes, configs, filepath.Join(kept, uid))
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	if err := k.makeCgroup(uid); err != nil {
		return "", err
	}
	config := k.sandboxConfig(uid, set.Name)
	config.LogDirectory = filepath.Join(logs, uid)
	if err := os.MkdirAll(config.LogDirectory, 0o755); err != nil {
		return "", err
	}
	start, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	sandbox, err := k.runtime.RunPodSandbox(start, &cri.RunPodSandboxRequest{Config: config})
	if err != nil {
		return "", fmt.Errorf("RunPodSandbox: %w", err)
	}
	grace := int64(30) // as the API server has it
	if g := spec.TerminationGracePeriodSeconds; g != nil {
		grace = *g
	}
	for _, c := range spec.InitContainers {
		container, err := containerConfig(&c, paths, grace)
		if err != nil {
			return sandbox.PodSandboxId, err
		}
		if err := k.runContainerToEnd(ctx, sandbox.PodSandboxId, config, container); err != nil {
			return sandbox.PodSandboxId, fmt.Errorf("init container %s: %w", c.Name, err)
		}
	}
	for _, c := range spec.Containers {
		container, err := containerConfig(&c, paths, grace)
		if err != nil {
			return sandbox.PodSandboxId, err
		}
		if _, err := k.createAndStart(ctx, sandbox.PodSandboxId, config, container); err != nil {
			return sandbox.PodSandboxId, fmt.Errorf("container %s: %w", c.Name, err)
		}
	}
	return sandbox.PodSandboxId, nil
}

// runContainerToEnd runs a container, and fails with the end of its output if it does: what kubelet makes the
// message of a terminated container, where the pod asks for FallbackToLogsOnError.
func (k *kubelet) runContainerToEnd(ctx context.Context, sandbox string, pod *cri.PodSandboxConfig, container *cri.ContainerConfig) error {
	begun := time.Now()
	id, err := k.createAndStart(ctx, sandbox, pod, container)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*patience)
	defer cancel()
	for {
		answer, err := k.runtime.ContainerStatus(ctx, &cri.ContainerStatusRequest{ContainerId: id})
		if err != nil {
			return err
		}
		if answer.Status.State == cri.ContainerState_CONTAINER_EXITED {
			output := readOutput(filepath.Join(pod.LogDirectory, container.LogPath))
			if answer.Status.ExitCode != 0 {
				return fmt.Errorf("ended with %d:\n%s", answer.Status.ExitCode, output[max(0, len(output)-told):])
			}
			fmt.Fprintf(os.Stderr, "%s ended after %.0f s: %s\n", container.Metadata.Name, time.Since(begun).Seconds(), strings.TrimSpace(output))
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// readOutput returns a container's output, of lines `TIME STREAM TAG TEXT`.
func readOutput(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	var output strings.Builder
	for line := range strings.SplitSeq(strings.TrimSuffix(string(text), "\n"), "\n") {
		words := strings.SplitN(line, " ", 4)
		output.WriteString(words[len(words)-1] + "\n")
	}
	return output.String()
}

// volumePaths are the host's paths by the names of volumes; those of the pod alone are made below `own`.
func volumePaths(list []core.Volume, configs map[string]core.ConfigMap, own string) (map[string]string, error) {
	paths := map[string]string{}
	for _, v := range list {
		at := filepath.Join(own, v.Name)
		switch {
		case v.HostPath != nil:
			at = v.HostPath.Path
			if t := v.HostPath.Type; t != nil && *t == core.HostPathDirectory {
				if is, err := os.Stat(at); err != nil || !is.IsDir() {
					return nil, fmt.Errorf("volume %s: hostPath type check failed: %s is not a directory", v.Name, at)
				}
			}
		case v.ConfigMap != nil:
			c, ok := configs[v.ConfigMap.Name]
			if !ok {
				return nil, fmt.Errorf("volume %s: no ConfigMap %s", v.Name, v.ConfigMap.Name)
			}
			if err := os.MkdirAll(at, 0o755); err != nil {
				return nil, err
			}
			for name, text := range c.Data {
				if err := os.WriteFile(filepath.Join(at, name), []byte(text), 0o644); err != nil {
					return nil, err
				}
			}
		case v.EmptyDir != nil:
		case v.Projected != nil && len(v.Projected.Sources) > 0 && v.Projected.Sources[0].ServiceAccountToken != nil:
			if at = account; !isAPIServed() {
				return nil, fmt.Errorf("volume %s: no service account: `cripod serve` first", v.Name)
			}
		default:
			return nil, fmt.Errorf("volume %s: expected hostPath, emptyDir, configMap or a service account's token", v.Name)
		}
		if err := os.MkdirAll(at, 0o777); err != nil {
			return nil, err
		}
		paths[v.Name] = at
	}
	return paths, nil
}

// containerConfig returns what kubelet makes of a container for the runtime.
func containerConfig(c *core.Container, paths map[string]string, grace int64) (*cri.ContainerConfig, error) {
	variables, err := containerEnvironment(c)
	if err != nil {
		return nil, err
	}
	config := &cri.ContainerConfig{
		Metadata: &cri.ContainerMetadata{Name: c.Name},
		Image:    &cri.ImageSpec{Image: c.Image},
		Command:  c.Command,
		Args:     c.Args,
		Labels:   map[string]string{"io.kubernetes.container.name": c.Name},
		// Those of `run` have none: a shell that is process 1 would wait for all of it.
		Annotations: map[string]string{graceKey: strconv.FormatInt(grace, 10)},
		LogPath:     c.Name + ".log",
		Linux: &cri.LinuxContainerConfig{
			Resources: &cri.LinuxContainerResources{MemoryLimitInBytes: c.Resources.Limits.Memory().Value()},
			SecurityContext: &cri.LinuxContainerSecurityContext{
				NamespaceOptions: &cri.NamespaceOption{Network: cri.NamespaceMode_NODE},
				Capabilities:     &cri.Capability{},
				Seccomp:          &cri.SecurityProfile{ProfileType: cri.SecurityProfile_RuntimeDefault},
			},
		},
	}
	for name, value := range variables {
		config.Envs = append(config.Envs, &cri.KeyValue{Key: name, Value: value})
	}
	for _, m := range c.VolumeMounts {
		from := filepath.Join(paths[m.Name], m.SubPath)
		// As kubelet does for a subPath that is not there.
		_ = os.MkdirAll(from, 0o755)
		config.Mounts = append(config.Mounts, &cri.Mount{ContainerPath: m.MountPath, HostPath: from, Readonly: m.ReadOnly})
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
		if s.RunAsGroup != nil {
			to.RunAsGroup = &cri.Int64Value{Value: *s.RunAsGroup}
		}
	}
	return config, nil
}
