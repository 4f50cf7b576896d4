// SPDX-License-Identifier: GPL-2.0-only
//! Disks' queues, narrowed for an objective on a host without the module: what others have in flight
//! on a disk is what an fsync or a read there stands behind, and they keep their dirty pages.
//!
//! Each disk that both kinds of cgroups use has a search of its own, [`policy::objective`], which
//! keeps the disk's rate. Ceilings come after it: none is set unless that was in vain for all disks,
//! since on a stock kernel they have the journal wait for more than they spare it
//! (experiment 0046).

use crate::disk_queue::{DiskCounters, DiskLoad};
use policy::UNLIMITED;
use policy::objective::{self, Look, Objective};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Pages of a thousand that a disk with a narrower queue must still write.
const KEPT: u32 = 970;

/// Figures of an objective, measured for all of its disks.
#[derive(Clone, Copy, Debug)]
pub struct QueueFigures {
    /// The measured value, if there is one.
    pub value: Option<u64>,
    /// The bound that it should not exceed.
    pub bound: u64,
    /// Time since the look before.
    pub ms: u64,
    /// `true` if queues are narrowed, not only observed.
    pub is_on: bool,
}

/// One disk's queue.
#[derive(Default)]
struct DiskQueue {
    objective: Objective,
    done: Option<DiskCounters>,
}

/// The queues of an objective's disks, by the disks' names.
#[derive(Default)]
pub struct Queues(BTreeMap<String, DiskQueue>);

impl Queues {
    /// Returns whether one of them is narrowed.
    pub fn are_narrowed(&self) -> bool {
        self.0
            .values()
            .any(|queue| queue.objective.budget != UNLIMITED)
    }

    /// Returns whether there is none, or narrowing them was in vain.
    pub fn none_can_help(&self) -> bool {
        self.0.values().all(|queue| queue.objective.rest_ms > 0)
    }

    /// Pages that each of them that is narrowed may have in flight.
    pub fn narrowed_queues(&self) -> impl Iterator<Item = (&str, u64)> {
        let all = self
            .0
            .iter()
            .map(|(name, queue)| (&**name, queue.objective.budget));
        all.filter(|(_, pages)| *pages != UNLIMITED)
    }

    /// Values that began longer ago do not count.
    pub fn window_ms(&self) -> u64 {
        let narrowed = self.0.values();
        let windows = narrowed.map(|queue| queue.objective.window_ms());
        windows
            .min()
            .unwrap_or_else(|| Objective::default().window_ms())
    }

    /// Forgets the disks' counters: what is in flight now is not compared with what was the last
    /// time.
    pub fn forget_counters(&mut self) {
        for queue in self.0.values_mut() {
            queue.done = None;
        }
    }

    /// Looks at the disks with these `names` and those that are narrowed; the pages that those may
    /// have in flight now for which that has changed.
    pub fn update_queues(
        &mut self,
        root: &Path,
        names: &BTreeSet<String>,
        of: &QueueFigures,
    ) -> Vec<(String, u64)> {
        self.0.retain(|name, queue| {
            queue.objective.budget != UNLIMITED
                || queue.objective.rest_ms > 0
                || names.contains(name)
        });
        for name in names {
            self.0.entry(name.clone()).or_default();
        }
        let mut changed = Vec::new();
        self.0.retain(|name, queue| {
            let Some(done) = DiskCounters::read(root, name) else {
                return false;
            };
            if let Some(before) = queue.done.replace(done) {
                let before_it = queue.objective.budget;
                queue.step_objective(&done.load_since(&before, of.ms), of);
                if queue.objective.budget != before_it {
                    changed.push((name.clone(), queue.objective.budget));
                }
            }
            true
        });
        changed
    }
}

impl DiskQueue {
    fn step_objective(&mut self, used: &DiskLoad, of: &QueueFigures) {
        let budget = self.objective.budget;
        // The kernel lets no more in from when the files are written.
        let held = match of.is_on {
            true => used.in_flight.min(budget),
            false => used.in_flight,
        };
        let look = Look {
            value: of.value.unwrap_or(0),
            bound: of.bound,
            held,
            drained: used.rate,
            least: objective::Queue::LEAST,
            elapsed_ms: of.ms,
            measured: of.value.is_some().into(),
            kept: KEPT,
        };
        self.objective.adapt_by_look(&look);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// What the disk `sda` has done: so many pages, in requests of 64.
    fn write(root: &Path, pages: u64, ms: u64) {
        let stat = root.join("sys/block/sda/stat");
        fs::create_dir_all(stat.parent().expect("has one")).expect("made");
        let text = format!("0 0 0 0 {} 0 {} {ms} 0 0 0\n", pages / 64, pages * 8);
        fs::write(stat, text).expect("written");
    }

    #[test]
    fn a_full_queue_is_narrowed_and_ceilings_wait_for_that() {
        let root = tempfile::tempdir().expect("made");
        let names = BTreeSet::from(["sda".to_string()]);
        let mut queues = Queues::default();
        assert!(queues.none_can_help(), "there is none");
        let measured = |ms: u64| QueueFigures {
            value: Some(ms * 1_000_000),
            bound: 30_000_000,
            ms: 1_000,
            is_on: true,
        };
        write(root.path(), 0, 0);
        assert_eq!(
            queues.update_queues(root.path(), &names, &measured(1_000)),
            []
        );
        // 4,096 pages in 64 requests, each half a second in a queue of 32.
        let mut second = 1;
        let mut pass = |queues: &mut Queues, ms: u64, in_flight: u64| {
            write(root.path(), second * 4_096, second * 1_000 * in_flight / 64);
            second += 1;
            queues.update_queues(root.path(), &names, &measured(ms))
        };
        assert_eq!(pass(&mut queues, 1_000, 2_048), [("sda".to_string(), 128)]);
        assert!(queues.are_narrowed() && !queues.none_can_help());
        assert_eq!(queues.window_ms(), 0);
        for _ in 0..60 {
            pass(&mut queues, 1_000, 2_048);
        }
        assert_eq!(
            queues.narrowed_queues().collect::<Vec<_>>(),
            [("sda", objective::Queue::LEAST)]
        );
        for _ in 0..600 {
            pass(&mut queues, 1_000, 2_048);
        }
        assert!(queues.none_can_help(), "then ceilings have to do");
        assert!(!queues.are_narrowed());
        queues.0.clear();
        pass(&mut queues, 1_000, 2_048);
        pass(&mut queues, 1_000, 2_048);
        assert!(queues.are_narrowed());
        fs::remove_dir_all(root.path().join("sys")).expect("removed");
        queues.update_queues(root.path(), &BTreeSet::new(), &measured(1));
        assert!(!queues.are_narrowed(), "the disk is gone");
    }
}
