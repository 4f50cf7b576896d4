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
 * half of it.  A budget is judged when it is in effect: none holds more any more,
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
 * not theirs, and none is limited for it.  After a minute in which nothing was
 * measured none is limited; the wall stays.
 *
 * Limits that do not help end.  Either the budget does not come into effect, since
 * one cgroup holds pages that no ceiling reaches; or it is as small as it gets, and
 * the waits are still half as long as without it or longer: the disk is slow, or the
 * cgroup whose objective it is makes its own waits.  After ten minutes of that none
 * is limited for ten minutes, the next time for twenty, up to 160.  So it is after forty
 * minutes with the smallest budget and a broken bound, whatever it helped: one long wait
 * at the beginning does not vouch for that for good.  Only a bound that is
 * kept for three seconds begins the count anew; else one dip in ten minutes would
 * keep the others limited for good.
 *
 * The budget is divided so that those who hold most are cut: all get one level, and
 * what some do not use of it others may hold.  No level is below a floor.
 *
 * A device's queue.  The same search finds how much a device may have in flight, where
 * dirty pages cannot be bounded or need not be: what is held is then what is in flight,
 * and takes no time to drain, so the first budget is a 16th of it.  Too little in flight
 * leaves a device idle between requests, which helps no cgroup, so the look says what
 * part of the rate is to be kept.  For every two seconds in which a budget is in use, and
 * was in the second before and is in the one after, what the device wrote is compared
 * with what it wrote before there was a budget; none is cut before that.  If it is less,
 * the budget grows by half, and the next two seconds say why: if the device writes no
 * more with the larger one, something else has slowed it down, and its rate is the
 * measure from now on; if it does, no budget comes within a quarter of the one that
 * starved it, whatever the bound.  After five minutes at the full rate that one is an
 * eighth smaller, since loads change.
 *
 * What a disk has in flight is its number of requests times their size.  An fsync waits
 * for the product, a read for a request to be free, which is sooner with smaller ones
 * (docs/experiments/0046-bounding-the-queue.md).  So requests become smaller at first,
 * down to 32 KiB, then fewer, down to the four that the kernel leaves a queue, then
 * smaller again, to 16 KiB.
 *
 * Example.  A flood holds 8,000 pages of a disk that writes 1,000 a second; bound
 * 10 ms.  fsync takes 800 ms: the budget is 500 pages.  8 s later they are written,
 * and fsync takes 8 ms: in the band, nothing changes.  Had it taken 25, the wall
 * were 500 and the budget 150; at 3 ms it would grow to 188 and on to 375, 3/4 of
 * the wall, and stay.  Two cgroups that hold 100 and 900 pages get a level of 275: the
 * first keeps its 100, the second is cut to 275.  A queue has 2,048 pages in flight, and
 * fsync takes 1,000 ms where 30 are allowed: the queue may have 128, fsync takes 100 ms;
 * then 28, and it takes 22.  If the device now writes 3,900 pages a second instead of
 * 4,096, of which 970 of a thousand are to be kept, it may have 43.
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
/* The first budget is no less than this part of the pages held. */
#define FIRST		16ULL
/* The kernel makes fewer requests these many. */
#define REQUESTS_LEAST	4ULL
/* Requests become fewer before they become smaller. */
#define REQUEST_KIB	32ULL
#define PAGE_KIB	4ULL
/* The device's rate is judged by so much. */
#define FED_MS		2000ULL
/* A rate that is higher by less than this part is the same. */
#define SAME		64ULL
/* Of fewer values than these none is passed over as an exception. */
#define FEW		20ULL

static weir_u64 below_wall(const struct weir_objective *objective)
{
	if (objective->wall == WEIR_UNLIMITED)
		return WEIR_UNLIMITED;
	return weir_share(objective->wall, 3, 4);
}

/* No budget is below: not by the look, nor as the device would starve. */
static weir_u64 least_budget(const struct weir_objective *objective,
			     const struct weir_objective_look *look)
{
	weir_u64 starved = weir_saturate(objective->starved);

	if (starved)
		starved = weir_saturate(starved + starved / 4 + 1);
	return weir_most(weir_saturate(look->least), starved);
}

