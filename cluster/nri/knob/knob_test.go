// SPDX-License-Identifier: GPL-2.0-only

package knob

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

func TestNamesComeFromTheModule(t *testing.T) {
	want := []string{"dirty-min memory.dirty_min", "dirty-bytes memory.dirty_bytes",
		"dirty-ratio memory.dirty_ratio", "dirty-weight memory.dirty_weight",
		"dirty-bandwidth memory.dirty_bandwidth", "writeback-bytes memory.writeback_bytes"}
	for i, k := range All {
		if got := k.Name + " " + k.File; got != want[i] {
			t.Errorf("got %s, want %s", got, want[i])
		}
		if found, ok := ByName(k.Name); !ok || found != k {
			t.Errorf("%s is not found", k.Name)
		}
	}
	if _, ok := ByName("dirty_min"); ok {
		t.Error("a name with an underscore is found")
	}
}

func TestSet(t *testing.T) {
	const none = 0
	least := 2 * os.Getpagesize()
	for _, c := range []struct {
		knob  *Knob
		text  string
		limit uint64
		want  string // or "!" and a part of the message
	}{
		{DirtyMin, "16M", none, "16777216"},
		{DirtyMin, " 4096\n", none, "4096"},
		{DirtyMin, "max", none, "max"},
		{DirtyMin, "0", none, "0"},
		{DirtyMin, "16MB", none, "!invalid value `16MB` for memory.dirty_min: expected bytes"},
		{DirtyMin, "-1", none, "!invalid"},
		{DirtyMin, "0x10", none, "!invalid"},
		{DirtyMin, "", none, "!invalid"},
		{DirtyMin, "16M\x00", none, "!invalid"},
		{DirtyMin, "9223372036854775808", none, "!invalid"},
		{DirtyBytes, strconv.Itoa(least - 1), none, "!at least " + strconv.Itoa(least)},
		{DirtyBytes, strconv.Itoa(least), none, strconv.Itoa(least)},
		{DirtyBytes, "75%", 64 << 20, "50331648"},
		{DirtyBytes, "75%", none, "!there is none"},
		{DirtyBytes, "75%", Unlimited, "!there is none"},
		{DirtyBytes, "100%", 9223372036854775807, "9223372036854775807"},
		{DirtyBytes, "1%", 9000, "!1% of a memory limit of 9000 bytes: invalid value `90`"},
		{DirtyBytes, "0%", 64 << 20, "!from 1% to 100%"},
		{DirtyBytes, "101%", 64 << 20, "!from 1% to 100%"},
		{DirtyBytes, "75 %", 64 << 20, "!invalid"},
		{DirtyBytes, "+75%", 64 << 20, "!invalid"},
		{DirtyBytes, "%", 64 << 20, "!invalid"},
		{DirtyRatio, "20", none, "20"},
		{DirtyRatio, "20%", 64 << 20, "!invalid value `20%` for memory.dirty_ratio: expected a whole number from 0 (off) to 100"},
		{DirtyRatio, "101", none, "!invalid"},
		{DirtyWeight, "10000", none, "10000"},
		{DirtyWeight, "0", none, "!from 1 to 10000"},
		{DirtyWeight, "10001", none, "!from 1 to 10000"},
		{DirtyBandwidth, "8M", none, "8388608"},
		{DirtyBandwidth, "max", none, "max"},
		{DirtyBandwidth, "63K", none, "!at least 65536"},
		{DirtyBandwidth, "50%", 64 << 20, "!expected bytes per second"},
		{WritebackBytes, "256K", none, "262144"},
		{WritebackBytes, "max", none, "max"},
		{WritebackBytes, "63K", none, "!at least 65536"},
		{WritebackBytes, "50%", 64 << 20, "!expected bytes with optional"},
	} {
		got := ""
		s, err := c.knob.ParseSetting(c.text)
		if err == nil {
			var value uint64
			if value, err = s.ResolveShare(c.limit); err == nil {
				got = c.knob.Text(value)
			}
		}
		if part, refused := strings.CutPrefix(c.want, "!"); refused {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s %q: got %q, %v, want an error with %q", c.knob.Name, c.text, got, err, part)
			}
		} else if got != c.want {
			t.Errorf("%s %q: got %q, %v, want %q", c.knob.Name, c.text, got, err, c.want)
		}
	}
}

// The agent's own test reads the same table.
func TestTimes(t *testing.T) {
	text, err := os.ReadFile("testdata/times.txt")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if strings.HasPrefix(line, "#") {
			continue
		}
		seen++
		for _, k := range All {
			if k.File != words[0] {
				continue
			}
			s, err := k.ParseSetting(words[1])
			if taken := err == nil; taken != (words[2] == "ok") || taken && s.Time != words[1] {
				t.Errorf("%s: got %q, %v", strings.TrimSpace(line), s.Time, err)
			}
		}
	}
	if seen < 10 {
		t.Errorf("%d lines", seen)
	}
	if _, err := WritebackBytes.ParseSetting("2s"); err == nil || !strings.Contains(err.Error(), "or 1ms to 1000ms of what disks write for the cgroup") {
		t.Error(err)
	}
}
