// SPDX-License-Identifier: GPL-2.0-only
//! A stretch of writing: as far as a task gets without anything having to be looked at.
//!
//! Where files are kept in large folios (xfs) a write goes folio by folio: it passes the throttle
//! between two, however many pages one has, and a page more of a folio costs less than another
//! folio. The last folio of a stretch is dirty for a flusher when the stretch is over, not before:
//! a flusher that the pass before has woken writes what was dirty by then.

use super::{State, Tasks};
use crate::sched::psi::PsiFlags;
use crate::sim::SimEvent;
use crate::sim::clock::Ns;

/// Pages that a CPU takes from the host's at a time: in guests of 2 GiB each 31st write of a page
/// took longer (`pcp->batch`).
const LIST: u64 = 31;

/// Cost of each further page of a large folio, in percent of the CPU time of one by itself. A
/// write() to xfs of 8 KiB takes 12.2 us in guests that count instructions, after a sleep, one of
/// 64 KiB 28.0 (medians, `scenarios/fsync/fitted-xfs.toml`): 1.4 us a page more, of 6.4.
const FURTHER: u64 = 22;
/// Pages of the largest folio that comes from a CPU's own list (`PAGE_ALLOC_COSTLY_ORDER`).
const COSTLY: u64 = 8;

impl Tasks {
    /// Writes until something has to be looked at, and schedules what follows.
    pub(super) fn write_stretch(&mut self, index: usize) {
        self.change_task_activity(index, PsiFlags::Running);
        let cpu = usize::from(self.entities[index].cpu);
        let (call, page) = (self.machine.call, self.machine.page);
        let start = self.now.max(self.cpus[cpu].free_at);
        let most = self.slice_left(index);
        let runs_on = self.needs_no_wait_between(index);
        let maps = self.jobs[self.tasks[index].job].work.maps;
        let again = match maps {
            true => self.machine.store,
            false => self.machine.rewrite,
        };
        let file = self.tasks[index].file;
        let large_folios = self.files[file].large_folios;
        // Pages that follow each other come into the cache together: the first, and how many.
        let (mut first, mut pages, mut charged) = (0, 0, 0);
        let mut time = 0;
        let mut folio;
        let mut copied = None;
        let next = loop {
            if self.tasks[index].op_left == 0 {
                self.begin_operation(index, start + time);
                time += call;
            }
            if std::mem::take(&mut self.tasks[index].is_cold) {
                time += self.machine.wake;
            }
            let allowed = self.dirty_pages_until_pass(index, cpu);
            let task = &self.tasks[index];
            folio = match large_folios {
                true => self.files[file].folio_pages_at(task.op_at, task.op_left),
                false => 1,
            };
            let within = ((most.saturating_sub(time)) / page.max(1)).max(1);
            let (count, enough) = match allowed {
                _ if folio > 1 => (folio, u64::MAX),
                0 => (1, 1),
                enough => (task.op_left.min(within), enough),
            };
            let at = task.op_at;
            let count = self.writable_pages(file, at, count, pages);
            if count == 0 {
                break State::Scarce;
            }
            let count = match (maps, self.files[file].fat) {
                (true, _) => self.cached_pages_from(file, at, count),
                (false, Some(end)) => count.min(end.saturating_sub(at)),
                (false, None) => count,
            };
            if count == 0 {
                break State::Faulting;
            }
            let (went, fresh) = self.files[file].pages.set(at, count, enough);
            time += match folio {
                1 => fresh * page + (went - fresh) * again,
                _ if fresh > 0 => page + (went - 1) * page * FURTHER / 100,
                _ => again + (went - 1) * again * FURTHER / 100,
            };
            copied = (folio > 1 && fresh == went).then_some((at, went));
            if folio > self.files[file].folio_pages {
                self.files[file].folio_pages = folio;
            }
            if fresh > 0 {
                self.account_dirtied(file, fresh);
            }
            self.cpus[cpu].bdp_ratelimits += fresh;
            if pages > 0 && at != first + pages {
                charged += self.add_to_page_cache(file, first, pages);
                pages = 0;
            }
            if pages == 0 {
                first = at;
            }
            pages += went;
            let task = &mut self.tasks[index];
            task.dirtier.nr_dirtied += fresh;
            task.dirtier.unreported += fresh;
            task.op_left -= went;
            task.op_at += went;
            if fresh >= allowed {
                self.take_over_leaked_pages(index, cpu);
                break State::Writing(true);
            }
            let is_over = self.tasks[index].op_left == 0;
            let owes = self.tasks[index].dirtier.has_owed_pace();
            if time >= most || (is_over && (owes || !(runs_on && self.next_stays_in_round(index))))
            {
                break State::Writing(false);
            }
            if is_over {
                let at = start + time;
                if at >= self.tasks[index].end {
                    break State::Writing(false);
                }
                self.end_operation(index, at);
            }
        };
        let cached = self.files[file].cached;
        self.tasks[index].charged += charged + self.add_to_page_cache(file, first, pages);
        if folio <= COSTLY {
            let pages = self.files[file].cached.saturating_sub(cached);
            time += self.refill_cost(cpu, pages) / folio;
        }
        self.tasks[index].state = next;
        let over = self.occupy_cpu(cpu as u16, time);
        self.files[file].copied = copied.map(|(at, _)| (at, over));
        if let Some((_, pages)) = copied {
            let wb = self.files[file].wb as usize;
            self.wbs[wb].copied = (pages, over);
        }
        self.schedule_event(over, SimEvent::Task(index as u32));
    }

    /// CPU time of filling the CPU's own list of free pages again, of which `pages` were taken.
    fn refill_cost(&mut self, cpu: usize, pages: u64) -> Ns {
        let refill = self.machine.refill;
        let taken = &mut self.cpus[cpu].pcp_taken;
        *taken += pages;
        let refills = *taken / LIST;
        *taken %= LIST;
        refills * refill
    }

    /// Pages that may become dirty before the task passes; with 0 it passes after the next page
    /// whatever becomes of it.
    fn dirty_pages_until_pass(&self, index: usize, cpu: usize) -> u64 {
        let task = &self.tasks[index].dirtier;
        let most = if self.wbs[task.wb as usize].exceeded {
            task.nr_dirtied_pause.min(8)
        } else {
            task.nr_dirtied_pause
        };
        let cpu = &self.cpus[cpu];
        let left = most.saturating_sub(task.nr_dirtied);
        left.saturating_sub(cpu.dirty_throttle_leaks)
            .min(self.ratelimit_pages.saturating_sub(cpu.bdp_ratelimits))
    }

    /// Before a pass: the CPU's count begins anew, and the task answers for those who have ended
    /// there.
    fn take_over_leaked_pages(&mut self, index: usize, cpu: usize) {
        let cpu = &mut self.writeback.cpus[cpu];
        let task = &mut self.tasks[index].dirtier;
        cpu.bdp_ratelimits = 0;
        let room = task.nr_dirtied_pause.saturating_sub(task.nr_dirtied);
        let takes = cpu.dirty_throttle_leaks.min(room);
        cpu.dirty_throttle_leaks -= takes;
        task.nr_dirtied += takes;
    }
}
