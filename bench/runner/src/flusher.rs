// SPDX-License-Identifier: GPL-2.0-only
//! CPU time of flushers, which shows whether the flusher or its disk limits writeback: a flusher
//! that is never idle is what all writers wait for.
//!
//! Flushers are work items that unbound kernel workers pick up. A worker carries what it does, or
//! did last, in its name (`kworker/u8:1-flush-254:0`), so its CPU time since the last look is a
//! flusher's if its name says so now. Looking is cheap but not free: once a second is enough.

use std::collections::HashMap;
use std::fs;

/// Workers, and what of their CPU time was spent flushing.
#[derive(Default)]
pub struct Flushers {
    /// Process id to CPU time at the last look, in ticks.
    workers: HashMap<u32, u64>,
    /// Ticks spent flushing since the first look.
    ticks: u64,
}

/// `USER_HZ`, which /proc counts CPU time in.
const TICKS_PER_SECOND: u64 = 100;

impl Flushers {
    /// Takes all workers' times; the first look only remembers them.
    pub fn sample_workers(&mut self) {
        let first = self.workers.is_empty();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse().ok()) else {
                continue;
            };
            // Processes come and go; one that is gone is left out.
            let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            let Some((flushes, ticks)) = parse_worker(&stat) else {
                continue;
            };
            let before = self.workers.insert(pid, ticks);
            if flushes && !first {
                self.ticks += ticks.saturating_sub(before.unwrap_or(0));
            }
        }
    }

    /// CPU time spent flushing since the first look.
    pub fn flushing_ns(&self) -> u64 {
        self.ticks * (1_000_000_000 / TICKS_PER_SECOND)
    }
}

/// Of an unbound worker's `/proc/PID/stat`: does it flush, and how many ticks it has used.
fn parse_worker(stat: &str) -> Option<(bool, u64)> {
    let name = stat.split_once('(')?.1;
    if !name.starts_with("kworker/u") {
        return None;
    }
    // The name ends with the last parenthesis; user and system time are the 12th and 13th field
    // after it.
    let (name, rest) = name.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    Some((name.contains("flush-"), ticks()? + ticks()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flushers_are_told_from_other_workers() {
        let stat = |name: &str| {
            format!("42 ({name}) I 2 0 0 0 -1 69238880 0 0 0 0 3 899 0 0 20 0 1 0 90 0 0")
        };
        assert_eq!(
            parse_worker(&stat("kworker/u8:1-flush-254:0")),
            Some((true, 902))
        );
        assert_eq!(
            parse_worker(&stat("kworker/u8:1-events_unbound")),
            Some((false, 902))
        );
        assert_eq!(parse_worker(&stat("kworker/0:1-events")), None);
        assert_eq!(parse_worker(&stat("fio) (x")), None);
        assert_eq!(parse_worker(""), None);
    }
}
