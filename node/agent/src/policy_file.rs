// SPDX-License-Identifier: GPL-2.0-only
//! Noticing that the policy file has changed.
//!
//! It is looked at with every tick, and read when it has been the same for a tick: an editor or a
//! copy that is not done yet would be half a policy. However it was changed (written over, renamed
//! over, a link pointed elsewhere), it shows in what `stat` says.

use crate::file_stamp::{FileStamp, read_stamp};
use crate::rules::Rules;
use config::problem::Problems;
use std::path::{Path, PathBuf};

/// A policy file and what it was like.
pub struct PolicyFile {
    path: PathBuf,
    /// A file with rules for pods, which weir-nri writes.
    pods: Option<PathBuf>,
    /// The files' stamps when they were last read.
    read: [FileStamp; 2],
    /// The file at the last tick.
    seen: [FileStamp; 2],
}

impl PolicyFile {
    /// Reads it for the first time.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn open(path: &Path, pods: Option<&Path>) -> Result<(PolicyFile, Rules), Problems> {
        let mut file = PolicyFile {
            path: path.into(),
            pods: pods.map(PathBuf::from),
            read: [None; 2],
            seen: [None; 2],
        };
        let rules = file.read()?;
        Ok((file, rules))
    }

    /// Reads it now.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn read(&mut self) -> Result<Rules, Problems> {
        self.seen = self.read_stamps();
        self.read = self.seen;
        Rules::load(&self.path, self.pods.as_deref())
    }

    fn read_stamps(&self) -> [FileStamp; 2] {
        [
            read_stamp(&self.path),
            self.pods.as_deref().and_then(read_stamp),
        ]
    }

    /// Reads it if it has changed and come to rest.
    pub fn reread_if_changed(&mut self) -> Option<Result<Rules, Problems>> {
        let now = self.read_stamps();
        let rests = now == self.seen;
        self.seen = now;
        (rests && now != self.read).then(|| self.read())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn it_is_read_when_it_has_come_to_rest() {
        let dir = tempfile::tempdir().expect("made");
        let path = dir.path().join("agent.toml");
        fs::write(&path, "").expect("written");
        let (mut file, rules) = PolicyFile::open(&path, None).expect("no rules");
        assert!(rules.is_empty() && file.reread_if_changed().is_none());

        let rule = "[[rule]]\ncgroup = \"/a\"\nset = { \"memory.dirty_min\" = 1 }\n";
        fs::write(&path, &rule[..20]).expect("written");
        assert!(file.reread_if_changed().is_none(), "just changed");
        fs::write(&path, rule).expect("written");
        assert!(file.reread_if_changed().is_none(), "changed again");
        let rules = file.reread_if_changed().expect("rests").expect("valid");
        assert_eq!(rules.len(), 1);
        assert!(file.reread_if_changed().is_none(), "read once");

        fs::remove_file(&path).expect("removed");
        assert!(file.reread_if_changed().is_none());
        assert!(
            file.reread_if_changed().expect("rests").is_err(),
            "gone is refused"
        );
        assert!(file.reread_if_changed().is_none());

        fs::write(dir.path().join("new"), rule).expect("written");
        fs::rename(dir.path().join("new"), &path).expect("renamed");
        assert!(file.reread_if_changed().is_none());
        assert!(file.reread_if_changed().expect("rests").is_ok());
    }

    #[test]
    fn pods_come_and_go_beside_it() {
        let dir = tempfile::tempdir().expect("made");
        let (path, pods) = (dir.path().join("agent.toml"), dir.path().join("pods.toml"));
        let rule = "[[rule]]\ncgroup = \"/pod\"\nset = { \"memory.writeback_bytes\" = \"10ms\" }\n";
        fs::write(&path, "").expect("written");
        let (mut file, rules) = PolicyFile::open(&path, Some(&pods)).expect("no rules");
        assert!(rules.is_empty() && file.reread_if_changed().is_none());
        fs::write(&pods, rule).expect("written");
        assert!(file.reread_if_changed().is_none());
        assert_eq!(
            file.reread_if_changed()
                .expect("rests")
                .expect("valid")
                .len(),
            1
        );
        fs::write(&pods, "[tier]\n").expect("written");
        assert!(file.reread_if_changed().is_none());
        let why = file
            .reread_if_changed()
            .expect("rests")
            .expect_err("no section for pods");
        assert!(why.to_string().contains("pods.toml"), "{why}");
        fs::remove_file(&pods).expect("removed");
        assert!(file.reread_if_changed().is_none());
        assert!(
            file.reread_if_changed()
                .expect("rests")
                .expect("valid")
                .is_empty()
        );
    }
}
