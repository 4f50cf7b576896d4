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
 *
 * Pages that io.max or a scheduler holds above the device are under writeback, too, and one
 * child's would fill the window of all its siblings.  They are known by being overtaken: what
 * others submitted later is written before them (weir_window_pace()).  No clock says so: on a
 * device that is slow or hangs, nothing is overtaken.  Flushers below a window are of three
 * kinds, and for each another sum has to leave room for a part (weir_window_taken()):
 *
 *   held     its pages were overtaken: what held flushers have in flight.  With nothing in
 *            flight, as unknown: each has a part, and so goes on as fast as io.max lets it
 *   unknown  nothing is known of it: all that is in flight but two W of the held
 *   moves    its pages are written as soon as those before them: the same, or what moves
 *            and half a window, whichever is less; and nothing while nothing moves
 *
 * The last is so that pages that are held, but not known to be yet, do not stop what would
 * overtake them.  When pages of one that moved are late, the device may stand still, and each
 * child of a tenant's would have half a window in turn.  So one at a time tries that, and each
 * later than the last; after three, none does until pages are in time again (note_late()).
 * In stall.sh, of 64 children, 3.25 windows are under writeback then.  Pages that were held above
 * the device reach it once, as io.max is lifted, and count as any other pages do when they are
 * seen to be written.
 *
 * Example.  A child may write 8 KiB/s, and has 16 of 64 pages in flight.  Its sibling has the
 * other 48 until 2 * 48 + 16 pages of it are written, after 28 ms, then all 64.
 */
#include "policy.h"

/* In pages. */
#define WINDOW_PART_LEAST	(1ULL << (16 - WEIR_PAGE_SHIFT))
#define WINDOW_PART_MOST	(8ULL << (20 - WEIR_PAGE_SHIFT))
#define WINDOW_LARGE		(2ULL << (20 - WEIR_PAGE_SHIFT))
#define WINDOW_SLEEP_LEAST_NS	200000ULL
#define WINDOW_SLEEP_MOST_NS	10000000ULL
#define WINDOW_RATE_NS		1000000000ULL
/* The least time that any flusher's pages took counts for so long. */
#define WINDOW_LEAST_MS		1000ULL
/* Windows of held pages that take no room. */
#define WINDOW_HELD		2ULL
/* Times that a device which stands still is tried, each after twice as many ticks. */
#define WINDOW_TRIES		3ULL
/* Looks at others are so old, and no time is known better. */
#define WINDOW_TICK_MS		4ULL

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

/* Begin anew to watch: what is in flight now is due before what others submit from now on. */
static void set_mark(struct weir_window_mark *mark, const struct weir_window_progress *now)
{
	mark->submitted = now->written + now->in_flight;
	mark->in_flight = now->in_flight;
	/* disks, and their schedulers, take requests out of order: once again as much */
	mark->others = now->others_written + 2 * now->others_in_flight + WINDOW_PART_LEAST;
	mark->parts = (now->in_flight + now->others_in_flight) / WINDOW_PART_LEAST + 1;
	mark->ms = now->ms;
}

/* A part, of a flusher's pages and those that may stand before them, took @ms.  Keeps the least. */
static void note_least(struct weir_window_device *device, weir_u64 ms, weir_u64 now_ms)
{
	if (ms > device->least_ms && now_ms - device->since_ms < WINDOW_LEAST_MS)
		return;
	device->least_ms = ms;
	device->since_ms = now_ms;
}

/* Pages of one that moved are late: the device may stand still.  Each time it is tried later. */
static void note_late(struct weir_window_device *device, weir_u64 now_ms)
{
	device->late_ms = now_ms;
	if (device->stands <= WINDOW_TRIES)
		device->stands++;
}

/*
 * Note how far a flusher's pages, and those of all others on the device, have come; @mark and
 * @device are all 0 at first.  Returns how its pages get on.  A wb whose inodes go to another
 * loses what they have in flight, so one with nothing in flight has passed its mark.  One that
 * moved is unknown while it may not try a device that stands still.
 */
enum weir_pace weir_window_pace(struct weir_window_mark *mark, struct weir_window_device *device,
				const struct weir_window_progress *now)
{
	/* a difference: the count may have begun below 0 */
	int is_overtaken = (weir_s64)(now->others_written - mark->others) > 0;
	int has_passed = !now->in_flight || now->written >= mark->submitted;
	weir_u64 ms = now->ms - mark->ms;
	int is_late;

	is_late = ms > mark->parts * (2 * device->least_ms + WINDOW_TICK_MS) + WINDOW_TICK_MS;
	if (has_passed && mark->in_flight)
		note_least(device, ms / mark->parts, now->ms);
	if (!has_passed && is_overtaken) {
		mark->pace = WEIR_PACE_HELD;
	} else if (has_passed && mark->in_flight && !is_overtaken) {
		mark->pace = is_late ? WEIR_PACE_UNKNOWN : WEIR_PACE_MOVES;
		if (!is_late)
			device->stands = 0;
	} else if (!has_passed && is_late && mark->pace == WEIR_PACE_MOVES) {
		mark->pace = WEIR_PACE_UNKNOWN;
		note_late(device, now->ms);
	}
	if (has_passed)
		set_mark(mark, now);
	/* one at a time tries whether a device that stood still moves again */
	if (!now->in_flight && mark->pace == WEIR_PACE_MOVES && device->stands &&
	    (now->moving || device->stands > WINDOW_TRIES ||
	     now->ms - device->late_ms < WINDOW_TICK_MS << device->stands))
		return WEIR_PACE_UNKNOWN;
	return (enum weir_pace)mark->pace;
}

/*
 * Pages in flight that count against a window of @window pages for a flusher of @pace with @own
 * in flight.  Below the window there are @all, @moving of these move and @held are held.
 */
weir_u64 weir_window_taken(weir_u64 window, enum weir_pace pace, weir_u64 own, weir_u64 all,
			   weir_u64 moving, weir_u64 held)
{
	weir_u64 taken = all - weir_least(held, WINDOW_HELD * window);

	if (pace == WEIR_PACE_HELD && own)
		return held;
	if (pace != WEIR_PACE_MOVES)
		return taken;
	return moving ? weir_least(taken, moving + window / 2) : 0;
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
