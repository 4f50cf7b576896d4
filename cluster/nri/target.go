// SPDX-License-Identifier: GPL-2.0-only

package main

import "weir.dev/nri/want"

// target is a cgroup that gets knobs: a pod's own, or a container's.
type target struct {
	// at is its path below the root of the hierarchy; "" if the runtime names none.
	at string
	// given are the knobs that it was given; nil if none. The runtime tells nothing of them later.
	given want.Values
	// wishes are those that were allowed, for the agent to keep on a node that allows no module; nil if
	// nothing was allowed yet.
	wishes want.Values
	// times are those of what was allowed that are in time, which are the agent's on every node.
	times want.Times
	// unprotected says that it lacks what was wished for, mostly as the module was not there.
	unprotected bool
	// updating says that an update may have failed since it was answered: no message says so.
	updating bool
}

// hasWish says whether the agent is to keep something here.
func (t *target) hasWish() bool {
	return t.wishes != nil || t.times != nil
}

// setTimes keeps values in time, and says whether there are or were some.
func (t *target) setTimes(times want.Times) bool {
	had := t.times != nil
	t.times = nil
	if len(times) > 0 {
		t.times = times
	}
	return had || t.times != nil
}

// inheritFrom takes over what was known of the cgroup before, which may be nothing, and the rule that the
// agent has for it.
func (t *target) inheritFrom(before *target, kept rule) {
	if len(kept.values) > 0 {
		t.wishes = kept.values
	}
	if len(kept.times) > 0 {
		t.times = kept.times
	}
	if before == nil {
		return
	}
	if before.given != nil {
		t.given = before.given
	}
	if before.wishes != nil {
		t.wishes = before.wishes
	}
	if before.times != nil {
		t.times = before.times
	}
	t.unprotected = t.unprotected || before.unprotected
	t.updating = t.updating || before.updating
}
