// SPDX-License-Identifier: GPL-2.0-only
//! Computation of figures that are more than a count.

use crate::measured::{
    AllocatingJob, IoStalls, Measured, MeasuredCgroup, MeasuredJob, MeasuredPressure, MemoryJob,
    Placement, Tiers,
};

/// A cgroup no further than this from its budget has come to rest, in percent.
const NEAR: f64 = 2.0;
/// Span of the kernel's shortest average of pressure, in nanoseconds.
const PEAK_NS: u64 = 10_000_000_000;

impl Measured {
    pub(super) fn per_second(&self, bytes: u64) -> f64 {
        bytes as f64 / (self.elapsed_ns.max(1) as f64 / 1e9)
    }

    pub(super) fn percent_of_time(&self, ns: u64) -> f64 {
        ns as f64 / self.elapsed_ns.max(1) as f64 * 100.0
    }

    pub(super) fn host_pressure(&self) -> &MeasuredPressure {
        &self.host.pressure
    }
}

impl MemoryJob {
    pub(super) fn per_second(&self) -> f64 {
        self.ops as f64 * 1e9 / self.elapsed_ns.max(1) as f64
    }
}

impl AllocatingJob {
    pub(super) fn per_second(&self, bytes: u64) -> f64 {
        bytes as f64 * 1e9 / self.elapsed_ns.max(1) as f64
    }
}

impl Placement {
    pub(super) fn top_percent(&self) -> Option<f64> {
        Some(self.top as f64 * 100.0 / (self.top + self.low).max(1) as f64)
    }
}

/// Of all jobs that read memory, per second.
pub(super) fn accesses_per_second(of: &Measured) -> Option<f64> {
    let jobs = of.memory.values();
    of.tiers.as_ref()?;
    Some(jobs.map(MemoryJob::per_second).sum())
}

pub(super) fn spread_percent_of_processes(job: &MeasuredJob) -> Option<f64> {
    let all: u128 = job.each.iter().map(|bytes| u128::from(*bytes)).sum();
    let (least, most) = (job.each.iter().min()?, job.each.iter().max()?);
    let mean = all as f64 / job.each.len() as f64;
    (job.each.len() > 1 && all > 0).then(|| (most - least) as f64 / mean * 100.0)
}

pub(super) fn jain_index(job: &MeasuredJob) -> Option<f64> {
    // In pages, so that squares fit.
    let pages = || job.each.iter().map(|bytes| u128::from(bytes >> 12));
    let sum: u128 = pages().sum();
    let squares: u128 = pages().map(|pages| pages * pages).sum();
    let all = job.each.len();
    (all > 1 && job.each.iter().any(|bytes| *bytes > 0))
        .then(|| (sum * sum) as f64 / (all as u128 * squares) as f64)
}

pub(super) fn max_bytes(bytes: &[u64]) -> Option<f64> {
    bytes.iter().max().map(|most| *most as f64)
}

pub(super) fn median_bytes(bytes: &[u64]) -> Option<f64> {
    median(bytes.iter().map(|bytes| *bytes as f64))
}

/// The largest part of any ten seconds, in percent; of all there is if that is less.
pub(super) fn peak_percent(stalls: &[IoStalls], of: fn(&IoStalls) -> u64) -> Option<f64> {
    let (first, last) = (stalls.first()?, stalls.last()?);
    let length = PEAK_NS.min(last.at_ns - first.at_ns);
    let mut end = 0;
    let part = |(at, begin): (usize, &IoStalls)| {
        end = end.max(at);
        while stalls.get(end)?.at_ns - begin.at_ns < length {
            end += 1;
        }
        let lost = of(&stalls[end]).saturating_sub(of(begin));
        Some(lost as f64 * 100.0 / (stalls[end].at_ns - begin.at_ns).max(1) as f64)
    };
    stalls.iter().enumerate().filter_map(part).reduce(f64::max)
}

/// The middle value, or the mean of the two middle ones.
pub(super) fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    let (middle, is_even) = (values.len() / 2, values.len() % 2 == 0);
    if values.is_empty() {
        return None;
    }
    let (below, upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    let lower = below.iter().copied().max_by(f64::total_cmp);
    match lower.filter(|_| is_even) {
        Some(lower) => Some((lower + *upper) / 2.0),
        None => Some(*upper),
    }
}

impl Tiers {
    fn is_counted(&self, at_ns: u64) -> bool {
        (self.mark_ns..=self.end_ns).contains(&at_ns)
    }
}

pub(super) fn migrated_per_minute(of: &Measured) -> Option<f64> {
    let tiers = of.tiers.as_ref()?;
    let mut counted = tiers
        .migrated
        .iter()
        .filter(|(at, _)| tiers.is_counted(*at));
    let first = counted.next()?;
    let last = counted.next_back()?;
    let minutes = (last.0 - first.0).max(1) as f64 / 60e9;
    Some((last.1 - first.1) as f64 / minutes)
}

/// A median over the part of a phase that counts.
pub(super) fn median_of_counted(
    of: &Measured,
    cgroup: &MeasuredCgroup,
    value: fn(&Placement) -> Option<f64>,
) -> Option<f64> {
    let tiers = of.tiers.as_ref()?;
    let counted = cgroup.places.iter().filter(|at| tiers.is_counted(at.at_ns));
    median(counted.filter_map(value))
}

/// From the last job's start until the cgroup is near its budget and stays there, in nanoseconds;
/// infinite if it is not near in the end.
pub(super) fn settle_time(of: &Measured, cgroup: &MeasuredCgroup) -> Option<f64> {
    let tiers = of.tiers.as_ref()?;
    let since = |at: &&Placement| (tiers.last_start_ns..=tiers.end_ns).contains(&at.at_ns);
    let errors: Vec<(u64, f64)> = cgroup
        .places
        .iter()
        .filter(since)
        .filter_map(|place| Some((place.at_ns, place.budget_error_percent()?)))
        .collect();
    let first = errors.first()?.0;
    let rest = errors.iter().rev().take_while(|(_, error)| *error <= NEAR);
    let from = match rest.last() {
        // Near from the first look on: it was so when the job began.
        Some((at, _)) if *at == first => tiers.last_start_ns,
        Some((at, _)) => *at,
        None => return Some(f64::INFINITY),
    };
    Some((from - tiers.last_start_ns) as f64)
}
