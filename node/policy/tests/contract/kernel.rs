// SPDX-License-Identifier: GPL-2.0-only
//! A model of what Linux keeps between passes of its dirty throttle, with weir's probes in it.
//!
//! Three kinds of state outlive a pass: the smoothed `dirty_limit` of the global domain and of each
//! cgroup's, and the `dirty_ratelimit` of each device's writeback (here one per cgroup). Writers
//! that get past freerun update them; that is the only way in. The facts are those of Linux 6.12:
//!
//! * limits from `vm.dirty_*`, for a cgroup scaled by its own dirtyable memory, raised by a quarter
//!   and a 32nd of the global `dirty_limit` for a real-time task, background kept below the limit;
//! * freerun up to the middle of background and limit, and only if both domains are in it;
//! * `dirty_limit` follows the limit up in one step, and down by a 32nd of the way, never below
//!   what is dirty;
//! * `pos_ratio`, a cubic that is 2 at freerun, 1 in the middle of freerun and `dirty_limit`, 0 at
//!   `dirty_limit`, tilted by the device's share; the tighter domain decides;
//! * `dirty_ratelimit` moves by at most an 8th of the way towards `write_bw / dirty_rate`, and both
//!   domains of a pass move it.
//!
//! Time is left out: every update that Linux would do at most once in 200 ms happens in every pass,
//! so state moves further, faster, than on a real host.

use policy::arith::{self, freerun_level};
use policy::ceiling::Counts;
use policy::pass::Facts;

/// Pages per second a fresh device is credited with: 100 MB/s.
pub const INITIAL_BANDWIDTH: u64 = 100 << (20 - 12);
/// Fixed point of `pos_ratio`, and of a device's share.
const ONE: u64 = 1 << 10;

/// `vm.dirty_bytes`, `vm.dirty_background_bytes` in pages, or the ratios in percent.
#[derive(Clone, Copy, Debug)]
pub enum Sysctl {
    Pages { limit: u64, background: u64 },
    Percent { limit: u64, background: u64 },
}

/// Which function is running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    Writer { realtime: bool },
    Flusher,
    HostReader,
    CgroupReader,
}

/// Everything one pass looks at. Counts are what the pass *sees*, right or wrong.
#[derive(Clone, Debug)]
pub struct Pass {
    pub caller: Caller,
    pub cgroup: usize,
    pub strictlimit: bool,
    pub sysctl: Sysctl,
    /// Dirtyable pages of the host.
    pub host_avail: u64,
    pub cgroup_avail: u64,
    pub host: Counts,
    /// The kernel's own count of the cgroup, which lags.
    pub cgroup_kernel: Counts,
    /// The device's share of a limit, in 1024ths.
    pub share: u64,
    pub wb_dirty: u64,
    /// Pages per second.
    pub write_bandwidth: u64,
    pub dirty_rate: u64,
}

/// One domain's limits within one pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttle {
    pub thresh: u64,
    pub bg_thresh: u64,
    pub dirty: u64,
}

/// Where weir's probes sit.
pub trait Module {
    /// Entry of `balance_dirty_pages`; true leaves the pass out.
    fn enter(&mut self, pass: &Pass) -> bool;
    /// Return of `domain_dirty_limits`, with the domain's smoothed limit.
    fn limits(&mut self, pass: &Pass, facts: Facts, throttle: &mut Throttle, dirty_limit: &mut u64);
}

/// No module loaded.
pub struct Stock;

impl Module for Stock {
    fn enter(&mut self, _: &Pass) -> bool {
        false
    }
    fn limits(&mut self, _: &Pass, _: Facts, _: &mut Throttle, _: &mut u64) {}
}

/// What came of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    LeftOut,
    Free,
    /// Pages per second the task may dirty.
    Throttled(u64),
    FlusherGoesOn(bool),
    Read(Throttle),
}

/// What outlives a pass of one cgroup's writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    pub dirty_limit: u64,
    pub dirty_ratelimit: u64,
    balanced: u64,
}

/// What outlives a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Limit of the global domain, smoothed.
    pub dirty_limit: u64,
    pub groups: Vec<Group>,
}

impl Kernel {
    /// A freshly booted host.
    pub fn new(dirty_limit: u64, groups: usize) -> Kernel {
        let bandwidth = INITIAL_BANDWIDTH;
        let group = Group {
            dirty_limit: 0,
            dirty_ratelimit: bandwidth,
            balanced: bandwidth,
        };
        Kernel {
            dirty_limit,
            groups: vec![group; groups],
        }
    }

