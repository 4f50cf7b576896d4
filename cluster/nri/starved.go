// SPDX-License-Identifier: GPL-2.0-only

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// timeUnread is how long a question that came after Configure has lain there at most. Threads wait for a
// CPU side by side, so that their sum may be longer than all of it took.
func (p *plugin) timeUnread() time.Duration {
	waited := p.waited()
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(0, min(waited-p.configured, time.Since(p.configuredAt)))
}

// waitedForCPU is how long the threads of this process have been runnable without running: the second
// word of /proc/PID/task/TID/schedstat. 0 where the kernel does not say.
func waitedForCPU() time.Duration {
	sum := time.Duration(0)
	files, _ := filepath.Glob("/proc/self/task/*/schedstat")
	for _, file := range files {
		var ran, waited time.Duration
		text, err := os.ReadFile(file)
		if err != nil {
			continue // The thread has ended.
		}
		if _, err := fmt.Sscan(string(text), &ran, &waited); err == nil {
			sum += waited
		}
	}
	return sum
}
