// SPDX-License-Identifier: GPL-2.0-only
//! Reclaim: has cgroups that allocate beyond their share reclaim for themselves, by `memory.high`,
//! so that others find free memory. `policy/reclaim.c` decides which cgroup, and how much.
//!
//! ```text
//! /proc/pressure/memory ─► stalled? ─► allocations reclaim? ─► every 100 ms: usage, pgsteal, zoneinfo
//!      trigger, no poll                 allocstall grew            └─► policy::reclaim ─► memory.high
//! ```
//!
//! At rest the thread sleeps in poll(2) on a trigger of the kernel: nothing is read. The trigger
//! fires when tasks were stalled for memory for 10 ms of half a second. If allocations had to
//! reclaim meanwhile (`allocstall`), an episode begins: a look ten times a second. It ends when no
//! limit is set any more and no allocation has reclaimed for 5 s.
//!
//! A limit that its cgroup has not come near for 10 s is put back. Another program's `memory.high`
//! (`MemoryHigh=`, MemoryQoS) is never raised: the agent's stands below it, and it comes back. One that
//! is written meanwhile is the one that comes back, and who keeps on writing it gets it.
//! What is set is noted in a file first ([`crate::saved_limits`]), so that the next agent puts it
//! back if this one is killed.
//!
//! While there are limits, the kernel is asked for idle memory as well ([`idle`]).
//!
//! Cgroups that hold less than a hundredth of memory are not limited, nor looked at: there is
//! nothing to gain, and at most a hundred are left. A delegated subtree is limited as a whole, where
//! its owner cannot write.

mod candidates;
mod host;
mod idle;
mod keeper;
pub mod settings;
mod status;

use crate::controller::Controller;
use crate::family::Family;
use crate::journal::{Journal, JournalEvent};
use crate::limits::{self, Mode};
use crate::saved_limits::SavedLimits;
use crate::thread::WorkerThread;
use crate::tree::Hierarchy;
use keeper::ReclaimKeeper;
use settings::ReclaimSettings;
use status::ReclaimStatus;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

/// The file that notes what is set, in the agent's directory of state.
const FILE: &str = "reclaim.json";
/// The cgroup's file that the keeper limits allocators by.
const LIMIT: &str = "memory.high";

/// The part of the agent that limits allocators.
pub struct Reclaim {
    root: PathBuf,
    tree: Hierarchy,
    settings: Rc<RefCell<ReclaimSettings>>,
    /// Settings as they were when the thread began.
    used: ReclaimSettings,
    state: PathBuf,
    journal: Journal,
    running: Option<WorkerThread>,
    status: Arc<Mutex<ReclaimStatus>>,
}

impl Reclaim {
    /// Puts back what an agent that was killed has left; does nothing else before its first tick.
    pub fn new(
        root: &Path,
        tree: Hierarchy,
        settings: Rc<RefCell<ReclaimSettings>>,
        directory: &Path,
        journal: Journal,
    ) -> Reclaim {
        let state = directory.join(FILE);
        let failed = match SavedLimits::open(&state, LIMIT) {
            Ok(saved) => limits::take_over(saved, &tree, &journal),
            Err(why) => vec![format!("{why:#}")],
        };
        for why in failed {
            journal.log_event(&JournalEvent::Reclaim { why });
        }
        Reclaim {
            root: root.into(),
            tree,
            settings,
            used: ReclaimSettings::default(),
            state,
            journal,
            running: None,
            status: Arc::default(),
        }
    }

    fn start(&self) -> anyhow::Result<WorkerThread> {
        let keeper = ReclaimKeeper::new(
            host::HostMemory::at_root(&self.root),
            self.tree.clone(),
            self.used.clone(),
            SavedLimits::open(&self.state, LIMIT)?,
            self.journal.clone(),
            Arc::clone(&self.status),
        )?;
        Ok(WorkerThread::start("reclaim", move |ended| {
            keeper.run(ended)
        })?)
    }
}

impl Controller for Reclaim {
    fn on_tick(&mut self) {
        if *self.settings.borrow() == self.used {
            return;
        }
        self.used = self.settings.borrow().clone();
        self.running = None;
        if self.used.mode == Mode::Off {
            return;
        }
        match self.start() {
            Ok(running) => self.running = Some(running),
            Err(why) => self.journal.log_event(&JournalEvent::Reclaim {
                why: format!("{why:#}"),
            }),
        }
    }

    fn metric_families(&self) -> Arc<[Family]> {
        if self.running.is_none() {
            return Arc::default();
        }
        let status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        status.to_families()
    }
}
