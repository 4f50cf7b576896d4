// SPDX-License-Identifier: GPL-2.0-only
//! A disk's line: what will be complete when. Writes stand at its end. A read overtakes the writes
//! that wait, but for every third place. Where there are weights, reads and writes alike stand
//! where their tag says.
//!
//! Example. A page takes 10 ms, three writes are in line as three reads come. The first write is
//! under way. Complete are it, read, read, write, read, write, in 60 ms.

use super::Request;
use crate::sim::clock::Ns;
use std::collections::VecDeque;

/// That many reads overtake a write.
const READS: u32 = 2;

#[derive(Clone, Copy, Debug)]
struct Place {
    due: Ns,
    tag: u64,
    request: Request,
}

/// Requests in the order in which they will be complete, with when.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    places: VecDeque<Place>,
    /// Nothing is done before.
    opens: Ns,
}

impl Queue {
    /// Puts in a request that takes `time`. Those it overtakes are later by as much. Returns when
    /// it will be complete if it is the first.
    pub fn insert(&mut self, request: Request, time: Ns, tag: Option<u64>, now: Ns) -> Option<Ns> {
        let at = match tag {
            Some(tag) => self.place_of_tag(tag),
            None if request.is_read() => self.place_of_read(),
            None => self.places.len(),
        };
        let before = at.checked_sub(1).map(|at| self.places[at].due);
        let due = before.unwrap_or(self.opens).max(now) + time;
        for later in self.places.range_mut(at..) {
            later.due += time;
        }
        let tag = tag.unwrap_or(0);
        self.places.insert(at, Place { due, tag, request });
        (at == 0).then_some(due)
    }

    /// Everything takes longer by `time`, from now on.
    pub fn stands_still(&mut self, time: Ns, now: Ns) {
        self.opens = now + time;
        for place in &mut self.places {
            place.due += time;
        }
    }

    /// When the first will be complete; never if there is none.
    pub fn due(&self) -> Ns {
        self.places.front().map_or(Ns::MAX, |first| first.due)
    }

    /// Takes out the first, complete or not, with its tag.
    pub fn pop(&mut self) -> Option<(Request, u64)> {
        let first = self.places.pop_front();
        first.map(|place| (place.request, place.tag))
    }

    /// All that is in it.
    #[cfg(any(test, debug_assertions))]
    pub fn all(&self) -> impl Iterator<Item = &Request> {
        self.places.iter().map(|place| &place.request)
    }

    /// Where a read is next that overtakes: never the first, which is under way.
    fn place_of_read(&self) -> usize {
        let (mut place, mut reads) = (self.places.len().min(1), 0);
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
    fn place_of_tag(&self, tag: u64) -> usize {
        let waiting = self.places.iter().skip(1).rev();
        let overtaken = waiting.take_while(|place| place.tag > tag).count();
        self.places.len() - overtaken
    }
}
