// SPDX-License-Identifier: GPL-2.0-only
//! A disk's line: what will be complete when. Writes stand at its end. A read overtakes the writes that wait, but for every third place.
//!
//! Example. A page takes 10 ms, three writes are in line as three reads come. The first write is under way. Complete are it, read, read,
//! write, read, write, in 60 ms.

use super::Request;
use crate::clock::Ns;
use std::collections::VecDeque;

/// That many reads overtake a write.
const READS: u32 = 2;

/// Requests in the order in which they will be complete, with when.
#[derive(Clone, Debug, Default)]
pub struct Line {
    requests: VecDeque<(Ns, Request)>,
}

impl Line {
    /// Puts in a request that takes `time`, and says when it will be complete, if no read overtakes it. Those it overtakes are later by as much.
    pub fn insert(&mut self, request: Request, time: Ns, now: Ns) -> Ns {
        let place = if request.is_read() {
            self.place_of_read()
        } else {
            self.requests.len()
        };
        let before = place.checked_sub(1).map(|at| self.requests[at].0);
        let due = before.unwrap_or(0).max(now) + time;
        for (later, _) in self.requests.range_mut(place..) {
            *later += time;
        }
        self.requests.insert(place, (due, request));
        due
    }

    /// When the first will be complete; never if there is none.
    pub fn due(&self) -> Ns {
        self.requests.front().map_or(Ns::MAX, |(due, _)| *due)
    }

    /// Takes out the first, complete or not.
    pub fn pop(&mut self) -> Option<Request> {
        self.requests.pop_front().map(|(_, request)| request)
    }

    /// All that is in it.
    #[cfg(any(test, debug_assertions))]
    pub fn all(&self) -> impl Iterator<Item = &Request> {
        self.requests.iter().map(|(_, request)| request)
    }

    /// Where a read is next that overtakes: never the first, which is under way.
    fn place_of_read(&self) -> usize {
        let (mut place, mut reads) = (self.requests.len().min(1), 0);
        while let Some((_, request)) = self.requests.get(place) {
            match request.is_read() {
                true => reads += 1,
                false if reads == READS => reads = 0,
                false => break,
            }
            place += 1;
        }
        place
    }
}
