// SPDX-License-Identifier: GPL-2.0-only
//! Writing limits, and what keeps another program's value from being lost. A limit is a file of
//! each cgroup that takes bytes, or `max` for none: `memory.high`, `memory.dirty_bytes`.
//!
//! Up to Linux 6.15 a write of a `memory.high` below the usage makes the writing task reclaim the
//! difference first. It gives up on a signal, or when reclaim finds nothing; the limit is set by
//! then. Later kernels leave that to the cgroup's own tasks if the file is opened with O_NONBLOCK.

use crate::journal::{Journal, JournalEvent};
use crate::saved_limits::SavedLimits;
use crate::tree::{CgroupDir, Hierarchy};
use knobs::PageSize;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Text of a limit's file that says that there is none.
const NONE: &str = "max";

/// Mode in which the agent sets limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// No cgroup is looked at.
    #[default]
    Off,
    /// Limits that would be set are printed.
    Observe,
    /// Limits are set.
    On,
}

impl Mode {
    /// The mode that a policy file names.
    ///
    /// # Errors
    /// There is no such mode.
    pub fn parse(text: &str) -> Result<Mode, String> {
        match text {
            "off" => Ok(Mode::Off),
            "observe" => Ok(Mode::Observe),
            "on" => Ok(Mode::On),
            _ => Err("expected `on`, `observe` or `off`".into()),
        }
    }
}

/// Value that was found in place of the limit that was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundLimit {
    /// The value that was expected.
    Own,
    /// Another program's value, in the file's words.
    Foreign(String),
    /// The cgroup is gone.
    Gone,
}

/// Compares the limit's file with `pages`; no limit if `None`.
pub fn compare_limit(limit: &str, directory: &Path, pages: Option<u64>) -> FoundLimit {
    let Ok(text) = fs::read_to_string(directory.join(limit)) else {
        return FoundLimit::Gone;
    };
    match text.trim() {
        text if text == limit_text(pages) => FoundLimit::Own,
        text => FoundLimit::Foreign(text.into()),
    }
}

/// Reads a limit in bytes, none for `max`; nothing if the cgroup is gone.
pub fn read_bytes(limit: &str, directory: &Path) -> Option<Option<u64>> {
    let text = fs::read_to_string(directory.join(limit)).ok()?;
    Some(text.trim().parse().ok())
}

/// Writes the limit's file, in bytes; no limit if `None`.
///
/// # Errors
/// The kernel's, or the cgroup is gone.
fn write(limit: &str, directory: &Path, bytes: Option<u64>) -> io::Result<()> {
    // Not made: a directory that is no cgroup's would get one.
    let mut file = fs::OpenOptions::new()
        .write(true)
        .truncate(true)
        .custom_flags(nix::libc::O_NONBLOCK)
        .open(directory.join(limit))?;
    file.write_all(format!("{}\n", bytes_text(bytes)).as_bytes())
}

fn limit_text(pages: Option<u64>) -> String {
    bytes_text(pages.map(whole_page_bytes))
}

fn bytes_text(bytes: Option<u64>) -> String {
    bytes.map_or(NONE.into(), |bytes| bytes.to_string())
}

/// The kernel keeps `memory.high` in its own pages: another number than whole ones would not read
/// back, and be taken for another program's.
fn whole_page_bytes(pages: u64) -> u64 {
    PageSize::running().ceiling_bytes_of_units(pages)
}

/// Sets the limit of a cgroup, in pages, which is noted first: `before` is what was set until now, and
/// `original` what is put back in the end, in bytes.
///
/// # Errors
/// What was found instead of these: nothing was written. Or why it cannot be.
pub fn set(
    saved: &mut SavedLimits,
    place: &CgroupDir,
    original: Option<u64>,
    before: Option<u64>,
    to: u64,
) -> Result<(), Refused> {
    let found = read_bytes(saved.limit(), &place.directory);
    if found != Some(before.map(whole_page_bytes).or(original)) {
        saved.forget_limit(place)?;
        return Err(Refused::Found(match found {
            Some(other) => FoundLimit::Foreign(bytes_text(other)),
            None => FoundLimit::Gone,
        }));
    }
    let values: Vec<u64> = before
        .iter()
        .chain([&to])
        .map(|pages| whole_page_bytes(*pages))
        .collect();
    saved.note_values(place, original, &values)?;
    write(saved.limit(), &place.directory, Some(whole_page_bytes(to)))?;
    Ok(())
}

