// SPDX-License-Identifier: GPL-2.0-only

package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"weir.dev/nri/knob"
	"weir.dev/nri/want"
)

// On nodes that allow no module the plugin sets nothing. What pods are to have it writes down as
// rules of a policy file, which the agent keeps by what a stock kernel has: what stands for a knob
// there is decided in one place, and follows what the container does.

// own is the key of what a pod's own cgroup is to have, among those of its containers.
const own = ""

// note keeps what a pod and a container of it are to have, and writes all of it down.
func (p *plugin) note(known *pod, container string, r want.Request) {
	known.wishes[own] = r.OfPod.Values
	known.wishes[container] = r.OfContainer.Values
	if !p.partial {
		p.counts.adjusted++
	}
	p.rules()
}

// ruled reads what the agent keeps: the function says whether that has a rule for a container.
func (p *plugin) ruled() func(container string) bool {
	if p.stock == "" {
		return func(string) bool { return false }
	}
	text, _ := os.ReadFile(p.stock) // Before the first pod there is none.
	return func(container string) bool { return strings.Contains(string(text), below(container)) }
}

// below is the cgroup of a container, from its pod's: the runtime puts its name before the
// container's id and `.scope` behind.
func below(container string) string { return "/*" + container + "*" }

// rules writes down what the agent is to keep, on a node that allows no module. A pod starts, and
// counts as unprotected, while that fails: looked tries again.
func (p *plugin) rules() {
	if p.stock == "" || p.partial {
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
		for _, container := range slices.Sorted(maps.Keys(known.wishes)) {
			values := known.wishes[container]
			if len(values) == 0 || at == "" {
				continue
			}
			cgroup := at
			if container != own {
				cgroup += below(container)
			}
			fmt.Fprintf(&text, "[[rule]]\ncgroup = %q\nset = { %s }\n", cgroup, set(values))
		}
	}
	aside := p.stock + ".new"
	if err := os.MkdirAll(filepath.Dir(p.stock), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(aside, []byte(text.String()), 0o644); err != nil {
		return err
	}
	return os.Rename(aside, p.stock)
}

// set is a table of a policy file.
func set(values want.Values) string {
	var each []string
	for _, k := range knob.All {
		if value, ok := values[k]; ok {
			each = append(each, fmt.Sprintf("%q = %q", k.File, k.Text(value)))
		}
	}
	return strings.Join(each, ", ")
}
