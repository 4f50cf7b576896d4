// SPDX-License-Identifier: GPL-2.0-only
//! weir in the model, with every fault a probe can suffer, and the design it was chosen over.

use crate::kernel::{Module, Pass, Throttle};
use policy::amend;
use policy::ceiling::{Ceiling, Counts, Limits};
use policy::drain::DrainHost;
use policy::floor::{Caps, FloorPass, Pool, Verdict};
use policy::pass::{Facts, Pass as Kind};

/// What an operator has set for one cgroup, in pages.
#[derive(Clone, Copy, Debug)]
pub struct Knobs {
    pub dirty_min: u64,
    pub ceiling: Ceiling,
    pub memory_max: u64,
    pub memory_min: u64,
}

/// What goes wrong, or changes, in one pass.
#[derive(Clone, Debug)]
pub struct Faults {
    pub lose_entry: bool,
    pub lose_global: bool,
    pub lose_cgroup: bool,
    /// The knobs of every cgroup at the entry of the pass.
    pub at_entry: Vec<Knobs>,
    /// The same when the limits are computed: another task may have written in between.
    pub at_limits: Vec<Knobs>,
    /// The counts and the global limit weir believes in: exact, stale or garbage.
    pub counts: Counts,
    pub wb_dirty: u64,
    pub foreign: u64,
    pub host_dirty: u64,
    pub host_thresh: u64,
    /// What weir believes floors reserve and do not use.
    pub unused: u64,
}

/// weir as `kmod/` applies it: a floor leaves a writer's pass out, a ceiling lowers the cgroup's
/// domain, a reservation the host's; who is below its floor all the same is let go. Made anew for
/// each pass.
pub struct Weir<'a> {
    faults: &'a Faults,
    /// The global domain of this pass says so.
    released: bool,
}

impl<'a> Weir<'a> {
    pub fn new(faults: &'a Faults) -> Weir<'a> {
        Weir {
            faults,
            released: false,
        }
    }
}

/// What a writer finds of its floor, by what `knobs` are at the time.
fn floor_pass(pass: &Pass, faults: &Faults, knobs: &[Knobs]) -> FloorPass {
    let pool = pool(knobs, faults.host_thresh);
    FloorPass {
        floor: pool.scaled_floor(own(&knobs[pass.cgroup])),
        memcg_dirty: policy::arith::add(faults.counts.dirty, faults.counts.writeback),
        wb_dirty: faults.wb_dirty,
        foreign: faults.foreign,
        host_dirty: faults.host_dirty,
        host_thresh: faults.host_thresh,
        floors_total: pool.total_floors(),
        strictlimit: u32::from(pass.strictlimit),
        cgroup_domain: 1,
        left: policy::UNLIMITED,
    }
}

fn pool(knobs: &[Knobs], host_thresh: u64) -> Pool {
    let total = knobs.iter().map(own).fold(0, u64::saturating_add);
    Pool {
        wanted_total: total,
        host_thresh,
    }
}

fn own(knobs: &Knobs) -> u64 {
    let Knobs {
        dirty_min,
        memory_max,
        memory_min,
        ..
    } = *knobs;
    Caps {
        wanted: dirty_min,
        memory_max,
        memory_min,
    }
    .capped_floor()
}

impl Module for Weir<'_> {
    fn enter(&mut self, pass: &Pass) -> bool {
        let faults = self.faults;
        !faults.lose_entry && floor_pass(pass, faults, &faults.at_entry).decide() == Verdict::Admit
    }

    fn limits(
        &mut self,
        pass: &Pass,
        facts: Facts,
        throttle: &mut Throttle,
        dirty_limit: &mut u64,
    ) {
        let faults = self.faults;
        let lost = if facts.has_gdtc != 0 {
            faults.lose_cgroup
        } else {
            faults.lose_global
        };
        if lost {
            return;
        }
        let mut limits = Limits {
            thresh: throttle.thresh,
            bg_thresh: throttle.bg_thresh,
            dirty: throttle.dirty,
            dom_limit: *dirty_limit,
        };
        let host = DrainHost {
            unused: faults.unused,
            ..DrainHost::default()
        };
        if facts.has_gdtc == 0 {
            let floor = floor_pass(pass, faults, &faults.at_limits);
            self.released =
                amend::amend_global(&mut limits, facts.pass_kind(), &host, Some(&floor));
        } else if amend::amend_memcg(&mut limits, &facts, &host, 0, self.released) {
            let ceiling = faults.at_limits[pass.cgroup]
                .ceiling
                .limit_pages(pass.cgroup_avail);
            limits.amend_by_ceiling(ceiling, &faults.counts, facts.pass_kind());
        }
        *throttle = Throttle {
            thresh: limits.thresh,
            bg_thresh: limits.bg_thresh,
            dirty: limits.dirty,
        };
        *dirty_limit = limits.dom_limit;
    }
}

/// The design not chosen: lift both domains' limits for a writer below its floor, so that it
/// free-runs. It works as long as no probe is lost between the two.
pub struct Lift<'a>(pub &'a Faults);

impl Module for Lift<'_> {
    fn enter(&mut self, _: &Pass) -> bool {
        false
    }

    fn limits(&mut self, pass: &Pass, facts: Facts, throttle: &mut Throttle, _: &mut u64) {
        let faults = self.0;
        let lost = if facts.has_gdtc != 0 {
            faults.lose_cgroup
        } else {
            faults.lose_global
        };
        let below = faults.counts.dirty < own(&faults.at_entry[pass.cgroup]);
        if !lost && below && !pass.strictlimit && facts.pass_kind() == Kind::Writer {
            throttle.thresh = throttle.thresh.max(2 * throttle.dirty + 2);
        }
    }
}
