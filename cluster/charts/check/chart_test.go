// SPDX-License-Identifier: GPL-2.0-only

// Package check holds the chart to what helm, the API's types and this tree say. It runs the helm
// that go.mod pins, as users do.
package check

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	admission "k8s.io/api/admissionregistration/v1"
	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

const chart = "../weir"

// program is helm, which the first call builds.
var program = sync.OnceValue(func() string {
	path, err := exec.Command("go", "tool", "-n", "helm").Output()
	if err != nil {
		panic(err)
	}
	return strings.TrimSpace(string(path))
})

// helm runs it, and is its output.
func helm(arguments ...string) (string, error) {
	output, err := exec.Command(program(), arguments...).CombinedOutput()
	return string(output), err
}

func template(arguments ...string) (string, error) {
	return helm(append([]string{"template", "weir", chart, "--namespace", "kube-system", "--kube-version", "1.34.0"}, arguments...)...)
}

func render(t *testing.T, arguments ...string) objects {
	t.Helper()
	text, err := template(arguments...)
	if err != nil {
		t.Fatal(text)
	}
	return decode(t, text)
}

// objects are a manifest's, by kind and name.
type objects map[string]any

func (o objects) set(t *testing.T) *apps.DaemonSet {
	t.Helper()
	set, ok := o["DaemonSet/weir"].(*apps.DaemonSet)
	if !ok {
		t.Fatal("no DaemonSet weir")
	}
	return set
}

// decode reads a manifest as the API's own types, strictly: an unknown field or a wrong type fails.
func decode(t *testing.T, text string) objects {
	t.Helper()
	found := objects{}
	for _, document := range strings.Split(text, "\n---\n") {
		var head struct {
			APIVersion, Kind string
			Metadata         struct{ Name string }
		}
		if err := yaml.Unmarshal([]byte(document), &head); err != nil {
			t.Fatalf("%v\n%s", err, document)
		}
		if head.Kind == "" {
			continue
		}
		into, ok := map[string]any{
			"v1/ConfigMap":                                                     &core.ConfigMap{},
			"v1/ServiceAccount":                                                &core.ServiceAccount{},
			"apps/v1/DaemonSet":                                                &apps.DaemonSet{},
			"batch/v1/Job":                                                     &batch.Job{},
			"rbac.authorization.k8s.io/v1/Role":                                &rbac.Role{},
			"rbac.authorization.k8s.io/v1/RoleBinding":                         &rbac.RoleBinding{},
			"rbac.authorization.k8s.io/v1/ClusterRole":                         &rbac.ClusterRole{},
			"rbac.authorization.k8s.io/v1/ClusterRoleBinding":                  &rbac.ClusterRoleBinding{},
			"admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy":        &admission.ValidatingAdmissionPolicy{},
			"admissionregistration.k8s.io/v1/ValidatingAdmissionPolicyBinding": &admission.ValidatingAdmissionPolicyBinding{},
		}[head.APIVersion+"/"+head.Kind]
		if !ok {
			t.Fatalf("%s %s: a kind that this test does not know", head.APIVersion, head.Kind)
		}
		if err := yaml.UnmarshalStrict([]byte(document), into); err != nil {
			t.Fatalf("%s %s: %v", head.Kind, head.Metadata.Name, err)
		}
		found[head.Kind+"/"+head.Metadata.Name] = into
	}
	return found
}

// coherent holds a pod to what the API server checks and its types do not.
func coherent(t *testing.T, spec core.PodSpec) {
	t.Helper()
	var volumes []string
	for _, v := range spec.Volumes {
		volumes = append(volumes, v.Name)
	}
	used := map[string]bool{}
	for _, c := range append(slices.Clone(spec.InitContainers), spec.Containers...) {
		for _, m := range c.VolumeMounts {
			used[m.Name] = true
			if !slices.Contains(volumes, m.Name) {
				t.Errorf("%s mounts %s, which is no volume", c.Name, m.Name)
			}
		}
		s := c.SecurityContext
		switch {
		case s == nil || s.Capabilities == nil || !slices.Equal(s.Capabilities.Drop, []core.Capability{"ALL"}):
			t.Errorf("%s does not drop all capabilities", c.Name)
		case s.Privileged != nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation:
			t.Errorf("%s may gain privileges", c.Name)
		case s.SeccompProfile == nil || s.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault:
			t.Errorf("%s has no seccomp profile", c.Name)
		}
		if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Memory().IsZero() {
			t.Errorf("%s has no memory request or limit", c.Name)
		}
	}
	for _, v := range volumes {
		if !used[v] {
			t.Errorf("volume %s is not mounted", v)
		}
	}
}

