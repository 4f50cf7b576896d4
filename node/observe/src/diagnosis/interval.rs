// SPDX-License-Identifier: GPL-2.0-only
//! A slice of time as figures by cgroup and by device: what `weir top` shows.
//!
//! Whatever can be had of descendants is added up, as the cgroup files do it. Where figures come
//! from:
//!
//! * out: `io.stat`, bytes written to any device, direct writes too. In: out, and by how much the
//!   dirty pages grew. Example: 2 MiB written in 2 s while dirty + writeback grew by 6 MiB: in 4
//!   MiB/s, out 1 MiB/s. No file counts what a cgroup dirties; dirty files that were deleted make
//!   the growth smaller;
//! * limit: the kernel's own for the cgroup, computed from the files as the kernel does: the host's
//!   part of what the cgroup could have dirty. Example: 32 MiB of 1.9 GiB is 1.6 %; page cache 20
//!   MiB and 34 MiB left to its `memory.max`: 0.9 MiB;
//! * floor, ceiling: in force, as the module says it; without a record there, as written;
//! * throttled: seconds really slept in each second, by events; by the module's count where those
//!   cannot be had;
//! * lost: seconds in which tasks waited for writeback, in each second: the throttle, fsync and the
//!   journal, reclaim, a bandwidth or ceiling, a FUSE daemon. By events and by looking, as verdicts
//!   have it. Example: one task in fsync for 1.6 s of 2 and another throttled for 0.4 s: lost 1.0.

use super::{Cause, Verdict, limit};
use crate::model::cgroup::Cgroup;
use crate::model::cgroup::{display_path, path_up};
use crate::model::host::{Device, PAGE};
use crate::model::observation::Observation;
use crate::model::stall::StallKind;
use crate::model::target::Target;
use serde::Serialize;
use std::collections::BTreeMap;

/// Cgroups with a verdict at most; a reader cannot use more.
const MOST_VERDICTS: usize = 100;

const THROTTLE: &str = "throttle";
/// Kinds of waits that count as lost: for writeback, or for a limit of dirty pages.
const KINDS: [&str; 6] = [THROTTLE, "fsync", "reclaim", "bandwidth", "ceiling", "fuse"];

/// Changes between two looks.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Interval {
    /// Length of the interval.
    pub seconds: f64,
    /// The sum over all cgroups.
    pub host: HostRow,
    /// The root first, then as found.
    pub cgroups: Vec<CgroupRow>,
    /// Devices, in the order found.
    pub devices: Vec<DeviceRow>,
    /// State of weir's module, if it is loaded.
    pub weir: Option<String>,
    /// Records the buffers had no room for: times are too low.
    pub lost_events: u64,
    /// Notes on what could not be seen, for people.
    pub notes: Vec<String>,
}

/// The host's pages and limits in bytes.
#[derive(Clone, Debug, Default, Serialize)]
pub struct HostRow {
    /// Bytes of dirty pages.
    pub dirty_bytes: u64,
    /// Pages being written.
    pub writeback_bytes: u64,
    /// Writers are held from here on.
    pub freerun_bytes: u64,
    /// The host's dirty limit.
    pub limit_bytes: u64,
}

/// A cgroup with its descendants; nothing is what cannot be known there.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CgroupRow {
    /// The cgroup's path, `/` for the root.
    pub cgroup: String,
    /// Bytes of dirty pages.
    pub dirty_bytes: Option<u64>,
    /// Pages being written.
    pub writeback_bytes: Option<u64>,
    /// The cgroup's floor in force.
    pub floor_bytes: Option<u64>,
    /// The tightest ceiling on its path.
    pub ceiling_bytes: Option<u64>,
    /// The kernel's own limit for it.
    pub limit_bytes: Option<u64>,
    /// Bytes dirtied per second.
    pub in_bytes_per_second: Option<f64>,
    /// Bytes written per second.
    pub out_bytes_per_second: Option<f64>,
    /// Waited for writeback, of all its tasks together.
    pub lost_seconds_per_second: Option<f64>,
    /// The same by what they waited for: `throttle`, `fsync`, `reclaim`, `bandwidth`, `ceiling`, `fuse`.
    pub lost_to: BTreeMap<&'static str, f64>,
    /// Slept in the throttle, of all its tasks together.
    pub throttled_seconds_per_second: Option<f64>,
    /// Waited for its weight, of all its tasks together.
    pub weight_held_seconds_per_second: Option<f64>,
    /// Time that its flushers waited for a window, its own or one above, of all of them together.
    pub window_held_seconds_per_second: Option<f64>,
    /// Why its tasks, or those of the descendant that lost most, stalled.
    pub stall: Option<StallRow>,
}

