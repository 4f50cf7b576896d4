// SPDX-License-Identifier: GPL-2.0-only
//! Where a floor ends when everything weir is told is wrong.
//!
//! Here counts answer back: tasks dirty as many pages as they are allowed, flushers clean some, and
//! the host holds the sum. A task that is not admitted is as stock: it waits while the host is at
//! its limit. Whatever a floor's own counts say, the host never holds more than its limit, all
//! floors, and the pages each task may dirty between two looks.

use policy::credit::Credit;
use policy::floor::{FloorPass, Pool, Verdict};
use proptest::collection::vec;
use proptest::prelude::*;

const HOST_THRESH: u64 = 2_048;
/// The square root, to a power of two, of the largest room: stock's and a floor's poll alike.
const MOST_PER_LOOK: u64 = 32;
const TASKS: usize = 4;

/// One turn: a task writes, a flusher cleans.
#[derive(Clone, Debug)]
struct Turn {
    task: usize,
    cleaned: u64,
    lose_probe: bool,
}

prop_compose! {
    fn turn()(
        task in 0..TASKS, cleaned in prop_oneof![15 => Just(0), 1 => 0..50u64],
        lose_probe in prop::bool::weighted(0.1),
    ) -> Turn {
        Turn { task, cleaned, lose_probe }
    }
}

proptest! {
    #[test]
    fn host_holds_its_limit_and_all_floors_at_most(
        turns in vec(turn(), 1..2_000), floors in vec(0..HOST_THRESH, TASKS),
        // What each task's counts say, in percent of the truth; none: the truth.
        counted_percent in vec(prop::option::of(0..300u64), TASKS),) {
        let pool = Pool { wanted_total: floors.iter().sum(), host_thresh: HOST_THRESH };
        let mut dirty = [0u64; TASKS];
        let mut allowed = [1u64; TASKS];
        for turn in turns {
            let task = turn.task;
            dirty[task] += allowed[task];
            let host_dirty: u64 = dirty.iter().sum();
            let most = HOST_THRESH + pool.total_floors() + TASKS as u64 * MOST_PER_LOOK;
            prop_assert!(host_dirty <= most, "{} of {}", host_dirty, most);

            let counted = dirty[task] * counted_percent[task].unwrap_or(100) / 100;
            let pass = FloorPass {
                floor: pool.scaled_floor(floors[task]),
                memcg_dirty: counted,
                wb_dirty: counted,
                host_dirty,
                host_thresh: HOST_THRESH,
                floors_total: pool.total_floors(),
                left: policy::UNLIMITED,
                cgroup_domain: 1,
                ..FloorPass::default()
            };
            allowed[task] = if !turn.lose_probe && pass.decide() == Verdict::Admit {
                pass.poll_pages()
            } else {
                u64::from(host_dirty < HOST_THRESH) * MOST_PER_LOOK
            };
            prop_assert!(allowed[task] <= MOST_PER_LOOK);
            if counted_percent[task].is_none() && pass.decide() == Verdict::Admit {
                prop_assert!(dirty[task] < pass.floor, "an honest count admits below the floor only");
            }
            dirty[task] -= turn.cleaned.min(dirty[task]);
        }
    }

    /// A writer of another cgroup's pages in another cgroup's files is in no count of its own
    /// cgroup. Its credit alone keeps it at its floor.
    #[test]
    fn a_foreign_writer_gets_one_floor_a_minute(
        looks in vec(0..4usize, 1..500), floor in 2..HOST_THRESH
    ) {
        const MINUTE: usize = 300;
        let mut credit = Credit::default();
        let (mut beat, mut admitted) = (0, Vec::new());
        let mut allowed = 1;
        for beats in looks {
            for _ in 0..beats {
                credit.forgive_part(floor);
            }
            beat += beats;
            credit.charge_pass(floor, allowed, 0, true);
            let pass = FloorPass {
                floor,
                foreign: credit.foreign_pages(),
                host_dirty: HOST_THRESH,
                host_thresh: HOST_THRESH,
                floors_total: floor,
                left: policy::UNLIMITED,
                cgroup_domain: 1,
                ..FloorPass::default()
            };
            if pass.decide() != Verdict::Admit {
                allowed = 0;
                continue;
            }
            allowed = pass.poll_pages();
            admitted.push((beat, allowed));
            let lately: u64 = admitted.iter().filter(|(at, _)| beat - at < MINUTE)
                .map(|(_, pages)| pages).sum();
            // one that is full, and what is forgiven of it meanwhile
            let most = 2 * floor + MINUTE as u64;
            prop_assert!(lately <= most, "{} pages within a minute, floor {}", lately, floor);
        }
        prop_assert!(!admitted.is_empty(), "the first look finds one page");
    }
}
