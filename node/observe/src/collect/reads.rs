// SPDX-License-Identifier: GPL-2.0-only
//! How long each read of a disk takes, and of which cgroup it is: from when a task queues it until
//! the disk has completed it, so that the wait for a free request counts.
//!
//! What the disk completes may be several reads in one, and only the beginning of each is looked for
//! among them: of a read that the kernel splits, the first part is timed. Reads ahead are reads. One
//! that `io.max` holds back, or that dm-crypt hands to a thread, is queued by a thread of the kernel,
//! and is not the cgroup's.
//!
//! Where another cgroup reads more than the kernel's buffers hold between two looks, what is lost is
//! not guessed: reads that were under way then are forgotten.

use super::homes::Homes;
use super::syncs::Timed;
use super::tasks::now_ns;
use super::tracefs::Tracefs;
use crate::model::event::{Event, What};
use crate::model::trace::Trace;
use anyhow::Result;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

/// Bytes of the kernel's buffer for each CPU: some 8,000 reads; a look comes when it is half full.
const BUFFER: u64 = 1 << 20;
/// Reads that are kept between two calls of [`Reads::take_ended`]; more are not timed.
const MOST: usize = 200_000;
/// Bits of a device's minor number in the kernel.
const MINOR_BITS: u32 = 20;

/// Looks at every read of a disk, until it is dropped.
pub struct Reads {
    tracing: Tracefs,
    spans: ReadSpans,
    homes: Homes,
    ended: Vec<Timed>,
}

/// Reads under way, by disk and first sector: who queued it, and when.
#[derive(Default)]
struct ReadSpans {
    root: PathBuf,
    under_way: BTreeMap<(u32, u64), (u32, u64)>,
    /// Disks of devices.
    disks: HashMap<u32, u32>,
}

impl ReadSpans {
    /// Takes events; returns the reads that they end: task, beginning, end.
    fn end_spans(&mut self, mut events: Vec<Event>) -> Vec<(u32, u64, u64)> {
        // Each CPU has its own buffer.
        events.sort_by_key(|event| event.ns);
        let mut ended = Vec::new();
        for Event { ns, task, what } in events {
            match what {
                What::ReadQueued(device, sector) => {
                    let disk = self.disk_of(device);
                    self.under_way.insert((disk, sector), (task, ns));
                }
                What::ReadCompleted(disk, sector, sectors) => {
                    let range = (disk, sector)..(disk, sector.saturating_add(sectors));
                    let done: Vec<(u32, u64)> =
                        self.under_way.range(range).map(|(at, _)| *at).collect();
                    for at in done {
                        let began = self.under_way.remove(&at);
                        ended.extend(began.map(|(task, began)| (task, began, ns)));
                    }
                }
                _ => {}
            }
        }
        ended
    }

    /// The disk that a partition is on; another device itself.
    fn disk_of(&mut self, device: u32) -> u32 {
        if let Some(disk) = self.disks.get(&device) {
            return *disk;
        }
        let link = self.sysfs_directory(device);
        let is_part = link.join("partition").exists();
        let above = is_part.then(|| fs::canonicalize(&link).ok()).flatten();
        let text = above.and_then(|at| fs::read_to_string(at.parent()?.join("dev")).ok());
        let disk = text.and_then(|text| parse_device(&text)).unwrap_or(device);
        self.disks.insert(device, disk);
        disk
    }

    fn sysfs_directory(&self, device: u32) -> PathBuf {
        let minor = device & ((1 << MINOR_BITS) - 1);
        let name = format!("sys/dev/block/{}:{minor}", device >> MINOR_BITS);
        self.root.join(name)
    }

    /// Forgets reads of disks that have nothing in flight, as of one that hands reads on to others:
    /// a read that waits for a request waits for one in flight.
    fn forget_idle(&mut self) {
        let disks: Vec<u32> = self.under_way.keys().map(|(disk, _)| *disk).collect();
        let mut idle: BTreeMap<u32, bool> = BTreeMap::new();
        for disk in disks {
            let directory = self.sysfs_directory(disk);
            idle.entry(disk).or_insert_with(|| is_idle(&directory));
        }
        self.under_way
            .retain(|(disk, _), _| !idle.get(disk).copied().unwrap_or(false));
    }
}

/// Returns whether the device in this directory of sysfs has nothing in flight, or is gone.
fn is_idle(directory: &Path) -> bool {
    let text = fs::read_to_string(directory.join("inflight")).unwrap_or_default();
    text.split_whitespace().all(|count| count == "0")
}

/// A device of `8:16`, as in the kernel.
fn parse_device(text: &str) -> Option<u32> {
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse::<u32>().ok()? << MINOR_BITS) | minor.parse::<u32>().ok()?)
}

