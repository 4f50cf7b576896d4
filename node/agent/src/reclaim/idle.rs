// SPDX-License-Identifier: GPL-2.0-only
//! Idle memory: has the kernel reclaim it while there are limits that the agent has set.
//!
//! `memory.reclaim` of the root takes what is coldest on the whole host, in the task that writes
//! it. With slow swap that can take seconds, in which limits have to be kept: so each request has a
//! thread of its own, one at a time. If the agent ends, the thread does.

use super::candidates::{self, ReclaimCounts};
use knobs::PAGE;
use policy::reclaim;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Result, Write};
use std::path::{Path, PathBuf};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

const FILE: &str = "memory.reclaim";

/// Requests for idle memory.
pub struct Idle {
    /// The root of the hierarchy.
    root: PathBuf,
    /// Until the next request, in milliseconds.
    wait_ms: u64,
    due: Instant,
    /// Pages of the last request, and what was counted before it outside of limited cgroups.
    last: Option<(u64, ReclaimCounts)>,
    running: Option<JoinHandle<Result<()>>>,
    /// The kernel has no such file in the root (before Linux 5.19).
    lacks: bool,
    /// Pages asked for so far.
    pub asked: u64,
}

impl Idle {
    /// Asks nothing yet.
    pub fn new(root: &Path) -> Idle {
        Idle {
            root: root.into(),
            wait_ms: 0,
            due: Instant::now(),
            last: None,
            running: None,
            lacks: false,
            asked: 0,
        }
    }

    /// Returns whether it is time for a request.
    pub fn is_due(&self, now: Instant) -> bool {
        !self.lacks && now >= self.due
    }

    /// Asks a host of `memory` pages, where limited cgroups have had `limited` until now; how long
    /// after comes the next one is decided by what became of the last one. Whether it is the first
    /// of this episode.
    ///
    /// # Errors
    /// The kernel refused the last request, for another reason than that it found less.
    pub fn request_idle(
        &mut self,
        memory: u64,
        limited: ReclaimCounts,
        now: Instant,
    ) -> Result<bool> {
        if let Some(running) = self.running.take_if(|running| running.is_finished()) {
            self.join_request(running)?;
        }
        if self.lacks || self.running.is_some() {
            return Ok(false);
        }
        let Some(all) = candidates::read_counts(&self.root) else {
            return Ok(false);
        };
        let others = all.counts_since(limited);
        let (asked, before) = self.last.unwrap_or((0, others));
        let became = others.counts_since(before);
        let (stolen, refaulted) = (became.stolen, became.refaulted);
        self.wait_ms = reclaim::idle_wait(self.wait_ms, asked, stolen, refaulted);
        let pages = reclaim::idle_pages(memory);
        let file = self.root.join(FILE);
        let thread = Builder::new().name("reclaim-idle".into());
        self.running = Some(thread.spawn(move || write(&file, pages))?);
        self.asked += pages;
        self.due = now + Duration::from_millis(self.wait_ms);
        Ok(self.last.replace((pages, others)).is_none())
    }

    /// Forgets what was counted: no cgroup is limited any more.
    pub fn forget_counts(&mut self) {
        self.last = None;
        self.wait_ms = 0;
    }

    fn join_request(&mut self, running: JoinHandle<Result<()>>) -> Result<()> {
        // If it panicked, that was said where it happened.
        match running.join().unwrap_or(Ok(())) {
            // Less was found than asked for: counters show how much.
            Err(why) if why.raw_os_error() == Some(nix::libc::EAGAIN) => Ok(()),
            Err(why) if why.kind() == ErrorKind::NotFound => {
                self.lacks = true;
                Ok(())
            }
            other => other,
        }
    }
}

/// Only memory that goes to swap, where the kernel can be told so (Linux 6.9 and later): page cache
/// that is dropped is soon read again by those who are busy.
fn write(file: &Path, pages: u64) -> Result<()> {
    let mut file = OpenOptions::new().write(true).open(file)?;
    let bytes = pages * PAGE;
    match file.write_all(format!("{bytes} swappiness=200").as_bytes()) {
        Err(why) if why.kind() == ErrorKind::InvalidInput => {
            file.write_all(bytes.to_string().as_bytes())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const MEMORY: u64 = 1 << 20;

    fn counted(root: &Path, stolen: u64, refaulted: u64) {
        let text = format!("pgsteal {stolen}\nworkingset_refault_anon {refaulted}\n");
        fs::write(root.join("memory.stat"), text).expect("written");
    }

    /// Asks at `now` once the last request is done.
    fn ask(idle: &mut Idle, limited: u64, now: Instant) -> Result<bool> {
        while idle
            .running
            .as_ref()
            .is_some_and(|running| !running.is_finished())
        {
            std::thread::yield_now();
        }
        let limited = ReclaimCounts {
            stolen: limited,
            refaulted: 0,
        };
        idle.request_idle(MEMORY, limited, now)
    }

    #[test]
    fn the_next_request_waits_for_what_became_of_the_last() {
        let dir = tempfile::tempdir().expect("made");
        let file = dir.path().join(FILE);
        fs::write(&file, "").expect("written");
        counted(dir.path(), 1_000, 0);
        let mut idle = Idle::new(dir.path());
        let begin = Instant::now() + Duration::from_secs(1);
        assert!(idle.is_due(begin));
        assert!(ask(&mut idle, 900, begin).expect("asked"), "the first");
        let after = |ms| begin + Duration::from_millis(ms);
        assert!(!idle.is_due(after(499)) && idle.is_due(after(500)));

        // 2,048 pages were asked for. 300 came from elsewhere, 20 were needed again.
        counted(dir.path(), 2_000, 20);
        assert!(!ask(&mut idle, 1_600, begin).expect("asked"), "the second");
        assert_eq!((idle.wait_ms, idle.asked), (250, 4_096));
        assert_eq!(
            fs::read_to_string(&file).expect("written"),
            "8388608 swappiness=200"
        );

        // All of what was taken was limited cgroups'.
        counted(dir.path(), 3_000, 20);
        assert!(!ask(&mut idle, 2_600, begin).expect("asked"));
        assert!(!idle.is_due(after(499)) && idle.is_due(after(500)));

        idle.forget_counts();
        assert!(
            ask(&mut idle, 2_600, begin).expect("asked"),
            "another episode"
        );
    }

    #[test]
    fn a_kernel_without_the_file_is_asked_once() {
        let dir = tempfile::tempdir().expect("made");
        counted(dir.path(), 0, 0);
        let mut idle = Idle::new(dir.path());
        let now = Instant::now() + Duration::from_secs(1);
        assert!(ask(&mut idle, 0, now).expect("asked"));
        assert!(!ask(&mut idle, 0, now).expect("no error"));
        assert!(!idle.is_due(now + Duration::from_secs(100)));
    }

    #[test]
    fn what_the_kernel_refuses_is_an_error_but_for_too_little() {
        let dir = tempfile::tempdir().expect("made");
        let mut idle = Idle::new(dir.path());
        let ended = |errno| {
            let why = std::io::Error::from_raw_os_error(errno);
            std::thread::spawn(move || Err(why))
        };
        assert!(idle.join_request(ended(nix::libc::EAGAIN)).is_ok());
        assert!(idle.join_request(ended(nix::libc::EINVAL)).is_err());
    }
}
