// SPDX-License-Identifier: GPL-2.0-only

package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"weir.dev/nri/cgroup"
)

const hierarchy = "/sys/fs/cgroup"

// kubelet is what of it a runtime sees.
type kubelet struct {
	runtime     cri.RuntimeServiceClient
	namespace   string
	qos         string
	image       string
	handler     string
	podLimit    string
	data        string
	systemd     bool
	annotations pairs
	attempt     uint32 // of its sandbox and containers, which have the names of those before
}

func (k *kubelet) connectRuntime(socket string) error {
	conn, err := grpc.Dial("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	k.runtime = cri.NewRuntimeServiceClient(conn)
	return err
}

// cgroupParent is the cgroup of a pod as kubelet names it to the runtime.
func (k *kubelet) cgroupParent(uid string) string {
	class := ""
	if k.qos != "guaranteed" {
		class = k.qos
	}
	if !k.systemd {
		return filepath.Join("/kubepods", class, "pod"+uid)
	}
	name := "kubepods"
	if class != "" {
		name += "-" + class
	}
	return fmt.Sprintf("%s-pod%s.slice", name, strings.ReplaceAll(uid, "-", "_"))
}

// makeCgroup makes the pod's cgroup with its limit. systemd makes slices itself.
func (k *kubelet) makeCgroup(uid string) error {
	if k.systemd {
		return nil
	}
	at := hierarchy
	for _, name := range strings.Split(strings.Trim(k.cgroupParent(uid), "/"), "/") {
		if err := os.WriteFile(filepath.Join(at, "cgroup.subtree_control"), []byte("+memory +pids +cpu"), 0); err != nil {
			return err
		}
		at = filepath.Join(at, name)
		if err := os.Mkdir(at, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return os.WriteFile(filepath.Join(at, "memory.max"), []byte(k.podLimit), 0)
}

func (k *kubelet) sandboxConfig(uid, name string) *cri.PodSandboxConfig {
	return &cri.PodSandboxConfig{
		Metadata: &cri.PodSandboxMetadata{Name: name, Uid: uid, Namespace: k.namespace, Attempt: k.attempt},
		Labels: map[string]string{"io.kubernetes.pod.name": name, "io.kubernetes.pod.namespace": k.namespace,
			"io.kubernetes.pod.uid": uid},
		Annotations: k.annotations,
		Linux: &cri.LinuxPodSandboxConfig{
			CgroupParent: k.cgroupParent(uid),
			// The node's network: nothing here is about networks, and it needs no CNI plugin.
			SecurityContext: &cri.LinuxSandboxSecurityContext{
				NamespaceOptions: &cri.NamespaceOption{Network: cri.NamespaceMode_NODE}},
		},
	}
}

func (k *kubelet) runPod(ctx context.Context, name string, containers []string) (string, error) {
	uid := newUID()
	if err := k.makeCgroup(uid); err != nil {
		return "", err
	}
	config := k.sandboxConfig(uid, name)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	sandbox, err := k.runtime.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: config, RuntimeHandler: k.handler})
	if err != nil {
		return "", errors.Join(fmt.Errorf("RunPodSandbox: %w", err), k.removeFailedPod(uid))
	}
	for _, container := range containers {
		if err := k.startContainer(ctx, sandbox.PodSandboxId, config, container); err != nil {
			return "", errors.Join(err, k.removeFailedPod(uid))
		}
	}
	return sandbox.PodSandboxId, nil
}

// startContainer creates and starts CONTAINER[=LIMIT].
func (k *kubelet) startContainer(ctx context.Context, sandbox string, config *cri.PodSandboxConfig, container string) error {
	name, text, _ := strings.Cut(container, "=")
	limit := int64(0)
	if text != "" {
		var err error
		if limit, err = strconv.ParseInt(text, 10, 64); err != nil {
			return err
		}
	}
	_, err := k.createAndStart(ctx, sandbox, config, &cri.ContainerConfig{
		Metadata: &cri.ContainerMetadata{Name: name, Attempt: k.attempt},
		Image:    &cri.ImageSpec{Image: k.image},
		Command:  []string{"/bin/sh", "-c", "while :; do sleep 1; done"},
		Labels:   map[string]string{"io.kubernetes.container.name": name},
		Linux: &cri.LinuxContainerConfig{
			Resources: &cri.LinuxContainerResources{MemoryLimitInBytes: limit},
			SecurityContext: &cri.LinuxContainerSecurityContext{
				NamespaceOptions: &cri.NamespaceOption{Network: cri.NamespaceMode_NODE}},
		},
		Mounts: []*cri.Mount{{ContainerPath: "/data", HostPath: k.data}},
	})
	return err
}

// createAndStart creates and starts a container, and says which it is.
func (k *kubelet) createAndStart(ctx context.Context, sandbox string, pod *cri.PodSandboxConfig, container *cri.ContainerConfig) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	created, err := k.runtime.CreateContainer(ctx, &cri.CreateContainerRequest{
		PodSandboxId: sandbox, SandboxConfig: pod, Config: container})
	if err != nil {
		return "", fmt.Errorf("CreateContainer: %w", err)
	}
	if _, err := k.runtime.StartContainer(ctx, &cri.StartContainerRequest{ContainerId: created.ContainerId}); err != nil {
		return "", fmt.Errorf("StartContainer: %w", err)
	}
	return created.ContainerId, nil
}

