// SPDX-License-Identifier: GPL-2.0-only
//! The module's work by the clock: five times a second ratios and floors are evaluated and the
//! drain is measured, fifty times a second the holders of floors are counted while the host is
//! above its background level. The module spreads that over several turns where there are more than
//! eighty; here all are counted in one.

use super::Hooks;
use crate::sim::SimEvent;
use crate::sim::clock::{MS, Ns};
use policy::ceiling::{Counts, Memory};
use policy::drain::Beat;
use policy::floor::{Caps, Pool};
use policy::headroom::Look;
use policy::names::{BEAT_MS, DRAIN_LOOK_MS, RECOUNT_MS};
use policy::subtree::Tally;

const BEAT: Ns = BEAT_MS * MS;
const RECOUNT: Ns = RECOUNT_MS * MS;
const DRAIN_LOOK: Ns = DRAIN_LOOK_MS * MS;

impl Hooks {
    /// Begins to beat, or takes over knobs that have just changed.
    pub fn weir_make_records(&mut self) {
        let Some(weir) = &mut self.weir else { return };
        for index in 0..weir.groups.len() {
            let mut next = Some(index);
            let mut bound = false;
            while let Some(at) = next {
                bound |= weir.groups[at].has_knob();
                next = self.jbd2.cgroups[at].parent.filter(|parent| *parent != 0);
            }
            weir.groups[index].known |= (bound || weir.fair) && index != 0;
        }
        for index in (1..weir.groups.len()).rev() {
            if let (true, Some(parent @ 1..)) =
                (weir.groups[index].known, self.jbd2.cgroups[index].parent)
            {
                weir.groups[parent].known = true;
            }
        }
        self.weir_apply_bandwidths();
        if let Some(weir) = &mut self.weir {
            weir.mark_divisions(&self.jbd2.cgroups);
        }
        self.weir_evaluate();
    }

    /// The first beat, and with it all others.
    pub fn weir_arm(&mut self) {
        self.weir_make_records();
        self.schedule_after(BEAT, SimEvent::Beat);
        self.schedule_after(RECOUNT, SimEvent::Recount);
    }

    /// Does one beat, as the module every 200 ms.
    pub fn weir_beat(&mut self) {
        self.weir_drop_ended_flushers();
        self.weir_evaluate();
        self.schedule_after(BEAT, SimEvent::Beat);
    }

    fn weir_evaluate(&mut self) {
        let (thresh, background) = self.sysctl.dirty_levels(self.dirtyable_pages(), None);
        self.weir_measure_drain(thresh, background);
        let Some(weir) = &self.weir else { return };
        let known: Vec<usize> = (1..weir.groups.len())
            .filter(|index| weir.groups[*index].known)
            .collect();
        let avails: Vec<u64> = known
            .iter()
            .map(|index| self.subtree_dirtyable(*index))
            .collect();
        let Some(weir) = &mut self.weir else { return };
        for (index, avail) in known.iter().zip(avails) {
            weir.groups[*index].avail = avail;
        }
        let floors: Vec<u64> = known.iter().map(|index| self.own_floor(*index)).collect();
        let pool = Pool {
            wanted_total: floors
                .iter()
                .fold(0, |sum, floor| policy::arith::add(sum, *floor)),
            host_thresh: thresh,
        };
        let Some(weir) = &mut self.weir else { return };
        (weir.host_thresh, weir.host_background) = (thresh, background);
        weir.set_total = pool.total_floors();
        weir.floors_total = weir.set_total;
        if weir.fair {
            // Fair parts fill what floors may take.
            let filled = Pool {
                wanted_total: policy::UNLIMITED,
                ..pool
            };
            weir.floors_total = filled.total_floors();
        }
        for (index, own) in known.iter().zip(floors) {
            if own > 0 || weir.groups[*index].wrote.is_none() {
                weir.groups[*index].floor = pool.scaled_floor(own);
            }
        }
        self.weir_review_writers();
        known.iter().for_each(|index| self.weir_report_held(*index));
    }

