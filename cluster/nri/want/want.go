// SPDX-License-Identifier: GPL-2.0-only

package want

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir.dev/nri/cgroup"
	"weir.dev/nri/knob"
)

// Prefix is what the names of weir's annotations begin with.
const Prefix = "weir.dev/"

// podScope is what the name of an annotation for the pod's own cgroup begins with.
const podScope = "pod."

// Pod is what is known of a pod when a container of it is created. NRI does not tell its service
// account, so nothing here can depend on it.
type Pod struct {
	Namespace   string
	Name        string
	QoS         cgroup.QoS
	Annotations map[string]string
}

// Values are what files are to hold.
type Values map[*knob.Knob]uint64

// Times are what files are to hold where that is what disks write in a time, as in "10ms".
type Times map[*knob.Knob]string

// Floor is what of the node they reserve.
func (v Values) Floor() uint64 {
	return v[knob.DirtyMin]
}

// Wanted is what a pod's cgroup, or a container's, is to have.
type Wanted struct {
	Values Values
	// Times are for the agent to keep. No knob is in both.
	Times Times
	// AsksFloor says that an annotation asks for the floor, so that it counts against a budget.
	AsksFloor bool
	// AsksWeight says that an annotation asks for the weight, which a pod may do with leave alone.
	AsksWeight bool
}

// asked is what annotations say, sorted by whom it is for.
type asked struct {
	pod, all  settings
	container map[string]settings
}

// MostAnnotations and mostWords bound what a pod's author can have the plugin read and say. The
// runtime waits two seconds for an answer of at most 4 MiB, ends the connection of a plugin that
// fails it, and starts the container: a pod could say more in the 256 KiB that annotations have.
const (
	MostAnnotations = 256
	mostWords       = 1000 // bytes
)

// parseAnnotations sorts a pod's annotations. Every one that is weir's is checked, also those for containers
// that are not being created now: a typing error must not pass as "no wish".
func parseAnnotations(annotations map[string]string) (asked, error) {
	a := asked{pod: settings{}, all: settings{}, container: map[string]settings{}}
	var keys []string
	for key := range annotations {
		if strings.HasPrefix(key, Prefix) {
			keys = append(keys, key)
		}
	}
	if len(keys) > MostAnnotations {
		return a, fmt.Errorf("more than %d annotations begin with %s: a pod may have as many", MostAnnotations, Prefix)
	}
	slices.Sort(keys)
	var problems []error
	for _, key := range keys {
		name, isPod := strings.CutPrefix(strings.TrimPrefix(key, Prefix), podScope)
		name, container, isOne := strings.Cut(name, ".")
		k, known := knob.ByName(name)
		if !known || isPod && isOne || isOne && container == "" {
			problems = append(problems, fmt.Errorf(
				"unknown annotation %s: expected %s and one of %s, before it `%s` for the pod's cgroup or after it `.` and a container's name",
				key, Prefix, knob.Names(), podScope))
			continue
		}
		setting, err := k.ParseSetting(annotations[key])
		if err != nil {
			problems = append(problems, fmt.Errorf("annotation %s: %w", key, err))
			continue
		}
		switch {
		case isPod:
			a.pod[k] = setting
		case isOne:
			if a.container[container] == nil {
				a.container[container] = settings{}
			}
			a.container[container][k] = setting
		default:
			a.all[k] = setting
		}
	}
	return a, joinProblems(problems)
}

// WantsAnything says whether the pod is to have a knob with this container: its own or the pod's.
// Annotations count whatever they say: WantedBy finds their errors.
func (c *Config) WantsAnything(pod Pod, container string) bool {
	for key := range pod.Annotations {
		if strings.HasPrefix(key, Prefix) {
			return true
		}
	}
	for _, d := range c.defaults {
		if d.matchesPod(pod) && (len(d.pod) > 0 || len(d.container) > 0 && d.containers.matchAny(container)) {
			return true
		}
	}
	return false
}

// PodItself stands for a container's name where the pod's own cgroup is meant.
const PodItself = ""

// WantedBy is what a container's cgroup is to have, or the pod's own. limit asks for that cgroup's memory limit, 0
// for none.
func (c *Config) WantedBy(pod Pod, container string, limit func() (uint64, error)) (Wanted, error) {
	a, err := parseAnnotations(pod.Annotations)
	if err != nil {
		return Wanted{}, err
	}
	presets := settings{}
	for _, d := range c.defaults {
		switch {
		case !d.matchesPod(pod):
		case container == PodItself:
			maps.Copy(presets, d.pod)
		case d.containers.matchAny(container):
			maps.Copy(presets, d.container)
		}
	}
	if container != PodItself {
		maps.Copy(a.all, a.container[container])
		return resolveValues(presets, a.all, limit)
	}
	w, err := resolveValues(presets, a.pod, limit)
	if err != nil {
		return w, fmt.Errorf("for the pod's cgroup: %w", err)
	}
	return w, nil
}

// KeepFloor adds the floor that a cgroup has: one that is not wished for any more is still there.
func (w *Wanted) KeepFloor(floor uint64) {
	if _, wished := w.Values[knob.DirtyMin]; wished || floor == 0 {
		return
	}
	w.Values = maps.Clone(w.Values)
	w.Values[knob.DirtyMin] = floor
}

func (d *preset) matchesPod(pod Pod) bool {
	return d.namespaces.matchAny(pod.Namespace) && (d.qos == nil || d.qos[pod.QoS])
}

// resolveValues puts what was asked over the presets and resolves shares of the limit. A preset that is a
// share of a limit that is not there is left out: its writer could not know of this pod.
func resolveValues(presets, asked settings, limit func() (uint64, error)) (Wanted, error) {
	w := Wanted{Values: Values{}, Times: Times{}}
	for _, k := range knob.All {
		setting, asks := asked[k]
		if !asks {
			preset, ok := presets[k]
			if !ok {
				continue
			}
			setting = preset
		}
		if setting.Time != "" {
			w.Times[k] = setting.Time
			continue
		}
		bytes := uint64(0)
		if setting.IsShare() {
			var err error
			if bytes, err = limit(); err != nil {
				return w, err
			}
			if bytes == 0 && !asks {
				continue
			}
		}
		value, err := setting.ResolveShare(bytes)
		if err != nil {
			return w, fmt.Errorf("%s: %w", k.File, err)
		}
		w.Values[k] = value
		if k == knob.DirtyMin && asks && value > 0 {
			w.AsksFloor = true
		}
		if k == knob.DirtyWeight && asks {
			w.AsksWeight = true
		}
	}
	return w, nil
}

// joinProblems joins problems for a place that shows one line.
func joinProblems(problems []error) error {
	if len(problems) == 0 {
		return nil
	}
	texts := make([]string, len(problems))
	for i, problem := range problems {
		texts[i] = problem.Error()
	}
	text := strings.Join(texts, "; ")
	if len(text) > mostWords {
		text = strings.ToValidUTF8(text[:mostWords], "") + " ... and more"
	}
	return errors.New(text)
}
