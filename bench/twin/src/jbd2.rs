// SPDX-License-Identifier: GPL-2.0-only
//! The filesystem's journal: what makes writers who have nothing to do with each other wait for
//! each other.
//!
//! On ext4 a task that changes an inode or gets blocks joins the *running* transaction with the
//! blocks that say so:
//!
//! | who | with which blocks |
//! | --- | --- |
//! | a write() that stores a new time stamp, the first in a tick | its file's inode's (16 share one) |
//! | a flusher or fsync that writes pages without blocks | the same, a bitmap, the group's descriptor |
//! | a worker, as such pages are written: they count as unwritten until then | its inode's |
//!
//! Until a commit has written its blocks (its record is not waited for) no task may change them,
//! unless the next transaction had the block before writing began: then a copy is written. So
//! beside a commit in a full line the flusher of a file that grows stands still, and the line runs
//! dry: the commit's record, which comes next, does not wait again.
//!
//! Pages that are written stay in writeback until they are converted. How a transaction commits:
//! commit.rs.
//!
//! With `nodelalloc` and `data=ordered` write() itself gets blocks, and a commit *carries* the data
//! of such a file: all that is dirty of it is written first, whichever task wrote it. Else it
//! carries none, as blocks are unwritten until their data are there.
//!
//! No task holds a transaction open while it is throttled or waits for a slot, so it closes at
//! once, and the next is open from then on. (Linux hands over some pages with a transaction open,
//! where memory is so fragmented that 256 pieces are less than a bio.)
//!
//! xfs's log: xlog.rs. Other filesystems are not known that well: a task that calls fsync waits for
//! three pages of its own.
//!
//! Example. On a disk of 256 KiB/s 32 pages are in line as 20 files' transaction commits: after 500
//! ms come 3 pages, and their writers have waited for 547 ms, once every five to six seconds.
//! Behind the 32 pages that came meanwhile is the record, so who syncs waits for a second.

mod commit;

use crate::blk::{Request, What};
use crate::sim::SimEvent;
use crate::sim::clock::{Ns, SECOND};
use crate::xlog::Xlog;
use commit::Commit;
use std::collections::BTreeSet;

/// Inodes in a block of a page, and those that a new filesystem has: ten and lost+found.
const INODES: u32 = 16;
const FIRST_INODES: u32 = 11;
/// Blocks that are no inodes': a bitmap, and descriptors of groups. Files of the lab are in one
/// directory, so in one group until that is full; 64 groups share a block of descriptors.
const BITMAP: u32 = u32::MAX;
const GROUPS: u32 = u32::MAX - 1;
/// Blocks that fio changes as it makes a file that has no blocks: the superblock's list of orphans,
/// the bitmap of inodes, the directory. Six pages of metadata were dirty in a guest whose only
/// writer appended, these three and an append's.
pub const MADE: [u32; 3] = [u32::MAX - 2, u32::MAX - 3, u32::MAX - 4];

/// Mechanisms that keep a filesystem consistent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalKind {
    /// A transaction commits after `interval`; blocks are given at writeback if it is `delalloc`,
    /// else by write(), and then commits may carry data.
    Ext4 {
        /// Time between commits (`commit=`).
        interval: Ns,
        /// Blocks are given at writeback (no `nodelalloc`).
        delalloc: bool,
        /// Commits may carry data (`data=ordered`).
        ordered: bool,
    },
    /// It has a log, as in xlog.rs.
    Xfs {
        /// Files are kept in large folios, as since 5.18. (ext4's are since 6.16.)
        large_folios: bool,
    },
    /// Its mechanism is not known.
    Other,
}

/// The journal of one disk's filesystem.
#[derive(Clone, Debug)]
pub struct Journal {
    kind: JournalKind,
    /// Files so far.
    inodes: u32,
    /// The running transaction's number. Those before it that are not committing have been
    /// committed.
    j_running_transaction: u64,
    blocks: BTreeSet<u32>,
    grown: Vec<u32>,
    due: Ns,
    j_committing_transaction: Option<Commit>,
    /// The running transaction is to follow at once.
    wanted: bool,
    /// Tasks that wait for which transaction.
    syncing: Vec<(u64, u32)>,
    /// Waiters for a block of a commit.
    waiting: Vec<Waiting>,
    /// Blocks whose commit is over, to be written in their place.
    pub checkpoint: BTreeSet<u32>,
    /// The file that stands for the disk's metadata, once there is any to be written.
    pub bdev: Option<usize>,
}

