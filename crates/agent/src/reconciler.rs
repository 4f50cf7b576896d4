// SPDX-License-Identifier: GPL-2.0-only
//! Keeps knobs as the rules say.
//!
//! It compares what is with what ought to be and writes only the difference ([`crate::step`]), so
//! it does not matter how often or why it looks: because a cgroup appeared, the policy changed, an
//! operator wrote a knob by hand, or the module was loaded again.

use crate::journal::{Event, Journal};
use crate::knob_file;
use crate::requests::Requests;
use crate::rules::Rules;
use crate::saved_values::{Entry, SavedValues};
use crate::seconds::Seconds;
use crate::setting::{Origin, Setting};
use crate::standing::{Standing, Standings};
use crate::step::{Step, step};
use crate::tree::{Place, Tree};
use crate::wanted::wanted;
use crate::watch::{Heard, Watch};
use knobs::Knob;
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Counts of what was done since the start, and of the knobs' states.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
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
struct Change {
    place: Place,
    knob: Knob,
    from: String,
    to: String,
    /// The value's origin; none to put back what was there before.
    origin: Option<Origin>,
    /// The saved values' entry before.
    before: Option<Entry>,
}

/// Keeps the knobs of one hierarchy.
pub struct Reconciler {
    tree: Tree,
    rules: Rules,
    requests: Requests,
    saved: SavedValues,
    watch: Option<Watch>,
    journal: Journal,
    standings: Standings,
    seconds: Seconds,
    said_waiting: bool,
    said_forgetful: bool,
    counts: Counts,
}