// addContainer starts one more container; the pod is what the runtime knows of it.
func (k *kubelet) addContainer(ctx context.Context, sandbox, container string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	status, err := k.runtime.PodSandboxStatus(ctx, &cri.PodSandboxStatusRequest{PodSandboxId: sandbox})
	if err != nil {
		return err
	}
	meta := status.Status.Metadata
	k.namespace, k.annotations = meta.Namespace, status.Status.Annotations
	return k.startContainer(ctx, sandbox, k.sandboxConfig(meta.Uid, meta.Name), container)
}

// findContainer returns the id of a sandbox's container.
func (k *kubelet) findContainer(ctx context.Context, sandbox, name string) (string, error) {
	list, err := k.runtime.ListContainers(ctx, &cri.ListContainersRequest{Filter: &cri.ContainerFilter{PodSandboxId: sandbox}})
	if err != nil {
		return "", err
	}
	at := slices.IndexFunc(list.Containers, func(c *cri.Container) bool { return c.Metadata.Name == name })
	if at < 0 {
		return "", fmt.Errorf("sandbox %s has no container %s", sandbox, name)
	}
	return list.Containers[at].Id, nil
}

func (k *kubelet) updateLimit(ctx context.Context, sandbox, name, limit string) error {
	id, err := k.findContainer(ctx, sandbox, name)
	if err != nil {
		return err
	}
	bytes, err := strconv.ParseInt(limit, 10, 64)
	if err != nil {
		return err
	}
	_, err = k.runtime.UpdateContainerResources(ctx, &cri.UpdateContainerResourcesRequest{
		ContainerId: id, Linux: &cri.LinuxContainerResources{MemoryLimitInBytes: bytes}})
	return err
}

func (k *kubelet) execCommand(ctx context.Context, sandbox, name string, command []string) error {
	id, err := k.findContainer(ctx, sandbox, name)
	if err != nil {
		return err
	}
	r, err := k.runtime.ExecSync(ctx, &cri.ExecSyncRequest{ContainerId: id, Cmd: command})
	if err != nil {
		return err
	}
	_, _ = os.Stdout.Write(r.Stdout)
	_, _ = os.Stderr.Write(r.Stderr)
	if r.ExitCode != 0 {
		return fmt.Errorf("%s ended with %d", command[0], r.ExitCode)
	}
	return nil
}

func (k *kubelet) printPID(ctx context.Context, sandbox, name string) error {
	id, err := k.findContainer(ctx, sandbox, name)
	if err != nil {
		return err
	}
	status, err := k.runtime.ContainerStatus(ctx, &cri.ContainerStatusRequest{ContainerId: id, Verbose: true})
	if err != nil {
		return err
	}
	var info struct{ Pid int }
	if err := json.Unmarshal([]byte(status.Info["info"]), &info); err != nil {
		return err
	}
	fmt.Println(info.Pid)
	return nil
}

// printStatus prints what the runtime says of a container: its id, state, exit code and times.
func (k *kubelet) printStatus(ctx context.Context, sandbox, name string) error {
	id, err := k.findContainer(ctx, sandbox, name)
	if err != nil {
		return err
	}
	r, err := k.runtime.ContainerStatus(ctx, &cri.ContainerStatusRequest{ContainerId: id})
	if err != nil {
		return err
	}
	s := r.Status
	at := func(nanoseconds int64) string { return time.Unix(0, nanoseconds).UTC().Format(time.RFC3339Nano) }
	fmt.Printf("%s %s, started %s", id, s.State, at(s.StartedAt))
	if s.FinishedAt > 0 {
		fmt.Printf(", ended %s with %d, %s %s", at(s.FinishedAt), s.ExitCode, s.Reason, s.Message)
	}
	fmt.Println()
	return nil
}

// restartSandbox starts another sandbox for a pod whose own has ended, as kubelet does: the pod's cgroup stays.
func (k *kubelet) restartSandbox(ctx context.Context, sandbox, container string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	was, err := k.runtime.PodSandboxStatus(ctx, &cri.PodSandboxStatusRequest{PodSandboxId: sandbox})
	if err != nil {
		return "", err
	}
	meta := was.Status.Metadata
	k.namespace, k.annotations, k.attempt = meta.Namespace, was.Status.Annotations, meta.Attempt+1
	config := k.sandboxConfig(meta.Uid, meta.Name)
	next, err := k.runtime.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: config, RuntimeHandler: was.Status.RuntimeHandler})
	if err != nil {
		return "", fmt.Errorf("RunPodSandbox: %w", err)
	}
	return next.PodSandboxId, k.startContainer(ctx, next.PodSandboxId, config, container)
}

// stopSandbox stops a pod's sandbox with its containers, and removes nothing.
func (k *kubelet) stopSandbox(ctx context.Context, sandbox string) error {
	_, err := k.runtime.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: sandbox})
	return err
}