/* A new budget is in effect when no cgroup holds more. */
static void set_budget(struct weir_objective *objective, weir_u64 budget)
{
	objective->budget = budget;
	objective->held_ms = 0;
	objective->fed_pages = 0;
	objective->fed_ms = 0;
	objective->late_pages = 0;
	objective->late_ms = 0;
	objective->kept_ms = 0;
}

/* The first budget. */
static void set_first_budget(struct weir_objective *objective,
			     const struct weir_objective_look *look)
{
	weir_u64 drained = weir_saturate(look->drained) * DRAIN_MS / MS_PER_S;
	weir_u64 budget = weir_saturate(look->held) / FIRST;

	/* Pages in flight go at once. */
	if (!look->kept)
		budget = weir_most(budget, drained);
	budget = weir_least(budget, weir_saturate(look->held) / 2);
	budget = weir_least(budget, below_wall(objective));
	budget = weir_most(budget, least_budget(objective, look));
	if (weir_saturate(look->held) <= budget)
		return;
	set_budget(objective, budget);
	objective->without = look->value;
	objective->full = weir_saturate(look->drained);
}

/* The limits are of no use: none for a while. */
static void begin_rest(struct weir_objective *objective)
{
	weir_u64 doubled = weir_least(objective->rested, DOUBLED);

	set_budget(objective, WEIR_UNLIMITED);
	objective->vain_ms = 0;
	objective->stuck_ms = 0;
	objective->rest_ms = VAIN_MS << doubled;
	objective->rested = doubled + 1;
	objective->starved = 0;
	objective->fed = 0;
}

/*
 * Counts the time in which limits have been in force that do not keep the bound.
 * @late: not in effect.
 */
