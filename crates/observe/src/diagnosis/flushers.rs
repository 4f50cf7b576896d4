// SPDX-License-Identifier: GPL-2.0-only
//! More flushers, where one is not enough: the kernel has one for each cgroup that writes to a device,
//! so writers that are split over cgroups are written back by as many.
//!
//! Example: one flusher writes 553 MiB/s and the device is busy for 53 % of the time, so it could
//! write 1,043: writers in two cgroups. What was measured: 996 (`scenarios/twin/io-psi-split.toml`).

use super::command::cgroup_file;
use super::drain::Bound;
use super::remedy::Remedy;
use crate::model::observation::Observation;
use crate::model::text::size;

/// Filesystems that the kernel writes back by cgroup.
const BY_CGROUP: [&str; 5] = ["btrfs", "ext2", "ext4", "f2fs", "xfs"];
/// More are not told: by then something else is in the way.
const MOST: f64 = 64.0;

/// What to split, where the flusher is what writers wait for; `top` is who dirties most.
pub fn remedy(
    seen: &Observation,
    bound: Bound,
    bdi: Option<&str>,
    top: Option<&str>,
) -> Option<Remedy> {
    let device = seen
        .devices
        .iter()
        .find(|device| Some(&*device.bdi) == bdi)?;
    let is_by_cgroup = device
        .filesystem
        .as_deref()
        .is_none_or(|kind| BY_CGROUP.contains(&kind));
    let top = top.filter(|top| *top != "/")?;
    if bound != Bound::Flusher || !is_by_cgroup || device.written == 0 {
        return None;
    }
    let busy = device.busy_ms as f64 / 1_000.0 / seen.seconds;
    let count = (1.0 / busy.max(1.0 / MOST)).ceil().max(2.0);
    let rate = device.written as f64 / seen.seconds;
    let second = cgroup_file(&format!("{top}.2"), "cgroup.procs");
    Some(Remedy {
        knob: "cgroup.procs".into(),
        value: format!("{count}"),
        command: format!(
            "mkdir {} && echo PID > {second}",
            cgroup_file(&format!("{top}.2"), "")
        ),
        effect: format!(
            "one flusher writes {}/s and leaves {} idle for {:.0} % of the time; there is one for each cgroup, so split \
             the writers of {top} over {count:.0} cgroups, for up to {}/s. One process cannot be split: `[assist]` in the agent's policy starts writeback beside its flusher. systemd: a unit for \
             each process, or `systemd-run --scope`; Kubernetes: {count:.0} containers or pods",
            size(rate as u64),
            device.name(),
            (1.0 - busy) * 100.0,
            size((rate / busy.max(1.0 / MOST)) as u64)
        ),
    })
}
