// SPDX-License-Identifier: GPL-2.0-only
/*
 * memory.writeback_bytes: what a cgroup's flushers have under writeback at once.
 *
 * A flusher submits as much as a disk's queue takes.  An fsync, a read or an umount of a
 * neighbour then waits for all of that: on a disk of 16 MB/s with 32 requests of 1 MiB,
 * for two seconds.  Under a window a flusher submits in parts, and the next part when
 * there is room for it.  What the cgroup has dirty, and when its writers are put to
 * sleep, stays as it was.
 *
 * The window W, in pages, holds for all flushers of a subtree on a device together.
 *
 *   part = max(W / 4, 16 pages), from 2 MiB on W / 2, and 8 MiB at most
 *
 * A part is a request of its own for the disk.  Small windows are cut into four, so
 * that the disk has work while the flusher is woken; from 2 MiB on half a window is as
 * large a request as most disks take.
 *
 * A flusher that finds no room sleeps for as long as it will take until there is room for a
 * part, at the rate at which its pages were written since it looked last:
 *
 *   sleep = (in flight + part - W) / rate / 2, of 0.2 to 10 ms
 *
 * Example.  W = 256 KiB, 64 pages, on a disk of 16 MB/s: parts of 16 pages, 4 ms apart,
 * and 48 pages, 12 ms of work, in flight when a flusher is woken.
 */
#include "policy.h"

/* In pages. */
#define WINDOW_PART_LEAST	(1ULL << (16 - WEIR_PAGE_SHIFT))
#define WINDOW_PART_MOST	(8ULL << (20 - WEIR_PAGE_SHIFT))
#define WINDOW_LARGE		(2ULL << (20 - WEIR_PAGE_SHIFT))
#define WINDOW_SLEEP_LEAST_NS	200000ULL
#define WINDOW_SLEEP_MOST_NS	10000000ULL
#define WINDOW_RATE_NS		1000000000ULL

/* Pages that a flusher submits at a time under a window of @window pages. */
weir_u64 weir_window_part(weir_u64 window)
{
	weir_u64 part = window < WINDOW_LARGE ? window / 4 : window / 2;

	if (part < WINDOW_PART_LEAST)
		return WINDOW_PART_LEAST;
	return part < WINDOW_PART_MOST ? part : WINDOW_PART_MOST;
}

/*
 * Pages that are to be written before there is room for a @part, with @in_flight of a
 * @window under writeback; 0 if there is room.  A window smaller than a part has room once
 * nothing is in flight.
 */
weir_u64 weir_part_excess(weir_u64 window, weir_u64 part, weir_u64 in_flight)
{
	weir_u64 least = window > part ? window - part : 0;

	return in_flight > least ? in_flight - least : 0;
}

/* The same, for a part as large as that window's are. */
weir_u64 weir_window_excess(weir_u64 window, weir_u64 in_flight)
{
	return weir_part_excess(window, weir_window_part(window), in_flight);
}

/*
 * For how long a flusher sleeps, in ns: half of the time that @excess pages take.  They come
 * a request at a time: a look that is early costs little, one that is late the disk's time.
 */
weir_u64 weir_window_sleep_ns(weir_u64 excess, const struct weir_window_rate *rate)
{
	weir_u64 pages = rate->pages ? rate->pages : 1;
	weir_u64 ns;

	if (excess > WEIR_PAGES_MAX)
		return WINDOW_SLEEP_MOST_NS;
	/* neither factor has more than 32 bits: weir_window_rate_note() */
	ns = excess * (rate->ns / pages) / 2;
	if (ns < WINDOW_SLEEP_LEAST_NS)
		return WINDOW_SLEEP_LEAST_NS;
	return ns < WINDOW_SLEEP_MOST_NS ? ns : WINDOW_SLEEP_MOST_NS;
}

/*
 * Note that @pages were written in @ns, while the flusher waited for them.  What is known is
 * of the last few parts: of more than four, or of more than a second, half is forgotten.
 */
void weir_window_rate_note(struct weir_window_rate *rate, weir_u64 pages, weir_u64 ns,
			   weir_u64 part)
{
	rate->pages = weir_least(rate->pages + pages, WEIR_PAGES_MAX);
	rate->ns = weir_least(rate->ns + ns, 4 * WINDOW_RATE_NS);
	while (rate->pages > 4 * part || rate->ns > WINDOW_RATE_NS) {
		rate->pages /= 2;
		rate->ns /= 2;
	}
}

/*
 * Of @places for flushers that sleep, what each of @asking cgroups side by side may have.  A
 * quarter is left for one that begins to ask, and one is for each.
 *
 * Example.  192 on a host with one disk: 144 there, 54 for each of two tenants that ask, 41 for
 * the one of the second's cgroups that does.
 */
weir_u32 weir_places_part(weir_u32 places, weir_u32 asking)
{
	weir_u32 part = places - places / 4;

	if (asking > 1)
		part /= asking;
	return part ? part : 1;
}