/// A waiter for a block that a commit writes, to change it.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    block: u32,
    file: usize,
    who: Handle,
}

/// Author of a change to what a filesystem knows of a file (`handle_t`), as the change begins.
#[derive(Clone, Copy, Debug)]
pub enum Handle {
    /// A task's write(), and whether it is to a page without blocks.
    Write(u32, bool),
    /// A task writes its own file's pages.
    Writeback(u32),
    /// A flusher does; the number of its next event.
    Flusher(u32, u32),
    /// A worker converts what is written.
    Ioend,
}

impl Journal {
    /// Nothing has changed yet.
    pub fn new(kind: JournalKind) -> Journal {
        Journal {
            kind,
            inodes: FIRST_INODES,
            j_running_transaction: 1,
            blocks: BTreeSet::new(),
            grown: Vec::new(),
            due: 0,
            j_committing_transaction: None,
            wanted: false,
            syncing: Vec::new(),
            waiting: Vec::new(),
            checkpoint: BTreeSet::new(),
            bdev: None,
        }
    }

    /// The block of a new file's inode.
    pub fn new_inode(&mut self) -> u32 {
        self.inodes += 1;
        (self.inodes - 1) / INODES
    }

    /// `true` if pages get blocks as they are written, not before.
    pub fn maps_at_writeback(&self) -> bool {
        match self.kind {
            JournalKind::Ext4 { delalloc, .. } => delalloc,
            JournalKind::Xfs { .. } => true,
            JournalKind::Other => false,
        }
    }

    /// `true` if giving blocks takes a flusher time of its own: xfs's takes none that shows.
    pub fn pays_for_block_mapping(&self) -> bool {
        matches!(self.kind, JournalKind::Ext4 { delalloc: true, .. })
    }

    /// `true` if files are kept in large folios.
    pub fn has_large_folios(&self) -> bool {
        matches!(self.kind, JournalKind::Xfs { large_folios: true })
    }

    /// `true` if fsync has the disk empty its cache where nothing is to be committed.
    pub fn flushes_on_fsync(&self) -> bool {
        self.kind != JournalKind::Other
    }

    /// `true` if a commit carries the data of files to which write() gave blocks.
    fn commits_carry_data(&self) -> bool {
        let JournalKind::Ext4 {
            delalloc, ordered, ..
        } = self.kind
        else {
            return false;
        };
        ordered && !delalloc
    }

    fn is_committed(&self, transaction: u64) -> bool {
        transaction + u64::from(self.j_committing_transaction.is_some())
            < self.j_running_transaction
    }

    /// `true` if a block is being written, and not a copy of it.
    fn is_being_written(&self, block: u32) -> bool {
        let writing = self
            .j_committing_transaction
            .as_ref()
            .filter(|commit| commit.files == 0);
        let is_written = writing.is_some_and(|commit| commit.blocks.contains(&block));
        is_written && !self.blocks.contains(&block)
    }
}

/// The journals of the host's filesystems.
#[derive(Clone, Debug)]
pub struct Jbd2 {
    xlog: Xlog,
    /// Journals by disk.
    pub journals: Vec<Journal>,
}

above!(Jbd2.xlog: Xlog, journals);

impl Jbd2 {
    /// Someone begins to change what the filesystem knows of a file; false if it has to wait for a
    /// commit.
    pub fn begin_change_or_wait(&mut self, who: Handle, file: usize) -> bool {
        let device = self.device_of(file);
        if let Handle::Write(_, grows) = who {
            let now = self.current_tick();
            let was = std::mem::replace(&mut self.files[file].mtime, now);
            let journal = &self.journals[device];
            // Its inode is in the running transaction already.
            let is_in = matches!(journal.kind, JournalKind::Ext4 { .. })
                && self.files[file].sync_tid == journal.j_running_transaction;
            if (was == now || is_in) && !(grows && journal.commits_carry_data()) {
                return true;
            }
        }
        match self.journals[device].kind {
            JournalKind::Other => return true,
            JournalKind::Xfs { .. } => {
                let is_time = matches!(who, Handle::Write(..));
                self.log_inode(device, file, is_time);
                return true;
            }
            JournalKind::Ext4 { .. } => {}
        }
        let all = [self.files[file].block, BITMAP, GROUPS];
        let blocks = match who {
            Handle::Write(..) | Handle::Ioend => &all[..1],
            Handle::Writeback(_) | Handle::Flusher(..) => &all[..],
        };
        let journal = &mut self.journals[device];
        if let Some(block) = blocks
            .iter()
            .find(|block| journal.is_being_written(**block))
        {
            let block = *block;
            journal.waiting.push(Waiting { block, file, who });
            return false;
        }
        self.join_transaction(device, file, who, blocks);
        true
    }

