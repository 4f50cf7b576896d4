// SPDX-License-Identifier: GPL-2.0-only
//! What amended limits promise: ceilings, the reservation, seconds of drain, and who is named for a
//! pause.

use super::*;

pub(super) fn check_ceiling_pages(knobs: &Ceiling, avail: u64) {
    let pages = knobs.limit_pages(avail);
    assert!(pages >= CEILING_MIN);
    assert_eq!(
        pages == UNLIMITED,
        knobs.bytes == UNLIMITED && knobs.ratio_percent == 0
    );
    let alone = |knobs: Ceiling| knobs.limit_pages(avail);
    let by_bytes = alone(Ceiling {
        ratio_percent: 0,
        ..*knobs
    });
    let by_ratio = alone(Ceiling {
        bytes: UNLIMITED,
        ..*knobs
    });
    assert_eq!(pages, by_bytes.min(by_ratio), "the stricter one wins");
    if (1..=100).contains(&knobs.ratio_percent) {
        let share = exact_share(avail.min(PAGES_MAX), knobs.ratio_percent.into(), 100);
        assert_eq!(by_ratio, share.max(CEILING_MIN));
    }
}

pub(super) fn check_amend(stock: &Limits, ceiling: u64, counts: &Counts, kind: Pass) {
    // What the kernel and weir_ceiling_pages() hand in: limits of 32 bits, bg below thresh.
    let stock = Limits {
        thresh: stock.thresh.min(PAGES_MAX),
        bg_thresh: stock
            .bg_thresh
            .min(stock.thresh.min(PAGES_MAX).saturating_sub(1)),
        ..*stock
    };
    let ceiling = ceiling.max(CEILING_MIN);
    let mut limits = stock;
    let decides = limits.amend_by_ceiling(ceiling, counts, kind);
    if kind == Pass::Reader || ceiling == UNLIMITED {
        assert!(!decides && limits == stock, "left alone");
        return;
    }
    // Where writers stop for good, a quarter before what they may hold.
    let limit = ceiling - ceiling / 4;
    assert_eq!(limits.thresh, limit.min(stock.thresh));
    assert!(
        limits.bg_thresh < limits.thresh || stock.thresh == 0,
        "background below the limit"
    );
    assert!(
        limits.bg_thresh <= stock.bg_thresh && limits.dom_limit <= stock.dom_limit,
        "a ceiling never widens"
    );
    if limits != stock {
        assert!(limits.dom_limit <= limits.thresh, "nor does the smoothing");
    }
    let counted = match kind {
        Pass::Writer => counts.dirty.saturating_add(counts.writeback),
        _ => counts.dirty,
    };
    if counted > limit {
        assert!(limits.dirty > limits.thresh || limits.thresh == 0, "full");
    }
    if limit <= stock.thresh {
        assert!(limits.dirty >= counted, "the exact count counts");
    }

    // A task that stock would hold or keep writing is held or kept writing.
    let freerun = |limits: &Limits| arith::freerun_level(limits.thresh, limits.bg_thresh);
    if stock.dirty > freerun(&stock) {
        assert!(
            limits.dirty > freerun(&limits),
            "no freerun that stock denies"
        );
    }
    if stock.dirty > stock.bg_thresh {
        assert!(
            limits.dirty > limits.bg_thresh,
            "no flusher stops that stock keeps going"
        );
    }
    if stock.dirty > stock.thresh {
        assert!(
            limits.dirty > limits.thresh,
            "over the limit stays over the limit"
        );
    }
    let level = ceiling::freerun_level(ceiling, &stock);
    if kind == Pass::Writer && ceiling <= PAGES_MAX && counted > level.saturating_add(2) {
        assert!(
            limits.brakes_writers(),
            "above the freerun level of its ceiling"
        );
    }
    let mut again = limits;
    assert!(
        !again.amend_by_ceiling(ceiling, counts, kind) && again == limits,
        "idempotent"
    );
}

pub(super) fn check_host_amend(stock: &Limits, host: &Reservation, kind: Pass) {
    let mut limits = *stock;
    if !host.amend_limits(&mut limits, kind) {
        assert_eq!(limits, *stock, "untouched");
        let share = exact_share(stock.thresh.min(PAGES_MAX), FLOORS_PERCENT_OF_LIMIT, 100);
        assert!(
            kind == Pass::Reader || host.unused.min(share) == 0,
            "what is unused is held back"
        );
        return;
    }
    assert!(limits.thresh < stock.thresh && limits.bg_thresh <= stock.bg_thresh);
    assert!(limits.dom_limit <= stock.dom_limit, "only ever lowered");
    assert!(
        limits.bg_thresh < limits.thresh,
        "background below the limit"
    );
    assert_eq!(limits.dirty, stock.dirty);
    let held_back = stock.thresh - limits.thresh;
    assert!(held_back <= host.unused && held_back <= floors_cap(stock.thresh));
    if kind == Pass::Writer {
        let slack = limits.dirty.min(PAGES_MAX) / 256 + 1;
        assert!(
            limits.dom_limit <= limits.thresh.max(limits.dirty.min(PAGES_MAX) + slack),
            "the smoothed limit follows what is dirty down"
        );
    }
    let mut more = *stock;
    let unused = host.unused.saturating_add(1);
    assert!(Reservation { unused }.amend_limits(&mut more, kind));
    assert!(more.thresh <= limits.thresh, "monotonic in what is unused");
}

