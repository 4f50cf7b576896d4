// SPDX-License-Identifier: GPL-2.0-only
//! More flushers, where one is not enough: the agent's threads can submit for it, and the kernel has
//! one for each cgroup that writes to a device, so writers that are split over cgroups are written
//! back by as many.
//!
//! Example: one flusher writes 553 MiB/s and the device is busy for 53 % of the time, so it could
//! write 1,043: writers in two cgroups. What was measured: 996 (`scenarios/twin/io-psi-split.toml`).

use super::command::cgroup_file;
use super::drain::{self, DrainBound};
use super::group::home_of;
use super::remedy::Remedy;
use crate::model::cgroup::display_path;
use crate::model::host::Device;
use crate::model::observation::Observation;
use crate::model::stall::StallKind;
use crate::model::text::format_size;
use std::collections::BTreeMap;

/// Filesystems that the kernel writes back by cgroup.
const BY_CGROUP: [&str; 5] = ["btrfs", "ext2", "ext4", "f2fs", "xfs"];
/// Cgroups that writers are split over at most: by then something else is in the way.
const MOST: f64 = 64.0;

/// The agent's, in the foreground.
const ASSIST: &str = "printf '[assist]\\ncpus = 2\\n' > /run/weir-assist.toml && weir agent --policy /run/weir-assist.toml";

/// Remedies for writers that wait for the flusher: others that submit for it, and a process to
/// split off; `top` is the cgroup that dirties most.
pub fn flusher_remedies(
    seen: &Observation,
    bound: DrainBound,
    bdi: Option<&str>,
    top: Option<&str>,
) -> Vec<Remedy> {
    let device = seen.devices.iter().find(|device| Some(&*device.bdi) == bdi);
    let kind = device.and_then(|device| device.filesystem.as_deref());
    let is_by_cgroup = kind.is_none_or(|kind| BY_CGROUP.contains(&kind));
    let (Some(device), Some(top)) = (device, top.filter(|top| *top != "/")) else {
        return Vec::new();
    };
    if bound != DrainBound::Flusher || !is_by_cgroup || device.written == 0 {
        return Vec::new();
    }
    let rate = device.written as f64 / seen.seconds;
    // Files of btrfs the agent leaves to the kernel.
    let assist = (kind != Some("btrfs")).then(|| assist_remedy(rate));
    let split = drain::has_time(seen, bdi).then(|| split_remedy(seen, device, top));
    assist.into_iter().chain(split.flatten()).collect()
}

fn assist_remedy(rate: f64) -> Remedy {
    Remedy {
        knob: "[assist]".into(),
        value: "2".into(),
        command: ASSIST.into(),
        effect: format!(
            "as long as it runs, the agent starts writeback beside the flusher, which writes {}/s by itself, with two threads, \
             of one process's files, too; as a service: `[assist]` in /etc/weir/agent.toml",
            format_size(rate as u64)
        ),
    }
}

fn split_remedy(seen: &Observation, device: &Device, top: &str) -> Option<Remedy> {
    let busy = drain::busy_part(seen, Some(&device.bdi));
    let count = (1.0 / busy.max(1.0 / MOST)).ceil().max(2.0);
    let rate = device.written as f64 / seen.seconds;
    // Any thread's number moves its whole process.
    let task = most_throttled_task(seen, top)?;
    let second = cgroup_file(&format!("{top}.2"), "cgroup.procs");
    Some(Remedy {
        knob: "cgroup.procs".into(),
        value: format!("{count}"),
        command: format!(
            "mkdir {} && echo {task} > {second}",
            cgroup_file("", &format!("{top}.2")).replace("//", "/")
        ),
        effect: format!(
            "one flusher writes {}/s and leaves {} idle for {:.0} % of the time; there is one for each cgroup, so split \
             the writers of {top} over {count:.0} cgroups, for up to {}/s; {task} ({}) is one of them, and one process cannot be \
             split. systemd: a unit for each process, or `systemd-run --scope`; Kubernetes: {count:.0} containers or pods",
            format_size(rate as u64),
            device.name(),
            (1.0 - busy) * 100.0,
            format_size((rate / busy.max(1.0 / MOST)) as u64),
            seen.name_of(task)
        ),
    })
}

/// The task of the cgroup that was throttled longest.
fn most_throttled_task(seen: &Observation, top: &str) -> Option<u32> {
    let mut slept: BTreeMap<u32, u64> = BTreeMap::new();
    for stall in &seen.stalls {
        let is_its = display_path(&home_of(seen, stall)) == top;
        if matches!(stall.kind, StallKind::Throttle(_)) && is_its {
            *slept.entry(stall.task).or_default() += stall.length_ns();
        }
    }
    let longest = slept.into_iter().max_by_key(|(_, ns)| *ns);
    longest.map(|(task, _)| task)
}
