// SPDX-License-Identifier: GPL-2.0-only
//! The way of a request: through the limits of its cgroups, nearest first, into the disk's line,
//! and out of it.
//!
//! A limit sees it whole, whatever its size; the line takes parts. Where there are limits, pages
//! come to the line without a task that could wait for a slot, so they wait by themselves.

use super::{Blk, CompletedRequest, Request, Waiter, What};
use crate::sim::SimEvent;
use crate::sim::clock::timer_expiry;

impl Blk {
    /// Number of pages of `left` that a flusher or a task hands over at once: none if it has to
    /// wait for a slot.
    pub fn acceptable_pages(&self, device: usize, cgroup: usize, hctx: u32, left: u64) -> u64 {
        let disk = &self.devices[device];
        if self.nearest_limited_cgroup(device, cgroup, false).is_some() {
            left
        } else if disk.has_room(hctx) {
            left.min(disk.largest)
        } else {
            0
        }
    }

    /// A request is submitted.
    pub fn submit_request(&mut self, device: usize, request: Request) {
        self.throttle_or_queue(device, request, request.cgroup as usize);
    }

    /// The nearest cgroup from `cgroup` up that has a limit.
    fn nearest_limited_cgroup(&self, device: usize, cgroup: usize, is_read: bool) -> Option<usize> {
        let disk = &self.devices[device];
        if !disk.has_limits() {
            return None;
        }
        let mut path = std::iter::successors(Some(cgroup), |at| self.cgroups[*at].parent);
        path.find(|at| disk.is_limited(*at, is_read))
    }

    fn throttle_or_queue(&mut self, device: usize, request: Request, cgroup: usize) {
        let is_read = request.is_read();
        let Some(at) = self.nearest_limited_cgroup(device, cgroup, is_read) else {
            return self.queue_or_wait_for_slot(device, request);
        };
        let throttle = self.devices[device].throttle_of(at, is_read);
        if throttle.is_some_and(|throttle| throttle.add(request)) {
            self.dispatch_throttled(device, at, is_read);
        }
    }

    /// Lets the requests through that `io.max` allows now, and comes back when it allows the next.
    pub fn dispatch_throttled(&mut self, device: usize, cgroup: usize, is_read: bool) {
        let now = self.current_tick();
        while let Some(next) = self.devices[device]
            .throttle_of(cgroup, is_read)
            .and_then(|throttle| throttle.next(now))
        {
            match next {
                Ok(request) => match self.cgroups[cgroup].parent {
                    Some(parent) => self.throttle_or_queue(device, request, parent),
                    None => self.queue_or_wait_for_slot(device, request),
                },
                Err(ticks) => {
                    let event = SimEvent::Throttled(device as u32, cgroup as u32, is_read);
                    let at = timer_expiry(self.now, ticks);
                    return self.schedule_event(at, event);
                }
            }
        }
    }

    /// As far as there are slots; the rest waits for them.
    pub fn queue_or_wait_for_slot(&mut self, device: usize, mut request: Request) {
        loop {
            let disk = &mut self.devices[device];
            if !disk.may_queue(&request) {
                return disk.add_slot_waiter(Waiter::Request(request), request.hctx);
            }
            if let What::Flush(task) = request.what {
                return self.schedule_after(0, SimEvent::Task(task));
            }
            match self.queue_part(device, request) {
                Some(rest) => request = rest,
                None => return,
            }
        }
    }

    /// One request of the disk's size; returns the rest.
    fn queue_part(&mut self, device: usize, request: Request) -> Option<Request> {
        let now = self.now;
        let disk = &mut self.devices[device];
        let pages = request.pages.min(disk.largest as u32);
        let mut part = Request { pages, ..request };
        if let (What::Pages { last, .. }, true) = (&mut part.what, request.pages > pages) {
            *last = false;
        }
        if let Some(due) = disk.queue_request(part, now) {
            self.schedule_event(due, SimEvent::Complete(device as u32));
        }
        (request.pages > pages).then(|| Request {
            pages: request.pages - pages,
            sector: request.sector + u64::from(pages),
            ..request
        })
    }

    /// The first in a queue is complete, if nothing has come before it.
    pub fn complete_next(&mut self, device: usize) -> Option<CompletedRequest> {
        let now = self.now;
        let due = match self.devices[device].complete_first(now) {
            Ok(done) => {
                if let Some(next) = done.next {
                    self.schedule_event(next, SimEvent::Complete(device as u32));
                }
                return Some(done);
            }
            Err(due) => due,
        };
        self.schedule_event(due, SimEvent::Complete(device as u32));
        None
    }

    /// A server commits what is written some time after it has taken it; a disk gives it back.
    pub fn defer_to_server_commit(&mut self, device: usize, request: Request) -> Option<Request> {
        let now = self.now;
        match self.devices[device].hold_uncommitted(request, now) {
            Err(request) => return Some(request),
            Ok(None) => {}
            Ok(Some(at)) => self.schedule_event(at, SimEvent::Commit(device as u32)),
        }
        None
    }

    /// A disk stands still from now on, for a while.
    pub fn begin_recurring_stall(&mut self, device: usize) {
        let now = self.now;
        if let Some(again) = self.devices[device].delay_requests(now) {
            self.schedule_event(again, SimEvent::Stall(device as u32));
        }
    }
}
