// SPDX-License-Identifier: GPL-2.0-only
//! Set the host up as the scenario says, lay the files out, run phase after phase.
//!
//! All files of all jobs are laid out and written back before the first phase and before the disks
//! are throttled, so that no phase pays for what another needed. Layout writes every block: a first
//! write into a preallocated one changes the extent tree, and random ones change so much of it that
//! ext4's journal stalls every writer for seconds on a slow disk, which has nothing to do with
//! dirty limits.
//!
//! Caches are not dropped: fio drops its own files' pages when it starts, and a filesystem that has
//! to read its metadata again, behind a slow disk's queue of writes and inside a transaction,
//! stalls every writer for seconds in a way that has nothing to do with dirty limits.
//!
//! Within a phase the jobs are real fio processes; their start times are kept by this agent, not by
//! fio, so that a job's measured time is its own. Knobs are set only after the layout, which they
//! would slow.

use crate::channel::Channel;
use crate::jobs;
use crate::limits::Lifted;
use crate::record::Recorder;
use crate::sample::{PhaseWatch, Watched};
use crate::schedule::{SLACK, Schedule};
use crate::site::Site;
use crate::{cgroups, system, tiers, weir_agent};
use anyhow::{Context, Result, anyhow, bail};
use scenario::model::{Arm, Job, Phase, Scenario};
use scenario::rundir::Event;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// Further time that a sleeping write may take once the limits that held it are lifted.
const GRACE: Duration = Duration::from_secs(60);

/// Steps of a scenario that a machine takes in a way of its own.
pub trait Machine {
    /// Loads the module: once, in arm `weir`.
    ///
    /// # Errors
    /// The module or the kernel refused; with the reason, for people.
    fn load_module(&self) -> Result<()>;

    /// All files are laid out: gives the disks the speed they are to have.
    ///
    /// # Errors
    /// They could not be given it.
    fn throttle_disks(&self) -> Result<()>;
}

/// Runs the whole scenario in one arm; each phase is recorded as `weir record` does if `record`
/// says so.
///
/// # Errors
/// What could not be done, for people. What had been measured until then was sent.
pub fn run(
    scenario: &Scenario,
    arm: Arm,
    record: bool,
    site: &Site,
    channel: &Channel,
    machine: &dyn Machine,
) -> Result<()> {
    for (name, value) in &scenario.host.sysctl {
        let file = PathBuf::from("/proc/sys").join(name.replace('.', "/"));
        fs::write(&file, value).with_context(|| format!("sysctl {name}: writing `{value}`"))?;
    }
    if let Some(on) = scenario.host.lru_gen {
        system::set_lru_gen(on)?;
    }
    if scenario.jobs.iter().any(Job::is_allocating) {
        system::lock_memory()?;
    }
    cgroups::create_cgroups(site, &scenario.cgroups)?;
    if arm == Arm::Weir {
        machine.load_module()?;
    }
    for phase in &scenario.phases {
        for job in scenario
            .jobs
            .iter()
            .filter(|job| phase.jobs.contains(&job.name) && !job.fio.is_empty())
        {
            channel.send_stage(format!("laying out {} for {}", job.name, phase.name));
            jobs::RunningJob::lay_out_files(job, phase, site)?;
        }
    }
    nix::unistd::sync();
    machine.throttle_disks()?;
    cgroups::configure_iocost(site, &scenario.disks, &scenario.cgroups)?;
    for (path, cgroup) in &scenario.cgroups {
        set_knobs(arm, site, channel, path, &cgroup.knobs)?;
    }
    if arm == Arm::Weir {
        system::write_parameters(&scenario.host.weir)?;
    }
    let mut agent = match &scenario.agent {
        Some(agent) if arm == Arm::Weir => Some(weir_agent::RunningAgent::start(agent)?),
        _ => None,
    };
    for phase in &scenario.phases {
        if phase.clean {
            channel.send_stage("writing back");
            nix::unistd::sync();
        }
        for (path, knobs) in &phase.set {
            set_knobs(arm, site, channel, path, knobs)?;
        }
        run_phase(scenario, phase, record, site, channel)
            .with_context(|| format!("phase {}", phase.name))?;
        agent
            .as_mut()
            .map_or(Ok(()), weir_agent::RunningAgent::check_alive)?;
    }
    agent.map_or(Ok(()), weir_agent::RunningAgent::end_agent)
}

/// Writes a cgroup's knobs. A patched kernel may have files of these names, some of them or none;
/// weir has all.
fn set_knobs(
    arm: Arm,
    site: &Site,
    channel: &Channel,
    path: &str,
    knobs: &BTreeMap<String, String>,
) -> Result<()> {
    if arm == Arm::Stock {
        return Ok(());
    }
    let there = |name: &str| arm == Arm::Weir || site.cgroup_directory(path).join(name).exists();
    let (has, lacks): (BTreeMap<_, _>, BTreeMap<_, _>) =
        knobs.clone().into_iter().partition(|(name, _)| there(name));
    for name in lacks.keys() {
        channel.send(&Event::Line {
            text: format!("this kernel has no {name}: not set for {path}"),
        });
    }
    cgroups::write_files(site, path, &has)
}

fn run_phase(
    scenario: &Scenario,
    phase: &Phase,
    record: bool,
    site: &Site,
    channel: &Channel,
) -> Result<()> {
    let waiting: Vec<&Job> = scenario
        .jobs
        .iter()
        .filter(|job| phase.jobs.contains(&job.name))
        .collect();
    let nominal = jobs::nominal_ms(&waiting, phase).map_err(|why| anyhow!(why))?;
    channel.send(&Event::PhaseStart {
        phase: phase.name.clone(),
    });
    let recorder = record.then(|| Recorder::start(site)).transpose()?;
    let cgroups: Vec<(String, PathBuf)> = scenario
        .cgroups
        .keys()
        .map(|path| (path.clone(), site.cgroup_directory(path)))
        .collect();
    let watch = PhaseWatch::start(Watched {
        disks: site.disks.clone(),
        cgroups: cgroups.clone(),
    })?;
    let tiers = (!scenario.tiers.is_empty())
        .then(|| tiers::TierWatch::start(cgroups, scenario.top_nodes()));
    let mut schedule = Schedule::new(waiting, phase, site);
    let end = Duration::from_millis(nominal) + SLACK;
    schedule.run_until(end)?;
    let mut result = watch.finish_phase(&phase.name)?;
    if let Some(tiers) = tiers {
        result.tiers = Some(tiers.finish_phase(schedule.counted_span())?);
    }
    if let Some(recorder) = recorder {
        recorder.send_recording(&phase.name, channel)?;
    }
    if !schedule.running_jobs()?.is_empty() {
        let limits = Lifted::lift_limits()?;
        schedule.run_until(end + GRACE)?;
        limits.restore_limits()?;
    }
    let busy = schedule.running_jobs()?;
    if !busy.is_empty() {
        bail!(
            "still busy {} s after it should have ended: {}",
            (SLACK + GRACE).as_secs(),
            busy.join(", ")
        );
    }
    schedule.take_results(&mut result)?;
    channel.send(&Event::PhaseEnd(Box::new(result)));
    Ok(())
}
