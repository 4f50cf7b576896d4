// SPDX-License-Identifier: GPL-2.0-only
//! Threads that start writeback of the files that they are given, one part after the other.
//!
//! Pages are submitted for the cgroup that they are charged to, as by its flusher: `io.stat`,
//! `io.max` and weights count them there. The CPU time is the agent's. A thread waits in the kernel
//! where the disk's queue is full, for ever if a device hangs; nothing waits for a thread.

use super::files::Open;
use nix::errno::Errno;
use nix::libc;
use nix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of a file that one call looks at: a second at most of a slow submission.
const PART: u64 = 1 << 20;
/// A file stays open for so long: as long its filesystem cannot be unmounted, and its blocks are
/// not free if it is removed.
const OPEN: Duration = Duration::from_secs(1);
/// CPU time below which a look at a file counts as one that found nothing to write.
const NOTHING: Duration = Duration::from_micros(100);
/// A thread sleeps so long after a file with nothing to write.
const PAUSE: Duration = Duration::from_millis(10);

/// State that the threads of one device share.
#[derive(Default)]
struct Shared {
    /// Number of threads wanted: a thread with a higher number ends.
    wanted: AtomicU64,
    /// Number of threads alive.
    alive: AtomicU64,
    files: Mutex<Vec<Arc<Item>>>,
    /// Counts files that were taken.
    next: AtomicU64,
    /// CPU time of them all, in nanoseconds.
    cpu_ns: AtomicU64,
}

/// A file, and how far it has been looked at in this round.
struct Item {
    open: Open,
    part: AtomicU64,
}

/// The threads of one device. Dropped, they end after the call that they are in.
#[derive(Default)]
pub struct Threads(Arc<Shared>);

impl Threads {
    /// Has so many threads from now on.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn set(&self, wanted: u64) -> io::Result<()> {
        self.0.wanted.store(wanted, Ordering::Relaxed);
        let mut number = self.0.alive.load(Ordering::Relaxed);
        while number < wanted {
            let shared = Arc::clone(&self.0);
            self.0.alive.fetch_add(1, Ordering::Relaxed);
            let thread = std::thread::Builder::new().name("assist".into());
            // One that is in a call of a device that hangs is not waited for.
            thread
                .spawn(move || run_assistant(&shared, number))
                .inspect_err(|_| {
                    self.0.alive.fetch_sub(1, Ordering::Relaxed);
                })?;
            number += 1;
        }
        Ok(())
    }

    /// Number of threads alive; more than wanted while some are in their last call.
    pub fn threads_alive(&self) -> u64 {
        self.0.alive.load(Ordering::Relaxed)
    }

    /// The files from now on.
    pub fn set_files(&self, files: Vec<Open>) {
        let item = |open| {
            Arc::new(Item {
                open,
                part: AtomicU64::new(0),
            })
        };
        *lock_files(&self.0.files) = files.into_iter().map(item).collect();
    }

    /// CPU time of them all so far.
    pub fn cpu_time(&self) -> Duration {
        Duration::from_nanos(self.0.cpu_ns.load(Ordering::Relaxed))
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.0.wanted.store(0, Ordering::Relaxed);
    }
}

fn lock_files(files: &Mutex<Vec<Arc<Item>>>) -> std::sync::MutexGuard<'_, Vec<Arc<Item>>> {
    files.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run_assistant(shared: &Shared, number: u64) {
    let is_wanted = || number < shared.wanted.load(Ordering::Relaxed);
    while is_wanted() {
        let began = cpu_time();
        if let Some(item) = next_item(shared) {
            // One that cannot be opened has been closed since, or is none of the disk's.
            if let Ok(Some(file)) = item.open.open() {
                start_writeback(shared, &item, &file, &is_wanted);
            }
        }
        if cpu_time().saturating_sub(began) < NOTHING {
            std::thread::sleep(PAUSE);
        }
    }
    shared.alive.fetch_sub(1, Ordering::Relaxed);
}

fn next_item(shared: &Shared) -> Option<Arc<Item>> {
    let files = lock_files(&shared.files);
    let next = shared.next.fetch_add(1, Ordering::Relaxed);
    let next = next.checked_rem(files.len() as u64)?;
    files.get(usize::try_from(next).ok()?).cloned()
}

/// Starts writeback of the parts of a file that no other thread has taken in this round.
fn start_writeback(shared: &Shared, item: &Item, file: &File, is_wanted: &impl Fn() -> bool) {
    let length = file.metadata().map_or(0, |metadata| metadata.len());
    let opened = Instant::now();
    while is_wanted() && opened.elapsed() < OPEN {
        let began = cpu_time();
        let from = item
            .part
            .fetch_add(1, Ordering::Relaxed)
            .saturating_mul(PART);
        if from >= length || start_part(file, from).is_err() {
            item.part.store(0, Ordering::Relaxed);
            return;
        }
        let took = cpu_time().saturating_sub(began).as_nanos();
        let took = u64::try_from(took).unwrap_or(0);
        shared.cpu_ns.fetch_add(took, Ordering::Relaxed);
    }
}

fn start_part(file: &File, from: u64) -> nix::Result<()> {
    let from = i64::try_from(from).map_err(|_| Errno::EFBIG)?;
    let flags = libc::SYNC_FILE_RANGE_WRITE;
    // SAFETY: the file is open; no memory is passed.
    let done = unsafe { libc::sync_file_range(file.as_raw_fd(), from, PART as i64, flags) };
    Errno::result(done).map(drop)
}

/// CPU time that the calling thread has used so far.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}
