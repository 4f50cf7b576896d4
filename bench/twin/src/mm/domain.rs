// SPDX-License-Identifier: GPL-2.0-only
//! A domain: what shares one dirty limit. The host is one, each cgroup another.
//!
//! Its limits are computed afresh in every pass, from what can be dirtied at all:
//!
//! - the host's are the sysctl's bytes, or its percentage of dirtyable memory;
//! - a cgroup's are the same share of the cgroup's own dirtyable memory, in 4,096ths of it and
//!   rounded up: bytes cannot be applied to a cgroup as they are.
//!
//! Freerun, (background + limit) / 2, is where throttling begins. What throttles hard is the limit
//! *smoothed*: raised at once, lowered by 1/32 of the way in 200 ms and never below what is dirty,
//! so that no writer is suddenly far above a limit that has just shrunk.
//!
//! Example. Limit 32 MiB of 1,800 MiB dirtyable: a cgroup that could dirty 900 MiB has 75 / 4,096
//! of it, 16.5 MiB.

use crate::mm::fprop::FpropGlobal;
use crate::sim::clock::{HZ, Ticks};
use policy::arith;
use policy::ceiling::Limits;

/// Bytes of a page of the simulated host: a model of x86-64, whatever this host's are.
pub const PAGE: u64 = 1 << policy::PAGE_SHIFT;
/// The throttle adapts this often.
pub const BANDWIDTH_INTERVAL: Ticks = HZ / 5;

/// `vm.dirty_bytes` and the like: bytes if they were written, else percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Bytes of the whole host.
    Bytes(u64),
    /// Percent of dirtyable memory.
    Percent(u64),
}

/// The sysctls of writeback.
#[derive(Clone, Copy, Debug)]
pub struct Sysctl {
    /// `vm.dirty_bytes` or `vm.dirty_ratio`.
    pub limit: Level,
    /// `vm.dirty_background_bytes` or `vm.dirty_background_ratio`.
    pub background: Level,
    /// Age at which pages are written whatever the levels.
    pub dirty_expire_interval: Ticks,
    /// Ticks from one look of the flushers for such pages to the next; 0 never.
    pub dirty_writeback_interval: Ticks,
}

impl Level {
    /// Of the host, whose dirtyable memory is `avail`.
    fn pages_of_host(self, avail: u64) -> u64 {
        match self {
            Level::Bytes(bytes) => bytes.div_ceil(PAGE),
            Level::Percent(percent) => percent * PAGE / 100 * avail / PAGE,
        }
    }

    /// Of a cgroup with `avail` dirtyable, on a host with `host_avail`.
    fn pages_of_cgroup(self, avail: u64, host_avail: u64) -> u64 {
        let share = match self {
            Level::Bytes(bytes) => bytes.div_ceil(host_avail.max(1)).min(PAGE),
            Level::Percent(percent) => percent * PAGE / 100,
        };
        share * avail / PAGE
    }
}

impl Sysctl {
    /// Limit and background level in pages; `host_avail` is given for a cgroup's domain.
    pub fn dirty_levels(&self, avail: u64, host_avail: Option<u64>) -> (u64, u64) {
        let of = |level: Level| match host_avail {
            None => level.pages_of_host(avail),
            Some(host) => level.pages_of_cgroup(avail, host),
        };
        let thresh = of(self.limit).min(policy::PAGES_MAX);
        let background = of(self.background);
        (
            thresh,
            if background >= thresh {
                thresh / 2
            } else {
                background
            },
        )
    }
}

/// State of a domain that outlives a pass.
#[derive(Clone, Debug, Default)]
pub struct WbDomain {
    /// The smoothed limit, in pages.
    pub dirty_limit: u64,
    /// Tick at which that limit was last moved.
    pub dirty_limit_tstamp: Ticks,
    /// Completions that make shares of the limit.
    pub completions: FpropGlobal,
}

