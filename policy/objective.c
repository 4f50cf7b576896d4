// SPDX-License-Identifier: GPL-2.0-only
/*
 * Objectives: the least limit on others that keeps a cgroup's waits within a bound.
 *
 * Model.  A cgroup's fsync waits for the pages that others have put in front of the
 * disk and of the journal.  The fewer dirty pages they hold, the shorter it waits;
 * the fewer they hold, the less the disk has to choose from, and the sooner they
 * wait themselves.  What they all may hold together is the budget.  Where it has to
 * be depends on the disk, the filesystem and what else goes on, so it is searched:
 * measure, cut, measure, give back.
 *
 * Strategy.  Without a budget, the first time that the bound is broken makes one:
 * what those that may be limited drain in half a second, but not less than a 16th
 * of what they hold, since the drain of one second may be anything, nor more than
 * half of it.  A budget is judged when it is in effect: nobody holds more any more,
 * and then for three seconds.  Only waits that began a second after that count: what
 * was queued before is written by then.
 *   broken	the budget was too much: it is noted as the wall, and cut to what would
 *		have made 3/4 of the bound, if waits are as long as what is held; to
 *		no less than an 8th at a time.  By more than twice the bound: after
 *		two seconds already
 *   5/8 of the bound or less, for five seconds in which they held half of the budget
 *		(while a neighbour is away, short waits say nothing of it): a quarter
 *		more, up to 3/4 of the wall; so that a wait that grows with it stays
 *		below 4/5 of the bound
 *   between, or the budget is not used: nothing changes
 * So the budget comes to rest below the wall instead of running into it again and
 * again.  After five minutes measured without a break the wall is a quarter higher,
 * since disks and loads change.  If they hold less than half of the budget the break is
 * not theirs, and nobody is limited for it.  After a minute in which nothing was
 * measured nobody is limited; the wall stays.
 *
 * Limits that do not help end.  Either the budget does not come into effect, since
 * one cgroup holds pages that no ceiling reaches; or it is as small as it gets, and
 * the waits are still half as long as without it or longer: the disk is slow, or the
 * cgroup whose objective it is makes its own waits.  After ten minutes of that nobody
 * is limited for ten minutes, the next time for twenty, up to 160.  So it is after forty
 * minutes with the smallest budget and a broken bound, whatever it helped: one long wait
 * at the beginning does not vouch for that for good.  Only a bound that is
 * kept for three seconds begins the count anew; else one dip in ten minutes would
 * keep the others limited for good.
 *
 * The budget is divided so that those who hold most are cut: all get one level, and
 * what some do not use of it others may hold.  No level is below a floor.
 *
 * Example.  A flood holds 8,000 pages of a disk that writes 1,000 a second; bound
 * 10 ms.  fsync takes 800 ms: the budget is 500 pages.  8 s later they are written,
 * and fsync takes 8 ms: in the band, nothing changes.  Had it taken 25, the wall
 * were 500 and the budget 150; at 3 ms it would grow to 188 and on to 375, 3/4 of
 * the wall, and stay.  Two cgroups that hold 100 and 900 pages get a level of 275: the
 * first keeps its 100, the second is cut to 275.
 */
#include "objective.h"

#define DRAIN_MS	500ULL
#define QUEUED_MS	1000ULL
#define SETTLE_MS	3000ULL
/* A bound that is broken by more than this many times is broken for sure. */
#define FAR		2ULL
#define FAR_MS		2000ULL
/* No cut leaves less than this part. */
#define DEEPEST		8ULL
#define ROOM_MS		5000ULL
#define FORGET_MS	300000ULL
#define IDLE_MS		60000ULL
#define VAIN_MS		600000ULL
#define STUCK_MS	(4 * VAIN_MS)
/* Each rest is twice as long as the one before, so often. */
#define DOUBLED		4ULL
#define MS_PER_S	1000ULL
/* What is held is not cut to less than this part of it at first. */
#define FIRST		16ULL
/* Of fewer values than these none is passed over as an exception. */
#define FEW		20ULL

static weir_u64 most(weir_u64 a, weir_u64 b)
{
	return a > b ? a : b;
}

static weir_u64 below_wall(const struct weir_objective *objective)
{
	if (objective->wall == WEIR_UNLIMITED)
		return WEIR_UNLIMITED;
	return weir_share(objective->wall, 3, 4);
}

/* A new budget is in effect when nobody holds more. */
static void set(struct weir_objective *objective, weir_u64 budget)
{
	objective->budget = budget;
	objective->held_ms = 0;
}

/* The first budget. */
static void begin(struct weir_objective *objective,
		  const struct weir_objective_look *look)
{
	weir_u64 drained = weir_saturate(look->drained) * DRAIN_MS / MS_PER_S;
	weir_u64 budget = most(drained, weir_saturate(look->held) / FIRST);

	budget = weir_least(budget, weir_saturate(look->held) / 2);
	budget = weir_least(budget, below_wall(objective));
	budget = most(budget, weir_saturate(look->least));
	if (weir_saturate(look->held) <= budget)
		return;
	set(objective, budget);
	objective->without = look->value;
}

/* The limits are of no use: none for a while. */
static void rest(struct weir_objective *objective)
{
	weir_u64 doubled = weir_least(objective->rested, DOUBLED);

	set(objective, WEIR_UNLIMITED);
	objective->vain_ms = 0;
	objective->stuck_ms = 0;
	objective->rest_ms = VAIN_MS << doubled;
	objective->rested = doubled + 1;
}

