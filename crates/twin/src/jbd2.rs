// SPDX-License-Identifier: GPL-2.0-only
//! The filesystem's journal: what makes writers who have nothing to do with each other wait for
//! each other.
//!
//! On ext4 each write() stores a time stamp in its file's inode, and so joins the *running*
//! transaction. Five seconds after the first has joined (`commit=`), at the next whole second, or
//! as a task syncs a file that did, the transaction *commits*: a descriptor and the blocks of its
//! inodes (16 share one) are written, in their turn in the disk's line, and then, in its turn, a
//! record. There is one commit at a time; a task that syncs waits for the commit with its inode,
//! and what joins meanwhile is in the next. Until the blocks are written (the record is not waited
//! for) no task may change them: a write() to a file whose inode is in one waits, unless the next
//! transaction had the block before writing began: then a copy is written.
//!
//! That is all that writers wait for. No task holds a transaction open while it is throttled, so it
//! closes at once, and the next is open from then on. Data of others are none of a commit's
//! business but for the next paragraph.
//!
//! A commit *carries* data where blocks were given to a file that had none (`data=ordered`): all
//! that is dirty of the file is written first, whichever task wrote it. Linux does so only with
//! `nodelalloc`: else new blocks count as unwritten until their data are there, and nothing needs
//! to be carried.
//!
//! Other filesystems are not known that well: a task that syncs waits for three pages of its own.
//!
//! Example. On a disk of 256 KiB/s 32 pages are in line as 20 files' transaction commits: after 500
//! ms come 3 pages, and their writers have waited for 547 ms, once every five to six seconds.
//! Behind the 32 pages that came meanwhile is the record, so who syncs waits for a second.

use crate::blk::{BIO, Blk, Request, What};
use crate::sched::psi::{HOST, PsiFlags};
use crate::sim::Event;
use crate::sim::clock::{Ns, SECOND};
use std::collections::BTreeSet;

/// Inodes in a block of a page.
const INODES: u32 = 16;
/// Pages that a commit writes before and after its blocks.
const DESCRIPTOR: u32 = 1;
const RECORD: u32 = 1;

/// The journal of one disk's filesystem.
#[derive(Clone, Debug)]
pub struct Journal {
    /// Time stamps are journalled; a transaction commits after so long.
    interval: Option<Ns>,
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
    /// Who waits for which transaction.
    syncing: Vec<(u64, u32)>,
    /// Tasks that wait to store a time stamp: in which file, and whether that gives it blocks.
    stamping: Vec<(u32, usize, bool)>,
}

#[derive(Clone, Debug)]
struct Commit {
    /// Not written yet.
    blocks: BTreeSet<u32>,
    /// Files whose data are not written yet.
    files: u32,
    /// Requests of its own that are not.
    requests: u32,
    /// The record is in line.
    ends: bool,
}

impl Journal {
    /// Of a filesystem that journals time stamps and commits every `interval`, or of any other.
    pub fn new(interval: Option<Ns>) -> Journal {
        Journal {
            interval,
            inodes: 0,
            j_running_transaction: 1,
            blocks: BTreeSet::new(),
            grown: Vec::new(),
            due: 0,
            j_committing_transaction: None,
            wanted: false,
            syncing: Vec::new(),
            stamping: Vec::new(),
        }
    }

    /// The block of a new file's inode.
    pub fn new_inode(&mut self) -> u32 {
        self.inodes += 1;
        (self.inodes - 1) / INODES
    }

    fn is_committed(&self, transaction: u64) -> bool {
        transaction + u64::from(self.j_committing_transaction.is_some())
            < self.j_running_transaction
    }

    /// Whether a block is being written, and not a copy of it.
    fn holds(&self, block: u32) -> bool {
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
    blk: Blk,
    /// Journals by disk.
    pub journals: Vec<Journal>,
}

above!(Jbd2.blk: Blk, journals);

impl Jbd2 {
    /// A write() of a task to a file begins; false if it has to wait.
    pub fn stamps(&mut self, task: usize, file: usize, grows: bool) -> bool {
        let device = self.device_of(file);
        let block = self.files[file].block;
        let journal = &mut self.journals[device];
        if journal.interval.is_none() {
            return true;
        }
        if journal.holds(block) {
            journal.stamping.push((task as u32, file, grows));
            return false;
        }
        self.joins(device, file, grows);
        true
    }

    fn joins(&mut self, device: usize, file: usize, grows: bool) {
        let now = self.now;
        let journal = &mut self.journals[device];
        let inode = &mut self.blk.files[file];
        if inode.transaction == journal.j_running_transaction {
            return;
        }
        inode.transaction = journal.j_running_transaction;
        let is_first = journal.blocks.is_empty();
        journal.blocks.insert(inode.block);
        if grows {
            journal.grown.push(file as u32);
        }
        if let (true, Some(interval)) = (is_first, journal.interval) {
            // The kernel's timer is set to whole seconds.
            let due = now.saturating_add(interval);
            let due = due.checked_next_multiple_of(SECOND).unwrap_or(due);
            journal.due = due;
            self.schedule(due, Event::Journal(device as u32));
        }
    }

