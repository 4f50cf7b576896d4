// SPDX-License-Identifier: GPL-2.0-only
//! A task that needs memory: it takes what is free, and where that is too little looks for clean
//! pages itself, or waits for some.
//!
//! The same within `memory.max`: where a cgroup has no clean page left to give up for another, the task
//! looks through all that it holds, again and again, and has all written. If nothing was written in 16
//! times, a job of the cgroup is killed (`reclaim_memcg`). No task waits in this: MGLRU, which Debian's
//! 6.12 has on, does not throttle reclaim of a cgroup. Example: 64 MiB are 16,384 pages, each of which
//! is looked at four times in a try; 17 tries take 1.1 s at 1 us a page. A disk that completes a bio in
//! that time keeps the job alive.
//!
//! A task with memory of its own (fio's `null` engine: `iodepth` buffers of `bs`, filled before it
//! begins) takes it page by page, and frees it at its end.

use super::{State, Task, Tasks};
use crate::blk::Waiter;
use crate::mm::effort::{MAX_RECLAIM_RETRIES, SWAP_CLUSTER_MAX};
use crate::mm::scan_control::Reclaimer;
use crate::mm::throttle::{KSWAPD, Nap};
use crate::sched::psi::PsiFlags;
use crate::sim::SimEvent;
use crate::sim::clock::{TICK, timer_expiry};
use crate::vmscan::Step;

impl Tasks {
    /// `true` if a task has yet to take memory of its own.
    pub(super) fn must_take_memory(&self, index: usize) -> bool {
        let task = &self.tasks[index];
        task.held < self.jobs[task.job].work.holds
    }

    /// Takes as much of it as it gets at once, for a tick at most; little by little where kswapd is
    /// about to be woken.
    pub(super) fn take_memory(&mut self, index: usize) {
        let task = &self.tasks[index];
        if self.now >= task.end {
            return self.end_task(index);
        }
        let left = self.jobs[task.job].work.holds - task.held;
        let within = (TICK / self.machine.page.max(1)).max(1);
        let plenty = self.zone.free.saturating_sub(self.zone.marks.low);
        let pages = left
            .min(within)
            .min(plenty.max(SWAP_CLUSTER_MAX))
            .min(self.zone.pages_above_min());
        if pages == 0 {
            return self.start_reclaim(index);
        }
        self.change_task_activity(index, PsiFlags::Running);
        let task = &mut self.tasks[index];
        task.held += pages;
        task.state = State::Idle;
        let cgroup = task.home;
        self.charge_anonymous(cgroup, pages);
        let (cpu, time) = (self.entities[index].cpu, pages * self.machine.page);
        let over = self.occupy_cpu(cpu, time);
        self.schedule_event(over, SimEvent::Task(index as u32));
    }

    /// Lets go of it.
    pub(super) fn give_memory_back(&mut self, index: usize) {
        let Task { held, home, .. } = &mut self.tasks[index];
        let (cgroup, pages) = (*home, std::mem::take(held));
        self.uncharge_anonymous(cgroup, pages);
    }

    /// Number of `count` pages of a file from `at` on that it can write to without looking for
    /// memory first, after `taken` others.
    pub(super) fn writable_pages(&self, file: usize, at: u64, count: u64, taken: u64) -> u64 {
        // What was taken is dirty, and no more chargeable, already.
        let at_once = self.zone.pages_above_min().saturating_sub(taken);
        let at_once = at_once.min(self.chargeable_pages(file).0);
        if count <= at_once {
            return count;
        }
        match self.files[file].cache.run_alike(at, at + count) {
            (true, cached) => cached,
            (false, absent) => absent.min(at_once),
        }
    }

