// SPDX-License-Identifier: GPL-2.0-only
//! Ceilings in seconds: as many pages as disks write for a cgroup in that time.
//!
//! How fast they do is learned from its `io.stat`, by the policy that bounds the host's dirty pages
//! by seconds (`policy/drain.c`, tightened): counted while flushers have something to do, averaged
//! over ten seconds. A quarter of what it comes to is left for the queue that pages wait in. Until it
//! is known the ceiling is 4 MiB, and never less.
//!
//! Example. `5s` is 4 MiB for a cgroup that is new, and 60 MiB once it was seen to write 16 MiB/s.
//! As a neighbour takes half of that disk, it goes down to 30 MiB.

use crate::held::{held, written};
use crate::setting::Setting;
use crate::tree::Place;
use observe::read::host;
use observe::stack::Stack;
use policy::PAGES_MAX;
use policy::drain::{Beat, Drain};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Between two looks at a cgroup, at least.
const LOOK: Duration = Duration::from_millis(900);
/// A ceiling that would rise by no more than this part of it stays.
const RISE: u64 = 8;
/// The same of one that would fall. Ceilings go down in steps of about a tenth, behind what is
/// dirty: writers go on meanwhile.
const FALL: u64 = 32;

/// What is known of cgroups that have such a ceiling, by inode.
#[derive(Default)]
pub struct Seconds {
    known: BTreeMap<u64, Known>,
    /// As it was when.
    stack: Option<(Instant, Stack)>,
}

struct Known {
    directory: PathBuf,
    drain: Drain,
    looked: Instant,
    written: u64,
    seconds: u64,
    /// The ceiling in force.
    pages: u64,
}

impl Seconds {
    /// The same in bytes, for a setting in seconds; others stay. `is_counted` says that the module
    /// counts what the cgroup holds.
    ///
    /// # Errors
    /// What it holds, or what disks write for it, is not told.
    pub fn of(
        &mut self,
        place: &Place,
        setting: &Setting,
        is_counted: bool,
    ) -> io::Result<Setting> {
        if !setting.is_in_seconds() {
            return Ok(setting.clone());
        }
        let pages = self.look(place, setting.value, is_counted, Instant::now())?;
        Ok(setting.in_pages(pages))
    }

    /// Cgroups that are to be looked at again.
    pub fn directories(&self) -> Vec<PathBuf> {
        let known = self.known.values();
        known.map(|known| known.directory.clone()).collect()
    }

    /// Forgets a cgroup that has no such ceiling any more.
    pub fn forget(&mut self, inode: u64) {
        self.known.remove(&inode);
    }

    /// Forgets cgroups for which this does not hold.
    pub fn retain(&mut self, is_there: impl Fn(u64) -> bool) {
        self.known.retain(|inode, _| is_there(*inode));
    }

    /// The ceiling in pages, after a look at what was written, if one is due.
    fn look(
        &mut self,
        place: &Place,
        seconds: u64,
        is_counted: bool,
        now: Instant,
    ) -> io::Result<u64> {
        let is_new = |known: &&Known| {
            known.seconds == seconds && now.saturating_duration_since(known.looked) < LOOK
        };
        if let Some(known) = self.known.get(&place.inode).filter(is_new) {
            return Ok(known.pages);
        }
        let held = held(&place.directory, is_counted).ok_or(ErrorKind::NotFound)?;
        let written = written(&place.directory, self.stack(now)).ok_or_else(|| {
            io::Error::other(
                "seconds are of what disks write for the cgroup, and it has no io.stat: enable the io controller above it (systemd: IOAccounting=yes)",
            )
        })?;
        let known = self.known.entry(place.inode).or_insert_with(|| Known {
            directory: place.directory.clone(),
            drain: Drain::default(),
            looked: now,
            written,
            seconds,
            pages: 0,
        });
        let elapsed = now.saturating_duration_since(known.looked);
        known.drain.step(&Beat {
            seconds,
            elapsed_ms: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
            // What holds otherwise does so beside: of two limits the kernel takes the lower one.
            thresh: PAGES_MAX,
            bg_thresh: PAGES_MAX / 2,
            dirty: held.dirty,
            writeback: held.writeback,
            written: written.saturating_sub(known.written),
            tighten: 1,
            ..Beat::default()
        });
        let (before, limit) = (known.pages, known.drain.limit);
        let pages = if limit == 0 { PAGES_MAX } else { limit };
        if pages > before + before / RISE || pages < before - before / FALL {
            known.pages = pages;
        }
        known.looked = now;
        known.written = written;
        known.seconds = seconds;
        Ok(known.pages)
    }

