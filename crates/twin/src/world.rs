// SPDX-License-Identifier: GPL-2.0-only
//! The simulated host: everything there is, what happens next, and the counts that must come out even.
//!
//! Events are ordered by time, and those of one time by when they were planned: the order is total, so a run is
//! the same every time and everywhere. All state is integers.
//!
//! Pages: what was dirtied is written, dirty, in flight or dropped, for the host, each cgroup and each writeback.

use crate::clock::{Ns, Ticks, ticks};
use crate::controller::Rates;
use crate::device::Device;
use crate::domain::{Domain, Sysctl};
use crate::flusher::Flusher;
use crate::pages::Pages;
use crate::psi::{Doing, Psi};
use crate::random::Random;
use crate::share::Share;
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
    /// A writeback's bandwidth is measured anew.
    Bandwidth(u32),
    /// The kernel brings the cgroups' counts up to date.
    Refresh,
    /// Pressure is averaged.
    Pressure,
    /// weir's heartbeat.
    Beat,
    /// weir counts the holders of floors.
    Recount,
    /// Somebody looks at the host, as the lab does.
    Sample,
    /// He has seen it.
    Looked,
}

/// Pages by what has become of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Dirty, not yet in flight.
    pub dirty: u64,
    /// In flight.
    pub writeback: u64,
    /// Ever dirtied.
    pub dirtied: u64,
    /// Ever written.
    pub written: u64,
    /// Forgotten before they were written.
    pub dropped: u64,
}

impl Counts {
    /// Dirty and in flight.
    pub fn held(&self) -> u64 {
        self.dirty + self.writeback
    }

    /// Whether nothing has been lost or made up.
    #[cfg(any(test, debug_assertions))]
    pub fn is_even(&self) -> bool {
        self.dirtied == self.written + self.dirty + self.writeback + self.dropped
    }
}

/// A cgroup; the first is the root.
#[derive(Clone, Debug)]
pub struct Cgroup {
    /// Below the root; empty for it.
    pub path: String,
    /// Not for the root.
    pub parent: Option<usize>,
    /// Its own pages.
    pub counts: Counts,
    /// Its and its descendants'.
    pub subtree: Counts,
    /// What the kernel believes of them: the counts at the last refresh.
    pub believed: Counts,
    /// Page cache.
    pub file: u64,
    /// As the kernel believes.
    pub believed_file: u64,
    /// In pages, `u64::MAX` without one; `memory.max`.
    pub max: u64,
    /// `memory.high`.
    pub high: u64,
    /// `memory.min`.
    pub min: u64,
    /// Its domain; the root has none.
    pub domain: Domain,
}

/// The writeback of one cgroup on one disk.
#[derive(Clone, Debug)]
pub struct Wb {
    /// Whose.
    pub cgroup: usize,
    /// Where to.
    pub device: usize,
    /// Its pages.
    pub counts: Counts,
    /// What the controller has learnt.
    pub rates: Rates,
    /// Of the host's completions.
    pub share: Share,
    /// Of the cgroup's.
    pub cgroup_share: Share,
    /// A writer found it over its share.
    pub exceeded: bool,
    /// A measurement of bandwidth is planned.
    pub measuring: bool,
    /// Files with pages in flight.
    pub files_in_flight: u32,
    /// Who writes back.
    pub flusher: Flusher,
}

/// A file.
#[derive(Clone, Debug)]
pub struct File {
    /// Whose.
    pub wb: u32,
    /// What is dirty.
    pub pages: Pages,
    /// Pages in flight.
    pub in_flight: u64,
    /// Pages in the cache, counted from the first on.
    pub cached: u64,
    /// Where writeback goes on.
    pub cursor: u64,
    /// On one of its flusher's lists.
    pub listed: bool,
    /// When the first of its dirty pages was dirtied.
    pub dirtied_at: Ticks,
}

/// Costs of a machine, and what it has.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// CPUs.
    pub cpus: u32,
    /// CPU time of a write() besides its pages.
    pub call: Ns,
    /// CPU time of a page that is written to.
    pub page: Ns,
    /// What the first write() after a sleep takes more.
    pub wake: Ns,
    /// CPU time of a look at the host.
    pub look: Ns,
    /// CPU time of a page that a flusher submits, in nanoseconds per 1,024 pages.
    pub flush_1024: Ns,
    /// Pages that can be dirty at all.
    pub dirtyable: u64,
    /// Age at which pages are written whatever the levels.
    pub expire: Ticks,
    /// How often flushers look for such pages; 0 never.
    pub periodic: Ticks,
}

/// What each CPU keeps for the throttle.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu {
    /// Pages dirtied on it since the last pass on it.
    pub unseen: u64,
    /// Left behind by tasks that have ended.
    pub left: u64,
    /// When those are through who want to run on it now.
    pub free_at: Ns,
}

