// SPDX-License-Identifier: GPL-2.0-only
//! Keeps the kernel's counts of cgroups with a ceiling fresh.
//!
//! The kernel throttles a cgroup by counts that it adds up every two seconds, or as `memory.stat` is
//! read. Such a read takes 56,000 instructions, one of `memory.current`, which is exact at any time,
//! 3,000. So `memory.stat` is read of cgroups that hold much or were charged pages since, and of a
//! few others in turn: a page that was cached before is dirtied without a charge. A cgroup whose
//! memory grows towards its `memory.high` between two looks of the keeper calls for the next.

use super::translate::CgroupMemory;
use crate::flat_keyed::find_value;
use crate::tree::CgroupDir;
use knobs::PAGE;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Cgroups whose files are kept open: two of each, and a process may have 1,024. The counts of others
/// are as old as the keeper's last look.
const MOST: usize = 256;
/// Cgroups in each round that were charged nothing.
const IN_TURN: usize = 4;
/// Pages charged since the last read that call for another: half of what a CPU charges at once.
const CHARGED: u64 = 32;
/// A cgroup that holds this part of its ceiling is read in each round.
const BUSY: u64 = 4;
/// A cgroup that dirties this part of its ceiling from one read to the next is rising fast.
const RISING: u64 = 16;
/// Growth since the keeper's last look that calls for another: this part of what `memory.high` then
/// left, and of `memory.high`.
const GROWN_OF_LEFT: u64 = 2;
const GROWN_OF_HIGH: u64 = 32;
/// A cgroup that holds less than this part of the room is none of those that share it.
pub const SHARER: u64 = 32;
/// Bytes of `memory.stat` that are looked at: `file_dirty` and `file_writeback` are among the first.
const STAT_BYTES: usize = 4096;

/// A cgroup that is to have a ceiling, as the keeper has just seen it, in pages.
pub struct LimitedCgroup<'a> {
    pub place: &'a CgroupDir,
    pub ceiling: u64,
    /// The `memory.high` that it is to have.
    pub high: u64,
    pub memory: CgroupMemory,
}

/// A cgroup's open files, and what they held when `memory.stat` was read last.
struct CountedCgroup {
    stat: File,
    current: File,
    ceiling: u64,
    held: u64,
    usage: u64,
    /// Usage with which the keeper looks again.
    look_usage: u64,
}

/// A round's outcome.
#[derive(Debug, PartialEq, Eq)]
pub struct CountRound {
    /// Cgroups whose `memory.stat` was read.
    pub reads: usize,
    /// `true` if a cgroup has grown so much that its `memory.high`, or that of those it shares room
    /// with, may have to follow.
    pub has_grown: bool,
    /// `true` if a cgroup's dirty pages rise fast, so that the next round is to come soon.
    pub is_rising: bool,
}

/// The cgroups whose counts are kept fresh, by inode.
#[derive(Default)]
pub struct FreshCounts {
    cgroups: BTreeMap<u64, CountedCgroup>,
    /// Cgroups that have had their turn.
    turn: usize,
}

impl FreshCounts {
    /// Takes these cgroups from now on; of too many, those that hold most of their ceilings.
    pub fn follow_cgroups(&mut self, limited: &[LimitedCgroup]) {
        let mut fullest: Vec<&LimitedCgroup> = limited.iter().collect();
        fullest.sort_by_key(|cgroup| {
            Reverse(cgroup.memory.held.saturating_mul(1024) / cgroup.ceiling.max(1))
        });
        fullest.truncate(MOST);
        let inodes: BTreeSet<u64> = fullest.iter().map(|cgroup| cgroup.place.inode).collect();
        self.cgroups.retain(|inode, _| inodes.contains(inode));
        for cgroup in fullest {
            let inode = cgroup.place.inode;
            if let Some(known) = self.cgroups.get_mut(&inode) {
                known.take_memory(cgroup);
            } else {
                let new = CountedCgroup::open_files(cgroup).map(|new| (inode, new));
                self.cgroups.extend(new);
            }
        }
    }

    /// `true` if there is no cgroup to read.
    pub fn is_empty(&self) -> bool {
        self.cgroups.is_empty()
    }

