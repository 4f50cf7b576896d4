// SPDX-License-Identifier: GPL-2.0-only
//! The weight: what `kmod/division.c` does around `policy/division.c`.
//!
//! A cgroup of which a child has a weight other than the default is a division; where they lie in
//! each other the topmost counts. Its flushers on a disk submit in the order of their virtual
//! times, of which each flusher has one and each child of the division's cgroup. A flusher competes
//! from its first call until it has asked for no room for 20 ms, or uses little and has nothing in
//! flight; one alone is not held. Others do not wait for a child whose pages are not written.
//!
//! The module makes the group of a cgroup that has none when its flusher first asks; so does this.

use super::{Hooks, Weir};
use crate::mm::Cgroup;
use crate::sim::clock::{HZ, Ticks};
use policy::division::{self, Budget, HWEIGHT_ONE, WEIGHT_DEFAULT};

/// Inside no call, it competes for so long after one.
const COMPETES: Ticks = HZ * 20 / 1000;
/// Stuck inside a call it competes no longer.
const STUCK: Ticks = 10 * HZ;
/// Time for which a child is slow that has had no room for too long.
const SLOW: Ticks = 10 * HZ;
/// Least time between two sums of what all of the disk has written.
const NOTE: Ticks = HZ.div_ceil(4);
/// hweights are set anew at least as often.
const RENEW: Ticks = HZ * 20 / 1000;

/// Pages that wait for a turn for so long count no sync's any more.
const TURN: Ticks = HZ * division::TURN_MS / 1000;

/// It has waited for its turn for so long, since `held`.
fn is_owed_turn(held: Option<Ticks>, now: Ticks) -> bool {
    held.is_some_and(|held| now > held + TURN)
}

/// Begin of its wait, with `lead` pages to be submitted by others before.
fn held_since_or_now(held: Option<Ticks>, lead: u64, now: Ticks) -> Option<Ticks> {
    (lead > 0).then(|| held.unwrap_or(now))
}

/// State of a flusher in a division.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Member {
    /// The division's cgroup, and the child of that which it is below.
    place: Option<(usize, usize)>,
    vtime: u64,
    /// Pages submitted that `vtime` has.
    charged: u64,
    /// Pages written that the division's count has.
    counted: u64,
    hweight: u32,
    /// It waits for its turn among those below the same child since then.
    held: Option<Ticks>,
}

/// A child of the division's cgroup, with one virtual time for all below it.
#[derive(Clone, Copy, Debug, Default)]
struct Contender {
    cgroup: usize,
    users: u32,
    competing: u32,
    /// Others wait for it: it competes, and is not slow.
    is_queued: bool,
    vtime: u64,
    hweight: u32,
    /// It waits for its turn since then.
    held: Option<Ticks>,
    /// Pages, of all flushers below it.
    in_flight: u64,
    /// It is slow if it has no room by then; none if it has room.
    room_due: Option<Ticks>,
    /// Tick at which it last had none for long.
    slow: Option<Ticks>,
    /// The virtual time that a flusher below had while none competed with it.
    reached: u64,
}

impl Contender {
    /// Others do not wait for it to submit more.
    fn is_slow(&self, now: Ticks) -> bool {
        self.slow.is_some_and(|slow| now < slow + SLOW)
    }
}

/// A disk that a cgroup divides.
#[derive(Clone, Debug, Default)]
pub(super) struct Division {
    contenders: Vec<Contender>,
    /// A flusher has begun to compete, or ceased.
    is_stale: bool,
    renewed: Ticks,
    competing: u32,
    /// Pages, by all flushers in it.
    written: u64,
    budget: Budget,
    noted: Ticks,
    /// Pages, of all flushers in it.
    in_flight: u64,
    /// The virtual time that a child had while none competed with it.
    reached: u64,
}

impl Division {
    fn contender_mut(&mut self, cgroup: usize) -> &mut Contender {
        let at = self.contenders.iter().position(|one| one.cgroup == cgroup);
        let at = at.unwrap_or_else(|| {
            self.contenders.push(Contender {
                cgroup,
                ..Contender::default()
            });
            self.contenders.len() - 1
        });
        &mut self.contenders[at]
    }

    /// The virtual time of a child, and the least of the others that compete; its own if there is
    /// none.
    fn own_and_least_vtime(&self, cgroup: usize) -> (u64, u64) {
        let own = self.contenders.iter().find(|one| one.cgroup == cgroup);
        let vtime = own.map_or(0, |one| one.vtime);
        let others = self.contenders.iter();
        let least = others
            .filter(|one| one.cgroup != cgroup && one.competing > 0)
            .map(|one| one.vtime)
            .min();
        (vtime, least.unwrap_or(vtime))
    }

