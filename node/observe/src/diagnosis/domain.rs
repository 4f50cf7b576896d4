// SPDX-License-Identifier: GPL-2.0-only
//! Which domain decided a pause.
//!
//! The event does not say, and prints the host's limit whichever domain decided. But from its
//! setpoint follows the freerun level of the domain it describes, and it has that domain's dirty
//! pages:
//!
//! * freerun is the host's: it describes the host's domain, else the cgroup's;
//! * that domain holds less than its freerun: it alone would have let the task go on, so it was
//!   held by the other one, or by the device's share if the device is strict or there is no other.
//!
//! Example: host limits 4096 and 8192 pages, freerun 6144. An event with limit 8192 and setpoint
//! 4211 is about a domain with freerun 2 * 4211 - 8192 = 230 pages: a cgroup's, and a small one.
//!
//! weir's own event, where the module is loaded and a knob is set, names the domain; it is
//! believed.

use crate::model::event::Limits;
use crate::model::observation::Observation;
use crate::model::stall::{Stall, Throttled};
use policy::pause::Decider;
use serde::Serializer;

/// The root cgroup's inode, where nothing says what it is.
const ROOT_INODE: u64 = 1;

/// Says it for one pause.
pub fn deciding_domain(seen: &Observation, stall: &Stall, throttled: &Throttled) -> Decider {
    let by = throttled.by.as_deref().and_then(Decider::from_name);
    if let Some(by) = by.filter(|by| *by != Decider::Unknown) {
        return by;
    }
    let pause = &throttled.pause;
    let freerun = pause.freerun_pages();
    let is_free = pause.dirty < freerun;
    let device = seen.devices.iter().find(|device| device.bdi == pause.bdi);
    let strict = device.and_then(|device| device.strict);
    let root = seen.cgroup_at("").map_or(ROOT_INODE, |root| root.inode);
    if pause.cgroup == root {
        // There is no other domain.
        return if is_free {
            Decider::Device
        } else {
            Decider::Host
        };
    }
    let Some(host) = throttled
        .host
        .or_else(|| nearest_limits(&seen.limits, stall.ns))
    else {
        return Decider::Unknown;
    };
    let host_freerun = host.freerun_pages();
    if strict == Some(true) && host.dirty + host.writeback < host_freerun {
        return Decider::Device;
    }
    match (is_near(freerun, host_freerun), is_free) {
        (true, false) | (false, true) => Decider::Host,
        (false, false) => Decider::Cgroup,
        // The cgroup's domain, unless the device may be strict.
        (true, true) if strict == Some(false) => Decider::Cgroup,
        (true, true) => Decider::Unknown,
    }
}

/// A decider in JSON is its name.
pub(super) fn serialize_decider<S: Serializer>(
    decider: &Decider,
    json: S,
) -> Result<S::Ok, S::Error> {
    json.serialize_str(decider.name())
}

/// The host's limits nearest to a time.
fn nearest_limits(limits: &[(u64, Limits)], ns: u64) -> Option<Limits> {
    let after = limits.partition_point(|(at, _)| *at < ns);
    let candidates = [after.checked_sub(1), Some(after)]
        .into_iter()
        .flatten()
        .filter_map(|at| limits.get(at));
    candidates
        .min_by_key(|(at, _)| at.abs_diff(ns))
        .map(|(_, limits)| *limits)
}

/// Within 1 %, which is what limits in percent of memory move between two samples, and rounding.
fn is_near(one: u64, other: u64) -> bool {
    one.abs_diff(other) <= other / 100 + 3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::cgroup::Cgroup;
    use crate::model::event::Pause;
    use crate::model::host::Device;
    use crate::model::stall::StallKind;

    const HOST: Limits = Limits {
        dirty: 7000,
        writeback: 100,
        background: 4096,
        thresh: 8192,
    };

    /// Of a domain with this freerun level and these dirty pages.
    fn decided(
        freerun: u64,
        dirty: u64,
        cgroup: u64,
        strict: Option<bool>,
        host: Option<Limits>,
    ) -> Decider {
        let limit = 8192;
        let pause = Pause {
            bdi: "8:0".into(),
            cgroup,
            limit,
            setpoint: policy::arith::setpoint_level(freerun, limit),
            dirty,
            ..Pause::default()
        };
        let throttled = Throttled {
            pause,
            by: None,
            host,
        };
        let stall = Stall {
            ns: 5,
            task: 1,
            kind: StallKind::Throttle(Box::new(throttled.clone())),
            slept_ns: None,
        };
        let seen = Observation {
            devices: vec![Device {
                bdi: "8:0".into(),
                strict,
                ..Device::default()
            }],
            cgroups: vec![Cgroup {
                inode: 1,
                ..Cgroup::default()
            }],
            ..Observation::default()
        };
        deciding_domain(&seen, &stall, &throttled)
    }

    #[test]
    fn the_freerun_level_tells_the_domain() {
        let free_host = Limits { dirty: 100, ..HOST };
        let strict = Some(false);
        assert_eq!(decided(6144, 7100, 77, strict, Some(HOST)), Decider::Host);
        assert_eq!(
            decided(230, 260, 77, strict, Some(free_host)),
            Decider::Cgroup
        );
        // described is the domain that would have let it go on
        assert_eq!(
            decided(6144, 300, 77, strict, Some(free_host)),
            Decider::Cgroup
        );
        assert_eq!(decided(9000, 300, 77, strict, Some(HOST)), Decider::Host);
        // strict devices, known and not
        assert_eq!(
            decided(6144, 300, 77, Some(true), Some(free_host)),
            Decider::Device
        );
        assert_eq!(
            decided(6144, 300, 77, None, Some(free_host)),
            Decider::Unknown
        );
        // without cgroup writeback
        assert_eq!(decided(6144, 7100, 1, None, None), Decider::Host);
        assert_eq!(decided(6144, 300, 1, None, None), Decider::Device);
        // nothing to compare with
        assert_eq!(decided(6144, 7100, 77, strict, None), Decider::Unknown);
    }

    #[test]
    fn the_nearest_sample_counts() {
        let at = |thresh| Limits { thresh, ..HOST };
        let limits = [(10, at(1)), (20, at(2)), (30, at(3))];
        let thresh = |ns| nearest_limits(&limits, ns).map(|limits| limits.thresh);
        assert_eq!(
            (thresh(0), thresh(14), thresh(16), thresh(99)),
            (Some(1), Some(1), Some(2), Some(3))
        );
        assert_eq!(nearest_limits(&[], 5), None);
    }
}
