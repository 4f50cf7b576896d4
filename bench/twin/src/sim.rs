// SPDX-License-Identifier: GPL-2.0-only
//! The simulation itself: what time it is, and what happens next.
//!
//! Events are ordered by time, and those of one time by when they were scheduled, but for timers of
//! the kernel's, which count whole ticks: they come first then, and in the opposite order. The
//! order is total, so a run is the same every time and everywhere. All state is integers.

pub mod clock;
pub mod random;

use clock::{Ns, Ticks, to_ticks};
use random::Random;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Events that can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimEvent {
    /// A task goes on.
    Task(u32),
    /// A flusher goes on, if nothing else has woken it since it was scheduled with this number.
    Flusher(u32, u32),
    /// The first request of a disk is complete.
    Complete(u32),
    /// A server commits what it has taken.
    Commit(u32),
    /// `io.max` of a cgroup on a disk, of reads or of writes, may let more through.
    Throttled(u32, u32, bool),
    /// A disk stands still.
    Stall(u32),
    /// A filesystem's journal is due.
    Journal(u32),
    /// A commit of it goes on.
    Kjournald(u32),
    /// Blocks that a commit has written to a disk's journal are to be written in their place.
    Checkpoint(u32),
    /// Unwritten pages of a file's writeback have been converted.
    Ioend(u32),
    /// A writeback's bandwidth is measured anew.
    Bandwidth(u32),
    /// The kernel brings the cgroups' counts up to date.
    Refresh,
    /// Pressure is averaged.
    Pressure,
    /// kswapd goes on.
    Kswapd,
    /// weir's module evaluates its knobs.
    Beat,
    /// weir counts the holders of floors.
    Recount,
    /// The sampler looks at the host, as the lab does.
    Sample,
    /// The sampler has finished.
    Sampled,
    /// Memory is touched, read and moved.
    Memory,
    /// weir's agent looks at the tiers.
    Agent,
    /// A sleep in reclaim ends, of a task or kswapd, if it is still the one of this number.
    Reclaim(u32, u32),
}

/// Of events at the same time, timers of whole ticks come before this, others after.
const TIMERS: u64 = 1 << 63;

/// An event to come.
#[derive(Clone, Copy, Debug)]
struct Scheduled {
    at: Ns,
    /// Among those of one time; no two have the same.
    place: u64,
    event: SimEvent,
}

impl Scheduled {
    /// Both in one number, which is compared without a branch.
    fn sort_key(&self) -> u128 {
        (u128::from(self.at) << 64) | u128::from(self.place)
    }
}

/// The next one is the greatest, as the heap has that on top.
impl Ord for Scheduled {
    fn cmp(&self, other: &Scheduled) -> Ordering {
        other.sort_key().cmp(&self.sort_key())
    }
}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Scheduled) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Scheduled) -> bool {
        self.sort_key() == other.sort_key()
    }
}

impl Eq for Scheduled {}

/// Clock, event queue and random numbers of a run.
#[derive(Clone, Debug)]
pub struct Sim {
    /// Time that it is now.
    pub now: Ns,
    scheduled: u64,
    events: BinaryHeap<Scheduled>,
    /// Number of events so far.
    pub handled: u64,
    /// Random numbers of the run.
    pub random: Random,
}

impl Sim {
    /// Nothing is scheduled at the time `now`.
    pub fn new(seed: u64, now: Ns) -> Sim {
        Sim {
            now,
            scheduled: 0,
            events: BinaryHeap::new(),
            handled: 0,
            random: Random::new(seed),
        }
    }

    /// The tick it is.
    pub fn current_tick(&self) -> Ticks {
        to_ticks(self.now)
    }

    /// Has an event happen at a time.
    pub fn schedule_event(&mut self, at: Ns, event: SimEvent) {
        debug_assert!(at >= self.now, "scheduled in the past");
        self.scheduled += 1;
        let place = TIMERS + self.scheduled;
        self.events.push(Scheduled { at, place, event });
    }

    /// Has an event happen after a time.
    pub fn schedule_after(&mut self, time: Ns, event: SimEvent) {
        self.schedule_event(self.now + time, event);
    }

    /// Has a sleep of whole ticks end at a time. Of those that end in one tick the last to begin
    /// ends first: the kernel's timers of a tick are a list that is added to, and taken from, at
    /// its head (`enqueue_timer`). All come before what happens at that time besides: a program's
    /// own sleep, say, has 50 us of slack.
    pub fn schedule_timer(&mut self, at: Ns, event: SimEvent) {
        debug_assert!(at > self.now, "scheduled in the past");
        self.scheduled += 1;
        let place = TIMERS - self.scheduled;
        self.events.push(Scheduled { at, place, event });
    }

    /// The next event, at whose time it is now, unless it is later than `end`: then it is `end`.
    pub fn next(&mut self, end: Ns) -> Option<SimEvent> {
        if self.events.peek().is_none_or(|next| next.at > end) {
            self.now = end;
            return None;
        }
        let next = self.events.pop()?;
        self.now = next.at;
        self.handled += 1;
        Some(next.event)
    }
}