    /// Pages that are to be written before a child has room in its part of the budget. Notes by
    /// when it should.
    fn update_excess(&mut self, cgroup: usize, now: Ticks) -> u64 {
        let (budget, in_flight) = (self.budget, self.in_flight);
        let one = self.contender_mut(cgroup);
        let excess = budget.excess(one.hweight, one.in_flight);
        match one.room_due {
            _ if excess == 0 => one.room_due = None,
            None => one.room_due = Some(now + budget.patience_ms(in_flight) * HZ / 1000),
            Some(due) if now > due => one.slow = Some(now),
            Some(_) => {}
        }
        excess
    }

    /// The least virtual time of the other children that are waited for; as far as one alone came
    /// if there is none.
    fn least_vtime_beside(&mut self, cgroup: usize, now: Ticks) -> u64 {
        loop {
            let others = self.contenders.iter();
            let first = others
                .filter(|one| one.cgroup != cgroup && one.competing > 0 && one.is_queued)
                .min_by_key(|one| one.vtime)
                .copied();
            let Some(first) = first else {
                self.reached = self.reached.max(self.contender_mut(cgroup).vtime);
                return self.reached;
            };
            self.update_excess(first.cgroup, now);
            let one = self.contender_mut(first.cgroup);
            if !one.is_slow(now) {
                return one.vtime;
            }
            one.is_queued = false;
        }
    }

    /// A slow child owes nothing for what the others submit meanwhile, nor is it owed.
    fn queue_contender(&mut self, cgroup: usize, now: Ticks) {
        let one = *self.contender_mut(cgroup);
        let is_slow = one.is_slow(now);
        if is_slow || !one.is_queued {
            let least = self.least_vtime_beside(cgroup, now);
            let vtime = division::join(one.vtime.max(1), least, 2 * self.budget.ahead());
            let one = self.contender_mut(cgroup);
            (one.vtime, one.is_queued) = (vtime, !is_slow);
        }
    }
}

/// Wait of a flusher for its turn.
pub(super) struct TurnWait {
    /// Pages that are to be written before.
    pub excess: u64,
    /// Pages that may be submitted then.
    pub part: u64,
    /// Written by all that compete.
    pub written: u64,
}

impl Weir {
    /// `true` if any cgroup divides anything.
    pub(super) fn has_divisions(&self) -> bool {
        self.divided.contains(&true)
    }

    /// Weights may have been written.
    pub(super) fn mark_divisions(&mut self, cgroups: &[Cgroup]) {
        self.divided = vec![false; self.groups.len()];
        for (group, cgroup) in self.groups.iter().zip(cgroups) {
            if let (true, Some(parent)) = (group.weight != WEIGHT_DEFAULT, cgroup.parent) {
                self.divided[parent] = true;
            }
        }
    }

    /// Of the topmost division that a cgroup is in: that one, and its child on the path.
    fn topmost_division(&self, cgroups: &[Cgroup], cgroup: usize) -> Option<(usize, usize)> {
        std::iter::successors(Some(cgroup), |at| cgroups[*at].parent)
            .filter_map(|at| Some((cgroups[at].parent?, at)))
            .filter(|(parent, _)| self.divided.get(*parent).is_some_and(|divided| *divided))
            .last()
    }

    fn is_competing(&self, wb: usize, now: Ticks) -> bool {
        let flusher = &self.flushers[wb];
        let asked = |lasts| flusher.asked.is_some_and(|asked| now < asked + lasts);
        if flusher.is_inside {
            return asked(STUCK);
        }
        asked(COMPETES) && (flusher.in_flight > 0 || !flusher.uses_little)
    }

    /// Listed flushers in the division of `device` by `scope`.
    fn division_members(
        &self,
        devices: impl Fn(usize) -> usize,
        device: usize,
        scope: usize,
    ) -> Vec<usize> {
        let is_in = |wb: &usize| {
            let place = self.flushers[*wb].member.place;
            place.is_some_and(|(of, _)| of == scope) && devices(*wb) == device
        };
        (0..self.flushers.len()).filter(is_in).collect()
    }

