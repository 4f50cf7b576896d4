// SPDX-License-Identifier: GPL-2.0-only
//! The jobs of a running phase: when each begins, and when it is over.
//!
//! A fio job begins at its delay and ends by itself. Jobs that read memory live off each other's:
//! one begins at its delay at the earliest, but only when those before it hold all of theirs,
//! however long a busy machine takes for that; all of them end together, the phase's duration after
//! the last job has begun. Half of that is let pass before anything is counted.
//!
//! Example: three jobs at 0 s and one at 10 s, in a phase of 40 s: if the first three have filled
//! their memory by 12 s, the last begins then, counting begins at 32 s, and all four are told to
//! end at 52 s.

use crate::jobs;
use crate::memory::job as memory;
use crate::site::Site;
use anyhow::{Result, bail};
use scenario::model::{Job, Phase};
use scenario::rundir::PhaseResult;
use std::time::{Duration, Instant};

/// fio needs a moment to start and to end; a job that takes longer than this sleeps in a write.
pub const SLACK: Duration = Duration::from_secs(5);
/// Longer than filling and checking any memory takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// The jobs of a phase.
pub struct Schedule<'a> {
    /// The next to start is at the end.
    waiting: Vec<&'a Job>,
    phase: &'a Phase,
    site: &'a Site,
    start: Instant,
    last_start: Instant,
    /// By how much the last job was later than it should have been.
    late: Duration,
    marked: Option<Instant>,
    stopped: Option<Instant>,
    running: Vec<jobs::RunningJob>,
    memory: Vec<memory::RunningMemoryJob>,
}