impl WbDomain {
    /// Moves the smoothed limit, if it is time to.
    pub fn update_dirty_limit(&mut self, thresh: u64, dirty: u64, now: Ticks) {
        if now < self.dirty_limit_tstamp + BANDWIDTH_INTERVAL {
            return;
        }
        self.dirty_limit_tstamp = now;
        let target = thresh.max(dirty);
        if self.dirty_limit < thresh {
            self.dirty_limit = thresh;
        } else if self.dirty_limit > target {
            self.dirty_limit -= (self.dirty_limit - target) / 32;
        }
    }
}

/// One domain as one pass finds it, for one device's writeback.
#[derive(Clone, Copy, Debug)]
pub struct Dtc {
    /// Dirtyable memory in pages.
    pub avail: u64,
    /// Limits, what is dirty, the smoothed limit.
    pub limits: Limits,
    /// Level at which throttling begins.
    pub freerun: u64,
    /// Pages that this writeback holds of it.
    pub wb_dirty: u64,
    /// Its share of the limit.
    pub wb_thresh: u64,
    /// And of the background level.
    pub wb_bg_thresh: u64,
    /// The writeback alone is held to its share (`BDI_CAP_STRICTLIMIT`).
    pub is_strict: bool,
}

impl Dtc {
    /// `true` if no task is throttled in this domain.
    pub fn is_in_freerun(&self) -> bool {
        match self.is_strict {
            true => self.wb_dirty <= self.wb_freerun(),
            false => self.limits.dirty <= self.freerun,
        }
    }

    /// Level at which throttling begins for a writeback that is held to its share.
    pub fn wb_freerun(&self) -> u64 {
        arith::freerun_level(self.wb_thresh, self.wb_bg_thresh)
    }

    /// Count that the base rate goes by, and where it is to be.
    pub fn dirty_and_setpoint(&self) -> (u64, u64) {
        match self.is_strict {
            false => (self.limits.dirty, self.throttle_setpoint()),
            true if self.wb_dirty < 8 => (self.wb_dirty, self.wb_dirty + 1),
            true => (self.wb_dirty, self.wb_freerun()),
        }
    }

    /// The level at which every writer is stopped.
    pub fn hard_dirty_limit(&self) -> u64 {
        self.limits.thresh.max(self.limits.dom_limit)
    }

    /// Level that the throttle wants to hold it at.
    pub fn throttle_setpoint(&self) -> u64 {
        arith::setpoint_level(self.freerun, self.hard_dirty_limit())
    }

    /// `true` if this writeback holds more than its share of a domain that is over its limit.
    pub fn is_exceeded(&self) -> bool {
        self.wb_dirty > self.wb_thresh && (self.is_strict || self.limits.dirty > self.limits.thresh)
    }

    /// Pages a free-running task may dirty before it looks again: about the square root of the
    /// room.
    pub fn dirty_poll_interval(&self) -> u64 {
        let (thresh, dirty) = match self.is_strict {
            true => (self.wb_thresh, self.wb_dirty),
            false => (self.limits.thresh, self.limits.dirty),
        };
        match thresh.checked_sub(dirty) {
            Some(room @ 1..) => 1 << (room.ilog2() / 2),
            _ => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroups_limit_is_a_share_of_its_memory() {
        let sysctl = Sysctl {
            limit: Level::Bytes(32 << 20),
            background: Level::Bytes(16 << 20),
            dirty_expire_interval: 0,
            dirty_writeback_interval: 0,
        };
        assert_eq!(sysctl.dirty_levels(460_800, None), (8_192, 4_096));
        let (thresh, background) = sysctl.dirty_levels(230_400, Some(460_800));
        assert_eq!(
            (thresh, background),
            (73 * 230_400 / 4_096, 37 * 230_400 / 4_096)
        );
    }

    #[test]
    fn the_smoothed_limit_rises_at_once_and_falls_slowly() {
        let mut domain = WbDomain::default();
        domain.update_dirty_limit(1_000, 0, 100);
        assert_eq!(domain.dirty_limit, 1_000);
        domain.update_dirty_limit(360, 0, 149);
        assert_eq!(domain.dirty_limit, 1_000, "not yet");
        domain.update_dirty_limit(360, 0, 150);
        assert_eq!(domain.dirty_limit, 980);
        domain.update_dirty_limit(360, 980, 200);
        assert_eq!(domain.dirty_limit, 980, "not below what is dirty");
    }
}
