// SPDX-License-Identifier: GPL-2.0-only
//! The examples of the C files, and a host that follows its plans until nothing moves. Random
//! hosts: random.rs.

mod random;

use super::*;
use crate::UNLIMITED;

const GIB: u64 = 1 << 18;
const MIB: u64 = 1 << 8;

fn strict(band: u64, step: u64) -> Settings {
    Settings {
        band,
        step,
        lend: 0,
    }
}

fn lending(band: u64, step: u64) -> Settings {
    Settings {
        lend: 1,
        ..strict(band, step)
    }
}

fn held(pages: &[u64]) -> [u64; TIERS_MAX] {
    let mut held = [0; TIERS_MAX];
    held[..pages.len()].copy_from_slice(pages);
    held
}

/// A host that does what it is told: its groups' pages, and who else holds what.
#[derive(Debug)]
struct Machine {
    tiers: Tiers,
    headroom: u64,
    settings: Settings,
    groups: Vec<Group>,
    moved: u64,
}

impl Machine {
    fn new(capacities: &[u64], headroom: u64, settings: Settings, groups: Vec<Group>) -> Machine {
        Machine {
            tiers: Tiers::new(capacities),
            headroom,
            settings,
            groups,
            moved: 0,
        }
    }

    fn leaf(&self, i: usize) -> bool {
        !self.groups.iter().any(|group| group.parent == i as u32)
    }

    fn free(&self, tier: usize) -> u64 {
        let used: u64 = (0..self.groups.len())
            .filter(|&i| self.leaf(i))
            .map(|i| self.groups[i].held[tier])
            .sum();
        self.tiers.capacity[tier]
            .checked_sub(used)
            .expect("a tier holds more than it has")
    }

    fn room(&self) -> Room {
        let mut room = Room::default();
        for tier in 0..self.tiers.count as usize {
            room.free[tier] = self.free(tier);
            room.headroom[tier] = self.headroom;
        }
        room
    }

    fn plan(&self) -> Vec<Move> {
        plan(&self.tiers, &self.room(), &self.settings, &self.groups)
    }

    /// Moves `pages` of a group and, in the sums, of those above it; hot ones go up first and come
    /// down last. The parts of ancestors are not asked for heat.
    fn shift(&mut self, group: usize, from: usize, to: usize, pages: u64) {
        let mut i = group;
        loop {
            let group = &mut self.groups[i];
            let cold = group.held[from] - group.hot[from];
            let hot = if to < from {
                pages.min(group.hot[from])
            } else {
                pages.saturating_sub(cold)
            };
            group.held[from] -= pages;
            group.held[to] += pages;
            group.hot[from] -= hot;
            group.hot[to] += hot;
            if group.parent == NO_PARENT {
                break;
            }
            i = group.parent as usize;
        }
        self.moved += pages;
    }

    /// One plan, carried out: down first, from the lowest boundary, so that there is room. Returns
    /// what moved.
    fn step(&mut self) -> u64 {
        let moves = self.plan();
        let before = self.moved;
        for boundary in (0..BOUNDARIES).rev() {
            let mut total = (0, 0);
            for (i, moved) in moves.iter().enumerate() {
                if moved.demote[boundary] > 0 {
                    self.shift(
                        i,
                        boundary,
                        self.tiers.below(boundary),
                        moved.demote[boundary],
                    );
                }
                total.0 += moved.demote[boundary];
                total.1 += moved.promote[boundary];
            }
            assert!(total.0 <= self.settings.step && total.1 <= self.settings.step);
        }
        for boundary in 0..BOUNDARIES {
            for (i, moved) in moves.iter().enumerate() {
                if moved.promote[boundary] > 0 {
                    self.shift(
                        i,
                        self.tiers.below(boundary),
                        boundary,
                        moved.promote[boundary],
                    );
                }
            }
        }
        for tier in 0..self.tiers.count as usize {
            self.free(tier);
        }
        self.moved - before
    }

