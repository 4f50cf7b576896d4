// SPDX-License-Identifier: GPL-2.0-only
//! The way of a request: through the limits of its cgroups, nearest first, into the disk's line,
//! and out of it.
//!
//! A limit sees it whole, whatever its size; the line takes parts. Where there are limits, pages
//! come to the line without a task that could wait for a slot, so they wait by themselves.

use super::{Done, Request, Waiter, What};
use crate::clock::wake_at;
use crate::world::{Event, World};

impl World {
    /// How many pages of `left` a flusher or a task hands over at once: none if it has to wait for
    /// a slot.
    pub fn takes(&self, device: usize, cgroup: usize, lane: u32, left: u64) -> u64 {
        let disk = &self.devices[device];
        if self.limit_from(device, cgroup, false).is_some() {
            left
        } else if disk.has_room(lane) {
            left.min(disk.largest)
        } else {
            0
        }
    }

    /// A request is submitted.
    pub fn submits(&mut self, device: usize, request: Request) {
        self.comes_to(device, request, request.cgroup as usize);
    }

    /// The nearest cgroup from `cgroup` up that has a limit.
    fn limit_from(&self, device: usize, cgroup: usize, is_read: bool) -> Option<usize> {
        let disk = &self.devices[device];
        if !disk.has_limits() {
            return None;
        }
        let mut path = std::iter::successors(Some(cgroup), |at| self.cgroups[*at].parent);
        path.find(|at| disk.is_limited(*at, is_read))
    }

    fn comes_to(&mut self, device: usize, request: Request, cgroup: usize) {
        let is_read = request.is_read();
        let Some(at) = self.limit_from(device, cgroup, is_read) else {
            return self.goes_in_line(device, request);
        };
        let limit = self.devices[device].limit(at, is_read);
        if limit.is_some_and(|limit| limit.add(request)) {
            self.lets_through(device, at, is_read);
        }
    }

    /// A limit lets through who may go now, and looks again when the next may.
    pub(crate) fn lets_through(&mut self, device: usize, cgroup: usize, is_read: bool) {
        let now = self.tick();
        while let Some(next) = self.devices[device]
            .limit(cgroup, is_read)
            .and_then(|limit| limit.next(now))
        {
            match next {
                Ok(request) => match self.cgroups[cgroup].parent {
                    Some(parent) => self.comes_to(device, request, parent),
                    None => self.goes_in_line(device, request),
                },
                Err(ticks) => {
                    let event = Event::Limit(device as u32, cgroup as u32, is_read);
                    return self.plan(wake_at(self.now, ticks), event);
                }
            }
        }
    }

    /// As far as there are slots; the rest waits for them.
    pub(super) fn goes_in_line(&mut self, device: usize, mut request: Request) {
        loop {
            let disk = &mut self.devices[device];
            if request.has_slot() && !disk.has_room(request.lane) {
                return disk.wait(Waiter::Pages(request), request.lane);
            }
            match self.part_goes_in_line(device, request) {
                Some(rest) => request = rest,
                None => return,
            }
        }
    }

    /// One request of the disk's size; returns the rest.
    fn part_goes_in_line(&mut self, device: usize, request: Request) -> Option<Request> {
        let disk = &mut self.devices[device];
        let pages = request.pages.min(disk.largest as u32);
        let mut part = Request { pages, ..request };
        if let (What::Pages { last, .. }, true) = (&mut part.what, request.pages > pages) {
            *last = false;
        }
        if let Some(due) = disk.submit(part, self.now) {
            self.plan(due, Event::Complete(device as u32));
        }
        (request.pages > pages).then(|| Request {
            pages: request.pages - pages,
            ..request
        })
    }

    /// The first in a line is complete, if nothing has come before it.
    pub(crate) fn request_completes(&mut self, device: usize) {
        let Done {
            request,
            failed,
            next,
        } = match self.devices[device].complete(self.now) {
            Ok(done) => done,
            Err(due) => return self.plan(due, Event::Complete(device as u32)),
        };
        if let Some(due) = next {
            self.plan(due, Event::Complete(device as u32));
        }
        match request.what {
            What::Read(task) => return self.pages_are_read(task as usize, failed),
            What::Journal => return self.journal_is_written(device),
            What::Pages { file, .. } => self.files[file as usize].failed |= failed,
        }
        match self.devices[device].commits(request, self.now) {
            Err(request) => self.is_written(request),
            Ok(None) => {}
            Ok(Some(at)) => self.plan(at, Event::Commit(device as u32)),
        }
        self.wakes_waiters(device, request.lane);
    }

    pub(crate) fn server_commits(&mut self, device: usize) {
        for request in self.devices[device].committed() {
            self.is_written(request);
        }
    }

    /// A disk stands still from now on, for a while.
    pub(crate) fn disk_stands_still(&mut self, device: usize) {
        if let Some(again) = self.devices[device].stands_still(self.now) {
            self.plan(again, Event::Stall(device as u32));
        }
    }

    fn is_written(&mut self, request: Request) {
        let What::Pages {
            wb: owner,
            file,
            last,
        } = request.what
        else {
            return;
        };
        // The kernel splits a bio into chained ones, and its pages are written when all of these
        // are.
        let unended = &mut self.files[file as usize].unended;
        *unended += u64::from(request.pages);
        if !last {
            return;
        }
        let (wb, pages) = (owner as usize, std::mem::take(unended));
        self.count(wb, |counts| {
            counts.writeback -= pages;
            counts.written += pages;
        });
        self.completed(wb, pages);
        let wb = &mut self.wbs[wb];
        let written = &mut self.files[file as usize];
        written.in_flight -= pages;
        if written.in_flight > 0 {
            return;
        }
        wb.files_in_flight -= 1;
        let (waits, device) = (written.synced_by.take(), wb.device);
        if !wb.measuring {
            wb.measuring = true;
            let at = wake_at(self.now, crate::domain::INTERVAL);
            self.plan(at, Event::Bandwidth(owner));
        }
        if let Some(task) = waits {
            self.plan(self.now, Event::Task(task));
        }
        self.file_is_clean(device, file);
    }
}
