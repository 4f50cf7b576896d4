// SPDX-License-Identifier: GPL-2.0-only
//! Limits in seconds of drain: whether `drain_seconds` would help, and how many.
//!
//! It lets writers dirty what the disks write in so many seconds, up to a part of memory
//! (`policy/drain.c`). That helps where sleeping does not speed the drain up, that is where the
//! flusher is the bottleneck, and where there is memory left. It gives headroom for bursts; writers
//! that stay faster than the drain meet the limit again, higher up.
//!
//! Example: background 7.7 GB, limit 15.5, so writers are held above 11.6; 578 MB/s are written. 30
//! seconds of that are 17.3 GB: a burst may be 5.7 GB longer. On a disk of 100 MB/s they were 3 GB,
//! less than the kernel allows: 173 s make half as much again. No more than a quarter of what can be
//! dirty: beyond that hosts of the twin ran into scarce memory, which ends the lift.

use super::drain::Bound;
use super::remedy::{Remedy, loaded_first};
use crate::model::host::PAGE;
use crate::model::observation::Observation;
use crate::model::text::size;
use policy::drain::SECONDS_MAX;

/// What the kernel lets lie at most before it writes it back, in seconds.
const EXPIRE: u64 = 30;
/// Of what can be dirty, a part that leaves reclaim enough to take (0035).
const PART: u64 = 4;
const FILE: &str = "/sys/module/weir/parameters/drain_seconds";

/// What to set.
///
/// # Errors
/// Why it would not help.
pub fn seconds(seen: &Observation, bound: Bound) -> Result<Remedy, String> {
    match bound {
        Bound::Flusher => {}
        Bound::Device => {
            return Err("the disk writes no faster for it, and all that waits for it, such as fsync, waits longer".into());
        }
        Bound::Journal => return Err("the journal is what the flusher waits for".into()),
        Bound::Reclaim => return Err("memory is scarce, and it lifts nothing then".into()),
        Bound::Nothing | Bound::Unexplained | Bound::Unknown => {
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
        .stack()
        .once(devices.map(|device| (&*device.bdi, device.written)));
    let rate = (written as f64 / seen.seconds.max(1.0)) as u64;
    let now = limits.freerun() * PAGE;
    let (enough, most) = (now + now / 4, host.dirtyable * PAGE / PART);
    let wanted = match EXPIRE * rate {
        lies if lies >= enough => lies.min(most) / rate,
        _ => (now + now / 2).min(most) / rate.max(1),
    };
    if wanted > SECONDS_MAX {
        return Err(format!(
            "{} are written in a second, and {SECONDS_MAX} seconds of that are the most it takes",
            size(rate)
        ));
    }
    let lifted = wanted * rate;
    if lifted < enough {
        return Err(format!(
            "more than a quarter of what can be dirty, {}, runs into scarce memory, and writers are held above {} as it is",
            size(most),
            size(now)
        ));
    }
    if seen.drain_seconds >= wanted {
        return Err(format!(
            "it is {} already, and writers are faster than the drain for longer than that",
            seen.drain_seconds
        ));
    }
    let remedy = Remedy {
        knob: "drain_seconds".into(),
        value: wanted.to_string(),
        command: format!("echo {wanted} > {FILE}"),
        effect: format!(
            "writers are held above {} instead of {} while memory is plentiful, so bursts may be {} longer; writers that stay faster than {}/s are held there",
            size(lifted),
            size(now),
            size(lifted.saturating_sub(now)),
            size(rate)
        ),
    };
    Ok(loaded_first(seen, remedy))
}
