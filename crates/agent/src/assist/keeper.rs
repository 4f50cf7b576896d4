// SPDX-License-Identifier: GPL-2.0-only
//! The thread that looks at flushers and decides how many assistants each device has.

use super::files;
use super::settings::Settings;
use super::status::Status;
use super::threads::Threads;
use crate::flushers::{Doing, Flushers};
use crate::journal::{Event, Journal};
use crate::tree::Tree;
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
pub struct Keeper {
    root: PathBuf,
    tree: Tree,
    settings: Settings,
    journal: Journal,
    status: Arc<Mutex<Status>>,
    flushers: Flushers,
    devices: BTreeMap<String, Device>,
    looks: u64,
    stepped: Instant,
    said: Option<String>,
}

impl Keeper {
    /// Has no assistants yet.
    pub fn new(
        root: PathBuf,
        tree: Tree,
        settings: Settings,
        journal: Journal,
        status: Arc<Mutex<Status>>,
    ) -> Keeper {
        Keeper {
            root,
            tree,
            settings,
            journal,
            status,
            flushers: Flushers::default(),
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
            for (device, doing) in self.flushers.look(&self.root, now) {
                self.devices.entry(device).or_default().count(doing);
            }
            self.looks += 1;
            if now - self.stepped >= STEP {
                self.step(now);
            }
        }
        self.devices.clear();
        self.tell();
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

    fn step(&mut self, now: Instant) {
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
            let used = device.step(elapsed, looks, before + left);
            if device.threads.is_some() {
                *self.status().cpu.entry(name.clone()).or_default() += used;
            }
            left = (left + before).saturating_sub(device.assist.threads);
            self.follow(name, device, before, now);
        }
        devices.retain(|_, device| !device.is_at_rest());
        self.devices = devices;
        self.tell();
    }

    /// Has the threads that were decided on, with files to write.
    fn follow(&mut self, name: &str, device: &mut Device, before: u64, now: Instant) {
        let wanted = device.assist.threads;
        if wanted != before {
            self.journal.say(&Event::Assisted {
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
            threads.give(files::find(&self.root, &self.tree, &self.settings, name));
            device.found = Some(now);
        }
        if let Err(why) = threads.set(wanted) {
            self.complain(format!("{name}: no thread to be had: {why}"));
        }
    }

    fn complain(&mut self, why: String) {
        if self.said.as_ref() != Some(&why) {
            self.said = Some(why.clone());
            self.journal.say(&Event::Assist { why });
        }
    }

    fn tell(&self) {
        let mut status = self.status();
        let threads = self
            .devices
            .iter()
            .filter(|(_, device)| device.assist.threads > 0);
        status.threads = threads
            .map(|(name, device)| (name.clone(), device.assist.threads))
            .collect();
    }

    fn status(&self) -> MutexGuard<'_, Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Device {
    fn count(&mut self, doing: Doing) {
        self.ran += u64::from(doing.ran);
        self.waited += u64::from(doing.waited);
    }

    /// Decides; the CPU time that was used since the last step.
    fn step(&mut self, elapsed: Duration, looks: u64, most: u64) -> Duration {
        let cpu = self.threads.as_ref().map_or(Duration::ZERO, Threads::cpu);
        let used = cpu.saturating_sub(std::mem::replace(&mut self.cpu, cpu));
        let alive = self.threads.as_ref().map_or(0, Threads::alive).max(1);
        let time = elapsed.as_millis().max(1) * u128::from(alive);
        let permille = |part: u64| part * 1_000 / looks;
        self.assist.step(&Look {
            elapsed_ms: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
            flusher_ran: permille(std::mem::take(&mut self.ran)),
            flusher_waited: permille(std::mem::take(&mut self.waited)),
            ran: u64::try_from(used.as_millis() * 1_000 / time).unwrap_or(u64::MAX),
            most,
        });
        used
    }

    /// Nothing is known of it that a new one would not begin with.
    fn is_at_rest(&self) -> bool {
        let is_alive = self
            .threads
            .as_ref()
            .is_some_and(|threads| threads.alive() > 0);
        !is_alive
            && self.assist.threads == 0
            && self.assist.bound_ms == 0
            && self.assist.rest_ms == 0
    }
}
