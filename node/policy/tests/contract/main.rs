// SPDX-License-Identifier: GPL-2.0-only
//! The pass contract, held under injected faults.
//!
//! A host with three cgroups goes through some hundred passes of writers, flushers and readers.
//! What each pass sees is arbitrary: limits that the operator or memory pressure moves, counts that
//! are right, stale or garbage, knobs rewritten between two calls of one pass, a `memory.max` that
//! shrinks, probes that are lost. Before each pass the kernel's state is copied and *stock* takes
//! the same pass from there; [`broken`] compares.
//!
//! What "the shared state never exceeds stock" means needs care. A pass that a floor leaves out is
//! a free-running pass: it raises nothing, but neither does it lower what a throttled pass would
//! have lowered. And a ceiling throttles writers where stock would not, and such a pass raises the
//! global `dirty_limit` to the limit of the day, as any throttled pass does. The same holds for all
//! writers while something is reserved and unused. So a bare comparison of two histories pass by
//! pass is too strict, and these are the rules:
//!
//! * the global `dirty_limit` is never above the highest limit stock itself computed so far, nor
//!   any `dirty_ratelimit` above the highest bandwidth stock measured so far (or a fresh device's);
//! * while the operator's limit stands still, the global `dirty_limit` is never above that of a
//!   stock host that went through the same passes from the start;
//! * a cgroup without a ceiling, while nothing is reserved and no writer is let go by half (the
//!   second of two probes lost): no pass leaves a `dirty_ratelimit` higher than it was and higher
//!   than stock would have left it.
//!
//! And no pass, whatever is believed to be reserved, finds a limit of the host higher than stock's.
//!
//! The design that weir was chosen over, lifting the limits of both domains, must break them: a
//! test that cannot fail shows nothing.

mod host;
mod kernel;
mod modules;
mod subtree;

use kernel::{
    Caller, INITIAL_BANDWIDTH, Kernel, Module, Outcome, Pass, Stock, Sysctl, Throttle, host_limits,
};
use modules::{Faults, Knobs, Lift, Weir};
use policy::UNLIMITED;
use policy::ceiling::{Ceiling, Counts};
use policy::pass::Facts;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeSet;

const CGROUPS: usize = 3;

/// What the contract promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rule {
    GlobalLimitsNeverRaised,
    GlobalDirtyLimitWithinStock,
    RatelimitWithinStock,
    ReadersSeeStock,
    StrictlimitIsStock,
    CeilingNeverWidens,
    FlusherNeverStopsEarlier,
    FloorWithinMemoryMax,
}

type Load = for<'a> fn(&'a Faults) -> Box<dyn Module + 'a>;

fn weir(faults: &Faults) -> Box<dyn Module + '_> {
    Box::new(Weir::new(faults))
}

fn lift(faults: &Faults) -> Box<dyn Module + '_> {
    Box::new(Lift(faults))
}

/// A module, and whether it raised a limit of the global domain, or left no room below it.
struct Watched<'a> {
    module: Box<dyn Module + 'a>,
    global_raised: bool,
    /// It took the dirty pages out of a writer's pass.
    released: bool,
}

impl Module for Watched<'_> {
    fn enter(&mut self, pass: &Pass) -> bool {
        self.module.enter(pass)
    }

    fn limits(
        &mut self,
        pass: &Pass,
        facts: Facts,
        throttle: &mut Throttle,
        dirty_limit: &mut u64,
    ) {
        let before = (*throttle, *dirty_limit);
        self.module.limits(pass, facts, throttle, dirty_limit);
        self.released |= facts.has_gdtc == 0 && throttle.dirty < before.0.dirty;
        self.global_raised |= facts.has_gdtc == 0
            && before != (*throttle, *dirty_limit)
            && (throttle.thresh > before.0.thresh
                || throttle.bg_thresh > before.0.bg_thresh
                || throttle.dirty > before.0.dirty
                || *dirty_limit > before.1
                || throttle.bg_thresh >= throttle.thresh);
    }
}

