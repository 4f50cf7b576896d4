// SPDX-License-Identifier: GPL-2.0-only
/*
 * Seconds of drain, found by looking: drain_seconds = auto.
 *
 * Model.  A lifted limit (drain.c) helps where sleeping writers do not speed the drain
 * up, and where there is memory for it.  On a disk that is itself the bottleneck it only
 * makes what is dirty more, and all that waits for the disk waits longer.  On a host
 * without room page cache fills memory, tasks reclaim for themselves, the lift ends, and
 * writers have a third of the drain until the pool is small again: worse than no lift.
 *
 * The flusher is the bottleneck while it never sleeps: each queue below it, of requests,
 * of a device mapper, of a journal, takes what it is given.  A disk's own figures do not
 * tell: one that does many requests at a time counts as busy with one.  So in each beat
 * with more dirty than the background level flushers are looked at, and of the last ten
 * seconds of such beats
 *   bound	a flusher ran in 80 %, and one waited in 10 % at the most, and less than
 *		half of what is dirty is under writeback: completions wait for submissions.
 *		(Where others submit for the flusher, as a cipher's workers, it hands over
 *		all at once and sleeps, and most is under writeback.)
 *   not bound	a flusher waited in 30 %, or ran in less than half
 *   between	as before
 * Idle beats say nothing: what was found stays for the next burst.
 *
 * Room.  35 seconds are wanted, little more than the 30 after which the kernel writes back
 * what lies: so sync has hardly more to write than on a calm host.  They may take two fifths
 * of memory that can be dirty, and of what is available; for less than 20 nothing is lifted, nor if freerun
 * is not a 16th more than the kernel's.  If memory gets scarce while more is dirty than
 * the kernel lets run free, there is no lift for ten minutes.
 *
 * Example.  384 GB, dirtyable 77, background 7.7, freerun 11.6; the flusher never sleeps
 * and drains 0.58 GB/s: 35 s are 20.3 GB, less than 30.8.  With 128 GB, dirtyable 25.6:
 * 10.2 GB are 17 s, and nothing is lifted.  With 1 TB freerun is at 31 GB as it is.
 */
#include "headroom.h"

#define WINDOW_MS	10000ULL
#define TRUSTED_MS	3000ULL
#define REST_MS		600000ULL
#define SECONDS_LEAST	20ULL
#define SECONDS_MOST	35ULL

/* @average of @seen_ms, with @now for another @elapsed_ms. */
static weir_u64 weighted_average(weir_u64 average, weir_u64 now, weir_u64 elapsed_ms,
				 weir_u64 seen_ms)
{
	return (average * (seen_ms - elapsed_ms) + now * elapsed_ms) / seen_ms;
}

static weir_u64 held_pages(const struct weir_drain_beat *beat)
{
	return weir_saturate(weir_saturate(beat->dirty) +
			     weir_saturate(beat->writeback));
}

static weir_u64 stock_freerun(const struct weir_drain_beat *beat)
{
	weir_u64 thresh = weir_saturate(beat->thresh);

	return weir_freerun_level(thresh, weir_least(beat->bg_thresh, thresh));
}

/* Take in what flushers did, if there was anything to do. */
static void look_at_flushers(struct weir_headroom *headroom,
			     const struct weir_drain_beat *beat,
			     const struct weir_headroom_look *look)
{
	weir_u64 elapsed_ms = weir_least(beat->elapsed_ms, WINDOW_MS);

	if (!elapsed_ms || held_pages(beat) <= weir_least(beat->bg_thresh, beat->thresh))
		return;
	headroom->seen_ms = weir_least(weir_add(headroom->seen_ms, elapsed_ms), WINDOW_MS);
	headroom->ran = weighted_average(headroom->ran, look->ran ? 1000 : 0, elapsed_ms,
					 headroom->seen_ms);
	headroom->waited = weighted_average(headroom->waited, look->waited ? 1000 : 0,
					    elapsed_ms, headroom->seen_ms);
}

static int is_bound(const struct weir_headroom *headroom,
		    const struct weir_drain_beat *beat)
{
	if (headroom->seen_ms < TRUSTED_MS)
		return 0;
	if (headroom->seconds)
		return headroom->ran >= 500 && headroom->waited < 300;
	return headroom->ran >= 800 && headroom->waited <= 100 &&
	       weir_saturate(beat->writeback) <= weir_saturate(beat->dirty);
}

/* Seconds that there is room for, 0 if for too few or if they would not help. */
static weir_u64 seconds_with_room(const struct weir_drain *drain,
				  const struct weir_drain_beat *beat,
				  const struct weir_headroom_look *look)
{
	weir_u64 most = weir_share(weir_least(beat->dirtyable, look->available), 2, 5);
	weir_u64 freerun = stock_freerun(beat);
	weir_u64 seconds;

	if (!drain->rate || !drain->seen_ms)
		return 0;
	seconds = weir_least(most / drain->rate, SECONDS_MOST);
	if (seconds < SECONDS_LEAST ||
	    weir_saturate(seconds * drain->rate) < freerun + freerun / 16)
		return 0;
	return seconds;
}

/* drain_seconds for this beat, which weir_drain_step() is to be called with. */
weir_u64 weir_headroom_step(struct weir_headroom *headroom,
			    const struct weir_drain *drain,
			    const struct weir_drain_beat *beat,
			    const struct weir_headroom_look *look)
{
	weir_u64 elapsed_ms = weir_least(beat->elapsed_ms, REST_MS);

	look_at_flushers(headroom, beat, look);
	headroom->rest_ms -= weir_least(headroom->rest_ms, elapsed_ms);
	if (headroom->seconds && drain->calm_ms < WEIR_DRAIN_CALM_MS &&
	    held_pages(beat) > stock_freerun(beat))
		headroom->rest_ms = REST_MS;
	headroom->seconds = !headroom->rest_ms && is_bound(headroom, beat) ?
				    seconds_with_room(drain, beat, look) : 0;
	return headroom->seconds;
}
