// SPDX-License-Identifier: GPL-2.0-only

package main

import (
	"os"
	"strings"
	"testing"

	"weir.dev/nri/want"
)

// The manifest has only fields that the API has, and its configuration is one that the plugin takes,
// as it is and with what it shows in comments.
func TestManifest(t *testing.T) {
	text, err := os.ReadFile("../weir-nri.yaml")
	if err != nil {
		t.Fatal(err)
	}
	configs, set, err := manifest(string(text))
	if err != nil {
		t.Fatal(err)
	}
	config := configs["weir-nri"].Data["nri.yaml"]
	if _, err := want.Parse("nri.yaml", []byte(config)); err != nil {
		t.Error(err)
	}
	shown := strings.NewReplacer("# allow", "allow", "# defaults", "defaults", "# -", "-").Replace(config)
	if c, err := want.Parse("nri.yaml", []byte(shown)); err != nil || c.Anything(want.Pod{Namespace: "kube-system"}) == false {
		t.Errorf("%v\n%s", err, shown)
	}
	if set.Spec.Selector.MatchLabels["app.kubernetes.io/name"] != set.Spec.Template.Labels["app.kubernetes.io/name"] {
		t.Error("the selector does not find its pods")
	}
	version := strings.TrimPrefix(set.Spec.Template.Spec.Containers[0].Image, "localhost/weir-nri:")
	cargo, err := os.ReadFile("../../Cargo.toml")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(cargo), "\nversion = \""+version+"\"\n") {
		t.Errorf("the image is %s, Cargo.toml has another version", version)
	}
	if _, _, err := manifest(strings.Replace(string(text), "hostNetwork:", "hostNetwrok:", 1)); err == nil {
		t.Error("a misspelled field is taken")
	}
}
