// SPDX-License-Identifier: GPL-2.0-only
//! Disks, from a scenario: their speed, filesystem, and how cgroups share them.

use super::Refusal;
use crate::blk::{Device, Medium, ThrotlGrp, Traits, Vary, Weights};
use crate::jbd2::JournalKind;
use crate::mm::Cgroup;
use crate::sim::clock::SECOND;
use crate::sim::random::Random;
use crate::task::fio::Work;
use crate::writeback::flusher::time_for_1024_pages;
use policy::division::{WEIGHT_DEFAULT, WEIGHT_MAX, WEIGHT_MIN};
use scenario::io_max::parse_io_max;
use scenario::model::{Disk, DiskKind, Filesystem, Reclaim, Scenario, Timing};
use std::collections::BTreeMap;

/// Refuses all that the twin does not model of disks, and of jobs on them.
pub fn refuse_disks(scenario: &Scenario, works: &[Option<Work>], refusals: &mut Vec<Refusal>) {
    check_read_bandwidth(scenario, works, refusals);
    for (index, disk) in scenario.disks.iter().enumerate() {
        let key = |name: &str| format!("disk[{index}].{name}");
        if disk.write_bandwidth.is_none() && scenario.twin.disk_bandwidth.is_none() {
            refusals.push((
                key("write_bandwidth"),
                "is missing: the twin has no disk to measure; add it, or add `disk = \"1G/s\"` to `[twin]`".into(),
            ));
        }
        if disk.encrypted && scenario.twin.flusher_bandwidth.is_none() {
            refusals.push((
                key("encrypted"),
                "the twin does not encrypt: add to `[twin]` what an encrypting flusher can submit, as in `flusher = \"500M/s\"`".into(),
            ));
        }
        for option in mount_options(disk) {
            let name = option.split('=').next().unwrap_or(option);
            let known = match name {
                "commit" => commit_seconds(option).is_some(),
                "data" => ["data=ordered", "data=writeback"].contains(&option),
                _ => MOUNT_OPTIONS.contains(&name),
            };
            if !known {
                refusals.push((
                    key("mount_options"),
                    format!("the twin does not model the mount option `{option}`"),
                ));
            }
        }
    }
}

/// Those that are modelled, or change nothing of what is.
const MOUNT_OPTIONS: &[&str] = &[
    "delalloc",
    "lazytime",
    "noatime",
    "nodelalloc",
    "nodiratime",
    "relatime",
];

fn mount_options(disk: &Disk) -> impl Iterator<Item = &str> {
    let options = disk.mount_options.as_deref().unwrap_or_default();
    options.split(',').filter(|option| !option.is_empty())
}

/// Of `commit=`; 0 is the default.
fn commit_seconds(option: &str) -> Option<u64> {
    let seconds = option.strip_prefix("commit=")?.parse().ok()?;
    Some(if seconds == 0 { COMMIT } else { seconds })
}

/// Seconds between commits by themselves.
const COMMIT: u64 = 5;

/// Mechanism that keeps a disk's filesystem consistent; a server's is not ours to see.
pub fn journal_kind(scenario: &Scenario, disk: &Disk) -> JournalKind {
    let has = |name: &str| mount_options(disk).any(|option| option == name);
    match disk.filesystem {
        _ if scenario.twin.burst_ns.unwrap_or(0) > 0 => JournalKind::Other,
        Filesystem::Ext4 => JournalKind::Ext4 {
            interval: mount_options(disk)
                .find_map(commit_seconds)
                .unwrap_or(COMMIT)
                .saturating_mul(SECOND),
            delalloc: !has("nodelalloc"),
            ordered: !has("data=writeback"),
        },
        Filesystem::Xfs => JournalKind::Xfs {
            large_folios: !matches!(
                scenario.twin.reclaim,
                Some(Reclaim::Waits | Reclaim::Throttles)
            ),
        },
        _ => JournalKind::Other,
    }
}

/// A cgroup's file that is about disks, whether any of them is `divided` by weight.
///
/// # Errors
/// Why it cannot be modelled.
pub fn check_cgroup_file(file: &str, value: &str, divided: bool) -> Result<(), String> {
    if file == "io.max" {
        return parse_io_max(value).map(drop);
    }
    if !divided {
        return Err("has no effect without iocost: add `io_cost = true` to `[[disk]]`".into());
    }
    parse_weight(value).map(drop)
}

fn parse_weight(text: &str) -> Result<u64, String> {
    let number = text.strip_prefix("default ").unwrap_or(text).trim();
    match number.parse() {
        // Every weight of cgroup v2 has this range.
        Ok(weight @ WEIGHT_MIN..=WEIGHT_MAX) => Ok(weight.into()),
        _ => Err(format!(
            "`{text}` is not a weight: a whole number, {WEIGHT_MIN} to {WEIGHT_MAX}"
        )),
    }
}

