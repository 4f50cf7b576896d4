// SPDX-License-Identifier: GPL-2.0-only
//! Keeps settings as wanted and puts the others back. What was found and what may have been written
//! is noted in a file below /run before it is written, so that the next agent knows what a killed one
//! left.
//!
//! A cgroup's limit stands below another program's (`MemoryHigh=` of systemd, Kubernetes' MemoryQoS),
//! never above, and that one is put back in the end. One that another program writes meanwhile is the
//! one to put back from then on: systemd writes its own at each `set-property`, from 262 on at each
//! `daemon-reload`. Who keeps on writing it gets it ([`CONTESTS`]). A cgroup's weight is set only while
//! it holds its default. A host's file always holds something: the first value that is wanted replaces
//! it, and what another program writes then stays.

use crate::saved_file;
use crate::stock_file::StockSetting;
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Times within [`CONTEST`] that a limit is written over before it is left to the other program.
const CONTESTS: usize = 10;
/// The period in which these are counted.
const CONTEST: Duration = Duration::from_secs(60);

/// A setting of a directory: a cgroup's, or the host's root.
pub type Key = (PathBuf, StockSetting);

/// A setting that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SavedSetting {
    directory: PathBuf,
    /// Tells a cgroup from its successor; none for the host, whose root a container sees as its own.
    inode: Option<u64>,
    setting: StockSetting,
    found: String,
    /// Values that it may hold by the agent's doing.
    written: Vec<String>,
}

impl SavedSetting {
    /// Returns whether another program made it hold `now`. What was found is among the values that it
    /// may hold, in case the agent is killed before it writes; a cgroup's others do write it again.
    fn is_written_over(&self, now: &str) -> bool {
        let is_noted = self.written.iter().any(|value| value == now);
        let is_found_again = self.setting.default_value().is_some() && now == self.found;
        self.written.last().is_none_or(|last| last != now) && (!is_noted || is_found_again)
    }
}

/// Change of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingChange {
    /// The setting was set, from what to what.
    Set(String, String),
    /// Another program set it to its default or its own limit, and it is set again: to what.
    Again(String),
    /// The setting was set to a limit below another program's: that, and the new one.
    Below(String, String),
    /// The setting is again what was found.
    PutBack(String),
    /// The setting holds another program's value, which stays.
    Left(String),
    /// The kernel refused, and why.
    Failed(String),
}

/// Settings that are the agent's, and the file that notes them.
pub struct SavedSettings {
    file: PathBuf,
    entries: BTreeMap<Key, SavedSetting>,
    /// Settings that another program has set, or that failed, and that were told of.
    foreign: BTreeSet<Key>,
    /// Times at which another program wrote over a limit, of late.
    contests: BTreeMap<Key, Vec<Instant>>,
}

impl SavedSettings {
    /// Reads the entries of the file; none if it is not there.
    ///
    /// # Errors
    /// It is there and cannot be understood.
    pub fn open(file: &Path) -> Result<SavedSettings> {
        let entries: Vec<SavedSetting> = saved_file::read(
            file,
            "what was set for [stock]: remove it, and put memory.high, io.max and io.weight of cgroups, vm.dirty_* and \
             nr_requests and max_sectors_kb of disks back by hand",
        )?;
        let entries = entries
            .into_iter()
            .map(|entry| ((entry.directory.clone(), entry.setting.clone()), entry));
        Ok(SavedSettings {
            file: file.into(),
            entries: entries.collect(),
            foreign: BTreeSet::new(),
            contests: BTreeMap::new(),
        })
    }

    /// Number of settings that are the agent's.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether this one is the agent's.
    pub fn is_own(&self, key: &Key) -> bool {
        self.entries.contains_key(key)
    }

    /// The value that the setting held before it became the agent's.
    pub fn found_value(&self, key: &Key) -> Option<&str> {
        self.entries.get(key).map(|entry| entry.found.as_str())
    }

