// SPDX-License-Identifier: GPL-2.0-only

package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"

	"weir.dev/nri/cgroup"
	"weir.dev/nri/knob"
	"weir.dev/nri/want"
)

// plugin answers the runtime. A wish that is refused is refused when a container is created, not
// when the pod's sandbox is: a pod without a sandbox looks as if it waited, while a container that
// cannot be created has the reason in the pod's status.
type plugin struct {
	root cgroup.Root
	log  *slog.Logger

	// mu is held while a request is answered, never while the runtime is called.
	mu sync.Mutex
	node
	connection connection
	module     uint64
	// synced says that the runtime has told what is alive.
	synced bool
	// unwritten says that the file for the agent could not be written.
	unwritten bool
	// waited is how long this process has waited for a CPU, so far and when it was configured.
	waited       func() time.Duration
	configured   time.Duration
	configuredAt time.Time
}

func newPlugin(config *want.Config, root cgroup.Root, log *slog.Logger) *plugin {
	return &plugin{node: node{config: config, pods: map[string]*pod{}}, root: root, log: log, connection: newConnection(),
		module: root.ModuleID(), waited: waitedForCPU}
}

// lockUnlessLate takes the plugin's lock, unless the runtime has given up the request meanwhile: it then took
// the plugin for dead, and what it asked about goes on without knobs.
func (p *plugin) lockUnlessLate(ctx context.Context) error {
	p.mu.Lock()
	err := ctx.Err()
	if err != nil {
		p.mu.Unlock()
	}
	return err
}

// Configure comes right before Synchronize, except for what the runtime itself waits for in between.
func (p *plugin) Configure(context.Context, string, string, string) (api.EventMask, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.configured, p.configuredAt = p.waited(), time.Now()
	return 0, nil
}

// Synchronize learns what is alive, after a start of the plugin's or of the runtime's. What has a
// floor keeps it and counts, whatever is allowed by now. What was started meanwhile gets its knobs,
// as far as they are allowed, when the runtime has its answer; a running container is not ended for
// a wish.
func (p *plugin) Synchronize(ctx context.Context, pods []*api.PodSandbox, containers []*api.Container) ([]*api.ContainerUpdate, error) {
	deadline, hurry := ctx.Deadline()
	// Some of it is for the way of the answer.
	latest := deadline.Add(-time.Until(deadline) / 4)
	// The deadline counts from where the question was read, at the runtime from where it was asked.
	latest = latest.Add(-p.timeUnread())
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := ctx.Err(); err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			p.connection.endWith(errLate)
		}
		return nil, err
	}
	was, rules := p.pods, p.readRules()
	p.pods = map[string]*pod{}
	p.budget = want.Budget{}
	for _, s := range pods {
		known := newPod(s, p.startsPodsWithAgent())
		kept := rules[known.own.at]
		known.inheritFrom(was[known.sandbox], kept)
		known.withAgent = known.withAgent || p.auto && len(kept.values) > 0
		p.pods[known.sandbox] = known
		p.recordPodFloors(known, byFileOrGiven)
	}
	// What the runtime does not list has no container, but its pod's cgroup may be there, with its floor.
	for id, before := range was {
		if p.pods[id] == nil && p.root.HasCgroup(before.own.at) {
			known := before.withoutContainers()
			known.inheritFrom(before, rules[known.own.at])
			if p.reservedBy(known, &known.own, p.readFloor(known.own.at), byFileOrGiven).Floor() > 0 {
				p.pods[id] = known
				p.recordPodFloors(known, byFileOrGiven)
			}
		}
	}
	// What runs comes first: the runtime may list one that never started, and the one after it.
	slices.SortStableFunc(containers, func(a, b *api.Container) int {
		return cmp.Compare(b.GetState(), a.GetState())
	})
	for _, c := range containers {
		known := p.pods[c.GetPodSandboxId()]
		if known == nil || known.hasContainer(c.GetName()) || c.GetState() == api.ContainerState_CONTAINER_STOPPED {
			continue
		}
		kept := rules[known.own.at+globBelowPod(c.GetId())]
		known.addContainer(newContainer(c), was[known.sandbox], kept)
		known.withAgent = known.withAgent || p.auto && len(kept.values) > 0
		p.recordContainerFloors(known, known.containers[c.GetId()], byFileOrGiven)
	}
	p.module = p.root.ModuleID()
	p.partial = true
	p.log.Info("synchronized", "pods", len(pods), "containers", len(containers), "module", p.module != 0)
	if hurry && time.Now().After(latest) {
		p.connection.endWith(errLate)
		return nil, errLate
	}
	p.synced = true
	p.connection.markLearnt()
	return nil, nil
}

