// SPDX-License-Identifier: GPL-2.0-only
//! Files whose kernel side may wait for a disk, read and written by a thread for each disk.
//!
//! A write of `queue/nr_requests` waits until nothing is in flight, and up to Linux 6.13 a read of the
//! same directory waits for that write. A disk that hangs would hold the thread that keeps all
//! settings of the host. Here it holds its own thread: the caller gets `TimedOut` after a second,
//! and at once while the disk has not answered.

use std::collections::BTreeMap;
use std::io::{Error, ErrorKind, Result};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A disk that answers does so in less.
const PATIENCE: Duration = Duration::from_secs(1);

type Job = Box<dyn FnOnce() + Send>;

struct Worker {
    jobs: Sender<Job>,
    /// A job has not ended.
    busy: Arc<AtomicBool>,
}

/// Threads by the disk's directory. A thread stays while the agent does: disks are few.
static WORKERS: Mutex<BTreeMap<String, Worker>> = Mutex::new(BTreeMap::new());

/// The disk that reading or writing a file, by its path below the root, may wait for.
pub fn disk_of(file: &str) -> Option<&str> {
    let (disk, _) = file.strip_prefix("sys/block/")?.split_once("/queue/")?;
    Some(disk)
}

/// Does `work` on a file of the disk below `root`.
///
/// # Errors
/// Those of `work`; `TimedOut` if it, or what was done before, waits for the disk. It may end later.
pub fn run_with_timeout<T: Send + 'static>(
    root: &Path,
    disk: &str,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let waits = || Error::new(ErrorKind::TimedOut, format!("{disk} does not answer"));
    let (answer, answered) = mpsc::channel();
    {
        let mut workers = WORKERS.lock().unwrap_or_else(PoisonError::into_inner);
        let name = root.join(disk).display().to_string();
        if !workers.contains_key(&name) {
            workers.insert(name.clone(), Worker::start(disk)?);
        }
        let worker = &workers[&name];
        if worker.busy.swap(true, Ordering::AcqRel) {
            return Err(waits());
        }
        let busy = Arc::clone(&worker.busy);
        let job = move || {
            let result = work();
            busy.store(false, Ordering::Release);
            // Nothing is received if that took too long.
            let _ = answer.send(result);
        };
        if worker.jobs.send(Box::new(job)).is_err() {
            workers.remove(&name);
            return Err(waits());
        }
    }
    answered
        .recv_timeout(PATIENCE)
        .unwrap_or_else(|_| Err(waits()))
}

impl Worker {
    fn start(disk: &str) -> Result<Worker> {
        let (jobs, todo) = mpsc::channel::<Job>();
        let thread = std::thread::Builder::new().name(format!("disk-{disk}"));
        thread.spawn(move || todo.iter().for_each(|job| job()))?;
        Ok(Worker {
            jobs,
            busy: Arc::default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_hangs_holds_no_caller() {
        let dir = tempfile::tempdir().expect("made");
        let (go_on, held) = mpsc::channel::<()>();
        let hangs = move || Ok(held.recv().is_ok());
        let why = run_with_timeout(dir.path(), "sda", hangs).expect_err("waits");
        assert_eq!(why.kind(), ErrorKind::TimedOut);
        let why = run_with_timeout(dir.path(), "sda", || Ok(1)).expect_err("waits yet");
        assert_eq!(why.to_string(), "sda does not answer");
        assert_eq!(
            run_with_timeout(dir.path(), "sdb", || Ok(2)).expect("another"),
            2
        );
        go_on.send(()).expect("received");
        // The disk answers, and its thread is free soon.
        while run_with_timeout(dir.path(), "sda", || Ok(())).is_err() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn files_of_queues_are_those_that_wait() {
        assert_eq!(disk_of("sys/block/sda/queue/nr_requests"), Some("sda"));
        assert_eq!(disk_of("sys/block/sda/stat"), None);
        assert_eq!(disk_of("proc/sys/vm/dirty_bytes"), None);
    }
}
