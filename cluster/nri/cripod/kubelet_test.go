// SPDX-License-Identifier: GPL-2.0-only

package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A cgroup goes with those below it, and one that is in use keeps what is above it.
func TestRemoveTree(t *testing.T) {
	pod := filepath.Join(t.TempDir(), "pod")
	busy := filepath.Join(pod, "b", "busy")
	for _, at := range []string{filepath.Join(pod, "a", "below"), busy} {
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// In a cgroup a process is what stops rmdir(2), here a file.
	held := filepath.Join(busy, "held")
	if err := os.WriteFile(held, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := removeTree(pod); err == nil {
		t.Error("what is in use is removed")
	}
	if _, err := os.Stat(filepath.Join(pod, "a")); !errors.Is(err, os.ErrNotExist) {
		t.Error("what is not in use stays", err)
	}
	if err := os.Remove(held); err != nil {
		t.Fatal(err)
	}
	if err := removeTree(pod); err != nil {
		t.Error(err)
	}
	if err := removeTree(pod); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