    fn join_transaction(&mut self, device: usize, file: usize, who: Handle, blocks: &[u32]) {
        let now = self.now;
        let journal = &mut self.journals[device];
        let inode = &mut self.xlog.files[file];
        let carried = matches!(who, Handle::Write(_, true)) && journal.commits_carry_data();
        if carried && inode.sync_tid != journal.j_running_transaction {
            journal.grown.push(file as u32);
        }
        let is_made = inode.sync_tid == 0 && inode.mapped.is_some();
        inode.sync_tid = journal.j_running_transaction;
        if carried || !matches!(who, Handle::Write(..)) {
            inode.datasync_tid = journal.j_running_transaction;
        }
        let is_first = journal.blocks.is_empty();
        journal.blocks.extend(blocks);
        if is_made {
            journal.blocks.extend(MADE);
        }
        if let (true, JournalKind::Ext4 { interval, .. }) = (is_first, journal.kind) {
            // The kernel's timer is set to whole seconds.
            let due = now.saturating_add(interval);
            let due = due.checked_next_multiple_of(SECOND).unwrap_or(due);
            journal.due = due;
            self.schedule_event(due, SimEvent::Journal(device as u32));
        }
    }

    /// A task has its file's inode made durable, for fdatasync as far as the data need it; false if
    /// it is already.
    pub fn sync_inode(&mut self, task: usize, file: usize, datasync: bool) -> bool {
        let device = self.device_of(file);
        let kind = self.journals[device].kind;
        if kind == JournalKind::Other {
            if datasync {
                return false;
            }
            let block = self.files[file].block;
            self.join_transaction(device, file, Handle::Writeback(task as u32), &[block]);
        }
        let inode = &self.files[file];
        let transaction = match datasync {
            true => inode.datasync_tid,
            false => inode.sync_tid,
        };
        if let JournalKind::Xfs { .. } = kind {
            return self.force_log(device, task, transaction);
        }
        let journal = &mut self.journals[device];
        if journal.is_committed(transaction) {
            return false;
        }
        journal.syncing.push((transaction, task as u32));
        if transaction == journal.j_running_transaction {
            self.begin_commit(device);
        }
        true
    }

    /// A task has the disk empty its cache, and goes on after that.
    pub fn blkdev_issue_flush(&mut self, device: usize, task: usize, hctx: u32) {
        let request = Request {
            what: What::Flush(task as u32),
            pages: 0,
            sector: 0,
            hctx,
            cgroup: 0,
        };
        self.submit_request(device, request);
    }

    /// Gives waiters their blocks, or has them look again.
    fn wake_waiting_changes(&mut self, device: usize) {
        let mut waiting = std::mem::take(&mut self.journals[device].waiting);
        // Block after block, and at each who came last is woken first: who waits for a bit is put
        // in line at its head.
        waiting.reverse();
        waiting.sort_by_key(|waiting| waiting.block);
        for Waiting { block, file, who } in waiting {
            if let Handle::Write(..) = who {
                self.join_transaction(device, file, who, &[block]);
            }
            let event = match who {
                Handle::Write(task, _) | Handle::Writeback(task) => SimEvent::Task(task),
                Handle::Flusher(wb, number) => SimEvent::Flusher(wb, number),
                Handle::Ioend => SimEvent::Ioend(file as u32),
            };
            self.schedule_after(0, event);
        }
    }

    /// A task that waits to begin a write() ends.
    pub fn cancel_waiting_change(&mut self, task: usize, file: usize) {
        let device = self.device_of(file);
        let waiting = &mut self.journals[device].waiting;
        waiting.retain(
            |waiting| !matches!(waiting.who, Handle::Write(waits, _) if waits as usize == task),
        );
    }
}