func (k *kubelet) stopContainer(ctx context.Context, sandbox, name string) error {
	id, err := k.findContainer(ctx, sandbox, name)
	if err != nil {
		return err
	}
	if _, err := k.runtime.StopContainer(ctx, &cri.StopContainerRequest{ContainerId: id}); err != nil {
		return err
	}
	_, err = k.runtime.RemoveContainer(ctx, &cri.RemoveContainerRequest{ContainerId: id})
	return err
}

// removeFailedPod removes what there is of a pod that could not be started, as soon as the runtime answers: it
// may have been restarted in the middle of it.
func (k *kubelet) removeFailedPod(uid string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		err := k.removePodsIf(ctx, func(s *cri.PodSandbox) bool { return s.Metadata.Uid == uid })
		if err == nil {
			err = removeCgroup(uid) // Perhaps the runtime knew of none.
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(time.Second):
		}
	}
}

// removePods stops and removes pods and, as kubelet does, their cgroups.
func (k *kubelet) removePods(ctx context.Context, sandboxes []string) error {
	return k.removePodsIf(ctx, func(s *cri.PodSandbox) bool {
		return slices.Contains(sandboxes, s.Id) || slices.Contains(sandboxes, "all")
	})
}

func (k *kubelet) removePodsIf(ctx context.Context, asked func(*cri.PodSandbox) bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	list, err := k.runtime.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
	if err != nil {
		return err
	}
	var failed error
	var ended []string // A pod may have two sandboxes: its cgroup goes after both.
	for _, s := range list.Items {
		if !asked(s) {
			continue
		}
		failed = k.stopContainersWithGrace(ctx, s.Id)
		for isRestarting(failed) && ctx.Err() == nil {
			time.Sleep(time.Second) // Asked by another call, it may not know the pod any more.
			failed = k.stopContainersWithGrace(ctx, s.Id)
		}
		if failed != nil {
			break
		}
		ended = append(ended, s.Metadata.Uid)
	}
	for _, uid := range ended {
		_ = os.RemoveAll(filepath.Join(kept, uid))
		_ = os.RemoveAll(filepath.Join(logs, uid))
		failed = errors.Join(failed, removeCgroup(uid))
	}
	return failed
}

// stopContainersWithGrace stops containers first, as kubelet does: the runtime, told to stop a sandbox, kills them.
func (k *kubelet) stopContainersWithGrace(ctx context.Context, sandbox string) error {
	list, err := k.runtime.ListContainers(ctx, &cri.ListContainersRequest{Filter: &cri.ContainerFilter{PodSandboxId: sandbox}})
	if err != nil {
		return err
	}
	for _, c := range list.Containers {
		grace, _ := strconv.ParseInt(c.Annotations[graceKey], 10, 64)
		if grace == 0 || c.State != cri.ContainerState_CONTAINER_RUNNING {
			continue
		}
		if _, err := k.runtime.StopContainer(ctx, &cri.StopContainerRequest{ContainerId: c.Id, Timeout: grace}); err != nil {
			return err
		}
	}
	if _, err := k.runtime.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: sandbox}); err != nil {
		return err
	}
	_, err = k.runtime.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: sandbox})
	return err
}

// isRestarting says whether an error is that of a runtime which is being restarted.
func isRestarting(err error) bool {
	code := status.Code(err)
	return code == codes.Unavailable || code == codes.Canceled ||
		err != nil && strings.Contains(err.Error(), "not initialized yet")
}

// removeCgroup removes a pod's cgroup, whatever its class, and with it what runc left there when it
// was killed, which happens if the runtime is restarted in the middle of a start.
func removeCgroup(uid string) error {
	for _, class := range []string{"guaranteed", "burstable", "besteffort"} {
		for _, systemd := range []bool{false, true} {
			k := kubelet{qos: class, systemd: systemd}
			at := filepath.Join(hierarchy, cgroup.PodPath(k.cgroupParent(uid)))
			err := removeTree(at)
			for range 100 { // The last process may be on its way out.
				if !errors.Is(err, syscall.EBUSY) {
					break
				}
				time.Sleep(100 * time.Millisecond)
				err = removeTree(at)
			}
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// removeTree removes a cgroup and those below it, the lowest first. Busy is what has a process.
func removeTree(at string) error {
	entries, err := os.ReadDir(at)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() {
			if err := removeTree(filepath.Join(at, entry.Name())); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
	}
	return os.Remove(at)
}

// benchStarts starts pods one after the other and prints, for each, milliseconds of its start.
func (k *kubelet) benchStarts(ctx context.Context, number string) error {
	n, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	for range n {
		begun := time.Now()
		sandbox, err := k.runPod(ctx, "bench", []string{"c=67108864"})
		took := time.Since(begun)
		if err != nil {
			return err
		}
		fmt.Printf("%.1f\n", float64(took.Microseconds())/1000)
		if err := k.removePods(ctx, []string{sandbox}); err != nil {
			return err
		}
	}
	return nil
}

func newUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