    fn weir_measure_drain(&mut self, thresh: u64, bg_thresh: u64) {
        let (now, counts, dirtyable) = (self.now, self.counts, self.dirtyable_pages());
        let (reclaimed, stalled) = (self.zone.reclaimed, self.psi.memory_stall_percent());
        let Some(weir) = &mut self.weir else { return };
        if weir.seconds == 0 && weir.headroom.is_none() && weir.drain.limit == 0 {
            return;
        }
        let seen = (now, counts.written, reclaimed);
        let Some((then, written, before)) = weir.drain_seen.replace(seen) else {
            return;
        };
        if now - then < DRAIN_LOOK {
            weir.drain_seen = Some((then, written, before));
            return;
        }
        let (kswapd_scanned, kswapd_taken, direct_scanned) = (
            reclaimed.pgscan_kswapd - before.pgscan_kswapd,
            reclaimed.pgsteal_kswapd - before.pgsteal_kswapd,
            reclaimed.pgscan_direct - before.pgscan_direct,
        );
        let before = weir.drain_limit(thresh);
        let mut beat = Beat {
            seconds: weir.seconds,
            elapsed_ms: (now - then) / MS,
            thresh,
            bg_thresh,
            dirtyable,
            dirty: counts.dirty,
            writeback: counts.writeback,
            written: counts.written - written,
            kswapd_scanned,
            kswapd_taken,
            direct_scanned,
            memory_stall_percent: stalled,
            tighten: u32::from(weir.tighten),
        };
        if let Some(headroom) = &mut weir.headroom {
            let look = Look {
                available: dirtyable,
                ..weir.look
            };
            beat.seconds = headroom.adapt_by_beat(&weir.drain, &beat, &look);
        }
        weir.drain.adapt_by_beat(&beat);
        weir.stock = thresh;
        let after = weir.drain_limit(thresh);
        if after < before {
            self.domain.dirty_limit = self.domain.dirty_limit.min(after);
        }
    }

    /// Dirtyable memory of a subtree, the base of `memory.dirty_ratio`.
    fn subtree_dirtyable(&self, cgroup: usize) -> u64 {
        let has_ratio = self
            .weir
            .as_ref()
            .is_some_and(|weir| weir.groups[cgroup].ceiling.ratio_percent > 0);
        if !has_ratio {
            return 0;
        }
        Memory {
            file: self.cgroups[cgroup].subtree_file,
            dirty: self.cgroups[cgroup].subtree.pages_held(),
            headroom: self.cgroup_headroom(cgroup),
            host_avail: self.dirtyable_pages(),
            host_dirty: self.counts.pages_held(),
        }
        .dirtyable_pages()
    }

    /// The floor asked for, as far as memory and ceilings on the path allow.
    fn own_floor(&self, cgroup: usize) -> u64 {
        let Some(weir) = &self.weir else { return 0 };
        let mut floor = policy::arith::bytes_to_pages(weir.groups[cgroup].floor_bytes);
        if floor > 0 {
            floor = self.cap_floor(cgroup, floor);
        }
        floor
    }

    /// The pages of a floor that ceilings and memory on the path leave.
    pub(super) fn cap_floor(&self, cgroup: usize, mut floor: u64) -> u64 {
        for (_, ceiling, _) in self.ceilings_above(cgroup) {
            floor = floor.min(policy::ceiling::writer_limit(ceiling));
        }
        for at in self.path_to_root(cgroup) {
            floor = self.cap_by_memory(at, floor);
        }
        floor
    }

    /// Of a floor of `wanted` pages, what the memory of one cgroup on its path leaves.
    fn cap_by_memory(&self, cgroup: usize, wanted: u64) -> u64 {
        let caps = Caps {
            wanted,
            memory_max: self.cgroups[cgroup].max,
            memory_min: self.cgroups[cgroup].min,
        };
        caps.capped_floor()
    }

    /// The most that floors let a subtree hold.
    pub(super) fn floor_room(&self, cgroup: usize) -> u64 {
        self.cap_by_memory(cgroup, policy::UNLIMITED)
    }

    /// Counts whom floors cover, where it matters.
    pub fn weir_recount(&mut self) {
        let Some(weir) = &self.weir else { return };
        if weir.floors_total > 0 && self.counts.pages_held() > weir.host_limits().bg_thresh {
            for index in 1..weir.groups.len() {
                let floor = |at: usize| self.weir.as_ref().map_or(0, |weir| weir.groups[at].floor);
                if self.path_to_root(index).any(|at| floor(at) > 0) {
                    self.weir_report_held(index);
                }
            }
        }
        self.schedule_after(RECOUNT, SimEvent::Recount);
    }

    /// Tells the floors above what a cgroup holds, as `kmod/tree.c` does.
    pub(super) fn weir_report_held(&mut self, cgroup: usize) {
        let held = &self.cgroups[cgroup].counts;
        let own = Counts {
            dirty: held.dirty,
            writeback: held.writeback,
        };
        let Some(weir) = &mut self.weir else { return };
        let told = std::mem::replace(&mut weir.groups[cgroup].told, own);
        let mut change = Tally::between(&told, &own);
        let mut next = Some(cgroup);
        while let Some(at) = next.filter(|at| *at != 0) {
            next = self.jbd2.cgroups[at].parent;
            let group = &mut weir.groups[at];
            let mut unused = group.subtree.add(&mut change, group.floor, 0);
            if group.floor_bytes == 0 {
                unused = policy::fair::kept_pages(group.floor, unused);
            }
            weir.note_unused(at, unused);
        }
    }
}
