// SPDX-License-Identifier: GPL-2.0-only
/*
 * Has a livepatch replaced a function that weir probes?
 *
 * A livepatch and a kprobe both redirect the start of a function, and the one
 * registered first has the last word.  So beside a livepatch weir's entry probe
 * may decide passes that then go elsewhere, its return probe waits for a
 * function that never runs, and neither knows what the new function does.  The beat
 * asks here before it arms anything, and takes all probes away while the
 * answer is yes: an operator who patches the throttle gets his patch, alone.
 *
 * The kernel keeps the replaced functions in a list that its own lock guards.
 * The lock is only tried: while somebody applies or reverts a patch the last answer
 * stands, and the next beat asks again.  A kernel without livepatching has
 * neither the lock nor the list, and the answer is no.
 */
#include "weir.h"
#include <linux/mutex.h>

static const char *const probed[] = {
	"balance_dirty_pages", "domain_dirty_limits",
};

static void *nothing(void *function)
{
	return NULL;
}

DEFINE_STATIC_CALL(weir_find_patch, nothing);

static struct mutex *patches_lock;
static void *functions[ARRAY_SIZE(probed)];
static const char *last;

void weir_livepatch_find(void)
{
	unsigned long find = weir_symbol("klp_find_ops");
	int i;

	patches_lock = (struct mutex *)weir_symbol("klp_mutex");
	if (!find || !patches_lock) {
		patches_lock = NULL;
		return;
	}
	static_call_update(weir_find_patch, (void *(*)(void *))find);
	for (i = 0; i < ARRAY_SIZE(probed); i++)
		functions[i] = (void *)weir_symbol(probed[i]);
}

/* The replaced function's name, NULL if there is none; the caller holds weir_lock. */
const char *weir_livepatched(void)
{
	int i;

	if (!patches_lock || !mutex_trylock(patches_lock))
		return last;
	last = NULL;
	for (i = 0; !last && i < ARRAY_SIZE(probed); i++) {
		if (static_call(weir_find_patch)(functions[i]))
			last = probed[i];
	}
	mutex_unlock(patches_lock);
	return last;
}
