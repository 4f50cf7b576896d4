// SPDX-License-Identifier: GPL-2.0-only
//! The thread that looks at flushers and decides how many assistants each device has.

use super::files;
use super::settings::AssistSettings;
use super::status::AssistStatus;
use super::threads::Threads;
use crate::flushers::{FlusherActivity, FlusherThreads};
use crate::journal::{Journal, JournalEvent};
use crate::tree::Hierarchy;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use policy::assist::{Assist, Look};
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Between two looks at flushers: ten make a step.
const LOOK_MS: u16 = 100;
/// The same while none is at work.
const IDLE_MS: u16 = 1_000;
const STEP: Duration = Duration::from_secs(1);
/// Files are found anew this often while there are assistants.
const FIND_EVERY: Duration = Duration::from_secs(2);

/// A device whose flushers were seen at work.
#[derive(Default)]
struct Device {
    /// Looks of this step that found a flusher on a CPU, and waiting.
    ran: u64,
    waited: u64,
    assist: Assist,
    threads: Option<Threads>,
    cpu: Duration,
    found: Option<Instant>,
}

/// The thread's state.
pub struct AssistKeeper {
    root: PathBuf,
    tree: Hierarchy,
    settings: AssistSettings,
    journal: Journal,
    status: Arc<Mutex<AssistStatus>>,
    flushers: FlusherThreads,
    devices: BTreeMap<String, Device>,
    looks: u64,
    stepped: Instant,
    said: Option<String>,
}

impl AssistKeeper {
    /// Has no assistants yet.
    pub fn new(
        root: PathBuf,
        tree: Hierarchy,
        settings: AssistSettings,
        journal: Journal,
        status: Arc<Mutex<AssistStatus>>,
    ) -> AssistKeeper {
        AssistKeeper {
            root,
            tree,
            settings,
            journal,
            status,
            flushers: FlusherThreads::default(),
            devices: BTreeMap::new(),
            looks: 0,
            stepped: Instant::now(),
            said: None,
        }
    }

    /// Runs until the other end of `ended` is closed.
    pub fn run(mut self, ended: &UnixStream) {
        while !self.is_over(ended) {
            let now = Instant::now();
            for (device, doing) in self.flushers.sample_activity(&self.root, now) {
                self.devices
                    .entry(device)
                    .or_default()
                    .count_activity(doing);
            }
            self.looks += 1;
            if now - self.stepped >= STEP {
                self.run_step(now);
            }
        }
        self.devices.clear();
        self.publish_status();
    }

    fn is_over(&self, ended: &UnixStream) -> bool {
        let pause = match self.devices.is_empty() {
            true => IDLE_MS,
            false => LOOK_MS,
        };
        let mut fds = [PollFd::new(ended.as_fd(), PollFlags::POLLIN)];
        // A signal ends the wait early, which is as good as any other end.
        let _ = poll(&mut fds, PollTimeout::from(pause));
        fds[0].any() == Some(true)
    }

    fn run_step(&mut self, now: Instant) {
        let elapsed = std::mem::replace(&mut self.stepped, now);
        let elapsed = now - elapsed;
        let looks = std::mem::take(&mut self.looks).max(1);
        let all: u64 = self
            .devices
            .values()
            .map(|device| device.assist.threads)
            .sum();
        let mut left = self.settings.cpus.saturating_sub(all);
        let mut devices = std::mem::take(&mut self.devices);
        for (name, device) in &mut devices {
            let before = device.assist.threads;
            let used = device.decide_threads(elapsed, looks, before + left);
            if device.threads.is_some() {
                *self.lock_status().cpu.entry(name.clone()).or_default() += used;
            }
            left = (left + before).saturating_sub(device.assist.threads);
            self.follow_decision(name, device, before, now);
        }
        devices.retain(|_, device| !device.is_at_rest());
        self.devices = devices;
        self.publish_status();
    }

    /// Has the threads that were decided on, with files to write.
    fn follow_decision(&mut self, name: &str, device: &mut Device, before: u64, now: Instant) {
        let wanted = device.assist.threads;
        if wanted != before {
            self.journal.log_event(&JournalEvent::Assisted {
                device: name.to_owned(),
                threads: wanted,
            });
        }
        if wanted == 0 && device.threads.is_none() {
            return;
        }
        let threads = device.threads.get_or_insert_default();
        let is_due = device.found.is_none_or(|then| now - then >= FIND_EVERY);
        if wanted > 0 && is_due {
            threads.set_files(files::find_files_of_dirtiest_writers(
                &self.root,
                &self.tree,
                &self.settings,
                name,
            ));
            device.found = Some(now);
        }
        if let Err(why) = threads.set(wanted) {
            self.report_once(format!("{name}: no thread to be had: {why}"));
        }
    }

    fn report_once(&mut self, why: String) {
        if self.said.as_ref() != Some(&why) {
            self.said = Some(why.clone());
            self.journal.log_event(&JournalEvent::Assist { why });
        }
    }

    fn publish_status(&self) {
        let mut status = self.lock_status();
        let threads = self
            .devices
            .iter()
            .filter(|(_, device)| device.assist.threads > 0);
        status.threads = threads
            .map(|(name, device)| (name.clone(), device.assist.threads))
            .collect();
    }

    fn lock_status(&self) -> MutexGuard<'_, AssistStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Device {
    fn count_activity(&mut self, doing: FlusherActivity) {
        self.ran += u64::from(doing.ran);
        self.waited += u64::from(doing.waited);
    }

    /// Decides; the CPU time that was used since the last step.
    fn decide_threads(&mut self, elapsed: Duration, looks: u64, most: u64) -> Duration {
        let cpu = self
            .threads
            .as_ref()
            .map_or(Duration::ZERO, Threads::cpu_time);
        let used = cpu.saturating_sub(std::mem::replace(&mut self.cpu, cpu));
        let alive = self
            .threads
            .as_ref()
            .map_or(0, Threads::threads_alive)
            .max(1);
        let time = elapsed.as_millis().max(1) * u128::from(alive);
        let permille = |part: u64| part * 1_000 / looks;
        self.assist.adapt_by_look(&Look {
            elapsed_ms: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
            flusher_ran: permille(std::mem::take(&mut self.ran)),
            flusher_waited: permille(std::mem::take(&mut self.waited)),
            ran: u64::try_from(used.as_millis() * 1_000 / time).unwrap_or(u64::MAX),
            most,
        });
        used
    }

    /// Returns whether it knows nothing that a new device would not begin with.
    fn is_at_rest(&self) -> bool {
        let is_alive = self
            .threads
            .as_ref()
            .is_some_and(|threads| threads.threads_alive() > 0);
        !is_alive
            && self.assist.threads == 0
            && self.assist.bound_ms == 0
            && self.assist.rest_ms == 0
    }
}