    /// One pass with `module` loaded.
    pub fn step(&mut self, pass: &Pass, module: &mut dyn Module) -> Outcome {
        match pass.caller {
            Caller::Writer { .. } if module.enter(pass) => Outcome::LeftOut,
            Caller::Writer { .. } => self.writer(pass, module),
            Caller::Flusher => Outcome::FlusherGoesOn(self.flusher(pass, module)),
            Caller::HostReader => Outcome::Read(self.global(pass, module)),
            Caller::CgroupReader => Outcome::Read(self.cgroup(pass, module)),
        }
    }

    /// The global domain's limits, as the pass gets them.
    fn global(&mut self, pass: &Pass, module: &mut dyn Module) -> Throttle {
        let mut throttle = host_limits(pass, self.dirty_limit);
        let facts = Facts {
            has_wb: u32::from(pass.caller != Caller::HostReader),
            in_flusher: u32::from(pass.caller == Caller::Flusher),
            strictlimit: u32::from(pass.strictlimit),
            ..Facts::default()
        };
        module.limits(pass, facts, &mut throttle, &mut self.dirty_limit);
        throttle
    }

    /// The cgroup domain's limits, as the pass gets them.
    fn cgroup(&mut self, pass: &Pass, module: &mut dyn Module) -> Throttle {
        let per_host = |pages: u64| (pages * 4096).div_ceil(pass.host_avail.max(1)).min(4096);
        let (limit, background) = match pass.sysctl {
            Sysctl::Pages { limit, background } => (per_host(limit), per_host(background)),
            Sysctl::Percent { limit, background } => (limit * 4096 / 100, background * 4096 / 100),
        };
        let mut throttle = finish(
            pass,
            limit * pass.cgroup_avail / 4096,
            background * pass.cgroup_avail / 4096,
            pass.cgroup_kernel,
            self.dirty_limit,
        );
        let facts = Facts {
            has_wb: 1,
            has_gdtc: 1,
            gdtc_has_wb: u32::from(pass.caller != Caller::CgroupReader),
            in_flusher: u32::from(pass.caller == Caller::Flusher),
            strictlimit: u32::from(pass.strictlimit),
        };
        module.limits(
            pass,
            facts,
            &mut throttle,
            &mut self.groups[pass.cgroup].dirty_limit,
        );
        throttle
    }

    fn writer(&mut self, pass: &Pass, module: &mut dyn Module) -> Outcome {
        let global = self.global(pass, module);
        let cgroup = self.cgroup(pass, module);
        if is_free(pass, &global) && is_free(pass, &cgroup) {
            return Outcome::Free;
        }
        let group = &mut self.groups[pass.cgroup];
        let global_ratio = pos_ratio(pass, &global, self.dirty_limit);
        let cgroup_ratio = pos_ratio(pass, &cgroup, group.dirty_limit);
        follow(&mut self.dirty_limit, &global);
        group.adapt(pass, &global, global_ratio, self.dirty_limit);
        follow(&mut group.dirty_limit, &cgroup);
        group.adapt(pass, &cgroup, cgroup_ratio, group.dirty_limit);
        Outcome::Throttled(group.dirty_ratelimit * global_ratio.min(cgroup_ratio) / ONE)
    }

    fn flusher(&mut self, pass: &Pass, module: &mut dyn Module) -> bool {
        let over = |throttle: Throttle| {
            throttle.dirty > throttle.bg_thresh
                || pass.wb_dirty > throttle.bg_thresh * pass.share / ONE
        };
        over(self.global(pass, module)) || over(self.cgroup(pass, module))
    }
}

impl Group {
    /// Move `dirty_ratelimit` by what one domain of a throttled pass says.
    fn adapt(&mut self, pass: &Pass, throttle: &Throttle, ratio: u64, dirty_limit: u64) {
        let rate = self.dirty_ratelimit;
        let task = rate * ratio / ONE + 1;
        let balanced =
            u128::from(task) * u128::from(pass.write_bandwidth) / u128::from(pass.dirty_rate | 1);
        let balanced = balanced.min(pass.write_bandwidth.into()) as u64;
        let (mut dirty, mut setpoint) = (throttle.dirty, setpoint(throttle, dirty_limit));
        if pass.strictlimit {
            dirty = pass.wb_dirty;
            let middle = (throttle.thresh + throttle.bg_thresh) * pass.share / ONE / 2;
            setpoint = if dirty < 8 { dirty + 1 } else { middle };
        }
        let step = if dirty < setpoint {
            self.balanced.min(balanced).min(task).saturating_sub(rate)
        } else {
            rate.saturating_sub(self.balanced.max(balanced).max(task))
        };
        let shift = rate / (2 * step + 1);
        let step = if shift < 64 {
            (step >> shift).div_ceil(8)
        } else {
            0
        };
        let moved = if rate < balanced {
            rate + step
        } else {
            rate - step
        };
        self.dirty_ratelimit = moved.max(1);
        self.balanced = balanced;
    }
}