/// The rules that a module breaks on a history.
fn broken(history: &[(Pass, Faults)], load: Load) -> BTreeSet<Rule> {
    let mut broken = BTreeSet::new();
    let mut rule = |rule, holds: bool| {
        if !holds {
            broken.insert(rule);
        }
    };
    let Some((first, _)) = history.first() else {
        return broken;
    };
    let boot_limit = host_limits(first, 0).thresh;
    let mut kernel = Kernel::new(boot_limit, CGROUPS);
    let mut twin = kernel.clone();
    let mut reachable_limit = boot_limit;
    let mut reachable_rate = INITIAL_BANDWIDTH;
    let mut limit_stands_still = true;

    for (pass, faults) in history {
        let before = kernel.clone();
        let mut stock = kernel.clone();
        let stock_outcome = stock.step(pass, &mut Stock);
        let mut watched = Watched {
            module: load(faults),
            global_raised: false,
            released: false,
        };
        let outcome = kernel.step(pass, &mut watched);
        rule(Rule::GlobalLimitsNeverRaised, !watched.global_raised);
        twin.step(pass, &mut Stock);

        reachable_limit = reachable_limit.max(host_limits(pass, reachable_limit).thresh);
        reachable_rate = reachable_rate.max(pass.write_bandwidth);
        limit_stands_still &= host_limits(pass, kernel.dirty_limit).thresh == boot_limit;
        rule(
            Rule::GlobalDirtyLimitWithinStock,
            kernel.dirty_limit <= reachable_limit,
        );
        if limit_stands_still {
            rule(
                Rule::GlobalDirtyLimitWithinStock,
                kernel.dirty_limit <= twin.dirty_limit,
            );
        }
        let half_released = watched.released && faults.lose_cgroup;
        for (index, group) in kernel.groups.iter().enumerate() {
            rule(
                Rule::RatelimitWithinStock,
                group.dirty_ratelimit <= reachable_rate,
            );
            let ceiling = faults.at_limits[pass.cgroup]
                .ceiling
                .limit_pages(pass.cgroup_avail);
            if index != pass.cgroup || ceiling == UNLIMITED && faults.unused == 0 && !half_released
            {
                let highest = before.groups[index]
                    .dirty_ratelimit
                    .max(stock.groups[index].dirty_ratelimit);
                rule(Rule::RatelimitWithinStock, group.dirty_ratelimit <= highest);
            }
        }
        if pass.strictlimit && faults.unused == 0 {
            rule(
                Rule::StrictlimitIsStock,
                outcome == stock_outcome && kernel == stock,
            );
        }
        match (stock_outcome, outcome) {
            (Outcome::Read(stock_value), Outcome::Read(value)) => {
                rule(
                    Rule::ReadersSeeStock,
                    value == stock_value && kernel == before,
                );
            }
            (Outcome::FlusherGoesOn(stock), Outcome::FlusherGoesOn(goes_on)) => {
                rule(Rule::FlusherNeverStopsEarlier, goes_on || !stock);
            }
            (_, Outcome::LeftOut) => {
                let Counts { dirty, writeback } = faults.counts;
                let knobs = faults.at_entry[pass.cgroup];
                let held = dirty.saturating_add(writeback);
                rule(Rule::FloorWithinMemoryMax, held < knobs.memory_max / 2);
                rule(Rule::GlobalDirtyLimitWithinStock, kernel == before);
            }
            (Outcome::Throttled(_), outcome) => {
                rule(
                    Rule::CeilingNeverWidens,
                    matches!(outcome, Outcome::Throttled(_)) || watched.released,
                );
            }
            _ => {}
        }
    }
    broken
}

/// Any count at all, mostly the sort a host has.
fn garbage() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..40_000u64, 1 => any::<u64>(), 1 => Just(0), 1 => Just(UNLIMITED)]
}

fn counts(most: u64) -> impl Strategy<Value = Counts> {
    (0..most, 0..most / 2).prop_map(|(dirty, writeback)| Counts { dirty, writeback })
}

fn any_counts() -> impl Strategy<Value = Counts> {
    let garbage = (garbage(), garbage()).prop_map(|(dirty, writeback)| Counts { dirty, writeback });
    prop_oneof![2 => counts(10_000), 1 => garbage]
}

fn caller() -> impl Strategy<Value = Caller> {
    prop_oneof![
        6 => any::<bool>().prop_map(|realtime| Caller::Writer { realtime }),
        2 => Just(Caller::Flusher),
        1 => Just(Caller::HostReader),
        1 => Just(Caller::CgroupReader),
    ]
}

fn sysctl() -> impl Strategy<Value = Sysctl> {
    prop_oneof![
        (2..40_000u64, 0..40_000u64)
            .prop_map(|(limit, background)| Sysctl::Pages { limit, background }),
        (1..=100u64, 0..=100u64)
            .prop_map(|(limit, background)| Sysctl::Percent { limit, background }),
    ]
}

