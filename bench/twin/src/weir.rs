// SPDX-License-Identifier: GPL-2.0-only
//! The module, in its arm: where the real one has a probe, this asks the same policy and applies
//! its answer.
//!
//! Decisions are `policy/`'s, by the very C code that is in the module; here is only what the
//! module's own code does in the kernel: which counts it hands in; in pass.rs what it does to a
//! pass, in beat.rs what it does by the clock, in bandwidth.rs what a cgroup may dirty in a second,
//! in window.rs what its flushers submit, in division.rs in which order, in fair.rs its fair part. Sums over subtrees are
//! exact here; the module's are up to a beat old.

pub mod assist;
mod bandwidth;
mod beat;
mod division;
mod fair;
mod pass;
mod stat;
mod window;

pub use window::{Call, Room};

use crate::jbd2::Jbd2;
use crate::mm::vmstat::Reclaimed;
use crate::sim::clock::{Ns, Ticks};
use policy::amend;
use policy::bandwidth::Level;
use policy::ceiling::{Ceiling, Counts, Limits};
use policy::drain::{self, Drain};
use policy::floor::{Cover, FloorPass};
use policy::headroom::{Headroom, Look};
use policy::pass::Pass;
use policy::pause::Decider;
use policy::subtree::Subtree;
use std::collections::BTreeMap;

/// The module's record of one cgroup.
#[derive(Clone, Debug)]
pub struct CgroupRecord {
    /// It is at, above or below a cgroup with a knob.
    pub known: bool,
    /// `memory.dirty_min`, in bytes.
    pub floor_bytes: u64,
    /// `memory.dirty_bytes` and `memory.dirty_ratio`.
    pub ceiling: Ceiling,
    /// `memory.dirty_weight` of the cgroup.
    pub weight: u32,
    /// `memory.toptier_ratio` of the cgroup.
    pub toptier_ratio: u32,
    /// `memory.dirty_bandwidth`, as written and as it holds.
    pub bandwidth_bytes: u64,
    /// `memory.writeback_bytes`, the window.
    pub writeback_bytes: u64,
    bound: u64,
    level: Level,
    part: bandwidth::Part,
    own_part: bandwidth::Part,
    stats: stat::Stats,
    floor: u64,
    /// Its last pass, while it counts as one that writes.
    wrote: Option<Ns>,
    avail: u64,
    unused: u64,
    /// Own pages as last told to the path, and what the subtree told.
    told: Counts,
    subtree: Subtree,
    freerun: u64,
    /// Its part of what is divided where it competes, and since when.
    hweight: Option<(u32, Ticks)>,
}

impl Default for CgroupRecord {
    fn default() -> Self {
        CgroupRecord {
            known: false,
            floor_bytes: 0,
            ceiling: Ceiling {
                bytes: policy::UNLIMITED,
                ratio_percent: 0,
            },
            weight: policy::division::WEIGHT_DEFAULT,
            toptier_ratio: policy::tier::BY_CAPACITY,
            bandwidth_bytes: policy::UNLIMITED,
            writeback_bytes: policy::UNLIMITED,
            bound: policy::UNLIMITED,
            level: Level::default(),
            part: bandwidth::Part::default(),
            own_part: bandwidth::Part::default(),
            stats: stat::Stats::default(),
            floor: 0,
            wrote: None,
            avail: 0,
            unused: 0,
            told: Counts::default(),
            subtree: Subtree::default(),
            freerun: 0,
            hweight: None,
        }
    }
}

impl CgroupRecord {
    fn has_ceiling(&self) -> bool {
        self.ceiling.bytes != policy::UNLIMITED || self.ceiling.ratio_percent != 0
    }

    fn has_knob(&self) -> bool {
        self.floor_bytes > 0
            || self.has_ceiling()
            || self.weight != policy::division::WEIGHT_DEFAULT
            || self.bandwidth_bytes != policy::UNLIMITED
            || self.writeback_bytes != policy::UNLIMITED
    }
}

/// State of the module.
#[derive(Clone, Debug, Default)]
pub struct Weir {
    /// The module's records, by cgroup.
    pub groups: Vec<CgroupRecord>,
    /// The parameter `drain_seconds`.
    pub seconds: u64,
    /// The agent's `drain_seconds = "auto"` finds them.
    pub headroom: Option<Headroom>,
    /// State of the flushers, for that.
    pub look: Look,
    /// The agent's `[assist]`.
    pub assistants: assist::Assistants,
    /// The parameter `drain_tighten`.
    pub tighten: bool,
    /// The parameter `fair`.
    pub fair: bool,
    /// Pages of the host besides those of cgroups that write count as one of them.
    others: bool,
    drain: Drain,
    drain_seen: Option<(Ns, u64, Reclaimed)>,
    /// By cgroup: a child of it has a weight other than the default.
    divided: Vec<bool>,
    /// By disk and the cgroup that divides it.
    divisions: BTreeMap<(usize, usize), division::Division>,
    /// By number of the writeback, and how many of them are held.
    flushers: Vec<window::Flusher>,
    held: u32,
    /// By disk: the pace of the flushers' pages.
    paces: BTreeMap<usize, window::DiskPace>,
    /// Limit that a cgroup's domain was judged by in the last pass.
    pub judged_by: Decider,
    /// Pages that the last pass over the host's domain, if it let its writer go, lets that dirty.
    pub released_poll: Option<u64>,
    stock: u64,
    host_thresh: u64,
    host_background: u64,
    floors_total: u64,
    /// The same of floors that are set, without fair parts.
    set_total: u64,
    unused_total: u64,
}