/// Bounded, and no writer is suddenly far above a limit that was higher before.
pub(super) fn check_drain(mut drain: Drain, beat: &Beat) {
    let thresh = arith::saturate_pages(beat.thresh);
    let in_force = |drain: &Drain| {
        if drain.limit == 0 {
            thresh
        } else {
            drain.limit
        }
    };
    let old = in_force(&drain);
    drain.adapt_by_beat(beat);
    let new = in_force(&drain);
    let held = arith::saturate_pages(
        arith::saturate_pages(beat.dirty) + arith::saturate_pages(beat.writeback),
    );
    let withdrawn = old.min(arith::saturate_pages(held + held / 32 + 1));
    assert!(new >= withdrawn, "stays above what is held on its way down");
    let bound = arith::scale_pages(beat.dirtyable, PERCENT_OF_DIRTYABLE, 100);
    assert!(
        new <= thresh.max(bound).max(withdrawn),
        "bounded by dirtyable memory, or on its way down"
    );
    if beat.tighten == 0 {
        assert!(new >= thresh, "never below the kernel's own");
    }
    let scarce = beat.direct_scanned > 0 || beat.memory_stall_percent >= 20;
    if beat.seconds == 0 || scarce {
        assert!(new <= thresh.max(withdrawn), "withdrawn");
    }
    assert!(new <= PAGES_MAX, "within what Linux can express");
}

pub(super) fn check_drain_amend(before: Limits, limit: u64, stock: u64) {
    let mut after = before;
    drain::amend_host(&mut after, limit, stock);
    if limit == 0 {
        assert_eq!(after, before, "off");
    } else if limit >= stock {
        assert_eq!(after.thresh, before.thresh.max(limit), "lifted");
        assert_eq!(after.bg_thresh, before.bg_thresh, "as raising the sysctl");
    } else {
        assert!(after.thresh <= before.thresh, "tightened");
        assert!(
            after.bg_thresh < after.thresh || after.thresh == 0,
            "in order"
        );
    }
    assert_eq!(
        (after.dirty, after.dom_limit),
        (before.dirty, before.dom_limit),
        "the rest is the kernel's"
    );
}

/// The decider that is named decided by its own numbers.
pub(super) fn check_pause(facts: &pause::Facts) {
    let cgroups = (facts.thresh, facts.dirty) == (facts.cgroup_thresh, facts.cgroup_dirty);
    let decided = facts.decided_by();
    match decided {
        Decider::Device if facts.strictlimit != 0 => return,
        Decider::Unknown if facts.cgroup_seen == 0 => return,
        Decider::Host if !cgroups => return assert!(facts.cgroup_seen != 0),
        _ => assert_eq!(decided, facts.judged_by),
    }
    assert!(facts.cgroup_seen != 0 && facts.strictlimit == 0 && cgroups);
}

/// Several ceilings on one path: whatever the order, none is looser than alone.
pub(super) fn check_path(stock: &Limits, path: &[(u64, Counts)], kind: Pass) {
    let held = |path: &mut dyn Iterator<Item = &(u64, Counts)>| {
        let mut limits = Limits {
            thresh: stock.thresh.min(PAGES_MAX),
            ..*stock
        };
        let decided = path
            .filter(|(ceiling, counts)| {
                limits.amend_by_ceiling((*ceiling).max(CEILING_MIN), counts, kind)
            })
            .count();
        (limits, decided)
    };
    let (up, decided) = held(&mut path.iter());
    let (down, _) = held(&mut path.iter().rev());
    assert_eq!(up.thresh, down.thresh);
    assert!(decided <= path.len());
    // positions are rounded up once per step
    let steps = path.len() as u64 + 1;
    if up.dirty.max(down.dirty) <= up.thresh {
        assert!(up.dirty.abs_diff(down.dirty) <= steps, "the order is free");
    }
    for one in path {
        let (alone, _) = held(&mut std::iter::once(one));
        assert!(up.thresh <= alone.thresh);
        if alone.dirty > alone.thresh {
            assert!(up.dirty > up.thresh || up.thresh == 0, "full alone is full");
        }
    }
}