    /// Looks for clean pages, unless there are free ones by now.
    pub(super) fn start_reclaim(&mut self, index: usize) {
        let (chargeable, limited) = self.chargeable_pages(self.tasks[index].file);
        if chargeable == 0 {
            return self.reclaim_memcg(index, limited);
        }
        if self.zone.pages_above_min() > 0 {
            self.tasks[index].vain = 0;
            self.tasks[index].state = State::Found;
            return self.continue_task(index);
        }
        if self.node.is_some() {
            return self.begin_page_reclaim(index);
        }
        let look = self.reclaim_clean_pages(SWAP_CLUSTER_MAX);
        self.zone.reclaimed.stalls += 1;
        self.zone.reclaimed.pgscan_direct += look.scanned;
        self.change_task_activity(index, PsiFlags::MemstallRunning);
        let cpu = self.entities[index].cpu;
        let time = self.machine.call + look.scanned * self.machine.scan;
        let over = self.occupy_cpu(cpu, time);
        let task = &mut self.tasks[index];
        task.is_cold = true;
        task.state = State::Found;
        if look.taken > 0 {
            task.vain = 0;
            self.zone.reset_kswapd_failures();
        } else {
            // The second time around counts as well.
            self.writeback.zone.reclaimed.stalls += 1;
            task.vain += 1;
            task.state = State::Short;
            if task.vain > MAX_RECLAIM_RETRIES {
                task.vain = 0;
                self.kill_largest();
            }
        }
        self.schedule_event(over, SimEvent::Task(index as u32));
    }

    /// Looks for a clean page in the cgroup whose `memory.max` is reached: there is none now, but what
    /// it looks takes time.
    fn reclaim_memcg(&mut self, index: usize, limited: usize) {
        /// Looks at each page in a try, over all priorities: 73 and 110 in the 17 tries before two
        /// kills in guests (`pgscan` of the cgroup).
        const ROUNDS: u64 = 4;
        let scanned = ROUNDS * self.cgroups[limited].subtree_file;
        (0..self.wbs.len()).for_each(|wb| self.start_full_writeback(wb));
        let task = &mut self.tasks[index];
        task.vain += 1;
        task.is_cold = true;
        task.state = State::Scarce;
        if task.vain > MAX_RECLAIM_RETRIES {
            task.vain = 0;
            self.kill_in_cgroup(limited);
            if self.tasks[index].state == State::Over {
                return;
            }
        }
        self.change_task_activity(index, PsiFlags::MemstallRunning);
        let cpu = self.entities[index].cpu;
        let time = self.machine.call + scanned * self.machine.scan;
        let over = self.occupy_cpu(cpu, time);
        self.schedule_event(over, SimEvent::Task(index as u32));
    }

    /// Kills the first job that runs in a cgroup or below it: all of its processes there, as a fio
    /// without one of them has no result.
    fn kill_in_cgroup(&mut self, limited: usize) {
        let is_inside = |tasks: &Tasks, task: &Task| {
            let mut next = Some(task.home);
            while let Some(at) = next.filter(|at| *at != limited) {
                next = tasks.cgroups[at].parent;
            }
            next.is_some() && task.state != State::Over
        };
        let Some(first) = self.tasks.iter().find(|task| is_inside(self, task)) else {
            return;
        };
        let (job, home) = (first.job, first.home);
        self.zone.reclaimed.kills += 1;
        let mut next = Some(home);
        while let Some(at) = next {
            self.cgroups[at].kills += 1;
            next = self.cgroups[at].parent;
        }
        self.jobs[job].killed = true;
        for index in 0..self.tasks.len() {
            if self.tasks[index].job == job && is_inside(self, &self.tasks[index]) {
                self.end_task(index);
            }
        }
    }

    /// It has found none: after the time that took it waits for a tick, goes around once more, and
    /// waits for another.
    pub(super) fn wait_for_memory(&mut self, index: usize) {
        self.change_task_activity(index, PsiFlags::Memstall);
        self.tasks[index].state = State::Scarce;
        let at = timer_expiry(timer_expiry(self.now, 1), 1);
        self.schedule_timer(at, SimEvent::Task(index as u32));
    }

    /// Reclaims page by page, where these are kept so: begins to.
    fn begin_page_reclaim(&mut self, index: usize) {
        let task = &mut self.tasks[index];
        task.naps += 1;
        task.reclaimer = Some(Box::new(Reclaimer::for_task(task.naps)));
        task.is_cold = true;
        task.state = State::Reclaiming;
        self.zone.reclaimed.stalls += 1;
        self.wake_kswapd_if_low();
        self.continue_reclaim(index);
    }