    /// Follows plans until one is empty, and checks that the next are too. Returns how many it
    /// took.
    fn settle(&mut self, most: u32) -> u32 {
        for plans in 0..most {
            if self.step() == 0 {
                assert_eq!((0..5).map(|_| self.step()).sum::<u64>(), 0);
                return plans;
            }
        }
        panic!("{most} plans later pages still move: {:?}", self.plan());
    }
}

#[test]
fn budgets_of_the_example() {
    let host = Tiers::new(&[75 * GIB, 25 * GIB]);
    let top = |limit: u64| host.budget_up_to(BY_CAPACITY, limit * GIB, 0);
    assert_eq!(
        [8, 12, 20, 24].map(top),
        [6 * GIB, 9 * GIB, 15 * GIB, 18 * GIB]
    );
    assert_eq!(host.budget(BY_CAPACITY, 24 * GIB, 1), 6 * GIB);
    assert_eq!(host.budget(50, 24 * GIB, 0), 12 * GIB);
    assert_eq!(host.budget(50, 24 * GIB, 1), 12 * GIB);
    assert_eq!(host.budget(BY_CAPACITY, UNLIMITED, 0), UNLIMITED);
    let mut three = Tiers::new(&[60 * GIB, 30 * GIB, 10 * GIB]);
    let split = |tiers: &Tiers| [0, 1, 2].map(|t| tiers.budget(BY_CAPACITY, 20 * GIB, t));
    assert_eq!(split(&three), [12 * GIB, 6 * GIB, 2 * GIB]);
    three.ratio = 20;
    assert_eq!(split(&three), [4 * GIB, 12 * GIB, 4 * GIB]);
}

#[test]
fn one_tier_is_no_choice() {
    for tiers in [
        Tiers::new(&[GIB]),
        Tiers::new(&[GIB, 0]),
        Tiers::new(&[]),
        Tiers::new(&[0, 0, 0]),
    ] {
        assert_eq!(tiers.budget_up_to(10, 1_000, 0), 1_000);
        assert_eq!(tiers.budget(BY_CAPACITY, 1_000, 0), 1_000);
        assert_eq!(tiers.budget(BY_CAPACITY, 1_000, 1), 0);
    }
    assert_eq!(Tiers::new(&[0, GIB]).budget_up_to(BY_CAPACITY, 1_000, 0), 0);
}

#[test]
fn a_raise_is_judged_by_what_it_grants() {
    let mut host = Tiers::new(&[75 * GIB, 25 * GIB]);
    assert!(host.raises_budget(BY_CAPACITY, 76) && !host.raises_budget(BY_CAPACITY, 75));
    assert!(host.raises_budget(30, BY_CAPACITY) && !host.raises_budget(100, BY_CAPACITY));
    host.ratio = 20;
    assert!(host.raises_budget(BY_CAPACITY, 30) && !host.raises_budget(30, BY_CAPACITY));
}

/// The published host: three that fill first and one that comes last.
fn published(settings: Settings) -> Machine {
    let group = |top, low| Group {
        held: held(&[top * GIB, low * GIB]),
        high: 220 * GIB,
        max: 220 * GIB,
        ..Group::default()
    };
    let groups = vec![group(220, 0), group(220, 0), group(220, 0), group(70, 150)];
    Machine::new(&[750 * GIB, 250 * GIB], GIB, settings, groups)
}

#[test]
fn the_published_host_is_shared_out() {
    let mut host = published(strict(512, 4 * GIB));
    let plans = host.settle(60);
    assert!(plans <= 106 / 4 + 13 + 2, "{plans}");
    for group in &host.groups {
        let budget = 165 * GIB;
        assert!(
            group.held[0].abs_diff(budget) <= budget / 100,
            "{}",
            group.held[0]
        );
    }
}