impl Reads {
    /// Begins.
    ///
    /// # Errors
    /// Events cannot be had: there is no tracefs, no permission, or no such event.
    pub fn start() -> Result<Reads> {
        Ok(Reads {
            tracing: Tracefs::start_reads(Path::new("/sys/kernel"), BUFFER)?,
            spans: ReadSpans {
                root: "/".into(),
                ..ReadSpans::default()
            },
            homes: Homes::new(Path::new("/")),
            ended: Vec::new(),
        })
    }

    /// Pipes that become readable when [`Reads::take_events`] should be called, so that nothing is
    /// lost.
    pub fn trace_pipes(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.tracing.trace_pipes()
    }

    /// Takes what the kernel's buffers have.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn take_events(&mut self) -> Result<()> {
        let mut trace = Trace::default();
        self.tracing.read_buffers(&mut trace)?;
        self.homes.absorb_origins(&mut trace.events);
        let ended = self.spans.end_spans(trace.events);
        if trace.lost > 0 {
            self.spans.under_way.clear();
        }
        let room = MOST.saturating_sub(self.ended.len());
        for (task, began, end) in ended.into_iter().take(room) {
            self.ended
                .extend(Timed::of_task(&mut self.homes, task, began, end));
        }
        Ok(())
    }

    /// Takes the reads that have ended since the last call.
    ///
    /// # Errors
    /// The kernel's buffers cannot be read.
    pub fn take_ended(&mut self) -> Result<Vec<Timed>> {
        self.take_events()?;
        Ok(std::mem::take(&mut self.ended))
    }

    /// Reads under way now.
    pub fn under_way(&mut self) -> Vec<Timed> {
        self.spans.forget_idle();
        let now = now_ns();
        let homes = &mut self.homes;
        let spans = self.spans.under_way.values();
        spans
            .filter_map(|(task, began)| Timed::of_task(homes, *task, *began, now))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SDA: u32 = 8 << MINOR_BITS;

    fn event(ns: u64, task: u32, what: What) -> Event {
        Event { ns, task, what }
    }

    #[test]
    fn a_read_ends_with_the_request_that_it_became_part_of() {
        let mut spans = ReadSpans::default();
        let ended = spans.end_spans(vec![
            event(40, 0, What::ReadCompleted(SDA, 100, 16)),
            event(10, 1, What::ReadQueued(SDA, 100)),
            event(20, 2, What::ReadQueued(SDA, 108)),
            event(25, 3, What::ReadQueued(SDA, 116)),
            event(5, 0, What::ReadCompleted(SDA, 116, 8)),
            event(30, 4, What::ReadQueued(SDA + 16, 104)),
        ]);
        assert_eq!(ended, [(1, 10, 40), (2, 20, 40)]);
        let last = spans.end_spans(vec![event(90, 0, What::ReadCompleted(SDA, 116, 8))]);
        assert_eq!(last, [(3, 25, 90)]);
        assert_eq!(spans.under_way.len(), 1, "another disk's");
    }

    #[test]
    fn a_partitions_reads_are_its_disks() {
        let root = tempfile::tempdir().expect("made");
        let sys = root.path().join("sys");
        fs::create_dir_all(sys.join("devices/sda/sda1")).expect("made");
        fs::create_dir_all(sys.join("dev/block")).expect("made");
        fs::write(sys.join("devices/sda/dev"), "8:0\n").expect("written");
        fs::write(sys.join("devices/sda/sda1/partition"), "1\n").expect("written");
        for (name, at) in [("8:0", "sda"), ("8:1", "sda/sda1")] {
            let at = sys.join("devices").join(at);
            std::os::unix::fs::symlink(at, sys.join("dev/block").join(name)).expect("made");
        }
        let mut spans = ReadSpans {
            root: root.path().into(),
            ..ReadSpans::default()
        };
        assert_eq!((spans.disk_of(SDA + 1), spans.disk_of(SDA)), (SDA, SDA));
        assert_eq!(spans.disk_of(SDA + 2), SDA + 2, "unknown");
        // One that hands its reads on has none in flight, and none of them ever ends.
        let inflight = |text: &str| fs::write(sys.join("devices/sda/inflight"), text);
        inflight("       0        3\n").expect("written");
        spans.end_spans(vec![
            event(1, 1, What::ReadQueued(SDA + 1, 8)),
            event(2, 1, What::ReadQueued(SDA + 2, 8)),
        ]);
        spans.forget_idle();
        assert_eq!(spans.under_way.keys().collect::<Vec<_>>(), [&(SDA, 8)]);
        inflight("       0        0\n").expect("written");
        spans.forget_idle();
        assert!(spans.under_way.is_empty());
    }
}
