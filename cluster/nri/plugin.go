// SPDX-License-Identifier: GPL-2.0-only

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"sync"
	"syscall"
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
	config *want.Config
	root   cgroup.Root
	log    *slog.Logger
	// stock is the file for the agent's rules on a node that allows no module; empty on others.
	stock string
	// auto says that the node may get the module: pods that begin without it are the agent's until they end,
	// which then keeps their rules by the module; pods that begin with it are the plugin's.
	auto bool
	// times is the file for what the agent keeps on others: values in time. Empty if no agent reads one.
	times string

	// mu is held while a request is answered, never while the runtime is called.
	mu         sync.Mutex
	connection connection
	module     uint64
	// synced says that the runtime has told what is alive; partial, that not all of that was looked at
	// since, or since the module was loaded, so that the agent's rules stay as they are.
	synced, partial bool
	live            map[string]*pod
	budget          want.Budget
	counts          counts
	// unwritten says that the file for the agent could not be written.
	unwritten bool
	// waited is how long this process has waited for a CPU, so far and when it was configured.
	waited       func() time.Duration
	configured   time.Duration
	configuredAt time.Time
}

// pod is a sandbox with its live containers, as the runtime described them last.
type pod struct {
	sandbox    *api.PodSandbox
	containers map[string]*api.Container
	// given are the knobs that a container, or as `own` the pod, was given; the runtime tells nothing of
	// them later.
	given map[string]want.Values
	// wishes are those that were allowed, for the agent, on a node that allows no module.
	wishes map[string]want.Values
	// times are those of what was allowed that are in time, which are the agent's on every node.
	times map[string]want.Times
	// unprotected are the containers that lack what was wished for, mostly as the module was not there.
	unprotected map[string]bool
	// updating are the containers whose update may have failed since it was answered: no message says so.
	updating map[string]bool
	// limit is the memory limit that shares of the pod's own are of, 0 for none; nil without a share.
	limit *uint64
	// warned says that the log has it that the module was not there.
	warned bool
	// withAgent says that the agent keeps what the pod and its containers are to have, on a node that may
	// get the module.
	withAgent bool
}

func newPod(s *api.PodSandbox) *pod {
	return &pod{sandbox: s, containers: map[string]*api.Container{}, given: map[string]want.Values{},
		wishes: map[string]want.Values{}, times: map[string]want.Times{}, unprotected: map[string]bool{}, updating: map[string]bool{}}
}

func newPlugin(config *want.Config, root cgroup.Root, log *slog.Logger) *plugin {
	return &plugin{config: config, root: root, log: log, connection: newConnection(), module: root.ModuleID(),
		live: map[string]*pod{}, waited: waitedForCPU}
}

// describePod returns a sandbox as the policy looks at it.
func describePod(s *api.PodSandbox) want.Pod {
	return want.Pod{
		Namespace:   s.GetNamespace(),
		Name:        s.GetName(),
		QoS:         cgroup.QoSOf(pathOf(s)),
		Annotations: s.GetAnnotations(),
	}
}

func pathOf(s *api.PodSandbox) string {
	return cgroup.PodPath(s.GetLinux().GetCgroupParent())
}

// CreateContainer adds the knobs of a container to its specification, and writes its pod's.
func (p *plugin) CreateContainer(ctx context.Context, s *api.PodSandbox, c *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	if err := p.lockUnlessLate(ctx); err != nil {
		return nil, nil, err
	}
	defer p.mu.Unlock()
	p.forgetPredecessors(s, c)
	c.State = api.ContainerState_CONTAINER_CREATED
	values, err := p.decideValues(s, c, limitOf(resourcesOf(c)))
	if errors.Is(err, errUnprotected) {
		// The floor's file is the first that the module makes. Where it is, what failed will fail again.
		if _, absent := p.root.ReadKnob(pathOf(s), knob.DirtyMin); absent != nil {
			return nil, nil, nil
		}
	}
	if err != nil {
		p.forgetContainer(p.live[s.GetId()], c.GetId())
		return nil, nil, p.countRefusal(err)
	}
	if len(values) == 0 {
		return nil, nil, nil
	}
	a := &api.ContainerAdjustment{}
	for k, value := range values {
		a.AddLinuxUnified(k.File, k.Text(value))
	}
	p.recordGiven(s, c, values)
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
	p.forgetPredecessors(s, c)
	c.State = api.ContainerState_CONTAINER_RUNNING
	p.rememberContainer(s, c)
	known := p.live[s.GetId()]
	if known.wishes[c.GetId()] != nil {
		return nil // The agent has it.
	}
	// What is counted after it is what the OCI runtime, too, may have written: an old wish, or nothing.
	defer p.countContainer(s, c, p.countingRule())
	// The answer may have come when the runtime had given it up: fillUnset looks what there is.
	values := known.given[c.GetId()]
	if values == nil {
		var err error
		values, err = p.decideValues(s, c, limitOf(resourcesOf(c)))
		if errors.Is(err, errUnprotected) {
			return nil
		}
		if err != nil && p.hasGrantedFloors(s, c) {
			return nil // It was allowed when it was created, by the plugin that ran then.
		}
		if err != nil {
			return p.countRefusal(err)
		}
	}
	if err := p.fillUnset(s, c, values); err != nil {
		p.markUnprotected(known, c, err)
	}
	return nil
}

