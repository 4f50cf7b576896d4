// SPDX-License-Identifier: GPL-2.0-only
//! A task: one process of a fio job, writing or reading through the page cache.
//!
//! An operation costs CPU time for the call and for each page; who wants the same CPU takes turns
//! (sched/rq.rs). Pages become dirty in stretches that end where the throttle is to be passed, where
//! the operation or the file ends, or after a tick. Between operations it may wait: for its rate
//! (fio keeps to a schedule from its start, and catches up without pausing when it is late), or to
//! think. Its time is up when an operation ends after it.
//!
//! A task that ends leaves pages it has not answered for to the next task that makes a pass on its
//! CPU.
//!
//! Operations: operation.rs. Stretches: stretch.rs. How it meets the throttle: pass.rs. Mappings:
//! fault.rs. Readers: read.rs. fsync: sync.rs. Who maps memory: alloc.rs. Who needs some: reclaim.rs. What is
//! complete, and goes up: completion.rs.

pub mod alloc;
mod completion;
mod fault;
pub mod fio;
mod high;
pub mod latency;
mod operation;
mod pass;
mod read;
mod reclaim;
mod stretch;
mod sync;

use crate::jbd2::Handle;
use crate::mm::Dirtier;
use crate::mm::scan_control::Reclaimer;
use crate::sched::psi::PsiFlags;
use crate::sim::SimEvent;
use crate::sim::clock::Ns;
use crate::sim::random::Shuffle;
use crate::writeback::Writeback;
use crate::writeback::throttle::Passed;
use alloc::{Allocator, Mapped};
use fio::Work;
use latency::Latencies;
use read::FileReader;
use sync::Step;

/// A job in a phase, with what its processes have done.
#[derive(Clone, Debug)]
pub struct PhaseJob {
    /// Work of each process.
    pub work: Work,
    /// Of writes that ended in the measured time.
    pub latencies: Latencies,
    /// Of calls of fsync and fdatasync, likewise.
    pub syncs: Latencies,
    /// Bytes they wrote.
    pub bytes: u64,
    /// The longest any process was measured.
    pub runtime: Ns,
    /// Bytes that each process wrote.
    pub each: Vec<u64>,
    /// Counts of what they mapped.
    pub mapped: Mapped,
    /// A process was killed for memory.
    pub killed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// fio starts, and needs a CPU for so long yet.
    Starting(Ns),
    /// Not in an operation.
    Idle,
    /// In a stretch; a pass follows if true.
    Writing(bool),
    /// Asleep in the throttle.
    Throttled,
    /// Waits, at the end of an operation, for what it owes by bandwidth.
    Owing,
    /// Sleeps for what its cgroup holds above `memory.high`.
    OverHigh,
    /// Waits for pages to be read.
    Reading,
    /// A commit has its inode.
    Stamping,
    /// Reads a page first that it is to write to.
    Faulting,
    /// Has found memory.
    Found,
    /// Has found none, and waits next.
    Short,
    /// Looks for memory next.
    Scarce,
    /// Reclaims, page by page.
    Reclaiming,
    /// The same, and waits for a slot of the swap disk.
    SwappingOut,
    /// Waits for pages from the swap disk.
    SwappingIn,
    /// Writes its file back and waits for that.
    Syncing(Step),
    /// The task has ended.
    Over,
}

/// One process of a fio job.
#[derive(Clone, Debug)]
pub struct Task {
    job: usize,
    number: usize,
    file: usize,
    /// Index of its cgroup.
    home: usize,
    /// Pages of its own, and how often in a row it found no more.
    pub held: u64,
    vain: u32,
    /// Pages charged to its cgroup since it was last held to `memory.high`.
    charged: u64,
    /// State that the throttle keeps of it.
    pub dirtier: Dirtier,
    state: State,
    pass_began: Ns,
    pauses: u64,
    /// It has slept since it last wrote.
    is_cold: bool,
    /// Pages left of the operation, and when it began.
    op_left: u64,
    op_began: Ns,
    sync_began: Ns,
    op_at: u64,
    /// Operations so far, since it last thought.
    ops: u64,
    since_thought: u64,
    /// Time from which on data have come that it has not taken.
    received_from: Ns,
    start: Ns,
    measured_from: Ns,
    end: Ns,
    order: Option<Shuffle>,
    /// Pages that a reader has asked for.
    reader: Option<Box<FileReader>>,
    /// State of a task that maps memory, and of one that reclaims page by page.
    alloc: Option<Box<Allocator>>,
    reclaimer: Option<Box<Reclaimer>>,
    /// Number of times that it has slept there.
    naps: u32,
}