/// The examples at the top of `policy/tier_lend.c`: four with a budget of 165 in 750, of which
/// others have 19.
#[test]
fn what_is_idle_is_lent_as_budgets_are() {
    let settled = |wanted: [u64; 4]| {
        let mut host = published(lending(512, 4 * GIB));
        let mut room = 730;
        for (group, wanted) in host.groups.iter_mut().zip(wanted) {
            let top = wanted.min(room);
            room -= top;
            group.held = held(&[top * GIB, (wanted - top) * GIB]);
        }
        host.groups.push(Group {
            held: held(&[19 * GIB]),
            ..Group::default()
        });
        host.settle(100);
        [0, 1, 2, 3].map(|i| host.groups[i].held[0])
    };
    // who gives keeps a band of a 128th, and what three keep the fourth has not
    let near = |is: [u64; 4], half_gib: [u64; 4]| {
        for (is, wanted) in is.into_iter().zip(half_gib) {
            let wanted = wanted * GIB / 2;
            assert!(is.abs_diff(wanted) <= wanted / 32, "{is} of {wanted}");
        }
    };
    near(settled([220, 220, 220, 220]), [365, 365, 365, 365]);
    near(settled([220, 220, 220, 100]), [420, 420, 420, 200]);
    near(settled([100, 100, 220, 220]), [200, 200, 440, 440]);
}

#[test]
fn what_nobody_wants_is_kept_and_lent() {
    let mut host = published(lending(512, 4 * GIB));
    host.settle(100);
    // 750 GiB are more than four budgets: nothing of it lies idle but twice the headroom
    assert!(host.free(0) <= 5 * GIB, "{} idle", host.free(0) / GIB);
    assert!(host.groups.iter().all(|group| group.held[0] >= 163 * GIB));
    // alone, it keeps all it has
    let mut alone = published(lending(512, 4 * GIB));
    alone.groups.truncate(2);
    assert_eq!(alone.settle(1), 0);
    assert!(
        alone
            .plan()
            .iter()
            .all(|moved| moved.reason == Reason::Keeps)
    );
}

#[test]
fn half_goes_at_a_time() {
    let group = |top: u64, low: u64| Group {
        held: held(&[top, low]),
        max: 240_000,
        ..Group::default()
    };
    let groups = [
        group(220_000, 0),
        group(220_000, 0),
        group(200_000, 0),
        group(40_000, 160_000),
    ];
    let tiers = Tiers::new(&[690_000, 230_000]);
    let room = Room {
        free: held(&[10_000, 70_000]),
        headroom: held(&[10_000, 10_000]),
    };
    let moves = plan(&tiers, &room, &lending(512, 100_000), &groups);
    let down: Vec<u64> = moves.iter().map(|moved| moved.demote[0]).collect();
    let up: Vec<u64> = moves.iter().map(|moved| moved.promote[0]).collect();
    assert_eq!(down, [20_000, 20_000, 10_000, 0]);
    assert_eq!(up, [0, 0, 0, 50_000]);
    assert_eq!(
        moves[..4]
            .iter()
            .map(|moved| moved.reason)
            .collect::<Vec<_>>(),
        [
            Reason::Returns,
            Reason::Returns,
            Reason::Returns,
            Reason::Takes
        ]
    );
}

