// SPDX-License-Identifier: GPL-2.0-only
//! Keeps knobs as the rules say.
//!
//! It compares what is with what ought to be and writes only the difference ([`crate::step`]), so
//! it does not matter how often or why it looks: because a cgroup appeared, the policy changed, an
//! operator wrote a knob by hand, or the module was loaded again.

use crate::desired_settings::desired_settings;
use crate::drain_rates::DrainRates;
use crate::journal::{Journal, JournalEvent};
use crate::knob_file;
use crate::knob_states::{KnobState, KnobStates};
use crate::requests::Requests;
use crate::rules::Rules;
use crate::saved_values::{SavedValue, SavedValues};
use crate::setting::{Origin, Setting};
use crate::step::{Step, next_step};
use crate::tree::{CgroupDir, Hierarchy};
use crate::watch::{CgroupWatch, WatchEvents};
use knobs::Knob;
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Counts of what was done since the start, and of the knobs' states.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReconcilerCounts {
    /// Cgroups that the last scan found.
    pub cgroups: u64,
    /// Scans of everything.
    pub scans: u64,
    /// Directories that are watched.
    pub watched: u64,
    /// Writes that succeeded.
    pub written: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Knobs that are as a rule says.
    pub set: u64,
    /// Knobs whose file is not there.
    pub waiting: u64,
    /// Knobs that cannot be set.
    pub failing: u64,
}

/// A write that is to be done.
struct KnobChange {
    place: CgroupDir,
    knob: Knob,
    from: String,
    to: String,
    /// The value's origin; none to put back what was there before.
    origin: Option<Origin>,
    /// The saved values' entry before.
    before: Option<SavedValue>,
}

/// Keeps the knobs of one hierarchy.
pub struct Reconciler {
    tree: Hierarchy,
    rules: Rules,
    requests: Requests,
    saved: SavedValues,
    watch: Option<CgroupWatch>,
    journal: Journal,
    knob_states: KnobStates,
    drain_rates: DrainRates,
    said_waiting: bool,
    said_forgetful: bool,
    counts: ReconcilerCounts,
}

impl Reconciler {
    /// Nothing is done before the first scan.
    pub fn new(
        tree: Hierarchy,
        rules: Rules,
        requests: Requests,
        saved: SavedValues,
        journal: Journal,
    ) -> Reconciler {
        let watch = CgroupWatch::new()
            .map_err(|why| {
                journal.log_event(&JournalEvent::WatchLost {
                    why: format!("no inotify: {why}"),
                })
            })
            .ok();
        Reconciler {
            tree,
            rules,
            requests,
            saved,
            watch,
            journal,
            knob_states: KnobStates::default(),
            drain_rates: DrainRates::default(),
            said_waiting: false,
            said_forgetful: false,
            counts: ReconcilerCounts::default(),
        }
    }

    /// The rules in effect.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The requests of units and containers.
    pub fn requests(&self) -> &Requests {
        &self.requests
    }

    /// The watch that it listens to, if it does.
    pub fn watch(&self) -> Option<&CgroupWatch> {
        self.watch.as_ref()
    }

    /// Counts so far, with the knobs' states now.
    pub fn counts(&self) -> ReconcilerCounts {
        let number =
            |wanted: fn(&KnobState) -> bool| self.knob_states.count_states(wanted).0 as u64;
        ReconcilerCounts {
            watched: self.watch.as_ref().map_or(0, |watch| watch.len() as u64),
            set: number(|standing| *standing == KnobState::InEffect),
            waiting: number(|standing| *standing == KnobState::Waiting),
            failing: number(|standing| matches!(standing, KnobState::Failing(_))),
            ..self.counts.clone()
        }
    }

    /// Directories of the cgroups that rules name.
    pub fn kept_directories(&self) -> Vec<PathBuf> {
        self.knob_states.cgroup_directories()
    }

    /// Puts other rules in effect.
    pub fn follow_rules(&mut self, rules: Rules) {
        self.requests.follow_settings(rules.requests);
        self.rules = rules;
        self.scan_all();
    }

    /// Returns whether a scan is due before its time: systemd has read its units again.
    pub fn is_overdue(&self) -> bool {
        !self.rules.stock.is_stock() && self.requests.have_changed()
    }

