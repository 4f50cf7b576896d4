// SPDX-License-Identifier: GPL-2.0-only
//! Windows for an objective: what the flushers of others have under writeback is what an fsync or a
//! read stands behind. `policy/narrow.c` decides how much that may be.
//!
//! A module that is older has no such file; then ceilings have to do.

use super::applied::AppliedLimits;
use crate::dirty_pages::{DirtyPages, read_written_pages};
use crate::limits::FoundLimit;
use crate::tree::CgroupDir;
use knobs::PAGE;
use observe::stack::Stack;
use policy::UNLIMITED;
use policy::narrow::{Look, Narrow};
use policy::window::WINDOW_MIN;
use std::collections::BTreeMap;

/// No window is less, in pages.
const LEAST: u64 = WINDOW_MIN / PAGE;
/// A cgroup counts as one that writes if it has written this part of what the first of them has.
const WRITES: u64 = 16;

/// Figures that an objective has found out.
#[derive(Clone, Copy, Debug)]
pub struct WindowFigures {
    /// The measured value, if there is one.
    pub value: Option<u64>,
    /// The bound that it should not exceed.
    pub bound: u64,
    /// A wait for what is in flight that it allows, in microseconds.
    pub wait_us: u64,
    /// Time since the look before.
    pub ms: u64,
    /// Ceilings are in force, too.
    pub frozen: bool,
    /// `true` if windows are set, not only observed.
    pub is_on: bool,
}

/// A cgroup that may have a window.
struct WindowHolder {
    place: CgroupDir,
    /// Pages under writeback.
    in_flight: u64,
    /// Pages written since it was made.
    written: u64,
    /// Pages written since the look before.
    wrote: u64,
}

/// The windows of one objective.
#[derive(Default)]
pub struct Windows {
    narrow: Narrow,
    holders: BTreeMap<u64, WindowHolder>,
    /// There was a look at them before.
    is_known: bool,
    is_spent: bool,
    /// Pages that each of them may have.
    each: Option<u64>,
}

impl Windows {
    /// Returns whether there is one.
    pub fn are_set(&self) -> bool {
        self.narrow.window != UNLIMITED
    }

    /// Returns whether ceilings have to do the rest.
    pub fn are_spent(&self) -> bool {
        self.is_spent
    }

    /// Values that began longer ago do not count.
    pub fn since_ms(&self) -> u64 {
        self.narrow.since_ms()
    }

    /// Pages of each cgroup's window.
    pub fn window_pages(&self) -> Option<u64> {
        self.each
    }

    /// Number of cgroups that may have one.
    pub fn len(&self) -> usize {
        self.holders.len()
    }

    /// Windows that are wanted.
    pub fn wanted_windows(&self) -> impl Iterator<Item = (&CgroupDir, u64)> {
        let each = self.each;
        let holders = self.holders.values();
        holders.filter_map(move |holder| Some((&holder.place, each?)))
    }

    /// Forgets the holders: what is written now is not compared with what was the last time.
    pub fn forget_holders(&mut self) {
        self.holders.clear();
        self.is_known = false;
        self.is_spent = false;
    }

    /// Looks at cgroups that may be limited; whether the windows have changed.
    pub fn update_windows(
        &mut self,
        places: &[CgroupDir],
        applied: &AppliedLimits,
        stack: &Stack,
        of: &WindowFigures,
    ) -> bool {
        self.measure_holders(places, applied, stack);
        if !std::mem::replace(&mut self.is_known, true) {
            self.is_spent = self.holders.is_empty();
            return false;
        }
        let holders = self.holders.values();
        let wrote: u64 = holders.clone().map(|holder| holder.wrote).sum();
        let look = Look {
            value: of.value.unwrap_or(0),
            bound: of.bound,
            wait_us: of.wait_us,
            in_flight: holders.map(|holder| holder.in_flight).sum(),
            written: wrote.saturating_mul(1_000) / of.ms.max(1),
            least: LEAST,
            elapsed_ms: of.ms,
            measured: of.value.is_some().into(),
            frozen: of.frozen.into(),
        };
        let before = self.narrow.window;
        if !of.is_on && self.are_set() {
            // What is only observed changes nothing that could be judged.
            if of.value.is_some_and(|value| value <= of.bound) {
                self.narrow = Narrow::default();
            }
        } else {
            self.narrow.adapt_by_look(&look);
        }
        self.is_spent = self.holders.is_empty() || (of.is_on && self.narrow.is_spent(&look));
        self.each = self.are_set().then(|| self.compute_window());
        self.narrow.window != before
    }

    /// Pages that each may have, of what those that write may have together.
    fn compute_window(&self) -> u64 {
        let most = self.holders.values().map(|holder| holder.wrote).max();
        let writes = |holder: &&WindowHolder| holder.wrote > most.unwrap_or(0) / WRITES;
        let writers = self.holders.values().filter(writes).count();
        let each = self.narrow.window / u64::try_from(writers).unwrap_or(1).max(1);
        each.max(LEAST)
    }