impl Weir {
    /// The host's limit by its drain; `stock` where that has none.
    fn drain_limit(&self, stock: u64) -> u64 {
        match self.drain.limit {
            0 => stock,
            limit => limit,
        }
    }

    /// Figures that the host's limits are amended by.
    fn drain_host(&self) -> drain::DrainHost {
        drain::DrainHost {
            limit: self.drain.limit,
            stock: self.stock,
            unused: self.unused_total,
            ..drain::DrainHost::default()
        }
    }

    fn note_unused(&mut self, cgroup: usize, unused: u64) {
        let before = std::mem::replace(&mut self.groups[cgroup].unused, unused);
        self.unused_total = self.unused_total + unused - before;
    }

    /// The host's limits as of the last beat, as passes find them.
    fn host_limits(&self) -> Limits {
        let mut limits = Limits {
            thresh: self.host_thresh,
            bg_thresh: self.host_background,
            dirty: 0,
            dom_limit: 0,
        };
        amend::amend_global(&mut limits, Pass::Writer, &self.drain_host(), None);
        limits
    }
}

/// The module's probes, if it is loaded.
#[derive(Clone, Debug)]
pub struct Hooks {
    jbd2: Jbd2,
    /// The module, in arm weir.
    pub weir: Option<Weir>,
}

above!(Hooks.jbd2: Jbd2, weir);

impl Hooks {
    /// A cgroup's ceiling, in pages.
    fn ceiling_pages(&self, cgroup: usize) -> Option<u64> {
        let group = self.weir.as_ref()?.groups.get(cgroup)?;
        let pages = || group.ceiling.limit_pages(group.avail);
        group.has_ceiling().then(pages)
    }

    /// A cgroup's ceiling, and what its subtree holds.
    fn ceiling_and_held(&self, cgroup: usize) -> Option<(u64, Counts)> {
        let ceiling = self.ceiling_pages(cgroup)?;
        let held = &self.cgroups[cgroup].subtree;
        let counts = Counts {
            dirty: held.dirty,
            writeback: held.writeback,
        };
        Some((ceiling, counts))
    }

    /// The ceilings from a cgroup up, each with what its subtree holds; the nearest first.
    fn ceilings_above(&self, cgroup: usize) -> impl Iterator<Item = (usize, u64, Counts)> + '_ {
        self.path_to_root(cgroup).filter_map(|at| {
            let (ceiling, counts) = self.ceiling_and_held(at)?;
            Some((at, ceiling, counts))
        })
    }

    /// From a cgroup up to below the root.
    fn path_to_root(&self, cgroup: usize) -> impl Iterator<Item = usize> + '_ {
        let below_root = |at: &usize| *at != 0;
        std::iter::successors(Some(cgroup).filter(below_root), move |at| {
            self.cgroups[*at].parent.filter(below_root)
        })
    }

    /// A pass under the floor on the path that has most room; none if there is no floor.
    fn open_floor_pass(&mut self, wb: usize) -> Option<FloorPass> {
        if self.weir.as_ref().is_none_or(|weir| weir.floors_total == 0) {
            return None;
        }
        let index = self.wbs[wb].cgroup;
        self.weir_report_held(index);
        let weir = self.weir.as_ref()?;
        let left = |at: usize| {
            let memory = policy::floor::pages_left(
                self.floor_room(at),
                self.cgroups[at].subtree.pages_held(),
            );
            let below = |(ceiling, held)| policy::ceiling::pages_left(ceiling, &held);
            memory.min(self.ceiling_and_held(at).map_or(policy::UNLIMITED, below))
        };
        let mut pass = FloorPass {
            host_dirty: self.counts.pages_held(),
            host_thresh: weir.drain_limit(weir.host_thresh),
            floors_total: weir.floors_total,
            cgroup_domain: u32::from(index != 0),
            left: self
                .path_to_root(index)
                .map(left)
                .min()
                .unwrap_or(policy::UNLIMITED),
            ..FloorPass::default()
        };
        for at in self.path_to_root(index) {
            let group = &weir.groups[at];
            if group.floor > 0 {
                let mut floor = group.floor;
                if group.floor_bytes == 0 {
                    let (dirty, thresh) = (pass.host_dirty, pass.host_thresh);
                    floor = policy::fair::claimable_pages(floor, dirty, thresh);
                }
                pass.consider_floor(&Cover {
                    floor,
                    claim: group.subtree.claimed_pages(),
                    by_folio: self.cgroups[at].subtree.pages_held(),
                    in_wb: self.wbs[wb].counts.pages_held(),
                    foreign: 0,
                });
            }
        }
        (pass.floor > 0).then_some(pass)
    }
}
