// SPDX-License-Identifier: GPL-2.0-only

package main

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
)

func TestOneOfTwoOnANodeWaits(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "nri.sock")
	first, err := lockNode(socket)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockNode(socket); !errors.Is(err, errSecond) {
		t.Fatalf("a second one: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := lockNode(socket)
	if err != nil {
		t.Fatalf("after the first has ended: %v", err)
	}
	again.Close()
	if _, err := lockNode("/nowhere/nri.sock"); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("no runtime: %v", err)
	}
}
