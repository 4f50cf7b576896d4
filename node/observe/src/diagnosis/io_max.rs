// SPDX-License-Identifier: GPL-2.0-only
//! `io.max`: pages that may not be written, or read, as fast as the disk could.
//!
//! A limit is in the way if what it limits comes close to it. Example: wbps=262144, and 2,500,000
//! bytes written in 10 s: 95 % of it. Or if the disk rests while more is under way to it than the
//! limit lets through in the time looked at: a request goes when all of it is allowed, and one may
//! be of 8 MiB, which at 262144 a second is after 32 s, and nothing is seen to be written before.

use super::group::Group;
use crate::model::cgroup::{Cgroup, display_path, path_up};
use crate::model::observation::Observation;
use crate::model::text::format_size;

/// A limit on writing that is in the way.
pub struct HeldBack {
    /// The cgroup whose file it is.
    pub path: String,
    /// The device's number, as in `254:0`.
    pub device: String,
    /// Bytes a second, if it is such a limit.
    pub bytes: Option<u64>,
    /// The limit in words, as in `1.0 MiB/s`.
    pub limit: String,
    /// The line of its `io.max`.
    pub line: String,
}

impl HeldBack {
    /// The limit as a sentence of the explanation.
    pub fn to_sentence(&self) -> String {
        format!(
            "{} has {}, which is {}",
            display_path(&self.path),
            self.line,
            self.limit
        )
    }

    /// Makes a function that takes a limit for one in the way if it is nearly used up.
    fn from_limit(
        cgroup: &Cgroup,
        device: &str,
        seconds: f64,
    ) -> impl Fn(&str, Option<u64>, u64) -> Option<HeldBack> {
        let (path, device) = (cgroup.path.clone(), device.to_string());
        move |key, limit, done| {
            let limit = limit.filter(|limit| done as f64 / seconds >= AT_LIMIT * *limit as f64)?;
            Some(HeldBack {
                path: path.clone(),
                device: device.clone(),
                bytes: key.ends_with("bps").then_some(limit),
                limit: if key.ends_with("bps") {
                    format!("{}/s", format_size(limit))
                } else {
                    format!("{limit} a second")
                },
                line: format!("io.max {key}={limit}"),
            })
        }
    }
}

/// Part of what a limit allows from which on its user is being held back by it.
const AT_LIMIT: f64 = 0.7;

/// A disk that is busy for less of the time than this rests.
const IDLE: f64 = 0.05;

/// A disk that is busy for less of the time than this is not what an fsync waits for.
const HALF: f64 = 0.5;

/// Looks for `io.max` on the path of the stalled cgroup and of who holds most pages: one that what
/// is written comes up to. Only the holder's matters for what the host or a cgroup above holds.
pub fn find_write_limit(
    seen: &Observation,
    group: &Group,
    holder: Option<&str>,
) -> Option<HeldBack> {
    let holder = holder.map(|holder| holder.trim_start_matches('/'));
    // A limit on the disk below holds back what is written through LVM, too.
    let devices = seen.device_stack().device_and_below(&group.main_device()?);
    let mut paths = path_up(&group.path).chain(holder.into_iter().flat_map(path_up));
    paths.find_map(|path| {
        let cgroup = seen.cgroup_at(path)?;
        devices
            .iter()
            .find_map(|device| device_write_limit(seen, cgroup, device))
    })
}

/// The cgroup's own limit on one device, if what it writes there comes up to it.
fn device_write_limit(seen: &Observation, cgroup: &Cgroup, device: &str) -> Option<HeldBack> {
    let limits = cgroup.io_max.get(device)?;
    let io = cgroup.io.get(device)?;
    let held = HeldBack::from_limit(cgroup, device, seen.seconds);
    let waiting = if is_resting(seen, device) {
        cgroup.writeback
    } else {
        0
    };
    held("wbps", limits.wbps, io.written.max(waiting))
        .or_else(|| held("wiops", limits.wiops, io.writes))
}

/// The disk had next to nothing to do.
fn is_resting(seen: &Observation, device: &str) -> bool {
    let found = seen.devices.iter().find(|found| found.bdi == device);
    found.is_some_and(|found| (found.busy_ms as f64) < IDLE * 1000.0 * seen.seconds)
}

/// Finds a limit of another cgroup that what it writes to this device comes up to while the disk
/// has time left: the journal waits for its pages.
pub fn find_others_limit(seen: &Observation, path: &str, bdi: Option<&str>) -> Option<HeldBack> {
    let devices = seen.device_stack().device_and_below(bdi?);
    let is_above = |other: &str| path_up(path).any(|path| path == other);
    let others = seen.cgroups.iter().filter(|cgroup| !is_above(&cgroup.path));
    let has_time = |device: &&String| {
        let found = seen.devices.iter().find(|found| found.bdi == **device);
        found.is_some_and(|found| (found.busy_ms as f64) < HALF * 1000.0 * seen.seconds)
    };
    let devices: Vec<&String> = devices.iter().filter(has_time).collect();
    others
        .filter_map(|cgroup| {
            devices
                .iter()
                .find_map(|device| device_write_limit(seen, cgroup, device))
        })
        .next()
}

/// The same for reads, of any device.
pub fn find_read_limit(seen: &Observation, path: &str) -> Option<HeldBack> {
    path_up(path)
        .filter_map(|path| seen.cgroup_at(path))
        .find_map(|cgroup| {
            cgroup.io_max.iter().find_map(|(device, limits)| {
                let io = cgroup.io.get(device)?;
                HeldBack::from_limit(cgroup, device, seen.seconds)("rbps", limits.rbps, io.read)
            })
        })
}
