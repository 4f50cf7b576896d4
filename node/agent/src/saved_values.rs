// SPDX-License-Identifier: GPL-2.0-only
//! What the agent has written over, so that it can be put back when its rule is gone, by a later
//! run of the agent too. Kept in a file below /run, which ends with the boot as cgroups do.
//!
//! Written before the knobs are: a crash in between leaves an entry for a value that never came to
//! be, which is harmless (a knob that does not hold what the entry says is left alone), whereas a
//! value without an entry would stay for good.

use crate::saved_file;
use crate::tree::CgroupDir;
use anyhow::Result;
use knobs::Knob;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The value that a knob of a cgroup had, and the one that was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedValue {
    cgroup: String,
    inode: u64,
    knob: Knob,
    /// The knob's text before the agent first wrote it.
    pub found: String,
    /// The text that the agent wrote.
    pub written: String,
}

impl SavedValue {
    /// An entry for this knob of this cgroup.
    pub fn new(place: &CgroupDir, knob: Knob, found: &str, written: &str) -> SavedValue {
        SavedValue {
            cgroup: place.path.clone(),
            inode: place.inode,
            knob,
            found: found.into(),
            written: written.into(),
        }
    }
}

/// Values of all knobs that were written over, and the file that notes them.
#[derive(Debug)]
pub struct SavedValues {
    file: PathBuf,
    entries: BTreeMap<(u64, Knob), SavedValue>,
    changed: bool,
}

impl SavedValues {
    /// Reads the entries of the file; none if it is not there.
    ///
    /// # Errors
    /// It is there and cannot be understood.
    pub fn open(file: &Path) -> Result<SavedValues> {
        let entries: Vec<SavedValue> = saved_file::read(
            file,
            "what the knobs were before: remove it, and those that were set by rules that are gone stay as they are",
        )?;
        let entries = entries
            .into_iter()
            .map(|entry| ((entry.inode, entry.knob), entry));
        Ok(SavedValues {
            file: file.into(),
            entries: entries.collect(),
            changed: false,
        })
    }

    /// The entry for this knob of this cgroup.
    pub fn get(&self, place: &CgroupDir, knob: Knob) -> Option<&SavedValue> {
        self.entries
            .get(&(place.inode, knob))
            .filter(|entry| entry.cgroup == place.path)
    }

    /// Knobs of the cgroup that have an entry.
    pub fn saved_knobs(&self, place: &CgroupDir) -> Vec<Knob> {
        Knob::DIRTY
            .into_iter()
            .filter(|knob| self.get(place, *knob).is_some())
            .collect()
    }

    /// Notes that `found` is about to be replaced by `written`. What an entry was first made for
    /// stays what it goes back to.
    pub fn note_write(&mut self, place: &CgroupDir, knob: Knob, found: &str, written: &str) {
        let found = self.get(place, knob).map_or(found, |entry| &entry.found);
        let entry = SavedValue::new(place, knob, found, written);
        self.restore_entry(place, knob, Some(entry));
    }

    /// Makes the entry what it was.
    pub fn restore_entry(&mut self, place: &CgroupDir, knob: Knob, entry: Option<SavedValue>) {
        let key = (place.inode, knob);
        let before = match entry.clone() {
            Some(entry) => self.entries.insert(key, entry),
            None => self.entries.remove(&key),
        };
        self.changed |= before != entry;
    }

    /// Keeps the entries for which `there` holds.
    pub fn retain_entries(&mut self, there: impl Fn(u64, &str) -> bool) {
        let before = self.entries.len();
        self.entries
            .retain(|_, entry| there(entry.inode, &entry.cgroup));
        self.changed |= self.entries.len() != before;
    }

    /// Writes the file if anything changed.
    ///
    /// # Errors
    /// It cannot be written; the old one is still there.
    pub fn save(&mut self) -> Result<()> {
        if !self.changed {
            return Ok(());
        }
        saved_file::write(&self.file, self.entries.values())?;
        self.changed = false;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn place(path: &str, inode: u64) -> CgroupDir {
        CgroupDir {
            directory: PathBuf::new(),
            path: path.into(),
            inode,
            delegated: false,
        }
    }

    #[test]
    fn what_was_noted_is_there_for_the_next_run() {
        let dir = tempfile::tempdir().expect("made");
        let file = dir.path().join("run/agent.json");
        let mut saved = SavedValues::open(&file).expect("empty");
        saved.save().expect("nothing to do");
        assert!(!file.exists());
        let a = place("/a", 7);
        saved.note_write(&a, Knob::DirtyMin, "0", "16M");
        saved.note_write(&a, Knob::DirtyMin, "16777216", "32M");
        saved.save().expect("saved");

        let mut next = SavedValues::open(&file).expect("read");
        let entry = next.get(&a, Knob::DirtyMin).expect("there");
        assert_eq!((entry.found.as_str(), entry.written.as_str()), ("0", "32M"));
        assert_eq!(next.saved_knobs(&a), [Knob::DirtyMin]);
        assert_eq!(next.get(&place("/b", 7), Knob::DirtyMin), None, "another");
        assert_eq!(
            next.get(&place("/a", 8), Knob::DirtyMin),
            None,
            "its successor"
        );
        next.retain_entries(|inode, _| inode != 7);
        next.save().expect("saved");
        assert_eq!(SavedValues::open(&file).expect("read").saved_knobs(&a), []);
    }

    #[test]
    fn a_file_that_is_not_understood_is_refused() {
        let dir = tempfile::tempdir().expect("made");
        let file = dir.path().join("agent.json");
        for text in ["", "{", "[]", "{\"version\":2,\"entries\":[]}"] {
            fs::write(&file, text).expect("written");
            let why = format!("{:#}", SavedValues::open(&file).expect_err("refused"));
            assert!(
                why.contains("agent.json does not say what the knobs were"),
                "{why}"
            );
        }
    }

    #[test]
    fn a_file_that_cannot_be_written_is_an_error_each_time() {
        let dir = tempfile::tempdir().expect("made");
        fs::write(dir.path().join("file"), "").expect("written");
        let mut saved = SavedValues::open(&dir.path().join("x.json")).expect("empty");
        saved.file = dir.path().join("file/agent.json");
        saved.note_write(&place("/a", 7), Knob::DirtyMin, "0", "16M");
        assert!(saved.save().is_err());
        assert!(saved.save().is_err());
    }
}
