// SPDX-License-Identifier: GPL-2.0-only
//! Objectives: keeps the waits of a cgroup within a bound, by windows (`memory.writeback_bytes`) on
//! others, as wide as do; and by ceilings (`memory.dirty_bytes`) where the least window does not.
//! `policy/narrow.c` decides what they may have under writeback, `policy/objective.c` how many dirty
//! pages they may hold.
//!
//! ```text
//! probes on vfs_fsync_range() ─┐      ┌► policy::narrow ────► memory.writeback_bytes of the others
//! events of the block layer ───┤      │
//! io.pressure, memory.pressure ┴► value ─► policy::objective ─► memory.dirty_bytes of the others
//! memory.stat, io.stat of the others ─┴─────────┘
//! ```
//!
//! Once a second. While the bound is kept and no limit set, only fsyncs, reads or the cgroup's pressure
//! are looked at, not the others.
//!
//! On a host that allows no module, [`crate::stock`] is asked: first to narrow the queues of disks
//! (`queues`), and for ceilings, which it keeps by `memory.high`, where that does not do.
//!
//! Only a limit of `max` is ever replaced; one that another program writes meanwhile is left to
//! that program. What is set is noted in a file first ([`crate::saved_limits`]), so that the next
//! agent puts it back if this one is killed.

mod applied;
mod holders;
mod keeper;
mod measure;
mod queues;
pub mod settings;
mod status;
mod windows;

use crate::controller::Controller;
use crate::family::Family;
use crate::journal::{Journal, JournalEvent};
use crate::limits::{self, Mode};
use crate::requested_limits::RequestedLimits;
use crate::saved_limits::SavedLimits;
use crate::stock_section as stock;
use crate::thread::WorkerThread;
use crate::tree::Hierarchy;
use keeper::ObjectiveKeeper;
use knobs::Knob;
use settings::ObjectiveSettings;
use status::ObjectiveStatus;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

/// The knobs that limit others, and the files that note what is set, in the agent's directory of
/// state.
const LIMITS: [(Knob, &str); 2] = [
    (Knob::DirtyBytes, "objective.json"),
    (Knob::WritebackBytes, "objective-windows.json"),
];

/// The part of the agent that keeps objectives.
pub struct Objectives {
    tree: Hierarchy,
    settings: Rc<RefCell<Vec<ObjectiveSettings>>>,
    /// Settings as they were when the thread began.
    used: Vec<ObjectiveSettings>,
    /// `true` in stock mode, in which ceilings are requested of this instead of written.
    stock: (Rc<RefCell<stock::StockSettings>>, RequestedLimits),
    used_stock: bool,
    directory: PathBuf,
    journal: Journal,
    running: Option<WorkerThread>,
    status: Arc<Mutex<ObjectiveStatus>>,
}

impl Objectives {
    /// Puts back what an agent that was killed has left; does nothing else before its first tick.
    pub fn new(
        tree: Hierarchy,
        settings: Rc<RefCell<Vec<ObjectiveSettings>>>,
        stock: (Rc<RefCell<stock::StockSettings>>, RequestedLimits),
        directory: &Path,
        journal: Journal,
    ) -> Objectives {
        for limit in LIMITS {
            let failed = match open_saved_limits(directory, limit) {
                Ok(saved) => limits::take_over(saved, &tree, &journal),
                Err(why) => vec![format!("{why:#}")],
            };
            for why in failed {
                journal.log_event(&JournalEvent::Objective { why });
            }
        }
        Objectives {
            tree,
            settings,
            used: Vec::new(),
            stock,
            used_stock: false,
            directory: directory.into(),
            journal,
            running: None,
            status: Arc::default(),
        }
    }

    fn start(&self) -> anyhow::Result<WorkerThread> {
        let keeper = ObjectiveKeeper::new(
            self.tree.clone(),
            &self.used,
            (
                open_saved_limits(&self.directory, LIMITS[0])?,
                open_saved_limits(&self.directory, LIMITS[1])?,
            ),
            self.used_stock.then(|| self.stock.1.clone()),
            self.journal.clone(),
            Arc::clone(&self.status),
        );
        Ok(WorkerThread::start("objectives", move |ended| {
            keeper.run(ended)
        })?)
    }
}

fn open_saved_limits(directory: &Path, (knob, file): (Knob, &str)) -> anyhow::Result<SavedLimits> {
    SavedLimits::open(&directory.join(file), knob.file_name())
}

impl Controller for Objectives {
    fn on_tick(&mut self) {
        let is_stock = self.stock.0.borrow().is_stock();
        if *self.settings.borrow() == self.used && is_stock == self.used_stock {
            return;
        }
        self.used_stock = is_stock;
        self.used = self.settings.borrow().clone();
        self.running = None;
        if self.used.iter().all(|of| of.mode == Mode::Off) {
            return;
        }
        match self.start() {
            Ok(running) => self.running = Some(running),
            Err(why) => self.journal.log_event(&JournalEvent::Objective {
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
