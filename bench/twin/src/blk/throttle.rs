// SPDX-License-Identifier: GPL-2.0-only
//! `io.max`: what a cgroup may do to a disk, in one direction.
//!
//! Time is cut into slices of 100 ms. In the slices since it began to count, the one under way
//! included, a cgroup may do what its limits give it in them; what is beyond waits, first come
//! first served, for the slice that covers it. A limit on bytes sees requests whole, up to 8 MiB:
//! one that is larger than a slice's part waits until as much time has passed. Who has been idle
//! for a slice begins anew.
//!
//! No task sleeps for that: a flusher goes on, so that all its cgroup has dirty may end up here, in
//! writeback, where writers are throttled for it and fsync waits for it.
//!
//! Example. 1 MiB/s is 102.4 KiB a slice. Of three requests of 64 KiB one goes at once, the second
//! when two slices give 204.8 KiB, after 124 ms, and with it the third: in the slice from 100 ms on
//! 25.6 of 102.4 KiB were used.

use super::Request;
use crate::mm::domain::PAGE;
use crate::sim::clock::{HZ, Ticks};
use std::collections::VecDeque;

const SLICE: Ticks = HZ / 10;

/// A cgroup's limits on a disk, in one direction (`struct throtl_grp`), and the requests that wait.
#[derive(Clone, Debug)]
pub struct ThrotlGrp {
    /// Bytes and requests per second.
    rates: [u64; 2],
    /// Bytes and requests since `begins`.
    done: [u64; 2],
    begins: Ticks,
    ends: Ticks,
    waiting: VecDeque<Request>,
}

impl ThrotlGrp {
    /// Limits of so many bytes and requests a second.
    pub fn new(bytes: Option<u64>, requests: Option<u64>) -> ThrotlGrp {
        ThrotlGrp {
            rates: [bytes, requests].map(|rate| rate.unwrap_or(u64::MAX)),
            done: [0; 2],
            begins: 0,
            ends: 0,
            waiting: VecDeque::new(),
        }
    }

    /// Adds a request to those that wait; true if it is the only one.
    pub fn add(&mut self, request: Request) -> bool {
        self.waiting.push_back(request);
        self.waiting.len() == 1
    }

    /// The first request, if it may go now; or in how many ticks to ask again. None if none waits.
    pub fn next(&mut self, now: Ticks) -> Option<Result<Request, Ticks>> {
        let first = *self.waiting.front()?;
        let amounts = [u64::from(first.pages) * PAGE, 1];
        match self.ticks_to_wait(amounts, now) {
            0 => {
                self.charge_amounts(amounts, now);
                self.waiting.pop_front().map(Ok)
            }
            ticks => Some(Err(ticks)),
        }
    }

    /// All requests that wait.
    #[cfg(any(test, debug_assertions))]
    pub fn all_waiting(&self) -> impl Iterator<Item = &Request> {
        self.waiting.iter()
    }

    fn ticks_to_wait(&mut self, amounts: [u64; 2], now: Ticks) -> Ticks {
        if now > self.ends {
            (self.begins, self.done) = (now, [0; 2]);
        }
        let elapsed = now - self.begins;
        let rounded = elapsed.max(1).next_multiple_of(SLICE);
        let mut wait = 0;
        for ((rate, done), amount) in self.rates.iter().zip(self.done).zip(amounts) {
            let beyond = (done + amount).saturating_sub(given_amount(*rate, rounded));
            if beyond > 0 {
                let ticks = u128::from(beyond) * u128::from(HZ) / u128::from(*rate);
                wait = wait.max((ticks as Ticks).max(1) + rounded - elapsed);
            }
        }
        self.ends = self
            .ends
            .max((now + wait.max(SLICE)).next_multiple_of(SLICE));
        wait
    }

    /// Slices that are over need not be looked at again.
    fn charge_amounts(&mut self, amounts: [u64; 2], now: Ticks) {
        let over = (now - self.begins) / SLICE * SLICE;
        for ((rate, done), amount) in self.rates.iter().zip(&mut self.done).zip(amounts) {
            *done = (*done + amount).saturating_sub(given_amount(*rate, over));
        }
        self.begins += over;
        self.ends = (now + SLICE).next_multiple_of(SLICE);
    }
}

/// Amount that a rate gives in so many ticks.
fn given_amount(rate: u64, ticks: Ticks) -> u64 {
    u64::try_from(u128::from(rate) * u128::from(ticks) / u128::from(HZ)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blk::What;

    fn pages(pages: u32) -> Request {
        Request {
            what: What::Read(0),
            pages,
            sector: 0,
            hctx: 0,
            cgroup: 0,
        }
    }

    /// When each goes of those that come at the tick 1,000.
    fn times(mut limit: ThrotlGrp, sizes: &[u32]) -> Vec<Ticks> {
        for size in sizes {
            limit.add(pages(*size));
        }
        let (mut now, mut times) = (1_000, Vec::new());
        while let Some(next) = limit.next(now) {
            match next {
                Ok(_) => times.push(now - 1_000),
                Err(ticks) => now += ticks,
            }
        }
        times
    }

    #[test]
    fn worked_example() {
        assert_eq!(
            times(ThrotlGrp::new(Some(1 << 20), None), &[16; 3]),
            [0, 31, 31]
        );
    }

    /// 8 MiB at 1 MiB a second.
    #[test]
    fn what_is_larger_than_a_slice_waits_for_as_much_time() {
        let times = times(ThrotlGrp::new(Some(1 << 20), None), &[2048; 3]);
        for (time, seconds) in times.iter().zip([8, 16, 24]) {
            assert!(
                (seconds * HZ - SLICE..=seconds * HZ + SLICE).contains(time),
                "{times:?}"
            );
        }
    }

    #[test]
    fn requests_are_limited_whatever_their_size() {
        let times = times(ThrotlGrp::new(None, Some(50)), &[1; 501]);
        assert_eq!(times[..6], [0, 0, 0, 0, 0, 30], "five in a slice");
        assert!(
            (10 * HZ - SLICE..=10 * HZ + SLICE).contains(&times[500]),
            "{}",
            times[500]
        );
    }
}