var variants = map[string][]string{
	"default":     nil,
	"etcd":        {"--values", chart + "/values-etcd.yaml"},
	"plugin":      {"--set", "module.enabled=false,agent.enabled=false,node.enabled=false"},
	"agent":       {"--set", "module.enabled=false,nri.enabled=false"},
	"module":      {"--set", "nri.enabled=false,agent.enabled=false,node.enabled=false"},
	"policy":      {"--set", "node.policy=true,module.required=false,module.observe=true"},
	"unload":      {"--set", "uninstall.unload=true"},
	"pullSecrets": {"--set", "image.pullSecrets[0].name=s,uninstall.unload=true"},
	"address":     {"--set-json", `nri.listen="[::1]:9760"`},
	"stock":       {"--set", "mode=stock"},
	"auto":        {"--set", "mode=auto"},
	"autoLoaded":  {"--set", "mode=auto,module.enabled=false"},
	"stockAgent":  {"--set", "mode=stock,nri.enabled=false,node.enabled=false"},
}

// Every part can be left out, and what is rendered is what the API has.
func TestVariants(t *testing.T) {
	for name, arguments := range variants {
		t.Run(name, func(t *testing.T) {
			if said, err := helm(append([]string{"lint", "--strict", "--kube-version", "1.34.0", chart}, arguments...)...); err != nil {
				t.Error(said)
			}
			found := render(t, arguments...)
			set := found.set(t)
			for key, value := range set.Spec.Selector.MatchLabels {
				if set.Spec.Template.Labels[key] != value {
					t.Errorf("the selector's %s=%s is no label of its pods", key, value)
				}
			}
			coherent(t, set.Spec.Template.Spec)
			if unload, ok := found["DaemonSet/weir-unload"].(*apps.DaemonSet); ok {
				coherent(t, unload.Spec.Template.Spec)
			}
			if job, ok := found["Job/weir-uninstall"].(*batch.Job); ok {
				coherent(t, job.Spec.Template.Spec)
			}
		})
	}
}

// Who has which capability, and who has the token.
func TestPrivileges(t *testing.T) {
	spec := render(t).set(t).Spec.Template.Spec
	want := map[string]string{"mark": "", "build": "", "load": "SYS_MODULE SYSLOG", "nri": "SYS_RESOURCE", "agent": "SYS_RESOURCE", "node": ""}
	for _, c := range append(slices.Clone(spec.InitContainers), spec.Containers...) {
		var has []string
		for _, name := range c.SecurityContext.Capabilities.Add {
			has = append(has, string(name))
		}
		expected, ok := want[c.Name]
		if !ok || strings.Join(has, " ") != expected {
			t.Errorf("%s has %v, expected `%s`", c.Name, has, expected)
		}
		delete(want, c.Name)
		token := slices.ContainsFunc(c.VolumeMounts, func(m core.VolumeMount) bool { return m.Name == "token" })
		isNode := c.Name == "mark" || c.Name == "node"
		if token != isNode || (*c.SecurityContext.RunAsUser == 0) == isNode {
			t.Errorf("%s: token %v, uid %d", c.Name, token, *c.SecurityContext.RunAsUser)
		}
	}
	if len(want) > 0 {
		t.Errorf("not there: %v", want)
	}
	if spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken || spec.HostPID || spec.HostIPC {
		t.Error("the pod has more than it needs")
	}
	role := render(t)["ClusterRole/weir"].(*rbac.ClusterRole)
	if len(role.Rules) != 1 || strings.Join(role.Rules[0].Verbs, " ") != "patch" || strings.Join(role.Rules[0].Resources, " ") != "nodes" {
		t.Errorf("%v", role.Rules)
	}
	events := render(t)["Role/weir"].(*rbac.Role)
	if events.Namespace != "default" || len(events.Rules) != 1 || strings.Join(events.Rules[0].Verbs, " ") != "create" ||
		strings.Join(events.Rules[0].Resources, " ") != "events" {
		t.Errorf("%+v", events)
	}
}