    /// Looks at everything.
    pub fn scan_all(&mut self) {
        let root = self.tree.root().to_path_buf();
        let places = self.visit_subtree(&root);
        let there: BTreeSet<(u64, &str)> = places
            .iter()
            .map(|place| (place.inode, place.path.as_str()))
            .collect();
        self.saved
            .retain_entries(|inode, path| there.contains(&(inode, path)));
        let inodes: BTreeSet<u64> = places.iter().map(|place| place.inode).collect();
        self.requests
            .retain_cgroups(|inode| inodes.contains(&inode));
        self.drain_rates
            .retain_cgroups(|inode| inodes.contains(&inode));
        self.save();
        let directories: BTreeSet<&Path> = places.iter().map(|p| p.directory.as_path()).collect();
        self.knob_states
            .retain_directories(|directory| directories.contains(directory.as_path()));
        self.say_waiting();
        self.counts.cgroups = places.len() as u64;
        self.counts.scans += 1;
    }

    /// Looks at cgroups that were heard of.
    pub fn visit_new_cgroups(&mut self) {
        let heard = match self.watch.as_mut().map(CgroupWatch::read_events) {
            None => return,
            Some(Ok(heard)) => heard,
            Some(Err(why)) => {
                self.stop_listening(&format!("inotify: {why}"));
                return;
            }
        };
        let WatchEvents { made, lost, .. } = heard;
        if lost {
            self.scan_all();
            return;
        }
        for directory in made {
            self.visit_subtree(&directory);
        }
    }

    /// Tries again what could not be done, and follows what changes by itself.
    pub fn retry_failed(&mut self) {
        for directory in self.drain_rates.tracked_directories() {
            self.visit_cgroup(&directory);
        }
        for (directory, tries) in self.knob_states.take_due() {
            self.visit_cgroup(&directory);
            self.knob_states.note_try(&directory, tries);
        }
        self.say_waiting();
    }

    /// Looks at one cgroup alone.
    fn visit_cgroup(&mut self, directory: &Path) {
        let mut found = None;
        self.tree.walk(directory, |place| {
            found = Some(place.clone());
            false
        });
        self.settle_knobs(found.as_slice());
    }

    /// Looks at a cgroup and all below it, which it returns.
    fn visit_subtree(&mut self, directory: &Path) -> Vec<CgroupDir> {
        let mut places = Vec::new();
        let mut refused = None;
        let watch = &mut self.watch;
        self.tree.walk(directory, |place| {
            if let Some(watch) = watch {
                refused = watch.add(&place.directory).err().or(refused);
            }
            places.push(place.clone());
            true
        });
        if let Some(why) = refused {
            self.stop_listening(&format!(
                "no inotify watch for each cgroup ({why}), see fs.inotify.max_user_watches"
            ));
        }
        self.settle_knobs(&places);
        places
    }

    /// Gives up listening: hearing of half of the cgroups is of no use.
    fn stop_listening(&mut self, why: &str) {
        self.watch = None;
        self.journal
            .log_event(&JournalEvent::WatchLost { why: why.into() });
    }

    /// Makes the knobs of these cgroups what they ought to be.
    fn settle_knobs(&mut self, places: &[CgroupDir]) {
        let mut changes = Vec::new();
        for place in places.iter().filter(|place| !place.is_root()) {
            self.plan_changes(place, &mut changes);
        }
        for change in &changes {
            if change.origin.is_some() {
                self.saved
                    .note_write(&change.place, change.knob, &change.from, &change.to);
            }
        }
        self.save();
        for change in changes {
            self.apply_change(change);
        }
        self.save();
    }

