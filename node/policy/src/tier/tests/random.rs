// SPDX-License-Identifier: GPL-2.0-only
//! What holds of any host that follows its plans.

use super::*;
use proptest::prelude::*;

prop_compose! {
    fn random_group(groups: u32)(
        held in proptest::array::uniform3(0u64..100_000),
        hot in proptest::array::uniform3(0u64..101),
        heat_known in 0u32..3,
        protect in (0u64..4, 0u64..400_000, 0u64..400_000),
        limits in (0u64..500_000, 0u64..500_000),
        ratio in prop_oneof![Just(BY_CAPACITY), 0u32..=100],
        parent in prop_oneof![3 => Just(NO_PARENT), 1 => 0..groups],
    ) -> Group {
        let mut group = Group {
            min: if protect.0 == 1 { protect.1 } else { 0 },
            low: if protect.0 > 1 { protect.2 } else { 0 },
            high: if limits.0 > 300_000 { UNLIMITED } else { limits.0 },
            max: if limits.1 > 300_000 { UNLIMITED } else { limits.1 },
            ratio, heat_known, parent,
            ..Group::default()
        };
        for tier in 0..3 {
            group.held[tier] = held[tier];
            group.hot[tier] = held[tier] * hot[tier] / 100;
        }
        group
    }
}

fn random_groups() -> impl Strategy<Value = Vec<Group>> {
    (1u32..10).prop_flat_map(|count| proptest::collection::vec(random_group(count), count as usize))
}

/// Makes parents stand before their children, on two levels, and hold what these hold.
fn as_tree(mut groups: Vec<Group>) -> Vec<Group> {
    for i in 0..groups.len() {
        let parent = groups[i].parent as usize;
        if parent >= i || groups[parent].parent != NO_PARENT {
            groups[i].parent = NO_PARENT;
        }
    }
    let leaf: Vec<bool> = (0..groups.len())
        .map(|i| !groups.iter().any(|group| group.parent == i as u32))
        .collect();
    for i in (0..groups.len()).filter(|&i| !leaf[i]) {
        groups[i].held = [0; TIERS_MAX];
        groups[i].hot = [0; TIERS_MAX];
    }
    for i in 0..groups.len() {
        let group = groups[i];
        if group.parent != NO_PARENT {
            let parent = &mut groups[group.parent as usize];
            for tier in 0..3 {
                parent.held[tier] += group.held[tier];
                parent.hot[tier] += group.hot[tier];
            }
        }
    }
    groups
}

fn random_machine() -> impl Strategy<Value = Machine> {
    (
        random_groups(),
        proptest::array::uniform3(0u64..100_000),
        (2usize..=3, 0u32..2, 1u64..2_000, 20_000u64..1_000_000),
        (500u64..20_000, prop_oneof![Just(BY_CAPACITY), 1u32..=100]),
    )
        .prop_map(
            |(groups, spare, (count, lend, band, step), (headroom, ratio))| {
                let mut groups = as_tree(groups);
                for group in &mut groups {
                    for tier in count..3 {
                        (group.held[tier], group.hot[tier]) = (0, 0);
                    }
                }
                let mut capacities = [0; 3];
                for (tier, capacity) in capacities.iter_mut().enumerate() {
                    *capacity = spare[tier]
                        + groups
                            .iter()
                            .filter(|group| group.parent == NO_PARENT)
                            .map(|group| group.held[tier])
                            .sum::<u64>();
                }
                let settings = Settings { band, step, lend };
                let mut host = Machine::new(&capacities[..count], headroom, settings, groups);
                host.tiers.ratio = ratio;
                host
            },
        )
}

proptest! {
    /// Slowly where next to no memory is free.
    #[test]
    fn comes_to_rest_and_stays(mut host in random_machine()) {
        host.settle(20_000);
    }

    /// With room everywhere and no lending every cgroup is within its band, in the time that is
    /// stated: between two tiers, of cgroups that bound each other by nothing but their place.
    #[test]
    fn reaches_budgets_in_bounded_time(mut host in random_machine()) {
        host.settings.lend = 0;
        host.groups.retain(|group| group.parent == NO_PARENT);
        for group in &mut host.groups {
            (group.min, group.low, group.heat_known) = (0, 0, 0);
            (group.held[2], group.hot[2]) = (0, 0);
        }
        host.tiers.count = 2;
        host.tiers.capacity[2] = 0;
        host.tiers.capacity[0] += 3_000_000;
        host.tiers.capacity[1] += 3_000_000;
        let held: Vec<u64> = host.groups.iter().map(|group| group.held.iter().sum()).collect();
        let most = held.iter().copied().max().unwrap_or(0);
        let halvings = (most / host.settings.band).max(1).ilog2() + 2;
        let steps = held.iter().sum::<u64>() / host.settings.step;
        host.settle(steps as u32 + halvings + 1);
        for (i, moved) in host.plan().iter().enumerate() {
            let group = host.groups[i];
            let budget = moved.budget[0];
            let band = host.settings.band_of(budget);
            prop_assert!(group.held[0] <= budget.saturating_add(band));
            let short = budget.saturating_sub(group.held[0]).min(group.held[1]);
            prop_assert!(short <= band, "{short} of {budget}");
        }
    }

    /// No cgroup above its protected share is taken below it.
    #[test]
    fn min_is_never_passed(mut host in random_machine()) {
        for _ in 0..100 {
            let before: Vec<(bool, u64)> = host.groups.iter().map(|group| {
                let min = host.tiers.budget_up_to(group.ratio, group.min, 0);
                (group.parent == NO_PARENT && group.held[0] >= min, min)
            }).collect();
            if host.step() == 0 { break; }
            for (i, (above, min)) in before.into_iter().enumerate() {
                prop_assert!(!above || !host.leaf(i) || host.groups[i].held[0] >= min);
            }
        }
    }

    /// What is guessed of heat changes nothing between cgroups.
    #[test]
    fn a_guess_takes_nothing_from_others(mut host in random_machine()) {
        let mut with = |heat| {
            host.groups.iter_mut().for_each(|group| group.heat_known = heat);
            let plan = host.plan();
            let net = |moved: &Move| moved.demote[0] as i64 - moved.promote[0] as i64;
            plan.iter().map(net).collect::<Vec<_>>()
        };
        prop_assert_eq!(with(0), with(HEAT_GUESSED));
    }

    /// Children's budgets never add up to more than their parent's, nor to more than their own
    /// files say.
    #[test]
    fn nobody_gets_past_his_parent(host in random_machine()) {
        let moves = host.plan();
        for (i, group) in host.groups.iter().enumerate() {
            let own = host.tiers.budget_up_to(group.ratio, group.high.min(group.max), 0);
            prop_assert!(moves[i].budget[0] <= own);
            let children = (0..host.groups.len()).filter(|&k| host.groups[k].parent == i as u32);
            let of_children: u64 = children
                .map(|k| moves[k].budget[0].min(host.groups[k].held.iter().sum()))
                .sum();
            prop_assert!(of_children <= moves[i].budget[0]);
        }
    }
}