/* How long have limits been in force that do not keep the bound?  @late: not in effect. */
static void count_vain(struct weir_objective *objective,
		       const struct weir_objective_look *look, int late)
{
	int settled = !late && objective->held_ms >= SETTLE_MS;
	int broken = look->measured && look->value > look->bound;
	int stuck = settled && broken && objective->budget <= weir_saturate(look->least);
	int helps = look->value < objective->without / 2;

	if (stuck)
		objective->stuck_ms = weir_saturate(
			weir_add(objective->stuck_ms, look->elapsed_ms));
	if (late || (stuck && !helps)) {
		objective->vain_ms = weir_saturate(
			weir_add(objective->vain_ms, look->elapsed_ms));
	} else if (settled && objective->calm_ms >= SETTLE_MS) {
		objective->vain_ms = 0;
		objective->stuck_ms = 0;
		objective->rested = 0;
	}
}

static void cut(struct weir_objective *objective,
		const struct weir_objective_look *look)
{
	weir_u64 before = weir_saturate(objective->budget);
	weir_u64 budget = weir_share(weir_share(before, 3, 4), look->bound,
				     most(look->value, 1));

	budget = most(budget, before / DEEPEST);
	budget = most(budget, weir_saturate(look->least));
	objective->wall = before;
	if (budget < before)
		set(objective, budget);
}

static void grow(struct weir_objective *objective)
{
	weir_u64 budget = weir_saturate(objective->budget);

	budget = weir_least(budget + budget / 4 + 1, below_wall(objective));
	if (budget > objective->budget)
		set(objective, weir_saturate(budget));
}

/* What the look at @objective's cgroup changes. */
void weir_objective_step(struct weir_objective *objective,
			 const struct weir_objective_look *look)
{
	weir_u64 held = weir_saturate(look->held);
	weir_u64 elapsed = weir_saturate(look->elapsed_ms);
	int broken = look->measured && look->value > look->bound;
	int room = look->measured && look->value <= weir_share(look->bound, 5, 8);
	int far = broken && look->value / FAR > look->bound;
	weir_u64 budget;
	int late;

	if (broken)
		objective->calm_ms = 0;
	else if (look->measured)
		objective->calm_ms =
			weir_saturate(weir_add(objective->calm_ms, elapsed));
	if (objective->wall != WEIR_UNLIMITED &&
	    objective->calm_ms >= FORGET_MS) {
		objective->wall = weir_saturate(objective->wall);
		objective->wall = weir_saturate(objective->wall +
						objective->wall / 4 + 1);
		objective->calm_ms = 0;
	}
	if (objective->budget == WEIR_UNLIMITED) {
		objective->rest_ms -= weir_least(objective->rest_ms, elapsed);
		if (broken && !objective->rest_ms)
			begin(objective, look);
		return;
	}
	budget = weir_saturate(objective->budget);
	late = held > budget + budget / 8;
	/* Nothing is measured that counts while it is late. */
	objective->idle_ms = look->measured || late ? 0 :
		weir_saturate(weir_add(objective->idle_ms, elapsed));
	objective->held_ms = late ? 0 :
		weir_saturate(weir_add(objective->held_ms, elapsed));
	count_vain(objective, look, late);
	if (objective->vain_ms >= VAIN_MS || objective->stuck_ms >= STUCK_MS) {
		rest(objective);
		return;
	}
	if (objective->idle_ms >= IDLE_MS) {
		set(objective, WEIR_UNLIMITED);
		objective->idle_ms = 0;
		return;
	}
	if (late || held < budget / 2) {
		objective->used_ms = 0;
		return;
	}
	objective->used_ms = weir_saturate(weir_add(objective->used_ms, elapsed));
	if (broken && objective->held_ms >= (far ? FAR_MS : SETTLE_MS))
		cut(objective, look);
	else if (room && weir_least(objective->held_ms, objective->used_ms) >= ROOM_MS)
		grow(objective);
}

/* Waits that began longer ago do not count. */
weir_u64 weir_objective_window_ms(const struct weir_objective *objective)
{
	if (objective->budget == WEIR_UNLIMITED)
		return WEIR_OBJECTIVE_WINDOW_MS;
	if (objective->held_ms < QUEUED_MS)
		return 0;
	return weir_least(objective->held_ms - QUEUED_MS, WEIR_OBJECTIVE_WINDOW_MS);
}

/*
 * How many of @count values may be beyond the bound: all but @per_mille of a thousand
 * must not.  One exception is no percentile, unless there are hardly any values.
 */
weir_u64 weir_objective_spare(weir_u64 count, weir_u32 per_mille)
{
	weir_u64 others = per_mille < 1000 ? 1000 - per_mille : 0;

	count = weir_saturate(count);
	if (count < FEW)
		return 0;
	return most(count * others / 1000, 1);
}

/*
 * The most that each of @count cgroups, which hold @held, may hold for all to stay
 * within @budget; not less than @floor.  Those that hold less than the level leave
 * the rest to the others.
 */
weir_u64 weir_objective_level(weir_u64 budget, weir_u64 floor,
			      const weir_u64 *held, weir_u64 count)
{
	weir_u64 level = 0, sharers, room, sum = 0, largest = 0;
	weir_u64 i;

	if (budget == WEIR_UNLIMITED || !count)
		return WEIR_UNLIMITED;
	budget = weir_saturate(budget);
	for (i = 0; i < count; i++) {
		sum = weir_add(sum, weir_saturate(held[i]));
		largest = most(largest, weir_saturate(held[i]));
	}
	if (sum <= budget)
		return most(budget - sum + largest, weir_saturate(floor));
	/* Each round leaves out more of those that do not need the level. */
	for (;;) {
		sharers = 0;
		room = budget;
		for (i = 0; i < count; i++) {
			if (weir_saturate(held[i]) > level)
				sharers++;
			else
				room -= weir_saturate(held[i]);
		}
		if (!sharers || room / sharers <= level)
			break;
		level = room / sharers;
	}
	return most(level, weir_saturate(floor));
}