    fn measure_holders(&mut self, places: &[CgroupDir], applied: &AppliedLimits, stack: &Stack) {
        let before = std::mem::take(&mut self.holders);
        for place in places {
            if applied.compare_file(place) != FoundLimit::Own && !applied.has_limit(place) {
                continue;
            }
            let Some(held) = DirtyPages::read(&place.directory, false) else {
                continue;
            };
            let written = read_written_pages(&place.directory, stack).unwrap_or(0);
            let then = before.get(&place.inode).map(|holder| holder.written);
            let holder = WindowHolder {
                place: place.clone(),
                in_flight: held.writeback,
                written,
                wrote: written.saturating_sub(then.unwrap_or(written)),
            };
            self.holders.insert(place.inode, holder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Journal;
    use crate::saved_limits::SavedLimits;
    use crate::tree::Hierarchy;
    use knobs::Knob;
    use std::fs;

    /// Cgroups with files, and what objectives have set there.
    struct Bench {
        dir: tempfile::TempDir,
        applied: AppliedLimits,
        windows: Windows,
    }

    impl Bench {
        fn new(paths: &[&str]) -> Bench {
            let dir = tempfile::tempdir().expect("made");
            for path in paths {
                fs::create_dir_all(dir.path().join("cgroups").join(path)).expect("made");
            }
            let file = Knob::WritebackBytes.file_name();
            let saved = SavedLimits::open(&dir.path().join("state"), file).expect("empty");
            let journal = Journal::new(std::io::sink(), false);
            Bench {
                dir,
                applied: AppliedLimits::new(saved, None, journal),
                windows: Windows::default(),
            }
        }

        fn write(&self, path: &str, file: &str, text: &str) {
            let file = self.dir.path().join("cgroups").join(path).join(file);
            fs::write(file, text).expect("written");
        }

        /// What the cgroup has written so far, in MiB; half of what a second takes is in flight.
        fn has_written(&self, path: &str, mib: u64) {
            self.write(path, "io.stat", &format!("8:0 wbytes={}\n", mib << 20));
            self.write(
                path,
                "memory.stat",
                "file_dirty 0\nfile_writeback 8388608\n",
            );
        }

        fn window(&self, path: &str) -> String {
            let file = Knob::WritebackBytes.file_name();
            let file = self.dir.path().join("cgroups").join(path).join(file);
            fs::read_to_string(file).expect("read").trim().to_string()
        }

        /// A second with waits of so many milliseconds, where 32 are allowed.
        fn second(&mut self, ms: u64, is_on: bool) -> bool {
            let tree = Hierarchy::open(&self.dir.path().join("cgroups")).expect("a hierarchy");
            let mut places = Vec::new();
            tree.walk(tree.root(), |place| {
                places.extend((!place.is_root()).then(|| place.clone()));
                true
            });
            let measured = WindowFigures {
                value: Some(ms * 1_000_000),
                bound: 32_000_000,
                wait_us: 12_000,
                ms: 1_000,
                frozen: false,
                is_on,
            };
            let changed =
                self.windows
                    .update_windows(&places, &self.applied, &Stack::default(), &measured);
            let wanted = self.windows.wanted_windows();
            let wanted = wanted.map(|(place, pages)| (place.inode, (place.clone(), pages)));
            let failed = self.applied.apply_limits(match is_on {
                true => wanted.collect(),
                false => BTreeMap::new(),
            });
            assert_eq!(failed, Vec::<String>::new());
            changed
        }
    }

    #[test]
    fn cgroups_that_write_share_what_may_be_in_flight() {
        let mut bench = Bench::new(&["a", "b", "calm", "own"]);
        for path in ["a", "b", "calm", "own"] {
            bench.has_written(path, 0);
            bench.write(path, Knob::WritebackBytes.file_name(), "max\n");
        }
        bench.write("own", Knob::WritebackBytes.file_name(), "131072\n");
        assert!(!bench.second(1_000, true), "nothing to compare with");
        assert!(!bench.windows.are_spent());
        bench.has_written("a", 8);
        bench.has_written("b", 8);
        bench.has_written("own", 8);
        assert!(bench.second(1_000, true));
        // 3/4 of 12 ms of 16 MiB a second, in parts of 16 pages, for two that write.
        assert_eq!(bench.window("a"), (24 * PAGE).to_string());
        assert_eq!(bench.window("calm"), bench.window("b"));
        assert_eq!(bench.window("own"), "131072", "another program's");
        assert_eq!(
            (bench.windows.len(), bench.windows.window_pages()),
            (3, Some(24))
        );
    }

    #[test]
    fn a_module_without_windows_leaves_it_to_ceilings() {
        let mut bench = Bench::new(&["a"]);
        bench.has_written("a", 0);
        assert!(!bench.second(1_000, true));
        assert!(bench.windows.are_spent());
    }

    #[test]
    fn a_window_that_is_only_observed_is_said_once() {
        let mut bench = Bench::new(&["a"]);
        bench.write("a", Knob::WritebackBytes.file_name(), "max\n");
        let said = (0..10).filter(|second| {
            bench.has_written("a", 16 * second);
            bench.second(1_000, false)
        });
        assert_eq!(said.count(), 1);
        assert_eq!(bench.window("a"), "max");
        assert!(bench.second(1, false), "and that it would be given back");
        assert!(!bench.windows.are_set());
    }
}
