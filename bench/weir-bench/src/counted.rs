// SPDX-License-Identifier: GPL-2.0-only
//! The machine of guests that count instructions, and of a twin that is held against them.

use scenario::model::Scenario;

/// CPU time of a `write()` and of each of its pages: a write of 4 KiB takes 7.1 us, one of 64 KiB
/// 103 (medians of fio, on ext4, where no task waits).
const CALL_NS: u64 = 700;
const PAGE_NS: u64 = 6_400;
/// CPU time of a page that is dirty already: 64 KiB take 28 to 41 us then, and 6.5 where they are
/// stored to through a mapping.
const REWRITE_NS: u64 = 2_000;
const STORE_NS: u64 = 400;
/// 64 KiB that were read ahead take 14.7 us, the call and 16 copies: the rest of what a page costs is
/// taking it from free memory, when it is asked for.
const READ_NS: u64 = 880;
/// Each 31st write of 4 KiB to a page that is not in the cache takes 24.7 us instead of 10.8.
const REFILL_NS: u64 = 13_900;
/// Time by which a write of 4 KiB takes longer, 10.8 us, each time its task has slept.
const WAKE_NS: u64 = 3_700;
/// A look at /proc/vmstat and at two cgroups: 341 us in arm stock, 472 in arm weir (the sampling
/// thread's schedstat).
const LOOK_NS: u64 = 400_000;
/// A page that reclaim looks at takes 2,480 instructions (`bench/weir-bench/tests/guest/scan.sh`).
const SCAN_NS: u64 = 2_480;
/// Time from a job's start to its first write, the same for 1 and 64 threads.
const START_NS: u64 = 280_000_000;
/// A flusher takes 2.2 us a page (1.9 to 2.4 in eight phases of `ceiling-ratio`).
const FLUSHER_BANDWIDTH: u64 = 1_860_000_000;

/// A page more of a large folio, in percent of that: flushers take 2.2 us for a page on ext4, and on
/// xfs 1.8, 1.2 and 0.78 where folios have 2, 16 and 64 pages (`scenarios/window/xfs-random.toml`,
/// `weights-nested.toml`, `xfs-fast.toml`).
const FLUSHER_MORE_PCT: u64 = 45;

/// Gives the scenario that machine: one CPU that takes a nanosecond for an instruction, whatever
/// machine emulates it. What 6.12 takes on it is known, so what the scenario says of the lab's CPUs
/// (`[twin]`) is put aside.
pub fn set_counted_machine(scenario: &mut Scenario) {
    scenario.host.cpus = 1;
    let twin = &mut scenario.twin;
    twin.call_ns = Some(CALL_NS);
    twin.page_ns = Some(PAGE_NS);
    twin.rewrite_ns = Some(REWRITE_NS);
    twin.read_ns = Some(READ_NS);
    twin.store_ns = Some(STORE_NS);
    twin.refill_ns = Some(REFILL_NS);
    twin.wake_ns = Some(WAKE_NS);
    twin.look_ns = Some(LOOK_NS);
    twin.scan_ns = Some(SCAN_NS);
    twin.start_ns = Some(START_NS);
    twin.flusher_bandwidth = Some(FLUSHER_BANDWIDTH);
    twin.flusher_more_pct = Some(FLUSHER_MORE_PCT);
}