    /// The least virtual time of `members` but `own` that are below the same child and compete.
    fn least_of_others(&self, members: &[usize], own: usize, now: Ticks) -> Option<u64> {
        let of = |wb: usize| &self.flushers[wb].member;
        let others = members.iter().copied().filter(|wb| {
            *wb != own && of(*wb).place == of(own).place && self.is_competing(*wb, now)
        });
        others.map(|wb| of(wb).vtime).min()
    }

    /// The least virtual time of the others, as [`Weir::least_of_others`]; the furthest that one
    /// alone came if there is none.
    fn least_vtime(
        &mut self,
        key: (usize, usize),
        members: &[usize],
        own: usize,
        now: Ticks,
    ) -> u64 {
        let member = self.flushers[own].member;
        let least = self.least_of_others(members, own, now);
        let division = self.divisions.get_mut(&key);
        match (least, division, member.place) {
            (None, Some(division), Some((_, child))) => {
                let one = division.contender_mut(child);
                one.reached = one.reached.max(member.vtime);
                one.reached
            }
            (least, ..) => least.unwrap_or(member.vtime),
        }
    }

    /// Sums up what the children of a division have in flight, by the last look at each member.
    fn sum_in_flight(&mut self, key: (usize, usize), members: &[usize]) {
        let Some(division) = self.divisions.get_mut(&key) else {
            return;
        };
        division.in_flight = 0;
        for one in &mut division.contenders {
            one.in_flight = 0;
        }
        for wb in members {
            let flusher = &self.flushers[*wb];
            division.in_flight += flusher.in_flight;
            if let Some((_, child)) = flusher.member.place {
                division.contender_mut(child).in_flight += flusher.in_flight;
            }
        }
    }

    /// Sets hweights anew, of `members` that compete.
    fn renew_hweights(
        &mut self,
        key: (usize, usize),
        members: &[usize],
        cgroups: &[Cgroup],
        home: impl Fn(usize) -> usize,
        now: Ticks,
    ) {
        let scope = key.1;
        let compete: Vec<usize> = (members.iter().copied())
            .filter(|wb| self.is_competing(*wb, now))
            .collect();
        // What competes below each cgroup.
        let mut below = vec![0u64; cgroups.len()];
        for wb in &compete {
            // Its own tasks are like one more child.
            let mut weight = WEIGHT_DEFAULT;
            let mut at = home(*wb);
            loop {
                below[at] += u64::from(weight);
                if below[at] > u64::from(weight) || at == scope {
                    break;
                }
                weight = self.groups[at].weight;
                at = cgroups[at].parent.unwrap_or(scope);
            }
        }
        let division = self.divisions.entry(key).or_default();
        division.is_stale = false;
        division.renewed = now;
        division.competing = compete.len() as u32;
        for one in &mut division.contenders {
            one.competing = 0;
        }
        for wb in compete {
            let mut at = home(wb);
            let mut hweight = division::hweight(HWEIGHT_ONE, WEIGHT_DEFAULT, below[at]);
            while let Some(parent) = cgroups[at].parent.filter(|_| at != scope) {
                hweight = division::hweight(hweight, self.groups[at].weight, below[parent]);
                at = parent;
            }
            self.groups[home(wb)].hweight = Some((hweight, now));
            let member = &mut self.flushers[wb].member;
            member.hweight = hweight;
            if let Some((_, child)) = member.place {
                let one = division.contender_mut(child);
                one.competing += 1;
                let weight = self.groups[child].weight;
                one.hweight = division::hweight(HWEIGHT_ONE, weight, below[scope]);
            }
        }
    }

    /// Charges what was submitted for the wb since, by its flusher or by an fsync.
    fn charge_submitted(&mut self, key: (usize, usize), wb: usize, now: Ticks) {
        let flusher = &mut self.flushers[wb];
        let submitted = flusher.written + flusher.in_flight;
        let member = &mut flusher.member;
        let (Some(division), Some((_, child))) = (self.divisions.get_mut(&key), member.place)
        else {
            return;
        };
        division.written += flusher.written - member.counted;
        member.counted = flusher.written;
        let pages = submitted.saturating_sub(member.charged);
        if pages == 0 {
            return;
        }
        member.charged = submitted;
        if !is_owed_turn(member.held, now) {
            member.vtime = division::charge(member.vtime, pages, member.hweight);
        }
        let is_alone = division.competing == 0;
        let vtime = member.vtime;
        let one = division.contender_mut(child);
        if !is_owed_turn(one.held, now) {
            one.vtime = division::charge(one.vtime, pages, one.hweight);
        }
        if is_alone {
            // As by a sync: who comes next is not owed that.
            one.reached = one.reached.max(vtime);
            let reached = one.vtime;
            division.reached = division.reached.max(reached);
        }
    }
}

