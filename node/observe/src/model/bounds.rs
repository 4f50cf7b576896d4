// SPDX-License-Identifier: GPL-2.0-only
//! Bounds on untrusted input. Readers drop what exceeds them.
//!
//! A file may be damaged or foreign. What exceeds a bound counts as damage where it is read, so
//! code that computes with the rest need not check each step for overflow.
//!
//! Only single numbers are bounded. A file has millions of them, so sums are in floating point, or
//! saturate.

use super::cgroup::{Cgroup, Io, IoMax};
use super::dirty_stat::DirtyStat;
use super::event::{Event, Limits, Pause, Rate, What};
use super::host::{Device, HostSettings, PAGE, PressureTotals, Writeback};
use super::reclaim::Vmscan;
use knobs::Knob;
use policy::division::HWEIGHT_SHOWN;

/// A size, or what goes to a device in a second or in all: sixteen times the memory that x86-64 can
/// have.
pub const MOST_BYTES: u64 = 1 << 56;
/// A time. Clocks of traces may count from 1970; this is in 2116.
pub const MOST_NS: u64 = 1 << 62;
/// Running totals of microseconds and of operations, which tasks add to side by side.
const MOST_COUNTED: u64 = 1 << 62;

/// Input that may be nonsense.
pub(crate) trait Plausible {
    /// Returns whether all its numbers can be.
    fn is_plausible(&self) -> bool;
}

/// A limit as it is written somewhere: one above everything is none.
pub(crate) fn plausible_limit(bytes: u64) -> Option<u64> {
    (bytes <= MOST_BYTES).then_some(bytes)
}

pub(super) fn all_at_most<const N: usize>(numbers: [u64; N], most: u64) -> bool {
    numbers.iter().all(|number| *number <= most)
}

fn plausible_pages<const N: usize>(numbers: [u64; N]) -> bool {
    all_at_most(numbers, MOST_BYTES / PAGE)
}

fn plausible_kib<const N: usize>(numbers: [u64; N]) -> bool {
    all_at_most(numbers, MOST_BYTES >> 10)
}

pub(crate) fn plausible_seconds(number: f64) -> bool {
    (0.0..=MOST_COUNTED as f64).contains(&number)
}

pub(crate) fn plausible_counts<const N: usize>(numbers: [u64; N]) -> bool {
    all_at_most(numbers, MOST_COUNTED)
}

impl Plausible for Event {
    fn is_plausible(&self) -> bool {
        self.ns <= MOST_NS
            && match &self.what {
                What::Pause(pause) => pause.is_plausible(),
                What::Limits(limits) => limits.is_plausible(),
                What::Rate(rate) => rate.is_plausible(),
                What::ReclaimSlept(slept) => slept.us.max(slept.timeout_us) <= MOST_NS / 1000,
                What::DecidedBy(_)
                | What::Woke
                | What::SwitchedOut(_)
                | What::SwitchedIn
                | What::ReclaimBegan
                | What::LimitReclaimBegan
                | What::ReclaimEnded
                | What::SyncBegan
                | What::SyncEnded
                | What::JournalBegan
                | What::JournalEnded
                | What::Forked(_)
                | What::Moved(..)
                | What::ReadQueued(..)
                | What::ReadCompleted(..) => true,
            }
    }
}

impl Plausible for Pause {
    fn is_plausible(&self) -> bool {
        let Pause {
            bdi: _,
            cgroup: _,
            limit,
            setpoint,
            dirty,
            bdi_setpoint,
            bdi_dirty,
            dirty_ratelimit,
            task_ratelimit,
            dirtied,
            pause_ms,
            period_ms,
        } = self;
        plausible_pages([*limit, *setpoint, *dirty, *bdi_setpoint, *bdi_dirty])
            && plausible_pages([*dirtied])
            && plausible_kib([*dirty_ratelimit, *task_ratelimit])
            && all_at_most([pause_ms.unsigned_abs(), *period_ms], MOST_NS / 1_000_000)
    }
}

impl Plausible for Limits {
    fn is_plausible(&self) -> bool {
        let Limits {
            dirty,
            writeback,
            background,
            thresh,
        } = *self;
        plausible_pages([dirty, writeback, background, thresh])
    }
}

impl Plausible for Rate {
    fn is_plausible(&self) -> bool {
        plausible_kib([self.written, self.dirtied])
    }
}

impl Plausible for PressureTotals {
    fn is_plausible(&self) -> bool {
        let PressureTotals {
            io_some,
            io_full,
            memory_some,
            memory_full,
        } = *self;
        all_at_most([io_some, io_full, memory_some, memory_full], MOST_NS / 1000)
    }
}