/// A disk, shared by these cgroups; what chance has to do with it comes from `random`.
pub fn new_device(
    scenario: &Scenario,
    disk: &Disk,
    cgroups: &[Cgroup],
    random: &mut Random,
) -> Device {
    let settings = |path: &str| {
        // What a cgroup with copies says is theirs.
        let above = || scenario.cgroups.get(path.rsplit_once('/')?.0);
        let own = scenario
            .cgroups
            .get(path)
            .filter(|own| own.copies.is_none());
        own.or_else(|| above().filter(|above| above.copies.is_some()))
    };
    let weights = disk.io_cost.then(|| {
        Weights::new(cgroups.iter().map(|cgroup| {
            let text = settings(&cgroup.path).and_then(|cgroup| cgroup.files.get("io.weight"));
            let weight = text.and_then(|text| parse_weight(text).ok());
            (
                cgroup.parent.unwrap_or(0),
                weight.unwrap_or(WEIGHT_DEFAULT.into()),
            )
        }))
    });
    let mut limits = BTreeMap::new();
    for (index, cgroup) in cgroups.iter().enumerate() {
        let text = settings(&cgroup.path).and_then(|cgroup| cgroup.files.get("io.max"));
        let all = text
            .and_then(|text| parse_io_max(text).ok())
            .unwrap_or_default();
        for limit in all.iter().filter(|limit| limit.disk == disk.name) {
            for (is_read, bytes, requests) in [
                (true, limit.rbps, limit.riops),
                (false, limit.wbps, limit.wiops),
            ] {
                if bytes.or(requests).is_some() {
                    limits.insert((index, is_read), ThrotlGrp::new(bytes, requests));
                }
            }
        }
    }
    let twin = &scenario.twin;
    let bandwidth = disk.write_bandwidth.or(twin.disk_bandwidth).unwrap_or(1);
    let traits = Traits {
        name: disk.name.clone(),
        read_bandwidth: read_bandwidth(scenario, disk),
        burst: twin.burst_ns.unwrap_or(0),
        stalls: (twin.stall_ns.unwrap_or(0), twin.stall_every_ns.unwrap_or(0)),
        fails: twin.fails.unwrap_or(0),
        submit_1024: disk.submit_bandwidth.map_or(0, time_for_1024_pages),
        queue: twin.queue.or(disk.kind.map(|kind| kind.preset().queue)),
        medium: disk_medium(disk),
        strict: (disk.filesystem == Filesystem::Fuse).then_some(FUSE_MAX_RATIO),
        vary: twin
            .vary
            .map(|percent| Vary::new(percent, Random::new(random.next()))),
        weights,
        limits,
    };
    let is_of_lab = disk.write_bandwidth.is_some() && disk.kind.is_none();
    Device::new(bandwidth, is_of_lab, traits)
}

/// `max_ratio` of a FUSE mount, whose limit is strict.
const FUSE_MAX_RATIO: u64 = 1;

/// Latency and seeks: those of the disk's kind, or what the scenario says.
fn disk_medium(disk: &Disk) -> Option<Medium> {
    let says = disk.latency_ns.or(disk.seek_ns).is_some() || disk.parallel.is_some();
    if disk.kind.is_none() && !says {
        return None;
    }
    let preset = disk.kind.map(DiskKind::preset);
    let timing = |of: Option<Timing>| {
        let of = of.unwrap_or_default();
        Timing {
            latency_ns: disk.latency_ns.unwrap_or(of.latency_ns),
            parallel: disk.parallel.unwrap_or(of.parallel),
            near_ns: disk.seek_ns.unwrap_or(of.near_ns),
            far_ns: disk.seek_ns.unwrap_or(of.far_ns),
            ..of
        }
    };
    Some(Medium {
        reads: timing(preset.map(|of| of.reads)),
        writes: timing(preset.map(|of| of.writes)),
    })
}

/// Of reads, if they do not share the disk's with writes: the lab bounds each by itself, and what
/// it does not bound is as fast as its host.
fn read_bandwidth(scenario: &Scenario, disk: &Disk) -> Option<u64> {
    disk.read_bandwidth
        .or(disk.write_bandwidth.and(scenario.twin.disk_bandwidth))
}

/// Readers must be told how fast they read.
fn check_read_bandwidth(scenario: &Scenario, works: &[Option<Work>], refusals: &mut Vec<Refusal>) {
    for (index, disk) in scenario.disks.iter().enumerate() {
        let mut jobs = scenario.jobs.iter().zip(works);
        let is_read = jobs.any(|(job, work)| {
            job.disk == disk.name && work.as_ref().is_some_and(|work| work.reads)
        });
        if is_read && disk.write_bandwidth.is_some() && read_bandwidth(scenario, disk).is_none() {
            refusals.push((
                format!("disk[{index}].read_bandwidth"),
                "is missing: a job reads, and the twin has no disk to measure; add it, or add `disk = \"1G/s\"` to `[twin]`".into(),
            ));
        }
    }
}
