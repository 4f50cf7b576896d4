// SPDX-License-Identifier: GPL-2.0-only
//! Flushers that are held: what `kmod/flusher.c` does around `policy/window.c`. Whom a weight holds
//! says division.rs.
//!
//! A call is the turn of a file. Before each part of it all windows on the path of the flusher's
//! cgroup are looked at, each against what the listed flushers of its subtree have in flight on the
//! disk, and then its division. A flusher is listed from its first call until nothing of it is in
//! flight after one and its division needs it no more. Others' figures are looked at once a tick,
//! its own each time.
//!
//! Example. A window of 64 pages over two flushers. The one has 30 pages in flight, the other 20.
//! Two pages too many are in flight for a part of 16, so both sleep until those are written.

use super::Hooks;
use super::division::Member;
use crate::sim::clock::{HZ, MS, Ns, Ticks};
use policy::window::{self, CALL_MOST_MS, Device, InFlight, Mark, Pace, Progress, Rate};

/// Flushers that sleep in it at a time, at most.
const HELD_MOST: u32 = 64;

/// A flusher that windows or weights are about.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flusher {
    pub is_listed: bool,
    /// In a call.
    pub is_inside: bool,
    pub in_flight: u64,
    /// Pages since it was made.
    pub written: u64,
    /// Pages of these, while it was not held.
    moved: u64,
    pub looked: Ticks,
    mark: Mark,
    pace: Pace,
    /// Tick at which it last wanted to submit.
    pub asked: Option<Ticks>,
    rate: Rate,
    /// Pages submitted by `used_since`; `None` if nothing is known yet.
    pub used: u64,
    pub used_since: Option<Ticks>,
    /// Little was submitted since then, and nothing held it.
    pub uses_little: bool,
    /// Its state where weights divide the disk.
    pub member: Member,
}

/// Pace of the pages of a disk's listed flushers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DiskPace {
    /// Pages that flushers wrote while they were not held, since each was listed.
    moved: u64,
    least: Device,
}

/// A file's turn of a flusher that may be held.
#[derive(Clone, Copy, Debug, Default)]
pub struct Call {
    /// Pages that may be submitted at a time; 0 if nothing bounds it.
    most: u64,
    /// Pages that are to be written before.
    excess: u64,
    /// By all whose writeback counts.
    written: u64,
    /// The excess is by weight.
    is_by_weight: bool,
    /// Held so far, by a window.
    window_held: Ns,
    weight_held: Ns,
    /// Begin of its sleep, and what was written by then.
    slept: Option<(Ns, u64)>,
    /// Pages of the part that are still to be submitted.
    part: u64,
    is_fresh: bool,
    wrote: bool,
}

impl Call {
    /// So many pages of the part are submitted; a large folio may be more than is left of it. True
    /// if they are its first.
    pub fn count_submitted(&mut self, pages: u64) -> bool {
        self.part = self.part.saturating_sub(pages);
        self.wrote = true;
        std::mem::take(&mut self.is_fresh)
    }

    /// Pages that may be submitted now.
    pub fn part_left(&self) -> u64 {
        self.part
    }
}

