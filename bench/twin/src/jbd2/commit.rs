// SPDX-License-Identifier: GPL-2.0-only
//! The commit of a transaction.
//!
//! Five seconds after the first has joined it (`commit=`), at the next whole second, or as a task
//! syncs a file that did, a descriptor and the transaction's blocks are written, in their turn in
//! the disk's line, and then, in its turn, a record. There is one commit at a time; a task that
//! syncs waits for the commit with its inode, and what joins meanwhile is in the next. Where slots
//! are few each of the two writes waits for one with the flushers.
//!
//! After the record the blocks are dirty pages of the disk itself, of no cgroup, and are written in
//! their place when they have been dirty for 30 s, as any page is.

use super::Jbd2;
use crate::blk::{BIO, Request, What, sector_of};
use crate::sched::psi::{HOST, PsiFlags};
use crate::sim::SimEvent;
use crate::sim::clock::Ns;
use std::collections::BTreeSet;

/// Pages that a commit writes before and after its blocks.
const DESCRIPTOR: u32 = 1;
const RECORD: u32 = 1;
/// CPU time of a commit before it writes its blocks, and before and after its record: as traces of
/// a guest that counts instructions have it. Together with the pages that is what fdatasync of an
/// append takes there alone, 1.94 ms (`scenarios/fsync/fitted-ext4.toml`).
const BLOCKS: Ns = 110_000;
const BEFORE_RECORD: Ns = 40_000;
const END: Ns = 80_000;

#[derive(Clone, Debug)]
pub(super) struct Commit {
    /// Not written yet.
    pub blocks: BTreeSet<u32>,
    /// Files whose data are not written yet.
    pub files: u32,
    /// Requests of its own that are not.
    requests: u32,
    /// The stage that comes next.
    stage: Stage,
}

/// Stages of a commit, one for each time that its thread goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Blocks,
    /// It is woken as the blocks are written, after tasks that waited for these.
    Woken,
    Record,
    End,
}

impl Jbd2 {
    /// It may be time for a transaction to commit by itself.
    pub fn commit_if_due(&mut self, device: usize) {
        let journal = &self.journals[device];
        if journal.due == self.now && !journal.blocks.is_empty() {
            self.begin_commit(device);
        }
    }

    pub(super) fn begin_commit(&mut self, device: usize) {
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
            stage: Stage::Blocks,
        });
        for file in grown {
            self.submit_ordered_data(device, file);
        }
        self.schedule_after(BLOCKS, SimEvent::Kjournald(device as u32));
    }

    /// The thread that commits goes on.
    pub fn run_kjournald(&mut self, device: usize) {
        let commit = self.journals[device].j_committing_transaction.as_ref();
        match commit.map(|commit| commit.stage) {
            None => {}
            Some(Stage::Blocks) => {
                self.change_journal_activity(device, PsiFlags::Nothing, PsiFlags::Iowait);
                self.count_ordered_file_written(device);
            }
            Some(Stage::Woken) => {
                self.set_commit_stage(device, Stage::Record);
                let cpu = self.journal_cpu(device);
                let over = self.occupy_cpu(cpu, BEFORE_RECORD);
                self.schedule_event(over, SimEvent::Kjournald(device as u32));
            }
            Some(Stage::Record) => {
                self.change_journal_activity(device, PsiFlags::Nothing, PsiFlags::Iowait);
                self.submit_journal_request(device, RECORD);
            }
            Some(Stage::End) => self.end_commit(device),
        }
    }

    /// Puts all that is dirty of a file in line, for the commit.
    fn submit_ordered_data(&mut self, device: usize, number: u32) {
        let file = number as usize;
        let wb = self.files[file].wb;
        let hctx = self.devices[device].hctx_of(wb as usize, 0);
        while let Some((start, pages)) = self.files[file].pages.next_run(0, BIO) {
            self.files[file].pages.clear(start, pages);
            self.start_page_writeback(file, start, pages);
            let request = Request {
                what: What::Pages {
                    file: number,
                    last: true,
                    unwritten: false,
                },
                pages: pages as u32,
                sector: sector_of(file, start),
                hctx,
                cgroup: 0,
            };
            self.submit_request(device, request);
        }
        if self.files[file].in_flight > 0 {
            self.files[file].carried = true;
            if let Some(commit) = &mut self.journals[device].j_committing_transaction {
                commit.files += 1;
            }
        }
    }

    /// None of a file's pages is in flight any more.
    pub fn end_ordered_writeback(&mut self, device: usize, file: u32) {
        if std::mem::take(&mut self.files[file as usize].carried) {
            self.count_ordered_file_written(device);
        }
    }

    /// Of one file more; after the last the commit writes its own.
    fn count_ordered_file_written(&mut self, device: usize) {
        let Some(commit) = &mut self.journals[device].j_committing_transaction else {
            return;
        };
        commit.files -= 1;
        if commit.files > 0 {
            return;
        }
        let pages = DESCRIPTOR + commit.blocks.len() as u32;
        self.submit_journal_request(device, pages);
    }

    fn submit_journal_request(&mut self, device: usize, pages: u32) {
        let largest = self.devices[device].largest as u32;
        if let Some(commit) = &mut self.journals[device].j_committing_transaction {
            commit.requests = pages.div_ceil(largest);
        }
        let request = Request {
            what: What::Journal,
            pages,
            sector: 0,
            hctx: 0,
            cgroup: 0,
        };
        self.submit_request(device, request);
    }

    /// One request of a commit is complete.
    pub fn end_journal_request(&mut self, device: usize) {
        let journal = &mut self.journals[device];
        let Some(commit) = &mut journal.j_committing_transaction else {
            return;
        };
        commit.requests -= 1;
        if commit.requests > 0 {
            return;
        }
        if commit.stage == Stage::Blocks {
            journal.checkpoint.append(&mut commit.blocks);
            self.wake_waiting_changes(device);
            self.set_commit_stage(device, Stage::Woken);
            self.schedule_after(0, SimEvent::Kjournald(device as u32));
        } else {
            self.set_commit_stage(device, Stage::End);
            self.schedule_after(END, SimEvent::Kjournald(device as u32));
        }
        self.change_journal_activity(device, PsiFlags::Iowait, PsiFlags::Nothing);
    }

    fn set_commit_stage(&mut self, device: usize, stage: Stage) {
        if let Some(commit) = &mut self.journals[device].j_committing_transaction {
            commit.stage = stage;
        }
    }

    fn end_commit(&mut self, device: usize) {
        let journal = &mut self.journals[device];
        journal.j_committing_transaction = None;
        let wanted = std::mem::take(&mut journal.wanted);
        let running = journal.j_running_transaction;
        let (synced, later) = std::mem::take(&mut journal.syncing)
            .into_iter()
            .partition(|(transaction, _)| *transaction < running);
        let synced: Vec<(u64, u32)> = synced;
        journal.syncing = later;
        self.schedule_after(0, SimEvent::Checkpoint(device as u32));
        for (_, task) in synced {
            self.schedule_after(0, SimEvent::Task(task));
        }
        if wanted {
            self.begin_commit(device);
        }
    }

    /// The committing thread is the kernel's, and waits for I/O.
    fn change_journal_activity(&mut self, device: usize, from: PsiFlags, to: PsiFlags) {
        let (cpu, now) = (self.journal_cpu(device), self.now);
        self.psi.change_state(cpu, HOST, from, to, now);
    }

    fn journal_cpu(&self, device: usize) -> u16 {
        (device % self.machine.cpus as usize) as u16
    }
}