#[test]
fn protection_comes_before_budgets() {
    // budgets of two whole hosts: the first has it all, the second is promised some
    let first = Group {
        held: held(&[1_000 * MIB]),
        low: 800 * MIB,
        max: 2_000 * MIB,
        ..Group::default()
    };
    let second = Group {
        held: held(&[0, 900 * MIB]),
        max: 2_000 * MIB,
        ..Group::default()
    };
    let run = |second: Group| {
        let groups = vec![first, second];
        let capacity = [1_010 * MIB, 1_010 * MIB];
        let mut host = Machine::new(&capacity, 10 * MIB, lending(64, 1_000 * MIB), groups);
        host.settle(60);
        host.groups[1].held[0] / MIB
    };
    assert_eq!(run(second), 0, "a budget takes from nobody within his");
    let low = run(Group {
        low: 400 * MIB,
        ..second
    });
    assert!(
        (190..=200).contains(&low),
        "{low}: low takes from who is above low"
    );
    let min = run(Group {
        min: 1_600 * MIB,
        ..second
    });
    assert!(
        (780..=800).contains(&min),
        "{min}: min also from who is below low"
    );
    let mut kept = first;
    kept.min = 800 * MIB;
    assert!(
        (590..=600).contains(&{
            let groups = vec![
                kept,
                Group {
                    min: 1_600 * MIB,
                    ..second
                },
            ];
            let mut host = Machine::new(
                &[1_010 * MIB, 1_010 * MIB],
                10 * MIB,
                lending(64, 1_000 * MIB),
                groups,
            );
            host.settle(60);
            host.groups[1].held[0] / MIB
        }),
        "and nobody is taken below its own min"
    );
}

#[test]
fn hot_pages_beat_cold_ones_of_others() {
    // each 220 with 100 hot; the last one's are all below, the others' cold ones above
    let group = |top: u64, low: u64, hot: [u64; 2]| Group {
        held: held(&[top * GIB, low * GIB]),
        hot: held(&[hot[0] * GIB, hot[1] * GIB]),
        max: 220 * GIB,
        heat_known: HEAT_KNOWN,
        ..Group::default()
    };
    let full = group(220, 0, [100, 0]);
    for settings in [lending(512, 4 * GIB), strict(512, 4 * GIB)] {
        let groups = vec![full, full, full, group(70, 150, [0, 100])];
        let mut host = Machine::new(&[740 * GIB, 250 * GIB], GIB, settings, groups);
        host.settle(200);
        for group in &host.groups {
            assert!(group.hot[1] <= 3 * GIB, "{:?} {settings:?}", group.hot);
        }
    }
    // a hot set larger than the budget, beside cold memory
    let groups = vec![full, full, full, group(60, 160, [60, 150])];
    let mut host = Machine::new(&[740 * GIB, 250 * GIB], GIB, lending(512, 4 * GIB), groups);
    host.settle(200);
    assert!(host.groups[3].hot[1] <= 3 * GIB, "{:?}", host.groups[3].hot);
}

#[test]
fn own_cold_pages_go_for_own_hot_ones() {
    let group = Group {
        held: held(&[180 * MIB, 60 * MIB]),
        hot: held(&[100 * MIB, 50 * MIB]),
        max: 240 * MIB,
        ..Group::default()
    };
    let capacity = [190 * MIB, 70 * MIB];
    for heat_known in [HEAT_KNOWN, HEAT_GUESSED] {
        let group = Group {
            heat_known,
            ..group
        };
        let mut host = Machine::new(&capacity, 10 * MIB, strict(64, MIB), vec![group]);
        assert_eq!(host.plan()[0].reason, Reason::Exchanges);
        host.settle(200);
        assert!(host.groups[0].hot[1] <= 2 * MIB);
        assert!(host.groups[0].held[0].abs_diff(180 * MIB) <= 2 * MIB);
    }
}