/// Decision on the next part: it begins, the turn ends, or the flusher sleeps.
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
    /// A file's turn begins: its call, if a window on the path of `wb` or a weight may hold it.
    pub fn weir_window_begin(&mut self, wb: usize) -> Option<Call> {
        let cgroup = self.wbs[wb].cgroup;
        let weir = self.weir.as_ref()?;
        let windowed = |at: usize| weir.groups[at].writeback_bytes != policy::UNLIMITED;
        let is_weighed = cgroup != 0 && weir.has_divisions();
        if !is_weighed && !self.path_to_root(cgroup).any(windowed) {
            return None;
        }
        if is_weighed {
            self.weir_add_record(cgroup);
        }
        let written = self.wbs[wb].counts.written;
        let flusher = self.weir_flusher_mut(wb)?;
        if !std::mem::replace(&mut flusher.is_listed, true) {
            flusher.written = written;
        }
        self.weir_division_enter(wb);
        self.weir_flusher_mut(wb)?.is_inside = true;
        Some(Call::default())
    }

    /// The turn is over.
    pub fn weir_window_end(&mut self, wb: usize, call: &Call) {
        let now = self.current_tick();
        self.weir_flusher_update(wb);
        let Some(flusher) = self.weir_flusher_mut(wb) else {
            return;
        };
        flusher.is_inside = false;
        flusher.asked = Some(now);
        self.weir_division_exit(wb, call.window_held + call.weight_held > 0);
        self.weir_drop_if_ended(wb);
        let cgroup = self.wbs[wb].cgroup;
        let Some(weir) = &mut self.weir else { return };
        let stats = &mut weir.groups[cgroup].stats;
        stats.window_held += u64::from(call.window_held > 0);
        stats.window_held_ns += call.window_held;
        stats.weight_held += u64::from(call.weight_held > 0);
        stats.weight_held_ns += call.weight_held;
    }

    /// Forgets a flusher that has ended and of which nothing is in flight. True if it did.
    fn weir_drop_if_ended(&mut self, wb: usize) -> bool {
        let ended = |flusher: &mut Flusher| !flusher.is_inside && flusher.in_flight == 0;
        if !self.weir_flusher_mut(wb).is_some_and(ended) || self.weir_division_must_keep(wb) {
            return false;
        }
        self.weir_division_leave(wb);
        if let Some(flusher) = self.weir_flusher_mut(wb) {
            *flusher = Flusher::default();
        }
        true
    }

    /// Forgets those that have ended, as the module at each beat.
    pub(super) fn weir_drop_ended_flushers(&mut self) {
        let listed = self.weir.as_ref().map_or(0, |weir| weir.flushers.len());
        for wb in 0..listed {
            let flusher = self.weir.as_ref().map(|weir| weir.flushers[wb]);
            if flusher.is_some_and(|flusher| flusher.is_listed && !flusher.is_inside) {
                self.weir_flusher_update(wb);
                self.weir_drop_if_ended(wb);
            }
        }
    }

    /// May a part of the `left` pages be submitted now? `others_wait` is the verdict if sync and the
    /// like wait for the flusher.
    pub fn weir_find_room(
        &mut self,
        wb: usize,
        left: u64,
        call: &mut Call,
        others_wait: Option<Room>,
    ) -> Room {
        match call.slept.take() {
            Some((since, written)) => self.weir_end_wait(wb, call, since, written),
            None => self.weir_ask_room(wb, call),
        }
        let part = match call.most {
            0 => left,
            most => left.min(most),
        };
        let (room, pages) = if call.excess == 0 {
            (Room::Begins, part)
        } else if let Some(verdict) = others_wait {
            (verdict, left)
        } else if call.window_held + call.weight_held < CALL_MOST_MS * MS {
            match self.weir_begin_wait(wb, call) {
                Some(time) => (Room::Sleeps(time), 0),
                None => (Room::Begins, left),
            }
        } else if call.wrote || call.is_by_weight {
            (Room::Ends, 0)
        } else {
            (Room::Begins, part)
        };
        call.is_fresh = room == Room::Begins;
        call.part = if call.is_fresh { pages } else { 0 };
        room
    }

    /// For how long it sleeps; none if too many flushers do.
    fn weir_begin_wait(&mut self, wb: usize, call: &mut Call) -> Option<Ns> {
        let now = self.now;
        let weir = self.weir.as_mut().filter(|weir| weir.held < HELD_MOST)?;
        weir.held += 1;
        call.slept = Some((now, call.written));
        let rate = self.weir_flusher_mut(wb)?.rate;
        let time = window::sleep_ns(call.excess, &rate);
        // The timer's slack.
        Some(time + time / 8)
    }

    fn weir_end_wait(&mut self, wb: usize, call: &mut Call, since: Ns, written: u64) {
        let (slept, by_weight) = (self.now - since, call.is_by_weight);
        match by_weight {
            true => call.weight_held += slept,
            false => call.window_held += slept,
        }
        if let Some(weir) = &mut self.weir {
            weir.held -= 1;
        }
        self.weir_ask_room(wb, call);
        // Sums of two windows are not to be compared.
        if call.most > 0 && call.is_by_weight == by_weight && call.written >= written {
            if let Some(flusher) = self.weir_flusher_mut(wb) {
                flusher
                    .rate
                    .record_rate(call.written - written, slept, call.most);
            }
        }
    }

    /// Looks whether there is room for a part, and for how large a one.
    fn weir_ask_room(&mut self, wb: usize, call: &mut Call) {
        let now = self.current_tick();
        self.weir_flusher_update(wb);
        if let Some(flusher) = self.weir_flusher_mut(wb) {
            flusher.asked = Some(now);
        }
        (call.most, call.excess, call.is_by_weight) = (0, 0, false);
        self.weir_ask_windows(wb, call);
        let Some(wait) = self.weir_division_ask_turn(wb) else {
            return;
        };
        if call.most == 0 || wait.excess > call.excess {
            (call.excess, call.written) = (wait.excess, wait.written);
            call.is_by_weight = true;
        }
        call.most = match call.most {
            0 => wait.part,
            most => most.min(wait.part),
        };
    }

    /// The windows on the path: the one with the least room counts.
    fn weir_ask_windows(&mut self, wb: usize, call: &mut Call) {
        let path: Vec<usize> = self.path_to_root(self.wbs[wb].cgroup).collect();
        for at in path {
            let bytes = self
                .weir
                .as_ref()
                .map(|weir| weir.groups[at].writeback_bytes);
            let Some(bytes) = bytes.filter(|bytes| *bytes != policy::UNLIMITED) else {
                continue;
            };
            let window = policy::arith::bytes_to_pages(bytes);
            let (below, written) = self.weir_in_flight_below(at, wb);
            let own = self.weir_flusher_mut(wb).copied().unwrap_or_default();
            let taken = window::taken_pages(window, own.pace, own.in_flight, &below);
            let excess = window::excess_pages(window, taken);
            if call.most > 0 && excess < call.excess {
                continue;
            }
            (call.excess, call.written) = (excess, written);
            call.most = window::part_pages(window);
        }
    }

    /// Pages that the listed flushers at or below a cgroup have in flight on the disk of `own`, and
    /// have written.
    fn weir_in_flight_below(&mut self, cgroup: usize, own: usize) -> (InFlight, u64) {
        let (now, device) = (self.current_tick(), self.wbs[own].device);
        let (mut below, mut written) = (InFlight::default(), 0);
        let listed = self.weir.as_ref().map_or(0, |weir| weir.flushers.len());
        for wb in 0..listed {
            let is_below = |hooks: &Hooks| {
                hooks
                    .path_to_root(hooks.wbs[wb].cgroup)
                    .any(|at| at == cgroup)
            };
            let flusher = self.weir.as_ref().map(|weir| weir.flushers[wb]);
            let Some(mut flusher) = flusher.filter(|flusher| flusher.is_listed) else {
                continue;
            };
            if self.wbs[wb].device != device || !is_below(self) {
                continue;
            }
            if wb != own && flusher.looked != now {
                flusher = self.weir_flusher_update(wb);
                if self.weir_drop_if_ended(wb) {
                    continue;
                }
            }
            below.all += flusher.in_flight;
            match flusher.pace {
                Pace::Moves => below.moving += flusher.in_flight,
                Pace::Held => below.held += flusher.in_flight,
                Pace::Unknown => {}
            }
            written += flusher.written;
        }
        (below, written)
    }

    pub(super) fn weir_flusher_mut(&mut self, wb: usize) -> Option<&mut Flusher> {
        let flushers = &mut self.weir.as_mut()?.flushers;
        if flushers.len() <= wb {
            flushers.resize(wb + 1, Flusher::default());
        }
        flushers.get_mut(wb)
    }

    pub(super) fn weir_flusher_update(&mut self, wb: usize) -> Flusher {
        let (now, counts) = (self.current_tick(), self.wbs[wb].counts);
        let device = self.wbs[wb].device;
        if self.weir_flusher_mut(wb).is_none() {
            return Flusher::default();
        }
        let Some(weir) = self.weir.as_mut() else {
            return Flusher::default();
        };
        // Of the others by their last look, as the module has it. Held pages go before no others.
        let mut others_in_flight = 0;
        let mut moving = 0;
        for (at, flusher) in weir.flushers.iter().enumerate() {
            let is_other = at != wb && self.jbd2.wbs[at].device == device;
            if !is_other || flusher.pace == Pace::Held {
                continue;
            }
            others_in_flight += flusher.in_flight;
            moving += match flusher.pace {
                Pace::Moves => flusher.in_flight,
                _ => 0,
            };
        }
        let flusher = &mut weir.flushers[wb];
        let pages = weir.paces.entry(device).or_default();
        if flusher.is_listed && flusher.pace != Pace::Held {
            let written = counts.written - flusher.written;
            flusher.moved += written;
            pages.moved += written;
        }
        let progress = Progress {
            written: counts.written,
            in_flight: counts.writeback,
            others_written: pages.moved - flusher.moved,
            others_in_flight,
            moving,
            ms: now * 1000 / HZ,
        };
        (flusher.in_flight, flusher.written) = (counts.writeback, counts.written);
        flusher.pace = flusher.mark.note_progress(&mut pages.least, &progress);
        flusher.looked = now;
        *flusher
    }
}
