// SPDX-License-Identifier: GPL-2.0-only
//! Watching where memory lies: per cgroup and node twice a second, by `memory.numa_stat`, which
//! every kernel has, and by the module's `memory.toptier_high` and `memory.toptier_max` what the
//! budget is.
//!
//! Reading `memory.numa_stat` makes the kernel add up a cgroup's counters, which is what the agent
//! does, too; twice a second of it costs an emulated CPU a few milliseconds and changes nothing
//! that is measured here.

use crate::cgroups::parse_flat_key;
use crate::system::to_nanoseconds;
use anyhow::{Result, anyhow};
use knobs::PageSize;
use scenario::rundir::{TierSamples, TierSeries};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_millis(500);
/// Keys of `memory.numa_stat` for pages on LRU lists; the rest of a cgroup's memory cannot be
/// moved.
const LISTS: &[&str] = &[
    "inactive_anon",
    "active_anon",
    "inactive_file",
    "active_file",
    "unevictable",
];

/// A phase being watched.
pub struct TierWatch {
    start: Instant,
    stop: Arc<AtomicBool>,
    sampler: JoinHandle<TierSamples>,
}

impl TierWatch {
    /// Starts to sample where memory lies.
    pub fn start(cgroups: Vec<(String, PathBuf)>, top_nodes: Vec<usize>) -> TierWatch {
        let (start, stop) = (Instant::now(), Arc::new(AtomicBool::new(false)));
        let flag = stop.clone();
        let sampler =
            std::thread::spawn(move || sample_until_stopped(&cgroups, top_nodes, start, &flag));
        TierWatch {
            start,
            stop,
            sampler,
        }
    }

    /// Ends; the last job began, the time that counts began, and the first job was told to end at
    /// these times.
    pub fn finish_phase(self, [last_start, mark, end]: [Instant; 3]) -> Result<TierSamples> {
        self.stop.store(true, Ordering::Relaxed);
        let mut samples = self
            .sampler
            .join()
            .map_err(|_| anyhow!("the thread that watches tiers panicked"))?;
        let since = |at: Instant| to_nanoseconds(at.saturating_duration_since(self.start));
        (samples.last_start_ns, samples.mark_ns, samples.end_ns) =
            (since(last_start), since(mark), since(end));
        Ok(samples)
    }
}

fn sample_until_stopped(
    cgroups: &[(String, PathBuf)],
    top_nodes: Vec<usize>,
    start: Instant,
    stop: &AtomicBool,
) -> TierSamples {
    let mut samples = TierSamples {
        top_nodes,
        ..TierSamples::default()
    };
    let mut series: BTreeMap<String, TierSeries> = BTreeMap::new();
    let mut next = start;
    while !stop.load(Ordering::Relaxed) {
        let vmstat = fs::read_to_string("/proc/vmstat").unwrap_or_default();
        if let Some(pages) = parse_flat_key(&vmstat, "pgmigrate_success") {
            let bytes = pages * PageSize::running().bytes();
            samples
                .migrated
                .push((to_nanoseconds(start.elapsed()), bytes));
        }
        for (path, directory) in cgroups {
            let read = |file| fs::read_to_string(directory.join(file)).unwrap_or_default();
            let nodes = sum_bytes_by_node(&read("memory.numa_stat"));
            if nodes.is_empty() {
                continue;
            }
            let budgets = ["memory.toptier_high", "memory.toptier_max"];
            let budget = budgets
                .iter()
                .filter_map(|file| read(file).trim().parse().ok());
            let series = series.entry(path.clone()).or_default();
            series.at_ns.push(to_nanoseconds(start.elapsed()));
            series.node_bytes.push(nodes);
            series.budget_bytes.push(budget.min());
        }
        next += EVERY;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    samples.cgroups = series;
    samples
}

/// Bytes on each node, of `memory.numa_stat`'s text.
fn sum_bytes_by_node(text: &str) -> Vec<u64> {
    let mut nodes = Vec::new();
    for line in text.lines() {
        let mut words = line.split(' ');
        if !words.next().is_some_and(|list| LISTS.contains(&list)) {
            continue;
        }
        for (node, bytes) in words.filter_map(parse_node_bytes).collect::<Vec<_>>() {
            if nodes.len() <= node {
                nodes.resize(node + 1, 0);
            }
            nodes[node] += bytes;
        }
    }
    nodes
}

/// Node and bytes of a word such as `N1=4096`.
fn parse_node_bytes(word: &str) -> Option<(usize, u64)> {
    let (node, bytes) = word.strip_prefix('N')?.split_once('=')?;
    Some((node.parse().ok()?, bytes.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_added_up_over_lru_lists() {
        let text = "anon N0=999 N1=999\nfile N0=1 N1=1\ninactive_anon N0=4096 N1=8192\nactive_anon N0=4096 N1=0\n\
                    inactive_file N0=0 N1=4096\nactive_file N0=0 N1=0\nunevictable N0=0 N1=0\nslab_reclaimable N0=7 N1=7\n";
        assert_eq!(sum_bytes_by_node(text), [8192, 12_288]);
        assert!(sum_bytes_by_node("").is_empty());
    }
}
