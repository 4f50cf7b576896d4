// SPDX-License-Identifier: GPL-2.0-only
//! The simulated host: everything there is, what happens next, and the counts that must come out
//! even.
//!
//! Events are ordered by time, and those of one time by when they were planned, but for those who
//! sleep whole ticks: they come first then, and in the opposite order. The order is total, so a run
//! is the same every time and everywhere. All state is integers.
//!
//! Pages: account.rs. What the host is made of: state.rs.

mod account;
mod state;

pub use state::{Cgroup, Counts, Cpu, File, Machine, Samples, Wb};

use crate::clock::{Ns, Ticks, ticks};
use crate::device::Device;
use crate::domain::{Domain, Sysctl};
use crate::journal::Journal;
use crate::memory::Memory;
use crate::psi::{Doing, HOST, Psi};
use crate::ram::Ram;
use crate::random::Random;
use crate::task::{Job, Task};
use crate::weir::Weir;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// A task goes on.
    Task(u32),
    /// A flusher goes on, if nothing else has woken it since it was planned with this number.
    Flusher(u32, u32),
    /// The first request of a disk is complete.
    Complete(u32),
    /// A server commits what it has taken.
    Commit(u32),
    /// A limit of a cgroup on a disk, of reads or of writes, may let more through.
    Limit(u32, u32, bool),
    /// A disk stands still.
    Stall(u32),
    /// A filesystem's journal is due.
    Journal(u32),
    /// A writeback's bandwidth is measured anew.
    Bandwidth(u32),
    /// The kernel brings the cgroups' counts up to date.
    Refresh,
    /// Pressure is averaged.
    Pressure,
    /// kswapd goes on.
    Kswapd,
    /// The beat of weir's module.
    Beat,
    /// weir counts the holders of floors.
    Recount,
    /// The sampler looks at the host, as the lab does.
    Sample,
    /// The sampler has finished.
    Looked,
    /// Memory is touched, read and moved.
    Memory,
    /// weir's agent looks at the tiers.
    Agent,
}

/// Of events at the same time, those of tasks that sleep whole ticks come before this, others
/// after.
const SLEEPERS: u64 = 1 << 63;

/// The simulated host: clock, events, memory, disks and tasks.
pub struct World {
    /// What time it is.
    pub now: Ns,
    planned: u64,
    events: BinaryHeap<Reverse<(Ns, u64, Event)>>,
    /// How many events there were.
    pub handled: u64,
    /// Random numbers of the run.
    pub random: Random,
    /// What it is made of.
    pub machine: Machine,
    /// Sysctls of the host.
    pub sysctl: Sysctl,
    /// The host's domain.
    pub domain: Domain,
    /// Pages of the whole host.
    pub counts: Counts,
    /// Pages a CPU may dirty unseen.
    pub unseen_most: u64,
    /// The root first.
    pub cgroups: Vec<Cgroup>,
    /// Disks, in file order.
    pub devices: Vec<Device>,
    /// Journals, by disk.
    pub journals: Vec<Journal>,
    /// Writebacks, made when first needed.
    pub wbs: Vec<Wb>,
    /// Which one is whose: by cgroup and disk.
    pub wb_of: BTreeMap<(usize, usize), usize>,
    /// Files of all jobs.
    pub files: Vec<File>,
    /// Tasks, of this and earlier phases.
    pub tasks: Vec<Task>,
    /// Jobs of this phase.
    pub jobs: Vec<Job>,
    /// Tasks that have not ended.
    pub busy: u32,
    /// For the throttle, and for tasks to run on.
    pub cpus: Vec<Cpu>,
    /// Tasks that wait for a CPU.
    pub in_line: usize,
    /// Free pages, page cache, reclaim.
    pub ram: Ram,
    /// Pressure of host and cgroups (PSI).
    pub psi: Psi,
    /// weir, in its arm.
    pub weir: Option<Weir>,
    /// Everything is to be written, limits or not.
    pub syncing: bool,
    /// Tiers, and who holds memory in them.
    pub memory: Memory,
    /// Looked at so far in this phase.
    pub samples: Samples,
    sampling: bool,
    /// The phases so far, if the run is recorded.
    pub watched: Option<Vec<crate::watch::Watched>>,
    /// The CPU that a look is keeping busy.
    looker: Option<u16>,
    /// The phase that has just ended.
    pub span: Option<crate::run::Span>,
}

impl World {
    /// An empty host at the time `now`.
    pub fn new(machine: Machine, sysctl: Sysctl, seed: u64, now: Ns) -> World {
        let (thresh, _) = sysctl.levels(machine.dirtyable, None);
        let mut world = World {
            now,
            planned: 0,
            events: BinaryHeap::new(),
            handled: 0,
            random: Random::new(seed),
            machine,
            sysctl,
            domain: Domain {
                limit: thresh,
                ..Domain::default()
            },
            counts: Counts::default(),
            unseen_most: (thresh / (u64::from(machine.cpus) * 32)).max(16),
            cgroups: Vec::new(),
            devices: Vec::new(),
            journals: Vec::new(),
            wbs: Vec::new(),
            wb_of: BTreeMap::new(),
            looker: None,
            files: Vec::new(),
            tasks: Vec::new(),
            jobs: Vec::new(),
            busy: 0,
            cpus: vec![Cpu::default(); machine.cpus as usize],
            in_line: 0,
            ram: Ram::new(machine.dirtyable, machine.marks),
            psi: Psi::new(machine.cpus, now),
            weir: None,
            syncing: false,
            memory: Memory::default(),
            samples: Samples::default(),
            sampling: false,
            watched: None,
            span: None,
        };
        world.plan(now, Event::Refresh);
        world.plan(now, Event::Pressure);
        world
    }

