// SPDX-License-Identifier: GPL-2.0-only
//! Limits of one kind that objectives have set: each cgroup's file, what it was left to, and the note
//! of it for the next agent.

use crate::asked::Asked;
use crate::journal::{Event, Journal};
use crate::limits::{self, Found, Refused};
use crate::saved_limits::SavedLimits;
use crate::tree::Place;
use std::collections::{BTreeMap, BTreeSet};

/// A limit that would change by less than this part stays.
const CHANGE: u64 = 8;
const PAGE_KIB: u64 = 4;

/// A limit that was set.
struct Limit {
    place: Place,
    pages: u64,
}

/// All that are set, by inode.
pub struct Applied {
    saved: SavedLimits,
    set: BTreeMap<u64, Limit>,
    /// Cgroups whose limit is another program's.
    foreign: BTreeSet<u64>,
    /// Receives the limits where there is no module to set them.
    asked: Option<Asked>,
    journal: Journal,
}

impl Applied {
    /// Nothing is set yet; `asked` is where limits are asked for without the module.
    pub fn new(saved: SavedLimits, asked: Option<Asked>, journal: Journal) -> Applied {
        Applied {
            saved,
            set: BTreeMap::new(),
            foreign: BTreeSet::new(),
            asked,
            journal,
        }
    }

    /// Name of the file that they are written to.
    pub fn file(&self) -> &'static str {
        self.saved.limit()
    }

    /// Returns whether the cgroup has a limit that was set here.
    pub fn has(&self, place: &Place) -> bool {
        self.set.contains_key(&place.inode)
    }

    /// Path and pages of each.
    pub fn all(&self) -> BTreeMap<String, u64> {
        let all = self.set.values();
        all.map(|limit| (limit.place.path.clone(), limit.pages))
            .collect()
    }

    /// Compares the cgroup's file with the limit that was set.
    pub fn look(&self, place: &Place) -> Found {
        if self.asked.is_some() {
            return Found::Own;
        }
        let expected = self.set.get(&place.inode).map(|limit| limit.pages);
        limits::look(self.file(), &place.directory, expected)
    }

    /// Sets these and no others; what could not be, for people.
    pub fn apply(&mut self, wanted: BTreeMap<u64, (Place, u64)>) -> Vec<String> {
        let set = self.set.keys().copied();
        let unwanted: Vec<u64> = set.filter(|inode| !wanted.contains_key(inode)).collect();
        let mut failed = Vec::new();
        for inode in unwanted {
            failed.extend(self.release(inode));
        }
        for (inode, (place, pages)) in wanted {
            failed.extend(self.put(inode, place, pages));
        }
        failed
    }

    fn put(&mut self, inode: u64, place: Place, pages: u64) -> Option<String> {
        let before = self.set.get(&inode).map(|limit| limit.pages);
        if before.is_some_and(|before| before.abs_diff(pages) <= before / CHANGE) {
            return None;
        }
        let (cgroup, limit) = (place.path.clone(), self.file());
        let done = match &self.asked {
            Some(asked) => {
                asked.ask(&place, Some(pages));
                Ok(())
            }
            None => limits::set(&mut self.saved, &place, before, pages),
        };
        match done {
            Ok(()) => {
                self.foreign.remove(&inode);
                self.set.insert(inode, Limit { place, pages });
                if before.is_none() {
                    self.journal.say(&Event::Ceiling {
                        cgroup,
                        limit,
                        to_kib: pages * PAGE_KIB,
                    });
                }
            }
            Err(Refused::Found(Found::Foreign(value))) => {
                self.set.remove(&inode);
                if self.foreign.insert(inode) {
                    self.journal.say(&Event::LimitLeft {
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
    fn release(&mut self, inode: u64) -> Option<String> {
        let Limit { place, pages } = self.set.remove(&inode)?;
        if let Some(asked) = &self.asked {
            asked.ask(&place, None);
            return None;
        }
        limits::put_back(&mut self.saved, &place, pages, &self.journal).err()
    }
}
