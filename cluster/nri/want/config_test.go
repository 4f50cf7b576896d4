// SPDX-License-Identifier: GPL-2.0-only

package want

import (
	"strings"
	"testing"
)

func TestProblemsHaveTheirLine(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"defaults: []\n", ""},
		{"default: []\n", "f:1: unknown key `default`: expected `allow`, `defaults`"},
		{"defaults:\n- qos: [Burstable]\n  sets: {dirty-min: 1M}\n",
			"f:3: unknown key `sets`: expected `containers`, `namespaces`, `pod`, `qos`, `set`|f:2: no knob in it, so it would do nothing: expected `set` or `pod`"},
		{"defaults:\n- set:\n    dirty-min: 16MB\n", "f:3: invalid value `16MB` for memory.dirty_min: expected bytes with optional K, M, G or T, or `max`, or a share of the memory limit from 1% to 100%"},
		{"defaults:\n- set:\n    dirty_min: 16M\n", "f:3: unknown key `dirty_min`: expected `dirty-bandwidth`, `dirty-bytes`, `dirty-min`, `dirty-ratio`, `dirty-weight`"},
		{"defaults:\n- set:\n    dirty-min:\n", "f:3: expected a single value"},
		{"defaults:\n- set: 5\n", "f:2: expected a table of"},
		{"defaults: 5\n", "f:1: expected a list"},
		{"defaults:\n- qos: [burstable]\n  set: {dirty-min: 1M}\n", "f:2: no QoS class `burstable`: expected Guaranteed, Burstable or BestEffort"},
		{"defaults:\n- namespaces: ['[']\n  set: {dirty-min: 1M}\n", "f:2: `[` is no pattern"},
		{"defaults:\n- namespaces: []\n  set: {dirty-min: 1M}\n", "f:2: an empty list matches nothing"},
		{"defaults:\n- containers: [a]\n  pod: {dirty-min: 1M}\n", "f:2: `containers` does not choose pods"},
		{"allow:\n- pod-floor: 50%\n", "f:2: invalid value `50%`: expected what memory.dirty_min takes"},
		{"allow:\n- pod-weight: 0\n", "f:2: invalid value `0`: expected what memory.dirty_weight takes"},
		{"allow:\n- pod-floor: 1M\n  pod-floor: 2M\n", "f:3: `pod-floor` is there twice"},
		{"allow: &a\n- pod-floor: 1M\ndefaults: *a\n", "f:2: unknown key `pod-floor`"},
		{"\tx", "f: yaml: "},
	} {
		_, err := Parse("f", []byte(c.text))
		got := ""
		if err != nil {
			got = strings.ReplaceAll(err.Error(), "\n", "|")
		}
		if !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%q:\n got %s\nwant %s", c.text, got, c.want)
		}
	}
}

func TestLoadNamesAMissingFile(t *testing.T) {
	if _, err := Load("/nonexistent/weir.yaml"); err == nil || !strings.Contains(err.Error(), "/nonexistent/weir.yaml") {
		t.Errorf("got %v", err)
	}
}
