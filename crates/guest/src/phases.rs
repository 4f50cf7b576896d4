// SPDX-License-Identifier: GPL-2.0-only
//! Scenario plans: set the host up as the scenario says, lay the files out, run phase after phase.
//!
//! All files of all jobs are laid out before the first phase, written back and dropped from the page
//! cache, so that no phase pays for what another needed. Within a phase the jobs are real fio processes;
//! their start times are kept by this agent, not by fio, so that a job's measured time is its own.

use crate::channel::Channel;
use crate::jobs::{self, Running};
use crate::protocol::{Event, MODULE_PATH};
use crate::sample::{Watch, Watched};
use crate::{cgroups, system};
use anyhow::{Context, Result, anyhow, bail};
use scenario::model::{Arm, Job, Phase, Scenario};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// How long after its nominal end a phase may still have running jobs. A single write that stalls for
/// many seconds is what scenarios are about, not a fault; one that takes this long is.
const GRACE: Duration = Duration::from_secs(60);

/// Runs the whole scenario in one arm.
pub fn run(scenario: &Scenario, arm: Arm, channel: &Channel) -> Result<()> {
    for (name, value) in &scenario.host.sysctl {
        let file = PathBuf::from("/proc/sys").join(name.replace('.', "/"));
        fs::write(&file, value).with_context(|| format!("sysctl {name}: writing `{value}`"))?;
    }
    cgroups::create(&scenario.cgroups)?;
    if arm == Arm::Weir {
        channel.stage("insmod weir.ko");
        system::run(Command::new("insmod").arg(MODULE_PATH))
            .map_err(|error| anyhow!("the module refused to load: {error:#}; the kernel log says: {}", module_log()))?;
        for (path, cgroup) in &scenario.cgroups {
            cgroups::write_files(path, &cgroup.knobs)?;
        }
    }
    for job in &scenario.jobs {
        channel.stage(format!("laying out {}", job.name));
        Running::lay_out(job)?;
    }
    write_back()?;
    for phase in &scenario.phases {
        if phase.clean {
            channel.stage("writing back");
            write_back()?;
        }
        if arm == Arm::Weir {
            for (path, knobs) in &phase.set {
                cgroups::write_files(path, knobs)?;
            }
        }
        run_phase(scenario, phase, channel).with_context(|| format!("phase {}", phase.name))?;
    }
    Ok(())
}

fn run_phase(scenario: &Scenario, phase: &Phase, channel: &Channel) -> Result<()> {
    let mut waiting: Vec<&Job> = scenario.jobs.iter().filter(|job| phase.jobs.contains(&job.name)).collect();
    let nominal = jobs::nominal_ms(&waiting, phase).map_err(|why| anyhow!(why))?;
    // The last to start comes first, so that the next is at the end.
    waiting.sort_by_key(|job| std::cmp::Reverse(jobs::delay_ms(job, phase)));
    channel.send(&Event::PhaseStart { phase: phase.name.clone() });
    let watch = Watch::start(Watched {
        disks: scenario.disks.iter().map(|disk| disk.name.clone()).collect(),
        cgroups: scenario.cgroups.keys().cloned().collect(),
    })?;
    let start = Instant::now();
    let deadline = start + Duration::from_millis(nominal) + GRACE;
    let mut running: Vec<Running> = Vec::new();
    loop {
        let is_due = |job: &&Job| start.elapsed() >= Duration::from_millis(jobs::delay_ms(job, phase));
        while waiting.last().is_some_and(is_due) {
            running.extend(waiting.pop().map(|job| Running::start(job, phase)).transpose()?);
        }
        let mut busy = Vec::new();
        for job in &mut running {
            if !job.is_over()? {
                busy.push(job.name.as_str());
            }
        }
        if waiting.is_empty() && busy.is_empty() {
            break;
        }
        if Instant::now() > deadline {
            bail!("still busy {} s after it should have ended: {}", GRACE.as_secs(), busy.join(", "));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut result = watch.finish(&phase.name)?;
    for job in running {
        result.jobs.insert(job.name.clone(), job.result()?);
    }
    channel.send(&Event::PhaseEnd(Box::new(result)));
    Ok(())
}

/// Cleans all dirty pages and drops the page cache.
fn write_back() -> Result<()> {
    nix::unistd::sync();
    fs::write("/proc/sys/vm/drop_caches", "3").context("dropping the page cache")
}

/// What the module said last.
fn module_log() -> String {
    let messages = crate::klog::messages().unwrap_or_default();
    let own: Vec<_> = messages.into_iter().filter(|message| message.starts_with("weir:")).collect();
    if own.is_empty() { "nothing".to_owned() } else { own[own.len().saturating_sub(5)..].join("; ") }
}
