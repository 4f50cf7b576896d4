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
// there is decided in one place, and follows what the container does.

// own is the key of what a pod's own cgroup is to have, or has, among those of its containers.
const own = ""

// note keeps what a pod and a container of it, if one is named, are to have, and writes all of it down.
func (p *plugin) note(known *pod, r want.Request) {
	known.wishes[r.Container] = r.OfContainer.Values
	known.wishes[own] = r.OfPod.Values // Where no container is named, it has the same key.
	if !p.partial {
		p.counts.adjusted++
	}
	p.rules()
}

var (
	ruleInFile = regexp.MustCompile(`(?m)^cgroup = "(.*)"\nset = \{ (.*) \}$`)
	knobInRule = regexp.MustCompile(`"([^"]*)" = "([^"]*)"`)
)

// kept reads, by cgroup, the rules that were written down before this process began.
func (p *plugin) kept() map[string]want.Values {
	rules := map[string]want.Values{}
	if p.stock == "" {
		return rules
	}
	text, err := os.ReadFile(p.stock)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.log.Error("what the agent keeps is not known", "error", err)
	}
	for _, rule := range ruleInFile.FindAllStringSubmatch(string(text), -1) {
		values := want.Values{}
		for _, pair := range knobInRule.FindAllStringSubmatch(rule[2], -1) {
			for _, k := range knob.All {
				if value, err := k.Parse(pair[2]); k.File == pair[1] && err == nil {
					values[k] = value
				}
			}
		}
		rules[rule[1]] = values
	}
	return rules
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
