// SPDX-License-Identifier: GPL-2.0-only
//! Limits in seconds of drain: whether `drain_seconds` would help, and how many.
//!
//! It lets writers dirty what the disks write in so many seconds. That helps where sleeping does not
//! speed the drain up, that is where the flusher is the bottleneck, and where there is memory for it.
//! How many there is memory for, `policy/headroom.c` decides, as it does for the agent's
//! `drain_seconds = "auto"`; it is asked as if the look had been one beat of ten busy seconds. It gives
//! headroom for bursts; writers that stay faster than the drain meet the limit again, higher up.
//!
//! Example: background 7.7 GB, limit 15.5, so writers are held above 11.6; 578 MB/s are written. 35
//! seconds of that are 20.2 GB: a burst may be 8.6 GB longer.

use super::drain::DrainBound;
use super::remedy::{Remedy, load_first};
use crate::model::event::Limits;
use crate::model::host::{HostSettings, PAGE};
use crate::model::observation::Observation;
use crate::model::text::format_size;
use policy::drain::{Beat, CALM_MS, Drain};
use policy::headroom::{Headroom, Look};

/// Busy time that a look stands for, in milliseconds: as much as the policy remembers.
const SEEN_MS: u64 = 10_000;
const FILE: &str = "/sys/module/weir/parameters/drain_seconds";

/// The seconds of drain to set.
///
/// # Errors
/// Why it would not help.
pub fn drain_seconds_remedy(seen: &Observation, bound: DrainBound) -> Result<Remedy, String> {
    match bound {
        DrainBound::Flusher => {}
        DrainBound::Device => {
            return Err("the disk writes no faster for it, and all that waits for it, such as fsync, waits longer".into());
        }
        DrainBound::Journal => return Err("the journal is what the flusher waits for".into()),
        DrainBound::Reclaim => return Err("memory is scarce, and it lifts nothing then".into()),
        DrainBound::Nothing | DrainBound::Unexplained | DrainBound::Unknown => {
            return Err("that the flusher paces the drain was not seen".into());
        }
    }
    if seen.vmscan.is_some_and(|vmscan| vmscan.scanned_direct > 0) {
        return Err(
            "memory is scarce, tasks reclaim for themselves, and it lifts nothing then".into(),
        );
    }
    let (Some((_, limits)), Some(host)) = (seen.limits.last(), seen.host.as_ref()) else {
        return Err("the host's limits are not known".into());
    };
    let devices = seen.devices.iter();
    let written = seen
        .device_stack()
        .sum_without_handed_on(devices.map(|device| (&*device.bdi, device.written)));
    let rate = (written as f64 / seen.seconds.max(1.0)) as u64;
    let now = limits.freerun_pages() * PAGE;
    let wanted = seconds_with_room(seen, limits, host, rate / PAGE);
    if wanted == 0 {
        return Err(format!(
            "{} are written in a second, and no seconds of that are both more than {}, above which writers are held as it is, \
             and less than memory has room for, of which {} can be dirty",
            format_size(rate),
            format_size(now),
            format_size(host.dirtyable * PAGE)
        ));
    }
    if seen.drain_seconds >= wanted {
        return Err(format!(
            "it is {} already, and writers are faster than the drain for longer than that",
            seen.drain_seconds
        ));
    }
    let lifted = wanted * rate;
    let remedy = Remedy {
        knob: "drain_seconds".into(),
        value: wanted.to_string(),
        command: format!("echo {wanted} > {FILE}"),
        effect: format!(
            "writers are held above {} instead of {} while memory is plentiful, so bursts may be {} longer; writers that stay faster than {}/s are held there",
            format_size(lifted),
            format_size(now),
            format_size(lifted.saturating_sub(now)),
            format_size(rate)
        ),
    };
    Ok(load_first(seen, remedy))
}

/// Seconds of so many pages each that there is memory for, 0 if for too few; in pages of 4 KiB.
fn seconds_with_room(seen: &Observation, limits: &Limits, host: &HostSettings, rate: u64) -> u64 {
    let flushers = &seen.flushers;
    let busy = flushers.looks.saturating_sub(flushers.idle).max(1);
    let waited = flushers.in_journal.saturating_add(flushers.in_reclaim);
    let mut headroom = Headroom {
        seen_ms: SEEN_MS,
        ran: flushers.ran.saturating_mul(1_000) / busy,
        waited: waited.saturating_mul(1_000) / busy,
        ..Headroom::default()
    };
    let drain = Drain {
        rate,
        seen_ms: SEEN_MS,
        calm_ms: CALM_MS,
        ..Drain::default()
    };
    let beat = Beat {
        thresh: limits.thresh,
        bg_thresh: limits.background,
        dirtyable: host.dirtyable,
        dirty: limits.dirty,
        writeback: limits.writeback,
        ..Beat::default()
    };
    let look = Look {
        available: host.available.map_or(host.dirtyable, |bytes| bytes / PAGE),
        ..Look::default()
    };
    headroom.adapt_by_beat(&drain, &beat, &look)
}
