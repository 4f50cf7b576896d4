// SPDX-License-Identifier: GPL-2.0-only
//! A scenario's jobs as processes: the real fio, in its cgroup, with its options as they are; or the
//! program of a job that syncs, whose result has the same shape.

use crate::cgroups;
use crate::site::Site;
use crate::sync;
use anyhow::{Context, Result, anyhow, bail};
use scenario::model::{Job, Phase, Scenario, Sync};
use serde_json::Value;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Time that a job runs in a phase, in milliseconds: fio's own `runtime` if it has one, else the
/// phase's duration, after its `ramp_time` if it has one.
///
/// # Errors
/// A `runtime` or `ramp_time` that is not a time.
pub fn runtime_ms(job: &Job, phase: &Phase) -> Result<u64, String> {
    let runtime = option_ms(job, "runtime")?.unwrap_or(phase.duration_ms);
    Ok(option_ms(job, "ramp_time")?.unwrap_or(0) + runtime)
}

/// A time among a job's options; fio takes a bare number for seconds.
fn option_ms(job: &Job, name: &str) -> Result<Option<u64>, String> {
    let Some(text) = job.fio.get(name) else {
        return Ok(None);
    };
    match text.parse::<u64>() {
        Ok(seconds) => Ok(Some(seconds * 1000)),
        Err(_) => config::units::parse_milliseconds(text)
            .map(Some)
            .map_err(|why| format!("job {}: {name}: {why}", job.name)),
    }
}

/// End of a phase if everything goes as it says, in milliseconds after its start.
///
/// # Errors
/// As for [`runtime_ms`].
pub fn nominal_ms(jobs: &[&Job], phase: &Phase) -> Result<u64, String> {
    jobs.iter().try_fold(0, |end, job| {
        Ok(end.max(delay_ms(job, phase) + runtime_ms(job, phase)?))
    })
}

/// Time that each phase of `scenario` takes if everything goes as it says.
///
/// # Errors
/// As for [`runtime_ms`].
pub fn phase_times(scenario: &Scenario) -> Result<Vec<Duration>> {
    let time = |phase: &Phase| {
        let jobs = scenario.jobs.iter();
        let jobs: Vec<&Job> = jobs.filter(|job| phase.jobs.contains(&job.name)).collect();
        nominal_ms(&jobs, phase).map(Duration::from_millis)
    };
    let times: Result<_, String> = scenario.phases.iter().map(time).collect();
    times.map_err(|why| anyhow!(why))
}

/// Start of the job, in milliseconds after the phase's.
pub fn delay_ms(job: &Job, phase: &Phase) -> u64 {
    phase.delay_ms.get(&job.name).copied().unwrap_or(0)
}

/// A running fio and where it writes its result.
pub struct RunningJob {
    /// The job's name.
    pub name: String,
    /// The cgroup that it runs in; `None` is the root.
    pub cgroup: Option<String>,
    child: Child,
    result: PathBuf,
    errors: PathBuf,
    /// The job calls sync and runs no fio.
    syncs: bool,
}

impl RunningJob {
    /// Starts the job for a phase.
    pub fn start(job: &Job, phase: &Phase, site: &Site) -> Result<RunningJob> {
        if let Some(sync) = &job.sync {
            return spawn_sync(job, sync, phase, site);
        }
        let mut options = vec![
            "--time_based=1".to_owned(),
            "--output-format=json+".to_owned(),
            "--eta=never".to_owned(),
        ];
        if !job.fio.contains_key("runtime") {
            options.push(format!("--runtime={}ms", phase.duration_ms));
        }
        // One result per job, however many processes it has.
        if !job.fio.contains_key("group_reporting") {
            options.push("--group_reporting=1".to_owned());
        }
        spawn_fio(job, phase, site, &options)
    }

    /// Lays the job's files for a phase out, as fio would do first thing, and waits for that. Every
    /// block is written, unless the job says otherwise by an `overwrite` of its own.
    pub fn lay_out_files(job: &Job, phase: &Phase, site: &Site) -> Result<()> {
        let mut options = vec!["--create_only=1".to_owned(), "--runtime=1".to_owned()];
        if !job.fio.contains_key("overwrite") {
            options.push("--overwrite=1".to_owned());
        }
        let mut running = spawn_fio(job, phase, site, &options)?;
        let status = running.child.wait().context("waiting for fio")?;
        if !status.success() {
            bail!(
                "job {}: fio could not lay out its files ({status}): {}",
                job.name,
                running.first_errors()
            );
        }
        Ok(())
    }

    /// Has it ended?
    pub fn is_over(&mut self) -> Result<bool> {
        Ok(self.child.try_wait().context("waiting for fio")?.is_some())
    }

