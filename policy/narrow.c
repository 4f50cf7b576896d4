// SPDX-License-Identifier: GPL-2.0-only
/*
 * Windows for an objective: what others have under writeback is what an fsync or a
 * read stands behind, so that is bounded first, and their dirty pages only if it does
 * not do.
 *
 * Model.  A wait at a disk is about as long as the disk takes for what is in flight.  A
 * read waits once.  An fsync waits three times on a filesystem with a journal: for its
 * data, for the log, and for the record that commits it, each of which goes to the disk
 * when the one before is back.  So the first window is a good guess, with W for one wait
 * that the bound allows:
 *
 *   window = 3/4 x rate x W, in parts (window.c), and no less than two: while a flusher
 *	      is woken for the one, the disk has the other
 *
 * Strategy.  A window is judged once it is in effect: what was in flight before it was
 * set is written, and for four seconds after it was set at the most, since what a window
 * does not hold, as the others' own fsyncs, is counted, too.  Only waits that began
 * after that count, for two seconds at least: one long wait is no percentile.
 *   broken	the window was too wide: it is noted as the wall, and cut to what would
 *		have made 3/4 of the bound, if waits are as long as what is in flight; to
 *		no less than a quarter at a time
 *   5/8 of the bound or less, for five seconds in which it was filled: a quarter more, or
 *		twice as much at a quarter of the bound; up to 3/4 of the wall.  If the
 *		others write no more with it than before, by a 128th, it is the wall, and
 *		the window as it was: what gives the disk nothing only makes waits longer
 *   between, or the window is not filled: nothing changes
 * After five minutes measured without a break the wall is a quarter wider.  After a
 * minute in which nothing was measured there is no window.
 *
 * The least window may not do: waits are for something else then, as for the journal
 * that has to write the others' pages first.  So it is spent, and ceilings begin
 * (objective.c).  It stays as it is while they are in force, so that they are given back
 * first.  After ten minutes with the least window and a broken bound there is none for
 * ten minutes.
 *
 * Example.  A flood on a disk that writes 4,096 pages a second, bound 30 ms, so W is 10 ms.
 * fsync takes 1,000 ms: the window is 32 pages.  Two seconds later the 2,048 that were in
 * the disk's queue are written, and fsync takes 17 ms.  After five seconds the window is 48
 * pages; the disk writes as much as with 32, so it is 32 again, and the wall 48.  Had fsync
 * taken 40 ms, the wall were 32 and the window 18.
 */
#include "narrow.h"

/*
 * Pages that were in flight before the window was set are written by then, or are such
 * as no window holds.
 */
#define LATE_MS		4000ULL
#define SETTLE_MS	2000ULL
/* No cut leaves less than this part. */
#define DEEPEST		4ULL
#define ROOM_MS		5000ULL
#define FORGET_MS	300000ULL
#define IDLE_MS		60000ULL
#define VAIN_MS		600000ULL
#define VALUES_MS	10000ULL
#define US_PER_S	1000000ULL
#define MS_PER_S	1000ULL
/* In pages: the least part that a flusher submits. */
#define PART		(1ULL << (16 - WEIR_PAGE_SHIFT))
/* A rate that is higher by less than this part is the same. */
#define SAME		128ULL
/* The first window is no more than the disk writes in this time. */
#define WAIT_US_MOST	US_PER_S

static void set_window(struct weir_narrow *narrow, weir_u64 window)
{
	narrow->window = window;
	narrow->set_ms = 0;
	narrow->held_ms = 0;
	narrow->used_ms = 0;
	narrow->wrote = 0;
	narrow->narrower = 0;
}

/* Whole parts: what is less than one is of no use. */
static weir_u64 in_parts(weir_u64 window)
{
	return weir_saturate(window + PART - 1) / PART * PART;
}

static weir_u64 below_wall(const struct weir_narrow *narrow)
{
	if (narrow->wall == WEIR_UNLIMITED)
		return WEIR_UNLIMITED;
	return weir_share(narrow->wall, 3, 4);
}

/* The first window. */
static void set_first_window(struct weir_narrow *narrow, const struct weir_narrow_look *look)
{
	weir_u64 window = weir_share(look->written,
				     weir_least(look->wait_us, WAIT_US_MOST), US_PER_S);

	/* They write nothing, so the break is not theirs. */
	if (!look->written)
		return;
	window = weir_most(in_parts(weir_share(window, 3, 4)), 2 * PART);
	window = weir_least(window, below_wall(narrow));
	set_window(narrow, weir_most(window, weir_saturate(look->least)));
	narrow->vain_ms = 0;
	narrow->idle_ms = 0;
}

static void cut_window(struct weir_narrow *narrow, const struct weir_narrow_look *look)
{
	weir_u64 before = weir_saturate(narrow->window);
	weir_u64 window = weir_share(weir_share(before, 3, 4), look->bound,
				     weir_most(look->value, 1));

	window = weir_most(window, before / DEEPEST);
	window = weir_most(window, weir_saturate(look->least));
	narrow->wall = before;
	if (window < before)
		set_window(narrow, window);
}

/* Pages that the others wrote in a second in which they filled the window. */
static weir_u64 rate_filled(const struct weir_narrow *narrow)
{
	return weir_share(weir_saturate(narrow->wrote), MS_PER_S,
			  weir_most(weir_saturate(narrow->used_ms), 1));
}

static void widen_window(struct weir_narrow *narrow, const struct weir_narrow_look *look)
{
	weir_u64 before = weir_saturate(narrow->window);
	weir_u64 more = look->value <= look->bound / 4 ? before : before / 4 + 1;
	weir_u64 window = weir_least(before + more, 2 * before);
	weir_u64 rate = rate_filled(narrow);

	window = weir_least(weir_least(in_parts(window), 2 * before), below_wall(narrow));
	/* As much as that is no trial. */
	if (window <= before + before / 8)
		return;
	set_window(narrow, weir_saturate(window));
	narrow->narrower = before;
	narrow->slower = rate;
}

