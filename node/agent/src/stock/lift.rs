// SPDX-License-Identifier: GPL-2.0-only
//! Seconds of drain without the module: the host's limit of dirty pages, by `vm.dirty_bytes`.
//!
//! What the module does in each pass (`kmod/drain.c`) one sysctl does as well: it moves the limit of
//! the host and, in proportion, of each cgroup, and leaves the background level. The decisions are
//! the same C: `policy/drain.c` finds the limit for some seconds, `policy/headroom.c` the seconds.
//!
//! What the kernel's own limit would be is not to be read while another is in force. It is percent of
//! the memory that can be dirty, which the background level tells, if that is in percent.

use super::find_value;
use crate::flushers::FlusherThreads;
use crate::stock_section::DrainSeconds;
use anyhow::{Context, Result};
use knobs::{PAGE, PageSize};
use policy::drain::{Beat, Drain};
use policy::headroom::{Headroom, Look};
use policy::names::BEAT_MS;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Between two beats.
pub const BEAT: Duration = Duration::from_millis(BEAT_MS);

/// State of the host's limit, from beat to beat.
#[derive(Default)]
pub struct Lift {
    drain: Drain,
    headroom: Headroom,
    before: Option<(Instant, VmCounters)>,
    flushers: FlusherThreads,
}

/// Counters of `/proc/vmstat`, in pages.
#[derive(Clone, Copy, Default)]
struct VmCounters {
    written: u64,
    kswapd_scanned: u64,
    kswapd_taken: u64,
    direct_scanned: u64,
}

impl Lift {
    /// Runs one beat, if it is time for one; `own` is what the host's setting holds without a lift,
    /// as `ratio 20` or `bytes 33554432`.
    ///
    /// # Errors
    /// The host does not show what it takes.
    pub fn step_if_due(&mut self, root: &Path, seconds: DrainSeconds, own: &str) -> Result<()> {
        let now = Instant::now();
        let passed = self.before.map(|(then, _)| now - then);
        if passed.is_some_and(|passed| passed < BEAT) {
            return Ok(());
        }
        self.run_beat(root, seconds, own, (now, passed))
    }

    fn run_beat(
        &mut self,
        root: &Path,
        seconds: DrainSeconds,
        own: &str,
        (now, passed): (Instant, Option<Duration>),
    ) -> Result<()> {
        let (mut beat, flows) = read(root, own, self.drain.limit > 0)?;
        let before = self.before.replace((now, flows));
        let (Some((_, before)), Some(passed)) = (before, passed) else {
            return Ok(());
        };
        beat.elapsed_ms = u64::try_from(passed.as_millis()).unwrap_or(u64::MAX);
        beat.written = flows.written.saturating_sub(before.written);
        beat.kswapd_scanned = flows.kswapd_scanned.saturating_sub(before.kswapd_scanned);
        beat.kswapd_taken = flows.kswapd_taken.saturating_sub(before.kswapd_taken);
        beat.direct_scanned = flows.direct_scanned.saturating_sub(before.direct_scanned);
        beat.seconds = match seconds {
            DrainSeconds::Given(seconds) => seconds,
            DrainSeconds::Auto => {
                let is_busy = beat.dirty + beat.writeback > beat.bg_thresh;
                let doing = match is_busy {
                    true => self.flushers.sample_activity(root, now),
                    false => BTreeMap::new(),
                };
                let look = Look {
                    available: available_pages(root)?,
                    ran: u32::from(doing.values().any(|of| of.ran)),
                    waited: u32::from(doing.values().any(|of| of.waited)),
                };
                self.headroom.adapt_by_beat(&self.drain, &beat, &look)
            }
        };
        self.drain.adapt_by_beat(&beat);
        Ok(())
    }

    /// The limit to be in force, in pages of 4 KiB; none for the kernel's own.
    pub fn limit_pages(&self) -> Option<u64> {
        Some(self.drain.limit).filter(|limit| *limit > 0)
    }

    /// Pages that are written in a second while there is enough to write.
    pub fn pages_per_second(&self) -> u64 {
        self.drain.rate
    }
}