    /// Makes settings what is `wanted` and puts back the others; what changed, but for values that
    /// merely follow.
    ///
    /// # Errors
    /// What is to be written cannot be noted: nothing was written.
    pub fn apply_settings(
        &mut self,
        wanted: &BTreeMap<Key, String>,
    ) -> Result<Vec<(Key, SettingChange)>> {
        let mut changes = Vec::new();
        let mut writes: Vec<(Key, String, String)> = Vec::new();
        let mut again = BTreeSet::new();
        let before = self.entries.clone();
        self.contests.retain(|key, _| wanted.contains_key(key));
        // Limits that another program's is not above.
        let mut idle = BTreeSet::new();
        for (key, value) in wanted {
            let Some(inode) = inode_of(key) else { continue };
            let Ok(now) = key.1.read(&key.0) else {
                continue;
            };
            let own = before.get(key).filter(|of| of.inode == inode);
            let is_written_over = own.is_some_and(|entry| entry.is_written_over(&now));
            let found = match own {
                Some(_) if is_written_over => self.found_again(key, &now),
                Some(entry) => Some(entry.found.clone()),
                None => self.found_first(key, &now),
            };
            let Some(found) = found else {
                self.entries.remove(key);
                if self.foreign.insert(key.clone()) {
                    changes.push((key.clone(), SettingChange::Left(now)));
                }
                continue;
            };
            if is_written_over {
                again.insert(key.clone());
            }
            if key.1.is_limit() && !is_below(value, &found) {
                idle.insert(key.clone());
                continue;
            }
            if now == *value && own.is_some() {
                continue;
            }
            let entry = SavedSetting {
                directory: key.0.clone(),
                inode,
                setting: key.1.clone(),
                found,
                written: vec![now.clone(), value.clone()],
            };
            self.entries.insert(key.clone(), entry);
            writes.push((key.clone(), now, value.clone()));
        }
        if self.entries != before {
            self.save()?;
        }
        for (key, now, value) in writes {
            let is_new = !before.contains_key(&key);
            match key.1.write(&key.0, &value) {
                Ok(()) => {
                    let was_foreign = self.foreign.remove(&key);
                    let is_again = again.contains(&key);
                    let is_default = key.1.default_value() == Some(now.as_str());
                    let change = if key.1.is_limit() && !is_default && (is_new || is_again) {
                        SettingChange::Below(now, value)
                    } else if is_new || was_foreign {
                        SettingChange::Set(now, value)
                    } else if is_again {
                        SettingChange::Again(value)
                    } else {
                        continue;
                    };
                    changes.push((key, change));
                }
                Err(why) => {
                    // A write that waits for its disk may be done yet: it is to be put back then.
                    if is_new && why.kind() != ErrorKind::TimedOut {
                        self.entries.remove(&key);
                    }
                    if self.foreign.insert(key.clone()) {
                        changes.push((key, SettingChange::Failed(why.to_string())));
                    }
                }
            }
        }
        let over: Vec<Key> = self
            .entries
            .keys()
            .filter(|key| !wanted.contains_key(*key) || idle.contains(*key))
            .cloned()
            .collect();
        for key in &over {
            changes.extend(self.put_back(key).map(|change| (key.clone(), change)));
        }
        if !over.is_empty() {
            self.save()?;
        }
        Ok(changes)
    }

    /// The value to put back where no setting is the agent's and the file holds `now`; none if that
    /// is another program's to keep.
    fn found_first(&self, key: &Key, now: &str) -> Option<String> {
        let is_free = match key.1.default_value() {
            Some(unset) => now == unset || (key.1.is_limit() && !self.is_contested(key)),
            None => !self.foreign.contains(key),
        };
        is_free.then(|| now.to_owned())
    }

