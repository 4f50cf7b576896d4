// SPDX-License-Identifier: GPL-2.0-only
//! What weights promise.

use super::*;

/// Siblings share what their parent has, in proportion and no more.
pub(super) fn check_hweights(weights: &[u16], parent: u32) {
    let (parent, weights) = (
        parent.clamp(1, HWEIGHT_ONE),
        weights.iter().map(|w| u32::from(*w).clamp(1, WEIGHT_MAX)),
    );
    let siblings: u64 = weights.clone().map(u64::from).sum();
    let parts: Vec<_> = weights
        .clone()
        .map(|weight| division::hweight(parent, weight, siblings))
        .collect();
    let total: u64 = parts.iter().copied().map(u64::from).sum();
    assert!(
        total <= u64::from(parent) + parts.len() as u64,
        "a hweight below the smallest is rounded up"
    );
    for (weight, part) in weights.zip(parts) {
        let exact = u64::from(parent) * u64::from(weight) / siblings;
        assert_eq!(u64::from(part), exact.max(1));
        let shown = u64::from(division::shown(part)) * u64::from(HWEIGHT_ONE);
        let exact = u64::from(part) * u64::from(division::HWEIGHT_SHOWN);
        assert!(
            shown.abs_diff(exact) <= u64::from(HWEIGHT_ONE) / 2,
            "rounded"
        );
    }
}

/// The flusher with the least virtual time waits for no pages of others, and no flusher for more
/// than its lead.
pub(super) fn check_order(vtime: u64, least: u64, pages: u64, hweight: u32, budget: u64) {
    // Sums of pages that no device writes in centuries.
    let (vtime, least, budget) = (vtime >> 2, least >> 2, budget.min(PAGES_MAX));
    // Virtual time of a page of the device.
    let unit = division::charge(0, 1, HWEIGHT_ONE);
    let lead = division::lead(vtime, least, budget);
    assert_eq!(
        lead,
        vtime.saturating_sub(least + unit * budget).div_ceil(unit)
    );
    assert!(lead == 0 || vtime > least, "the least waits for none");

    let later = division::charge(vtime, pages, hweight);
    let own = u64::from(hweight.clamp(1, HWEIGHT_ONE));
    assert!(
        hweight > HWEIGHT_ONE || later - vtime >= unit * pages.min(PAGES_MAX),
        "a page of the device at the least"
    );
    assert!(later - vtime <= unit * PAGES_MAX * u64::from(HWEIGHT_ONE));
    let lighter = division::charge(vtime, pages, (own / 2) as u32);
    assert!(lighter >= later, "less weight, no less virtual time");

    let joined = division::join(vtime, least, budget);
    assert!(joined >= vtime, "what it was ahead it keeps");
    assert!(joined <= vtime.max(least), "and is not put ahead");
    assert!(
        least - joined.min(least) <= 4 * unit * budget,
        "nor far behind"
    );
    assert!(vtime > 0 || joined >= least, "nor a new one at all");
}

/// Whatever is noted, a budget is no smaller than 256 KiB, falls slowly, lets a part through once
/// nothing is in flight, and has patience for 0.3 to 3.3 s, the longer the more is in flight.
pub(super) fn check_budget(mut budget: Budget, notes: &[(u64, u64, u64)], in_flight: u64) {
    for &(written, of_device, now_ns) in notes {
        let before = budget;
        budget.note(written, of_device, now_ns);
        if budget == before {
            continue;
        }
        assert!(budget.pages >= before.pages - before.pages / 8, "slowly");
        assert!(budget.own >= before.own - before.own / 8, "slowly");
        assert!(before.since_ns > 0 || budget.shared == 0);
    }
    assert!(budget.ahead() >= (budget.pages / 2).max(32));
    assert!((300..=3_300).contains(&budget.patience_ms(in_flight)));
    assert!(budget.patience_ms(in_flight / 2) <= budget.patience_ms(in_flight));
    assert_eq!(budget.excess(HWEIGHT_ONE, 0), 0);
    let excess = budget.excess(HWEIGHT_ONE, in_flight);
    assert!(excess <= in_flight);
    assert!(
        budget.shared == 0 || excess == 0,
        "only the order is kept then"
    );
}

/// Two flushers that always have something to write, on a device that writes what was submitted
/// first: each gets its part within 2 %, whichever of them looks first (`turns`, a bit each).
pub(super) fn check_fairness(weights: [u8; 2], pages_per_ms: u16, turns: u64) {
    let weights = weights.map(|weight| u32::from(weight).max(1));
    let siblings = weights.iter().copied().map(u64::from).sum();
    let hweights = weights.map(|weight| division::hweight(HWEIGHT_ONE, weight, siblings));
    let mut budget = Budget::default();
    budget.note(0, 0, 1);
    let second = u64::from(pages_per_ms) * 250;
    budget.note(second, second, 1 + 250_000_000);
    let part = window::part_pages(2 * budget.ahead());
    let (mut vtimes, mut submitted) = ([0; 2], [0u64; 2]);
    // Of the lighter one a hundred times what it may be ahead or behind.
    let least = u64::from(hweights[0].min(hweights[1]));
    let all = 100 * (part + budget.ahead()) * u64::from(HWEIGHT_ONE) / least;
    let mut steps = 0u32;
    while submitted[0] + submitted[1] < all {
        let first = ((turns >> (steps % 64)) & 1) as usize;
        let may = |at: usize| division::lead(vtimes[at], vtimes[1 - at], budget.ahead()) == 0;
        let at = if may(first) { first } else { 1 - first };
        assert!(may(at), "one of them is the least");
        vtimes[at] = division::charge(vtimes[at], part, hweights[at]);
        submitted[at] += part;
        steps += 1;
    }
    for (submitted, hweight) in submitted.iter().zip(hweights) {
        let due = all * u64::from(hweight) / u64::from(HWEIGHT_ONE);
        assert!(submitted.abs_diff(due) <= due / 50, "{submitted} of {due}");
    }
}
