// SPDX-License-Identifier: GPL-2.0-only
//! Scenario plans: set the host up as the scenario says, lay the files out, run phase after phase.
//!
//! All files of all jobs are laid out and written back before the first phase and before the disks are
//! throttled, so that no phase pays for what another needed. Layout writes every block: a first write into
//! a preallocated one changes the extent tree, and random ones change so much of it that ext4's journal
//! stalls every writer for seconds on a slow disk, which has nothing to do with dirty limits. Caches are not dropped: fio drops its own files' pages when it starts, and a
//! filesystem that has to read its metadata again, behind a slow disk's queue of writes and inside a
//! transaction, stalls every writer for seconds in a way that has nothing to do with dirty limits.
//!
//! Within a phase the jobs are real fio processes; their start times are kept by this agent, not by fio,
//! so that a job's measured time is its own. Knobs are set only after the layout, which they would slow.

use crate::channel::Channel;
use crate::jobs;
use crate::limits::Lifted;
use crate::protocol::{Event, MODULE_PATH};
use crate::record::Recorder;
use crate::sample::{Watch, Watched};
use crate::schedule::{SLACK, Schedule};
use crate::{cgroups, system, tiers, weir_agent};
use anyhow::{Context, Result, anyhow, bail};
use scenario::model::{Arm, Job, Phase, Scenario};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// How much longer a sleeping write may take once the limits that held it are lifted.
const GRACE: Duration = Duration::from_secs(60);

/// Runs the whole scenario in one arm. `prepared` gives the disks their speed.
pub fn run(
    scenario: &Scenario,
    arm: Arm,
    record: bool,
    channel: &Channel,
    prepared: &dyn Fn() -> Result<()>,
) -> Result<()> {
    for (name, value) in &scenario.host.sysctl {
        let file = PathBuf::from("/proc/sys").join(name.replace('.', "/"));
        fs::write(&file, value).with_context(|| format!("sysctl {name}: writing `{value}`"))?;
    }
    cgroups::create(&scenario.cgroups)?;
    if arm == Arm::Weir {
        channel.stage("insmod weir.ko");
        system::run(Command::new("insmod").arg(MODULE_PATH)).map_err(|error| {
            anyhow!(
                "the module refused to load: {error:#}; the kernel log says: {}",
                module_log()
            )
        })?;
    }
    for phase in &scenario.phases {
        for job in scenario
            .jobs
            .iter()
            .filter(|job| phase.jobs.contains(&job.name) && job.memory.is_none())
        {
            channel.stage(format!("laying out {} for {}", job.name, phase.name));
            jobs::Running::lay_out(job, phase)?;
        }
    }
    nix::unistd::sync();
    prepared()?;
    cgroups::share_disks(&scenario.disks, &scenario.cgroups)?;
    if arm == Arm::Weir {
        for (path, cgroup) in &scenario.cgroups {
            cgroups::write_files(path, &cgroup.knobs)?;
        }
        system::write_parameters(&scenario.host.weir)?;
    }
    let mut agent = match &scenario.agent {
        Some(agent) if arm == Arm::Weir => Some(weir_agent::Running::start(agent)?),
        _ => None,
    };
    for phase in &scenario.phases {
        if phase.clean {
            channel.stage("writing back");
            nix::unistd::sync();
        }
        if arm == Arm::Weir {
            for (path, knobs) in &phase.set {
                cgroups::write_files(path, knobs)?;
            }
        }
        run_phase(scenario, phase, record, channel)
            .with_context(|| format!("phase {}", phase.name))?;
        agent.as_mut().map_or(Ok(()), weir_agent::Running::check)?;
    }
    agent.map_or(Ok(()), weir_agent::Running::end)
}

fn run_phase(scenario: &Scenario, phase: &Phase, record: bool, channel: &Channel) -> Result<()> {
    let waiting: Vec<&Job> = scenario
        .jobs
        .iter()
        .filter(|job| phase.jobs.contains(&job.name))
        .collect();
    let nominal = jobs::nominal_ms(&waiting, phase).map_err(|why| anyhow!(why))?;
    channel.send(&Event::PhaseStart {
        phase: phase.name.clone(),
    });
    let recorder = record.then(Recorder::start).transpose()?;
    let watch = Watch::start(Watched {
        disks: scenario
            .disks
            .iter()
            .map(|disk| disk.name.clone())
            .collect(),
        cgroups: scenario.cgroups.keys().cloned().collect(),
    })?;
    let tiers = (!scenario.tiers.is_empty()).then(|| {
        let cgroups = scenario.cgroups.keys().cloned().collect();
        tiers::Watch::start(cgroups, scenario.top_nodes())
    });
    let mut schedule = Schedule::new(waiting, phase);
    let end = Duration::from_millis(nominal) + SLACK;
    schedule.run_until(end)?;
    let mut result = watch.finish(&phase.name)?;
    if let Some(tiers) = tiers {
        result.tiers = Some(tiers.finish(schedule.window())?);
    }
    if let Some(recorder) = recorder {
        recorder.finish(&phase.name, channel)?;
    }
    if !schedule.busy()?.is_empty() {
        let limits = Lifted::lift()?;
        schedule.run_until(end + GRACE)?;
        limits.restore()?;
    }
    let busy = schedule.busy()?;
    if !busy.is_empty() {
        bail!(
            "still busy {} s after it should have ended: {}",
            (SLACK + GRACE).as_secs(),
            busy.join(", ")
        );
    }
    schedule.results(&mut result)?;
    channel.send(&Event::PhaseEnd(Box::new(result)));
    Ok(())
}

/// What the module said last.
fn module_log() -> String {
    let messages = crate::klog::messages().unwrap_or_default();
    let own: Vec<_> = messages
        .into_iter()
        .filter(|message| message.starts_with("weir:"))
        .collect();
    if own.is_empty() {
        "nothing".to_owned()
    } else {
        own[own.len().saturating_sub(5)..].join("; ")
    }
}
