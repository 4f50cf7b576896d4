// SPDX-License-Identifier: GPL-2.0-only
/*
 * The number of flushers that sleep for room at a time.
 *
 * A flusher that sleeps has a worker of the kernel's queue for writeback, which runs 256 at a
 * time, divided among the nodes that have CPUs; one beyond waits until another ends.  So no
 * more than three quarters of a node's part sleep here, whose all they may be.  Without
 * places for each, a tenant with a flusher in each of 200 cgroups had all of them, and
 * windows of others were without effect.
 *
 * Devices divide the places, and at each level the cgroups that have asked for one lately
 * (weir_places_part()).  So a tenant takes none from others by many cgroups, and some are left
 * for one that begins to ask.  A flusher without a place ends its work: flusher.c.
 */
#include "weir.h"
#include "flusher.h"

#define PLACES		192U
/* The kernel runs 8 on a node at the least. */
#define PLACES_LEAST	6U

static DEFINE_SPINLOCK(lock);		/* all struct weir_places */
static struct weir_places host;

/* Note that one below @places asks, and return how many do. */
static u32 note_asking(struct weir_places *places, struct weir_places *below)
{
	unsigned long second = jiffies / HZ + 1;

	if (places->second != second) {
		places->asked_before = places->second + 1 == second ? places->asking : 0;
		places->asking = 0;
		places->second = second;
	}
	if (below->asked != second) {
		WRITE_ONCE(below->asked, second);
		places->asking++;
	}
	return max(places->asking, places->asked_before);
}

/* Has a flusher at or below @branch asked in this second?  Made anew, it would count twice. */
bool weir_place_asked(const struct weir_branch *branch)
{
	return READ_ONCE(branch->places.asked) == jiffies / HZ + 1;
}

/* May a flusher of @branch sleep?  Then weir_place_give() is to follow. */
bool weir_place_take(struct weir_branch *branch)
{
	u32 most = max(PLACES / num_node_state(N_CPU), PLACES_LEAST);
	struct weir_places *path[WEIR_BRANCH_LEVELS], *above = &host;
	int levels = 0, i;
	bool free;

	for (; branch; branch = branch->parent)
		path[levels++] = &branch->places;
	spin_lock(&lock);
	free = host.held < most;
	for (i = levels; i--; above = path[i]) {
		most = weir_places_part(most, note_asking(above, path[i]));
		free &= path[i]->held < most;
	}
	if (free) {
		host.held++;
		for (i = 0; i < levels; i++)
			path[i]->held++;
	}
	spin_unlock(&lock);
	return free;
}

void weir_place_give(struct weir_branch *branch)
{
	spin_lock(&lock);
	host.held--;
	for (; branch; branch = branch->parent)
		branch->places.held--;
	spin_unlock(&lock);
}