    /// The same where another program wrote `now` over the agent's value.
    fn found_again(&mut self, key: &Key, now: &str) -> Option<String> {
        if key.1.default_value() == Some(now) {
            return Some(now.to_owned());
        }
        if !key.1.is_limit() {
            return None;
        }
        let times = self.contests.entry(key.clone()).or_default();
        times.retain(|at| at.elapsed() < CONTEST);
        times.push(Instant::now());
        (!self.is_contested(key)).then(|| now.to_owned())
    }

    fn is_contested(&self, key: &Key) -> bool {
        let times = self.contests.get(key);
        times.is_some_and(|times| times.len() >= CONTESTS)
    }

    /// Puts one back, unless another program has changed it or its cgroup is gone.
    fn put_back(&mut self, key: &Key) -> Option<SettingChange> {
        let entry = self.entries.get(key)?;
        let is_there = inode_of(key).is_some_and(|inode| inode == entry.inode);
        let now = match is_there.then(|| key.1.read(&key.0)) {
            Some(Ok(now)) => now,
            // The next look, or the next agent, puts it back.
            Some(Err(why)) if why.kind() == ErrorKind::TimedOut => return None,
            _ => {
                self.entries.remove(key);
                return None;
            }
        };
        if now == entry.found {
            self.entries.remove(key);
            return None;
        }
        if !entry.written.contains(&now) {
            self.entries.remove(key);
            return Some(SettingChange::Left(now));
        }
        match key.1.write(&key.0, &entry.found) {
            Ok(()) => self
                .entries
                .remove(key)
                .map(|entry| SettingChange::PutBack(entry.found)),
            Err(why) => Some(SettingChange::Failed(why.to_string())),
        }
    }

    fn save(&self) -> Result<()> {
        saved_file::write(&self.file, self.entries.values())
    }
}

/// Compares two limits; `max`, or a text that is no number, is below none.
fn is_below(limit: &str, other: &str) -> bool {
    let bytes = |text: &str| text.parse::<u64>().unwrap_or(u64::MAX);
    bytes(limit) < bytes(other)
}