impl Reconciler {
    /// Nothing is done before the first scan.
    pub fn new(
        tree: Tree,
        rules: Rules,
        requests: Requests,
        saved: SavedValues,
        journal: Journal,
    ) -> Reconciler {
        let watch = Watch::new()
            .map_err(|why| {
                journal.say(&Event::Deaf {
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
            standings: Standings::default(),
            seconds: Seconds::default(),
            said_waiting: false,
            said_forgetful: false,
            counts: Counts::default(),
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
    pub fn watch(&self) -> Option<&Watch> {
        self.watch.as_ref()
    }

    /// Counts so far, with the knobs' states now.
    pub fn counts(&self) -> Counts {
        let number = |wanted: fn(&Standing) -> bool| self.standings.count(wanted).0 as u64;
        Counts {
            watched: self.watch.as_ref().map_or(0, |watch| watch.len() as u64),
            set: number(|standing| *standing == Standing::Set),
            waiting: number(|standing| *standing == Standing::Waiting),
            failing: number(|standing| matches!(standing, Standing::Failing(_))),
            ..self.counts.clone()
        }
    }

    /// Directories of the cgroups that rules name.
    pub fn kept(&self) -> Vec<PathBuf> {
        self.standings.directories()
    }

    /// Puts other rules in effect.
    pub fn follow(&mut self, rules: Rules) {
        self.requests.follow(rules.requests);
        self.rules = rules;
        self.scan();
    }

    /// Returns whether a scan is due before its time: systemd has read its units again.
    pub fn is_overdue(&self) -> bool {
        !self.rules.stock.is_stock() && self.requests.have_changed()
    }

    /// Looks at everything.
    pub fn scan(&mut self) {
        let root = self.tree.root().to_path_buf();
        let places = self.visit(&root);
        let there: BTreeSet<(u64, &str)> = places
            .iter()
            .map(|place| (place.inode, place.path.as_str()))
            .collect();
        self.saved
            .retain(|inode, path| there.contains(&(inode, path)));
        let inodes: BTreeSet<u64> = places.iter().map(|place| place.inode).collect();
        self.requests.retain(|inode| inodes.contains(&inode));
        self.seconds.retain(|inode| inodes.contains(&inode));
        self.save();
        let directories: BTreeSet<&Path> = places.iter().map(|p| p.directory.as_path()).collect();
        self.standings
            .retain(|directory| directories.contains(directory.as_path()));
        self.say_waiting();
        self.counts.cgroups = places.len() as u64;
        self.counts.scans += 1;
    }

    /// Looks at cgroups that were heard of.
    pub fn listen(&mut self) {
        let heard = match self.watch.as_mut().map(Watch::heard) {
            None => return,
            Some(Ok(heard)) => heard,
            Some(Err(why)) => {
                self.deaf(&format!("inotify: {why}"));
                return;
            }
        };
        let Heard { made, lost, .. } = heard;
        if lost {
            self.scan();
            return;
        }
        for directory in made {
            self.visit(&directory);
        }
    }

    /// Tries again what could not be done, and follows what changes by itself.
    pub fn retry(&mut self) {
        for directory in self.seconds.directories() {
            self.visit_one(&directory);
        }
        for (directory, tries) in self.standings.due() {
            self.visit_one(&directory);
            self.standings.tried(&directory, tries);
        }
        self.say_waiting();
    }

    /// Looks at one cgroup alone.
    fn visit_one(&mut self, directory: &Path) {
        let mut found = None;
        self.tree.walk(directory, |place| {
            found = Some(place.clone());
            false
        });
        self.settle(found.as_slice());
    }

    /// Looks at a cgroup and all below it, which it returns.
    fn visit(&mut self, directory: &Path) -> Vec<Place> {
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
            self.deaf(&format!(
                "no inotify watch for each cgroup ({why}), see fs.inotify.max_user_watches"
            ));
        }
        self.settle(&places);
        places
    }

    /// Gives up listening: hearing of half of the cgroups is of no use.
    fn deaf(&mut self, why: &str) {
        self.watch = None;
        self.journal.say(&Event::Deaf { why: why.into() });
    }

    /// Makes the knobs of these cgroups what they ought to be.
    fn settle(&mut self, places: &[Place]) {
        let mut changes = Vec::new();
        for place in places.iter().filter(|place| !place.is_root()) {
            self.plan(place, &mut changes);
        }
        for change in &changes {
            if change.origin.is_some() {
                self.saved
                    .note(&change.place, change.knob, &change.from, &change.to);
            }
        }
        self.save();
        for change in changes {
            self.apply(change);
        }
        self.save();
    }

    fn plan(&mut self, place: &Place, changes: &mut Vec<Change>) {
        let wanted = match self.rules.stock.is_stock() {
            // It is kept by other files: crate::stock.
            true => BTreeMap::new(),
            false => wanted(&self.requests, &self.rules, &self.tree, place),
        };
        for knob in [Knob::DirtyBytes, Knob::WritebackBytes] {
            if !wanted.get(&knob).is_some_and(Setting::is_in_time) {
                self.seconds.forget(place.inode, knob);
            }
        }
        let mut knobs: BTreeSet<Knob> = wanted.keys().copied().collect();
        knobs.extend(self.saved.knobs(place));
        for knob in Knob::DIRTY {
            if !knobs.contains(&knob) {
                self.standings.remove(place, knob);
            }
        }
        for knob in knobs {
            let rule = wanted.get(&knob);
            let in_bytes = |setting| self.seconds.of(place, knob, setting, true);
            let found = knob_file::read(knob, &place.directory)
                .and_then(|from| Ok((from, rule.map(in_bytes).transpose()?)));
            let (from, rule) = match found {
                Ok(found) => found,
                Err(why) => {
                    self.failed(place, knob, &why, wanted.contains_key(&knob));
                    continue;
                }
            };
            let before = self.saved.get(place, knob).cloned();
            let (to, origin) = match step(knob, &from, rule.as_ref(), before.as_ref()) {
                Step::Stands => {
                    self.standings.put(place, knob, Standing::Set);
                    continue;
                }
                Step::Forget => {
                    self.saved.restore(place, knob, None);
                    self.standings.remove(place, knob);
                    continue;
                }
                Step::Leave => {
                    self.saved.restore(place, knob, None);
                    self.standings.remove(place, knob);
                    self.journal.say(&Event::Left {
                        cgroup: place.path.clone(),
                        knob,
                        value: from,
                    });
                    continue;
                }
                Step::Set(to, origin) => (to, Some(origin)),
                Step::PutBack(to) => (to, None),
            };
            changes.push(Change {
                place: place.clone(),
                knob,
                from,
                to,
                origin,
                before,
            });
        }
    }

    fn apply(&mut self, change: Change) {
        let Change {
            place,
            knob,
            from,
            to,
            origin,
            before,
        } = change;
        if let Err(why) = knob_file::write(knob, &place.directory, &to) {
            self.saved.restore(&place, knob, before);
            self.failed(&place, knob, &why, origin.is_some());
            return;
        }
        self.counts.written += 1;
        let cgroup = place.path.clone();
        let event = match origin {
            Some(origin) => {
                self.standings.put(&place, knob, Standing::Set);
                Event::Set {
                    cgroup,
                    knob,
                    from,
                    to,
                    origin,
                }
            }
            None => {
                self.saved.restore(&place, knob, None);
                self.standings.remove(&place, knob);
                Event::PutBack {
                    cgroup,
                    knob,
                    from,
                    to,
                }
            }
        };
        self.journal.say(&event);
    }

    /// Notes why a knob could not be read or written, and says so if it is news.
    fn failed(&mut self, place: &Place, knob: Knob, why: &std::io::Error, ruled: bool) {
        // A cgroup that is gone lacks nothing.
        if !place.is_there() {
            self.standings.remove(place, knob);
            return;
        }
        // A cgroup that is about to go has files that say so.
        if why.kind() == ErrorKind::NotFound || why.raw_os_error() == Some(nix::libc::ENODEV) {
            // Without its file a knob is at its default, where one that no rule names belongs.
            if ruled {
                self.standings.put(place, knob, Standing::Waiting);
            }
            return;
        }
        self.counts.failed += 1;
        let why = knob_file::explain(knob, why);
        let news = self
            .standings
            .put(place, knob, Standing::Failing(why.clone()));
        if news {
            self.journal.say(&Event::Failed {
                cgroup: place.path.clone(),
                knob,
                why,
            });
        }
    }

    /// Says once that files are missing, until none is.
    fn say_waiting(&mut self) {
        let (knobs, first) = self
            .standings
            .count(|standing| *standing == Standing::Waiting);
        if let (Some(directory), false) = (&first, self.said_waiting) {
            let below = directory
                .strip_prefix(self.tree.root())
                .unwrap_or(directory);
            self.journal.say(&Event::Waiting {
                knobs,
                cgroup: format!("/{}", below.display()),
            });
        }
        self.said_waiting = first.is_some();
    }

    fn save(&mut self) {
        let saved = self.saved.save();
        if let (Err(why), false) = (&saved, self.said_forgetful) {
            self.journal.say(&Event::Forgetful {
                why: format!("{why:#}"),
            });
        }
        self.said_forgetful = saved.is_err();
    }
}

#[cfg(test)]
mod tests;