    /// Which devices lie on others, as it was a moment ago.
    fn stack(&mut self, now: Instant) -> &Stack {
        let is_new = |read: &Instant| now.saturating_duration_since(*read) < LOOK;
        let before = self.stack.take().filter(|(read, _)| is_new(read));
        let stack = before.unwrap_or_else(|| (now, host::stack(Path::new("/"))));
        &self.stack.insert(stack).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::Origin;
    use crate::tree::Tree;
    use knobs::{Knob, PAGE};
    use std::fs;

    const MIB: u64 = 256;

    /// A cgroup that holds 7/8 of what it may, as the throttle has it, on a disk that writes so many MiB a second.
    struct Bench {
        dir: tempfile::TempDir,
        seconds: Seconds,
        now: Instant,
        written: u64,
    }

    impl Bench {
        fn new() -> Bench {
            Bench {
                dir: tempfile::tempdir().expect("made"),
                seconds: Seconds::default(),
                now: Instant::now(),
                written: 0,
            }
        }

        fn place(&self) -> Place {
            let tree = Tree::at(self.dir.path()).expect("a hierarchy");
            let mut found = None;
            tree.walk(self.dir.path(), |place| {
                found = Some(place.clone());
                false
            });
            found.expect("there")
        }

        /// One second; the ceiling after it, in MiB.
        fn second(&mut self, seconds: u64, disk_mib: u64, held: u64) -> u64 {
            self.written += disk_mib * MIB;
            self.now += Duration::from_secs(1);
            let write = |file: &str, text: String| {
                fs::write(self.dir.path().join(file), text).expect("written");
            };
            write("io.stat", format!("8:0 wbytes={}\n", self.written * PAGE));
            write(
                "memory.stat",
                format!("file_dirty {}\nfile_writeback 0\n", held * PAGE),
            );
            let place = self.place();
            let pages = self.seconds.look(&place, seconds, false, self.now);
            pages.expect("told") / MIB
        }

        /// So many seconds in which the writer fills its ceiling.
        fn flood(&mut self, of: u64, disk_mib: u64, seconds: u64) -> u64 {
            let mut mib = self.second(of, disk_mib, 0);
            for _ in 1..seconds {
                mib = self.second(of, disk_mib, mib * MIB * 7 / 8);
            }
            mib
        }
    }

    /// The example at the top.
    #[test]
    fn worked_example() {
        let mut bench = Bench::new();
        assert_eq!(bench.second(5, 0, 0), 4);
        let alone = bench.flood(5, 16, 20);
        assert!((52..=68).contains(&alone), "{alone}");
        let shared = bench.flood(5, 8, 40);
        assert!((26..=34).contains(&shared), "{shared}");
        // Who does not write is not slow.
        for _ in 0..60 {
            assert_eq!(bench.second(5, 0, 0), shared);
        }
        assert_eq!(bench.second(1, 0, 0), 6, "another policy holds at once");
    }

    #[test]
    fn what_nobody_counts_is_said() {
        let bench = Bench::new();
        let setting = Setting::parse(Knob::DirtyBytes, "5s", Origin::Line(1)).expect("valid");
        let place = bench.place();
        let refused = || Seconds::default().of(&place, &setting, false);
        let why = refused().expect_err("no memory.stat");
        assert_eq!(why.kind(), ErrorKind::NotFound, "the module may come");
        fs::write(bench.dir.path().join("memory.stat"), "").expect("written");
        let why = refused().expect_err("no io.stat").to_string();
        assert!(why.contains("IOAccounting"), "{why}");
    }
}
