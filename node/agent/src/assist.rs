// SPDX-License-Identifier: GPL-2.0-only
//! Flush assistants: where one flusher cannot feed a disk, threads of the agent start writeback
//! beside it. `policy/assist.c` decides how many.
//!
//! ```text
//! /proc: what flushers do, ten times a second ─► policy::assist ─► threads ─► sync_file_range()
//! cgroups with most dirty pages ─► /proc/PID/fd ─► files ─────────────┘
//! ```
//!
//! The kernel has one flusher for each cgroup and disk, so writers of one process cannot be split. No
//! module is needed. What is written is charged to the cgroup whose pages they are, the CPU time to
//! the agent. Files in a window (`memory.writeback_bytes`) are left alone, as those of btrfs, whose
//! flushers name no disk, and what is written through a mapping alone.

mod files;
mod keeper;
pub mod settings;
mod status;
mod threads;

use crate::controller::Controller;
use crate::family::Family;
use crate::journal::{Journal, JournalEvent};
use crate::thread::WorkerThread;
use crate::tree::Hierarchy;
use keeper::AssistKeeper;
use settings::AssistSettings;
use status::AssistStatus;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

/// The part of the agent that starts writeback.
pub struct Assistants {
    root: PathBuf,
    tree: Hierarchy,
    settings: Rc<RefCell<AssistSettings>>,
    /// Settings as they were when the thread began.
    used: AssistSettings,
    journal: Journal,
    running: Option<WorkerThread>,
    status: Arc<Mutex<AssistStatus>>,
}

impl Assistants {
    /// Nothing is done before its first tick.
    pub fn new(
        root: &Path,
        tree: Hierarchy,
        settings: Rc<RefCell<AssistSettings>>,
        journal: Journal,
    ) -> Assistants {
        Assistants {
            root: root.into(),
            tree,
            settings,
            used: AssistSettings::default(),
            journal,
            running: None,
            status: Arc::default(),
        }
    }
}

impl Controller for Assistants {
    fn on_tick(&mut self) {
        if *self.settings.borrow() == self.used {
            return;
        }
        self.used = self.settings.borrow().clone();
        self.running = None;
        if self.used.cpus == 0 {
            return;
        }
        let keeper = AssistKeeper::new(
            self.root.clone(),
            self.tree.clone(),
            self.used.clone(),
            self.journal.clone(),
            Arc::clone(&self.status),
        );
        match WorkerThread::start("assist", move |ended| keeper.run(ended)) {
            Ok(running) => self.running = Some(running),
            Err(why) => self.journal.log_event(&JournalEvent::Assist {
                why: why.to_string(),
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