    /// fio's own result of a job that is over.
    pub fn read_result(mut self) -> Result<Value> {
        let status = self.child.wait().context("waiting for fio")?;
        let text = std::fs::read_to_string(&self.result).unwrap_or_default();
        if !status.success() {
            bail!(
                "job {}: failed ({status}): {}{}",
                self.name,
                self.first_errors(),
                text.lines().next().unwrap_or_default()
            );
        }
        // fio puts warnings in front of the JSON.
        let json = text.find('{').map(|at| &text[at..]).unwrap_or_default();
        let mut value: Value = serde_json::from_str(json)
            .with_context(|| format!("job {}: its result is not JSON: {text:.200}", self.name))?;
        let _ = std::fs::remove_file(&self.result);
        if self.syncs {
            return Ok(value);
        }
        match value.pointer_mut("/jobs/0") {
            Some(job) => Ok(job.take()),
            None => bail!("job {}: fio's result holds no job", self.name),
        }
    }

    fn first_errors(&self) -> String {
        let text = std::fs::read_to_string(&self.errors).unwrap_or_default();
        text.lines().take(5).collect::<Vec<_>>().join("; ")
    }
}

/// A job has files of its own in each phase, unless it names them: rewriting a page that an earlier
/// phase left dirty dirties nothing, and would be free of any throttling.
fn filename_option(job: &Job, phase: &Phase) -> Option<String> {
    let named = ["filename", "filename_format"]
        .iter()
        .any(|option| job.fio.contains_key(*option));
    (!named).then(|| format!("--filename_format={}.$jobname.$jobnum.$filenum", phase.name))
}

fn spawn_fio(job: &Job, phase: &Phase, site: &Site, more: &[String]) -> Result<RunningJob> {
    let [result, errors] = output_files(job, site);
    let log = File::create(&errors).with_context(|| format!("{}", errors.display()))?;
    let mut command = Command::new("fio");
    command
        .arg(format!("--output={}", result.display()))
        .arg(format!("--name={}", job.name))
        .arg(format!(
            "--directory={}",
            site.find_disk(&job.disk)?.directory.display()
        ))
        .args(
            job.fio
                .iter()
                .map(|(option, value)| format!("--{option}={value}")),
        )
        .args(filename_option(job, phase))
        .args(more)
        .current_dir(&site.scratch)
        .stdin(Stdio::null())
        .stdout(
            log.try_clone()
                .with_context(|| format!("{}", errors.display()))?,
        )
        .stderr(log);
    cgroups::move_to_cgroup_on_start(site, &mut command, job.cgroup.as_deref())?;
    let child = command
        .spawn()
        .with_context(|| format!("job {}: cannot start fio", job.name))?;
    Ok(RunningJob {
        name: job.name.clone(),
        cgroup: job.cgroup.clone(),
        child,
        result,
        errors,
        syncs: false,
    })
}

fn spawn_sync(job: &Job, sync: &Sync, phase: &Phase, site: &Site) -> Result<RunningJob> {
    let [result, errors] = output_files(job, site);
    let file = |path: &PathBuf| File::create(path).with_context(|| format!("{}", path.display()));
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0(sync::PROGRAM)
        .arg(serde_json::to_string(sync)?)
        .arg(&site.find_disk(&job.disk)?.directory)
        .arg(phase.duration_ms.to_string())
        .stdin(Stdio::null())
        .stdout(file(&result)?)
        .stderr(file(&errors)?);
    cgroups::move_to_cgroup_on_start(site, &mut command, job.cgroup.as_deref())?;
    let child = command
        .spawn()
        .with_context(|| format!("job {}: cannot start {}", job.name, sync::PROGRAM))?;
    Ok(RunningJob {
        name: job.name.clone(),
        cgroup: job.cgroup.clone(),
        child,
        result,
        errors,
        syncs: true,
    })
}

/// Files that a job's process writes: its result, and what is wrong.
fn output_files(job: &Job, site: &Site) -> [PathBuf; 2] {
    ["json", "err"].map(|kind| site.scratch.join(format!("{}.{kind}", job.name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn job(runtime: Option<&str>) -> Job {
        let fio = runtime
            .map(|text| ("runtime".to_owned(), text.to_owned()))
            .into_iter()
            .collect();
        Job {
            name: "a".into(),
            cgroup: None,
            disk: "d".into(),
            fio,
            memory: None,
            sync: None,
            network: None,
        }
    }

    #[test]
    fn a_phase_lasts_until_its_last_job_should_end() {
        let phase = Phase {
            name: "p".into(),
            jobs: vec!["a".into()],
            duration_ms: 30_000,
            delay_ms: BTreeMap::from([("a".into(), 5_000)]),
            set: BTreeMap::new(),
            clean: false,
        };
        assert_eq!(nominal_ms(&[&job(None)], &phase), Ok(35_000));
        assert_eq!(nominal_ms(&[&job(Some("60"))], &phase), Ok(65_000));
        assert_eq!(nominal_ms(&[&job(Some("500ms"))], &phase), Ok(5_500));
        let mut ramped = job(Some("60"));
        ramped.fio.insert("ramp_time".into(), "15".into());
        assert_eq!(nominal_ms(&[&ramped], &phase), Ok(80_000));
        assert!(
            nominal_ms(&[&job(Some("soon"))], &phase)
                .unwrap_err()
                .starts_with("job a: runtime: ")
        );
    }
}