// In mode auto a node without the module goes on, in stock mode, and the module is tried again.
func TestAuto(t *testing.T) {
	found := render(t, "--set", "mode=auto,module.again=60,module.fair=true", "--set-json", `agent.limit=["/batch/*"]`)
	spec := found.set(t).Spec.Template.Spec
	arguments := map[string]string{"nri": "--auto=/run/weir/pods.toml", "node": "--auto", "agent": "--root=/host",
		"load": "--fair", "load-again": "--fair"}
	again := map[string]string{"build-again": "", "load-again": "SYS_MODULE SYSLOG"}
	for _, c := range append(slices.Clone(spec.InitContainers), spec.Containers...) {
		if argument, ok := arguments[c.Name]; ok && !slices.Contains(c.Args, argument) {
			t.Errorf("%s: %v", c.Name, c.Args)
		}
		for _, e := range c.Env {
			if e.Name == "WEIR_REQUIRED" && e.Value != "false" || e.Name == "WEIR_AGAIN" && e.Value != "60" {
				t.Errorf("%s: %s=%s", c.Name, e.Name, e.Value)
			}
		}
		capabilities, ok := again[c.Name]
		if !ok {
			continue
		}
		delete(again, c.Name)
		var has []string
		for _, name := range c.SecurityContext.Capabilities.Add {
			has = append(has, string(name))
		}
		if strings.Join(has, " ") != capabilities || !strings.HasSuffix(c.Command[0], "/weir/again") {
			t.Errorf("%s: %v %v", c.Name, has, c.Command)
		}
	}
	if len(spec.InitContainers) != 3 || len(again) != 0 {
		t.Errorf("%d before the others, not there: %v", len(spec.InitContainers), again)
	}
	want := "[stock]\nmode = \"auto\"\nlimit = [\"/batch/*\"]\n# No rules.\n"
	if got := found["ConfigMap/weir"].(*core.ConfigMap).Data["agent.toml"]; strings.TrimSpace(got) != strings.TrimSpace(want) {
		t.Errorf("the agent's policy is %q", got)
	}
	if said, err := template("--set", "mode=auto,agent.enabled=false"); err == nil || !strings.Contains(said, "mode auto is the agent's") {
		t.Errorf("%v: %s", err, said)
	}
	// Other modes have no part that keeps the right to load modules.
	for _, c := range render(t).set(t).Spec.Template.Spec.Containers {
		if _, ok := map[string]bool{"build-again": true, "load-again": true}[c.Name]; ok {
			t.Errorf("%s in mode module", c.Name)
		}
	}
}

// In stock mode nothing is built or loaded, and the plugin's rules are the agent's.
func TestStock(t *testing.T) {
	found := render(t, "--set", "mode=stock", "--set-json", `agent.limit=["/batch/*"]`, "--set", "agent.policy=# mine")
	spec := found.set(t).Spec.Template.Spec
	if len(spec.InitContainers) != 0 || len(spec.Containers) != 3 {
		t.Errorf("%d and %d containers", len(spec.InitContainers), len(spec.Containers))
	}
	arguments := map[string][]string{"nri": {"--stock=/run/weir/pods.toml"}, "node": {"--stock"},
		"agent": {"--pods=/run/weir/pods.toml", "--root=/host"}}
	for _, c := range spec.Containers {
		for _, argument := range arguments[c.Name] {
			if !slices.Contains(c.Args, argument) {
				t.Errorf("%s: %v", c.Name, c.Args)
			}
		}
	}
	// What a ceiling becomes there is computed from the host's files, and its sysctls and queues are set.
	if got := mounted(spec, "agent"); got["/host/proc"] != "/proc" || got["/host/sys"] != "/sys" || got["/run/weir"] != "/run/weir" {
		t.Errorf("the agent mounts %v", got)
	}
	want := "[stock]\nlimit = [\"/batch/*\"]\n# mine\n"
	if got := found["ConfigMap/weir"].(*core.ConfigMap).Data["agent.toml"]; strings.TrimSpace(got) != strings.TrimSpace(want) {
		t.Errorf("the agent's policy is %q", got)
	}
	if said, err := template("--set", "mode=stock,agent.enabled=false"); err == nil || !strings.Contains(said, "set agent.enabled") {
		t.Errorf("%v: %s", err, said)
	}
}

// mounted are the node's directories that a container may write, by where it has them.
func mounted(spec core.PodSpec, container string) map[string]string {
	at := slices.IndexFunc(spec.Containers, func(c core.Container) bool { return c.Name == container })
	paths := map[string]string{}
	for _, m := range spec.Containers[at].VolumeMounts {
		for _, v := range spec.Volumes {
			if v.Name == m.Name && v.HostPath != nil && !m.ReadOnly {
				paths[m.MountPath] = v.HostPath.Path
			}
		}
	}
	return paths
}

