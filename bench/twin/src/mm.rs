// SPDX-License-Identifier: GPL-2.0-only
//! Memory: which pages are free, in the page cache, dirty, under writeback; of whom; and what
//! limits that makes.
//!
//! | file | what |
//! | --- | --- |
//! | [`zone`] | free pages and watermarks |
//! | [`lru`], `reclaim.rs` | the page cache in the order it came, and taking clean pages of it |
//! | [`page`], [`node`] | pages one by one, where jobs map memory, and what swaps them |
//! | [`shrink`], [`throttle`], [`scan_control`], [`effort`], [`vmstat`] | what reclaim does with these, and who sleeps in it |
//! | [`xarray`] | which pages of a file are marked |
//! | [`state`] | cgroups, writebacks, files |
//! | `account.rs` | counting pages on their way |
//! | [`domain`] | limits, freerun, the smoothed limit, of the host and of each cgroup |
//! | [`fprop`] | what part of a domain's limit each disk is entitled to |
//! | [`ratelimit`] | position ratio, base rate, bandwidth, how long a pause is |

mod account;
pub mod domain;
pub mod effort;
pub mod fprop;
pub mod lru;
pub mod node;
pub mod page;
pub mod ratelimit;
mod reclaim;
pub mod scan_control;
pub mod shrink;
pub mod state;
pub mod throttle;
pub mod vmstat;
pub mod xarray;
pub mod zone;

pub use reclaim::ScanResult;
pub use state::{Cgroup, Dirtier, File, PageCounts, Sleeper, Wb};

use crate::sched::Sched;
use crate::sim::SimEvent;
use crate::sim::clock::{Ns, SECOND};
use domain::{Sysctl, WbDomain};
use node::Node;
use std::collections::BTreeMap;
use zone::{Watermarks, Zone};

/// As `mm/memcontrol.c` has it; reads of `memory.stat` come on top.
const FLUSH_TIME: Ns = 2 * SECOND;

/// The host's memory.
#[derive(Clone, Debug)]
pub struct Mm {
    sched: Sched,
    /// Free pages, page cache, kswapd.
    pub zone: Zone,
    /// Sysctls of the host.
    pub sysctl: Sysctl,
    /// The host's domain.
    pub domain: WbDomain,
    /// Pages of the whole host.
    pub counts: PageCounts,
    /// The root first.
    pub cgroups: Vec<Cgroup>,
    /// Writebacks, made when first needed.
    pub wbs: Vec<Wb>,
    /// Indices of the writebacks, by cgroup and disk.
    pub wb_of: BTreeMap<(usize, usize), usize>,
    /// Files of all jobs.
    pub files: Vec<File>,
    /// Pages one by one, on a host where jobs map memory.
    pub node: Option<Box<Node>>,
    /// Between two times that the kernel adds up its counts of cgroups.
    pub flush_time: Ns,
}

above!(Mm.sched: Sched);

impl Mm {
    /// Memory of which `dirtyable` pages can be dirty while no task holds any.
    pub fn new(dirtyable: u64, marks: Watermarks, sysctl: Sysctl, sched: Sched) -> Mm {
        let (dirty_limit, _) = sysctl.dirty_levels(dirtyable, None);
        let mut mm = Mm {
            zone: Zone::new(dirtyable, marks),
            sysctl,
            domain: WbDomain {
                dirty_limit,
                ..WbDomain::default()
            },
            counts: PageCounts::default(),
            cgroups: Vec::new(),
            wbs: Vec::new(),
            wb_of: BTreeMap::new(),
            files: Vec::new(),
            node: None,
            flush_time: FLUSH_TIME,
            sched,
        };
        mm.schedule_after(0, SimEvent::Refresh);
        mm
    }

    /// Brings what the kernel believes of cgroups up to date.
    pub fn flush_stats(&mut self) {
        for cgroup in &mut self.cgroups {
            cgroup.flushed = cgroup.counts;
            cgroup.flushed_file = cgroup.file;
        }
        let every = self.flush_time;
        self.schedule_after(every, SimEvent::Refresh);
    }

    /// Pages that can be dirty at all.
    pub fn dirtyable_pages(&self) -> u64 {
        self.zone.dirtyable_pages()
    }

    /// The disk that a file is on.
    pub fn device_of(&self, file: usize) -> usize {
        self.wbs[self.files[file].wb as usize].device
    }

    /// The cgroup at `path`, which the scenario has; the root if it has not.
    pub fn find_cgroup_or_root(&self, path: &str) -> usize {
        let found = self.cgroups.iter().position(|cgroup| cgroup.path == path);
        found.unwrap_or(0)
    }
}
