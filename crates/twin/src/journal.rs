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

use crate::clock::{Ns, SECOND};
use crate::device::{BIO, Request, What};
use crate::psi::Doing;
use crate::world::{Event, World};
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
    running: u64,
    blocks: BTreeSet<u32>,
    grown: Vec<u32>,
    due: Ns,
    committing: Option<Commit>,
    /// The running transaction is to follow at once.
    wanted: bool,
    /// Who waits for which transaction.
    syncing: Vec<(u64, u32)>,
    /// Who waits to store a time stamp.
    stamping: Vec<u32>,
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
            running: 1,
            blocks: BTreeSet::new(),
            grown: Vec::new(),
            due: 0,
            committing: None,
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
        transaction + u64::from(self.committing.is_some()) < self.running
    }

    /// Whether a block is being written, and not a copy of it.
    fn holds(&self, block: u32) -> bool {
        let writing = self.committing.as_ref().filter(|commit| commit.files == 0);
        let is_written = writing.is_some_and(|commit| commit.blocks.contains(&block));
        is_written && !self.blocks.contains(&block)
    }
}

impl World {
    /// A write() of a task to a file begins; false if it has to wait.
    pub fn stamps(&mut self, task: usize, file: usize, grows: bool) -> bool {
        let device = self.wbs[self.files[file].wb as usize].device;
        let journal = &mut self.journals[device];
        if journal.interval.is_none() {
            return true;
        }
        if journal.holds(self.files[file].block) {
            journal.stamping.push(task as u32);
            return false;
        }
        self.joins(device, file, grows);
        true
    }

    fn joins(&mut self, device: usize, file: usize, grows: bool) {
        let journal = &mut self.journals[device];
        let number = file as u32;
        let file = &mut self.files[file];
        if file.transaction == journal.running {
            return;
        }
        file.transaction = journal.running;
        if journal.blocks.is_empty() {
            if let Some(interval) = journal.interval {
                // The kernel's timer is set to whole seconds.
                let due = self.now.saturating_add(interval);
                journal.due = due.checked_next_multiple_of(SECOND).unwrap_or(due);
                let (at, event) = (journal.due, Event::Journal(device as u32));
                self.plan(at, event);
            }
        }
        let journal = &mut self.journals[device];
        journal.blocks.insert(self.files[number as usize].block);
        if grows {
            journal.grown.push(number);
        }
    }

    /// A task has its file's inode committed; false if it is already.
    pub fn syncs_inode(&mut self, task: usize, file: usize) -> bool {
        let device = self.wbs[self.files[file].wb as usize].device;
        if self.journals[device].interval.is_none() {
            self.joins(device, file, false);
        }
        let (journal, transaction) = (&mut self.journals[device], self.files[file].transaction);
        if journal.is_committed(transaction) {
            return false;
        }
        journal.syncing.push((transaction, task as u32));
        if transaction == journal.running {
            self.commit_begins(device);
        }
        true
    }

    pub(crate) fn journal_is_due(&mut self, device: usize) {
        let journal = &self.journals[device];
        if journal.due == self.now && !journal.blocks.is_empty() {
            self.commit_begins(device);
        }
    }

    fn commit_begins(&mut self, device: usize) {
        let journal = &mut self.journals[device];
        if journal.committing.is_some() {
            journal.wanted = true;
            return;
        }
        journal.running += 1;
        let grown = std::mem::take(&mut journal.grown);
        journal.committing = Some(Commit {
            blocks: std::mem::take(&mut journal.blocks),
            files: 1,
            requests: 0,
            ends: false,
        });
        self.journal_does(device, Doing::Nothing, Doing::Waiting);
        for file in grown {
            self.carries(device, file);
        }
        self.data_are_written(device);
    }

    /// Puts all that is dirty of a file in line, for the commit.
    fn carries(&mut self, device: usize, number: u32) {
        let file = number as usize;
        let wb = self.files[file].wb;
        let lane = self.devices[device].lane(wb as usize, 0);
        while let Some((start, pages)) = self.files[file].pages.next_run(0, BIO) {
            self.files[file].pages.clear(start, pages);
            self.in_flight(file, pages);
            let request = Request {
                what: What::Pages {
                    wb,
                    file: number,
                    last: true,
                },
                pages: pages as u32,
                lane,
                cgroup: 0,
            };
            self.submits(device, request);
        }
        if self.files[file].in_flight > 0 {
            self.files[file].carried = true;
            if let Some(commit) = &mut self.journals[device].committing {
                commit.files += 1;
            }
        }
    }

    /// None of a file's pages is in flight any more.
    pub(crate) fn file_is_clean(&mut self, device: usize, file: u32) {
        if std::mem::take(&mut self.files[file as usize].carried) {
            self.data_are_written(device);
        }
    }

    /// Of one file more; after the last the commit writes its own.
    fn data_are_written(&mut self, device: usize) {
        let Some(commit) = &mut self.journals[device].committing else {
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
        if let Some(commit) = &mut self.journals[device].committing {
            commit.requests = pages.div_ceil(largest);
        }
        let request = Request {
            what: What::Journal,
            pages,
            lane: 0,
            cgroup: 0,
        };
        self.submits(device, request);
    }

    /// One request of a commit is complete.
    pub(crate) fn journal_is_written(&mut self, device: usize) {
        let journal = &mut self.journals[device];
        let Some(commit) = &mut journal.committing else {
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
        journal.committing = None;
        let wanted = std::mem::take(&mut journal.wanted);
        let running = journal.running;
        let (synced, later) = std::mem::take(&mut journal.syncing)
            .into_iter()
            .partition(|(transaction, _)| *transaction < running);
        let synced: Vec<(u64, u32)> = synced;
        journal.syncing = later;
        self.journal_does(device, Doing::Waiting, Doing::Nothing);
        for (_, task) in synced {
            self.plan(self.now, Event::Task(task));
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
        waiting.sort_by_key(|task| self.files[self.stamp_of(*task as usize).0].block);
        for task in waiting {
            if !self.is_stamping(task as usize) {
                continue;
            }
            let (file, grows) = self.stamp_of(task as usize);
            self.joins(device, file, grows);
            self.plan(self.now, Event::Task(task));
        }
    }

    /// Who commits is a thread of the kernel's, and waits for I/O.
    fn journal_does(&mut self, device: usize, from: Doing, to: Doing) {
        let cpu = device % self.machine.cpus as usize;
        self.psi
            .turn(cpu as u16, crate::psi::HOST, from, to, self.now);
    }
}
