// SPDX-License-Identifier: GPL-2.0-only
//! What the agent costs, under the names that Prometheus' own libraries use.

use crate::family::Family;
use knobs::PageSize;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Scrapes and their time.
#[derive(Debug, Default)]
pub struct Own {
    scrapes: AtomicU64,
    nanoseconds: AtomicU64,
    last: AtomicU64,
}

impl Own {
    /// Notes that a scrape's figures took so long to read.
    pub fn note_scrape(&self, time: Duration) {
        let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.scrapes.fetch_add(1, Ordering::Relaxed);
        self.nanoseconds.fetch_add(time, Ordering::Relaxed);
        self.last.store(time, Ordering::Relaxed);
    }

    /// The agent's metrics of itself.
    pub fn agent_families(&self) -> Vec<Family> {
        let seconds = |time: &AtomicU64| time.load(Ordering::Relaxed) as f64 / 1e9;
        let mut version = Family::gauge("weir_build_info", "1, labelled with the version.");
        version.add(&[("version", &Arc::from(env!("CARGO_PKG_VERSION")))], 1_u64);
        let mut families = vec![
            version,
            Family::counter(
                "weir_agent_scrapes",
                "Times that the figures here were read.",
            )
            .with(self.scrapes.load(Ordering::Relaxed)),
            Family::counter(
                "weir_agent_scrape_reading",
                "Time that the last reading of the figures took.",
            )
            .in_seconds()
            .with(seconds(&self.nanoseconds)),
            Family::gauge(
                "weir_agent_last_scrape_reading",
                "Time that reading the figures shown here took.",
            )
            .in_seconds()
            .with(seconds(&self.last)),
        ];
        families.extend(process_families());
        families
    }
}

/// CPU time, memory, descriptors, start: as far as /proc tells.
fn process_families() -> Vec<Family> {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let boot = fs::read_to_string("/proc/stat").unwrap_or_default();
    let mut families = from_stat(&stat, &boot).unwrap_or_default();
    if let Ok(entries) = fs::read_dir("/proc/self/fd") {
        families.push(
            Family::gauge("process_open_fds", "Open file descriptors.")
                .with(entries.count() as u64),
        );
    }
    families
}

/// From /proc/self/stat, whose second word may hold anything but ends with the last parenthesis,
/// and /proc/stat.
fn from_stat(stat: &str, boot: &str) -> Option<Vec<Family>> {
    let words: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    // As proc(5) counts, the first word here is the third.
    let number = |place: usize| words.get(place - 3)?.parse::<u64>().ok();
    let boot = boot
        .lines()
        .find_map(|line| line.strip_prefix("btime ")?.trim().parse::<u64>().ok())?;
    // What the kernel counts these in, on every architecture it tells user space about.
    const TICKS: f64 = 100.0;
    Some(vec![
        Family::counter("process_cpu", "User and system CPU time.")
            .in_seconds()
            .with((number(14)? + number(15)?) as f64 / TICKS),
        Family::gauge("process_resident_memory", "Resident memory.")
            .in_bytes()
            .with(number(24)? * PageSize::running().bytes()),
        Family::gauge("process_start_time", "When it started, since the epoch.")
            .in_seconds()
            .with(boot as f64 + number(22)? as f64 / TICKS),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::open_metrics;

    #[test]
    fn proc_is_understood_whatever_the_process_is_called() {
        let stat = "7 (a) b) R 1 7 7 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 3 0 1000 9999 12 18446744073709551615";
        let families = from_stat(stat, "cpu 1\nbtime 1700000000\n").expect("complete");
        let text = open_metrics(families).expect("written");
        assert!(text.contains("process_cpu_seconds_total 3.0\n"), "{text}");
        assert!(
            text.contains("process_resident_memory_bytes 49152\n"),
            "{text}"
        );
        assert!(
            text.contains("process_start_time_seconds 1700000010.0\n"),
            "{text}"
        );
    }

    #[test]
    fn this_process_is_measured() {
        let own = Own::default();
        own.note_scrape(Duration::from_millis(1500));
        own.note_scrape(Duration::from_millis(500));
        let text = open_metrics(own.agent_families()).expect("written");
        for line in [
            "weir_agent_scrapes_total 2\n",
            "weir_agent_scrape_reading_seconds_total 2.0\n",
            "weir_agent_last_scrape_reading_seconds 0.5\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
        assert!(text.contains("process_resident_memory_bytes "), "{text}");
    }
}
