// SPDX-License-Identifier: GPL-2.0-only
//! Cases at the edges, and those the fuzzer kept.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use std::{fs, path::Path};

/// Counts where something changes: nothing, a few, a host's worth, 32 bits, 64 bits.
fn pages() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..4u64,
        0..100_000u64,
        PAGES_MAX - 3..PAGES_MAX + 4,
        UNLIMITED - 3..=UNLIMITED,
        (any::<u64>(), 0..64u32).prop_map(|(bits, shift)| bits >> shift),
    ]
}

fn truth() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), Just(1), any::<u32>()]
}

prop_compose! {
    fn limits()(thresh in pages(), bg_thresh in pages(), dirty in pages(), dom_limit in pages())
        -> Limits { Limits { thresh, bg_thresh, dirty, dom_limit } }
}
prop_compose! {
    fn counts()(dirty in pages(), writeback in pages()) -> Counts { Counts { dirty, writeback } }
}
prop_compose! {
    fn caps()(wanted in pages(), memory_max in pages(), memory_min in pages())
        -> Caps { Caps { wanted, memory_max, memory_min } }
}
prop_compose! {
    fn facts()(has_wb in truth(), has_gdtc in truth(), gdtc_has_wb in truth(),
               in_flusher in truth(), strictlimit in truth())
        -> Facts { Facts { has_wb, has_gdtc, gdtc_has_wb, in_flusher, strictlimit } }
}
prop_compose! {
    fn floor_pass()(floor in pages(), memcg_dirty in pages(), wb_dirty in pages(),
                    foreign in pages(), host_dirty in pages(), host_thresh in pages(),
                    floors_total in pages(), left in pages(), strictlimit in truth(),
                    cgroup_domain in truth())
        -> FloorPass {
        FloorPass { floor, memcg_dirty, wb_dirty, foreign, host_dirty, host_thresh,
                    floors_total, left, strictlimit, cgroup_domain }
    }
}
prop_compose! {
    fn cover()(floor in pages(), claim in pages(), by_folio in pages(), in_wb in pages(),
               foreign in pages())
        -> Cover { Cover { floor, claim, by_folio, in_wb, foreign } }
}
prop_compose! {
    fn budget()(pages in pages(), own in pages(), written in pages(), of_device in pages(),
                since_ns in pages(), shared in truth())
        -> Budget { Budget { pages, own, written, of_device, since_ns, shared } }
}
prop_compose! {
    fn drain()(rate in pages(), seen_ms in pages(), in_flight in pages(), silent_ms in pages(),
               calm_ms in pages(), dirtyable in pages(), limit in pages())
        -> Drain { Drain { rate, seen_ms, in_flight, silent_ms, calm_ms, dirtyable, limit } }
}
prop_compose! {
    fn beat()(limits in limits(), seconds in 0..100u64, elapsed_ms in prop_oneof![Just(200), pages()],
              dirtyable in pages(), writeback in pages(), written in pages(),
              kswapd in (pages(), pages()), direct_scanned in prop_oneof![Just(0), pages()],
              memory_stall_percent in 15..25u32, tighten in truth())
        -> Beat {
        Beat { seconds, elapsed_ms, thresh: limits.thresh, bg_thresh: limits.bg_thresh, dirtyable,
               dirty: limits.dirty, writeback, written, kswapd_scanned: kswapd.0,
               kswapd_taken: kswapd.1, direct_scanned, memory_stall_percent, tighten }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn hweights(weights in vec(prop_oneof![any::<u16>(), 1..=200u16], 1..20), parent in 0..=HWEIGHT_ONE) {
        Case::Hweights { weights, parent }.check();
    }

    #[test]
    fn orders(vtime in pages(), least in pages(), pages in pages(), hweight in prop_oneof![0..=HWEIGHT_ONE, any::<u32>()], budget in pages()) {
        Case::Order { vtime, least, pages, hweight, budget }.check();
    }

    #[test]
    fn budgets_of_divisions(budget in prop_oneof![Just(Budget::default()), budget()], notes in vec((pages(), pages(), pages()), 0..20), in_flight in pages()) {
        Case::Budget { budget, notes, in_flight }.check();
    }

    #[test]
    fn fairness(weights in any::<[u8; 2]>(), pages_per_ms in any::<u16>(), turns in any::<u64>()) {
        Case::Fairness { weights, pages_per_ms, turns }.check();
    }

    #[test]
    fn arithmetic(a in pages(), b in pages(), c in pages()) {
        Case::Arith { a, b, c }.check();
    }

    #[test]
    fn drains(drain in drain(), beat in beat()) {
        Case::Drain { drain, beat }.check();
    }

    #[test]
    fn drain_amends(limits in limits(), limit in pages(), stock in pages()) {
        Case::DrainAmend { limits, limit, stock }.check();
    }

    #[test]
    fn passes(facts in facts()) {
        Case::Pass(facts).check();
    }

    #[test]
    fn floors(cgroups in vec(caps(), 0..40), host_thresh in pages()) {
        Case::Floors { cgroups, host_thresh }.check();
    }

    /// A floor goes through the memory of each cgroup on its path: what is left is the least of all.
    #[test]
    fn floors_within_memory(path in vec(caps(), 1..9), wanted in pages()) {
        let within = |wanted, caps: &Caps| Caps { wanted, ..*caps }.capped_floor();
        let floor = path.iter().fold(wanted, within);
        let rooms = path.iter().map(|caps| within(UNLIMITED, caps));
        prop_assert_eq!(floor, rooms.min().unwrap_or(UNLIMITED).min(wanted));
    }

    #[test]
    fn stale_pools(own in pages(), wanted_total in pages(), host_thresh in pages()) {
        Case::StalePool { own, pool: Pool { wanted_total, host_thresh } }.check();
    }

    #[test]
    fn floor_passes(pass in floor_pass(), more in pages()) {
        Case::FloorPass { pass, more }.check();
    }

    #[test]
    fn floors_on_a_path(pass in floor_pass(), floors in vec(cover(), 0..9)) {
        Case::FloorCover { pass, floors }.check();
    }

    #[test]
    fn subtrees(
        levels in vec((any::<u8>(), prop_oneof![Just(0), 0..3_000u32, any::<u32>()]), 1..12),
        tellings in vec((any::<u8>(), prop_oneof![0..4_000u32, any::<u32>()], 0..4_000u32), 0..60),
    ) {
        Case::Subtrees { levels, tellings }.check();
    }

    #[test]
    fn credit_of_writers(passes in vec(any::<(u16, u16)>(), 0..100), most in pages()) {
        Case::CreditOfWriters { passes, most }.check();
    }

    /// A cgroup that writes its own files on several devices: pages are recorded in a wb at
    /// once and reported later, whichever device a task's pass happens to be on.
    #[test]
    fn own_writers_owe_nothing(
        writes in vec((0..4usize, 0..200u16, 0..4usize), 1..100)
    ) {
        let mut unreported = [0; 4];
        let mut credit = Credit::default();
        for (dirtier, pages, reporter) in writes {
            unreported[dirtier] += u64::from(pages);
            let own = std::mem::take(&mut unreported[reporter]);
            credit.charge_pass(UNLIMITED, own, pages.into(), true);
            prop_assert_eq!(credit.foreign_pages(), 0);
        }
    }

    #[test]
    fn credit_of_anything(
        balance in any::<i64>(), most in pages(), own in pages(), recorded in pages(),
        admitted in any::<bool>()
    ) {
        let credit = Credit { balance };
        Case::CreditOfAnything { credit, most, own, recorded, admitted }.check();
    }

    #[test]
    fn texts(text in "[ \t\n]{0,2}([0-9]{1,22}|max|[0-9kKmMgGtTax+. -]{0,6})[kKmMgGtT]?[ \n\r]{0,2}") {
        Case::Text(text.into_bytes()).check();
    }

    #[test]
    fn numbers(bytes in pages()) {
        Case::Text(bytes.to_string().into_bytes()).check();
        Case::Text((bytes >> 1).to_string().into_bytes()).check();
    }

    #[test]
    fn ceilings(bytes in pages(), ratio_percent in 0..102u32, avail in pages()) {
        Case::CeilingPages { knobs: Ceiling { bytes, ratio_percent }, avail }.check();
    }

    #[test]
    fn headrooms(path in vec((pages(), pages()), 0..9)) {
        Case::Headroom(path).check();
    }

    #[test]
    fn dirtyable_memory(file in pages(), dirty in pages(), headroom in pages(),
                        host_avail in pages(), host_dirty in pages()) {
        Case::Avail(Memory { file, dirty, headroom, host_avail, host_dirty }).check();
    }

    #[test]
    fn amendments(limits in limits(), ceiling in pages(), counts in counts(), kind in 0..3u8) {
        Case::Amend { limits, ceiling, counts, kind }.check();
    }

    #[test]
    fn reservations(limits in limits(), unused in pages(), kind in 0..3u8) {
        Case::HostAmend { limits, host: Reservation { unused }, kind }.check();
    }

    #[test]
    fn pauses(thresh in 0..3u64, dirty in 0..3u64, cgroup_thresh in 0..3u64, cgroup_dirty in 0..3u64,
              cgroup_seen in truth(), strictlimit in truth(),
              judged_by in prop_oneof![Just(Decider::Cgroup), Just(Decider::Ceiling), Just(Decider::Ancestor)]) {
        Case::Pause(pause::Facts { thresh, dirty, cgroup_thresh, cgroup_dirty, cgroup_seen, strictlimit, judged_by })
            .check();
    }

    #[test]
    fn ceilings_on_a_path(stock in limits(), path in vec((pages(), counts()), 0..9), kind in 0..3u8) {
        Case::Path { stock, path, kind }.check();
    }

    #[test]
    fn polls(ceiling in pages(), freerun in pages(), counts in counts(), stock_poll in pages()) {
        Case::Poll { ceiling, freerun, counts, stock_poll }.check();
    }

    #[test]
    fn what_a_fuzzer_might_say(bytes in vec(any::<u8>(), 0..200)) {
        if let Some(case) = Case::from_bytes(&bytes) {
            case.check();
        }
    }
}

/// Ratios whose virtual times are no whole numbers of pages, on disks as slow as a part is small.
#[test]
fn small_parts_are_divided_by_weight() {
    for weights in [[1, 9], [9, 227], [3, 254], [1, 255]] {
        for pages_per_ms in [0, 1, 4, 50] {
            for turns in [0, u64::MAX, 1] {
                super::weights::check_fairness(weights, pages_per_ms, turns);
            }
        }
    }
}

#[test]
fn what_the_fuzzer_found_interesting() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/policy");
    let mut replayed = 0;
    for entry in fs::read_dir(&corpus).expect("the committed corpus") {
        let path = entry.expect("a corpus entry").path();
        let bytes = fs::read(&path).expect("a corpus file");
        if let Some(case) = Case::from_bytes(&bytes) {
            println!("{}: {case:?}", path.display()); // shown if the check panics
            case.check();
            replayed += 1;
        }
    }
    assert!(
        replayed > 50,
        "only {replayed} cases in {}",
        corpus.display()
    );
}
