// SPDX-License-Identifier: GPL-2.0-only
//! A disk's line: what will be complete when. Writes stand at its end. A read overtakes the writes
//! that wait, but for every third place. Where there are weights, reads and writes alike stand
//! where their tag says. A disk's latency and seeks (medium.rs) add to that: with latency, requests
//! that have left the line are not complete yet, and complete in the order in which they left.
//!
//! Example. A page takes 10 ms, three writes are in line as three reads come. The first write is
//! under way. Complete are it, read, read, write, read, write, in 60 ms.

use super::{Medium, Request};
use crate::sim::clock::Ns;
use std::collections::VecDeque;

/// That many reads overtake a write.
const READS: u32 = 2;

#[derive(Clone, Copy, Debug)]
struct QueuedRequest {
    /// Time at which it has left the line.
    due: Ns,
    tag: u64,
    request: Request,
}

/// Requests in the order in which they will be complete, with when.
#[derive(Clone, Debug, Default)]
pub struct RequestQueue {
    places: VecDeque<QueuedRequest>,
    /// Nothing is done before.
    opens: Ns,
    medium: Medium,
    /// End on the disk of the request that was taken out last.
    head: u64,
    /// Time at which that was complete.
    last: Ns,
}

impl RequestQueue {
    /// Of a disk with latency and seeks.
    pub fn new(medium: Medium) -> RequestQueue {
        RequestQueue {
            medium,
            ..RequestQueue::default()
        }
    }

    /// Puts in a request that takes `time`. Those it overtakes are later by as much. Returns when
    /// it will be complete if it is the first.
    pub fn insert(&mut self, request: Request, time: Ns, tag: Option<u64>, now: Ns) -> Option<Ns> {
        let under_way = self.count_started_requests(now);
        let at = match tag {
            Some(tag) => self.insertion_point_of_tag(tag, under_way),
            None if request.is_read() => self.insertion_point_of_read(under_way),
            None => self.places.len(),
        };
        let before = at.checked_sub(1).map(|at| &self.places[at]);
        let head = before.map_or(self.head, |place| place.request.end_sector());
        let before = before.map_or(self.opens, |place| place.due);
        let seek = |head, request: &Request| {
            let is_read = request.is_read();
            self.medium.seek_time(is_read, head, request.sector)
        };
        let time = time.max(self.medium.service_interval(request.is_read())) + seek(head, &request);
        let due = before.max(now) + time;
        // What is next has its head elsewhere.
        let next = self.places.get(at).map(|next| &next.request);
        let (sought, seeks) = next.map_or((0, 0), |next| {
            (seek(head, next), seek(request.end_sector(), next))
        });
        for later in self.places.range_mut(at..) {
            later.due = (later.due + time + seeks).saturating_sub(sought);
        }
        let tag = tag.unwrap_or(0);
        self.places.insert(at, QueuedRequest { due, tag, request });
        (at == 0).then(|| self.first_due())
    }

    /// Places that nothing overtakes: the first, and on a disk with latency all that have left the
    /// line.
    fn count_started_requests(&self, now: Ns) -> usize {
        let has_latency =
            self.medium.completion_delay(true) > 0 || self.medium.completion_delay(false) > 0;
        let left = match has_latency {
            true => self.places.partition_point(|place| place.due <= now),
            false => 0,
        };
        (left + 1).min(self.places.len())
    }

    /// Everything takes longer by `time`, from now on.
    pub fn delay_requests(&mut self, time: Ns, now: Ns) {
        self.opens = now + time;
        for place in &mut self.places {
            place.due += time;
        }
    }

    /// Time at which the first will be complete; never if there is none.
    pub fn first_due(&self) -> Ns {
        let delay = |first: &QueuedRequest| self.medium.completion_delay(first.request.is_read());
        let first = self.places.front();
        first.map_or(Ns::MAX, |first| (first.due + delay(first)).max(self.last))
    }

    /// Takes out the first, complete or not, with its tag.
    pub fn pop(&mut self) -> Option<(Request, u64)> {
        let due = self.first_due();
        let first = self.places.pop_front();
        if let Some(first) = &first {
            (self.head, self.last) = (first.request.end_sector(), due);
        }
        first.map(|place| (place.request, place.tag))
    }

    /// All that is in it.
    #[cfg(any(test, debug_assertions))]
    pub fn all_requests(&self) -> impl Iterator<Item = &Request> {
        self.places.iter().map(|place| &place.request)
    }

    /// Place of the next read, which overtakes: before none that is under way.
    fn insertion_point_of_read(&self, under_way: usize) -> usize {
        let (mut place, mut reads) = (under_way, 0);
        while let Some(other) = self.places.get(place) {
            match other.request.is_read() {
                true => reads += 1,
                false if reads == READS => reads = 0,
                false => break,
            }
            place += 1;
        }
        place
    }

    /// Behind the last whose tag is no larger.
    fn insertion_point_of_tag(&self, tag: u64, under_way: usize) -> usize {
        let waiting = self.places.iter().skip(under_way).rev();
        let overtaken = waiting.take_while(|place| place.tag > tag).count();
        self.places.len() - overtaken
    }
}