    /// The tick it is.
    pub fn tick(&self) -> Ticks {
        ticks(self.now)
    }

    /// Plans an event.
    pub fn plan(&mut self, at: Ns, event: Event) {
        debug_assert!(at >= self.now, "planned in the past");
        self.planned += 1;
        let place = SLEEPERS + self.planned;
        self.events.push(Reverse((at, place, event)));
    }

    /// Plans the end of a sleep of whole ticks. Of those that end in one tick the last to begin
    /// ends first: the kernel's timers of a tick are a list that is added to, and taken from, at
    /// its head (`enqueue_timer`). All come before what happens at that time besides: a program's
    /// own sleep, say, has 50 us of slack.
    pub fn plan_wake(&mut self, at: Ns, event: Event) {
        debug_assert!(at > self.now, "planned in the past");
        self.planned += 1;
        let place = SLEEPERS - self.planned;
        self.events.push(Reverse((at, place, event)));
    }

    /// Lets the next event happen, unless it is later than `end`. False if there was none, and it
    /// is `end` then.
    pub fn step(&mut self, end: Ns) -> bool {
        match self.events.peek() {
            Some(Reverse((at, _, _))) if *at <= end => {}
            _ => {
                self.now = end;
                return false;
            }
        }
        let Some(Reverse((at, _, event))) = self.events.pop() else {
            return false;
        };
        self.now = at;
        self.handled += 1;
        match event {
            Event::Task(task) => self.task_goes_on(task as usize),
            Event::Flusher(wb, number) => self.flusher_goes_on(wb as usize, number),
            Event::Complete(device) => self.request_completes(device as usize),
            Event::Commit(device) => self.server_commits(device as usize),
            Event::Limit(device, cgroup, is_read) => {
                self.lets_through(device as usize, cgroup as usize, is_read);
            }
            Event::Stall(device) => self.disk_stands_still(device as usize),
            Event::Journal(device) => self.journal_is_due(device as usize),
            Event::Bandwidth(wb) => self.measure_bandwidth(wb as usize),
            Event::Refresh => self.refresh(),
            Event::Pressure => {
                self.psi.average_by_clock(self.now);
                self.plan(self.now + 2 * crate::clock::SECOND, Event::Pressure);
            }
            Event::Kswapd => self.kswapd_goes_on(),
            Event::Beat => self.weir_beats(),
            Event::Recount => self.weir_recounts(),
            Event::Sample => self.sample(),
            Event::Looked => self.looked(),
            Event::Memory => self.memory_beats(),
            Event::Agent => self.agent_looks(),
        }
        #[cfg(any(test, debug_assertions))]
        self.check(false);
        true
    }

    /// Pages that can be dirty at all.
    pub fn dirtyable(&self) -> u64 {
        self.ram.dirtyable()
    }

    /// The kernel brings what it believes of cgroups up to date every two seconds.
    fn refresh(&mut self) {
        for cgroup in &mut self.cgroups {
            cgroup.believed = cgroup.counts;
            cgroup.believed_file = cgroup.file;
        }
        self.plan(self.now + 2 * crate::clock::SECOND, Event::Refresh);
    }

    /// Looks at the host from now on.
    pub fn start_sampling(&mut self) {
        self.samples.held.clear();
        self.samples.writeback.clear();
        self.samples.cgroups.iter_mut().for_each(Vec::clear);
        self.sampling = true;
        self.plan(self.now, Event::Sample);
    }

    /// The look that is planned will be none.
    pub fn stop_sampling(&mut self) {
        self.sampling = false;
    }

    fn sample(&mut self) {
        if !self.sampling {
            return;
        }
        if self.machine.look > 0 && self.looker.is_none() {
            // A different one each time: it must not drive all other tasks to the others.
            let turn = self.samples.held.len() as u32 % self.machine.cpus;
            let cpu = self.psi.place(turn as u16);
            self.psi
                .turn(cpu, HOST, Doing::Nothing, Doing::Running, self.now);
            self.looker = Some(cpu);
            let over = self.takes_cpu(cpu, self.machine.look);
            self.plan(over, Event::Looked);
        }
        self.saw_levels();
        self.samples.held.push(self.counts.held());
        self.samples.writeback.push(self.counts.writeback);
        for (cgroup, series) in self.cgroups.iter().zip(&mut self.samples.cgroups) {
            series.push(cgroup.subtree.held());
        }
        self.plan(self.now + 50 * crate::clock::MS, Event::Sample);
    }

    /// Queues `time` of computing on `cpu` behind what came before; returns when it is done.
    pub fn takes_cpu(&mut self, cpu: u16, time: Ns) -> Ns {
        let free_at = &mut self.cpus[usize::from(cpu)].free_at;
        *free_at = self.now.max(*free_at) + time;
        *free_at
    }

    fn looked(&mut self) {
        if let Some(cpu) = self.looker.take() {
            self.psi
                .turn(cpu, HOST, Doing::Running, Doing::Nothing, self.now);
        }
    }
}