impl<'a> Schedule<'a> {
    /// The phase begins now.
    pub fn new(mut waiting: Vec<&'a Job>, phase: &'a Phase, site: &'a Site) -> Schedule<'a> {
        waiting.sort_by_key(|job| std::cmp::Reverse(jobs::delay_ms(job, phase)));
        let start = Instant::now();
        Schedule {
            waiting,
            phase,
            site,
            start,
            last_start: start,
            late: Duration::ZERO,
            marked: None,
            stopped: None,
            running: Vec::new(),
            memory: Vec::new(),
        }
    }

    /// Starts jobs when they are due and returns when all have ended; or `end` after the phase's
    /// start, and as much more as jobs that read memory were late.
    pub fn run_until(&mut self, end: Duration) -> Result<()> {
        while self.start.elapsed() < end + self.end_postponement() {
            while let Some(job) = self.take_due_job()? {
                self.begin_job(job)?;
            }
            self.send_orders();
            if self.waiting.is_empty() && self.running_jobs()?.is_empty() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Times at which the last job began, counting began, and jobs were told to end.
    pub fn counted_span(&self) -> [Instant; 3] {
        let stopped = self.stopped.unwrap_or_else(Instant::now);
        [self.last_start, self.marked.unwrap_or(stopped), stopped]
    }

    /// Names of the jobs that have not ended.
    pub fn running_jobs(&mut self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for job in &mut self.running {
            if !job.is_over()? {
                names.push(job.name.clone());
            }
        }
        for job in &mut self.memory {
            if !job.is_over()? {
                names.push(job.name.clone());
            }
        }
        Ok(names)
    }

    /// Takes the jobs' own results; that one was killed for memory is a result, too.
    pub fn take_results(self, result: &mut PhaseResult) -> Result<()> {
        for job in self.running {
            let (name, cgroup) = (job.name.clone(), job.cgroup.clone());
            match job.read_result() {
                Ok(value) => drop(result.jobs.insert(name, value)),
                Err(why) => note_killed(result, name, cgroup.as_deref(), why)?,
            }
        }
        for job in self.memory {
            let (name, cgroup) = (job.name.clone(), job.cgroup.clone());
            match job.read_report() {
                Ok(value) => drop(result.memory.insert(name, value)),
                Err(why) => note_killed(result, name, cgroup.as_deref(), why)?,
            }
        }
        Ok(())
    }

    fn begin_job(&mut self, job: &'a Job) -> Result<()> {
        match &job.memory {
            None => self
                .running
                .push(jobs::RunningJob::start(job, self.phase, self.site)?),
            Some(memory) => {
                let running = memory::RunningMemoryJob::start(job, memory, self.phase, self.site)?;
                self.memory.push(running);
            }
        }
        self.last_start = Instant::now();
        self.late = self.lateness_of(job);
        Ok(())
    }

    fn take_due_job(&mut self) -> Result<Option<&'a Job>> {
        let Some(next) = self.waiting.last().copied() else {
            return Ok(None);
        };
        let delay = Duration::from_millis(jobs::delay_ms(next, self.phase));
        if self.start.elapsed() < delay || (!delay.is_zero() && !self.are_others_filled(next)?) {
            return Ok(None);
        }
        Ok(self.waiting.pop())
    }

    /// Do the jobs that were started hold all of their memory?
    fn are_others_filled(&mut self, next: &Job) -> Result<bool> {
        let waited = self.lateness_of(next);
        for job in &mut self.memory {
            if job.is_ready()? {
                continue;
            }
            if waited > PATIENCE {
                bail!(
                    "job {} waits for {} to fill its memory, for {} s now",
                    next.name,
                    job.name,
                    PATIENCE.as_secs()
                );
            }
            return Ok(false);
        }
        Ok(true)
    }

    /// Tells the jobs that read memory what time it is.
    fn send_orders(&mut self) {
        if self.memory.is_empty() || !self.waiting.is_empty() {
            return;
        }
        let duration = Duration::from_millis(self.phase.duration_ms);
        if self.marked.is_none() && self.last_start.elapsed() >= duration / 2 {
            self.marked = Some(Instant::now());
            for job in &mut self.memory {
                job.send_mark();
            }
        }
        if self.stopped.is_none() && self.last_start.elapsed() >= duration {
            self.stopped = Some(Instant::now());
            for job in &mut self.memory {
                job.stop();
            }
        }
    }

    /// Delay beyond its own of a job that begins now.
    fn lateness_of(&self, job: &Job) -> Duration {
        let delay = Duration::from_millis(jobs::delay_ms(job, self.phase));
        self.start.elapsed().saturating_sub(delay)
    }

    /// Time by which the phase's end has to be put off. Checking memory takes its time, too.
    fn end_postponement(&self) -> Duration {
        match (self.waiting.last(), self.memory.is_empty()) {
            (_, true) => Duration::ZERO,
            (Some(next), _) => self.lateness_of(next),
            (None, _) if self.stopped.is_none() => self.late + SLACK,
            (None, _) => self.late + PATIENCE,
        }
    }
}

/// Notes a job without a result as killed, if the kernel has killed tasks of its cgroup for memory in
/// this phase, or of the host if it is in none.
///
/// # Errors
/// The kernel has killed none: `why` there is no result.
fn note_killed(
    result: &mut PhaseResult,
    name: String,
    cgroup: Option<&str>,
    why: anyhow::Error,
) -> Result<()> {
    let kills = match cgroup {
        Some(path) => result.oom_kills.get(path),
        None => result.events.get("oom_kill"),
    };
    if kills.is_none_or(|kills| *kills == 0) {
        return Err(why);
    }
    result.killed.push(name);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_death_is_a_result_where_the_kernel_has_killed_for_memory() {
        let mut result = PhaseResult::default();
        result.oom_kills.insert("pod".into(), 1);
        result.oom_kills.insert("other".into(), 0);
        let mut note = |name: &str, cgroup| {
            note_killed(
                &mut result,
                name.into(),
                cgroup,
                anyhow::anyhow!("signal 9"),
            )
            .is_ok()
        };
        assert!(note("a", Some("pod")));
        assert!(!note("b", Some("other")));
        assert!(!note("c", Some("unknown")));
        assert!(!note("d", None));
        assert_eq!(result.killed, ["a"]);
        result.events.insert("oom_kill".into(), 1);
        let in_root = note_killed(&mut result, "d".into(), None, anyhow::anyhow!("signal 9"));
        assert!(in_root.is_ok());
    }
}
