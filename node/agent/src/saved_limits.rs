// SPDX-License-Identifier: GPL-2.0-only
//! Which limits the agent has set, in a file below /run, so that the next agent puts them back if
//! this one is killed, to what each was before.
//!
//! The file is written before a limit is, with the value there is and the one to be: whichever of
//! them a crash leaves in place, it is known.

use crate::saved_file;
use crate::tree::CgroupDir;
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A cgroup's limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedLimit {
    /// The cgroup's path from the root of the hierarchy.
    pub cgroup: String,
    /// Inode of the directory, which tells a cgroup from its successor.
    pub inode: u64,
    /// Limit in bytes that is put back in the end; none for `max`.
    #[serde(default)]
    pub original: Option<u64>,
    /// Values that the limit's file may say, in bytes.
    pub values: Vec<u64>,
}

/// Limits that were set, and the file that notes them.
#[derive(Debug)]
pub struct SavedLimits {
    file: PathBuf,
    limit: &'static str,
    entries: BTreeMap<u64, SavedLimit>,
}

impl SavedLimits {
    /// Reads the file about limits that are written to cgroups' files called `limit`; no limits if
    /// it is not there.
    ///
    /// # Errors
    /// It is there and cannot be understood.
    pub fn open(file: &Path, limit: &'static str) -> Result<SavedLimits> {
        let lost = format!(
            "which limits were set: remove it, and put {limit} of cgroups that are limited back by hand"
        );
        let entries: Vec<SavedLimit> = saved_file::read(file, &lost)?;
        Ok(SavedLimits {
            file: file.into(),
            limit,
            entries: entries
                .into_iter()
                .map(|entry| (entry.inode, entry))
                .collect(),
        })
    }

    /// Name of the cgroups' files that the limits are written to.
    pub fn limit(&self) -> &'static str {
        self.limit
    }

    /// Limits that are noted, by cgroup.
    pub fn entries(&self) -> impl Iterator<Item = &SavedLimit> {
        self.entries.values()
    }

    /// The limit in bytes to put back where the cgroup's is set; none for `max`.
    pub fn original_bytes(&self, place: &CgroupDir) -> Option<u64> {
        self.entries.get(&place.inode)?.original
    }

    /// Notes that the cgroup's limit is one of `values`, before it is, and `original` the one to put
    /// back, in bytes.
    ///
    /// # Errors
    /// The file cannot be written; the old one is still there.
    pub fn note_values(
        &mut self,
        place: &CgroupDir,
        original: Option<u64>,
        values: &[u64],
    ) -> Result<()> {
        self.entries.insert(
            place.inode,
            SavedLimit {
                cgroup: place.path.clone(),
                inode: place.inode,
                original,
                values: values.into(),
            },
        );
        self.save()
    }

    /// Forgets the cgroup's limit.
    ///
    /// # Errors
    /// The file cannot be written; the old one is still there.
    pub fn forget_limit(&mut self, place: &CgroupDir) -> Result<()> {
        self.entries.remove(&place.inode);
        self.save()
    }

    /// Forgets all of them.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn clear(&mut self) -> Result<()> {
        self.entries.clear();
        self.save()
    }

    fn save(&self) -> Result<()> {
        saved_file::write(&self.file, self.entries.values())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn it_comes_back_as_it_was_noted() {
        let dir = tempfile::tempdir().expect("made");
        let file = dir.path().join("weir/reclaim.json");
        let place = |inode| CgroupDir {
            directory: "/".into(),
            path: format!("/{inode}"),
            inode,
            delegated: false,
        };
        let mut saved = SavedLimits::open(&file, "memory.high").expect("nothing yet");
        saved
            .note_values(&place(1), None, &[4096])
            .expect("written");
        saved
            .note_values(&place(2), Some(16_384), &[4096, 8192])
            .expect("written");
        saved.forget_limit(&place(1)).expect("written");
        let again = SavedLimits::open(&file, "memory.high").expect("read");
        let entries: Vec<_> = again.entries().cloned().collect();
        let [entry] = &entries[..] else {
            panic!("{entries:?}")
        };
        assert_eq!((entry.inode, &entry.values[..]), (2, &[4096, 8192][..]));
        assert_eq!(again.original_bytes(&place(2)), Some(16_384));
        // As an agent wrote it that knew no other limit than `max`.
        fs::write(
            &file,
            "{\"version\": 1, \"entries\": [{\"cgroup\": \"/3\", \"inode\": 3, \"values\": [4096]}]}",
        )
        .expect("written");
        let older = SavedLimits::open(&file, "memory.high").expect("read");
        assert_eq!(older.entries().count(), 1);
        assert_eq!(older.original_bytes(&place(3)), None);
        fs::write(&file, "{\"version\": 2, \"entries\": []}").expect("written");
        let why = format!(
            "{:#}",
            SavedLimits::open(&file, "memory.high").expect_err("refused")
        );
        assert!(
            why.contains("put memory.high") && why.contains("version 2"),
            "{why}"
        );
    }
}