// CreateContainer adds the knobs of a container to its specification, and writes its pod's.
func (p *plugin) CreateContainer(ctx context.Context, s *api.PodSandbox, c *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	if err := p.lockUnlessLate(ctx); err != nil {
		return nil, nil, err
	}
	defer p.mu.Unlock()
	known, created := p.openContainer(s, c, api.ContainerState_CONTAINER_CREATED)
	values, err := p.grantKnobs(known, created, created.limit)
	if errors.Is(err, errUnprotected) {
		// The floor's file is the first that the module makes. Where it is, what failed will fail again.
		if _, absent := p.root.ReadKnob(known.own.at, knob.DirtyMin); absent != nil {
			return nil, nil, nil
		}
	}
	if err != nil {
		p.forgetContainer(known, created.id)
		return nil, nil, p.logAndCountRefusal(err)
	}
	if len(values) == 0 {
		return nil, nil, nil
	}
	a := &api.ContainerAdjustment{}
	for k, value := range values {
		a.AddLinuxUnified(k.File, k.Text(value))
	}
	p.recordGiven(created, values)
	return a, nil, nil
}

// StartContainer, which comes before the container's first process runs, gives knobs to one whose
// creation the plugin was not asked about. The runtime asks the plugins that are connected then, and
// one that connects meanwhile learns only of containers that are complete.
func (p *plugin) StartContainer(ctx context.Context, s *api.PodSandbox, c *api.Container) error {
	if err := p.lockUnlessLate(ctx); err != nil {
		return err
	}
	defer p.mu.Unlock()
	known, started := p.openContainer(s, c, api.ContainerState_CONTAINER_RUNNING)
	if len(known.containers) == 1 {
		p.forgetDeadPods() // The sandbox that it had before.
	}
	if started.wishes != nil {
		return nil // The agent has it.
	}
	// What is counted after it is what the OCI runtime, too, may have written: an old wish, or nothing.
	defer p.recordContainerFloors(known, started, p.countingRule())
	// The answer may have come when the runtime had given it up: writeUnsetKnobs looks what there is.
	values := started.given
	if values == nil {
		var err error
		values, err = p.grantKnobs(known, started, started.limit)
		if errors.Is(err, errUnprotected) {
			return nil
		}
		if err != nil && p.hasGrantedFloors(known, started) {
			return nil // It was allowed when it was created, by the plugin that ran then.
		}
		if err != nil {
			return p.logAndCountRefusal(err)
		}
	}
	if err := p.writeUnsetKnobs(started, values); err != nil {
		p.markUnprotected(known, started, err)
	}
	return nil
}

// UpdateContainer evaluates shares anew when a container's memory limit changes.
func (p *plugin) UpdateContainer(ctx context.Context, s *api.PodSandbox, c *api.Container, r *api.LinuxResources) ([]*api.ContainerUpdate, error) {
	if err := p.lockUnlessLate(ctx); err != nil {
		return nil, err
	}
	defer p.mu.Unlock()
	known := p.pods[s.GetId()]
	if known == nil || known.containers[c.GetId()] == nil {
		return nil, nil // It has ended, or did not begin: then StartContainer sees to it.
	}
	known, updated := p.openContainer(s, c, known.containers[c.GetId()].state)
	// kubelet names the limit, too, when it changes the CPUs alone.
	limit := updated.limit
	stays := r.GetMemory().GetLimit().GetValue() == 0 || limitOf(r) == limit
	if !stays {
		limit = limitOf(r)
	}
	values, err := p.grantKnobs(known, updated, limit)
	switch {
	case err == nil, errors.Is(err, errUnprotected):
	case stays:
		return p.updateToKeepFloor(known, updated), nil // It was refused, started without, and is to get other CPUs, say.
	default:
		return nil, p.logAndCountRefusal(err)
	}
	updated.limit = limit
	if len(values) == 0 {
		return nil, nil
	}
	if err := p.rewriteGiven(updated, values); err != nil {
		p.recordContainerFloors(known, updated, byFile) // It stays as it is.
		return nil, err
	}
	p.recordGiven(updated, values)
	updated.updating = true
	p.recordContainerFloors(known, updated, byFileOrGiven) // The update may fail, and what is there stay.
	return []*api.ContainerUpdate{containerUpdate(updated, values)}, nil
}

// PostUpdateContainer counts what the OCI runtime has made of an update. It writes all that it was ever
// told of a container, also what has been taken back since. crun writes a floor below the one that the
// plugin wrote, if that could not be told in time: one of them goes, when the other is there.
func (p *plugin) PostUpdateContainer(_ context.Context, s *api.PodSandbox, c *api.Container) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.pods[s.GetId()]
	if known == nil || known.containers[c.GetId()] == nil {
		return nil
	}
	updated := known.containers[c.GetId()]
	p.removeDoubleFloor(updated)
	updated.updating = false
	p.recordContainerFloors(known, updated, p.countingRule())
	return nil
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
