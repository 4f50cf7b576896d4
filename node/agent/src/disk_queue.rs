// SPDX-License-Identifier: GPL-2.0-only
//! Request queues of disks: what is in flight in them, and the files that bound it.
//!
//! Only a disk that requests are queued for has `mq` below `/sys/block/NAME`; device mapper and md
//! hand writes on to those they lie on.

use crate::tree::CgroupDir;
use observe::read::cgroup;
use observe::stack::Stack;
use policy::arith;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Sectors of 512 bytes in a page of 4 KiB.
const PAGE_SECTORS: u64 = 8;

/// Counters of a disk since it was added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskCounters {
    /// Sectors that were read.
    read: u64,
    /// Write requests that were completed.
    writes: u64,
    /// Sectors that were written.
    written: u64,
    /// Milliseconds that write requests took, added up.
    write_ms: u64,
}

/// A disk's load in some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskLoad {
    /// Pages in flight to be written, on average.
    pub in_flight: u64,
    /// Pages written and read in a second.
    pub rate: u64,
}

impl DiskCounters {
    /// Reads the counters of the disk with this name; nothing if it is gone, or does not count.
    pub fn read(root: &Path, name: &str) -> Option<DiskCounters> {
        let file = root.join("sys/block").join(name).join("stat");
        DiskCounters::parse(&fs::read_to_string(file).ok()?)
    }

    fn parse(text: &str) -> Option<DiskCounters> {
        let mut words = text.split_whitespace().map(|word| word.parse().ok());
        let read = words.nth(2)??;
        let writes = words.nth(1)??;
        Some(DiskCounters {
            read,
            writes,
            written: words.nth(1)??,
            write_ms: words.next()??,
        })
    }

    /// The disk's load since `before`, so many milliseconds ago. The time that requests took, added
    /// up, is as many times the time that has passed as requests were in flight.
    pub fn load_since(&self, before: &DiskCounters, ms: u64) -> DiskLoad {
        let ms = ms.max(1);
        let writes = self.writes.saturating_sub(before.writes).max(1);
        let written = self.written.saturating_sub(before.written);
        let read = self.read.saturating_sub(before.read);
        let waited = self.write_ms.saturating_sub(before.write_ms);
        let sectors =
            u128::from(waited) * u128::from(written) / (u128::from(writes) * u128::from(ms));
        let in_flight = u64::try_from(sectors).unwrap_or(u64::MAX) / PAGE_SECTORS;
        DiskLoad {
            in_flight: arith::saturate_pages(in_flight),
            rate: (written + read) / PAGE_SECTORS * 1_000 / ms,
        }
    }
}

/// Names of the disks that cgroups at both kinds of places have used.
pub fn shared_disks(
    root: &Path,
    stack: &Stack,
    places: &[CgroupDir],
    others: &[CgroupDir],
) -> BTreeSet<String> {
    let used = |places: &[CgroupDir]| -> BTreeSet<String> {
        let texts = places
            .iter()
            .filter_map(|place| fs::read_to_string(place.directory.join("io.stat")).ok());
        let numbers = texts.flat_map(|text| cgroup::devices_used(&text));
        numbers
            .flat_map(|number| stack.device_and_below(&number))
            .collect()
    };
    let (used, others) = (used(places), used(others));
    let both = used.intersection(&others);
    both.filter_map(|number| name(root, number)).collect()
}

/// Name of the disk with these numbers, if requests are queued for it.
fn name(root: &Path, number: &str) -> Option<String> {
    let directory = fs::canonicalize(root.join("sys/dev/block").join(number)).ok()?;
    let name = directory.file_name()?.to_str()?.to_owned();
    directory.join("mq").exists().then_some(name)
}

/// A file of the disk's queue, below the root.
pub fn queue_file(name: &str, file: &str) -> String {
    format!("sys/block/{name}/queue/{file}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_flight_is_told_by_how_long_requests_took() {
        let before =
            DiskCounters::parse("10 0 80 5 100 3 4000 900 0 33 14 0 0 0 0 0 0\n").expect("read");
        assert_eq!(
            before,
            DiskCounters {
                read: 80,
                writes: 100,
                written: 4000,
                write_ms: 900
            }
        );
        // 64 requests of 256 KiB, 32 of them at a time: each takes half a second.
        let after = DiskCounters {
            writes: 164,
            written: 4000 + 64 * 512,
            write_ms: 900 + 64 * 500,
            ..before
        };
        let expected = DiskLoad {
            in_flight: 32 * 64,
            rate: 4096,
        };
        assert_eq!(after.load_since(&before, 1_000), expected);
        assert_eq!(before.load_since(&before, 1_000), DiskLoad::default());
        assert_eq!(DiskCounters::parse("1 2 3"), None);
    }

    #[test]
    fn disks_are_those_that_requests_are_queued_for() {
        let root = tempfile::tempdir().expect("made");
        let stack: Stack = [("253:0".to_string(), vec!["8:0".to_string()])]
            .into_iter()
            .collect();
        fs::create_dir_all(root.path().join("sys/dev/block")).expect("made");
        for (number, name, below) in [("8:0", "sda", "mq/0"), ("253:0", "dm-0", "dm")] {
            let disk = root.path().join("sys/devices").join(name);
            fs::create_dir_all(disk.join(below)).expect("made");
            let link = root.path().join("sys/dev/block").join(number);
            std::os::unix::fs::symlink(disk, link).expect("made");
        }
        let place = |name: &str, io_stat: &str| {
            let directory = root.path().join(name);
            fs::create_dir_all(&directory).expect("made");
            fs::write(directory.join("io.stat"), io_stat).expect("written");
            CgroupDir {
                directory,
                path: format!("/{name}"),
                inode: 1,
                delegated: false,
            }
        };
        let (db, flood) = (
            place("db", "253:0 rbytes=0 wbytes=4096 wios=1\n"),
            place("flood", "8:0 wbytes=4096\n8:16 wbytes=1\n"),
        );
        let found = shared_disks(root.path(), &stack, &[db], &[flood]);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["sda"]);
    }
}
