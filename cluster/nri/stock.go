// SPDX-License-Identifier: GPL-2.0-only

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"weir.dev/nri/knob"
	"weir.dev/nri/want"
)

// On nodes that allow no module the plugin sets nothing. What pods are to have it writes down as
// rules of a policy file, which the agent keeps by what a stock kernel has: what stands for a knob
// there is decided in one place, and follows what the container does. On other nodes it writes down
// values in time, which follow what disks write. On nodes that may get the module later (-auto) it does
// the first for pods that begin before, and sets the knobs of those that begin after.

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

// globBelowPod returns the cgroup of a container, from its pod's: the runtime puts its name before the
// container's id and `.scope` behind.
func globBelowPod(container string) string { return "/*" + container + "*" }

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
	aside := p.rulesFile() + ".new"
	if err := os.MkdirAll(filepath.Dir(p.rulesFile()), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(aside, []byte(p.rulesText()), 0o644); err != nil {
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