/// Puts a limit back to what it was, unless another program has changed it, and says which it was.
///
/// # Errors
/// The cgroup, and why it could not be noted or written: for people.
pub fn put_back(
    saved: &mut SavedLimits,
    place: &CgroupDir,
    pages: u64,
    journal: &Journal,
) -> Result<(), String> {
    let (cgroup, limit) = (place.path.clone(), saved.limit());
    let to = bytes_text(saved.original_bytes(place));
    match remove_limit(saved, place, pages) {
        Ok(()) => journal.log_event(&JournalEvent::LimitPutBack { cgroup, limit, to }),
        Err(Refused::Found(FoundLimit::Foreign(value))) => {
            journal.log_event(&JournalEvent::LimitLeft {
                cgroup,
                limit,
                value,
            })
        }
        Err(Refused::Found(_)) => {}
        Err(Refused::Failed(why)) => return Err(format!("{cgroup}: {why:#}")),
    }
    Ok(())
}

fn remove_limit(saved: &mut SavedLimits, place: &CgroupDir, pages: u64) -> Result<(), Refused> {
    let found = compare_limit(saved.limit(), &place.directory, Some(pages));
    if found == FoundLimit::Own {
        write(saved.limit(), &place.directory, saved.original_bytes(place))?;
    }
    saved.forget_limit(place)?;
    match found {
        FoundLimit::Own => Ok(()),
        other => Err(Refused::Found(other)),
    }
}

/// Why a limit was not set.
#[derive(Debug)]
pub enum Refused {
    /// Another value is there.
    Found(FoundLimit),
    /// The limit could not be noted or written.
    Failed(anyhow::Error),
}

impl From<io::Error> for Refused {
    fn from(why: io::Error) -> Refused {
        match why.kind() {
            io::ErrorKind::NotFound => Refused::Found(FoundLimit::Gone),
            _ => Refused::Failed(why.into()),
        }
    }
}

impl From<anyhow::Error> for Refused {
    fn from(why: anyhow::Error) -> Refused {
        Refused::Failed(why)
    }
}