    /// Goes on with that.
    pub(super) fn continue_reclaim(&mut self, index: usize) {
        let Some(mut by) = self.tasks[index].reclaimer.take() else {
            self.tasks[index].state = State::Scarce;
            return self.start_reclaim(index);
        };
        let cpu = self.entities[index].cpu;
        match self.reclaim_step(&mut by, cpu) {
            Step::Done => return self.end_task_reclaim(index, by.nr_reclaimed),
            Step::Computes(time) => {
                self.change_task_activity(index, PsiFlags::MemstallRunning);
                self.count_reclaim_time(time);
                let cpu = self.entities[index].cpu;
                let over = self.occupy_cpu(cpu, time);
                self.schedule_event(over, SimEvent::Task(index as u32));
            }
            Step::Sleeps(nap) => {
                let task = &mut self.tasks[index];
                task.naps += 1;
                by.number = task.naps;
                self.sleep_in_reclaim(index, &mut by, nap);
            }
            Step::Waits(device, hctx) => {
                self.devices[device].add_slot_waiter(Waiter::Task(index as u32), hctx);
                self.change_task_activity(index, PsiFlags::Memstall);
                self.tasks[index].state = State::SwappingOut;
            }
        }
        self.tasks[index].reclaimer = Some(by);
    }

    /// Sleeps in reclaim.
    fn sleep_in_reclaim(&mut self, index: usize, by: &mut Reclaimer, nap: Nap) {
        by.nap = Some((nap, self.current_tick()));
        self.begin_reclaim_sleep(index as u32, by.number, nap);
        self.change_task_activity(index, PsiFlags::Memstall);
        let at = timer_expiry(self.now, nap.0);
        self.schedule_timer(at, SimEvent::Reclaim(index as u32, by.number));
    }

    /// Such a sleep ends, of a task or kswapd, if it is the one of this number.
    pub fn wake_reclaimer(&mut self, who: u32, number: u32) {
        if who == KSWAPD {
            return self.end_kswapd_sleep(number);
        }
        let now = self.current_tick();
        let by = self.tasks[who as usize].reclaimer.as_mut();
        let nap = by
            .filter(|by| by.number == number)
            .and_then(|by| by.nap.take());
        if let Some((nap, since)) = nap {
            self.end_reclaim_sleep(who, nap, now - since);
            self.continue_task(who as usize);
        }
    }

    /// It has gone through all it could, and taken so many pages.
    fn end_task_reclaim(&mut self, index: usize, pages: u64) {
        let task = &mut self.tasks[index];
        task.vain = if pages > 0 { 0 } else { task.vain + 1 };
        let vain = task.vain;
        if pages > 0 {
            self.zone.reset_kswapd_failures();
        } else if vain > MAX_RECLAIM_RETRIES {
            self.tasks[index].vain = 0;
            self.kill_largest();
            if self.tasks[index].state == State::Over {
                return;
            }
        } else if let Some(nap) = self.choose_congestion_nap() {
            let task = &mut self.tasks[index];
            task.naps += 1;
            // Through once more when it wakes, if it has to.
            let mut by = Box::new(Reclaimer::for_task(task.naps));
            self.sleep_in_reclaim(index, &mut by, nap);
            self.tasks[index].reclaimer = Some(by);
            return;
        }
        self.tasks[index].state = State::Found;
        self.start_next_step(index);
    }

    /// A task that reclaims is no more.
    pub(super) fn stop_reclaim(&mut self, index: usize) {
        if let Some(mut by) = self.tasks[index].reclaimer.take() {
            self.abort_reclaim(index as u32, &mut by);
        }
    }

    /// An operation of the null engine: nothing but the call.
    pub(super) fn run_null_operation(&mut self, index: usize) {
        self.begin_operation(index, self.now);
        self.schedule_operation(index, self.machine.call.max(1), |_| true);
    }

    /// Kills the task that holds most, if one holds memory.
    fn kill_largest(&mut self) {
        let tasks = self.tasks.iter().enumerate();
        let holds = |task: &Task| task.held + self.pages_mapped_by(task);
        let most = tasks.max_by_key(|(index, task)| (holds(task), std::cmp::Reverse(*index)));
        if let Some((index, _)) = most.filter(|(_, task)| holds(task) > 0) {
            self.zone.reclaimed.kills += 1;
            self.end_task(index);
        }
    }
}