/// What stock computes for the host, given a global `dirty_limit`.
pub fn host_limits(pass: &Pass, dirty_limit: u64) -> Throttle {
    let (limit, background) = match pass.sysctl {
        Sysctl::Pages { limit, background } => (limit, background),
        Sysctl::Percent { limit, background } => (
            limit * 4096 / 100 * pass.host_avail / 4096,
            background * 4096 / 100 * pass.host_avail / 4096,
        ),
    };
    finish(pass, limit, background, pass.host, dirty_limit)
}

/// The last steps, the same for both domains.
fn finish(pass: &Pass, limit: u64, background: u64, counts: Counts, dirty_limit: u64) -> Throttle {
    let raise = |pages: u64| match pass.caller {
        Caller::Writer { realtime: true } => pages + pages / 4 + dirty_limit / 32,
        _ => pages,
    };
    let thresh = raise(limit).min(u32::MAX.into());
    let bg_thresh = match raise(background) {
        too_high if too_high >= thresh => thresh / 2,
        background => background,
    };
    let writeback = if pass.caller == Caller::Flusher {
        0
    } else {
        counts.writeback
    };
    Throttle {
        thresh,
        bg_thresh,
        dirty: counts.dirty + writeback,
    }
}

fn is_free(pass: &Pass, throttle: &Throttle) -> bool {
    if pass.strictlimit {
        let of_device = |pages: u64| pages * pass.share / ONE;
        return pass.wb_dirty
            <= freerun_level(of_device(throttle.thresh), of_device(throttle.bg_thresh));
    }
    throttle.dirty <= freerun_level(throttle.thresh, throttle.bg_thresh)
}

fn follow(dirty_limit: &mut u64, throttle: &Throttle) {
    let down_to = throttle.thresh.max(throttle.dirty);
    if *dirty_limit < throttle.thresh {
        *dirty_limit = throttle.thresh;
    } else if *dirty_limit > down_to {
        *dirty_limit -= (*dirty_limit - down_to) >> 5;
    }
}

fn setpoint(throttle: &Throttle, dirty_limit: u64) -> u64 {
    arith::setpoint_level(
        freerun_level(throttle.thresh, throttle.bg_thresh),
        throttle.thresh.max(dirty_limit),
    )
}

/// 1 at the setpoint, 2 well below it, 0 at the limit.
fn cubic(setpoint: u64, dirty: u64, limit: u64) -> i128 {
    let one = i128::from(ONE);
    let x = (i128::from(setpoint) - i128::from(dirty)) * one / i128::from((limit - setpoint) | 1);
    (x * x / one * x / one + one).clamp(0, 2 * one)
}

/// How fast, in 1024ths of `dirty_ratelimit`, a task may go on.
fn pos_ratio(pass: &Pass, throttle: &Throttle, dirty_limit: u64) -> u64 {
    let limit = throttle.thresh.max(dirty_limit);
    if throttle.dirty >= limit {
        return 0;
    }
    let one = i128::from(ONE);
    let setpoint = setpoint(throttle, dirty_limit);
    let ratio = cubic(setpoint, throttle.dirty, limit);
    let share = throttle.thresh * pass.share / ONE;
    if pass.strictlimit {
        let middle = freerun_level(share, throttle.bg_thresh * pass.share / ONE);
        return match pass.wb_dirty {
            dirty if dirty < 8 => (2 * ratio).min(2 * one) as u64,
            dirty if dirty >= share || middle == 0 || middle == share => 0,
            dirty => ratio.min(cubic(middle, dirty, share)) as u64,
        };
    }

    // The device's control line: falls through 1 at its own setpoint, at least 1/4.
    let share = share.max((limit - throttle.dirty) / 8);
    let x = i128::from(share) * one / i128::from(throttle.thresh | 1);
    let wb_setpoint = i128::from(setpoint) * x / one;
    let width = i128::from(throttle.thresh.saturating_sub(share) + 8 * pass.write_bandwidth);
    let span = width * x / one;
    let (zero, wb_dirty) = (wb_setpoint + span, i128::from(pass.wb_dirty));
    let mut ratio = if wb_dirty < zero - span / 4 {
        ratio * (zero - wb_dirty) / (span | 1)
    } else {
        ratio / 4
    };
    // A device about to run dry is pushed up.
    let reserve = i128::from(share / 2);
    if wb_dirty < reserve {
        ratio = if wb_dirty > reserve / 8 {
            ratio * reserve / wb_dirty
        } else {
            ratio * 8
        };
    }
    ratio as u64
}