    fn plan_changes(&mut self, place: &CgroupDir, changes: &mut Vec<KnobChange>) {
        let wanted = match self.rules.stock.is_stock() {
            // It is kept by other files: crate::stock.
            true => BTreeMap::new(),
            false => desired_settings(&self.requests, &self.rules, &self.tree, place),
        };
        for knob in [Knob::DirtyBytes, Knob::WritebackBytes] {
            if !wanted.get(&knob).is_some_and(Setting::is_in_time) {
                self.drain_rates.forget_knob(place.inode, knob);
            }
        }
        let mut knobs: BTreeSet<Knob> = wanted.keys().copied().collect();
        knobs.extend(self.saved.saved_knobs(place));
        for knob in Knob::DIRTY {
            if !knobs.contains(&knob) {
                self.knob_states.remove(place, knob);
            }
        }
        for knob in knobs {
            let rule = wanted.get(&knob);
            let in_bytes = |setting| self.drain_rates.resolve_time(place, knob, setting, true);
            let found = knob_file::read(knob, &place.directory)
                .and_then(|from| Ok((from, rule.map(in_bytes).transpose()?)));
            let (from, rule) = match found {
                Ok(found) => found,
                Err(why) => {
                    self.note_failure(place, knob, &why, wanted.contains_key(&knob));
                    continue;
                }
            };
            let before = self.saved.get(place, knob).cloned();
            let (to, origin) = match next_step(knob, &from, rule.as_ref(), before.as_ref()) {
                Step::Unchanged => {
                    self.knob_states.set_state(place, knob, KnobState::InEffect);
                    continue;
                }
                Step::Forget => {
                    self.saved.restore_entry(place, knob, None);
                    self.knob_states.remove(place, knob);
                    continue;
                }
                Step::Leave => {
                    self.saved.restore_entry(place, knob, None);
                    self.knob_states.remove(place, knob);
                    self.journal.log_event(&JournalEvent::Left {
                        cgroup: place.path.clone(),
                        knob,
                        value: from,
                    });
                    continue;
                }
                Step::Set(to, origin) => (to, Some(origin)),
                Step::PutBack(to) => (to, None),
            };
            changes.push(KnobChange {
                place: place.clone(),
                knob,
                from,
                to,
                origin,
                before,
            });
        }
    }

    fn apply_change(&mut self, change: KnobChange) {
        let KnobChange {
            place,
            knob,
            from,
            to,
            origin,
            before,
        } = change;
        if let Err(why) = knob_file::write(knob, &place.directory, &to) {
            self.saved.restore_entry(&place, knob, before);
            self.note_failure(&place, knob, &why, origin.is_some());
            return;
        }
        self.counts.written += 1;
        let cgroup = place.path.clone();
        let event = match origin {
            Some(origin) => {
                self.knob_states
                    .set_state(&place, knob, KnobState::InEffect);
                JournalEvent::Set {
                    cgroup,
                    knob,
                    from,
                    to,
                    origin,
                }
            }
            None => {
                self.saved.restore_entry(&place, knob, None);
                self.knob_states.remove(&place, knob);
                JournalEvent::PutBack {
                    cgroup,
                    knob,
                    from,
                    to,
                }
            }
        };
        self.journal.log_event(&event);
    }

    /// Notes why a knob could not be read or written, and says so if it is news.
    fn note_failure(&mut self, place: &CgroupDir, knob: Knob, why: &std::io::Error, ruled: bool) {
        // A cgroup that is gone lacks nothing.
        if !place.is_there() {
            self.knob_states.remove(place, knob);
            return;
        }
        // A cgroup that is about to go has files that say so.
        if why.kind() == ErrorKind::NotFound || why.raw_os_error() == Some(nix::libc::ENODEV) {
            // Without its file a knob is at its default, where one that no rule names belongs.
            if ruled {
                self.knob_states.set_state(place, knob, KnobState::Waiting);
            }
            return;
        }
        self.counts.failed += 1;
        let why = knob_file::explain_error(knob, why);
        let news = self
            .knob_states
            .set_state(place, knob, KnobState::Failing(why.clone()));
        if news {
            self.journal.log_event(&JournalEvent::Failed {
                cgroup: place.path.clone(),
                knob,
                why,
            });
        }
    }

    /// Says once that files are missing, until none is.
    fn say_waiting(&mut self) {
        let (knobs, first) = self
            .knob_states
            .count_states(|standing| *standing == KnobState::Waiting);
        if let (Some(directory), false) = (&first, self.said_waiting) {
            let below = directory
                .strip_prefix(self.tree.root())
                .unwrap_or(directory);
            self.journal.log_event(&JournalEvent::Waiting {
                knobs,
                cgroup: format!("/{}", below.display()),
            });
        }
        self.said_waiting = first.is_some();
    }

    fn save(&mut self) {
        let saved = self.saved.save();
        if let (Err(why), false) = (&saved, self.said_forgetful) {
            self.journal.log_event(&JournalEvent::StateNotSaved {
                why: format!("{why:#}"),
            });
        }
        self.said_forgetful = saved.is_err();
    }
}

#[cfg(test)]
mod tests;