impl Task {
    /// Index of its job among the phase's.
    pub fn job_index(&self) -> usize {
        self.job
    }

    /// Bytes it has written so far in the phase of these jobs.
    pub fn bytes_written(&self, jobs: &[PhaseJob]) -> u64 {
        jobs[self.job].each[self.number]
    }
}

/// Processes of jobs.
#[derive(Clone, Debug)]
pub struct Tasks {
    writeback: Writeback,
    /// Tasks, of this and earlier phases.
    pub tasks: Vec<Task>,
    /// Jobs of this phase.
    pub jobs: Vec<PhaseJob>,
    /// Tasks that have not ended.
    pub busy: u32,
}

above!(Tasks.writeback: Writeback, tasks, jobs, busy);

impl Tasks {
    /// Starts process `number` of a job on `file` in the cgroup `home` at the time `start`; it is
    /// measured after its ramp, until `end`.
    pub fn start_task(
        &mut self,
        (job, number): (usize, usize),
        (file, home): (usize, usize),
        (start, end): (Ns, Ns),
        counts_from: Ns,
    ) {
        let work = &self.jobs[job].work;
        let (random, ops, ramp) = (work.random, work.ops, work.ramp);
        let reader = work
            .reads
            .then(|| Box::new(FileReader::new(ops * work.op_pages)));
        let alloc = work
            .maps_memory
            .map(|maps| Box::new(Allocator::new(maps, counts_from)));
        let key = self.random.next();
        let (index, wb) = (self.tasks.len(), self.files[file].wb);
        let pressure = self.cgroups[home].pressure;
        self.add_task(pressure);
        self.tasks.push(Task {
            job,
            number,
            file,
            home,
            held: 0,
            vain: 0,
            charged: 0,
            dirtier: Dirtier::new(index, wb, home),
            state: State::Idle,
            pass_began: 0,
            pauses: 0,
            is_cold: true,
            op_left: 0,
            op_began: 0,
            sync_began: 0,
            op_at: 0,
            ops: 0,
            since_thought: 0,
            received_from: start,
            start,
            measured_from: start + ramp,
            end,
            order: random.then(|| Shuffle::new(ops, key)),
            reader,
            alloc,
            reclaimer: None,
            naps: 0,
        });
        self.busy += 1;
        let mut begins = start;
        // Its first process starts the others.
        if number == 0 && self.machine.start > 0 {
            self.tasks[index].state = State::Starting(self.machine.start);
            begins -= self.machine.start;
        }
        self.schedule_event(begins, SimEvent::Task(index as u32));
    }

    /// Goes on with what was scheduled for a task.
    pub fn continue_task(&mut self, index: usize) {
        if self.tasks[index].state == State::Over || !self.claim_cpu(index) {
            return;
        }
        match self.tasks[index].state {
            State::Starting(0) => self.tasks[index].state = State::Idle,
            State::Starting(left) => return self.continue_start_up(index, left),
            State::Over
            | State::Idle
            | State::Reading
            | State::Stamping
            | State::Found
            | State::OverHigh => {}
            State::Short => return self.wait_for_memory(index),
            State::Scarce => return self.start_reclaim(index),
            State::Reclaiming => return self.continue_reclaim(index),
            State::SwappingOut | State::SwappingIn => {}
            State::Syncing(step) => return self.continue_sync(index, step),
            State::Faulting => return self.fault_page(index),
            State::Writing(passes) => {
                if passes && self.begin_pass(index) == Passed::Sleep {
                    return;
                }
            }
            State::Throttled => {
                let now = self.now;
                if let Some(trace) = &mut self.trace {
                    trace.push(observe::event::Event {
                        ns: now,
                        task: crate::trace::task_id(index as u32),
                        what: observe::event::What::Woke,
                    });
                }
                let dirtier = &mut self.tasks[index].dirtier;
                dirtier.end_sleep();
                self.writeback.weir_end_pause(dirtier);
                if dirtier.sleeper.again {
                    if self.retry_pass(index) == Passed::Sleep {
                        return;
                    }
                } else {
                    self.end_pass(index, None);
                }
            }
            State::Owing => {
                if self.continue_bandwidth_wait(index) == Passed::Sleep {
                    return;
                }
            }
        }
        self.start_next_step(index);
    }