/// Puts back what an agent that was killed has left; what could not be, for people.
pub fn take_over(mut saved: SavedLimits, tree: &Hierarchy, journal: &Journal) -> Vec<String> {
    let mut failed = Vec::new();
    if saved.entries().next().is_none() {
        return failed;
    }
    let limit = saved.limit();
    let mut there = BTreeMap::new();
    tree.walk(tree.root(), |place| {
        there.insert(place.inode, place.clone());
        true
    });
    for entry in saved.entries() {
        let Some(place) = there.get(&entry.inode).filter(|at| at.path == entry.cgroup) else {
            continue;
        };
        let text = fs::read_to_string(place.directory.join(limit)).unwrap_or_default();
        let text = text.trim();
        let is_own = text
            .parse()
            .is_ok_and(|bytes| entry.values.contains(&bytes));
        let cgroup = place.path.clone();
        let to = bytes_text(entry.original);
        match is_own.then(|| write(limit, &place.directory, entry.original)) {
            Some(Ok(())) => journal.log_event(&JournalEvent::LimitPutBack { cgroup, limit, to }),
            Some(Err(why)) => failed.push(format!(
                "{cgroup}: {limit} cannot be put back to {to}: {why}"
            )),
            None if text == to => {}
            None => journal.log_event(&JournalEvent::LimitLeft {
                cgroup,
                limit,
                value: text.into(),
            }),
        }
    }
    failed.extend(saved.clear().err().map(|why| format!("{why:#}")));
    failed
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "memory.high";

    fn journal() -> Journal {
        Journal::new(std::io::sink(), false)
    }

    struct Cgroup {
        dir: tempfile::TempDir,
        place: CgroupDir,
        saved: SavedLimits,
    }

    fn cgroup(high: &str) -> Cgroup {
        let dir = tempfile::tempdir().expect("made");
        let directory = dir.path().join("a");
        fs::create_dir(&directory).expect("made");
        fs::write(directory.join(FILE), high).expect("written");
        let tree = Hierarchy::open(dir.path()).expect("a hierarchy");
        let mut place = None;
        tree.walk(&directory, |found| {
            place = Some(found.clone());
            true
        });
        Cgroup {
            place: place.expect("found"),
            saved: SavedLimits::open(&dir.path().join("state"), FILE).expect("empty"),
            dir,
        }
    }

    impl Cgroup {
        fn says(&self) -> String {
            fs::read_to_string(self.place.directory.join(FILE)).expect("read")
        }

        /// As after SIGKILL: the next agent knows what is in the file.
        fn next_agent(&self) {
            let saved = SavedLimits::open(&self.dir.path().join("state"), FILE).expect("read");
            let tree = Hierarchy::open(self.dir.path()).expect("a hierarchy");
            let failed = take_over(saved, &tree, &journal());
            assert_eq!(failed, [""; 0]);
        }
    }

    #[test]
    fn a_limit_is_set_changed_and_put_back() {
        let mut of = cgroup("max\n");
        set(&mut of.saved, &of.place, None, None, 10).expect("set");
        assert_eq!(of.says(), "40960\n");
        set(&mut of.saved, &of.place, None, Some(10), 9).expect("set");
        put_back(&mut of.saved, &of.place, 9, &journal()).expect("put back");
        assert_eq!(of.says(), "max\n");
        assert_eq!(of.saved.entries().count(), 0);
    }

    #[test]
    fn a_value_of_another_program_stays() {
        let mut of = cgroup("8192\n");
        let refused = set(&mut of.saved, &of.place, None, None, 10).expect_err("refused");
        assert!(matches!(refused, Refused::Found(FoundLimit::Foreign(value)) if value == "8192"));
        let mut of = cgroup("max\n");
        set(&mut of.saved, &of.place, None, None, 10).expect("set");
        fs::write(of.place.directory.join(FILE), "4096\n").expect("written");
        put_back(&mut of.saved, &of.place, 10, &journal()).expect("left");
        assert_eq!(of.says(), "4096\n");
    }

    #[test]
    fn a_limit_below_another_programs_is_put_back_to_that() {
        let mut of = cgroup("65536\n");
        set(&mut of.saved, &of.place, Some(65_536), None, 10).expect("set");
        set(&mut of.saved, &of.place, Some(65_536), Some(10), 9).expect("set");
        put_back(&mut of.saved, &of.place, 9, &journal()).expect("put back");
        assert_eq!(of.says(), "65536\n");
        set(&mut of.saved, &of.place, Some(65_536), None, 10).expect("set");
        of.next_agent();
        assert_eq!(of.says(), "65536\n", "by the next agent, too");
    }

    #[test]
    fn the_next_agent_puts_back_what_a_killed_one_left() {
        let mut of = cgroup("max\n");
        set(&mut of.saved, &of.place, None, None, 10).expect("set");
        of.next_agent();
        assert_eq!(of.says(), "max\n");
        // Killed between the note and the write: the value before is known, too.
        set(&mut of.saved, &of.place, None, None, 10).expect("set");
        of.saved
            .note_values(&of.place, None, &[40_960, 36_864])
            .expect("noted");
        of.next_agent();
        assert_eq!(of.says(), "max\n");
        // Another program's value is not.
        of.saved
            .note_values(&of.place, None, &[40_960])
            .expect("noted");
        fs::write(of.place.directory.join(FILE), "12288\n").expect("written");
        of.next_agent();
        assert_eq!(of.says(), "12288\n");
        let saved = SavedLimits::open(&of.dir.path().join("state"), FILE).expect("read");
        assert_eq!(saved.entries().count(), 0);
    }
}
