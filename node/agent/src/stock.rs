// SPDX-License-Identifier: GPL-2.0-only
//! Stock mode, for hosts that allow no module: rules are kept by what a stock kernel has.
//!
//! ```text
//! rules, units, labels ─► members: ceilings, floors, bandwidths, weights ─► translate ─► memory.high, io.max, io.weight
//! objectives ─► ceilings that they ask for ────────────────────┘
//! [stock] ─► vm.dirty_*, devices' parts of the limit (max_ratio, min_ratio), strict_limit
//! flushers, drain, memory ─► lift: drain_seconds ─► vm.dirty_bytes
//! memory.stat, fifty times a second where pages are dirtied ─► counts: the kernel's are fresh
//! the same of all, ten times a second at most ─► memory.high follows
//! ```
//!
//! [`translate`] has the one table of what stands for what. A cgroup's file is set only while it
//! holds its default; everything goes back when the agent ends, or starts after it was killed ([`kept`]).

mod counts;
mod keeper;
mod kept;
mod lift;
mod members;
mod status;
pub mod translate;

use crate::controller::Controller;
use crate::family::Family;
use crate::flat_keyed::find_value;
use crate::journal::{Journal, JournalEvent};
use crate::requested_limits::RequestedLimits;
use crate::requests::Requests;
use crate::rules::Rules;
use crate::thread::WorkerThread;
use crate::tree::Hierarchy;
use anyhow::Result;
use keeper::StockKeeper;
use kept::SavedSettings;
use status::StockStatus;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

/// The file that notes what is set, in the agent's directory of state.
const FILE: &str = "stock.json";

/// The part of the agent that keeps rules without the module.
pub struct Stock {
    root: PathBuf,
    tree: Hierarchy,
    rules: Rc<RefCell<Rules>>,
    /// Rules as they were when the thread began.
    used: Rules,
    wishes: (RequestedLimits, Requests),
    state: PathBuf,
    journal: Journal,
    running: Option<WorkerThread>,
    /// Other rules, for the thread to take.
    next: Arc<Mutex<Option<Rules>>>,
    status: Arc<Mutex<StockStatus>>,
}

impl Stock {
    /// Nothing is done before its first tick.
    pub fn new(
        root: &Path,
        tree: Hierarchy,
        rules: Rc<RefCell<Rules>>,
        wishes: (RequestedLimits, Requests),
        directory: &Path,
        journal: Journal,
    ) -> Stock {
        let stock = Stock {
            root: root.into(),
            tree,
            rules,
            used: Rules::default(),
            wishes,
            state: directory.join(FILE),
            journal,
            running: None,
            next: Arc::default(),
            status: Arc::default(),
        };
        // What a killed agent has left is put back, or goes on to be kept.
        if !stock.rules.borrow().stock.is_stock() && stock.state.exists() {
            stock.ok_or_report(
                stock
                    .make_keeper(Rules::default())
                    .map(StockKeeper::put_back),
            );
        }
        stock
    }

    fn make_keeper(&self, rules: Rules) -> Result<StockKeeper> {
        Ok(StockKeeper::new(
            &self.root,
            self.tree.clone(),
            (rules, Arc::clone(&self.next)),
            self.wishes.clone(),
            SavedSettings::open(&self.state)?,
            self.journal.clone(),
            Arc::clone(&self.status),
        ))
    }

    fn start(&self, rules: Rules) -> Result<WorkerThread> {
        let keeper = self.make_keeper(rules)?;
        Ok(WorkerThread::start("stock", move |ended| {
            keeper.run(ended)
        })?)
    }

    /// Unwraps an outcome, after an error is told.
    fn ok_or_report<T>(&self, outcome: Result<T>) -> Option<T> {
        let told = outcome.map_err(|why| {
            self.journal.log_event(&JournalEvent::Stock {
                why: format!("{why:#}"),
            });
        });
        told.ok()
    }
}

impl Controller for Stock {
    fn on_tick(&mut self) {
        if *self.rules.borrow() == self.used {
            return;
        }
        self.used = self.rules.borrow().clone();
        match (self.used.stock.is_stock(), &self.running) {
            // What goes on to be wanted stays as it is.
            (true, Some(_)) => {
                *self.next.lock().unwrap_or_else(PoisonError::into_inner) = Some(self.used.clone());
            }
            (true, None) => self.running = self.ok_or_report(self.start(self.used.clone())),
            (false, _) => self.running = None,
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
