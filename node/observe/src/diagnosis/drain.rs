// SPDX-License-Identifier: GPL-2.0-only
//! What bounds the writing back, and what comes next.

use super::group::Group;
use super::limit::Derived;
use crate::model::cgroup::Cgroup;
use crate::model::cgroup::display_path;
use crate::model::host::{Device, PAGE};
use crate::model::observation::Observation;
use crate::model::text::format_size;

/// Part of the time from which on a busy device is what writers wait for.
const BOUND: f64 = 0.6;

/// Part of the time; a flusher that runs for longer never rests, whatever the disk seems to do:
/// requests that it still gathers count as the disk's work.
const NEVER_RESTS: f64 = 0.8;

/// Words for a drain that nothing explains of what is looked at.
const UNEXPLAINED: &str =
    "neither the disk nor the flusher was busy all the time: something else paces the drain";

/// Part that paces the writing back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainBound {
    /// A file does not tell.
    Unknown,
    /// The flusher waits for the journal.
    Journal,
    /// The flusher waits for memory.
    Reclaim,
    /// The disk writes no faster.
    Device,
    /// The flusher's CPU time.
    Flusher,
    /// No task waited for it.
    Nothing,
    /// Something else that no look shows.
    Unexplained,
}

/// The part of the time in which the device's disks had work. The kernel counts a device of LVM or
/// dm-crypt as busy while it encrypts, or while a task hands on what it submits: only the disks below
/// tell whether they could do more.
pub(super) fn busy_part(seen: &Observation, bdi: Option<&str>) -> f64 {
    let down = bdi.map_or_else(Vec::new, |bdi| seen.device_stack().device_and_below(bdi));
    let found = down.iter().filter_map(|bdi| find_device(seen, bdi));
    let disks = found.filter(|found| {
        !found
            .below
            .iter()
            .any(|bdi| find_device(seen, bdi).is_some())
    });
    let each = disks.map(|disk| disk.busy_ms as f64 / 1000.0 / seen.seconds);
    each.fold(0.0, f64::max)
}

/// A flusher of the device ran in nearly every round.
fn never_rests(seen: &Observation, bdi: Option<&str>) -> bool {
    let ran = bdi.and_then(|bdi| seen.flushers.ran_for.get(bdi));
    ran.is_some_and(|ran| *ran as f64 > NEVER_RESTS * seen.flushers.rounds as f64)
}

/// Reports whether the disk may have time left, as far as its busy time tells.
pub(super) fn has_time(seen: &Observation, bdi: Option<&str>) -> bool {
    busy_part(seen, bdi) <= BOUND
}

fn find_device<'a>(seen: &'a Observation, bdi: &str) -> Option<&'a Device> {
    seen.devices.iter().find(|device| device.bdi == bdi)
}

/// Finds the part that is the bottleneck.
pub fn find_bound(seen: &Observation, bdi: Option<&str>) -> DrainBound {
    if !seen.is_live {
        return DrainBound::Unknown;
    }
    let part = |some: u64, of: u64| if of > 0 { some as f64 / of as f64 } else { 0.0 };
    let flushers = &seen.flushers;
    let worked = flushers.looks - flushers.idle;
    if part(flushers.in_journal, worked) > BOUND {
        DrainBound::Journal
    } else if part(flushers.in_reclaim, worked) > BOUND {
        DrainBound::Reclaim
    } else if never_rests(seen, bdi) {
        DrainBound::Flusher
    } else if busy_part(seen, bdi) > BOUND {
        DrainBound::Device
    } else if part(flushers.ran, worked) > BOUND {
        DrainBound::Flusher
    } else if seen.stalls.is_empty() {
        DrainBound::Nothing
    } else {
        DrainBound::Unexplained
    }
}

