// SPDX-License-Identifier: GPL-2.0-only
//! The way up: a disk has completed a request. Its reader, journal or writeback learns of it, and
//! then flushers and tasks that waited for the room it leaves.

use super::Tasks;
use crate::blk::{CompletedRequest, Request, Waiter, What};
use crate::sim::SimEvent;

/// Of so many times that a reader is woken together with a flusher, or a task that writes, it runs
/// first in one, and finds all slots taken again in the others. Who runs first is the scheduler's;
/// this was chosen so that reads beside a flood without a window wait as in guests
/// (docs/experiments/0048-windows-on-the-twin.md).
const READER_WINS: u64 = 4;

impl Tasks {
    /// The first request of a disk is complete, unless another has come before it.
    pub fn end_request(&mut self, device: usize) {
        let Some(CompletedRequest {
            request, failed, ..
        }) = self.complete_next(device)
        else {
            return;
        };
        match request.what {
            What::Read(task) => {
                self.end_read(task as usize, failed);
                return self.offer_slot(device, &request);
            }
            What::Journal => {
                self.end_journal_request(device);
                return self.offer_slot(device, &request);
            }
            What::Log(sequence) => {
                self.end_log_write(device, sequence);
                return self.offer_slot(device, &request);
            }
            // It does not come to the line.
            What::Flush(_) => return,
            What::SwapIn(task) => return self.end_swap_in(task as usize),
            What::SwapOut(number) => {
                self.end_swap_write(number);
                self.count_pages_written(request.pages.into());
                return self.wake_waiters(device, request.hctx);
            }
            What::Pages { file, .. } => self.files[file as usize].failed |= failed,
        }
        if let Some(request) = self.defer_to_server_commit(device, request) {
            self.end_bio(request);
        }
        self.wake_waiters(device, request.hctx);
    }

    /// A server commits what it has taken.
    pub fn end_server_commit(&mut self, device: usize) {
        for request in self.devices[device].take_committed() {
            self.end_bio(request);
        }
    }

    /// A request of the filesystem's or a reader's is complete, which may have had a slot that others
    /// wait for.
    fn offer_slot(&mut self, device: usize, request: &Request) {
        if self.devices[device].takes_tag(request) {
            self.wake_waiters(device, request.hctx);
        }
    }

    /// A slot of `hctx` has become free.
    fn wake_waiters(&mut self, device: usize, hctx: u32) {
        let (mut woken, has_slot) = self.devices[device].take_waiters_to_wake(hctx);
        woken.sort_by_key(|waiter| match waiter {
            Waiter::Flusher(wb) => self.flushers[*wb as usize].used,
            _ => 0,
        });
        let mut flushers = 0;
        let races = self.devices[device].has_tags_in_use(hctx)
            && woken
                .iter()
                .any(|waiter| !matches!(waiter, Waiter::Request(_)));
        for waiter in woken {
            match waiter {
                Waiter::Flusher(wb) => {
                    self.resume_flusher(wb as usize, flushers, has_slot);
                    flushers += 1;
                }
                Waiter::Task(task) => self.resume_task_with_slot(task as usize),
                Waiter::Kswapd => self.schedule_after(0, SimEvent::Kswapd),
                Waiter::Request(request)
                    if races && request.is_read() && self.random.next() % READER_WINS != 0 =>
                {
                    self.devices[device].add_slot_waiter(waiter, hctx);
                }
                Waiter::Request(request) => self.queue_or_wait_for_slot(device, request),
            }
        }
    }
}
