// SPDX-License-Identifier: GPL-2.0-only
//! The simulated host: the modelled kernel with its tasks, memory in tiers, and who looks at it
//! all.
//!
//! Calls go down, from [`Tasks`] through the layers below it, and nothing calls up: a layer
//! schedules an event, and [`SimHost`] hands it to whom it concerns.

use crate::blk::Blk;
use crate::jbd2::Jbd2;
use crate::machine::Machine;
use crate::memory::TieredMemory;
use crate::mm::Mm;
use crate::mm::domain::Sysctl;
use crate::mm::zone::Watermarks;
use crate::probe::Probe;
use crate::sched::Sched;
use crate::sim::clock::{MS, Ns};
use crate::sim::{Sim, SimEvent};
use crate::task::Tasks;
use crate::weir::Hooks;
use crate::writeback::Writeback;
use crate::xlog::Xlog;

/// The simulated host.
pub struct SimHost {
    /// Tasks, and the kernel below them.
    pub tasks: Tasks,
    /// Tiers, and who holds memory in them.
    pub memory: TieredMemory,
    /// Samples of the host.
    pub probe: Probe,
}

impl SimHost {
    /// An empty host at the time `now`, of whose memory `dirtyable` pages can be dirty.
    pub fn new(
        machine: Machine,
        (dirtyable, marks): (u64, Watermarks),
        sysctl: Sysctl,
        seed: u64,
        now: Ns,
    ) -> SimHost {
        let sched = Sched::new(machine, Sim::new(seed, now));
        let mm = Mm::new(dirtyable, marks, sysctl, sched);
        let writeback = Writeback::new(Hooks::new(Jbd2::new(Xlog::new(Blk::new(mm)))));
        SimHost {
            tasks: Tasks::new(writeback),
            memory: TieredMemory::default(),
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

    fn dispatch_event(&mut self, event: SimEvent) {
        let tasks = &mut self.tasks;
        match event {
            SimEvent::Task(task) => tasks.continue_task(task as usize),
            SimEvent::Flusher(wb, number) => tasks.continue_flusher(wb as usize, number),
            SimEvent::Complete(device) => tasks.end_request(device as usize),
            SimEvent::Commit(device) => tasks.end_server_commit(device as usize),
            SimEvent::Throttled(device, cgroup, is_read) => {
                tasks.dispatch_throttled(device as usize, cgroup as usize, is_read);
            }
            SimEvent::Stall(device) => tasks.begin_recurring_stall(device as usize),
            SimEvent::Journal(device) => tasks.commit_if_due(device as usize),
            SimEvent::Kjournald(device) => tasks.run_kjournald(device as usize),
            SimEvent::Checkpoint(device) => tasks.dirty_metadata(device as usize),
            SimEvent::Ioend(file) => tasks.end_ioend(file as usize),
            SimEvent::Bandwidth(wb) => tasks.measure_bandwidth(wb as usize),
            SimEvent::Refresh => tasks.flush_stats(),
            SimEvent::Pressure => tasks.update_psi_averages(),
            SimEvent::Kswapd => tasks.run_kswapd(),
            SimEvent::Beat => {
                tasks.weir_sample_flushers();
                tasks.weir_observe_flushers();
                tasks.weir_beat();
            }
            SimEvent::Recount => tasks.weir_recount(),
            SimEvent::Sample => self.probe.sample_host(tasks),
            SimEvent::Sampled => self.probe.end_sample(tasks),
            SimEvent::Memory => self.memory.advance_phase(tasks),
            SimEvent::Reclaim(who, number) => tasks.wake_reclaimer(who, number),
            SimEvent::Agent => self.memory.replan_moves(tasks),
        }
    }

    /// Writes everything back that is dirty now, and waits for that; gives up after `patience`.
    pub fn write_back_all(&mut self, patience: Ns) {
        self.tasks.start_sync();
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
        assert!(
            counts.accounts_for_all_pages(),
            "pages lost or made up: {counts:?}"
        );
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
        let in_hand = tasks
            .flushers
            .iter()
            .map(|flusher| flusher.unsubmitted_pages());
        let queued = tasks
            .devices
            .iter()
            .map(crate::blk::Device::pages_in_flight);
        let unended = tasks.files.iter().map(|file| file.unended);
        let all: u64 = in_hand.chain(queued).chain(unended).sum();
        assert_eq!(all, counts.writeback);
    }
}