    /// A task has its file's inode committed; false if it is already.
    pub fn syncs_inode(&mut self, task: usize, file: usize) -> bool {
        let device = self.device_of(file);
        if self.journals[device].interval.is_none() {
            self.joins(device, file, false);
        }
        let transaction = self.files[file].transaction;
        let journal = &mut self.journals[device];
        if journal.is_committed(transaction) {
            return false;
        }
        journal.syncing.push((transaction, task as u32));
        if transaction == journal.j_running_transaction {
            self.commit_begins(device);
        }
        true
    }

    /// It may be time for a transaction to commit by itself.
    pub fn journal_is_due(&mut self, device: usize) {
        let journal = &self.journals[device];
        if journal.due == self.now && !journal.blocks.is_empty() {
            self.commit_begins(device);
        }
    }

    fn commit_begins(&mut self, device: usize) {
        let journal = &mut self.journals[device];
        if journal.j_committing_transaction.is_some() {
            journal.wanted = true;
            return;
        }
        journal.j_running_transaction += 1;
        let grown = std::mem::take(&mut journal.grown);
        journal.j_committing_transaction = Some(Commit {
            blocks: std::mem::take(&mut journal.blocks),
            files: 1,
            requests: 0,
            ends: false,
        });
        self.journal_does(device, PsiFlags::Nothing, PsiFlags::Iowait);
        for file in grown {
            self.carries(device, file);
        }
        self.data_are_written(device);
    }

    /// Puts all that is dirty of a file in line, for the commit.
    fn carries(&mut self, device: usize, number: u32) {
        let file = number as usize;
        let wb = self.files[file].wb;
        let hctx = self.devices[device].hctx(wb as usize, 0);
        while let Some((start, pages)) = self.files[file].pages.next_run(0, BIO) {
            self.files[file].pages.clear(start, pages);
            self.in_flight(file, start, pages);
            let request = Request {
                what: What::Pages {
                    wb,
                    file: number,
                    last: true,
                },
                pages: pages as u32,
                hctx,
                cgroup: 0,
            };
            self.submits(device, request);
        }
        if self.files[file].in_flight > 0 {
            self.files[file].carried = true;
            if let Some(commit) = &mut self.journals[device].j_committing_transaction {
                commit.files += 1;
            }
        }
    }

    /// None of a file's pages is in flight any more.
    pub fn file_is_clean(&mut self, device: usize, file: u32) {
        if std::mem::take(&mut self.files[file as usize].carried) {
            self.data_are_written(device);
        }
    }

    /// Of one file more; after the last the commit writes its own.
    fn data_are_written(&mut self, device: usize) {
        let Some(commit) = &mut self.journals[device].j_committing_transaction else {
            return;
        };
        commit.files -= 1;
        if commit.files > 0 {
            return;
        }
        let pages = DESCRIPTOR + commit.blocks.len() as u32;
        self.journal_writes(device, pages);
    }

    fn journal_writes(&mut self, device: usize, pages: u32) {
        let largest = self.devices[device].largest as u32;
        if let Some(commit) = &mut self.journals[device].j_committing_transaction {
            commit.requests = pages.div_ceil(largest);
        }
        let request = Request {
            what: What::Journal,
            pages,
            hctx: 0,
            cgroup: 0,
        };
        self.submits(device, request);
    }

    /// One request of a commit is complete.
    pub fn journal_is_written(&mut self, device: usize) {
        let journal = &mut self.journals[device];
        let Some(commit) = &mut journal.j_committing_transaction else {
            return;
        };
        commit.requests -= 1;
        if commit.requests > 0 {
            return;
        }
        if !commit.ends {
            commit.ends = true;
            commit.blocks.clear();
            self.lets_stamp(device);
            return self.journal_writes(device, RECORD);
        }
        journal.j_committing_transaction = None;
        let wanted = std::mem::take(&mut journal.wanted);
        let running = journal.j_running_transaction;
        let (synced, later) = std::mem::take(&mut journal.syncing)
            .into_iter()
            .partition(|(transaction, _)| *transaction < running);
        let synced: Vec<(u64, u32)> = synced;
        journal.syncing = later;
        self.journal_does(device, PsiFlags::Iowait, PsiFlags::Nothing);
        for (_, task) in synced {
            self.schedule_after(0, Event::Task(task));
        }
        if wanted {
            self.commit_begins(device);
        }
    }

    /// Who waited for blocks has them.
    fn lets_stamp(&mut self, device: usize) {
        let mut waiting = std::mem::take(&mut self.journals[device].stamping);
        // Block after block, and at each who came last is woken first: who waits for a bit is put
        // in line at its head.
        waiting.reverse();
        waiting.sort_by_key(|(_, file, _)| self.files[*file].block);
        for (task, file, grows) in waiting {
            self.joins(device, file, grows);
            self.schedule_after(0, Event::Task(task));
        }
    }

    /// A task that waits to store a time stamp ends.
    pub fn stamps_no_more(&mut self, task: usize, file: usize) {
        let device = self.device_of(file);
        let waiting = &mut self.journals[device].stamping;
        waiting.retain(|(waits, ..)| *waits as usize != task);
    }

    /// Who commits is a thread of the kernel's, and waits for I/O.
    fn journal_does(&mut self, device: usize, from: PsiFlags, to: PsiFlags) {
        let cpu = device % self.machine.cpus as usize;
        let now = self.now;
        self.psi.turn(cpu as u16, HOST, from, to, now);
    }
}
