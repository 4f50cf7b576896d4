// SPDX-License-Identifier: GPL-2.0-only
//! The simulated host: the modelled kernel with its tasks, memory in tiers, and who looks at it
//! all.
//!
//! Calls go down, from [`Tasks`] through the layers below it, and nothing calls up: a layer
//! schedules an event, and [`Host`] hands it to whom it concerns.

use crate::blk::Blk;
use crate::jbd2::Jbd2;
use crate::machine::Machine;
use crate::memory::Memory;
use crate::mm::Mm;
use crate::mm::domain::Sysctl;
use crate::mm::zone::Watermarks;
use crate::probe::Probe;
use crate::sched::Sched;
use crate::sim::clock::{MS, Ns};
use crate::sim::{Event, Sim};
use crate::task::Tasks;
use crate::weir::Hooks;
use crate::writeback::Writeback;
use crate::xlog::Xlog;

/// The simulated host.
pub struct Host {
    /// Tasks, and the kernel below them.
    pub tasks: Tasks,
    /// Tiers, and who holds memory in them.
    pub memory: Memory,
    /// Samples of the host.
    pub probe: Probe,
}

impl Host {
    /// An empty host at the time `now`, of whose memory `dirtyable` pages can be dirty.
    pub fn new(
        machine: Machine,
        (dirtyable, marks): (u64, Watermarks),
        sysctl: Sysctl,
        seed: u64,
        now: Ns,
    ) -> Host {
        let sched = Sched::new(machine, Sim::new(seed, now));
        let mm = Mm::new(dirtyable, marks, sysctl, sched);
        let writeback = Writeback::new(Hooks::new(Jbd2::new(Xlog::new(Blk::new(mm)))));
        Host {
            tasks: Tasks::new(writeback),
            memory: Memory::default(),
            probe: Probe::default(),
        }
    }

    /// Lets the next event happen, unless it is later than `end`. False if there was none, and it
    /// is `end` then.
    pub fn run_next_event(&mut self, end: Ns) -> bool {
        let Some(event) = self.tasks.next(end) else {
            return false;
        };
        self.dispatch_event(event);
        #[cfg(any(test, debug_assertions))]
        self.check_invariants(false);
        true
    }

    fn dispatch_event(&mut self, event: Event) {
        let tasks = &mut self.tasks;
        match event {
            Event::Task(task) => tasks.task_goes_on(task as usize),
            Event::Flusher(wb, number) => tasks.flusher_goes_on(wb as usize, number),
            Event::Complete(device) => tasks.request_ends(device as usize),
            Event::Commit(device) => tasks.server_commits(device as usize),
            Event::Throttled(device, cgroup, is_read) => {
                tasks.lets_through(device as usize, cgroup as usize, is_read);
            }
            Event::Stall(device) => tasks.disk_stands_still(device as usize),
            Event::Journal(device) => tasks.journal_is_due(device as usize),
            Event::Kjournald(device) => tasks.kjournald_goes_on(device as usize),
            Event::Checkpoint(device) => tasks.dirties_metadata(device as usize),
            Event::Ioend(file) => tasks.end_ioend(file as usize),
            Event::Bandwidth(wb) => tasks.measure_bandwidth(wb as usize),
            Event::Refresh => tasks.flushes_stats(),
            Event::Pressure => tasks.psi_averages(),
            Event::Kswapd => tasks.kswapd_goes_on(),
            Event::Beat => {
                tasks.weir_looks_at_flushers();
                tasks.weir_assists();
                tasks.weir_beats();
            }
            Event::Recount => tasks.weir_recounts(),
            Event::Sample => self.probe.sample_host(tasks),
            Event::Sampled => self.probe.end_sample(tasks),
            Event::Memory => self.memory.goes_on(tasks),
            Event::Reclaim(who, number) => tasks.reclaim_wakes(who, number),
            Event::Agent => self.memory.agent_looks(tasks),
        }
    }

    /// Writes everything back that is dirty now, and waits for that; gives up after `patience`.
    pub fn write_back_all(&mut self, patience: Ns) {
        self.tasks.starts_sync();
        let end = self.tasks.now + patience;
        while self.tasks.counts.pages_held() > 0 && self.tasks.now < end {
            let next = (self.tasks.now + 10 * MS).min(end);
            while self.tasks.counts.pages_held() > 0 && self.run_next_event(next) {}
        }
        self.tasks.syncing = false;
    }

    /// The conservation of pages, and that nothing is where it cannot be; `deeply` also looks into
    /// every file.
    #[cfg(any(test, debug_assertions))]
    pub fn check_invariants(&self, deeply: bool) {
        let tasks = &self.tasks;
        let counts = &tasks.counts;
        assert!(counts.is_even(), "pages lost or made up: {counts:?}");
        let anonymous = tasks.check_memory(deeply);
        if !deeply && tasks.handled % 1024 != 0 {
            return;
        }
        tasks.check_counts();
        let held = tasks.tasks.iter().map(|task| task.held).sum::<u64>();
        let mapped = tasks.node.as_ref().map_or(0, |node| node.anonymous);
        assert_eq!(
            held + mapped,
            anonymous,
            "anonymous memory that no cgroup holds"
        );
        let in_hand = tasks.flushers.iter().map(|flusher| flusher.in_hand());
        let queued = tasks
            .devices
            .iter()
            .map(crate::blk::Device::pages_in_flight);
        let unended = tasks.files.iter().map(|file| file.unended);
        let all: u64 = in_hand.chain(queued).chain(unended).sum();
        assert_eq!(all, counts.writeback);
    }
}
