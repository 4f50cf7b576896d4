// SPDX-License-Identifier: GPL-2.0-only
//! The window: what `kmod/window.c` does around `policy/window.c`.
//!
//! A call is the turn of a file. Before each part of it all windows on the path of the flusher's
//! cgroup are looked at, each against what the listed flushers of its subtree have in flight on the
//! disk. A flusher is listed from its first call until nothing of it is in flight after one.
//! Others' figures are looked at once a tick, its own each time.
//!
//! Example. A window of 64 pages over two flushers. The one has 30 pages in flight, the other 20.
//! Two pages too many are in flight for a part of 16, so both sleep until those are written.

use super::Hooks;
use crate::sim::clock::{MS, Ns, Ticks};
use policy::window::{self, CALL_MOST_MS, Rate};

/// Flushers that sleep in it at a time, at most.
const HELD_MOST: u32 = 64;

/// A flusher that windows are about.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flusher {
    is_listed: bool,
    /// In a call.
    is_inside: bool,
    in_flight: u64,
    /// Pages since it was made.
    written: u64,
    looked: Ticks,
    rate: Rate,
}

/// A file's turn under a window.
#[derive(Clone, Copy, Debug, Default)]
pub struct Call {
    /// Of the path, the window with the least room, in pages; 0 if there is none any more.
    window: u64,
    /// Pages in flight that are too many for a part.
    excess: u64,
    /// By the flushers of that window.
    written: u64,
    held: Ns,
    /// When its sleep began, and what was written by then.
    slept: Option<(Ns, u64)>,
    /// Pages of the part that are still to be submitted.
    part: u64,
    is_fresh: bool,
    wrote: bool,
}

impl Call {
    /// So many pages of the part are submitted; a large folio may be more than is left of it. True
    /// if they are its first.
    pub fn submits(&mut self, pages: u64) -> bool {
        self.part = self.part.saturating_sub(pages);
        self.wrote = true;
        std::mem::take(&mut self.is_fresh)
    }

    /// Pages that may be submitted now.
    pub fn part(&self) -> u64 {
        self.part
    }
}

/// Whether a part may be submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// A part begins.
    Begins,
    /// The flusher sleeps for so long, and looks again.
    Sleeps(Ns),
    /// The turn is to end.
    Ends,
}

impl Hooks {
    /// A file's turn begins: its call, if there is a window on the path of `wb`.
    pub fn weir_window_begins(&mut self, wb: usize) -> Option<Call> {
        let weir = self.weir.as_ref()?;
        let windowed = |at: usize| weir.groups[at].writeback_bytes != policy::UNLIMITED;
        if !self.path(self.wbs[wb].cgroup).any(windowed) {
            return None;
        }
        let flusher = self.weir_flusher(wb)?;
        (flusher.is_listed, flusher.is_inside) = (true, true);
        Some(Call::default())
    }

    /// The turn is over.
    pub fn weir_window_ends(&mut self, wb: usize, call: &Call) {
        self.weir_looks_at(wb);
        let Some(flusher) = self.weir_flusher(wb) else {
            return;
        };
        flusher.is_inside = false;
        if flusher.in_flight == 0 {
            *flusher = Flusher::default();
        }
        let cgroup = self.wbs[wb].cgroup;
        if let (true, Some(weir)) = (call.held > 0, &mut self.weir) {
            let stats = &mut weir.groups[cgroup].stats;
            stats.window_held += 1;
            stats.window_held_ns += call.held;
        }
    }

    /// May a part of the `left` pages be submitted now? `others_wait` is the verdict if sync and the
    /// like wait for the flusher.
    pub fn weir_room(
        &mut self,
        wb: usize,
        left: u64,
        call: &mut Call,
        others_wait: Option<Room>,
    ) -> Room {
        match call.slept.take() {
            Some((since, written)) => self.weir_wakes(wb, call, since, written),
            None => {
                self.weir_looks(wb, call);
            }
        }
        let part = match call.window {
            0 => left,
            window => left.min(window::part(window)),
        };
        let (room, pages) = if call.excess == 0 {
            (Room::Begins, part)
        } else if let Some(verdict) = others_wait {
            (verdict, left)
        } else if call.held < CALL_MOST_MS * MS {
            match self.weir_sleeps(wb, call) {
                Some(time) => (Room::Sleeps(time), 0),
                None => (Room::Begins, left),
            }
        } else if call.wrote {
            (Room::Ends, 0)
        } else {
            (Room::Begins, part)
        };
        call.is_fresh = room == Room::Begins;
        call.part = if call.is_fresh { pages } else { 0 };
        room
    }