/// Victim and culprit of a stall.
#[derive(Clone, Debug, Serialize)]
pub struct StallRow {
    /// The cgroup that lost the time: the row's, or below it.
    pub victim: String,
    /// The cause that the time was lost to.
    pub cause: Cause,
    /// Because of whom, or of which device.
    pub culprit: Option<String>,
    /// The reason, in a sentence.
    pub because: String,
    /// The command to type, if a knob changes it.
    pub command: Option<String>,
    /// Seconds that were lost.
    pub lost_seconds: f64,
}

/// A device; nothing is what cannot be known there.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DeviceRow {
    /// The device's number, as in `254:0`.
    pub device: String,
    /// `vda`, if it is a disk.
    pub disk: Option<String>,
    /// Mount point, if it is mounted.
    pub mounted_at: Option<String>,
    /// Filesystem on it.
    pub filesystem: Option<String>,
    /// Bytes of dirty pages.
    pub dirty_bytes: Option<u64>,
    /// Pages being written.
    pub writeback_bytes: Option<u64>,
    /// The device's share of the host's limit.
    pub limit_bytes: Option<u64>,
    /// Bytes dirtied per second.
    pub in_bytes_per_second: Option<f64>,
    /// Bytes written per second.
    pub out_bytes_per_second: f64,
    /// Bytes read per second.
    pub read_bytes_per_second: f64,
    /// Part of the time in which it had work.
    pub busy: f64,
    /// Slept in the throttle for it, of all tasks together.
    pub throttled_seconds_per_second: Option<f64>,
}

impl Interval {
    /// The interval that `seen` covers.
    pub fn from_observation(seen: &Observation) -> Interval {
        let (_, limits) = seen.limits.last().copied().unwrap_or_default();
        let host = HostRow {
            dirty_bytes: limits.dirty * PAGE,
            writeback_bytes: limits.writeback * PAGE,
            freerun_bytes: limits.freerun_pages() * PAGE,
            limit_bytes: limits.thresh * PAGE,
        };
        let mut interval = Interval {
            seconds: seen.seconds,
            cgroups: cgroup_rows(seen),
            devices: device_rows(seen),
            weir: seen.weir.clone(),
            lost_events: seen.lost,
            notes: seen.blind.clone(),
            host,
        };
        if seen.lost > 0 {
            let note = format!("{} events were lost: times are too low", seen.lost);
            interval.notes.push(note);
        }
        interval
    }
}

fn cgroup_rows(seen: &Observation) -> Vec<CgroupRow> {
    let by_path: BTreeMap<&str, &Cgroup> = seen
        .cgroups
        .iter()
        .map(|cgroup| (cgroup.path.as_str(), cgroup))
        .collect();
    let throttled = throttled_by_path(seen);
    let lost = lost_by_path(seen);
    let stalls = stall_rows(seen);
    let stack = seen.device_stack();
    let per_second = |of: f64| of / seen.seconds.max(1e-9);
    let row = |cgroup: &Cgroup| {
        let name = display_path(&cgroup.path);
        let has_memory = |value: u64| cgroup.has_memory.then_some(value);
        let out = cgroup
            .has_io
            .then(|| per_second(cgroup.bytes_written(&stack) as f64));
        let stat = cgroup.stat;
        let throttled = match &throttled {
            Some(seconds) => Some(seconds.get(cgroup.path.as_str()).copied().unwrap_or(0.0)),
            None => stat.map(|stat| stat.throttled_usec as f64 / 1e6),
        };
        let mut lost_to = lost.get(&cgroup.path).cloned().unwrap_or_default();
        if let (Some(seconds), false) = (throttled, lost_to.contains_key(THROTTLE)) {
            if seconds > 0.0 {
                lost_to.insert(THROTTLE, seconds);
            }
        }
        lost_to
            .values_mut()
            .for_each(|seconds| *seconds = per_second(*seconds));
        CgroupRow {
            // Without pauses it is not known what is lost.
            lost_seconds_per_second: throttled.map(|_| lost_to.values().sum()),
            lost_to,
            dirty_bytes: has_memory(cgroup.dirty),
            writeback_bytes: has_memory(cgroup.writeback),
            floor_bytes: stat
                .map(|stat| stat.floor)
                .or(cgroup.dirty_min)
                .filter(|floor| *floor > 0),
            ceiling_bytes: stat.and_then(|stat| stat.ceiling),
            limit_bytes: limit::limit_by_files(seen, |path| by_path.get(path).copied(), cgroup),
            in_bytes_per_second: out
                .zip(cgroup.grown)
                .map(|(out, grown)| (out + per_second(grown as f64)).max(0.0)),
            out_bytes_per_second: out,
            throttled_seconds_per_second: throttled.map(per_second),
            weight_held_seconds_per_second: stat
                .map(|stat| per_second(stat.weight_held_usec as f64 / 1e6)),
            window_held_seconds_per_second: stat
                .map(|stat| per_second(stat.window_held_usec as f64 / 1e6)),
            stall: stalls.get(cgroup.path.as_str()).cloned(),
            cgroup: name,
        }
    };
    seen.cgroups.iter().map(row).collect()
}