impl Hooks {
    /// A cgroup without a group gets one, and all above it.
    pub(super) fn weir_add_record(&mut self, cgroup: usize) {
        let Some(weir) = &mut self.weir else { return };
        let mut next = cgroup;
        while next != 0 && !std::mem::replace(&mut weir.groups[next].known, true) {
            next = self.jbd2.cgroups[next].parent.unwrap_or(0);
        }
    }

    /// The division that a flusher is in, and its members.
    fn division_of_flusher(&self, wb: usize) -> Option<((usize, usize), Vec<usize>)> {
        let weir = self.weir.as_ref()?;
        let (scope, _) = weir.flushers.get(wb)?.member.place?;
        let device = self.wbs[wb].device;
        let members = weir.division_members(|wb| self.wbs[wb].device, device, scope);
        Some(((device, scope), members))
    }

    /// A flusher begins a call: is there a division that it is in?
    pub(super) fn weir_division_enter(&mut self, wb: usize) {
        let (now, cgroup, device) = (
            self.current_tick(),
            self.wbs[wb].cgroup,
            self.wbs[wb].device,
        );
        let Some(weir) = &self.weir else { return };
        let place = weir.topmost_division(&self.cgroups, cgroup);
        let was = weir.flushers[wb].member.place;
        let competed = was.is_some() && was == place && weir.is_competing(wb, now);
        if was.is_some() && was != place {
            self.weir_division_leave(wb);
        }
        let Some((scope, child)) = place else { return };
        if was != place {
            let Some(weir) = &mut self.weir else { return };
            let division = weir.divisions.entry((device, scope)).or_default();
            division.contender_mut(child).users += 1;
            weir.flushers[wb].member = Member {
                place,
                ..Member::default()
            };
        }
        if !competed {
            self.weir_begin_competing(wb, child);
        }
    }

    /// It competes from now on, and has not of late: it is not far behind.
    fn weir_begin_competing(&mut self, wb: usize, child: usize) {
        let now = self.current_tick();
        let flusher = self.weir_flusher_update(wb);
        let Some((key, members)) = self.division_of_flusher(wb) else {
            return;
        };
        let (wbs, cgroups) = (&self.jbd2.wbs, &self.jbd2.cgroups);
        let Some(weir) = &mut self.weir else { return };
        // Those that have ceased meanwhile have been seen by the beat.
        if weir
            .divisions
            .get(&key)
            .is_some_and(|of| now >= of.renewed + RENEW)
        {
            weir.renew_hweights(key, &members, cgroups, |wb| wbs[wb].cgroup, now);
        }
        for member in &members {
            self.weir_flusher_update(*member);
            let Some(weir) = &mut self.weir else { return };
            if *member != wb {
                weir.charge_submitted(key, *member, now);
            }
        }
        let Some(weir) = &mut self.weir else { return };
        weir.sum_in_flight(key, &members);
        let least = weir.least_vtime(key, &members, wb, now);
        let division = weir.divisions.entry(key).or_default();
        division.is_stale = true;
        let budget = 2 * division.budget.ahead();
        let member = &mut weir.flushers[wb].member;
        member.charged = flusher.written + flusher.in_flight;
        member.counted = flusher.written;
        member.vtime = division::join(member.vtime, least, budget);
        if division.contender_mut(child).competing == 0 {
            let least = division.least_vtime_beside(child, now);
            let one = division.contender_mut(child);
            one.vtime = division::join(one.vtime, least, budget);
            // That it had no room before it ceased says nothing.
            (one.is_queued, one.room_due) = (true, None);
        }
    }

    /// Notes at the end of a call whether the flusher uses little; `held`: it had to wait.
    pub(super) fn weir_division_exit(&mut self, wb: usize, held: bool) {
        let now = self.current_tick();
        let Some(weir) = &mut self.weir else { return };
        let device = self.jbd2.wbs[wb].device;
        let flusher = &mut weir.flushers[wb];
        let Some((scope, _)) = flusher.member.place else {
            return;
        };
        let Some(division) = weir.divisions.get(&(device, scope)) else {
            return;
        };
        let submitted = flusher.written + flusher.in_flight;
        let elapsed = flusher.used_since.map(|since| now - since);
        if !held && elapsed.is_some_and(|elapsed| elapsed < COMPETES) {
            return;
        }
        let (budget, hweight) = (division.budget, flusher.member.hweight);
        // Of one that was made in this call nothing is known.
        flusher.uses_little = elapsed.filter(|_| !held).is_some_and(|elapsed| {
            budget.uses_little(hweight, submitted - flusher.used, elapsed * 1000 / HZ)
        });
        (flusher.used, flusher.used_since) = (submitted, Some(now));
    }

