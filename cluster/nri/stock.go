// SPDX-License-Identifier: GPL-2.0-only

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"weir.dev/nri/knob"
	"weir.dev/nri/want"
)

// On nodes that allow no module the plugin sets nothing. What pods are to have it writes down as
// rules of a policy file, which the agent keeps by what a stock kernel has: what stands for a knob
// there is decided in one place, and follows what the container does. On other nodes it writes down
// values in time, which follow what disks write. On nodes that may get the module later (-auto) it does
// the first for pods that begin before, and sets the knobs of those that begin after.

// isForAgent says whether the agent keeps what a pod is to have. On a node that may get the module, one pod has
// one keeper until it ends: two would take back what the other has set.
func (p *plugin) isForAgent(known *pod) bool {
	return p.stock != "" && (!p.auto || known.withAgent)
}

// own is the key of what a pod's own cgroup is to have, or has, among those of its containers.
const own = ""

// recordWishes keeps what a pod and a container of it, if one is named, are to have, and writes all of it down.
func (p *plugin) recordWishes(known *pod, r want.Request) {
	known.wishes[r.Container] = r.OfContainer.Values
	known.wishes[own] = r.OfPod.Values // Where no container is named, it has the same key.
	if !p.partial {
		p.counts.adjusted++
	}
	p.updateRules()
}

// rulesFile is where rules for the agent are written down; empty if no agent reads one.
func (p *plugin) rulesFile() string {
	if p.stock != "" {
		return p.stock
	}
	return p.times
}

// recordTimes keeps what of it is in time.
func (p *plugin) recordTimes(known *pod, r want.Request) error {
	for _, times := range []want.Times{r.OfContainer.Times, r.OfPod.Times} {
		for k, time := range times {
			if p.rulesFile() == "" {
				return fmt.Errorf("%s of %s: the agent follows what disks write in a time, and weir-nri runs without one here: give both the same file (weir-nri -times, weir agent --pods)",
					k.File, time)
			}
		}
	}
	had := len(known.times) > 0
	delete(known.times, r.Container)
	if len(r.OfContainer.Times) > 0 {
		known.times[r.Container] = r.OfContainer.Times
	}
	delete(known.times, own) // Where no container is named, it has the same key.
	if len(r.OfPod.Times) > 0 {
		known.times[own] = r.OfPod.Times
	}
	if !p.isForAgent(known) && (had || len(known.times) > 0) {
		p.updateRules()
	}
	return nil
}

var (
	ruleInFile = regexp.MustCompile(`(?m)^cgroup = "(.*)"\nset = \{ (.*) \}$`)
	knobInRule = regexp.MustCompile(`"([^"]*)" = "([^"]*)"`)
)

// rule is what the agent keeps in a cgroup.
type rule struct {
	values want.Values
	times  want.Times
}

// readRules reads, by cgroup, the rules that were written down before this process began.
func (p *plugin) readRules() map[string]rule {
	rules := map[string]rule{}
	if p.rulesFile() == "" {
		return rules
	}
	text, err := os.ReadFile(p.rulesFile())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.log.Error("what the agent keeps is not known", "error", err)
	}
	for _, line := range ruleInFile.FindAllStringSubmatch(string(text), -1) {
		kept := rule{values: want.Values{}, times: want.Times{}}
		for _, pair := range knobInRule.FindAllStringSubmatch(line[2], -1) {
			for _, k := range knob.All {
				setting, err := k.ParseSetting(pair[2])
				if k.File != pair[1] || err != nil {
					continue
				}
				if setting.Time != "" {
					kept.times[k] = setting.Time
				} else if value, err := k.Parse(pair[2]); err == nil {
					kept.values[k] = value
				}
			}
		}
		rules[line[1]] = kept
	}
	return rules
}

// belowPod returns the cgroup of a container, from its pod's: the runtime puts its name before the
// container's id and `.scope` behind.
func belowPod(container string) string { return "/*" + container + "*" }

// updateRules writes down what the agent is to keep. A pod starts, and counts as unprotected, while that
// fails: pollModule tries again.
func (p *plugin) updateRules() {
	if p.rulesFile() == "" || p.partial {
		return
	}
	err := p.writeRules()
	if err != nil && !p.unwritten {
		p.log.Error("the agent's rules are not up to date", "error", err)
	}
	p.unwritten = err != nil
}

// writeRules puts the rules for all live pods in place of what the file says.
func (p *plugin) writeRules() error {
	var text strings.Builder
	text.WriteString("# What live pods are to have. Written by weir-nri, read by the agent.\n")
	for _, id := range slices.Sorted(maps.Keys(p.live)) {
		known := p.live[id]
		at := pathOf(known.sandbox)
		all := maps.Clone(known.wishes)
		for container := range known.times {
			all[container] = known.wishes[container]
		}
		for _, container := range slices.Sorted(maps.Keys(all)) {
			values, times := known.wishes[container], known.times[container]
			if len(values)+len(times) == 0 || at == "" {
				continue
			}
			cgroup := at
			if container != own {
				cgroup += belowPod(container)
			}
			fmt.Fprintf(&text, "[[rule]]\ncgroup = %q\nset = { %s }\n", cgroup, formatSet(values, times))
		}
	}
	aside := p.rulesFile() + ".new"
	if err := os.MkdirAll(filepath.Dir(p.rulesFile()), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(aside, []byte(text.String()), 0o644); err != nil {
		return err
	}
	return os.Rename(aside, p.rulesFile())
}

// formatSet writes values and times as a table of a policy file.
func formatSet(values want.Values, times want.Times) string {
	var each []string
	for _, k := range knob.All {
		if time, ok := times[k]; ok {
			each = append(each, fmt.Sprintf("%q = %q", k.File, time))
		} else if value, ok := values[k]; ok {
			each = append(each, fmt.Sprintf("%q = %q", k.File, k.Text(value)))
		}
	}
	return strings.Join(each, ", ")
}