/// Throttled seconds by cgroup, descendants' included; nothing if pauses are not seen.
fn throttled_by_path(seen: &Observation) -> Option<BTreeMap<String, f64>> {
    if !seen.seen.contains("balance_dirty_pages") {
        return None;
    }
    let mut throttled: BTreeMap<String, f64> = BTreeMap::new();
    for (home, seconds) in super::throttled_by_cgroup(seen) {
        for path in path_up(&home) {
            *throttled.entry(path.into()).or_default() += seconds;
        }
    }
    Some(throttled)
}

/// Seconds lost by cgroup and by kind, descendants' included.
fn lost_by_path(seen: &Observation) -> BTreeMap<String, BTreeMap<&'static str, f64>> {
    let mut lost: BTreeMap<String, BTreeMap<&'static str, f64>> = BTreeMap::new();
    for group in super::group::find_groups(seen, &Target::Host) {
        let kinds = group.seconds_by_kind().into_iter();
        let kinds: Vec<_> = kinds
            .filter(|(kind, seconds)| KINDS.contains(kind) && *seconds > 0.0)
            .collect();
        for path in path_up(&group.path) {
            let all = lost.entry(path.into()).or_default();
            for (kind, seconds) in &kinds {
                *all.entry(kind).or_default() += seconds;
            }
        }
    }
    lost
}

/// Stalls by cgroup: the reason why it, or the descendant that lost most, stalled.
fn stall_rows(seen: &Observation) -> BTreeMap<String, StallRow> {
    let diagnosis = super::diagnose_most(seen, &Target::Host, MOST_VERDICTS);
    let mut stalls: BTreeMap<String, StallRow> = BTreeMap::new();
    let is_stall = |verdict: &&Verdict| verdict.cause != Cause::Nothing;
    for verdict in diagnosis.verdicts.iter().filter(is_stall) {
        let path = verdict.cgroup.trim_start_matches('/');
        for path in path_up(path) {
            // They come with the longest first.
            stalls.entry(path.into()).or_insert_with(|| StallRow {
                victim: verdict.cgroup.clone(),
                cause: verdict.cause,
                culprit: verdict.culprit.clone(),
                because: verdict.because.clone(),
                command: verdict
                    .remedies
                    .first()
                    .map(|remedy| remedy.command.clone()),
                lost_seconds: verdict.lost.seconds,
            });
        }
    }
    stalls
}

fn device_rows(seen: &Observation) -> Vec<DeviceRow> {
    let mut throttled: BTreeMap<&str, f64> = BTreeMap::new();
    for stall in &seen.stalls {
        if let StallKind::Throttle(pause) = &stall.kind {
            *throttled.entry(&pause.pause.bdi).or_default() += stall.length_ns() as f64 / 1e9;
        }
    }
    let pauses_are_seen = seen.seen.contains("balance_dirty_pages");
    let per_second = |of: f64| of / seen.seconds.max(1e-9);
    let row = |device: &Device| {
        let pages = device.writeback;
        DeviceRow {
            device: device.bdi.clone(),
            disk: device.disk.clone(),
            mounted_at: device.mounted_at.clone(),
            filesystem: device.filesystem.clone(),
            dirty_bytes: pages.map(|pages| pages.dirty),
            writeback_bytes: pages.map(|pages| pages.writeback),
            limit_bytes: pages.map(|pages| pages.limit),
            in_bytes_per_second: pages.map(|pages| per_second(pages.dirtied as f64)),
            out_bytes_per_second: per_second(device.written as f64),
            read_bytes_per_second: per_second(device.read as f64),
            busy: per_second(device.busy_ms as f64 / 1000.0).min(1.0),
            throttled_seconds_per_second: pauses_are_seen.then(|| {
                let seconds = throttled.get(device.bdi.as_str());
                per_second(seconds.copied().unwrap_or(0.0))
            }),
        }
    };
    seen.devices.iter().map(row).collect()
}