    /// Reads `memory.stat` of cgroups whose counts may have changed.
    pub fn refresh_counts(&mut self) -> CountRound {
        let count = self.cgroups.len();
        let first = self.turn % count.max(1);
        let mut round = CountRound {
            reads: 0,
            has_grown: false,
            is_rising: false,
        };
        for (index, cgroup) in self.cgroups.values_mut().enumerate() {
            let Some(usage) = cgroup.read_usage() else {
                continue;
            };
            round.has_grown |= usage >= cgroup.look_usage;
            let has_turn = (index + count - first) % count < IN_TURN;
            let is_busy = cgroup.held >= cgroup.ceiling / BUSY;
            if has_turn || is_busy || usage.abs_diff(cgroup.usage) >= CHARGED {
                let before = cgroup.held;
                cgroup.usage = usage;
                cgroup.read_held();
                // Others have more of the room that a floor leaves until this one is seen to share it.
                let share = cgroup.ceiling / SHARER;
                round.has_grown |= before < share && cgroup.held >= share;
                let rise = cgroup.held.saturating_sub(before);
                round.is_rising |= rise >= (cgroup.ceiling / RISING).max(1);
                round.reads += 1;
            }
        }
        self.turn = first + IN_TURN;
        round
    }
}

impl CountedCgroup {
    fn open_files(cgroup: &LimitedCgroup) -> io::Result<CountedCgroup> {
        let directory = &cgroup.place.directory;
        let mut new = CountedCgroup {
            stat: File::open(directory.join("memory.stat"))?,
            current: File::open(directory.join("memory.current"))?,
            ceiling: 0,
            held: 0,
            usage: 0,
            look_usage: 0,
        };
        new.take_memory(cgroup);
        Ok(new)
    }

    fn take_memory(&mut self, cgroup: &LimitedCgroup) {
        let (usage, high) = (cgroup.memory.usage, cgroup.high);
        let growth = high.saturating_sub(usage) / GROWN_OF_LEFT;
        self.ceiling = cgroup.ceiling;
        self.held = cgroup.memory.held;
        self.usage = usage;
        self.look_usage = usage.saturating_add(growth.max(high / GROWN_OF_HIGH));
    }

    /// Pages of `memory.current`; none once the cgroup is gone.
    fn read_usage(&self) -> Option<u64> {
        let mut bytes = [0; 32];
        let text = read_text(&self.current, &mut bytes)?;
        Some(text.trim().parse::<u64>().ok()? / PAGE)
    }

    fn read_held(&mut self) {
        let mut bytes = [0; STAT_BYTES];
        if let Some(text) = read_text(&self.stat, &mut bytes) {
            let pages = |key| find_value(text, key).unwrap_or(0) / PAGE;
            self.held = pages("file_dirty") + pages("file_writeback");
        }
    }
}

