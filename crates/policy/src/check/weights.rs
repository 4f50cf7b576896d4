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
        .map(|weight| weight::hweight(parent, weight, siblings))
        .collect();
    let total: u64 = parts.iter().copied().map(u64::from).sum();
    assert!(
        total <= u64::from(parent) + parts.len() as u64,
        "a hweight below the smallest is rounded up"
    );
    for (weight, part) in weights.zip(parts) {
        let exact = u64::from(parent) * u64::from(weight) / siblings;
        assert_eq!(u64::from(part), exact.max(1));
        let shown = u64::from(weight::shown(part)) * u64::from(HWEIGHT_ONE);
        let exact = u64::from(part) * u64::from(weight::HWEIGHT_SHOWN);
        assert!(
            shown.abs_diff(exact) <= u64::from(HWEIGHT_ONE) / 2,
            "rounded"
        );
    }
}

pub(super) fn check_turn(turn: &Turn, due_ns: u64, now_ns: u64, pages: u64, stock_poll: u64) {
    // boot time: what an uptime of centuries does not reach
    let (due_ns, now_ns) = (due_ns >> 1, now_ns >> 1);
    let price = turn.cost_ns();
    let pays = turn.hweight > 0 && turn.behind == 0;
    assert_eq!(price > 0, pays && turn.wb_rate > 0, "who is held");
    let dearer = Turn {
        hweight: turn.hweight / 2,
        ..*turn
    };
    assert!(
        dearer.hweight == 0 || dearer.cost_ns() >= price,
        "less weight, no cheaper"
    );
    let fuller = Turn {
        host_dirty: turn.host_dirty.saturating_add(1),
        ..*turn
    };
    assert!(fuller.cost_ns() >= price, "a fuller host is no cheaper");

    let payment = turn.pay(due_ns, now_ns, pages);
    let (paid, forgiven) = (payment.due_ns, payment.forgiven);
    assert_eq!(payment.cost_ns, price, "the price is not of the pages");
    let round = 1_000_000 * ROUND_MS;
    assert!(
        paid <= due_ns.max(now_ns + weight::DEBT_ROUNDS * round),
        "no writer is stopped"
    );
    assert!(paid >= due_ns, "what was paid stays paid");
    assert!(forgiven <= pages.min(PAGES_MAX) && (price > 0 || forgiven == 0));
    if price > 0 && due_ns >= now_ns {
        let covered = u128::from(paid - due_ns) / u128::from(price);
        let asked = u128::from(pages.min(PAGES_MAX));
        assert!(
            covered + u128::from(forgiven) + 1 >= asked,
            "each page is paid for or forgiven"
        );
    }
    assert!(
        paid.saturating_add(weight::DEBT_ROUNDS * round) >= now_ns,
        "no writer saves up"
    );
    let more = turn.pay(due_ns, now_ns, pages.saturating_add(1)).due_ns;
    assert!(more >= paid, "more dirtied, longer to wait");

    let wait = turn.wait_ms(paid, now_ns);
    assert!(wait <= weight::WAIT_MOST_MS, "no longer in a pass");
    if wait > 0 {
        assert!(turn.holds(), "what may be held");
        assert!(
            turn.host_dirty > turn.host_bg_thresh,
            "free where flushers rest"
        );
        assert!(pays, "who competes and is not behind");
        assert!(turn.wait_ms(paid, now_ns + 1) <= wait, "time only helps");
    }
    let poll = weight::poll(price, stock_poll);
    assert!(poll >= 1 && poll <= stock_poll.max(1));
}

/// Whatever tasks and wbs say: what is reported is recorded or returned, and what is remembered is
/// bounded.
pub(super) fn check_arrears(steps: &[(u8, u16)]) {
    let mut arrears = Arrears::default();
    let (mut recorded, mut reported, mut returned) = (0u64, 0, 0);
    for &(step, pages) in steps {
        let pages = u64::from(pages);
        match step % 4 {
            0 => {
                arrears.record(pages);
                recorded += pages;
            }
            1 | 2 => {
                let unpaid = arrears.vouch(pages);
                arrears.report(pages, unpaid, unpaid);
                returned += unpaid;
                reported += pages;
            }
            _ => arrears.forgive(pages),
        }
        assert!(arrears.ahead <= AHEAD_MOST, "bounded");
        assert!(arrears.passed < 1_024, "only what was lately counts");
    }
    assert!(reported - returned <= recorded, "no page vouches twice");
}

/// Each page that a wb records is noted once, however late a look comes to be noted: pages dirtied,
/// how much earlier the look was in pages, and every eighth time the first after a pause.
pub(super) fn check_bill(turn: &Turn, steps: &[(u16, i16, u8)]) {
    let (mut bill, mut recorded, mut noted, mut skipped) = (Bill::default(), 0, 0, 0);
    let mut now_ns = 1 << 40;
    for &(pages, late, luck) in steps {
        recorded += u64::from(pages);
        let late = u64::from(late.unsigned_abs()) * u64::from(luck % 3 == 1);
        let seen = recorded.saturating_sub(late);
        let first = luck % 8 == 0 && seen >= bill.recorded.pages;
        let before = bill;
        let found = bill.note(&Look {
            // who is late began before the last look had ended
            begun_ns: match late {
                0 => now_ns,
                _ => before.recorded.ended_ns.saturating_sub(1),
            },
            ended_ns: now_ns + 1,
            dirtied: seen,
            written: seen / 2,
            queued: seen - seen / 2,
            unreported: 32,
            first: first.into(),
        });
        if first {
            assert!(found <= 32, "of the old, what the task is yet to report");
            skipped += seen - before.recorded.pages - found.min(seen - before.recorded.pages);
            noted += found.min(seen - before.recorded.pages);
        } else {
            noted += found;
        }
        assert_eq!(bill.dirtied, before.dirtied + found);
        assert!(
            bill.recorded.pages >= before.recorded.pages,
            "no look takes one back"
        );
        assert_eq!(noted + skipped, bill.recorded.pages, "each page once");
        let wait = bill.charge(turn, now_ns, found);
        assert!(bill.due_ns >= before.due_ns && wait <= weight::WAIT_MOST_MS);
        now_ns += 1 + u64::from(luck) * 1_000_000;
    }
}

/// At least one cgroup is not held, none is behind another that is behind it, and what the root
/// asks for is not more.
pub(super) fn check_contest(members: &[(u64, u32)], asleep_us: u64, slept_ago_ms: u64) {
    // One has the mark, as after a round.
    let members: Vec<_> = members
        .iter()
        .enumerate()
        .map(|(i, member)| share::Standing {
            got: member.0,
            hweight: member.1,
            behind: u32::from(i == 0),
        })
        .collect();
    for a in &members {
        for b in &members {
            assert!(!(a.is_behind(b) && b.is_behind(a)), "{a:?} {b:?}");
        }
    }
    let found = members
        .iter()
        .reduce(|a, b| if b.is_behind(a) { b } else { a });
    if let Some(found) = found.filter(|_| members.iter().all(|member| member.hweight > 0)) {
        assert!(members.iter().all(|other| !other.is_behind(found)));
    }
    let competes = |nested| {
        share::Contender {
            nested,
            slept_ago_ms,
            asleep_us,
        }
        .competes()
    };
    assert!(competes(0) || !competes(1));
    let smooth = share::smooth(asleep_us, slept_ago_ms, ROUND_MS);
    assert!(smooth <= PAGES_MAX && smooth <= asleep_us.max(slept_ago_ms));
}
