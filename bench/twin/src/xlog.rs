// SPDX-License-Identifier: GPL-2.0-only
//! xfs's log: what a task that syncs waits for there.
//!
//! Changes of inodes are gathered in memory (the committed item list); no task waits for a write
//! to the log to change one again. fsync *forces* it: all that was gathered is pushed as one
//! checkpoint of two sectors, a single write in its turn in the disk's line, and what comes
//! meanwhile is in the next. A write() logs its file's time stamps; when an append is written a
//! worker converts its blocks and logs the new size. fdatasync leaves time stamps alone, so an
//! overwrite does without the log.
//!
//! Example. On a disk of 16 MiB/s with half a second in line an fsync takes a second: its data, and
//! the checkpoint.

use crate::blk::{Blk, Request, What};
use crate::sim::SimEvent;
use crate::sim::clock::Ns;
use std::collections::BTreeMap;

/// CPU time of a force: what fsync of 8 KiB takes alone in a guest that counts instructions, 650
/// us, less what the disk takes for both writes (`scenarios/fsync/fitted-xfs.toml`).
const FORCE: Ns = 100_000;

/// The log of one disk's filesystem.
#[derive(Clone, Debug)]
pub struct Log {
    /// The checkpoint that gathers changes.
    xc_current_sequence: u64,
    /// Those under way, and who waits for which.
    forced: BTreeMap<u64, Vec<u32>>,
}

impl Default for Log {
    fn default() -> Log {
        Log {
            xc_current_sequence: 1,
            forced: BTreeMap::new(),
        }
    }
}

/// The logs of the host's filesystems.
#[derive(Clone, Debug)]
pub struct Xlog {
    blk: Blk,
    /// Logs by disk.
    pub logs: Vec<Log>,
}

above!(Xlog.blk: Blk, logs);

impl Xlog {
    /// A file's inode changes, its time stamps or more (`xfs_trans_log_inode`).
    pub fn log_inode(&mut self, device: usize, file: usize, is_time: bool) {
        let sequence = self.logs[device].xc_current_sequence;
        let inode = &mut self.blk.files[file];
        inode.sync_tid = sequence;
        if !is_time {
            inode.datasync_tid = sequence;
        }
    }

    /// A task has what was logged by a checkpoint written (`xfs_log_force_seq`); false if it is.
    pub fn force_log(&mut self, device: usize, task: usize, sequence: u64) -> bool {
        let log = &mut self.logs[device];
        if let Some(waiting) = log.forced.get_mut(&sequence) {
            waiting.push(task as u32);
            return true;
        }
        if sequence < log.xc_current_sequence {
            return false;
        }
        log.xc_current_sequence += 1;
        log.forced.insert(sequence, vec![task as u32]);
        let request = Request {
            what: What::Log(sequence),
            pages: 1,
            sector: 0,
            hctx: 0,
            cgroup: 0,
        };
        self.submit_request(device, request);
        true
    }

    /// A checkpoint is written.
    pub fn end_log_write(&mut self, device: usize, sequence: u64) {
        let waiting = self.logs[device].forced.remove(&sequence);
        for task in waiting.unwrap_or_default() {
            self.schedule_after(FORCE, SimEvent::Task(task));
        }
    }
}
