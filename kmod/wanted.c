// SPDX-License-Identifier: GPL-2.0-only
/*
 * Cgroups that passes want groups for: noted here, made by the beat (group.c).
 */
#include "weir.h"

/* Cgroups without a group whose tasks dirty pages; referenced. */
static struct cgroup_subsys_state *wanted[16];

/* Note that a cgroup without a group dirties pages.  Called by passes. */
void weir_group_wanted(struct cgroup_subsys_state *css)
{
	int i;

	if (!css->parent)
		return;
	for (i = 0; i < ARRAY_SIZE(wanted); i++) {
		if (READ_ONCE(wanted[i]) == css)
			return;
	}
	if (!css_tryget_online(css))
		return;
	for (i = 0; i < ARRAY_SIZE(wanted); i++) {
		if (!READ_ONCE(wanted[i]) && !cmpxchg(&wanted[i], NULL, css))
			break;
	}
	/*
	 * No place: the next pass asks again.  No beat that would take it, since
	 * this pass began: weir_groups_rest() comes after what ends acting, so it
	 * has seen the entry, or this sees that.
	 */
	if (i == ARRAY_SIZE(wanted) ||
	    (!weir_acting() && cmpxchg(&wanted[i], css, NULL) == css))
		css_put(css);
}

/* Have @take, if any, see each that is noted, and forget them. */
void weir_wanted_take(void (*take)(struct cgroup_subsys_state *css))
{
	struct cgroup_subsys_state *css;
	int i;

	for (i = 0; i < ARRAY_SIZE(wanted); i++) {
		css = xchg(&wanted[i], NULL);
		if (!css)
			continue;
		if (take)
			take(css);
		css_put(css);
	}
}

/* No pass asks any more: hold no cgroup that may be removed. */
void weir_groups_rest(void)
{
	weir_wanted_take(NULL);
}
