// SPDX-License-Identifier: GPL-2.0-only
/*
 * Divisions: whose weights divide what.
 *
 * Model.  A weight is a statement about siblings, made by whoever owns their
 * parent.  So a cgroup, or the root, is a division if one of its children has a
 * weight other than the default.  A writer is paced only if its cgroup is in a
 * division, and the topmost one on its path is its scope: who competes, what
 * was cleaned and which hweights follow is counted among the scope's members.
 * The root's division is of the whole device.  One below it divides what its
 * members got together, whatever that is: outside of it nobody is paced, nor
 * counted.
 *
 * Strategy below the root.  What the members together may have is up to the
 * kernel, and it shows only while one of them takes all that the kernel gives.
 * So the member that is furthest behind its hweight is not held and does not
 * pay, and the others are held to what follows from their hweights of what all
 * got.  What a member
 * gets is what it dirties: over some seconds that is what its flusher cleans,
 * but a flusher turns to one wb for megabytes at a time.  Slowing a
 * member down gives its flusher's time to all other flushers, outside ones
 * included: a division never makes its members' sum larger.
 *
 * A member that does not take what the kernel gives must not slow the others.
 * The kernel's throttle tells: a writer that wants more sleeps in it, or in
 * weight's wait, nearly all of its time.  One that is blocked elsewhere, or
 * writes little, does not.  So below the root a member competes that was asleep
 * for a quarter of the last rounds, smoothed.  In the root's division the host's
 * level tells, as it sinks, and to have slept lately is enough.
 *
 * Example.  Weights 100 and 400 below one cgroup, four more cgroups outside, and
 * the kernel gives each flusher that has work 1,000 pages in a second.  The
 * second is behind and gets 1,000.  The first pays for a fifth of what both got:
 * 250.  Their sum was 2,000 and is 1,250: the device gives what the first leaves
 * to all five others.
 */
#include "policy.h"

#define US_PER_MS	1000ULL
/* Asleep for this part of a round: wants more than it gets. */
#define PRESSED_US	(WEIR_ROUND_MS * US_PER_MS / 4)

/* Does a member compete for the device? */
int weir_share_competes(const struct weir_contender *contender)
{
	if (contender->slept_ago_ms >= WEIR_COMPETES_MS)
		return 0;
	return !contender->nested || contender->asleep_us >= PRESSED_US;
}

/*
 * An amount per round, smoothed: it was @was, and came to @now in the last
 * @elapsed_ms.  A sixteenth of the way each time, 3 s: a writer that waits for
 * 200 ms at a time dirties nothing in one round and much in the next.
 */
weir_u64 weir_share_smooth(weir_u64 was, weir_u64 now, weir_u64 elapsed_ms)
{
	weir_u64 done = weir_saturate(weir_saturate(now) * WEIR_ROUND_MS /
				      (elapsed_ms ? elapsed_ms : 1));

	was = weir_saturate(was);
	return was ? (15 * was + done) / 16 : done;
}

/* The one that was behind stays it until another is by a quarter more. */
static weir_u64 standing(const struct weir_standing *member)
{
	weir_u64 got = weir_saturate(member->got);

	return member->behind ? got - got / 4 : got;
}

/* Is a member further behind its hweight than the other? */
int weir_share_is_behind(const struct weir_standing *one,
			 const struct weir_standing *other)
{
	return standing(one) * other->hweight < standing(other) * one->hweight;
}