/// Text at the beginning of a file.
fn read_text<'a>(file: &File, bytes: &'a mut [u8]) -> Option<&'a str> {
    let length = file.read_at(bytes, 0).ok()?;
    std::str::from_utf8(&bytes[..length]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    /// Cgroups of that many pages, which hold nothing dirty.
    fn make_cgroups(root: &Path, count: u64) -> Vec<CgroupDir> {
        let cgroups = (0..count).map(|number| {
            let directory = root.join(number.to_string());
            fs::create_dir(&directory).expect("made");
            write_memory(&directory, 0, 100);
            CgroupDir {
                path: format!("/{number}"),
                directory,
                inode: number,
                delegated: false,
            }
        });
        cgroups.collect()
    }

    fn write_memory(directory: &Path, dirty: u64, usage: u64) {
        let bytes = |pages: u64| (pages * PAGE).to_string();
        let text = format!("file_dirty {}\nfile_writeback 0\n", bytes(dirty));
        fs::write(directory.join("memory.stat"), text).expect("written");
        fs::write(directory.join("memory.current"), bytes(usage)).expect("written");
    }

    /// Cgroups with a ceiling of 400 pages and a `memory.high` of 1,100, which use 100.
    fn limit_cgroups(cgroups: &[CgroupDir]) -> Vec<LimitedCgroup<'_>> {
        let limited = cgroups.iter().map(|place| LimitedCgroup {
            place,
            ceiling: 400,
            high: 1100,
            memory: CgroupMemory {
                usage: 100,
                ..CgroupMemory::default()
            },
        });
        limited.collect()
    }

    #[test]
    fn cgroups_that_are_busy_are_read_in_each_round_and_others_in_turn() {
        let root = tempfile::tempdir().expect("made");
        let cgroups = make_cgroups(root.path(), 20);
        let mut counts = FreshCounts::default();
        counts.follow_cgroups(&limit_cgroups(&cgroups));
        assert_eq!(
            counts.refresh_counts().reads,
            IN_TURN,
            "0 to 3: all are idle"
        );
        write_memory(&cgroups[19].directory, 50, 132);
        let reads = counts.refresh_counts().reads;
        assert_eq!(reads, IN_TURN + 1, "19 was charged 32 pages");
        assert_eq!(counts.refresh_counts().reads, IN_TURN, "and none since");
        write_memory(&cgroups[19].directory, 200, 280);
        assert_eq!(counts.refresh_counts().reads, IN_TURN + 1);
        let reads = counts.refresh_counts().reads;
        assert_eq!(reads, IN_TURN, "its turn, holding half of its ceiling");
        let reads = counts.refresh_counts().reads;
        assert_eq!(reads, IN_TURN + 1, "and from then on in each round");
        // Pages that were cached before: no charge, but its turn comes.
        write_memory(&cgroups[8].directory, 300, 100);
        assert_eq!(counts.refresh_counts().reads, IN_TURN + 1);
        assert_eq!(counts.refresh_counts().reads, IN_TURN + 1, "8 to 11");
        assert_eq!(counts.refresh_counts().reads, IN_TURN + 2, "8 is busy now");
        counts.follow_cgroups(&limit_cgroups(&cgroups[..2]));
        assert_eq!(
            counts.refresh_counts().reads,
            2,
            "the others are followed no more"
        );
        counts.follow_cgroups(&[]);
        assert!(counts.is_empty());
        assert_eq!(counts.refresh_counts().reads, 0);
    }

    #[test]
    fn a_cgroup_that_dirties_a_sixteenth_of_its_ceiling_is_rising() {
        let root = tempfile::tempdir().expect("made");
        let cgroups = make_cgroups(root.path(), 1);
        let mut counts = FreshCounts::default();
        counts.follow_cgroups(&limit_cgroups(&cgroups));
        for (dirty, is_rising) in [(24, false), (49, true), (49, false), (10, false)] {
            write_memory(&cgroups[0].directory, dirty, 100);
            assert_eq!(
                counts.refresh_counts().is_rising,
                is_rising,
                "{dirty} pages"
            );
        }
    }

    #[test]
    fn a_cgroup_that_grows_towards_its_limit_calls_for_a_look() {
        let root = tempfile::tempdir().expect("made");
        let cgroups = make_cgroups(root.path(), 1);
        let mut counts = FreshCounts::default();
        counts.follow_cgroups(&limit_cgroups(&cgroups));
        for (usage, has_grown) in [(599, false), (600, true)] {
            write_memory(&cgroups[0].directory, 0, usage);
            assert_eq!(
                counts.refresh_counts().has_grown,
                has_grown,
                "half of 1,000"
            );
        }
        let mut limited = limit_cgroups(&cgroups);
        (limited[0].memory.usage, limited[0].high) = (640, 640);
        counts.follow_cgroups(&limited);
        for (usage, has_grown) in [(659, false), (660, true)] {
            write_memory(&cgroups[0].directory, 0, usage);
            let grown = counts.refresh_counts().has_grown;
            assert_eq!(grown, has_grown, "full of page cache: a thirty-second");
        }
    }

    #[test]
    fn more_cgroups_than_files_may_be_open_are_followed_in_part() {
        let root = tempfile::tempdir().expect("made");
        let cgroups = make_cgroups(root.path(), MOST as u64 + 2);
        let mut counts = FreshCounts::default();
        counts.follow_cgroups(&limit_cgroups(&cgroups));
        assert_eq!(counts.cgroups.len(), MOST);
        counts.follow_cgroups(&limit_cgroups(&cgroups[1..]));
        assert_eq!(counts.cgroups.len(), MOST, "another instead of the first");
        let mut limited = limit_cgroups(&cgroups);
        limited[MOST + 1].memory.held = 100;
        counts.follow_cgroups(&limited);
        assert_eq!(counts.cgroups.len(), MOST);
        assert!(
            counts.cgroups.contains_key(&(MOST as u64 + 1)),
            "the one that holds pages"
        );
    }

    #[test]
    fn a_cgroup_that_begins_to_share_the_room_calls_for_a_look() {
        let root = tempfile::tempdir().expect("made");
        let cgroups = make_cgroups(root.path(), 1);
        let mut counts = FreshCounts::default();
        counts.follow_cgroups(&limit_cgroups(&cgroups));
        for (dirty, has_grown) in [(11, false), (12, true), (20, false)] {
            write_memory(&cgroups[0].directory, dirty, 100);
            assert_eq!(
                counts.refresh_counts().has_grown,
                has_grown,
                "a thirty-second of 400"
            );
        }
    }

    #[test]
    fn a_cgroup_that_is_gone_fails_nothing() {
        let root = tempfile::tempdir().expect("made");
        let cgroups = make_cgroups(root.path(), 1);
        fs::remove_dir_all(&cgroups[0].directory).expect("removed");
        let mut counts = FreshCounts::default();
        counts.follow_cgroups(&limit_cgroups(&cgroups));
        assert!(counts.is_empty());
    }
}
