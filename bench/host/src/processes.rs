// SPDX-License-Identifier: GPL-2.0-only
//! The processes of a run: those with the mark in their environment, wherever they are and
//! whichever process is their parent now.

use crate::MARK;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Processes of a run, by the mark in their environment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Marked {
    /// Those that serve a disk.
    Disks,
    /// Those that serve none, jobs and their helpers.
    Others,
}

/// Those that are running: one that has ended has no environment.
fn find_marked_processes(which: Marked) -> Vec<Pid> {
    let variable = format!("{MARK}=");
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        let read = |file| fs::read(entry.path().join(file)).unwrap_or_default();
        let environment = read("environ");
        let is_marked = environment
            .split(|byte| *byte == 0)
            .any(|word| word.starts_with(variable.as_bytes()));
        if is_marked && crate::disk::is_command_line(&read("cmdline")) == (which == Marked::Disks) {
            found.push(Pid::from_raw(pid));
        }
    }
    found
}

/// Kills them and waits for their end.
///
/// # Errors
/// Names of those that have not ended within `patience`.
pub fn kill_marked(which: Marked, patience: Duration) -> Result<(), Vec<String>> {
    let deadline = Instant::now() + patience;
    loop {
        let running = find_marked_processes(which);
        if running.is_empty() {
            return Ok(());
        }
        for pid in &running {
            // It may have ended just now.
            let _ = kill(*pid, Signal::SIGKILL);
        }
        if Instant::now() > deadline {
            return Err(running.into_iter().map(process_label).collect());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Names a process for people, as in `fio (1234)`.
fn process_label(pid: Pid) -> String {
    let comm = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("comm"));
    format!("{} ({pid})", comm.unwrap_or_default().trim())
}
