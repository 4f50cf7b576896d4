// SPDX-License-Identifier: GPL-2.0-only
//! Who owes whom: seconds that cgroups' tasks lost, by the cgroup that caused it, as counters.
//!
//! ```text
//! events of the throttle, fsync, journal, reclaim ─► observe::losses ─► observe::owed ─► account
//! cgroup files, while anything stalls ──────────────┘                  pods' names ──────┘ └► scrapes
//! ```
//!
//! A thread of its own, which sleeps while nothing stalls. The diagnosis is that of `weir explain`;
//! it needs no module, but root and tracefs.

mod account;

use crate::controller::Controller;
use crate::family::Family;
use crate::journal::{Journal, JournalEvent};
use crate::tree::Hierarchy;
use account::Account;
use observe::losses::Losses;
use observe::owed::{Flows, divide_losses};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// The part of the agent that counts who owes whom.
pub struct Stalls {
    account: Arc<Mutex<Account>>,
    running: Option<LossThread>,
}

/// A thread at work. Dropped, it ends, within half a second.
struct LossThread {
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for LossThread {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // If it panicked, that was said where it happened.
            let _ = thread.join();
        }
    }
}

impl Stalls {
    /// Begins to look, at the running machine alone; `most` series at most, none if it is 0.
    pub fn new(root: &Path, tree: &Hierarchy, most: usize, journal: &Journal) -> Stalls {
        let account = Arc::new(Mutex::new(Account::new(root, tree.root(), most)));
        let running = (most > 0 && root == Path::new("/"))
            .then(|| start(Arc::clone(&account), journal.clone()))
            .flatten();
        Stalls { account, running }
    }
}

fn start(account: Arc<Mutex<Account>>, journal: Journal) -> Option<LossThread> {
    let complain = |why: String| journal.log_event(&JournalEvent::Stalls { why });
    let losses = match Losses::start() {
        Ok(losses) => losses,
        Err(why) => {
            complain(format!("{why:#}"));
            return None;
        }
    };
    if let Some(why) = &losses.blind {
        complain(format!("times are not exact: {why}"));
    }
    let end = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&end);
    let said = journal.clone();
    let thread = std::thread::Builder::new()
        .name("stalls".into())
        .spawn(move || follow_losses(losses, &account, &ended, &said));
    match thread {
        Ok(thread) => Some(LossThread {
            end,
            thread: Some(thread),
        }),
        Err(why) => {
            complain(why.to_string());
            None
        }
    }
}

fn follow_losses(
    mut losses: Losses,
    account: &Mutex<Account>,
    ended: &AtomicBool,
    journal: &Journal,
) {
    let mut flows = Flows::default();
    while !ended.load(Ordering::Relaxed) {
        let seen = match losses.wait_for_stretch() {
            Ok(seen) => seen,
            Err(why) => {
                return journal.log_event(&JournalEvent::Stalls {
                    why: format!("{why:#}"),
                });
            }
        };
        let owed = seen.as_ref().map(|seen| {
            flows.add_stretch(seen);
            divide_losses(seen, &flows)
        });
        let mut account = account.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(seen), Some(owed)) = (seen, owed) {
            account.add(&owed, seen.lost);
        }
        account.set_cpu_time(observe::losses::cpu_time());
    }
}

impl Controller for Stalls {
    fn on_tick(&mut self) {}

    fn metric_families(&self) -> Arc<[Family]> {
        if self.running.is_none() {
            return Arc::default();
        }
        let account = self.account.lock().unwrap_or_else(PoisonError::into_inner);
        account.to_families()
    }
}

/// Directories of the machine.
#[derive(Clone, Debug)]
struct Machine {
    root: PathBuf,
    cgroups: PathBuf,
}
