// SPDX-License-Identifier: GPL-2.0-only
//! Operations of a task: where each is in the file, what it counts for, and when the next may
//! begin.

use super::{State, Task, Tasks};
use crate::sched::psi::PsiFlags;
use crate::sim::SimEvent;
use crate::sim::clock::{Ns, SECOND};
use crate::task::fio::Work;

impl Task {
    /// The first page of an operation, by how many came before.
    pub(super) fn first_page_of(&self, work: &Work, ops: u64) -> u64 {
        let (round, place) = (ops / work.ops, ops % work.ops);
        let order = self.order.as_ref();
        order.map_or(place, |order| order.number_at(round, place)) * work.op_pages
    }
}

impl Tasks {
    pub(super) fn begin_operation(&mut self, index: usize, at: Ns) {
        let task = &mut self.tasks[index];
        let work = &self.jobs[task.job].work;
        (task.op_left, task.op_at, task.op_began) =
            (work.op_pages, task.first_page_of(work, task.ops), at);
        if let Some(network) = work.network {
            let full = at.saturating_sub(network.fills);
            task.received_from = task.received_from.max(full) + network.operation;
        }
    }

    pub(super) fn end_operation(&mut self, index: usize, at: Ns) {
        let task = &mut self.tasks[index];
        let job = &mut self.jobs[task.job];
        task.ops += 1;
        task.since_thought += 1;
        if at >= task.measured_from {
            job.latencies
                .add(at - task.op_began.max(task.measured_from), 1);
            let bytes = job.work.op_pages * crate::mm::domain::PAGE;
            job.bytes += bytes;
            job.each[task.number] += bytes;
        }
    }

    /// Operations, the first of which has begun, that wait for nothing but a CPU and take so much
    /// of it each: as many as there are until a tick is over or something has to be looked at.
    /// Schedules what follows.
    pub(super) fn schedule_operation(
        &mut self,
        index: usize,
        each: Ns,
        has_next: impl Fn(&Tasks) -> bool,
    ) {
        self.change_task_activity(index, PsiFlags::Running);
        let cpu = self.entities[index].cpu;
        let start = self.now.max(self.cpus[usize::from(cpu)].free_at);
        let most = self.slice_left(index);
        let mut time = 0;
        loop {
            time += each;
            if std::mem::take(&mut self.tasks[index].is_cold) {
                time += self.machine.wake;
            }
            self.tasks[index].op_left = 0;
            let at = start + time;
            let is_over = time >= most || at >= self.tasks[index].end;
            if is_over || !self.needs_no_wait_between(index) || !has_next(self) {
                break;
            }
            self.end_operation(index, at);
            self.begin_operation(index, at);
        }
        self.tasks[index].state = State::Writing(false);
        let over = self.occupy_cpu(cpu, time);
        self.schedule_event(over, SimEvent::Task(index as u32));
    }

    /// Time at which the next operation may begin, if not now.
    pub(super) fn next_start(&mut self, index: usize) -> Option<Ns> {
        let now = self.now;
        let task = &mut self.tasks[index];
        let work = &self.jobs[task.job].work;
        let mut until = now;
        if let Some((time, after)) = work.think {
            if task.since_thought >= after {
                task.since_thought = 0;
                until = now + time;
            }
        }
        if let Some(rate) = work.rate {
            let bytes = u128::from(task.ops * work.op_pages * crate::mm::domain::PAGE);
            let due = (bytes * u128::from(SECOND) / u128::from(rate)) as Ns;
            until = until.max(task.start + due);
        }
        if let Some(network) = work.network {
            until = until.max(task.received_from + network.operation);
        }
        // A process that waits beyond its end does so no longer than that.
        let until = until.min(task.end);
        (until > now).then_some(until)
    }

    /// `true` if the operation after the one under way is of the same round, or that makes no
    /// difference.
    pub(super) fn next_stays_in_round(&self, index: usize) -> bool {
        let task = &self.tasks[index];
        let work = &self.jobs[task.job].work;
        !work.forgets || (task.ops + 1) % work.ops != 0
    }

    /// `true` if the next operation of a stretch may follow the last at once.
    pub(super) fn needs_no_wait_between(&self, index: usize) -> bool {
        let work = &self.jobs[self.tasks[index].job].work;
        work.rate.is_none() && work.think.is_none() && work.sync.is_none() && work.network.is_none()
    }
}