// markUnprotected notes that a knob of a container's, or of its pod's, could not be set. pollModule tries again.
func (p *plugin) markUnprotected(known *pod, c *api.Container, err error) {
	if !known.unprotected[c.GetId()] {
		p.log.Error("a knob could not be set", "namespace", known.sandbox.GetNamespace(), "pod", known.sandbox.GetName(),
			"container", c.GetName(), "error", err)
	}
	known.unprotected[c.GetId()] = true
}

// hasGrantedFloors says whether the cgroups of a container and of its pod have the floors, and the pod's the weight,
// that are wished for and take leave.
func (p *plugin) hasGrantedFloors(s *api.PodSandbox, c *api.Container) bool {
	r, err := p.wishOf(s, c, limitOf(resourcesOf(c)))
	if err != nil || !r.OfPod.AsksFloor && !r.OfContainer.AsksFloor && !r.OfPod.AsksWeight {
		return false
	}
	weight, err := p.root.ReadKnob(pathOf(s), knob.DirtyWeight)
	return p.root.FloorOr(pathOf(s), 0) >= r.OfPod.Values.Floor() && p.root.FloorOr(cgroupOf(c), 0) >= r.OfContainer.Values.Floor() &&
		(!r.OfPod.AsksWeight || err == nil && weight == r.OfPod.Values[knob.DirtyWeight])
}

// readKnob reads a knob of a container's; of a floor also what crun has set.
func (p *plugin) readKnob(at string, k *knob.Knob) (uint64, error) {
	value, err := p.root.ReadKnob(at, k)
	if err == nil && k == knob.DirtyMin {
		value = p.root.FloorOr(at, value)
	}
	return value, err
}

// fillUnset sets those knobs of a container that exists which hold their default, as if never
// written. Others were set by the OCI runtime, or since then by the agent or the node's owner. It does
// not ask the runtime for it: a plugin's own request for an update deadlocks containerd if it meets
// an event of a pod (containerd#13733), and runc refuses every update of a container whose
// specification names a file that is not there.
func (p *plugin) fillUnset(s *api.PodSandbox, c *api.Container, values want.Values) error {
	known := p.live[s.GetId()]
	if len(values) == 0 {
		delete(known.unprotected, c.GetId())
		return nil
	}
	at := cgroupOf(c)
	if at == "" {
		return fmt.Errorf("container %s: the runtime names no cgroup for it", c.GetName())
	}
	set := false
	for _, k := range knob.All {
		value, ok := values[k]
		if !ok {
			continue
		}
		now, err := p.readKnob(at, k)
		if err == nil && now == k.Unset() && now != value {
			err = p.root.WriteKnob(at, k, value)
			set = true
		}
		if err != nil {
			return fmt.Errorf("container %s: %w", c.GetName(), err)
		}
	}
	delete(known.unprotected, c.GetId())
	known.given[c.GetId()] = values
	if set {
		p.counts.adjusted++
	}
	return nil
}

// isGone says whether an error is that of a file whose cgroup is removed, or whose module is unloaded.
func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV)
}