/// What is looked at every 50 ms, in pages.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// Of the host: dirty and in flight.
    pub held: Vec<u64>,
    /// In flight.
    pub writeback: Vec<u64>,
    /// By cgroup: dirty and in flight.
    pub cgroups: Vec<Vec<u64>>,
}

/// The host.
pub struct World {
    /// What time it is.
    pub now: Ns,
    planned: u64,
    events: BinaryHeap<Reverse<(Ns, u64, Event)>>,
    /// How many events there were.
    pub handled: u64,
    /// Chance.
    pub random: Random,
    /// What it is made of.
    pub machine: Machine,
    /// Its limits.
    pub sysctl: Sysctl,
    /// The host's domain.
    pub domain: Domain,
    /// All pages.
    pub counts: Counts,
    /// Pages a CPU may dirty unseen.
    pub unseen_most: u64,
    /// The root first.
    pub cgroups: Vec<Cgroup>,
    /// Disks.
    pub devices: Vec<Device>,
    /// Writebacks, made when first needed.
    pub wbs: Vec<Wb>,
    /// Which one is whose: by cgroup and disk.
    pub wb_of: BTreeMap<(usize, usize), usize>,
    /// Files.
    pub files: Vec<File>,
    /// Tasks, of this and earlier phases.
    pub tasks: Vec<Task>,
    /// Jobs of this phase.
    pub jobs: Vec<Job>,
    /// Tasks that have not ended.
    pub busy: u32,
    /// For the throttle.
    pub cpus: Vec<Cpu>,
    /// Pressure.
    pub psi: Psi,
    /// weir, in its arm.
    pub weir: Option<Weir>,
    /// Everything is to be written, limits or not.
    pub syncing: bool,
    /// Looked at so far in this phase.
    pub samples: Samples,
    sampling: bool,
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
            wbs: Vec::new(),
            wb_of: BTreeMap::new(),
            looker: None,
            files: Vec::new(),
            tasks: Vec::new(),
            jobs: Vec::new(),
            busy: 0,
            cpus: vec![Cpu::default(); machine.cpus as usize],
            psi: Psi::new(machine.cpus, now),
            weir: None,
            syncing: false,
            samples: Samples::default(),
            sampling: false,
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
        self.events.push(Reverse((at, self.planned, event)));
    }

    /// Lets the next event happen, unless it is later than `end`. False if there was none, and it is `end` then.
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
            Event::Bandwidth(wb) => self.measure_bandwidth(wb as usize),
            Event::Refresh => self.refresh(),
            Event::Pressure => {
                self.psi.average(self.now);
                self.plan(self.now + 2 * crate::clock::SECOND, Event::Pressure);
            }
            Event::Beat => self.weir_beats(),
            Event::Recount => self.weir_recounts(),
            Event::Sample => self.sample(),
            Event::Looked => self.looked(),
        }
        #[cfg(any(test, debug_assertions))]
        self.check(false);
        true
    }

    /// Pages that can be dirty at all.
    pub fn dirtyable(&self) -> u64 {
        self.machine.dirtyable
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
            // A different one each time: it must not drive everybody else to the others.
            let turn = self.samples.held.len() as u32 % self.machine.cpus;
            let cpu = self.psi.place(turn as u16);
            self.psi.turn(cpu, Doing::Nothing, Doing::Running, self.now);
            self.looker = Some(cpu);
            let over = self.takes_cpu(cpu, self.machine.look);
            self.plan(over, Event::Looked);
        }
        self.samples.held.push(self.counts.held());
        self.samples.writeback.push(self.counts.writeback);
        for (cgroup, series) in self.cgroups.iter().zip(&mut self.samples.cgroups) {
            series.push(cgroup.subtree.held());
        }
        self.plan(self.now + 50 * crate::clock::MS, Event::Sample);
    }

    /// Somebody has `time` to compute on `cpu`, after those who came before; returns when it is done.
    pub fn takes_cpu(&mut self, cpu: u16, time: Ns) -> Ns {
        let free_at = &mut self.cpus[usize::from(cpu)].free_at;
        *free_at = self.now.max(*free_at) + time;
        *free_at
    }

    fn looked(&mut self) {
        if let Some(cpu) = self.looker.take() {
            self.psi.turn(cpu, Doing::Running, Doing::Nothing, self.now);
        }
    }

    /// Applies `change` to everybody who counts a page of `wb`.
    fn count(&mut self, wb: usize, change: impl Fn(&mut Counts)) {
        change(&mut self.counts);
        change(&mut self.wbs[wb].counts);
        let mut next = Some(self.wbs[wb].cgroup);
        if let Some(own) = next {
            change(&mut self.cgroups[own].counts);
        }
        while let Some(index) = next {
            let cgroup = &mut self.cgroups[index];
            change(&mut cgroup.subtree);
            next = cgroup.parent;
        }
    }

    /// `pages` of a file have become dirty.
    pub fn dirtied(&mut self, file: usize, pages: u64) {
        let wb = self.files[file].wb as usize;
        self.count(wb, |counts| {
            counts.dirty += pages;
            counts.dirtied += pages;
        });
        if !self.files[file].listed {
            self.files[file].listed = true;
            self.files[file].dirtied_at = self.tick();
            self.list_dirty(wb, file as u32);
        }
    }

    /// `pages` of a file go in flight.
    pub fn in_flight(&mut self, file: usize, pages: u64) {
        let wb = self.files[file].wb as usize;
        self.count(wb, |counts| {
            counts.dirty -= pages;
            counts.writeback += pages;
        });
        if self.files[file].in_flight == 0 {
            self.wbs[wb].files_in_flight += 1;
        }
        self.files[file].in_flight += pages;
    }

    /// All dirty pages of a file are forgotten.
    pub fn drop_file(&mut self, file: usize) {
        let wb = self.files[file].wb as usize;
        let pages = self.files[file].pages.drop_all();
        self.count(wb, |counts| {
            counts.dirty -= pages;
            counts.dropped += pages;
        });
        let cached = std::mem::take(&mut self.files[file].cached);
        self.cgroups[self.wbs[wb].cgroup].file -= cached;
    }

    /// `pages` more of a file are in the cache, which its cgroup's `memory.max` bounds.
    pub fn caches(&mut self, file: usize, pages: u64) {
        let cgroup = &mut self.cgroups[self.wbs[self.files[file].wb as usize].cgroup];
        let more = pages.min(cgroup.max.saturating_sub(cgroup.file));
        cgroup.file += more;
        self.files[file].cached += more;
    }

    fn request_completes(&mut self, device: usize) {
        let request = self.devices[device].complete();
        let (wb, pages) = (request.wb as usize, u64::from(request.pages));
        self.count(wb, |counts| {
            counts.writeback -= pages;
            counts.written += pages;
        });
        self.completed(wb, pages);
        let wb = &mut self.wbs[wb];
        let file = &mut self.files[request.file as usize];
        file.in_flight -= pages;
        if file.in_flight == 0 {
            wb.files_in_flight -= 1;
            if !wb.measuring {
                wb.measuring = true;
                self.plan(
                    self.now + crate::domain::INTERVAL * crate::clock::TICK,
                    Event::Bandwidth(request.wb),
                );
            }
        }
        if let Some(waiter) = self.devices[device].next_waiter(request.cpu) {
            self.flusher_is_let_in(waiter as usize);
        }
    }

    /// `pages` of `wb` count as completed in both domains.
    pub fn completed(&mut self, wb: usize, pages: u64) {
        let now = self.tick();
        let wb = &mut self.wbs[wb];
        self.domain.completions.add(&mut wb.share, pages, now);
        if wb.cgroup != 0 {
            let domain = &mut self.cgroups[wb.cgroup].domain;
            domain.completions.add(&mut wb.cgroup_share, pages, now);
        }
    }

    fn measure_bandwidth(&mut self, wb: usize) {
        self.wbs[wb].measuring = false;
        self.adapt(wb, &[]);
    }

    /// The conservation of pages, and that nothing is where it cannot be; `deeply` also looks into every file.
    #[cfg(any(test, debug_assertions))]
    pub fn check(&self, deeply: bool) {
        assert!(
            self.counts.is_even(),
            "pages lost or made up: {:?}",
            self.counts
        );
        if !deeply && self.handled % 1024 != 0 {
            return;
        }
        let sum =
            |pick: fn(&Counts) -> u64| self.wbs.iter().map(|wb| pick(&wb.counts)).sum::<u64>();
        assert_eq!(sum(|c| c.dirty), self.counts.dirty);
        assert_eq!(sum(|c| c.writeback), self.counts.writeback);
        let all = self
            .cgroups
            .iter()
            .map(|c| &c.counts)
            .chain(self.wbs.iter().map(|wb| &wb.counts));
        all.for_each(|counts| assert!(counts.is_even(), "{counts:?}"));
        if let Some(root) = self.cgroups.first() {
            assert_eq!(root.subtree, self.counts, "the root's subtree is the host");
        }
        let files = self
            .files
            .iter()
            .map(|file| file.pages.dirty())
            .sum::<u64>();
        assert_eq!(files, self.counts.dirty);
        let waiting: u64 = self.wbs.iter().map(|wb| wb.flusher.in_hand()).sum();
        let line: u64 = self.devices.iter().map(Device::pages).sum();
        assert_eq!(line + waiting, self.counts.writeback);
    }
}