/* Undoes a widening with which the others write no more; non-zero if it did. */
static int undo_vain_widening(struct weir_narrow *narrow, const struct weir_narrow_look *look)
{
	weir_u64 before = weir_saturate(narrow->window);
	weir_u64 window = weir_least(weir_saturate(narrow->narrower), before);
	weir_u64 slower = weir_saturate(narrow->slower);

	if (!window || rate_filled(narrow) >= slower + slower / SAME) {
		narrow->narrower = 0;
		return 0;
	}
	window = weir_most(window, before / DEEPEST);
	window = weir_most(window, weir_saturate(look->least));
	narrow->wall = before;
	set_window(narrow, weir_least(window, before));
	return 1;
}

/* Do those that may be limited fill the window at least once a second? */
static int is_filled(const struct weir_narrow *narrow, const struct weir_narrow_look *look)
{
	return weir_saturate(look->written) >= weir_saturate(narrow->window);
}

static int is_broken(const struct weir_narrow_look *look)
{
	return look->measured && look->value > look->bound;
}

/* Counts the time in which the window has been in effect, and been filled. */
static void count_times(struct weir_narrow *narrow, const struct weir_narrow_look *look)
{
	weir_u64 window = weir_saturate(narrow->window);
	weir_u64 in_flight = weir_saturate(look->in_flight);
	int late;

	narrow->set_ms = weir_saturate(weir_add(narrow->set_ms, look->elapsed_ms));
	late = in_flight > window + window / 2 && narrow->set_ms < LATE_MS;
	narrow->held_ms = late ? 0 :
		weir_saturate(weir_add(narrow->held_ms, look->elapsed_ms));
	if (late || !is_filled(narrow, look)) {
		narrow->used_ms = 0;
		narrow->wrote = 0;
	} else {
		narrow->used_ms = weir_saturate(weir_add(narrow->used_ms, look->elapsed_ms));
		narrow->wrote = weir_saturate(weir_add(narrow->wrote, weir_share(
			look->written, weir_saturate(look->elapsed_ms), MS_PER_S)));
	}
	narrow->idle_ms = look->measured || late ? 0 :
		weir_saturate(weir_add(narrow->idle_ms, look->elapsed_ms));
}

/* Counts the time in which the bound has been kept.  A wall that is old is forgotten. */
static void count_calm(struct weir_narrow *narrow, const struct weir_narrow_look *look)
{
	if (is_broken(look))
		narrow->calm_ms = 0;
	else if (look->measured)
		narrow->calm_ms = weir_saturate(weir_add(narrow->calm_ms, look->elapsed_ms));
	if (narrow->wall == WEIR_UNLIMITED || narrow->calm_ms < FORGET_MS)
		return;
	narrow->wall = weir_saturate(narrow->wall);
	narrow->wall = weir_saturate(narrow->wall + narrow->wall / 4 + 1);
	narrow->calm_ms = 0;
}

/* Takes the window away for a while if it is of no use; non-zero if it did. */
static int rest_if_vain(struct weir_narrow *narrow, const struct weir_narrow_look *look)
{
	if (weir_narrow_is_spent(narrow, look))
		narrow->vain_ms = weir_saturate(weir_add(narrow->vain_ms, look->elapsed_ms));
	else if (narrow->calm_ms >= SETTLE_MS)
		narrow->vain_ms = 0;
	if (narrow->vain_ms >= VAIN_MS) {
		set_window(narrow, WEIR_UNLIMITED);
		narrow->vain_ms = 0;
		narrow->rest_ms = VAIN_MS;
		return 1;
	}
	if (narrow->idle_ms >= IDLE_MS) {
		set_window(narrow, WEIR_UNLIMITED);
		narrow->idle_ms = 0;
		return 1;
	}
	return 0;
}

/* Takes one look at @narrow's cgroup in and changes the window by it. */
void weir_narrow_step(struct weir_narrow *narrow, const struct weir_narrow_look *look)
{
	int broken = is_broken(look);
	int room = look->measured && look->value <= weir_share(look->bound, 5, 8);

	count_calm(narrow, look);
	if (narrow->window == WEIR_UNLIMITED) {
		narrow->rest_ms -= weir_least(narrow->rest_ms, look->elapsed_ms);
		if (broken && !narrow->rest_ms)
			set_first_window(narrow, look);
		return;
	}
	count_times(narrow, look);
	if (rest_if_vain(narrow, look) || look->frozen)
		return;
	if (broken && is_filled(narrow, look) && narrow->held_ms >= SETTLE_MS)
		cut_window(narrow, look);
	else if (weir_least(narrow->held_ms, narrow->used_ms) >= ROOM_MS &&
		 !undo_vain_widening(narrow, look) && room)
		widen_window(narrow, look);
}

/* Can a narrower window do nothing more for the bound?  Then something else has to. */
int weir_narrow_is_spent(const struct weir_narrow *narrow,
			 const struct weir_narrow_look *look)
{
	int is_least = weir_saturate(narrow->window) <= weir_saturate(look->least);

	if (narrow->window == WEIR_UNLIMITED)
		return narrow->rest_ms || !look->written;
	return is_broken(look) && narrow->held_ms >= SETTLE_MS &&
	       (is_least || !is_filled(narrow, look));
}

/* Waits that began longer ago do not count. */
weir_u64 weir_narrow_since_ms(const struct weir_narrow *narrow)
{
	if (narrow->window == WEIR_UNLIMITED)
		return VALUES_MS;
	return weir_least(narrow->held_ms, VALUES_MS);
}