func cgroupOf(c *api.Container) string {
	return cgroup.ContainerPath(c.GetLinux().GetCgroupsPath())
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

// recordGiven keeps what the runtime is told that a container has from now on.
func (p *plugin) recordGiven(s *api.PodSandbox, c *api.Container, values want.Values) {
	p.counts.adjusted++
	p.live[s.GetId()].given[c.GetId()] = values
}

// resourcesOf returns the resources of a container, to read and to write.
func resourcesOf(c *api.Container) *api.LinuxResources {
	if c.Linux == nil {
		c.Linux = &api.LinuxContainer{}
	}
	if c.Linux.Resources == nil {
		c.Linux.Resources = &api.LinuxResources{}
	}
	return c.Linux.Resources
}

// errUnprotected is that a container goes without what is wished for, which was noted.
var errUnprotected = errors.New("not all knobs could be set")

// decideValues says what a container is to have now, and brings its pod's cgroup there. Both count from
// then on.
func (p *plugin) decideValues(s *api.PodSandbox, c *api.Container, limit uint64) (want.Values, error) {
	p.rememberContainer(s, c)
	known := p.live[s.GetId()]
	if !p.config.WantsAnything(describePod(s), c.GetName()) {
		for _, key := range []string{own, c.GetId()} { // A default may have been taken back.
			delete(known.times, key)
		}
		if known.wishes[own] != nil || known.wishes[c.GetId()] != nil {
			delete(known.wishes, own)
			delete(known.wishes, c.GetId())
			p.countContainer(s, c, byFile)
		}
		return nil, nil
	}
	if p.auto && p.root.ModuleID() == 0 {
		known.withAgent = true
	}
	// p.module stays: a module that is new is for pollModule to find.
	if !p.isForAgent(known) && p.root.ModuleID() == 0 {
		p.markWithoutModule(known, c)
		return nil, errUnprotected
	}
	values, err := p.grantWish(s, c, limit)
	if err == nil {
		return values, nil
	}
	p.countContainer(s, c, p.countingRule()) // Of the pod's files some may be written, now or before.
	if errors.Is(err, errUnprotected) {
		if p.root.ModuleID() == 0 { // Unloaded in this moment.
			p.markWithoutModule(known, c)
		} else {
			p.markUnprotected(known, c, err)
		}
	}
	return nil, fmt.Errorf("weir: pod %s/%s, container %s: %w", s.GetNamespace(), s.GetName(), c.GetName(), err)
}

// countRefusal counts and returns an error that the runtime is told, which ends what it was about to do.
// What runs already is not refused anything: looked at again, with each connection, it would count each time.
func (p *plugin) countRefusal(why error) error {
	p.counts.refused++
	p.log.Warn("refused", "reason", why)
	return why
}

// wishOf returns what a container and its pod ask for, or are to have by default.
func (p *plugin) wishOf(s *api.PodSandbox, c *api.Container, limit uint64) (want.Request, error) {
	r := want.Request{Pod: s.GetUid(), Sandbox: s.GetId(), Container: c.GetId()}
	var err error
	if r.OfPod, err = p.wishOfPod(s); err != nil {
		return r, err
	}
	r.OfContainer, err = p.config.ForContainer(describePod(s), c.GetName(), func() (uint64, error) { return limit, nil })
	return r, err
}

// wishOfPod is what a pod asks for, or is to have by default, for its own cgroup.
func (p *plugin) wishOfPod(s *api.PodSandbox) (want.Wanted, error) {
	return p.config.ForPod(describePod(s), func() (uint64, error) {
		limit, err := p.root.MemoryLimit(pathOf(s))
		p.live[s.GetId()].limit = &limit
		return limit, err
	})
}

func (p *plugin) grantWish(s *api.PodSandbox, c *api.Container, limit uint64) (want.Values, error) {
	r, err := p.wishOf(s, c, limit)
	if err != nil {
		return nil, err
	}
	values := r.OfContainer.Values
	known := p.live[s.GetId()]
	r.OfContainer.Values = p.withFloor(known, values, cgroupOf(c))
	if err = p.reserveAndApply(s, r); err != nil || p.isForAgent(known) {
		return nil, err
	}
	return values, nil
}

// reserveAndApply counts what is wished for, if it is allowed, and gives a pod's cgroup its part, or the agent all.
func (p *plugin) reserveAndApply(s *api.PodSandbox, r want.Request) error {
	d, at, known := describePod(s), pathOf(s), p.live[s.GetId()]
	r.OfPod.Values = p.withFloor(known, r.OfPod.Values, at)
	if err := p.budget.CheckAllowed(p.config, d, r); err != nil {
		return err
	}
	if len(r.OfPod.Values)+len(r.OfPod.Times) > 0 && at == "" {
		return fmt.Errorf("the runtime names no cgroup for the pod, so it cannot have what %spod.* asks for", want.Prefix)
	}
	if err := p.recordTimes(known, r); err != nil {
		return err
	}
	if p.isForAgent(known) {
		p.budget.Record(d, r)
		p.recordWishes(known, r)
		return nil
	}
	for _, k := range knob.All {
		if value, ok := r.OfPod.Values[k]; ok {
			if err := p.root.WriteKnob(at, k, value); err != nil {
				return fmt.Errorf("%w: for the pod's cgroup: %w", errUnprotected, err)
			}
		}
	}
	p.budget.Record(d, r)
	known.given[own] = r.OfPod.Values
	return nil
}

// withFloor adds the floor that a cgroup has: one that is not wished for any more is still there, unless the
// agent takes it back.
func (p *plugin) withFloor(known *pod, values want.Values, at string) want.Values {
	if p.isForAgent(known) {
		return values
	}
	floor := p.root.FloorOr(at, 0)
	if _, wished := values[knob.DirtyMin]; wished || floor == 0 {
		return values
	}
	values = maps.Clone(values)
	values[knob.DirtyMin] = floor
	return values
}

func (p *plugin) rememberContainer(s *api.PodSandbox, c *api.Container) {
	known := p.live[s.GetId()]
	if known == nil {
		known = newPod(s)
		p.live[s.GetId()] = known
	}
	known.sandbox = s
	known.containers[c.GetId()] = c
	if len(known.containers) == 1 {
		p.forgetDeadPods() // The sandbox that it had before.
	}
}

// markWithoutModule notes that a container is without what its pod wishes for, as there is no module.
func (p *plugin) markWithoutModule(known *pod, c *api.Container) {
	if !known.warned {
		p.log.Warn("unprotected: the module is not loaded, annotations and defaults are ignored",
			"namespace", known.sandbox.GetNamespace(), "pod", known.sandbox.GetName())
	}
	known.warned = true
	known.unprotected[c.GetId()] = true
}

// limitOf is a memory limit in bytes, 0 for none.
func limitOf(r *api.LinuxResources) uint64 {
	if limit := r.GetMemory().GetLimit().GetValue(); limit > 0 {
		return uint64(limit)
	}
	return 0
}
