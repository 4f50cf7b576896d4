// SPDX-License-Identifier: GPL-2.0-only

// Package cgroup finds the cgroups of pods and reads and writes weir's files in them.
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"weir.dev/nri/knob"
)

// QoS is the class that kubelet gave a pod.
type QoS string

// The classes, spelled as in a pod's status.
const (
	Guaranteed QoS = "Guaranteed"
	Burstable  QoS = "Burstable"
	BestEffort QoS = "BestEffort"
)

// PodPath is the cgroup of a pod below the root of the hierarchy, from the parent that kubelet
// names: a path, or with systemd a slice, whose place follows from its name. "" if there is none.
func PodPath(parent string) string {
	base := path.Base(parent)
	name, isSlice := strings.CutSuffix(base, ".slice")
	switch {
	case parent == "":
		return ""
	case !isSlice:
		return path.Clean("/" + parent)
	}
	at := "/"
	for i, c := range name {
		if c == '-' && i > 0 {
			at = path.Join(at, name[:i]+".slice")
		}
	}
	return path.Join(at, base)
}

// ContainerPath is the cgroup of a container below the root of the hierarchy, from what its
// specification says: a path, or with systemd SLICE:PREFIX:NAME. "" if it says nothing.
func ContainerPath(specified string) string {
	slice, rest, ok := strings.Cut(specified, ":")
	if !ok {
		return PodPath(specified)
	}
	return path.Join(PodPath(slice), strings.Replace(rest, ":", "-", 1)+".scope")
}

// QoSOf tells a pod's class from the cgroup it is in: NRI does not name it.
func QoSOf(pod string) QoS {
	for part := range strings.SplitSeq(pod, "/") {
		switch name := strings.TrimSuffix(part, ".slice"); {
		case name == "burstable" || strings.HasSuffix(name, "kubepods-burstable"):
			return Burstable
		case name == "besteffort" || strings.HasSuffix(name, "kubepods-besteffort"):
			return BestEffort
		}
	}
	return Guaranteed
}

// Root is the directory where the host's cgroup hierarchy is mounted.
type Root string

// ModuleID identifies the module that is loaded now; 0 if there is none. Loaded again it is another
// one, which knows nothing of what files held before.
func (r Root) ModuleID() uint64 {
	entries, err := os.ReadDir(string(r))
	if err != nil {
		return 0
	}
	if !slices.ContainsFunc(entries, func(entry fs.DirEntry) bool {
		_, err := os.Stat(filepath.Join(string(r), entry.Name(), knob.DirtyMin.File))
		return err == nil
	}) {
		return 0
	}
	// /sys/module/weir, where the hierarchy is at /sys/fs/cgroup: a new directory for each load.
	var stat syscall.Stat_t
	if syscall.Stat(filepath.Join(string(r), "../../module/weir"), &stat) != nil {
		return 1
	}
	return stat.Ino
}

// ReadKnob reads what a file of the cgroup at path holds. "" is none, and not the root: where that is a cgroup
// itself, as in a node that is a container, it has the files, too.
func (r Root) ReadKnob(at string, k *knob.Knob) (uint64, error) {
	if at == "" {
		return 0, fs.ErrNotExist
	}
	text, err := os.ReadFile(filepath.Join(string(r), at, k.File))
	if err != nil {
		return 0, err
	}
	return k.Parse(string(text))
}

// CrunPath is the cgroup below systemd's scope at path that crun makes, and writes a container's files in;
// "" if path is no scope. The container's owner may have made it, too, but no floor in it.
func CrunPath(at string) string {
	if !strings.HasSuffix(at, ".scope") {
		return ""
	}
	return path.Join(at, "container")
}

// SumOfFloorsOr is what the cgroup at path reserves, and otherwise where there is no such file. With what crun
// has written below: floors add up.
func (r Root) SumOfFloorsOr(at string, otherwise uint64) uint64 {
	floor, err := r.ReadKnob(at, knob.DirtyMin)
	if err != nil {
		return otherwise
	}
	if below := CrunPath(at); below != "" {
		more, _ := r.ReadKnob(below, knob.DirtyMin)
		floor += more
	}
	return floor
}

// WriteKnob writes a file of the cgroup at path, unless it holds the value already.
func (r Root) WriteKnob(at string, k *knob.Knob, value uint64) error {
	file := filepath.Join(string(r), at, k.File)
	// A write that changes nothing would still start the module's hooks.
	if text, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(text)) == k.Text(value) {
		return nil
	}
	// As a shell does, so that a directory that stands for a cgroup holds what a cgroup would.
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(k.Text(value))
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", k.Text(value), err)
	}
	return nil
}

// HasCgroup says whether there is a cgroup at path. "" is none.
func (r Root) HasCgroup(at string) bool {
	_, err := os.Stat(filepath.Join(string(r), at))
	return at != "" && err == nil
}

// MemoryLimit is the memory.max of the cgroup at path, 0 for none.
func (r Root) MemoryLimit(at string) (uint64, error) {
	text, err := os.ReadFile(filepath.Join(string(r), at, "memory.max"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("cgroup %s has no memory.max", at)
	}
	if err != nil {
		return 0, err
	}
	word := strings.TrimSpace(string(text))
	if word == "max" {
		return 0, nil
	}
	return strconv.ParseUint(word, 10, 64)
}