    /// Uses some of the CPU time that fio takes before its first operation.
    fn continue_start_up(&mut self, index: usize, left: Ns) {
        let step = self.slice_left(index).clamp(1, left);
        self.tasks[index].state = State::Starting(left - step);
        let cpu = self.entities[index].cpu;
        let over = self.occupy_cpu(cpu, step);
        self.schedule_event(over, SimEvent::Task(index as u32));
    }

    /// Goes on where the last stretch ended.
    fn start_next_step(&mut self, index: usize) {
        if self.throttle_over_high(index) {
            return;
        }
        if self.must_take_memory(index) {
            return self.take_memory(index);
        }
        if self.tasks[index].alloc.is_some() {
            return self.run_allocator(index);
        }
        let (left, state) = (self.tasks[index].op_left, self.tasks[index].state);
        if left == 0 {
            if state != State::Idle {
                if self.begin_bandwidth_wait(index) == Passed::Sleep {
                    return;
                }
                self.end_operation(index, self.now);
                if self.must_sync(index) {
                    self.tasks[index].sync_began = self.now;
                    return self.continue_sync(index, Step::Pages);
                }
                if self.starts_round_anew(index) {
                    return self.continue_sync(index, Step::Forget);
                }
            }
            if let Some(until) = self.next_start(index) {
                self.change_task_activity(index, PsiFlags::Nothing);
                self.tasks[index].state = State::Idle;
                self.tasks[index].is_cold = true;
                self.schedule_event(until, SimEvent::Task(index as u32));
                return;
            }
            if self.now >= self.tasks[index].end {
                self.end_task(index);
                return;
            }
        }
        if self.tasks[index].held > 0 {
            self.run_null_operation(index);
        } else if self.tasks[index].reader.is_some() {
            self.run_reader(index);
        } else if self.tasks[index].op_left > 0 || self.stamp_or_wait(index) {
            self.write_stretch(index);
        }
    }

    /// A write() begins; false if it waits for a commit first.
    fn stamp_or_wait(&mut self, index: usize) -> bool {
        let task = &self.tasks[index];
        let work = &self.jobs[task.job].work;
        let handle = Handle::Write(index as u32, work.grows && task.ops < work.ops);
        let file = task.file;
        let stamped = self.begin_change_or_wait(handle, file);
        if !stamped {
            self.begin_operation(index, self.now);
            self.change_task_activity(index, PsiFlags::Iowait);
            self.tasks[index].state = State::Stamping;
            self.tasks[index].is_cold = true;
        }
        stamped
    }

    fn end_task(&mut self, index: usize) {
        self.change_task_activity(index, PsiFlags::Nothing);
        self.give_memory_back(index);
        self.stop_reclaim(index);
        if let Some(mut alloc) = self.tasks[index].alloc.take() {
            self.unmap_all(&mut alloc);
        }
        let task = &mut self.tasks[index];
        let (file, state) = (task.file, std::mem::replace(&mut task.state, State::Over));
        let leaks = std::mem::take(&mut task.dirtier.nr_dirtied);
        self.writeback.weir_charge_bandwidth(&mut task.dirtier);
        let job = &mut self.jobs[task.job];
        let runtime = self.writeback.now.saturating_sub(task.measured_from);
        job.runtime = job.runtime.max(runtime);
        let unlink = job.work.unlink;
        let cpu = self.entities[index].cpu;
        self.cpus[usize::from(cpu)].dirty_throttle_leaks += leaks;
        if state == State::Stamping {
            self.cancel_waiting_change(index, file);
        }
        if unlink {
            self.truncate_pages(file);
        }
        self.busy -= 1;
    }

    /// The phase ends with the task still in an operation: that ends here too, as if it had been
    /// let go.
    pub fn end_unfinished_task(&mut self, index: usize) {
        if self.tasks[index].state == State::Over {
            return;
        }
        let task = &self.tasks[index];
        if task.alloc.is_some() {
            return self.end_task(index);
        }
        let wants_memory = [
            State::Found,
            State::Short,
            State::Scarce,
            State::Reclaiming,
            State::SwappingOut,
        ]
        .contains(&task.state);
        let is_idle = matches!(
            task.state,
            State::Idle | State::Starting(_) | State::Syncing(_)
        );
        let is_between = wants_memory || is_idle;
        if task.op_left > 0 || !is_between {
            self.end_operation(index, self.now);
        }
        self.end_task(index);
    }
}
