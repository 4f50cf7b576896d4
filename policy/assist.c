// SPDX-License-Identifier: GPL-2.0-only
/*
 * Assistants of a flusher, which start writeback where one flusher cannot feed the disk.
 *
 * Model.  The kernel has one flusher for each cgroup and disk, and writeback takes its CPU
 * time: for checksums, for a cipher, for a queue of dm or of RAID.  A disk that could write
 * more has nothing to write, while writers sleep for pages to be written.  Any task may
 * start writeback of a file (sync_file_range()), so some that do raise the drain by what
 * a CPU can submit, each.
 *
 * Strategy.  Time in which all who submit run, and none waits, shows that CPU time is what
 * is short: after three seconds of it there is one assistant more.  Where something else is
 * short (the disk, its queue, the journal, memory) submitters wait for that, and one more
 * would be one more to wait: after two seconds in which assistants ran for less than half
 * of the time there is one less, and none is added for ten seconds, or twice as long as the
 * time before, up to ten minutes.  A minute of full use begins with ten seconds again.  Where
 * the flusher has nothing to write for part of the time, nothing is short: they end without
 * a rest, so that a burst that comes after is assisted as soon as the first was.
 *
 * Example.  A flusher submits 8 MB/s and uses a CPU for it, the disk could write 20.  After
 * three seconds there is an assistant, and the drain is 16 MB/s; after six there are two.
 * Now the disk is what is short: all three run for 83 % of the time and wait for its queue
 * for the rest, so there is no third.
 */
#include "assist.h"

#define BOUND_MS	3000ULL
#define IDLE_MS		2000ULL
#define REST_LEAST_MS	10000ULL
#define REST_MOST_MS	600000ULL
#define FULL_MS		60000ULL
/* Permille of the time. */
#define RUNS		800
#define WAITS		100
#define IDLES		500

static void begin_rest(struct weir_assist *assist)
{
	weir_u64 longer = weir_saturate(assist->rested_ms) * 2;

	assist->rested_ms = longer < REST_LEAST_MS ? REST_LEAST_MS :
			    weir_least(longer, REST_MOST_MS);
	assist->rest_ms = assist->rested_ms;
}

/* Decides the number of threads that assist a flusher from now on. */
void weir_assist_step(struct weir_assist *assist,
		      const struct weir_assist_look *look)
{
	weir_u64 elapsed_ms = weir_least(look->elapsed_ms, BOUND_MS);
	int is_bound = look->flusher_ran >= RUNS && look->flusher_waited <= WAITS;

	assist->rest_ms -= weir_least(assist->rest_ms, elapsed_ms);
	if (assist->threads > look->most) {
		assist->threads = look->most;
		assist->bound_ms = 0;
	}
	if (assist->threads && look->ran < IDLES) {
		assist->bound_ms = 0;
		assist->idle_ms = weir_add(assist->idle_ms, elapsed_ms);
		if (assist->idle_ms >= IDLE_MS) {
			assist->threads--;
			assist->idle_ms = 0;
			if (weir_add(look->flusher_ran, look->flusher_waited) >= RUNS)
				begin_rest(assist);
		}
		return;
	}
	assist->idle_ms = 0;
	if (!is_bound || (assist->threads && look->ran < RUNS)) {
		assist->bound_ms = 0;
		return;
	}
	assist->bound_ms = weir_add(assist->bound_ms, elapsed_ms);
	if (assist->bound_ms >= FULL_MS)
		assist->rested_ms = 0;
	if (assist->bound_ms >= BOUND_MS && !assist->rest_ms &&
	    assist->threads < look->most) {
		assist->threads++;
		assist->bound_ms = 0;
	}
}
