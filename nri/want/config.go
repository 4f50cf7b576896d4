// SPDX-License-Identifier: GPL-2.0-only

// Package want decides what a container and its pod are to have: from the node's
// configuration, which its owner writes, and the pod's annotations, which a tenant writes.
//
//   - The configuration's defaults hold first: for each knob, the last one that matches.
//   - Annotations replace them, as far as the configuration allows.
//
// A ceiling holds back only the pod that asks for it, so every pod may ask. A floor is taken from
// everybody else on the node, and a pod's weight from the other pods of its class: these need leave.
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

func (g globs) match(name string) bool {
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
		r.table(document.Content[0], entries{
			"defaults": func(n *yaml.Node) { r.list(n, func(n *yaml.Node) { c.defaults = append(c.defaults, r.preset(n)) }) },
			"allow":    func(n *yaml.Node) { r.list(n, func(n *yaml.Node) { c.allow = append(c.allow, r.leave(n)) }) },
		})
	}
	return c, errors.Join(r.problems...)
}

func (r *reader) preset(n *yaml.Node) preset {
	p := preset{}
	r.table(n, entries{
		"namespaces": r.globs(&p.namespaces),
		"containers": r.globs(&p.containers),
		"qos":        func(n *yaml.Node) { p.qos = r.classes(n) },
		"set":        func(n *yaml.Node) { p.container = r.settings(n) },
		"pod":        func(n *yaml.Node) { p.pod = r.settings(n) },
	})
	switch {
	case len(p.container)+len(p.pod) == 0:
		r.complain(n, "no knob in it, so it would do nothing: expected `set` or `pod`")
	case len(p.containers) > 0 && len(p.pod) > 0:
		r.complain(n, "`containers` does not choose pods: write `pod` in an entry of its own")
	}
	return p
}

func (r *reader) leave(n *yaml.Node) leave {
	l := leave{}
	r.table(n, entries{
		"namespaces":      r.globs(&l.namespaces),
		"pod-floor":       func(n *yaml.Node) { l.podFloor = r.value(n, knob.DirtyMin) },
		"namespace-floor": func(n *yaml.Node) { l.namespaceFloor = r.value(n, knob.DirtyMin) },
		"pod-weight": func(n *yaml.Node) {
			if weight := r.value(n, knob.DirtyWeight); weight != nil {
				l.podWeight = *weight
			}
		},
	})
	return l
}

func (r *reader) classes(n *yaml.Node) map[cgroup.QoS]bool {
	classes := map[cgroup.QoS]bool{}
	r.list(n, func(n *yaml.Node) {
		switch class := cgroup.QoS(r.text(n)); class {
		case cgroup.Guaranteed, cgroup.Burstable, cgroup.BestEffort:
			classes[class] = true
		default:
			r.complain(n, "no QoS class `%s`: expected Guaranteed, Burstable or BestEffort", class)
		}
	})
	return classes
}

func (r *reader) globs(into *globs) func(*yaml.Node) {
	return func(n *yaml.Node) {
		r.list(n, func(n *yaml.Node) {
			pattern := r.text(n)
			if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
				r.complain(n, "`%s` is no pattern: expected a name with *, ? or [a-z]", pattern)
			}
			*into = append(*into, pattern)
		})
		if len(*into) == 0 {
			r.complain(n, "an empty list matches nothing: leave the key out to match all")
		}
	}
}

func (r *reader) settings(n *yaml.Node) settings {
	s := settings{}
	keys := entries{}
	for _, k := range knob.All {
		keys[k.Name] = func(n *yaml.Node) {
			setting, err := k.Set(r.text(n))
			if err != nil {
				r.complain(n, "%s", err)
			}
			s[k] = setting
		}
	}
	r.table(n, keys)
	return s
}

func (r *reader) value(n *yaml.Node, k *knob.Knob) *uint64 {
	value, err := k.Parse(r.text(n))
	if err != nil {
		// The file's own message would offer shares, which a bound cannot be.
		r.complain(n, "invalid value `%s`: expected what %s takes", n.Value, k.File)
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

func (r *reader) complain(n *yaml.Node, format string, args ...any) {
	r.problems = append(r.problems, fmt.Errorf("%s:%d: %s", r.file, n.Line, fmt.Sprintf(format, args...)))
}

func (r *reader) table(n *yaml.Node, keys entries) {
	n = target(n)
	if n.Kind != yaml.MappingNode {
		r.complain(n, "expected a table of %s", list(keys))
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		read, known := keys[key.Value]
		switch {
		case !known:
			r.complain(key, "unknown key `%s`: expected %s", key.Value, list(keys))
		case seen[key.Value]:
			r.complain(key, "`%s` is there twice", key.Value)
		default:
			read(value)
		}
		seen[key.Value] = true
	}
}

func (r *reader) list(n *yaml.Node, each func(*yaml.Node)) {
	n = target(n)
	if n.Kind != yaml.SequenceNode {
		r.complain(n, "expected a list")
		return
	}
	for _, item := range n.Content {
		each(item)
	}
}

func (r *reader) text(n *yaml.Node) string {
	n = target(n)
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		r.complain(n, "expected a single value")
		return ""
	}
	return n.Value
}

// target is the node that an alias stands for.
func target(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func list(keys entries) string {
	names := make([]string, 0, len(keys))
	for name := range keys {
		names = append(names, "`"+name+"`")
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
