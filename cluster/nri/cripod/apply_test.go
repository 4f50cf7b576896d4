// SPDX-License-Identifier: GPL-2.0-only

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir.dev/nri/want"
)

// The manifests are ones that cripod can apply, and their configurations ones that the plugin takes.
func TestManifests(t *testing.T) {
	for file, control := range map[string]bool{"weir.yaml": false, "weir-etcd.yaml": true, "weir-nri.yaml": false} {
		text, err := os.ReadFile("../../charts/manifests/" + file)
		if err != nil {
			t.Fatal(err)
		}
		configs, set, err := parseManifest(string(text))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		c, err := want.Parse("nri.yaml", []byte(configs["weir"].Data["nri.yaml"]))
		pod := want.Pod{Namespace: "kube-system"}
		if err != nil || c.WantsAnything(pod, "etcd") != control || c.WantsAnything(pod, "nri") {
			t.Errorf("%s: %v", file, err)
		}
		if len(set.Spec.Template.Spec.Containers) == 0 {
			t.Errorf("%s: no containers", file)
		}
		if _, _, err := parseManifest(strings.Replace(string(text), "hostNetwork:", "hostNetwrok:", 1)); err == nil {
			t.Errorf("%s: a misspelled field is taken", file)
		}
	}
}

// What values.yaml shows in comments is what the plugin takes.
func TestExample(t *testing.T) {
	text, err := os.ReadFile("../../charts/weir/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for line := range strings.SplitSeq(string(text), "\n") {
		if example, ok := strings.CutPrefix(line, "    # "); ok {
			shown = append(shown, example)
		}
	}
	c, err := want.Parse("values.yaml", []byte(strings.Join(shown, "\n")))
	if err != nil || !c.WantsAnything(want.Pod{Namespace: "kube-system"}, "etcd") {
		t.Errorf("%v\n%s", err, strings.Join(shown, "\n"))
	}
}

// A container's output is what kubelet would show of it.
func TestPrinted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	text := "2026-01-02T03:04:05Z stderr F no module:\n2026-01-02T03:04:05Z stderr F   node: none\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if output := readOutput(file); !slices.Equal(strings.Split(output, "\n"), []string{"no module:", "  node: none", ""}) {
		t.Errorf("%q", output)
	}
}
