// SPDX-License-Identifier: GPL-2.0-only
//! Ceilings in seconds and windows in milliseconds: as many pages as disks write for a cgroup in that
//! time.
//!
//! How fast they do is learned from its `io.stat`, by the policy that bounds the host's dirty pages
//! by seconds (`policy/drain.c`): counted while flushers have something to do, averaged over ten
//! seconds.
//!
//! A ceiling leaves a quarter of what it comes to for the queue that pages wait in. Until the rate is
//! known the ceiling is 4 MiB, and never less. A window leaves nothing; until the rate is known it is
//! 1 MiB, and never less than what its file takes. Flushers have something to do for it while more is
//! dirty than it has room for, and some of that is being written.
//!
//! Example. `5s` is 4 MiB for a cgroup that is new, and 60 MiB once it was seen to write 16 MiB/s.
//! As a neighbour takes half of that disk, it goes down to 30 MiB. `10ms` is a window of 164 KiB, then of
//! 82.

use crate::dirty_pages::{DirtyPages, read_written_pages};
use crate::setting::{Setting, SettingUnit};
use crate::tree::CgroupDir;
use knobs::{Knob, PAGE};
use observe::read::host;
use observe::stack::Stack;
use policy::drain::{Beat, Drain};
use policy::window::WINDOW_MIN;
use policy::{PAGES_MAX, arith};
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
/// A window that would change by no more than this part of it stays.
const CHANGE: u64 = 8;
/// A window of a cgroup whose rate is not known, in pages.
const FIRST_WINDOW: u64 = (1 << 20) / PAGE;
/// A rate is known after so many milliseconds in which flushers had something to do.
const TRUSTED_MS: u64 = 2_000;

/// Cgroups that have such a ceiling or window, by inode.
#[derive(Default)]
pub struct DrainRates {
    known: BTreeMap<(u64, Knob), KnownRate>,
    /// The devices that lie on others, and the time at which they were read.
    stack: Option<(Instant, Stack)>,
}

struct KnownRate {
    directory: PathBuf,
    drain: Drain,
    looked: Instant,
    written: u64,
    /// Seconds or milliseconds.
    time: u64,
    /// The ceiling or window in force.
    pages: u64,
}

impl DrainRates {
    /// The same in bytes, for a setting in seconds or milliseconds; others stay. `is_counted` says
    /// that the module counts what a cgroup with a ceiling holds.
    ///
    /// # Errors
    /// What it holds, or what disks write for it, is not told.
    pub fn resolve_time(
        &mut self,
        place: &CgroupDir,
        knob: Knob,
        setting: &Setting,
        is_counted: bool,
    ) -> io::Result<Setting> {
        // The module counts no pages for a window.
        let is_counted = match setting.unit {
            SettingUnit::Seconds => is_counted,
            SettingUnit::Milliseconds => false,
            SettingUnit::Knob | SettingUnit::Percent => return Ok(setting.clone()),
        };
        let pages =
            self.pages_in_force(place, (knob, setting.value), is_counted, Instant::now())?;
        Ok(setting.in_pages(pages))
    }

    /// Cgroups that are to be looked at again.
    pub fn tracked_directories(&self) -> Vec<PathBuf> {
        let known = self.known.values();
        known.map(|known| known.directory.clone()).collect()
    }

    /// Forgets a cgroup that has no such ceiling or window any more.
    pub fn forget_knob(&mut self, inode: u64, knob: Knob) {
        self.known.remove(&(inode, knob));
    }

    /// Forgets cgroups for which this does not hold.
    pub fn retain_cgroups(&mut self, is_there: impl Fn(u64) -> bool) {
        self.known.retain(|(inode, _), _| is_there(*inode));
    }

    /// The ceiling or window in pages, after a look at what was written, if one is due.
    fn pages_in_force(
        &mut self,
        place: &CgroupDir,
        (knob, time): (Knob, u64),
        is_counted: bool,
        now: Instant,
    ) -> io::Result<u64> {
        let is_new = |known: &&KnownRate| {
            known.time == time && now.saturating_duration_since(known.looked) < LOOK
        };
        if let Some(known) = self.known.get(&(place.inode, knob)).filter(is_new) {
            return Ok(known.pages);
        }
        let held = DirtyPages::read(&place.directory, is_counted).ok_or(ErrorKind::NotFound)?;
        let written = read_written_pages(&place.directory, self.fresh_stack(now)).ok_or_else(|| {
            io::Error::other(
                "times are of what disks write for the cgroup, and it has no io.stat: enable the io controller above it (systemd: IOAccounting=yes)",
            )
        })?;
        let known = self.known.entry((place.inode, knob));
        let known = known.or_insert_with(|| KnownRate {
            directory: place.directory.clone(),
            drain: Drain::default(),
            looked: now,
            written,
            time,
            pages: 0,
        });
        let elapsed = now.saturating_duration_since(known.looked);
        let beat = Beat {
            elapsed_ms: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
            written: written.saturating_sub(known.written),
            ..Beat::default()
        };
        known.time = time;
        match knob {
            Knob::WritebackBytes => known.follow_window(held, beat),
            _ => known.follow_ceiling(held, beat),
        }
        known.looked = now;
        known.written = written;
        Ok(known.pages)
    }