/// In a sentence: which part is the bottleneck, and whether it helps that writers sleep.
pub fn describe_drain(seen: &Observation, bdi: Option<&str>) -> String {
    let bound = find_bound(seen, bdi);
    let words = match bound {
        DrainBound::Unknown => {
            return "not known: a file does not show what flushers and the disk did".into();
        }
        DrainBound::Journal => {
            "journal-bound: the flusher waits for the journal; sleeping writers do not speed it up"
        }
        DrainBound::Reclaim => {
            "reclaim-bound: the flusher waits for memory itself; sleeping writers free none"
        }
        DrainBound::Device => {
            "device-bound: pauses do not make the disk faster, they keep dirty pages from growing"
        }
        DrainBound::Flusher if busy_part(seen, bdi) > BOUND => {
            "flusher-bound: the flusher never rests, and what it gathers before it hands it to the disk counts as the disk's work; \
             sleeping does not help the drain"
        }
        DrainBound::Flusher => {
            "flusher-bound: the flusher never rests and the disk has time left; sleeping does not help the drain"
        }
        DrainBound::Nothing => "nothing had to be drained",
        DrainBound::Unexplained => UNEXPLAINED,
    };
    let busy = busy_part(seen, bdi);
    let rate = bdi.and_then(|bdi| find_device(seen, bdi));
    let rate = rate.map_or_else(String::new, |device| {
        let disks = match device.below.is_empty() {
            true => "",
            false => "its disks ",
        };
        format!(
            "; {} wrote {}/s, {disks}busy {:.0} % of the time",
            device.name(),
            format_size((device.written as f64 / seen.seconds) as u64),
            busy.min(1.0) * 100.0
        )
    });
    format!(
        "{words}{rate}{}",
        latency_targets(seen, bdi.filter(|_| bound == DrainBound::Unexplained))
    )
}

/// Cgroups with a target in `io.latency`: it holds back others, and no file says when it does.
fn latency_targets(seen: &Observation, bdi: Option<&str>) -> String {
    let has_one = |cgroup: &&Cgroup| {
        bdi.is_some_and(|bdi| cgroup.io_latency.iter().any(|device| device == bdi))
    };
    let with: Vec<String> = seen
        .cgroups
        .iter()
        .filter(has_one)
        .map(|cgroup| display_path(&cgroup.path))
        .collect();
    if with.is_empty() {
        return String::new();
    }
    format!(
        "; it may be io.latency of {}, which holds back cgroups with a looser target or none, and does not report when",
        with.join(", ")
    )
}

/// The kernel's next steps if nothing changes.
pub fn describe_next(seen: &Observation, group: &Group, derived: &Derived) -> String {
    let Some((_, last)) = group.pauses().last() else {
        return String::new();
    };
    let pause = &last.pause;
    let mut next = match pause.task_ratelimit {
        0 => "no writer there may dirty a page now".to_string(),
        rate => format!("each writer may dirty {rate} KiB/s now"),
    };
    let rate = seen
        .rates
        .iter()
        .filter(|rate| rate.bdi == pause.bdi)
        .map(|rate| rate.written)
        .max();
    let device = seen.devices.iter().find(|device| device.bdi == pause.bdi);
    let drained = device
        .map(|device| device.written as f64 / seen.seconds)
        .or(rate.map(|kib| kib as f64 * 1024.0))
        .filter(|rate| *rate >= 1.0);
    let held = pause.dirty * PAGE;
    if let (Some(freerun), Some(drained)) = (derived.freerun, drained) {
        let excess = held.saturating_sub(freerun);
        next += &format!(
            "; pauses go on until {} have fallen below {}, which takes {:.1} s at {}/s once no writer dirties more",
            format_size(held),
            format_size(freerun),
            excess as f64 / drained,
            format_size(drained as u64)
        );
    }
    next
}

/// The device that had work for most of the time, if any had.
pub fn busiest_device(seen: &Observation) -> Option<String> {
    let busiest = seen.devices.iter().max_by_key(|device| device.busy_ms);
    busiest
        .filter(|device| device.busy_ms > 0)
        .map(|device| device.bdi.clone())
}
