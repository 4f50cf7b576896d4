/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Saturating page arithmetic, for policy.h; see its note on units.
 *
 * Inline: a call costs as much as what these do several times over, and a pass makes
 * dozens.  arith.c has them as functions, for programs that cannot inline C.
 */
#ifndef WEIR_ARITH_H
#define WEIR_ARITH_H

#ifndef WEIR_ARITH
#define WEIR_ARITH	static inline
#endif

static inline weir_u64 weir_least(weir_u64 a, weir_u64 b)
{
	return a < b ? a : b;
}

static inline weir_u64 weir_most(weir_u64 a, weir_u64 b)
{
	return a > b ? a : b;
}

/* a - b, held at 0 instead of wrapping. */
static inline weir_u64 weir_sub(weir_u64 a, weir_u64 b)
{
	return a > b ? a - b : 0;
}

/* Limit a page count to what Linux itself can express as a dirty limit. */
WEIR_ARITH weir_u64 weir_saturate(weir_u64 pages)
{
	return pages < WEIR_PAGES_MAX ? pages : WEIR_PAGES_MAX;
}

/* a + b, held at the top instead of wrapping. */
WEIR_ARITH weir_u64 weir_add(weir_u64 a, weir_u64 b)
{
	return a + b < a ? WEIR_UNLIMITED : a + b;
}

/* A sum as a count: racing updates can make it briefly negative. */
WEIR_ARITH weir_u64 weir_subtree_pages(weir_s64 sum)
{
	return sum > 0 ? (weir_u64)sum : 0;
}

/* Whole pages in @bytes: rounded down, a knob never grants a page it did not name. */
WEIR_ARITH weir_u64 weir_bytes_to_pages(weir_u64 bytes)
{
	return bytes >> WEIR_PAGE_SHIFT;
}

/*
 * pages x num / den for num <= den, rounded down.  A @den of more than 32 bits
 * (a sum of many floors) costs its low bits; the result errs downwards.
 */
WEIR_ARITH weir_u64 weir_share(weir_u64 pages, weir_u64 num, weir_u64 den)
{
	pages = weir_saturate(pages);
	if (num >= den)
		return pages;
	while (den > WEIR_PAGES_MAX) {
		num >>= 1;
		den = (den >> 1) + (den & 1);
	}
	return pages * num / den;
}

/* The level below which no task of the domain is throttled. */
WEIR_ARITH weir_u64 weir_freerun_level(weir_u64 thresh, weir_u64 bg_thresh)
{
	return (weir_saturate(thresh) + weir_saturate(bg_thresh)) / 2;
}

/* The level that the throttle aims at: half way from freerun to @limit. */
WEIR_ARITH weir_u64 weir_setpoint_level(weir_u64 freerun, weir_u64 limit)
{
	return (weir_saturate(freerun) + weir_saturate(limit)) / 2;
}

#endif
