// SPDX-License-Identifier: GPL-2.0-only

package cgroup

import (
	"os"
	"path/filepath"
	"testing"

	"weir.dev/nri/knob"
)

func TestPodPath(t *testing.T) {
	for _, c := range []struct {
		parent, path string
		qos          QoS
	}{
		{"", "", Guaranteed},
		{"/kubepods/pod1", "/kubepods/pod1", Guaranteed},
		{"/kubepods/burstable/pod1", "/kubepods/burstable/pod1", Burstable},
		{"kubepods/besteffort/pod1/", "/kubepods/besteffort/pod1", BestEffort},
		{"kubepods-pod1_2.slice", "/kubepods.slice/kubepods-pod1_2.slice", Guaranteed},
		{"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1_2.slice",
			"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1_2.slice", BestEffort},
		{"kubelet-kubepods-burstable-pod1.slice",
			"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod1.slice", Burstable},
		{"/../../etc", "/etc", Guaranteed},
	} {
		got := PodPath(c.parent)
		if got != c.path || QoSOf(got) != c.qos {
			t.Errorf("%q: got %q, %s, want %q, %s", c.parent, got, QoSOf(got), c.path, c.qos)
		}
	}
}

func TestContainerPath(t *testing.T) {
	for specified, want := range map[string]string{
		"":                            "",
		"/kubepods/burstable/pod1/c1": "/kubepods/burstable/pod1/c1",
		"kubepods-burstable-pod1_2.slice:cri-containerd:c1": "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice/cri-containerd-c1.scope",
		"kubepods-pod1.slice:crio:c1":                       "/kubepods.slice/kubepods-pod1.slice/crio-c1.scope",
	} {
		if got := ContainerPath(specified); got != want {
			t.Errorf("%q: got %q, want %q", specified, got, want)
		}
	}
}

func TestFloorWithCrun(t *testing.T) {
	root := Root(t.TempDir())
	const scope = "/kubepods.slice/cri-containerd-c1.scope"
	write := func(at, floor string) {
		at = filepath.Join(string(root), at)
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(at, "memory.dirty_min"), []byte(floor+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := root.SumOfFloorsOr(scope, 7); got != 7 {
		t.Errorf("without a file: %d", got)
	}
	write(scope, "0")
	if got := root.SumOfFloorsOr(scope, 7); got != 0 {
		t.Errorf("without a floor: %d", got)
	}
	write(scope+"/container", "4096")
	if got := root.SumOfFloorsOr(scope, 7); got != 4096 {
		t.Errorf("with one below: %d", got)
	}
}

func TestSetReplacesALongerValue(t *testing.T) {
	root := Root(t.TempDir())
	file := filepath.Join(string(root), "memory.dirty_min")
	if err := os.WriteFile(file, []byte("1048576\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := root.WriteKnob("/", knob.DirtyMin, 0); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "0" {
		t.Errorf("%q, %v", text, err)
	}
}
