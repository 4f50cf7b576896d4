// SPDX-License-Identifier: GPL-2.0-only
//! What floors and their credit promise.

use super::*;

pub(super) fn check_floors(cgroups: &[Caps], host_thresh: u64) {
    let own: Vec<u64> = cgroups.iter().map(Caps::capped_floor).collect();
    for (caps, &own) in cgroups.iter().zip(&own) {
        assert!(own <= caps.wanted, "never more than asked for");
        if caps.memory_max != UNLIMITED {
            assert!(own <= caps.memory_max.saturating_sub(caps.memory_min));
            assert!(
                own <= caps.memory_max / 2,
                "half of memory.max stays reclaimable"
            );
        }
        let roomier = Caps {
            memory_max: caps.memory_max.saturating_add(1),
            ..*caps
        };
        assert!(roomier.capped_floor() >= own, "monotonic in memory.max");
        let protected = Caps {
            memory_min: caps.memory_min.saturating_add(1),
            ..*caps
        };
        assert!(
            protected.capped_floor() <= own,
            "anti-monotonic in memory.min"
        );
    }
    let wanted_total = own.iter().fold(0, |sum: u64, &own| sum.saturating_add(own));
    let pool = Pool {
        wanted_total,
        host_thresh,
    };
    let effective: Vec<u64> = own.iter().map(|&own| pool.scaled_floor(own)).collect();
    let sum: u128 = effective.iter().copied().map(u128::from).sum();
    assert!(
        sum <= u128::from(floors_cap(host_thresh)),
        "all floors: 80 % of the limit"
    );
    assert!(
        sum <= u128::from(pool.total_floors()),
        "the total is an upper bound"
    );
    for (&own, &effective) in own.iter().zip(&effective) {
        assert!(effective <= own, "scaling never widens");
        if wanted_total <= floors_cap(host_thresh) {
            assert_eq!(effective, own, "unscaled while they fit");
        }
    }
}

pub(super) fn check_floor_pass(pass: &FloorPass, more: u64) {
    let held = pass
        .memcg_dirty
        .max(pass.wb_dirty)
        .saturating_add(pass.foreign);
    let poll = pass.poll_pages();
    assert!(
        (1..=1 << 32).contains(&poll),
        "at least one page, at most the square root"
    );
    if pass.decide() == Verdict::Admit {
        assert!(held < pass.floor, "admitted only below the floor");
        assert!(
            poll <= pass.floor - held,
            "and looked at again before it is full"
        );
        assert!(pass.host_dirty < pass.host_thresh.saturating_add(pass.floors_total));
        assert!(pass.strictlimit == 0 && pass.cgroup_domain != 0);
        assert!(pass.left > 0 && poll <= (pass.left / 512).max(1));
        return;
    }
    // More held never admits what less held did not.
    for worse in [
        FloorPass {
            memcg_dirty: pass.memcg_dirty.saturating_add(more),
            ..*pass
        },
        FloorPass {
            wb_dirty: pass.wb_dirty.saturating_add(more),
            ..*pass
        },
        FloorPass {
            foreign: pass.foreign.saturating_add(more),
            ..*pass
        },
        FloorPass {
            host_dirty: pass.host_dirty.saturating_add(more),
            ..*pass
        },
        FloorPass {
            floor: pass.floor.saturating_sub(more),
            ..*pass
        },
        FloorPass {
            left: pass.left.saturating_sub(more),
            ..*pass
        },
        FloorPass {
            strictlimit: 1,
            ..*pass
        },
        FloorPass {
            cgroup_domain: 0,
            ..*pass
        },
    ] {
        assert_ne!(worse.decide(), Verdict::Admit, "{worse:?}");
    }
}

/// The floor with most room decides, whatever the order, and nothing else of the pass changes.
pub(super) fn check_floor_cover(pass: &FloorPass, floors: &[Cover]) {
    let found = |floors: &mut dyn Iterator<Item = &Cover>| {
        let mut found = FloorPass { floor: 0, ..*pass };
        floors.for_each(|floor| found.consider_floor(floor));
        found
    };
    let decides = found(&mut floors.iter());
    let most = floors.iter().map(|floor| {
        let elsewhere = floor.in_wb.saturating_sub(floor.by_folio);
        let held = floor.claim.saturating_add(elsewhere);
        floor
            .floor
            .saturating_sub(held.saturating_add(floor.foreign))
    });
    assert_eq!(
        decides.unused_pages(),
        most.max().unwrap_or(0),
        "of a claim and what the wb holds beyond the subtree"
    );
    assert_eq!(
        decides.unused_pages(),
        found(&mut floors.iter().rev()).unused_pages()
    );
    let FloorPass {
        floor,
        memcg_dirty,
        wb_dirty,
        foreign,
        ..
    } = decides;
    let same = FloorPass {
        floor,
        memcg_dirty,
        wb_dirty,
        foreign,
        ..*pass
    };
    assert_eq!(decides, same);
}

/// In a tree of cgroups, each with a floor and an earlier one for a parent, that tell their pages in
/// whatever order: sums are what the subtree told, and each page claims one floor at most.
pub(super) fn check_subtrees(levels: &[(u8, u32)], tellings: &[(u8, u32, u32)]) {
    let parent = |at: usize| (at > 0).then(|| usize::from(levels[at].0) % at);
    let floor = |at: usize| u64::from(levels[at].1);
    let mut sums = vec![Subtree::default(); levels.len()];
    let mut told = vec![Counts::default(); levels.len()];
    for &(cgroup, dirty, writeback) in tellings.iter().filter(|_| !levels.is_empty()) {
        let cgroup = usize::from(cgroup) % levels.len();
        let own = Counts {
            dirty: dirty.into(),
            writeback: writeback.into(),
        };
        let mut change = Tally::between(&told[cgroup], &own);
        told[cgroup] = own;
        for at in std::iter::successors(Some(cgroup), |at| parent(*at)) {
            let unused = sums[at].add(&mut change, floor(at), 0);
            assert_eq!(unused, floor(at).saturating_sub(sums[at].claimed_pages()));
        }
    }
    let mut held: Vec<u64> = told.iter().map(|own| own.dirty + own.writeback).collect();
    let mut claims = held.clone();
    for at in (0..levels.len()).rev() {
        assert_eq!(sums[at].dirty + sums[at].writeback, held[at] as i64);
        assert_eq!(sums[at].claimed_pages(), claims[at], "of {at}");
        if let Some(parent) = parent(at) {
            held[parent] += held[at];
            claims[parent] += reserve::pages_beyond(floor(at), claims[at]);
        }
    }
}

/// In whatever order wbs and tasks tell of the same pages, what is foreign is what tasks told beyond
/// the wbs. A bound on how far the wbs may be ahead can only add to that.
pub(super) fn check_credit_of_writers(passes: &[(u16, u16)], most: u64) {
    let (mut unbounded, mut bounded) = (Credit::default(), Credit::default());
    let mut tasks_ahead = 0i64;
    for &(own, recorded) in passes {
        let (own, recorded) = (u64::from(own), u64::from(recorded));
        unbounded.charge_pass(UNLIMITED, own, recorded, true);
        bounded.charge_pass(most, own, recorded, true);
        tasks_ahead += own as i64 - recorded as i64;
        assert_eq!(unbounded.balance, -tasks_ahead);
        assert!(
            bounded.foreign_pages() >= unbounded.foreign_pages(),
            "no bound forgives a debt"
        );
    }
}
