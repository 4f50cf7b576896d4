// SPDX-License-Identifier: GPL-2.0-only
//! A memory job as the agent sees it: a process that is started, has filled its memory at some
//! time, is told when the time that counts begins and when all is over.

use super::{PROGRAM, Report};
use crate::cgroups;
use crate::site::Site;
use anyhow::{Context, Result, bail};
use scenario::model::{Backing, Job, JobMemory, Phase};
use std::fs::File;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};

/// A running process.
pub struct RunningMemoryJob {
    /// The job's name.
    pub name: String,
    /// The cgroup that it runs in; `None` is the root.
    pub cgroup: Option<String>,
    child: Child,
    /// Its end is the job's.
    orders: Option<ChildStdin>,
    said: PathBuf,
    errors: PathBuf,
}

impl RunningMemoryJob {
    /// Starts the job's processes.
    pub fn start(
        job: &Job,
        memory: &JobMemory,
        phase: &Phase,
        site: &Site,
    ) -> Result<RunningMemoryJob> {
        let said = site.scratch.join(format!("{}.json", job.name));
        let errors = site.scratch.join(format!("{}.err", job.name));
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0(PROGRAM)
            .arg(serde_json::to_string(memory)?)
            .stdin(Stdio::piped())
            .stdout(File::create(&said).with_context(|| format!("{}", said.display()))?)
            .stderr(File::create(&errors).with_context(|| format!("{}", errors.display()))?);
        if memory.backing == Backing::File {
            let directory = &site.find_disk(&job.disk)?.directory;
            command.arg(directory.join(format!("{}.{}", phase.name, job.name)));
        }
        cgroups::move_to_cgroup_on_start(site, &mut command, job.cgroup.as_deref())?;
        let mut child = command
            .spawn()
            .with_context(|| format!("job {}: cannot start {PROGRAM}", job.name))?;
        Ok(RunningMemoryJob {
            name: job.name.clone(),
            cgroup: job.cgroup.clone(),
            orders: child.stdin.take(),
            child,
            said,
            errors,
        })
    }

    /// Has it filled its memory, or ended before?
    pub fn is_ready(&mut self) -> Result<bool> {
        if self.is_over()? {
            return Ok(true);
        }
        let said = std::fs::read_to_string(&self.said).unwrap_or_default();
        Ok(said.starts_with("ready"))
    }

    /// The time that counts begins. A job that has ended already says why in the end.
    pub fn send_mark(&mut self) {
        if let Some(orders) = &mut self.orders {
            let _ = orders.write_all(b"mark\n");
        }
    }

    /// It is over; the process now checks its memory, which takes it a moment.
    pub fn stop(&mut self) {
        self.orders = None;
    }

    /// Has it ended?
    pub fn is_over(&mut self) -> Result<bool> {
        Ok(self
            .child
            .try_wait()
            .context("waiting for a job")?
            .is_some())
    }

    /// Report of the job's program, once it is over.
    pub fn read_report(mut self) -> Result<Report> {
        let status = self.child.wait().context("waiting for a job")?;
        if !status.success() {
            self.fail_with_errors(&format!("failed ({status})"))?;
        }
        let said = std::fs::read_to_string(&self.said).unwrap_or_default();
        serde_json::from_str(said.lines().last().unwrap_or_default())
            .with_context(|| format!("job {}: not a result: {said:.200}", self.name))
    }

    fn fail_with_errors(&self, how: &str) -> Result<()> {
        let errors = std::fs::read_to_string(&self.errors).unwrap_or_default();
        bail!("job {}: {PROGRAM} {how}: {}", self.name, errors.trim())
    }
}