static void count_vain(struct weir_objective *objective,
		       const struct weir_objective_look *look, int late)
{
	int settled = !late && objective->held_ms >= SETTLE_MS;
	int broken = look->measured && look->value > look->bound;
	int stuck = settled && broken &&
		    objective->budget <= least_budget(objective, look);
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

static void cut_budget(struct weir_objective *objective,
		       const struct weir_objective_look *look)
{
	weir_u64 before = weir_saturate(objective->budget);
	weir_u64 budget = weir_share(weir_share(before, 3, 4), look->bound,
				     weir_most(look->value, 1));

	budget = weir_most(budget, before / DEEPEST);
	budget = weir_most(budget, least_budget(objective, look));
	objective->wall = before;
	if (budget < before)
		set_budget(objective, budget);
}

/* A second that may have been cut short says nothing of the device. */
static void forget_second(struct weir_objective *objective)
{
	objective->late_pages = 0;
	objective->late_ms = 0;
}

/* Raises a budget that slows the device down; non-zero if it did. */
static int feed_device(struct weir_objective *objective,
		       const struct weir_objective_look *look, weir_u64 elapsed)
{
	weir_u64 before = weir_saturate(objective->budget);
	weir_u64 fed = objective->fed;
	weir_u64 rate;

	/* Nor does the first, which has some of what was before. */
	if (!look->kept || weir_least(objective->held_ms, objective->used_ms) <
			   weir_add(QUEUED_MS, elapsed)) {
		forget_second(objective);
		return 0;
	}
	objective->fed_pages = weir_saturate(
		weir_add(objective->fed_pages, objective->late_pages));
	objective->fed_ms = weir_saturate(
		weir_add(objective->fed_ms, objective->late_ms));
	objective->late_pages =
		weir_saturate(look->drained) * elapsed / MS_PER_S;
	objective->late_ms = elapsed;
	if (objective->fed_ms < FED_MS)
		return 0;
	rate = weir_saturate(objective->fed_pages) * MS_PER_S / objective->fed_ms;
	elapsed = objective->fed_ms;
	objective->fed_pages = 0;
	objective->fed_ms = 0;
	objective->fed = 0;
	if (rate >= weir_share(objective->full, look->kept, 1000)) {
		/* The rate before may have been that of a second with pauses. */
		if (rate > objective->full)
			objective->full += (rate - objective->full) / 4;
		objective->kept_ms =
			weir_saturate(weir_add(objective->kept_ms, elapsed));
		if (objective->kept_ms >= FORGET_MS) {
			objective->kept_ms = elapsed;
			objective->starved -= (objective->starved + 7) / 8;
		}
		return 0;
	}
	if (fed && rate <= fed + fed / SAME) {
		objective->full = rate;
		objective->starved = 0;
		objective->kept_ms = elapsed;
		return 0;
	}
	objective->starved = weir_most(objective->starved, before);
	set_budget(objective, weir_saturate(before + before / 2 + 1));
	objective->fed = rate;
	return 1;
}

static void grow_budget(struct weir_objective *objective)
{
	weir_u64 budget = weir_saturate(objective->budget);

	budget = weir_least(budget + budget / 4 + 1, below_wall(objective));
	if (budget > objective->budget)
		set_budget(objective, weir_saturate(budget));
}

/* Takes one look at @objective's cgroup in and changes the budget by it. */
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
			set_first_budget(objective, look);
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
		begin_rest(objective);
		return;
	}
	if (objective->idle_ms >= IDLE_MS) {
		set_budget(objective, WEIR_UNLIMITED);
		objective->idle_ms = 0;
		return;
	}
	if (late || held < budget / 2) {
		objective->used_ms = 0;
		forget_second(objective);
		return;
	}
	objective->used_ms = weir_saturate(weir_add(objective->used_ms, elapsed));
	if (feed_device(objective, look, elapsed))
		return;
	/* A budget has to be known to feed the device before there is a smaller one. */
	if (look->kept && !objective->kept_ms)
		return;
	if (broken && objective->held_ms >= (far ? FAR_MS : SETTLE_MS))
		cut_budget(objective, look);
	else if (room && weir_least(objective->held_ms, objective->used_ms) >= ROOM_MS)
		grow_budget(objective);
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
 * Narrows a disk's own @queue to @pages in flight, or a little less, but to no less than
 * WEIR_QUEUE_LEAST; 0 if it has no more anyhow.  Sizes are of whole pages: what is read back must be what was written.
 */
int weir_queue_narrow(struct weir_queue *queue, weir_u64 pages)
{
	weir_u64 own = weir_most(weir_saturate(queue->requests), 1);
	weir_u64 largest = weir_saturate(queue->kib);
	weir_u64 wanted = weir_saturate(pages) * PAGE_KIB;
	weir_u64 kib;

	if (wanted >= own * largest)
		return 0;
	wanted = weir_most(wanted, WEIR_QUEUE_LEAST * PAGE_KIB);
	kib = weir_least(weir_most(wanted / own, REQUEST_KIB), largest);
	kib = weir_most(kib / PAGE_KIB, 1) * PAGE_KIB;
	queue->requests = weir_least(weir_most(wanted / kib, REQUESTS_LEAST), own);
	kib = weir_most(wanted / queue->requests / PAGE_KIB, 1) * PAGE_KIB;
	queue->kib = weir_least(kib, largest);
	return 1;
}

/*
 * The number of @count values that may be beyond the bound: all but @per_mille
 * of a thousand must not.  One exception is no percentile, unless there are
 * hardly any values.
 */
weir_u64 weir_objective_spare(weir_u64 count, weir_u32 per_mille)
{
	weir_u64 others = per_mille < 1000 ? 1000 - per_mille : 0;

	count = weir_saturate(count);
	if (count < FEW)
		return 0;
	return weir_most(count * others / 1000, 1);
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
		largest = weir_most(largest, weir_saturate(held[i]));
	}
	if (sum <= budget)
		return weir_most(budget - sum + largest, weir_saturate(floor));
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
	return weir_most(level, weir_saturate(floor));
}