/// The host as it is: levels and memory, and counters so far.
fn read(root: &Path, own: &str, is_lifted: bool) -> Result<(Beat, VmCounters)> {
    let path = root.join("proc/vmstat");
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let units = |pages| PageSize::running().units_of_pages(pages);
    let count = |key: &str| {
        let count =
            find_value(&text, key).with_context(|| format!("{} has no {key}", path.display()));
        count.map(units)
    };
    let bg_thresh = count("nr_dirty_background_threshold")?;
    let dirtyable = dirtyable_pages(root, bg_thresh).map_or_else(
        || Ok(count("nr_free_pages")? + count("nr_active_file")? + count("nr_inactive_file")?),
        Ok::<u64, anyhow::Error>,
    )?;
    let thresh = match own.split_once(' ') {
        Some(("ratio", percent)) if is_lifted => {
            dirtyable * percent.parse::<u64>().unwrap_or(20) / 100
        }
        Some(("bytes", bytes)) if is_lifted => bytes.parse::<u64>().unwrap_or(0) / PAGE,
        _ => count("nr_dirty_threshold")?,
    };
    let beat = Beat {
        thresh,
        // As the kernel has it for a limit that is no higher.
        bg_thresh: match bg_thresh < thresh {
            true => bg_thresh,
            false => thresh / 2,
        },
        dirtyable,
        dirty: count("nr_dirty")?,
        writeback: count("nr_writeback")?,
        memory_stall_percent: stalled_percent(root),
        ..Beat::default()
    };
    let flows = VmCounters {
        // Swapped pages are counted with them, and say nothing of what disks do with files.
        written: count("nr_written")?.saturating_sub(find_value(&text, "pswpout").map_or(0, units)),
        kswapd_scanned: count("pgscan_kswapd")?,
        kswapd_taken: count("pgsteal_kswapd")?,
        direct_scanned: count("pgscan_direct")?,
    };
    Ok((beat, flows))
}

/// Memory that can be dirty, by the background level; nothing if that is no percentage of it.
fn dirtyable_pages(root: &Path, bg_thresh: u64) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/sys/vm/dirty_background_ratio")).ok()?;
    let percent: u64 = text.trim().parse().ok()?;
    // A level of half the limit may be one that the kernel has cut down to that.
    (percent > 0 && bg_thresh > 0).then(|| bg_thresh * 100 / percent)
}

fn available_pages(root: &Path) -> Result<u64> {
    let path = root.join("proc/meminfo");
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut lines = text.lines();
    let kib = lines.find_map(|line| line.strip_prefix("MemAvailable:")?.trim().split(' ').next());
    let kib: u64 = kib
        .and_then(|kib| kib.parse().ok())
        .with_context(|| format!("{} has no MemAvailable", path.display()))?;
    Ok((kib << 10) / PAGE)
}