/// A sample and its time.
impl<T: Plausible> Plausible for (u64, T) {
    fn is_plausible(&self) -> bool {
        self.0 <= MOST_NS && self.1.is_plausible()
    }
}

impl Plausible for HostSettings {
    fn is_plausible(&self) -> bool {
        let HostSettings {
            dirty_bytes,
            dirty_ratio,
            background_bytes,
            background_ratio,
            dirtyable,
            memory,
            free,
            available,
            swap,
        } = *self;
        let (available, swap) = (available.unwrap_or(0), swap.unwrap_or(0));
        all_at_most(
            [dirty_bytes, background_bytes, memory, free, available, swap],
            MOST_BYTES,
        ) && all_at_most([dirty_ratio, background_ratio], 100)
            && plausible_pages([dirtyable])
    }
}

impl Plausible for Vmscan {
    fn is_plausible(&self) -> bool {
        let mut own = *self;
        plausible_pages(own.named_counters().map(|(_, number)| *number))
    }
}

impl Plausible for Device {
    fn is_plausible(&self) -> bool {
        let Device {
            bdi: _,
            min_ratio,
            max_ratio,
            max_fine,
            strict: _,
            filesystem: _,
            mounted_at: _,
            busy_ms,
            written,
            read,
            disk: _,
            below: _,
            queue,
            writeback,
        } = self;
        let queue = queue.unwrap_or_default();
        all_at_most([*min_ratio, *max_ratio], 100)
            && max_fine.is_none_or(|fine| fine <= 1_000_000)
            && plausible_counts([*busy_ms])
            && all_at_most([*written, *read], MOST_BYTES)
            && all_at_most([queue.requests, queue.kib], MOST_BYTES >> 10)
            && writeback.is_none_or(|writeback| writeback.is_plausible())
    }
}

impl Plausible for Writeback {
    fn is_plausible(&self) -> bool {
        let Writeback {
            dirty,
            writeback,
            limit,
            dirtied,
        } = *self;
        all_at_most([dirty, writeback, limit, dirtied], MOST_BYTES)
    }
}

impl Plausible for Cgroup {
    fn is_plausible(&self) -> bool {
        let Cgroup {
            path: _,
            inode: _,
            dirty,
            writeback,
            file,
            current,
            max,
            high,
            min,
            io_max,
            io_latency: _,
            io,
            io_pressure,
            memory_pressure,
            cpu_pressure,
            dirty_min,
            ceilings: _,
            weight,
            bandwidth,
            window,
            stat,
            grown,
            has_memory: _,
            has_io: _,
            reclaimed,
            refaulted,
            allocated,
            kills,
            dying,
        } = self;
        let limits = [max, high, dirty_min].map(|limit| limit.unwrap_or(0));
        let memory = [*reclaimed, *refaulted, allocated.unwrap_or(0)];
        all_at_most([*dirty, *writeback, *file, *current, *min], MOST_BYTES)
            && all_at_most(memory, MOST_BYTES)
            && all_at_most(limits, MOST_BYTES)
            && grown.is_none_or(|grown| grown.unsigned_abs() <= 2 * MOST_BYTES)
            && plausible_counts([
                *io_pressure,
                *memory_pressure,
                *cpu_pressure,
                *kills,
                *dying,
            ])
            && weight.is_none_or(|weight| weight <= Knob::DirtyWeight.value_range().1)
            && [bandwidth, window]
                .iter()
                .all(|limit| limit.unwrap_or(0) <= MOST_BYTES)
            && stat.is_none_or(|stat| stat.is_plausible())
            && io.values().all(Plausible::is_plausible)
            && io_max.values().all(Plausible::is_plausible)
    }
}

impl Plausible for Io {
    fn is_plausible(&self) -> bool {
        all_at_most([self.written, self.read], MOST_BYTES) && plausible_counts([self.writes])
    }
}

impl Plausible for IoMax {
    fn is_plausible(&self) -> bool {
        let limits = [self.wbps, self.rbps, self.wiops].map(|limit| limit.unwrap_or(0));
        all_at_most(limits, MOST_BYTES)
    }
}

impl Plausible for DirtyStat {
    fn is_plausible(&self) -> bool {
        let DirtyStat {
            floor,
            ceiling,
            weight_portion,
            throttled_usec,
            weight_held,
            weight_held_usec,
            bandwidth_held,
            bandwidth_held_usec,
            window_held,
            window_held_usec,
        } = *self;
        all_at_most([floor, ceiling.unwrap_or(0)], MOST_BYTES)
            && weight_portion <= HWEIGHT_SHOWN.into()
            && plausible_counts([throttled_usec, weight_held, weight_held_usec])
            && plausible_counts([bandwidth_held, bandwidth_held_usec])
            && plausible_counts([window_held, window_held_usec])
    }
}
