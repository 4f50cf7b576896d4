// SPDX-License-Identifier: GPL-2.0-only
/*
 * Seconds of drain: dirty limits by what the disks can write back, not by a
 * percentage of memory.
 *
 * Model.  Linux makes writers sleep above freerun = (background + limit) / 2, a
 * level that knows nothing about how fast what is dirty goes away.  Where the
 * flusher and not the disk is the bottleneck, sleeping writers do not help it:
 * they wait at a wall that protects no task while memory is plentiful.  Here
 * freerun is put where the disks need T seconds for what is dirty:
 *
 *   limit = 2 x T x drain - background        so that freerun = T x drain
 *
 * but no higher than 60 % of dirtyable memory: reclaim keeps 40 % of it to take
 * at once; and never below the kernel's own limit.
 *
 * Tightened, it is the limit itself, and below the kernel's own, too:
 *
 *   limit = 3/4 x T x drain
 *
 * What is dirty at any moment is on disk T seconds later.  A sync has that to
 * write, and what becomes dirty meanwhile: 2 x T (kmod/sync.c).  The quarter is for
 * the journal's commit, which queues behind data, and for what drain is off by.
 *
 * Drain is pages whose writeback was *completed*, on the whole host, counted
 * only while there is more dirty than the background level or writers are
 * throttled, because only then do disks write as fast as they can; an idle host
 * is not a slow one.  ext4 completes all that one call has submitted at once, seconds
 * of a slow disk's work: so beats without any are added to the next with, and what
 * was in flight when disks were last busy counts, too.  It is averaged over ten
 * seconds, and trusted after two.  (A device's own bandwidth estimate begins with
 * a guess of 100 MB/s, once per cgroup.)  Until then nothing is lifted; tightened, the
 * least there is is allowed, so that the first flood is bounded as later ones are: a
 * fast disk is busy at once with that, and known two seconds later.  A cgroup may hold
 * as much (drain_limits.c): with its portion of it, its writers would sleep at a level
 * at which the host is not busy, and the drain would never be known.
 *
 * Down.  What is withdrawn is withdrawn at once as far as it is not held; from
 * there the limit stays a 32nd above what is dirty and follows that down.  The
 * kernel's control then lets writers have about a third of the drain, the rest
 * shrinks the debt: no writer finds itself far above a limit and stopped.  Up
 * it goes in one step.
 *
 * Scarce memory takes the lift away, for as long as any of these is seen and ten
 * seconds more:
 *   - a task reclaims for itself (direct reclaim)
 *   - kswapd takes less than half of what it looks at
 *   - kswapd works while dirtyable memory shrinks: something other than page
 *     cache is growing.  kswapd alone is no sign: a host whose memory is full
 *     of page cache has it turn over clean pages all day
 *   - tasks stall on memory (PSI "some") for 20 % of the time.  One of 96 that fill page
 *     cache faster than kswapd turns it over stalls for 5 to 9 %, with little dirty and all
 *     that kswapd looks at taken (docs/experiments/0050-seconds-found-by-looking.md)
 *
 * Example.  Dirtyable 77 GB, background 7.7, limit 15.5, so freerun 11.6 GB; the
 * flusher completes 578 MB/s.  T = 30: freerun 17.3, limit 2 x 17.3 - 7.7 = 27.0
 * GB, below 60 % = 46 GB.  With 16 GB dirty memory becomes scarce: the limit
 * is 16.5 GB at the next beat, and 15.5 some seconds later, when 15 are dirty.
 */
#include "policy.h"

#define WINDOW_MS	10000ULL
#define TRUSTED_MS	2000ULL
/* Beats without completions count for no longer than that. */
#define SILENT_MS	60000ULL
/* Dirtyable memory is compared with itself about this long ago. */
#define TREND_MS	2000ULL
#define STALL_PERCENT	20

/* @from moved towards @to by num / den of the way. */
static weir_u64 move_towards(weir_u64 from, weir_u64 to, weir_u64 num, weir_u64 den)
{
	return to > from ? from + weir_share(to - from, num, den) :
			   from - weir_share(from - to, num, den);
}

static weir_u64 pages_held(const struct weir_drain_beat *beat)
{
	return weir_saturate(weir_saturate(beat->dirty) +
			     weir_saturate(beat->writeback));
}

/*
 * Non-zero if the disks write as fast as they can.  Flushers go on while there is more
 * dirty than background; and where writers are throttled, all that is not in
 * writeback may be less than that, because so much is.
 *
 * Both are of one moment, and writers may be held elsewhere: by their cgroup's limit, or
 * where little is allowed by pauses that are longer than disks take for it.  So are
 * disks that in one beat write more than a tightened limit lets be dirty: it is meant
 * to take them 3/4 s at least, so this never makes them slower than they were known for.
 */