prop_compose! {
    fn any_pass()(
        caller in caller(), cgroup in 0..CGROUPS, strictlimit in prop::bool::weighted(0.1),
        sysctl in sysctl(), host_avail in 1..100_000u64, cgroup_avail in 0..50_000u64,
        host in counts(40_000), cgroup_kernel in counts(20_000), share in 0..=1024u64,
        wb_dirty in 0..20_000u64, write_bandwidth in 1..200_000u64, dirty_rate in 0..200_000u64,
    ) -> Pass {
        Pass {
            caller, cgroup, strictlimit, sysctl, host_avail, cgroup_avail, host, cgroup_kernel,
            share, wb_dirty, write_bandwidth, dirty_rate,
        }
    }
}

prop_compose! {
    fn knobs()(
        dirty_min in garbage(),
        bytes in prop_oneof![Just(UNLIMITED), 8_192..(40_000u64 << 12)],
        ratio_percent in prop_oneof![Just(0), 1..=100u32],
        memory_max in prop_oneof![3 => Just(UNLIMITED), 1 => Just(0), 6 => 0..40_000u64],
        memory_min in prop_oneof![3 => Just(0), 1 => 0..40_000u64],
    ) -> Knobs {
        Knobs { dirty_min, ceiling: Ceiling { bytes, ratio_percent }, memory_max, memory_min }
    }
}