#[test]
fn a_tier_without_memory_is_passed_over() {
    let group = |pages: &[u64]| Group {
        held: held(pages),
        max: 100 * MIB,
        ..Group::default()
    };
    // 150 MiB in the first, none now in the second, 50 in the third.
    let tiers = Tiers::new(&[150 * MIB, 0, 50 * MIB]);
    assert_eq!([0, 1, 2].map(|tier| tiers.below(tier)), [2, 2, 2]);
    assert_eq!(Tiers::new(&[1, 0, 0]).below(0), 0);
    let room = Room {
        free: held(&[10 * MIB, 0, 30 * MIB]),
        ..Room::default()
    };
    let groups = [
        group(&[95 * MIB, 0, 5 * MIB]),
        group(&[45 * MIB, 0, 15 * MIB]),
    ];
    let plan = plan(&tiers, &room, &strict(64, 100 * MIB), &groups);
    assert_eq!(
        (plan[0].demote[0], plan[0].reason),
        (10 * MIB, Reason::Returns)
    );
    assert_eq!(
        (plan[1].promote[0], plan[1].reason),
        (15 * MIB / 2, Reason::Takes)
    );
    for moved in &plan {
        assert_eq!((moved.demote[1], moved.promote[1]), (0, 0), "no boundary");
        assert_eq!(moved.budget[..2], [75 * MIB; 2]);
    }
    let mut host = Machine::new(
        &[150 * MIB, 0, 50 * MIB],
        MIB,
        strict(64, 100 * MIB),
        groups.to_vec(),
    );
    host.settle(50);
    assert!(
        host.groups[0].held[0].abs_diff(75 * MIB) <= MIB,
        "{:?}",
        host.groups[0].held
    );
}

#[test]
fn a_guess_waits_until_there_is_nothing_else_to_move() {
    let above = |heat_known| Group {
        held: held(&[200 * MIB, 40 * MIB]),
        hot: held(&[100 * MIB, 30 * MIB]),
        max: 240 * MIB,
        heat_known,
        ..Group::default()
    };
    let demotes = |heat_known| {
        let capacity = [210 * MIB, 70 * MIB];
        let groups = vec![above(heat_known)];
        let host = Machine::new(&capacity, 2 * MIB, strict(64, 100 * MIB), groups);
        let plan = host.plan();
        assert_eq!(plan[0].reason, Reason::Returns);
        plan[0].demote[0]
    };
    // Half of what is above 180 MiB; and of the hot ones that are left below.
    assert_eq!(demotes(HEAT_GUESSED), 10 * MIB);
    assert_eq!(demotes(HEAT_KNOWN), 10 * MIB + 15 * MIB);
}

#[test]
fn a_pod_bounds_its_containers() {
    let pod = Group {
        held: held(&[100_000]),
        max: 100_000,
        ..Group::default()
    };
    let inside = |pages: u64, max| Group {
        held: held(&[pages]),
        max,
        parent: 0,
        ..Group::default()
    };
    let tiers = Tiers::new(&[300_000, 100_000]);
    let room = Room {
        free: held(&[100_000, 100_000]),
        ..Room::default()
    };
    let budgets = |groups: &[Group]| {
        plan(&tiers, &room, &strict(1, 100_000), groups)
            .iter()
            .map(|moved| (moved.budget[0], moved.demote[0]))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        budgets(&[pod, inside(60_000, UNLIMITED), inside(40_000, UNLIMITED)]),
        [(75_000, 0), (45_000, 7_500), (30_000, 5_000)]
    );
    assert_eq!(
        budgets(&[pod, inside(60_000, UNLIMITED), inside(40_000, 26_667)]),
        [(75_000, 0), (56_250, 1_875), (18_750, 10_625)]
    );
}

#[test]
fn what_was_lent_below_makes_room_again() {
    // the middle tier is full of what no cgroup wanted there; the first is to be emptied into it
    let lender = Group {
        held: held(&[0, 500 * MIB, 0]),
        max: 600 * MIB,
        ..Group::default()
    };
    let over = Group {
        held: held(&[500 * MIB, 0, 0]),
        max: 600 * MIB,
        ..Group::default()
    };
    let wants = Group {
        held: held(&[0, 0, 300 * MIB]),
        max: 1_200 * MIB,
        ..Group::default()
    };
    let capacity = [510 * MIB, 510 * MIB, 1_000 * MIB];
    let groups = vec![lender, over, wants];
    let mut host = Machine::new(&capacity, 10 * MIB, lending(64, 1_000 * MIB), groups);
    host.settle(200);
    let first = host.groups[1].held[0] / MIB;
    assert!(first <= 300, "{first}");
}
