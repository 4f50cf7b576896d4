// SPDX-License-Identifier: GPL-2.0-only
//! Ceilings, and bounds on disks' queues, that objectives ask for where there is no module.

use crate::tree::CgroupDir;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Limits that other parts ask for.
#[derive(Clone, Default)]
pub struct RequestedLimits(Arc<Mutex<All>>);

#[derive(Default)]
struct All {
    /// Ceilings in pages, by inode.
    ceilings: BTreeMap<u64, (CgroupDir, u64)>,
    /// Pages in flight, by the disk's name.
    queues: BTreeMap<String, u64>,
}

impl RequestedLimits {
    fn lock_limits(&self) -> MutexGuard<'_, All> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for a ceiling of a cgroup, or, with none, for it no more.
    pub fn request_ceiling(&self, place: &CgroupDir, pages: Option<u64>) {
        let ceilings = &mut self.lock_limits().ceilings;
        match pages {
            Some(pages) => ceilings.insert(place.inode, (place.clone(), pages)),
            None => ceilings.remove(&place.inode),
        };
    }

    /// Asks that these disks, and no others, have so many pages in flight at most.
    pub fn request_queues(&self, queues: BTreeMap<String, u64>) {
        self.lock_limits().queues = queues;
    }

    /// Ceilings that are asked for, in pages, by inode.
    pub fn ceiling_pages(&self) -> BTreeMap<u64, (CgroupDir, u64)> {
        self.lock_limits().ceilings.clone()
    }

    /// Pages in flight that disks may have, by the disk's name.
    pub fn queue_pages(&self) -> BTreeMap<String, u64> {
        self.lock_limits().queues.clone()
    }
}
