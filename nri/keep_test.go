// SPDX-License-Identifier: GPL-2.0-only

package main

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// A plugin that runs out of memory leaves the node without knobs, and a pod may say many MiB.
func TestKeepsLittle(t *testing.T) {
	n := newNode(t)
	n.load()
	p := n.plugin(allowed, "")
	inUse := func() uint64 {
		var all runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&all)
		return all.HeapAlloc
	}
	before := inUse()
	for i := range 40 {
		s, c := sandbox("dirty-bytes", "8M"), container(fmt.Sprint("c", i), 0)
		s.Id = fmt.Sprint("s", i)
		s.Annotations["other"] = strings.Repeat("x", 1<<18)
		s.Annotations["weir.dev/dirty-bytes.z"] = "8M" + strings.Repeat(" ", 1<<18)
		c.Env = []string{"X=" + strings.Repeat("x", 1<<20)}
		_, _, _ = p.CreateContainer(context.Background(), s, c)
	}
	if kept := int64(inUse() - before); kept > 4<<20 {
		t.Errorf("%d bytes are kept of 40 containers", kept)
	}
	runtime.KeepAlive(p)
}

func TestTooManyAnnotations(t *testing.T) {
	n := newNode(t)
	n.load()
	_, stop := n.plug(allowed)
	defer stop()
	s := sandbox()
	for i := range 300 {
		s.Annotations[fmt.Sprintf("weir.dev/dirty-bytes.c%d", i)] = "8M"
	}
	if _, err := n.create(s, container("a", 0)); err == nil || !strings.Contains(err.Error(), "more than 256 annotations begin with weir.dev/") {
		t.Error(err)
	}
}
