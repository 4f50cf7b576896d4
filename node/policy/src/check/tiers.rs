// SPDX-License-Identifier: GPL-2.0-only
//! What budgets and plans promise, for any capacities and any groups.

use super::*;
use crate::tier::{self, Move, TIERS_MAX};

pub(super) fn check_budgets(tiers: &Tiers, ratio: u32, limit: u64) {
    let budgets: Vec<u64> = (0..TIERS_MAX as u32)
        .map(|tier| tiers.budget(ratio, limit, tier))
        .collect();
    if limit == UNLIMITED {
        assert!(budgets.iter().all(|budget| *budget == UNLIMITED));
        return;
    }
    let limit = limit.min(PAGES_MAX);
    assert_eq!(budgets.iter().sum::<u64>(), limit, "all of it, once");
    let mut before = 0;
    for tier in 0..TIERS_MAX as u32 {
        let upto = tiers.budget_up_to(ratio, limit, tier);
        assert!(upto >= before && upto <= limit, "more tiers, no less");
        before = upto;
    }
    let more = tiers.budget_up_to(ratio, limit.saturating_add(1).min(PAGES_MAX), 0);
    assert!(more >= budgets[0], "more limit, no less on top");
    assert!(
        !(tiers.raises_budget(ratio, BY_CAPACITY) && tiers.raises_budget(BY_CAPACITY, ratio)),
        "one is the lower"
    );
}

pub(super) fn check_plan(tiers: &Tiers, room: &Room, settings: &Settings, groups: &[Group]) {
    let moves = tier::plan(tiers, room, settings, groups);
    let sum = |pages: &dyn Fn(&Move) -> u64| moves.iter().map(pages).sum::<u64>();
    for boundary in 0..TIERS_MAX - 1 {
        let down = sum(&|moved| moved.demote[boundary]);
        let up = sum(&|moved| moved.promote[boundary]);
        let step = settings.step.min(PAGES_MAX);
        let beyond = |tier: usize| {
            let free = room.free[tier].min(PAGES_MAX);
            free.saturating_sub(room.headroom[tier].min(PAGES_MAX))
        };
        assert!(down <= step && up <= step, "a step is a step");
        // each group's part of what is given is rounded down by a page for each class
        let rounded = 9 * groups.len() as u64;
        let below = beyond(boundary + 1);
        let headroom = room.headroom[boundary + 1].min(PAGES_MAX);
        assert!(down <= below + headroom / 2, "there is room below");
        assert!(down <= below + up + rounded, "and no less of it afterwards");
        assert!(
            up <= beyond(boundary) + down + rounded,
            "and above, once that is done"
        );
        for (moved, group) in moves.iter().zip(groups) {
            let up = if boundary > 0 {
                moved.promote[boundary - 1]
            } else {
                0
            };
            assert!(moved.demote[boundary] + up <= group.held[boundary]);
            assert!(moved.promote[boundary] <= group.held[boundary + 1]);
        }
    }
}
