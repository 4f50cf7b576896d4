// SPDX-License-Identifier: GPL-2.0-only

// Package knob names weir's cgroup files and reads their values.
//
// Names and grammar are the module's own: policy/names.c and policy/parse.c are
// compiled into this package, through links so that Go's build cache sees a change
// of theirs. A value that passes here is therefore one that the module takes, and
// no second grammar can drift from the first.
package knob

// #cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra -Werror
// #include <stdlib.h>
// #include "tier.h"
import "C"

import (
	"fmt"
	"math/bits"
	"os"
	"strconv"
	"strings"
	"unsafe"
)

// Knob is one of the files that an annotation may set.
type Knob struct {
	id C.enum_weir_knob
	// Name is the file's name in annotations and configuration, as in "dirty-min".
	Name string
	// File is the file in a cgroup, as in "memory.dirty_min".
	File string
	// takes says what the file accepts: the rest of "expected ...".
	takes string
	// Bytes says that the file holds bytes, not a rate, so that a share of the memory limit can be asked for.
	Bytes bool
	// most is the longest time in times, "s" or "ms", for which the file can be set to what disks write
	// for the cgroup; 0 if it cannot.
	most  uint64
	times string
}

// The one list. A file that the module gains gets a line here.
var (
	DirtyMin    = newKnob(C.WEIR_KNOB_DIRTY_MIN, "bytes with optional K, M, G or T, or `max`", true)
	DirtyBytes  = newKnob(C.WEIR_KNOB_DIRTY_BYTES, fmt.Sprintf("bytes with optional K, M, G or T, at least %d, or `max`", ceilingMin), true).acceptTimes(3600, "s")
	DirtyRatio  = newKnob(C.WEIR_KNOB_DIRTY_RATIO, "a whole number from 0 (off) to 100", false)
	DirtyWeight = newKnob(C.WEIR_KNOB_DIRTY_WEIGHT, fmt.Sprintf("a whole number from %d to %d", C.WEIR_WEIGHT_MIN, C.WEIR_WEIGHT_MAX), false)

	DirtyBandwidth = newKnob(C.WEIR_KNOB_DIRTY_BANDWIDTH, fmt.Sprintf("bytes per second with optional K, M, G or T, at least %d, or `max`", C.WEIR_BANDWIDTH_MIN), false)

	WritebackBytes = newKnob(C.WEIR_KNOB_WRITEBACK_BYTES, fmt.Sprintf("bytes with optional K, M, G or T, at least %d, or `max`", C.WEIR_WINDOW_MIN), false).acceptTimes(1000, "ms")

	All = []*Knob{DirtyMin, DirtyBytes, DirtyRatio, DirtyWeight, DirtyBandwidth, WritebackBytes}
)

// Unlimited is the value of the word "max".
const Unlimited = ^uint64(0)

// Two pages of this kernel, which has pages of 4, 16 or 64 KiB on arm64.
var ceilingMin = uint64(C.WEIR_CEILING_MIN) * uint64(os.Getpagesize())

func newKnob(id C.enum_weir_knob, takes string, bytes bool) *Knob {
	file := C.GoString(C.weir_knob_file(id))
	name := strings.ReplaceAll(strings.TrimPrefix(file, "memory."), "_", "-")
	return &Knob{id: id, Name: name, File: file, takes: takes, Bytes: bytes}
}

// acceptTimes lets the file be set to what disks write in up to most times. The agent converts such a value and
// has the same bounds: testdata/times.txt is a test of both.
func (k *Knob) acceptTimes(most uint64, times string) *Knob {
	k.most, k.times = most, times
	return k
}

// ByName finds the knob that annotations call name.
func ByName(name string) (*Knob, bool) {
	for _, k := range All {
		if k.Name == name {
			return k, true
		}
	}
	return nil, false
}

// Names lists what annotations call the knobs, for messages.
func Names() string {
	names := make([]string, len(All))
	for i, k := range All {
		names[i] = k.Name
	}
	return strings.Join(names, ", ")
}

// Parse reads a value as the module reads it from the file.
func (k *Knob) Parse(text string) (uint64, error) {
	c := C.CString(text)
	defer C.free(unsafe.Pointer(c))
	var value C.weir_u64
	if C.weir_parse_knob(k.id, c, C.weir_u64(len(text)), C.weir_u64(os.Getpagesize()), &value) != C.WEIR_PARSED {
		return 0, k.invalidValue(text)
	}
	return uint64(value), nil
}

func (k *Knob) invalidValue(text string) error {
	takes := k.takes
	if k.Bytes {
		takes += ", or a share of the memory limit from 1% to 100%"
	}
	if k.most > 0 {
		takes += fmt.Sprintf(", or 1%s to %d%s of what disks write for the cgroup", k.times, k.most, k.times)
	}
	return fmt.Errorf("invalid value `%s` for %s: expected %s", text, k.File, takes)
}

// Unset is the value of a file that was never written.
func (k *Knob) Unset() uint64 {
	return uint64(C.weir_knob_unset(k.id))
}

// Text is the value as it is written to the file.
func (k *Knob) Text(value uint64) string {
	// no other knob takes a number that large
	if value == Unlimited {
		return "max"
	}
	return strconv.FormatUint(value, 10)
}

// Setting is a value, a share of a memory limit that is not known yet, or a time.
type Setting struct {
	Knob  *Knob
	value uint64
	share C.weir_u32
	// Time is what disks write for the cgroup in, as in "10ms"; empty for other settings. What that
	// comes to changes: the agent follows it.
	Time string
}

// ParseSetting reads a value or, for a file in bytes, a share such as "75%", or, for a ceiling or a window, a time.
func (k *Knob) ParseSetting(text string) (Setting, error) {
	if number, isTime := strings.CutSuffix(strings.TrimSpace(text), k.times); isTime && k.most > 0 {
		time, err := strconv.ParseUint(number, 10, 64)
		if err != nil || time < 1 || time > k.most {
			return Setting{}, k.invalidValue(text)
		}
		return Setting{Knob: k, Time: strconv.FormatUint(time, 10) + k.times}, nil
	}
	number, isShare := strings.CutSuffix(text, "%")
	if !isShare || !k.Bytes {
		value, err := k.Parse(text)
		return Setting{Knob: k, value: value}, err
	}
	c := C.CString(number)
	defer C.free(unsafe.Pointer(c))
	var share C.weir_u32
	if strings.TrimSpace(number) != number ||
		C.weir_parse_percent(c, C.weir_u64(len(number)), &share) != C.WEIR_PARSED || share == 0 {
		return Setting{}, k.invalidValue(text)
	}
	return Setting{Knob: k, share: share}, nil
}

// IsShare says whether the setting needs a memory limit.
func (s Setting) IsShare() bool {
	return s.share != 0
}

// ResolveShare returns what the file is to hold in a cgroup whose memory limit is limit, 0 for none.
func (s Setting) ResolveShare(limit uint64) (uint64, error) {
	if !s.IsShare() {
		return s.value, nil
	}
	if limit == 0 || limit == Unlimited {
		return 0, fmt.Errorf("%d%% of the memory limit, and there is none", s.share)
	}
	high, low := bits.Mul64(limit, uint64(s.share))
	value, _ := bits.Div64(high, low, 100)
	if _, err := s.Knob.Parse(s.Knob.Text(value)); err != nil {
		return 0, fmt.Errorf("%d%% of a memory limit of %d bytes: %w", s.share, limit, err)
	}
	return value, nil
}