prop_compose! {
    fn faults()(
        lost in (prop::bool::weighted(0.2), prop::bool::weighted(0.2), prop::bool::weighted(0.2)),
        at_entry in vec(knobs(), CGROUPS), rewritten in vec(knobs(), CGROUPS),
        rewrite in any::<bool>(), counts in any_counts(), wb_dirty in garbage(),
        foreign in garbage(), host_dirty in garbage(), host_thresh in garbage(),
        unused in prop_oneof![Just(0), 0..40_000u64, garbage()],
    ) -> Faults {
        let at_limits = if rewrite { rewritten } else { at_entry.clone() };
        Faults {
            lose_entry: lost.0, lose_global: lost.1, lose_cgroup: lost.2,
            at_entry, at_limits, counts, wb_dirty, foreign, host_dirty, host_thresh,
            unused,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn weir_keeps_the_contract_whatever_goes_wrong(
        history in vec((any_pass(), faults()), 1..150)
    ) {
        prop_assert_eq!(broken(&history, weir), BTreeSet::new());
    }

    /// The operator's limit never moves, so the comparison with the stock twin is strict
    /// throughout.
    #[test]
    fn weir_never_exceeds_its_stock_twin(
        mut history in vec((any_pass(), faults()), 1..150), limit in 2..40_000u64
    ) {
        for (pass, _) in &mut history {
            pass.sysctl = Sysctl::Pages { limit, background: limit / 2 };
            if pass.caller == (Caller::Writer { realtime: true }) {
                pass.caller = Caller::Writer { realtime: false };
            }
        }
        prop_assert_eq!(broken(&history, weir), BTreeSet::new());
    }
}

/// A victim below its floor on a host full of other cgroups' dirty pages: limit 8,192 pages, all of
/// them dirty, 1,536 the victim's.
fn crowded() -> (Pass, Faults) {
    let pass = Pass {
        caller: Caller::Writer { realtime: false },
        cgroup: 0,
        strictlimit: false,
        sysctl: Sysctl::Pages {
            limit: 8_192,
            background: 4_096,
        },
        host_avail: 400_000,
        cgroup_avail: 100_000,
        host: Counts {
            dirty: 8_192,
            writeback: 0,
        },
        cgroup_kernel: Counts {
            dirty: 1_536,
            writeback: 0,
        },
        share: 1024,
        wb_dirty: 1_536,
        write_bandwidth: 64,
        dirty_rate: 125,
    };
    let ceiling = Ceiling {
        bytes: UNLIMITED,
        ratio_percent: 0,
    };
    let unset = Knobs {
        dirty_min: 0,
        ceiling,
        memory_max: UNLIMITED,
        memory_min: 0,
    };
    let knobs = vec![
        Knobs {
            dirty_min: 4_096,
            ..unset
        },
        unset,
        unset,
    ];
    let faults = Faults {
        lose_entry: false,
        lose_global: false,
        lose_cgroup: false,
        at_entry: knobs.clone(),
        at_limits: knobs,
        counts: pass.cgroup_kernel,
        wb_dirty: 1_536,
        foreign: 0,
        host_dirty: 8_192,
        host_thresh: 8_192,
        unused: 0,
    };
    (pass, faults)
}

#[test]
fn the_floor_frees_the_victim_and_only_the_victim() {
    let (pass, faults) = crowded();
    let mut kernel = Kernel::new(8_192, CGROUPS);
    assert_eq!(
        kernel.step(&pass, &mut Stock),
        Outcome::Throttled(0),
        "stock: a full stop"
    );
    assert_eq!(
        kernel.step(&pass, &mut Weir::new(&faults)),
        Outcome::LeftOut
    );
    let noisy = Pass { cgroup: 1, ..pass };
    assert_eq!(
        kernel.step(&noisy, &mut Weir::new(&faults)),
        Outcome::Throttled(0)
    );
}

/// What the victim may still use is not the noisy one's: it is throttled before the host is at its
/// limit.
#[test]
fn what_is_reserved_is_held_back_from_the_others_only() {
    let (pass, faults) = crowded();
    let host = Counts {
        dirty: 5_640,
        writeback: 0,
    };
    let faults = Faults {
        unused: 4_096 - 1_536,
        host_dirty: 5_640,
        ..faults
    };
    let noisy = Pass {
        cgroup: 1,
        host,
        ..pass.clone()
    };
    let mut kernel = Kernel::new(8_192, CGROUPS);
    assert_eq!(kernel.step(&noisy, &mut Stock), Outcome::Free);
    assert_eq!(
        kernel.step(&noisy, &mut Weir::new(&faults)),
        Outcome::Throttled(0)
    );
    let victim = Pass { host, ..pass };
    assert_eq!(
        kernel.step(&victim, &mut Weir::new(&faults)),
        Outcome::LeftOut
    );
    let flusher = Pass {
        caller: Caller::Flusher,
        host: Counts {
            dirty: 3_000,
            writeback: 0,
        },
        cgroup_kernel: Counts {
            dirty: 0,
            writeback: 0,
        },
        wb_dirty: 0,
        ..noisy
    };
    assert_eq!(
        kernel.step(&flusher, &mut Stock),
        Outcome::FlusherGoesOn(false)
    );
    assert_eq!(
        kernel.step(&flusher, &mut Weir::new(&faults)),
        Outcome::FlusherGoesOn(true)
    );
}

#[test]
fn a_lost_probe_costs_one_decision_and_leaves_no_trace() {
    let (pass, faults) = crowded();
    let faults = Faults {
        lose_entry: true,
        ..faults
    };
    let (mut kernel, mut stock) = (Kernel::new(8_192, CGROUPS), Kernel::new(8_192, CGROUPS));
    assert_eq!(
        kernel.step(&pass, &mut Weir::new(&faults)),
        Outcome::Free,
        "let go inside"
    );
    assert_eq!(kernel, stock, "and nothing moved");
    let faults = Faults {
        lose_global: true,
        ..faults
    };
    assert_eq!(
        kernel.step(&pass, &mut Weir::new(&faults)),
        stock.step(&pass, &mut Stock)
    );
    assert_eq!(kernel, stock);
}

/// The cgroup's domain is above its own freerun level too, so it needs the lift as well; its probe
/// is lost. The lifted global limit then reaches the global `dirty_limit`, in one step, and once
/// the device gets faster, `dirty_ratelimit` rises further than stock would let it.
#[test]
fn lifting_both_domains_breaks_the_contract_when_one_probe_is_lost() {
    let (pass, faults) = crowded();
    let pass = Pass {
        cgroup_avail: 93_000,
        dirty_rate: 10,
        ..pass
    };
    let shared_state = [
        Rule::GlobalDirtyLimitWithinStock,
        Rule::RatelimitWithinStock,
    ];
    let harmless = broken(&[(pass.clone(), faults.clone())], lift);
    assert!(
        shared_state.iter().all(|rule| !harmless.contains(rule)),
        "none lost: {harmless:?}"
    );

    let both = Faults {
        lose_global: true,
        lose_cgroup: true,
        ..faults.clone()
    };
    let second = Faults {
        lose_cgroup: true,
        ..faults
    };
    let mut history = vec![(pass.clone(), both); 200];
    assert_eq!(broken(&history, lift), BTreeSet::new(), "both lost");
    let faster = Pass {
        write_bandwidth: 1_000,
        ..pass
    };
    history.extend(vec![(faster, second); 3]);
    let harmful = broken(&history, lift);
    assert!(
        shared_state.iter().all(|rule| harmful.contains(rule)),
        "one lost: {harmful:?}"
    );
    assert_eq!(broken(&history, weir), BTreeSet::new());
}