static int disks_are_busy(const struct weir_drain *drain,
			  const struct weir_drain_beat *beat)
{
	weir_u64 written = weir_saturate(beat->written);
	struct weir_limits limits = {
		.thresh = weir_saturate(beat->thresh),
		.bg_thresh = weir_saturate(beat->bg_thresh),
	};

	if (drain->limit && drain->limit < limits.thresh &&
	    written > drain->limit &&
	    written * WEIR_BEAT_MS > drain->limit * beat->elapsed_ms)
		return 1;
	weir_drain_amend(&limits, drain->limit, limits.thresh);
	return beat->dirty > limits.bg_thresh ||
	       pages_held(beat) > weir_freerun_level(limits.thresh, limits.bg_thresh);
}

/* Learn from one beat how fast the disks drain. */
static void measure_rate(struct weir_drain *drain, const struct weir_drain_beat *beat)
{
	weir_u64 elapsed_ms = weir_add(beat->elapsed_ms, drain->silent_ms);
	weir_u64 written = weir_saturate(beat->written);
	weir_u64 in_flight = drain->in_flight;
	int is_busy = disks_are_busy(drain, beat);
	weir_u64 rate;

	drain->silent_ms = 0;
	drain->in_flight = is_busy ? weir_saturate(beat->writeback) :
			   in_flight > written ? in_flight - written : 0;
	if ((!is_busy && !in_flight) || !beat->elapsed_ms ||
	    beat->elapsed_ms > WINDOW_MS)
		return;
	/* a device that has stopped does not make the others slow */
	if (!written) {
		drain->silent_ms = elapsed_ms < SILENT_MS ? elapsed_ms : 0;
		return;
	}
	/* nor does what an idle host writes beside pages of a server that has gone */
	if (!is_busy && written < in_flight / 2) {
		drain->in_flight = 0;
		return;
	}
	rate = weir_saturate(written * 1000 / elapsed_ms);
	elapsed_ms = weir_least(elapsed_ms, WINDOW_MS);
	drain->seen_ms = weir_least(drain->seen_ms + elapsed_ms, WINDOW_MS);
	drain->rate = move_towards(drain->rate, rate, elapsed_ms, drain->seen_ms);
}

/* Follows dirtyable memory; non-zero if this beat shows that memory is scarce. */
static int update_scarcity(struct weir_drain *drain, const struct weir_drain_beat *beat)
{
	weir_u64 before = drain->dirtyable;
	weir_u64 now = weir_saturate(beat->dirtyable);

	drain->dirtyable = now >= before ? now :
		move_towards(before, now, beat->elapsed_ms, TREND_MS);
	if (beat->direct_scanned || beat->memory_stall_percent >= STALL_PERCENT)
		return 1;
	if (!beat->kswapd_scanned)
		return 0;
	return now < before - before / 64 ||
	       (beat->kswapd_scanned > now / 4096 &&
		beat->kswapd_taken < beat->kswapd_scanned / 2);
}

/*
 * The limit that the disks' rate alone calls for, before it is approached step by step.
 */
static weir_u64 target_limit(const struct weir_drain *drain,
			     const struct weir_drain_beat *beat)
{
	weir_u64 most = weir_share(beat->dirtyable,
				   WEIR_DRAIN_PERCENT_OF_DIRTYABLE, 100);
	weir_u64 thresh = weir_saturate(beat->thresh);
	weir_u64 bg_thresh = weir_least(beat->bg_thresh, thresh);
	weir_u64 freerun = weir_freerun_level(thresh, bg_thresh);
	int is_known = drain->seen_ms >= TRUSTED_MS;
	weir_u64 drained = weir_saturate((is_known ? drain->rate : 0) *
				weir_least(beat->seconds, WEIR_DRAIN_SECONDS_MAX));
	weir_u64 tight = drained - drained / 4;
	weir_u64 limit;

	if (!beat->seconds)
		return thresh;
	if (beat->tighten && tight < thresh)
		return tight > WEIR_DRAIN_LEAST ? tight :
						  weir_least(WEIR_DRAIN_LEAST, thresh);
	if (!is_known || drained < freerun || drain->calm_ms < WEIR_DRAIN_CALM_MS)
		return thresh;
	limit = weir_least(beat->tighten ? tight : 2 * drained - bg_thresh, most);
	return limit > thresh ? limit : thresh;
}

/* Take one beat's figures in; afterwards @drain->limit is what is in force. */
void weir_drain_step(struct weir_drain *drain,
		     const struct weir_drain_beat *beat)
{
	weir_u64 thresh = weir_saturate(beat->thresh);
	weir_u64 below = pages_held(beat);
	weir_u64 limit, target;

	measure_rate(drain, beat);
	if (update_scarcity(drain, beat))
		drain->calm_ms = 0;
	else
		drain->calm_ms = weir_least(drain->calm_ms +
				       weir_least(beat->elapsed_ms, WEIR_DRAIN_CALM_MS), WEIR_DRAIN_CALM_MS);
	target = target_limit(drain, beat);
	limit = weir_least(drain->limit ? drain->limit : thresh,
			   weir_saturate(below + below / 32 + 1));
	if (limit < target)
		limit = target;
	drain->limit = limit == thresh ? 0 : limit;
}

/* As if nothing had been seen, and memory were plentiful. */
void weir_drain_start(struct weir_drain *drain)
{
	*drain = (struct weir_drain) { .calm_ms = WEIR_DRAIN_CALM_MS };
}