/// The inode of a cgroup's directory, none for the host; nothing if it is gone.
fn inode_of((directory, setting): &Key) -> Option<Option<u64>> {
    match setting.default_value() {
        None => Some(None),
        Some(_) => Some(Some(fs::symlink_metadata(directory).ok()?.ino())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new() -> Machine {
            let dir = tempfile::tempdir().expect("made");
            for (file, text) in [("a/memory.high", "max\n"), ("bdi/max_ratio", "100\n")] {
                let file = dir.path().join(file);
                fs::create_dir_all(file.parent().expect("has one")).expect("made");
                fs::write(file, text).expect("written");
            }
            Machine(dir)
        }

        fn kept(&self) -> SavedSettings {
            SavedSettings::open(&self.0.path().join("run/stock.json")).expect("read")
        }

        fn high(&self) -> Key {
            (self.0.path().join("a"), StockSetting::High)
        }

        fn ratio(&self) -> Key {
            (
                self.0.path().into(),
                StockSetting::File("bdi/max_ratio".into()),
            )
        }

        fn says(&self, key: &Key) -> String {
            key.1.read(&key.0).expect("read")
        }
    }

    fn wanted(of: &[(&Key, &str)]) -> BTreeMap<Key, String> {
        let each = of
            .iter()
            .map(|(key, value)| ((*key).clone(), (*value).into()));
        each.collect()
    }

    #[test]
    fn settings_are_kept_and_put_back() {
        let machine = Machine::new();
        let (high, ratio) = (machine.high(), machine.ratio());
        let mut kept = machine.kept();
        let both = wanted(&[(&high, "8192"), (&ratio, "10")]);
        assert_eq!(kept.apply_settings(&both).expect("set").len(), 2);
        assert_eq!(machine.says(&ratio), "10");
        // One follows, and is not told of; the other is wanted no more.
        let changes = kept
            .apply_settings(&wanted(&[(&high, "12288")]))
            .expect("set");
        assert_eq!(
            changes,
            [(ratio.clone(), SettingChange::PutBack("100".into()))]
        );
        assert_eq!(
            (machine.says(&high), machine.says(&ratio)),
            ("12288".into(), "100".into())
        );
        kept.apply_settings(&BTreeMap::new()).expect("put back");
        assert_eq!((machine.says(&high), kept.len()), ("max".into(), 0));
    }

    #[test]
    fn the_next_agent_puts_back_what_a_killed_one_left() {
        let machine = Machine::new();
        let (high, ratio) = (machine.high(), machine.ratio());
        let both = wanted(&[(&high, "8192"), (&ratio, "10")]);
        machine.kept().apply_settings(&both).expect("set");
        machine
            .kept()
            .apply_settings(&BTreeMap::new())
            .expect("put back");
        assert_eq!(
            (machine.says(&high), machine.says(&ratio)),
            ("max".into(), "100".into())
        );
        // Killed between the note and the write, which is then as it was found.
        machine.kept().apply_settings(&both).expect("set");
        high.1.write(&high.0, "max").expect("written");
        machine
            .kept()
            .apply_settings(&BTreeMap::new())
            .expect("put back");
        assert_eq!(machine.kept().len(), 0);
    }

    #[test]
    fn another_programs_value_of_the_host_stays() {
        let machine = Machine::new();
        let ratio = machine.ratio();
        let mut kept = machine.kept();
        let ten = wanted(&[(&ratio, "10")]);
        kept.apply_settings(&ten).expect("set");
        ratio.1.write(&ratio.0, "50").expect("written");
        let left = (ratio.clone(), SettingChange::Left("50".into()));
        assert_eq!(kept.apply_settings(&ten).expect("looked"), [left]);
        assert_eq!(kept.apply_settings(&ten).expect("looked"), [], "told once");
        kept.apply_settings(&BTreeMap::new()).expect("put back");
        assert_eq!(machine.says(&ratio), "50");
    }

    /// As systemd's `MemoryHigh=` and Kubernetes' MemoryQoS.
    #[test]
    fn a_limit_stands_below_another_programs_which_comes_back() {
        let machine = Machine::new();
        let high = machine.high();
        let apply = |kept: &mut SavedSettings, value: &str| {
            kept.apply_settings(&wanted(&[(&high, value)]))
                .expect(value)
        };
        let below = |found: &str, value: &str| {
            let change = SettingChange::Below(found.into(), value.into());
            [(high.clone(), change)]
        };
        let mut kept = machine.kept();
        high.1.write(&high.0, "16384").expect("written");
        assert_eq!(apply(&mut kept, "8192"), below("16384", "8192"));
        assert_eq!(machine.says(&high), "8192");
        assert_eq!(apply(&mut kept, "12288"), [], "it follows");
        // Its own limit is enough.
        assert_eq!(apply(&mut kept, "20480").len(), 1);
        assert_eq!((machine.says(&high), kept.len()), ("16384".into(), 0));
        assert_eq!(apply(&mut kept, "20480"), []);
        // Another one, while the agent's is in force.
        apply(&mut kept, "8192");
        high.1.write(&high.0, "12288").expect("written");
        assert_eq!(apply(&mut kept, "8192"), below("12288", "8192"));
        machine
            .kept()
            .apply_settings(&BTreeMap::new())
            .expect("put back by the next agent");
        assert_eq!(machine.says(&high), "12288");
    }

    #[test]
    fn who_keeps_on_writing_a_limit_gets_it() {
        let machine = Machine::new();
        let high = machine.high();
        let mut kept = machine.kept();
        let own = wanted(&[(&high, "8192")]);
        let changes = (0..2 * CONTESTS).flat_map(|_| {
            high.1.write(&high.0, "16384").expect("written");
            kept.apply_settings(&own).expect("looked")
        });
        let left = changes.filter(|(_, change)| matches!(change, SettingChange::Left(_)));
        assert_eq!(left.count(), 1);
        assert_eq!((machine.says(&high), kept.len()), ("16384".into(), 0));
        high.1.write(&high.0, "max").expect("written");
        kept.apply_settings(&own).expect("set");
        assert_eq!(machine.says(&high), "8192", "until it ends");
    }

    /// As by systemd 262 at each daemon-reload, after the limit has followed what the cgroup holds.
    #[test]
    fn a_cgroups_default_in_place_of_the_limit_is_no_other_programs_value() {
        let machine = Machine::new();
        let high = machine.high();
        let mut kept = machine.kept();
        kept.apply_settings(&wanted(&[(&high, "8192")]))
            .expect("set");
        high.1.write(&high.0, "max").expect("written");
        let changes = kept
            .apply_settings(&wanted(&[(&high, "8192")]))
            .expect("set");
        assert_eq!(
            changes,
            [(high.clone(), SettingChange::Again("8192".into()))]
        );
        for value in ["12288", "16384"] {
            kept.apply_settings(&wanted(&[(&high, value)]))
                .expect("set");
        }
        high.1.write(&high.0, "max").expect("written");
        let changes = kept
            .apply_settings(&wanted(&[(&high, "16384")]))
            .expect("set");
        assert_eq!(
            changes,
            [(high.clone(), SettingChange::Again("16384".into()))]
        );
        assert_eq!(machine.says(&high), "16384");
        let changes = kept
            .apply_settings(&wanted(&[(&high, "16384")]))
            .expect("set");
        assert_eq!(changes, [], "told once a reset");
        kept.apply_settings(&BTreeMap::new()).expect("put back");
        assert_eq!(machine.says(&high), "max");
    }

    /// Its file is a pipe here, which waits for a writer as a queue's waits for its disk.
    #[test]
    fn a_disk_that_hangs_is_left_for_later_and_holds_up_no_other_setting() {
        let machine = Machine::new();
        let dir = machine.0.path().join("sys/block/sda/queue");
        fs::create_dir_all(&dir).expect("made");
        let (pipe, file) = (dir.join("nr_requests"), "sys/block/sda/queue/nr_requests");
        let queue = (machine.0.path().into(), StockSetting::File(file.into()));
        let ratio = machine.ratio();
        let both = wanted(&[(&queue, "4"), (&ratio, "10")]);
        fs::write(&pipe, "64\n").expect("written");
        let mut kept = machine.kept();
        kept.apply_settings(&both).expect("set");
        fs::remove_file(&pipe).expect("removed");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("made");
        // The disk hangs: the other setting is put back, and this one is still noted.
        kept.apply_settings(&BTreeMap::new()).expect("looked");
        assert_eq!((machine.says(&ratio), kept.len()), ("100".into(), 1));
        assert_eq!(machine.kept().len(), 1, "for the next agent");
        let answers = fs::OpenOptions::new().read(true).write(true).open(&pipe);
        std::io::Write::write_all(&mut answers.expect("open"), b"4\n").expect("written");
        fs::remove_file(&pipe).expect("removed");
        fs::write(&pipe, "4\n").expect("written");
        while kept.len() > 0 {
            kept.apply_settings(&BTreeMap::new()).expect("looked");
        }
        assert_eq!(machine.says(&queue), "64");
    }

    #[test]
    fn a_cgroups_successor_is_left_alone() {
        let machine = Machine::new();
        let high = machine.high();
        let mut kept = machine.kept();
        kept.apply_settings(&wanted(&[(&high, "8192")]))
            .expect("set");
        fs::rename(&high.0, machine.0.path().join("old")).expect("moved");
        fs::create_dir(&high.0).expect("made");
        fs::write(high.0.join("memory.high"), "8192\n").expect("written");
        kept.apply_settings(&BTreeMap::new()).expect("put back");
        assert_eq!(machine.says(&high), "8192");
    }
}
