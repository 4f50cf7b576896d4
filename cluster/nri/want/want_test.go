// SPDX-License-Identifier: GPL-2.0-only

package want

import (
	"fmt"
	"strings"
	"testing"

	"weir.dev/nri/cgroup"
	"weir.dev/nri/knob"
)

const node = `
defaults:
- qos: [BestEffort]
  set: {dirty-bytes: 8M, dirty-weight: 50}
  pod: {dirty-bytes: 64M}
- set: {dirty-ratio: 20}
  namespaces: ["team-*"]
- namespaces: [team-b]
  containers: [db*]
  set: {dirty-ratio: 30, dirty-bytes: 50%}
- namespaces: [kube-system]
  set: {dirty-min: 4M}
allow:
- namespaces: ["team-*"]
  pod-floor: 16M
  namespace-floor: 40M
- namespaces: [team-b]
  pod-floor: 1M
- namespaces: [team-c]
  pod-weight: 200
`

func config(t *testing.T) *Config {
	t.Helper()
	c, err := Parse("node", []byte(node))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func pod(namespace string, qos cgroup.QoS, annotations ...string) Pod {
	p := Pod{Namespace: namespace, Name: "p", QoS: qos, Annotations: map[string]string{"other.dev/dirty-min": "x"}}
	for i := 0; i < len(annotations); i += 2 {
		p.Annotations[annotations[i]] = annotations[i+1]
	}
	return p
}

func show(w Wanted, err error) string {
	if err != nil {
		return "!" + err.Error()
	}
	var parts []string
	for _, k := range knob.All {
		if value, ok := w.Values[k]; ok {
			parts = append(parts, fmt.Sprint(k.Name, "=", k.Text(value)))
		}
	}
	if w.AsksFloor {
		parts = append(parts, "asks")
	}
	if w.AsksWeight {
		parts = append(parts, "asks weight")
	}
	return strings.Join(parts, " ")
}

func limit(bytes uint64) func() (uint64, error) {
	return func() (uint64, error) { return bytes, nil }
}

func TestContainer(t *testing.T) {
	c := config(t)
	for _, v := range []struct {
		pod   Pod
		limit uint64
		want  string
	}{
		{pod("default", cgroup.Burstable), 0, ""},
		{pod("default", cgroup.BestEffort), 0, "dirty-bytes=8388608 dirty-weight=50"},
		{pod("team-a", cgroup.Burstable), 0, "dirty-ratio=20"},
		{pod("team-b", cgroup.Burstable), 0, "dirty-ratio=30"},
		{pod("team-b", cgroup.Burstable), 1 << 20, "dirty-bytes=524288 dirty-ratio=30"},
		{pod("kube-system", cgroup.Guaranteed), 0, "dirty-min=4194304"},
		{pod("kube-system", cgroup.Guaranteed, "weir.dev/dirty-min", "1M"), 0, "dirty-min=1048576 asks"},
		{pod("kube-system", cgroup.Guaranteed, "weir.dev/dirty-min", "0"), 0, "dirty-min=0"},
		{pod("default", cgroup.BestEffort, "weir.dev/dirty-bytes", "max"), 0, "dirty-bytes=max dirty-weight=50"},
		{pod("default", cgroup.Burstable, "weir.dev/dirty-bytes", "75%"), 4 << 20, "dirty-bytes=3145728"},
		{pod("default", cgroup.Burstable, "weir.dev/dirty-bytes", "75%"), 0, "!memory.dirty_bytes: 75% of the memory limit, and there is none"},
		{pod("default", cgroup.Burstable, "weir.dev/dirty-min", "25%"), 4 << 20, "dirty-min=1048576 asks"},
		{pod("default", cgroup.Burstable, "weir.dev/dirty-ratio", "10", "weir.dev/dirty-ratio.db", "40"), 0, "dirty-ratio=40"},
		{pod("default", cgroup.Burstable, "weir.dev/dirty-ratio", "10", "weir.dev/dirty-ratio.web", "40"), 0, "dirty-ratio=10"},
		{pod("default", cgroup.Burstable, "weir.dev/pod.dirty-ratio", "10"), 0, ""},
		{pod("default", cgroup.Burstable, "weir.dev/dirty-ratio.web", "x"), 0, "!annotation weir.dev/dirty-ratio.web: invalid value `x` for memory.dirty_ratio: expected a whole number from 0 (off) to 100"},
		{pod("default", cgroup.Burstable, "weir.dev/dirty-byte", "1M"), 0, "!unknown annotation weir.dev/dirty-byte: expected weir.dev/ and one of dirty-min, dirty-bytes, dirty-ratio, dirty-weight, dirty-bandwidth, writeback-bytes, before it `pod.` for the pod's cgroup or after it `.` and a container's name"},
		{pod("default", cgroup.Burstable, "weir.dev/pod.dirty-min.db", "1M", "weir.dev/dirty-min.", "1M"), 0, "!unknown annotation weir.dev/dirty-min.: "},
	} {
		got := show(c.WantedBy(v.pod, "db", limit(v.limit)))
		if got != v.want && !(strings.HasPrefix(v.want, "!") && strings.HasPrefix(got, v.want)) {
			t.Errorf("%v:\n got %s\nwant %s", v.pod, got, v.want)
		}
	}
}

func TestPodsOwn(t *testing.T) {
	c := config(t)
	for _, v := range []struct {
		pod  Pod
		want string
	}{
		{pod("default", cgroup.BestEffort), "dirty-bytes=67108864"},
		{pod("default", cgroup.Burstable), ""},
		{pod("default", cgroup.Burstable, "weir.dev/pod.dirty-bytes", "50%"), "dirty-bytes=4194304"},
		{pod("default", cgroup.Burstable, "weir.dev/dirty-bytes", "1M"), ""},
		{pod("team-a", cgroup.Burstable, "weir.dev/pod.dirty-min", "1M"), "dirty-min=1048576 asks"},
		{pod("team-c", cgroup.Burstable, "weir.dev/pod.dirty-weight", "200"), "dirty-weight=200 asks weight"},
	} {
		got := show(c.WantedBy(v.pod, PodItself, limit(8<<20)))
		if got != v.want && !(strings.HasPrefix(v.want, "!") && strings.HasPrefix(got, v.want)) {
			t.Errorf("%v:\n got %s\nwant %s", v.pod, got, v.want)
		}
	}
}

// request is for a container with a floor that an annotation asks for.
func request(pod, container string, own, floor uint64) Request {
	of := func(bytes uint64) Wanted {
		return Wanted{Values: Values{knob.DirtyMin: bytes << 20}, AsksFloor: bytes > 0}
	}
	return Request{Pod: pod, Sandbox: pod + "-1", Container: container, OfPod: of(own), OfContainer: of(floor)}
}

func TestBudget(t *testing.T) {
	c := config(t)
	a := pod("team-a", cgroup.Burstable)
	b := &Budget{}
	allows := func(p Pod, r Request, want string) {
		t.Helper()
		err := b.CheckAllowed(c, p, r)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	allows(pod("default", cgroup.Burstable), request("0", "x", 0, 1), "not allowed in namespace default")
	allows(pod("team-c", cgroup.Burstable), request("0", "x", 0, 1), "not allowed in namespace team-c")
	weighs := func(weight uint64, asks bool) Request {
		return Request{Pod: "0", Sandbox: "0-1", OfPod: Wanted{Values: Values{knob.DirtyWeight: weight}, AsksWeight: asks}}
	}
	allows(pod("team-c", cgroup.Burstable), weighs(200, true), "")
	allows(pod("team-c", cgroup.Burstable), weighs(201, true), "annotation weir.dev/pod.dirty-weight: 201 is not allowed in namespace team-c on this node: the node's configuration allows up to 200 by `pod-weight`")
	allows(pod("default", cgroup.Burstable), weighs(1, true), "annotation weir.dev/pod.dirty-weight: 1 is not allowed")
	allows(pod("default", cgroup.Burstable), weighs(500, false), "")
	allows(a, request("1", "x", 0, 17), "would be 17825792 bytes, and a pod in namespace team-a may reserve 16777216")
	allows(a, request("1", "x", 8, 8), "")
	b.RecordFloors(a, request("1", "x", 8, 8))
	// The container again, as an update of it: not counted twice.
	allows(a, request("1", "x", 8, 8), "")
	allows(a, request("1", "y", 8, 1), "would be 17825792 bytes")
	b.RecordFloors(a, request("2", "x", 0, 16))
	allows(a, request("3", "x", 0, 9), "other pods of namespace team-a reserve 33554432, and all of them may reserve 41943040")
	allows(a, request("3", "x", 0, 8), "")
	// What no annotation asks for is not refused, but it counts.
	preset := request("4", "x", 0, 12)
	preset.OfContainer.AsksFloor = false
	allows(a, preset, "")
	b.RecordFloors(a, preset)
	allows(a, request("3", "x", 0, 1), "reserve 46137344")
	if got := b.ReservedByNamespace()["team-a"]; got != 44<<20 {
		t.Errorf("team-a reserves %d", got)
	}
	b.ReleaseFloors("2", "2-1", "x")
	b.ReleaseFloors("4", "4-1", "")
	b.ReleaseFloors("5", "5-1", "x")
	allows(a, request("3", "x", 0, 16), "")
	allows(pod("team-b", cgroup.Burstable), request("6", "x", 0, 1), "")
	allows(pod("team-b", cgroup.Burstable), request("6", "x", 0, 2), "may reserve 1048576")
	b.ReleaseFloors("1", "1-1", "")
	b.ReleaseFloors("2", "2-1", "")
	if len(b.pods) != 0 {
		t.Errorf("left: %v", b.pods)
	}
	// "max" does not overflow.
	max := request("7", "x", 1, 0)
	max.OfContainer.Values[knob.DirtyMin] = knob.Unlimited
	allows(a, max, "would be max bytes")
}

// A pod's author must not be able to make an answer too long for the runtime, or too slow.
func TestBoundedComplaints(t *testing.T) {
	c, err := Parse("config", []byte(""))
	if err != nil {
		t.Fatal(err)
	}
	none := func() (uint64, error) { return 0, nil }
	many := map[string]string{}
	for i := range 20000 {
		many[fmt.Sprintf("weir.dev/a%d", i)] = ""
	}
	_, err = c.WantedBy(Pod{Annotations: many}, PodItself, none)
	if err == nil || err.Error() != "more than 256 annotations begin with weir.dev/: a pod may have as many" {
		t.Errorf("got %.200v", err)
	}
	_, err = c.WantedBy(Pod{Annotations: map[string]string{"weir.dev/dirty-min": strings.Repeat("é", 100000)}}, PodItself, none)
	if err == nil || len(err.Error()) > 1100 || !strings.HasSuffix(err.Error(), "é ... and more") {
		t.Errorf("got %.2000v", err)
	}
}
