// SPDX-License-Identifier: GPL-2.0-only
//! Limits of one kind that objectives have set: each cgroup's file, what it was left to, and the note
//! of it for the next agent.

use crate::journal::{Journal, JournalEvent};
use crate::limits::{self, FoundLimit, Refused};
use crate::requested_limits::RequestedLimits;
use crate::saved_limits::SavedLimits;
use crate::tree::CgroupDir;
use std::collections::{BTreeMap, BTreeSet};

/// A limit that would change by less than this part stays.
const CHANGE: u64 = 8;
const PAGE_KIB: u64 = 4;

/// A limit that was set.
struct Limit {
    place: CgroupDir,
    pages: u64,
}

/// Limits that are set, by inode.
pub struct AppliedLimits {
    saved: SavedLimits,
    set: BTreeMap<u64, Limit>,
    /// Cgroups whose limit is another program's.
    foreign: BTreeSet<u64>,
    /// Receives the limits where there is no module to set them.
    asked: Option<RequestedLimits>,
    journal: Journal,
}

impl AppliedLimits {
    /// Begins with no limit set; `asked` is where limits are asked for without the module.
    pub fn new(
        saved: SavedLimits,
        asked: Option<RequestedLimits>,
        journal: Journal,
    ) -> AppliedLimits {
        AppliedLimits {
            saved,
            set: BTreeMap::new(),
            foreign: BTreeSet::new(),
            asked,
            journal,
        }
    }

    /// Name of the file that they are written to.
    pub fn limit_file(&self) -> &'static str {
        self.saved.limit()
    }

    /// Returns whether the cgroup has a limit that was set here.
    pub fn has_limit(&self, place: &CgroupDir) -> bool {
        self.set.contains_key(&place.inode)
    }

    /// Path and pages of each.
    pub fn pages_by_path(&self) -> BTreeMap<String, u64> {
        let all = self.set.values();
        all.map(|limit| (limit.place.path.clone(), limit.pages))
            .collect()
    }

    /// Compares the cgroup's file with the limit that was set.
    pub fn compare_file(&self, place: &CgroupDir) -> FoundLimit {
        if self.asked.is_some() {
            return FoundLimit::Own;
        }
        let expected = self.set.get(&place.inode).map(|limit| limit.pages);
        limits::compare_limit(self.limit_file(), &place.directory, expected)
    }

    /// Sets these and no others; what could not be, for people.
    pub fn apply_limits(&mut self, wanted: BTreeMap<u64, (CgroupDir, u64)>) -> Vec<String> {
        let set = self.set.keys().copied();
        let unwanted: Vec<u64> = set.filter(|inode| !wanted.contains_key(inode)).collect();
        let mut failed = Vec::new();
        for inode in unwanted {
            failed.extend(self.release_limit(inode));
        }
        for (inode, (place, pages)) in wanted {
            failed.extend(self.set_limit(inode, place, pages));
        }
        failed
    }

    fn set_limit(&mut self, inode: u64, place: CgroupDir, pages: u64) -> Option<String> {
        let before = self.set.get(&inode).map(|limit| limit.pages);
        if before.is_some_and(|before| before.abs_diff(pages) <= before / CHANGE) {
            return None;
        }
        let (cgroup, limit) = (place.path.clone(), self.limit_file());
        let done = match &self.asked {
            Some(asked) => {
                asked.request_ceiling(&place, Some(pages));
                Ok(())
            }
            None => limits::set(&mut self.saved, &place, None, before, pages),
        };
        match done {
            Ok(()) => {
                self.foreign.remove(&inode);
                self.set.insert(inode, Limit { place, pages });
                if before.is_none() {
                    self.journal.log_event(&JournalEvent::Ceiling {
                        cgroup,
                        limit,
                        to_kib: pages * PAGE_KIB,
                    });
                }
            }
            Err(Refused::Found(FoundLimit::Foreign(value))) => {
                self.set.remove(&inode);
                if self.foreign.insert(inode) {
                    self.journal.log_event(&JournalEvent::LimitLeft {
                        cgroup,
                        limit,
                        value,
                    });
                }
            }
            Err(Refused::Found(_)) => {
                self.set.remove(&inode);
            }
            Err(Refused::Failed(why)) => return Some(format!("{cgroup}: {why:#}")),
        }
        None
    }

    /// Puts a cgroup's limit back.
    fn release_limit(&mut self, inode: u64) -> Option<String> {
        let Limit { place, pages } = self.set.remove(&inode)?;
        if let Some(asked) = &self.asked {
            asked.request_ceiling(&place, None);
            return None;
        }
        limits::put_back(&mut self.saved, &place, pages, &self.journal).err()
    }
}