    /// `true` if what is kept of a flusher with nothing in flight is of use still: it may be ahead.
    pub(super) fn weir_division_must_keep(&self, wb: usize) -> bool {
        let now = self.current_tick();
        let (Some(weir), Some((key, members))) = (&self.weir, self.division_of_flusher(wb)) else {
            return false;
        };
        let member = &weir.flushers[wb].member;
        let is_ahead = || {
            let (_, child) = member.place?;
            let (vtime, least) = weir.divisions.get(&key)?.own_and_least_vtime(child);
            Some(vtime > least)
        };
        let least = weir.least_of_others(&members, wb, now);
        weir.is_competing(wb, now)
            || least.is_some_and(|least| member.vtime > least)
            || is_ahead().unwrap_or(false)
    }

    /// A flusher is forgotten, or its division is another.
    pub(super) fn weir_division_leave(&mut self, wb: usize) {
        let device = self.wbs[wb].device;
        let Some(weir) = &mut self.weir else { return };
        let Some((scope, child)) = std::mem::take(&mut weir.flushers[wb].member).place else {
            return;
        };
        let division = weir.divisions.entry((device, scope)).or_default();
        division.is_stale = true;
        division.contender_mut(child).users -= 1;
        division.contenders.retain(|one| one.users > 0);
        if division.contenders.is_empty() {
            weir.divisions.remove(&(device, scope));
        }
    }

    /// Wait of a flusher, which has just looked, until it may submit; `None` if it is alone.
    pub(super) fn weir_division_ask_turn(&mut self, wb: usize) -> Option<TurnWait> {
        let (now_ns, now) = (self.now, self.current_tick());
        let (key, members) = self.division_of_flusher(wb)?;
        let (wbs, cgroups) = (&self.jbd2.wbs, &self.jbd2.cgroups);
        let weir = self.weir.as_mut()?;
        let division = weir.divisions.entry(key).or_default();
        if division.is_stale || now >= division.renewed + RENEW {
            weir.renew_hweights(key, &members, cgroups, |wb| wbs[wb].cgroup, now);
        }
        for member in &members {
            let looked = self.weir.as_ref()?.flushers[*member].looked;
            if *member != wb && looked != now {
                self.weir_flusher_update(*member);
            }
            let weir = self.weir.as_mut()?;
            weir.charge_submitted(key, *member, now);
        }
        let of_device = self.jbd2.wbs.iter().filter(|wb| wb.device == key.0);
        let of_device = of_device.map(|wb| wb.counts.written).sum();
        let weir = self.weir.as_mut()?;
        weir.sum_in_flight(key, &members);
        let least = weir.least_vtime(key, &members, wb, now);
        let division = weir.divisions.get_mut(&key)?;
        if division.budget.since_ns == 0 || now >= division.noted + NOTE {
            division.budget.note(division.written, of_device, now_ns);
            division.noted = now;
        }
        let member = &mut weir.flushers[wb].member;
        let place = member.place?.1;
        if division.competing < 2 {
            member.held = None;
            division.contender_mut(place).held = None;
            return None;
        }
        let ahead = division.budget.ahead();
        let excess = division.update_excess(place, now);
        division.queue_contender(place, now);
        let hweight = division.contender_mut(place).hweight;
        let part = division.budget.part(hweight);
        if is_owed_turn(member.held, now) {
            member.vtime = division::cap_vtime(member.vtime, least, ahead, part, member.hweight);
        }
        let lead = division::lead(member.vtime, least, ahead);
        member.held = held_since_or_now(member.held, lead, now);
        let of_others = division.least_vtime_beside(place, now);
        let own = division.contender_mut(place);
        if is_owed_turn(own.held, now) {
            own.vtime = division::cap_vtime(own.vtime, of_others, ahead, part, own.hweight);
        }
        let lead_beside = division::lead(own.vtime, of_others, ahead);
        own.held = held_since_or_now(own.held, lead_beside, now);
        Some(TurnWait {
            part,
            written: division.written,
            excess: excess.max(lead).max(lead_beside),
        })
    }
}
