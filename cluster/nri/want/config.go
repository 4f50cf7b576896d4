// SPDX-License-Identifier: GPL-2.0-only

// Package want decides what a container and its pod are to have: from the node's
// configuration, which its owner writes, and the pod's annotations, which a tenant writes.
//
//   - The configuration's defaults hold first: for each knob, the last one that matches.
//   - Annotations replace them, as far as the configuration allows.
//
// A ceiling holds back only the pod that asks for it, so every pod may ask. A floor is taken from
// all others on the node, and a pod's weight from the other pods of its class: these need leave.
package want

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"weir.dev/nri/cgroup"
	"weir.dev/nri/knob"
)

// Config is what a node's owner has written.
type Config struct {
	defaults []preset
	allow    []leave
}

// preset is one entry of `defaults`.
type preset struct {
	namespaces, containers globs
	qos                    map[cgroup.QoS]bool
	container, pod         settings
}

// leave is one entry of `allow`.
type leave struct {
	namespaces               globs
	podFloor, namespaceFloor *uint64
	podWeight                uint64
}

type settings map[*knob.Knob]knob.Setting

// globs match a name if one of them does, or if there are none.
type globs []string

func (g globs) matchAny(name string) bool {
	for _, pattern := range g {
		// Patterns were checked when they were read.
		if ok, _ := path.Match(pattern, name); ok {
			return true
		}
	}
	return len(g) == 0
}

// Load reads a file. All problems are named, each with file and line.
func Load(file string) (*Config, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return Parse(file, text)
}

// Parse reads a file's text. No text is a configuration that sets and allows nothing.
func Parse(file string, text []byte) (*Config, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	r := reader{file: file}
	c := &Config{}
	if len(document.Content) > 0 {
		r.readTable(document.Content[0], entries{
			"defaults": func(n *yaml.Node) {
				r.readList(n, func(n *yaml.Node) { c.defaults = append(c.defaults, r.readPreset(n)) })
			},
			"allow": func(n *yaml.Node) { r.readList(n, func(n *yaml.Node) { c.allow = append(c.allow, r.readLeave(n)) }) },
		})
	}
	return c, errors.Join(r.problems...)
}

func (r *reader) readPreset(n *yaml.Node) preset {
	p := preset{}
	r.readTable(n, entries{
		"namespaces": r.readGlobs(&p.namespaces),
		"containers": r.readGlobs(&p.containers),
		"qos":        func(n *yaml.Node) { p.qos = r.readClasses(n) },
		"set":        func(n *yaml.Node) { p.container = r.readSettings(n) },
		"pod":        func(n *yaml.Node) { p.pod = r.readSettings(n) },
	})
	switch {
	case len(p.container)+len(p.pod) == 0:
		r.addProblem(n, "no knob in it, so it would do nothing: expected `set` or `pod`")
	case len(p.containers) > 0 && len(p.pod) > 0:
		r.addProblem(n, "`containers` does not choose pods: write `pod` in an entry of its own")
	}
	return p
}

func (r *reader) readLeave(n *yaml.Node) leave {
	l := leave{}
	r.readTable(n, entries{
		"namespaces":      r.readGlobs(&l.namespaces),
		"pod-floor":       func(n *yaml.Node) { l.podFloor = r.readValue(n, knob.DirtyMin) },
		"namespace-floor": func(n *yaml.Node) { l.namespaceFloor = r.readValue(n, knob.DirtyMin) },
		"pod-weight": func(n *yaml.Node) {
			if weight := r.readValue(n, knob.DirtyWeight); weight != nil {
				l.podWeight = *weight
			}
		},
	})
	return l
}

func (r *reader) readClasses(n *yaml.Node) map[cgroup.QoS]bool {
	classes := map[cgroup.QoS]bool{}
	r.readList(n, func(n *yaml.Node) {
		switch class := cgroup.QoS(r.readText(n)); class {
		case cgroup.Guaranteed, cgroup.Burstable, cgroup.BestEffort:
			classes[class] = true
		default:
			r.addProblem(n, "no QoS class `%s`: expected Guaranteed, Burstable or BestEffort", class)
		}
	})
	return classes
}

func (r *reader) readGlobs(into *globs) func(*yaml.Node) {
	return func(n *yaml.Node) {
		r.readList(n, func(n *yaml.Node) {
			pattern := r.readText(n)
			if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
				r.addProblem(n, "`%s` is no pattern: expected a name with *, ? or [a-z]", pattern)
			}
			*into = append(*into, pattern)
		})
		if len(*into) == 0 {
			r.addProblem(n, "an empty list matches nothing: leave the key out to match all")
		}
	}
}

func (r *reader) readSettings(n *yaml.Node) settings {
	s := settings{}
	keys := entries{}
	for _, k := range knob.All {
		keys[k.Name] = func(n *yaml.Node) {
			setting, err := k.ParseSetting(r.readText(n))
			if err != nil {
				r.addProblem(n, "%s", err)
			}
			s[k] = setting
		}
	}
	r.readTable(n, keys)
	return s
}

func (r *reader) readValue(n *yaml.Node, k *knob.Knob) *uint64 {
	value, err := k.Parse(r.readText(n))
	if err != nil {
		// The file's own message would offer shares, which a bound cannot be.
		r.addProblem(n, "invalid value `%s`: expected what %s takes", n.Value, k.File)
	}
	return &value
}

// reader collects problems while it walks through a YAML document.
type reader struct {
	file     string
	problems []error
}

// entries say what is done with the value of each key that a table may have.
type entries map[string]func(*yaml.Node)

func (r *reader) addProblem(n *yaml.Node, format string, args ...any) {
	r.problems = append(r.problems, fmt.Errorf("%s:%d: %s", r.file, n.Line, fmt.Sprintf(format, args...)))
}

func (r *reader) readTable(n *yaml.Node, keys entries) {
	n = resolveAlias(n)
	if n.Kind != yaml.MappingNode {
		r.addProblem(n, "expected a table of %s", joinKeys(keys))
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		read, known := keys[key.Value]
		switch {
		case !known:
			r.addProblem(key, "unknown key `%s`: expected %s", key.Value, joinKeys(keys))
		case seen[key.Value]:
			r.addProblem(key, "`%s` is there twice", key.Value)
		default:
			read(value)
		}
		seen[key.Value] = true
	}
}

func (r *reader) readList(n *yaml.Node, each func(*yaml.Node)) {
	n = resolveAlias(n)
	if n.Kind != yaml.SequenceNode {
		r.addProblem(n, "expected a list")
		return
	}
	for _, item := range n.Content {
		each(item)
	}
}

func (r *reader) readText(n *yaml.Node) string {
	n = resolveAlias(n)
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		r.addProblem(n, "expected a single value")
		return ""
	}
	return n.Value
}

// resolveAlias returns the node that an alias stands for.
func resolveAlias(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func joinKeys(keys entries) string {
	names := make([]string, 0, len(keys))
	for name := range keys {
		names = append(names, "`"+name+"`")
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