    /// For how long it sleeps; none if too many flushers do.
    fn weir_sleeps(&mut self, wb: usize, call: &mut Call) -> Option<Ns> {
        let now = self.now;
        let weir = self.weir.as_mut().filter(|weir| weir.held < HELD_MOST)?;
        weir.held += 1;
        call.slept = Some((now, call.written));
        let rate = self.weir_flusher(wb)?.rate;
        let time = window::sleep_ns(call.excess, &rate);
        // The timer's slack.
        Some(time + time / 8)
    }

    fn weir_wakes(&mut self, wb: usize, call: &mut Call, since: Ns, written: u64) {
        let slept = self.now - since;
        call.held += slept;
        if let Some(weir) = &mut self.weir {
            weir.held -= 1;
        }
        if self.weir_looks(wb, call) {
            let pages = call.written.saturating_sub(written);
            let part = window::part(call.window);
            if let Some(flusher) = self.weir_flusher(wb) {
                flusher.rate.note(pages, slept, part);
            }
        }
    }

    /// Looks which window on the path has the least room; false if there is none.
    fn weir_looks(&mut self, wb: usize, call: &mut Call) -> bool {
        self.weir_looks_at(wb);
        let mut any = false;
        (call.window, call.excess) = (0, 0);
        let path: Vec<usize> = self.path(self.wbs[wb].cgroup).collect();
        for at in path {
            let bytes = self
                .weir
                .as_ref()
                .map(|weir| weir.groups[at].writeback_bytes);
            let Some(bytes) = bytes.filter(|bytes| *bytes != policy::UNLIMITED) else {
                continue;
            };
            let window = policy::arith::bytes_to_pages(bytes);
            let (in_flight, written) = self.weir_in_flight_below(at, wb);
            let excess = window::excess(window, in_flight);
            if any && excess < call.excess {
                continue;
            }
            any = true;
            (call.window, call.excess, call.written) = (window, excess, written);
        }
        any
    }

    /// What the listed flushers at or below a cgroup have in flight on the disk of `own`, and have
    /// written.
    fn weir_in_flight_below(&mut self, cgroup: usize, own: usize) -> (u64, u64) {
        let (now, device) = (self.tick(), self.wbs[own].device);
        let (mut in_flight, mut written) = (0, 0);
        let listed = self.weir.as_ref().map_or(0, |weir| weir.flushers.len());
        for wb in 0..listed {
            let is_below = |hooks: &Hooks| hooks.path(hooks.wbs[wb].cgroup).any(|at| at == cgroup);
            let flusher = self.weir.as_ref().map(|weir| weir.flushers[wb]);
            let Some(mut flusher) = flusher.filter(|flusher| flusher.is_listed) else {
                continue;
            };
            if self.wbs[wb].device != device || !is_below(self) {
                continue;
            }
            if wb != own && flusher.looked != now {
                flusher = self.weir_looks_at(wb);
                if flusher.in_flight == 0 && !flusher.is_inside {
                    if let Some(forgotten) = self.weir_flusher(wb) {
                        *forgotten = Flusher::default();
                    }
                    continue;
                }
            }
            in_flight += flusher.in_flight;
            written += flusher.written;
        }
        (in_flight, written)
    }

    fn weir_flusher(&mut self, wb: usize) -> Option<&mut Flusher> {
        let flushers = &mut self.weir.as_mut()?.flushers;
        if flushers.len() <= wb {
            flushers.resize(wb + 1, Flusher::default());
        }
        flushers.get_mut(wb)
    }

    fn weir_looks_at(&mut self, wb: usize) -> Flusher {
        let (now, counts) = (self.tick(), self.wbs[wb].counts);
        let Some(flusher) = self.weir_flusher(wb) else {
            return Flusher::default();
        };
        (flusher.in_flight, flusher.written) = (counts.writeback, counts.written);
        flusher.looked = now;
        *flusher
    }
}
