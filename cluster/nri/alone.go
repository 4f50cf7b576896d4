// SPDX-License-Identifier: GPL-2.0-only

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Two weir-nri on a node (a second release of the chart, or packaging/node beside it) would both set the same files, and the
// runtime then starts no container that has a knob. So the one that comes second waits until the first ends. What both see is
// the directory of the runtime's socket, whatever container they run in; a lock on it ends with its process.

var errSecond = errors.New("another weir-nri serves this runtime: it sets the knobs, this one waits until it ends")

// lockNode locks the directory of the runtime's socket; closing the file gives it back.
func lockNode(socket string) (*os.File, error) {
	directory, err := os.Open(filepath.Dir(socket))
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(directory.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return directory, nil
	}
	directory.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, errSecond
	}
	return nil, fmt.Errorf("cannot lock %s: %w", filepath.Dir(socket), err)
}
