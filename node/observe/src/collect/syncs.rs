// SPDX-License-Identifier: GPL-2.0-only
//! How long each fsync of the running kernel takes, and of which cgroup it is.
//!
//! A task's cgroup is asked for when its first fsync is read, which the agent does once a second. One
//! that has ended by then was in its maker's, unless it was moved. Tasks rarely change cgroups, so it
//! is asked for again only now and then.

use super::homes::Homes;
use super::tasks::now_ns;
use super::tracefs::Tracefs;
use crate::model::event::{Event, What};
use crate::model::trace::Trace;
use anyhow::{Context, Result, ensure};
use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

/// Bytes of the kernel's buffer for each CPU: some 10,000 records, of 100 ms.
const BUFFER: u64 = 512 << 10;

/// An fsync, or a read; nanoseconds on the kernel's monotonic clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timed {
    /// Path of the cgroup, as cgroup v2 has it: `/db`.
    pub cgroup: String,
    /// The time at which it began.
    pub began_ns: u64,
    /// Time that it took, or takes already.
    pub took_ns: u64,
}

/// Looks at every fsync, until it is dropped.
pub struct Syncs {
    tracing: Tracefs,
    spans: SyncSpans,
    homes: Homes,
}

/// Calls of fsync under way, by task.
#[derive(Default)]
struct SyncSpans(HashMap<u32, u64>);

impl SyncSpans {
    /// Takes events; returns the calls that they end: task, beginning, end.
    fn end_spans(&mut self, mut events: Vec<Event>) -> Vec<(u32, u64, u64)> {
        // Each CPU has its own buffer.
        events.sort_by_key(|event| event.ns);
        let mut ended = Vec::new();
        for Event { ns, task, what } in events {
            match what {
                What::SyncBegan => {
                    self.0.insert(task, ns);
                }
                What::SyncEnded => {
                    let began = self.0.remove(&task);
                    ended.extend(began.map(|began| (task, began, ns)));
                }
                _ => {}
            }
        }
        ended
    }
}

impl Syncs {
    /// Begins.
    ///
    /// # Errors
    /// Events cannot be had: there is no tracefs, no permission, or no such function to probe; or
    /// there are, and an fsync of our own is not seen.
    pub fn start() -> Result<Syncs> {
        let mut syncs = Syncs {
            tracing: Tracefs::start_syncs(Path::new("/sys/kernel"), BUFFER)?,
            spans: SyncSpans::default(),
            homes: Homes::new(Path::new("/")),
        };
        ensure!(
            syncs.sees_its_own()?,
            "this kernel's fsync goes by none of the functions that weir probes"
        );
        Ok(syncs)
    }

    /// Returns whether an fsync is seen: of a device that has nothing to write, so it fails, at
    /// once.
    fn sees_its_own(&mut self) -> Result<bool> {
        let nothing = File::open("/dev/null").context("cannot open /dev/null")?;
        let _ = nothing.sync_all();
        let mut trace = Trace::default();
        self.tracing.read_buffers(&mut trace)?;
        let own = u32::try_from(nix::unistd::gettid().as_raw())?;
        let ended = self.spans.end_spans(trace.events);
        Ok(ended.iter().any(|(task, _, _)| *task == own))
    }

    /// Takes the calls that have ended since the last call.
    ///
    /// # Errors
    /// The kernel's buffers cannot be read.
    pub fn take_ended(&mut self) -> Result<Vec<Timed>> {
        let mut trace = Trace::default();
        self.tracing.read_buffers(&mut trace)?;
        self.homes.absorb_origins(&mut trace.events);
        let ended = self.spans.end_spans(trace.events).into_iter();
        let homes = &mut self.homes;
        Ok(ended
            .filter_map(|(task, began, end)| Timed::of_task(homes, task, began, end))
            .collect())
    }

    /// Calls under way now. Of a task that was killed in one nothing is known any more.
    pub fn under_way(&mut self) -> Vec<Timed> {
        let now = now_ns();
        let homes = &mut self.homes;
        let mut found = Vec::new();
        self.spans.0.retain(|task, began| {
            let is_there = Path::new("/proc").join(task.to_string()).exists();
            if is_there {
                found.extend(Timed::of_task(homes, *task, *began, now));
            }
            is_there
        });
        found
    }
}

impl Timed {
    /// A call or read of a task; none if its cgroup is not known.
    pub(super) fn of_task(homes: &mut Homes, task: u32, began: u64, end: u64) -> Option<Timed> {
        let home = homes.find_home(task, now_ns())?;
        Some(Timed {
            cgroup: format!("/{home}"),
            began_ns: began,
            took_ns: end.saturating_sub(began),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_put_together_over_cpus_and_calls() {
        let event = |ns, task, what| Event { ns, task, what };
        let mut spans = SyncSpans::default();
        let ended = spans.end_spans(vec![
            event(30, 1, What::SyncEnded),
            event(50, 2, What::SyncBegan),
            event(10, 1, What::SyncBegan),
            event(5, 3, What::SyncEnded),
        ]);
        assert_eq!(ended, [(1, 10, 30)]);
        assert_eq!(
            spans.end_spans(vec![event(90, 2, What::SyncEnded)]),
            [(2, 50, 90)]
        );
        assert!(spans.0.is_empty());
    }
}