/// Percent of the last ten seconds in which a task waited for memory; 0 where the kernel does not
/// count that.
fn stalled_percent(root: &Path) -> u32 {
    let text = fs::read_to_string(root.join("proc/pressure/memory")).unwrap_or_default();
    let average = text.strip_prefix("some avg10=").unwrap_or_default();
    average
        .split('.')
        .next()
        .and_then(|percent| percent.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages of 4 KiB in a MiB.
    const M: u64 = 256;

    /// A host of which 2,600 MiB can be dirty, at 10 and 20 %, and which drains 20 MiB/s.
    struct Machine {
        dir: tempfile::TempDir,
        lift: Lift,
        at: Instant,
        written: u64,
        dirty: u64,
        limit: u64,
        direct: u64,
    }

    impl Machine {
        fn new() -> Machine {
            let machine = Machine {
                dir: tempfile::tempdir().expect("made"),
                lift: Lift::default(),
                at: Instant::now(),
                written: 0,
                dirty: 400 * M,
                limit: 520 * M,
                direct: 0,
            };
            machine.write("proc/sys/vm/dirty_background_ratio", "10\n");
            machine.write("proc/pressure/memory", "some avg10=0.00 avg60=0.00\n");
            machine.write(
                "proc/meminfo",
                "MemTotal: 4000000 kB\nMemAvailable:    2700000 kB\n",
            );
            machine.write("proc/2/task/2/children", "3 7 8 ");
            machine.write("proc/3/comm", "kworker/0:1-events\n");
            machine.write("proc/7/comm", "kworker/u8:1-flush-253:0\n");
            machine.write("proc/7/stat", "7 (kworker/u8:1-fl) D 2 0\n");
            machine.flusher("R");
            machine
        }

        fn write(&self, name: &str, text: &str) {
            let path = self.dir.path().join(name);
            fs::create_dir_all(path.parent().expect("has one")).expect("made");
            fs::write(path, text).expect("written");
        }

        fn flusher(&self, state: &str) {
            self.write("proc/8/comm", "kworker/u8:2+flush-253:0\n");
            self.write("proc/8/stat", &format!("8 (kworker/u8:2+fl) {state} 2 0\n"));
        }

        /// So many beats of 200 ms; what the limit is to be, in MiB.
        fn beats(&mut self, beats: u32, seconds: DrainSeconds) -> Option<u64> {
            for _ in 0..beats {
                self.written += 4 * M;
                self.write(
                    "proc/vmstat",
                    &format!(
                        "nr_free_pages 600000\nnr_active_file 1\nnr_inactive_file 1\nnr_dirty {}\n\
                         nr_writeback 10\nnr_written {}\nnr_dirty_threshold {}\n\
                         nr_dirty_background_threshold {}\npgscan_kswapd 0\npgsteal_kswapd 0\n\
                         pgscan_direct {}\npswpout 0\n",
                        self.dirty,
                        self.written,
                        self.limit,
                        260 * M,
                        self.direct
                    ),
                );
                self.at += BEAT;
                let passed = self.lift.before.map(|_| BEAT);
                let lifted =
                    self.lift
                        .run_beat(self.dir.path(), seconds, "ratio 20", (self.at, passed));
                lifted.expect("read");
                self.limit = self.lift.limit_pages().unwrap_or(520 * M);
            }
            self.lift.limit_pages().map(|pages| pages / M)
        }
    }

    #[test]
    fn given_seconds_are_as_in_the_module() {
        let mut machine = Machine::new();
        assert_eq!(
            machine.beats(10, DrainSeconds::Given(30)),
            None,
            "not known yet"
        );
        // 2 x 30 x 20 - 260, less than 60 % of 2,600.
        assert_eq!(machine.beats(5, DrainSeconds::Given(30)), Some(940));
        // The kernel's own limit is known while another is in force.
        assert_eq!(machine.beats(100, DrainSeconds::Given(30)), Some(940));
        machine.dirty = 100 * M;
        assert_eq!(machine.beats(1, DrainSeconds::Given(0)), None, "off");
    }

    #[test]
    fn it_lifts_while_the_flusher_never_sleeps() {
        let mut machine = Machine::new();
        assert_eq!(machine.beats(14, DrainSeconds::Auto), None);
        // 2 x 35 x 20 - 260.
        assert_eq!(machine.beats(50, DrainSeconds::Auto), Some(1140));
        machine.flusher("D");
        machine.dirty = 100 * M;
        assert_eq!(
            machine.beats(100, DrainSeconds::Auto),
            Some(1140),
            "idle: as it was"
        );
        machine.dirty = 300 * M;
        assert_eq!(machine.beats(30, DrainSeconds::Auto), None, "it waits");
    }

    #[test]
    fn it_lifts_nothing_for_a_disk_that_is_the_bottleneck() {
        let mut machine = Machine::new();
        machine.flusher("D");
        assert_eq!(machine.beats(500, DrainSeconds::Auto), None);
        machine.flusher("I");
        assert_eq!(machine.beats(500, DrainSeconds::Auto), None);
    }

    #[test]
    fn scarce_memory_ends_it() {
        let mut machine = Machine::new();
        machine.beats(50, DrainSeconds::Auto);
        machine.dirty = 600 * M;
        machine.direct = 1;
        let held = 600 + 600 / 32;
        assert_eq!(machine.beats(1, DrainSeconds::Auto), Some(held), "at once");
        machine.beats(1, DrainSeconds::Auto);
        machine.dirty = 300 * M;
        assert_eq!(
            machine.beats(100, DrainSeconds::Auto),
            None,
            "for ten minutes"
        );
        machine.write("proc/meminfo", "MemFree: 1 kB\n");
        let why = machine
            .lift
            .run_beat(
                machine.dir.path(),
                DrainSeconds::Auto,
                "ratio 20",
                (machine.at, Some(BEAT)),
            )
            .expect_err("none");
        assert!(why.to_string().contains("has no MemAvailable"), "{why}");
    }
}