// With the module the plugin hands values in time to the agent, which has cgroups alone.
func TestTimesGoToTheAgent(t *testing.T) {
	const handed = "/run/weir/pods.toml"
	for _, c := range []struct{ set, nri, agent string }{
		{"mode=module", "--times=" + handed, "--pods=" + handed},
		{"agent.enabled=false", "", ""},
		{"nri.enabled=false", "", ""},
	} {
		defaults := `nri.config.defaults=[{"set":{"writeback-bytes":"10ms"},"pod":{"dirty-bytes":"5s"}}]`
		spec := render(t, "--set", c.set, "--set-json", defaults).set(t).Spec.Template.Spec
		for _, container := range spec.Containers {
			want := map[string]string{"nri": c.nri, "agent": c.agent}[container.Name]
			has := func(argument string) bool {
				return strings.HasPrefix(argument, "--times") || strings.HasPrefix(argument, "--pods")
			}
			if at := slices.IndexFunc(container.Args, has); (at >= 0) != (want != "") || at >= 0 && container.Args[at] != want {
				t.Errorf("%s, %s: %v", c.set, container.Name, container.Args)
			}
			if got := mounted(spec, container.Name); got["/host/sys"] != "" || want != "" && got["/run/weir"] != "/run/weir" {
				t.Errorf("%s, %s mounts %v", c.set, container.Name, got)
			}
		}
	}
}

// Values that cannot be are refused with the key.
func TestSchema(t *testing.T) {
	for set, words := range map[string]string{
		"nri.enable=true":                         "enable",
		"module.sources={}":                       "module.sources",
		"module.sources={dkms}":                   "sources",
		"module.required=sometimes":               "required",
		"nri.listen=9760":                         "listen",
		"nri.config.defaults[0].set.dirty-min=x":  "dirty-min",
		"nri.config.defaults[0].set.dirty-byte=1": "dirty-byte",
		"nri.config.alow[0].pod-floor=1M":         "alow",
		"image.pullPolicy=Sometimes":              "pullPolicy",
		"uninstall.seconds=1":                     "seconds",
		"tolerations=x":                           "tolerations",
		"mode=none":                               "mode",
		"agent.limit={batch}":                     "limit",
	} {
		said, err := template("--set", set)
		if err == nil || !strings.Contains(said, "values don't meet the specifications") || !strings.Contains(said, strings.Split(words, ".")[0]) {
			t.Errorf("%s: %v: %s", set, err, said[:min(len(said), 400)])
		}
	}
	if said, err := template("--set", "module.enabled=false,nri.enabled=false,agent.enabled=false"); err == nil || !strings.Contains(said, "nothing is enabled") {
		t.Errorf("%v: %s", err, said)
	}
}

// A changed configuration changes the pod, an unchanged one does not.
func TestRollout(t *testing.T) {
	of := func(arguments ...string) string {
		annotations := render(t, arguments...).set(t).Spec.Template.Annotations
		for key := range annotations {
			if strings.HasPrefix(key, "weir.dev/") {
				t.Errorf("%s: the plugin would refuse weir's own containers", key)
			}
		}
		if annotations["checksum/config"] == "" {
			t.Error("no checksum of the configuration")
		}
		return annotations["checksum/config"]
	}
	if of() != of("--set", "resources.nri.limits.memory=65Mi") {
		t.Error("a limit counts as configuration")
	}
	if of() == of("--set", "nri.config.allow[0].pod-floor=1M") || of() == of("--set", "agent.policy=# x") {
		t.Error("the pods would keep the old configuration")
	}
}

// The manifests in the tree are what the chart renders now.
func TestManifests(t *testing.T) {
	out := t.TempDir()
	if said, err := exec.Command("../render.sh", out).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	files, err := filepath.Glob(out + "/*.yaml")
	if err != nil || len(files) != 4 {
		t.Fatalf("%v %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		kept, err := os.ReadFile("../manifests/" + filepath.Base(file))
		if err != nil || !bytes.Equal(kept, text) {
			t.Errorf("%s is not what the chart renders: make manifests", filepath.Base(file))
		}
		if strings.Contains(string(text), "helm.sh") {
			t.Errorf("%s has what only helm understands", filepath.Base(file))
		}
		decode(t, string(text))
	}
}

// The version is written in Cargo.toml.
func TestVersion(t *testing.T) {
	cargo, err := os.ReadFile("../../../Cargo.toml")
	if err != nil {
		t.Fatal(err)
	}
	version := string(regexp.MustCompile(`(?m)^version = "(.*)"`).FindSubmatch(cargo)[1])
	text, err := os.ReadFile(chart + "/Chart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var c struct{ Version, AppVersion string }
	if err := yaml.Unmarshal(text, &c); err != nil || c.Version != version || c.AppVersion != version {
		t.Errorf("%v: %+v, Cargo.toml says %s", err, c, version)
	}
}