    /// The devices that lie on others, as they were a moment ago.
    fn fresh_stack(&mut self, now: Instant) -> &Stack {
        let is_new = |read: &Instant| now.saturating_duration_since(*read) < LOOK;
        let before = self.stack.take().filter(|(read, _)| is_new(read));
        let stack = before.unwrap_or_else(|| (now, host::read_stack(Path::new("/"))));
        &self.stack.insert(stack).1
    }
}

impl KnownRate {
    fn follow_ceiling(&mut self, held: DirtyPages, beat: Beat) {
        self.drain.adapt_by_beat(&Beat {
            seconds: self.time,
            // What holds otherwise does so beside: of two limits the kernel takes the lower one.
            thresh: PAGES_MAX,
            bg_thresh: PAGES_MAX / 2,
            dirty: held.dirty,
            writeback: held.writeback,
            tighten: 1,
            ..beat
        });
        let (before, limit) = (self.pages, self.drain.limit);
        let pages = if limit == 0 { PAGES_MAX } else { limit };
        if pages > before + before / RISE || pages < before - before / FALL {
            self.pages = pages;
        }
    }

    fn follow_window(&mut self, held: DirtyPages, beat: Beat) {
        let has_more = held.dirty > self.pages && self.pages > 0;
        self.drain.adapt_by_beat(&Beat {
            // Only the rate is wanted: no limit is, and one page in writeback is work.
            thresh: 1,
            writeback: if has_more { held.writeback } else { 0 },
            ..beat
        });
        let pages = match self.drain.seen_ms {
            0..TRUSTED_MS => FIRST_WINDOW,
            _ => arith::saturate_pages(self.drain.rate).saturating_mul(self.time) / 1_000,
        };
        let pages = pages.clamp(WINDOW_MIN / PAGE, PAGES_MAX);
        if self.pages == 0 || pages.abs_diff(self.pages) > self.pages / CHANGE {
            self.pages = pages;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::Origin;
    use crate::tree::Hierarchy;
    use std::fs;

    const MIB: u64 = 256;

    /// A cgroup that holds 7/8 of what it may, as the throttle has it, on a disk that writes so many MiB a second.
    struct Bench {
        dir: tempfile::TempDir,
        seconds: DrainRates,
        now: Instant,
        written: u64,
    }

    impl Bench {
        fn new() -> Bench {
            Bench {
                dir: tempfile::tempdir().expect("made"),
                seconds: DrainRates::default(),
                now: Instant::now(),
                written: 0,
            }
        }

        fn place(&self) -> CgroupDir {
            let tree = Hierarchy::open(self.dir.path()).expect("a hierarchy");
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
            let wanted = (Knob::DirtyBytes, seconds);
            let pages = self.seconds.pages_in_force(&place, wanted, false, self.now);
            pages.expect("told") / MIB
        }

        /// One second under a window; the window after it, in KiB.
        fn window(&mut self, ms: u64, disk_kib: u64, (dirty, writeback): (u64, u64)) -> u64 {
            self.written += disk_kib / 4;
            self.now += Duration::from_secs(1);
            let write = |file: &str, text: String| {
                fs::write(self.dir.path().join(file), text).expect("written");
            };
            write("io.stat", format!("8:0 wbytes={}\n", self.written * PAGE));
            let (dirty, writeback) = (dirty * PAGE, writeback * PAGE);
            write(
                "memory.stat",
                format!("file_dirty {dirty}\nfile_writeback {writeback}\n"),
            );
            let place = self.place();
            let wanted = (Knob::WritebackBytes, ms);
            let pages = self.seconds.pages_in_force(&place, wanted, false, self.now);
            pages.expect("told") * 4
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

    /// The window of the example.
    #[test]
    fn a_window_follows_what_the_disk_writes() {
        const FLOOD: (u64, u64) = (15_000, 40);
        let mut bench = Bench::new();
        let mut window = 0;
        assert_eq!(bench.window(10, 0, (0, 0)), 1_024, "not known yet");
        for _ in 0..20 {
            window = bench.window(10, 16_384, FLOOD);
        }
        assert!((144..=184).contains(&window), "{window}");
        for _ in 0..30 {
            window = bench.window(10, 8_192, FLOOD);
        }
        assert!((72..=96).contains(&window), "{window}");
        // Neither pages that wait for their time nor a writer that leaves the disk idle are a rate.
        for quiet in [(15_000, 0), (10, 0), (10, 4)] {
            for _ in 0..30 {
                assert_eq!(bench.window(10, 4, quiet), window, "{quiet:?}");
            }
        }
        assert_eq!(bench.window(1, 8_192, FLOOD), 64, "never below the least");
        let longer = bench.window(100, 8_192, FLOOD);
        assert!(
            (720..=920).contains(&longer),
            "another policy holds at once: {longer}"
        );
    }

    #[test]
    fn what_nobody_counts_is_said() {
        let bench = Bench::new();
        let setting = Setting::parse(Knob::DirtyBytes, "5s", Origin::Line(1)).expect("valid");
        let place = bench.place();
        let refused =
            || DrainRates::default().resolve_time(&place, Knob::DirtyBytes, &setting, false);
        let why = refused().expect_err("no memory.stat");
        assert_eq!(why.kind(), ErrorKind::NotFound, "the module may come");
        fs::write(bench.dir.path().join("memory.stat"), "").expect("written");
        let why = refused().expect_err("no io.stat").to_string();
        assert!(why.contains("IOAccounting"), "{why}");
    }
}
