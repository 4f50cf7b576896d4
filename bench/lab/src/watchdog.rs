// SPDX-License-Identifier: GPL-2.0-only
//! How long a guest has been silent, in time that the guest could use.
//!
//! The host's scheduler counts how long each thread waited for a CPU (`run_delay`, the second
//! figure of `/proc/PID/task/TID/schedstat`, in nanoseconds). That time is not the guest's: on a
//! busy host a healthy boot of 8 s of CPU time takes minutes. CPU time alone would not do either: a
//! guest that waits for a timer interrupt that never comes uses none. An idle guest wakes often,
//! and on a very busy host waits each time, so a part of wall-clock time counts in any case.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// At least one second in so many counts, whatever threads waited; also where the kernel does not
/// say. Beside 38 runnable threads on two cores a boot of 8 s of CPU time took 160 s.
const MOST_STRETCH: u32 = 8;

/// Measures a silence of one process.
pub struct Silence {
    tasks: PathBuf,
    since: Instant,
    /// `run_delay` of each thread when the measurement began; read when it is first needed.
    before: Option<HashMap<u64, Duration>>,
}

impl Silence {
    /// Begins now. The process has `pid`.
    pub fn of_process(pid: u32) -> Silence {
        Silence {
            tasks: PathBuf::from(format!("/proc/{pid}/task")),
            since: Instant::now(),
            before: Some(HashMap::new()),
        }
    }

    /// The process said something: begin again.
    pub fn restart_count(&mut self) {
        self.before = None;
    }

    /// The length so far, without the longest time that any one thread waited for a CPU.
    pub fn quiet_time(&mut self) -> Duration {
        let now = self.run_delays();
        let Some(before) = &self.before else {
            self.since = Instant::now();
            self.before = Some(now);
            return Duration::ZERO;
        };
        let elapsed = self.since.elapsed();
        let least = elapsed / MOST_STRETCH;
        if now.is_empty() {
            return least;
        }
        let waited = now.iter().map(|(thread, delay)| {
            delay.saturating_sub(before.get(thread).copied().unwrap_or_default())
        });
        elapsed
            .saturating_sub(waited.max().unwrap_or_default())
            .max(least)
    }

    /// `run_delay` of each thread; none where the kernel does not say.
    fn run_delays(&self) -> HashMap<u64, Duration> {
        let Ok(tasks) = std::fs::read_dir(&self.tasks) else {
            return HashMap::new();
        };
        let delay = |task: std::fs::DirEntry| {
            let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
            let delay = text.split_whitespace().nth(1)?.parse().ok()?;
            let thread = task.file_name().to_str()?.parse().ok()?;
            Some((thread, Duration::from_nanos(delay)))
        };
        tasks.flatten().filter_map(delay).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn process(threads: &[(u64, u64)]) -> tempfile::TempDir {
        let tasks = tempfile::tempdir().unwrap();
        threads
            .iter()
            .for_each(|(thread, ms)| set(tasks.path(), *thread, *ms));
        tasks
    }

    fn set(tasks: &Path, thread: u64, ms: u64) {
        let task = tasks.join(thread.to_string());
        std::fs::create_dir_all(&task).unwrap();
        std::fs::write(task.join("schedstat"), format!("77 {} 3\n", ms * 1_000_000)).unwrap();
    }

    fn silence(tasks: &Path, seconds: u64) -> Silence {
        Silence {
            tasks: tasks.into(),
            since: Instant::now() - Duration::from_secs(seconds),
            before: Some(HashMap::new()),
        }
    }

    #[test]
    fn an_idle_guest_was_silent_all_the_time() {
        let tasks = process(&[(1, 0), (2, 5)]);
        assert_eq!(silence(tasks.path(), 100).quiet_time().as_secs(), 99);
    }

    #[test]
    fn time_in_which_a_thread_waited_for_a_cpu_does_not_count() {
        let tasks = process(&[(1, 20_000), (2, 70_000)]);
        assert_eq!(silence(tasks.path(), 100).quiet_time().as_secs(), 30);
    }

    #[test]
    fn on_the_busiest_host_a_silence_ends_too() {
        let tasks = process(&[(1, 100_000)]);
        assert_eq!(silence(tasks.path(), 100).quiet_time().as_secs(), 12);
    }

    #[test]
    fn a_word_begins_anew_and_what_was_waited_before_is_forgotten() {
        let tasks = process(&[(1, 70_000)]);
        let mut silence = silence(tasks.path(), 100);
        silence.restart_count();
        assert_eq!(silence.quiet_time(), Duration::ZERO);
        silence.since -= Duration::from_secs(50);
        set(tasks.path(), 1, 90_000);
        assert_eq!(silence.quiet_time().as_secs(), 30);
    }

    #[test]
    fn where_the_kernel_does_not_count_it_more_time_is_given() {
        let tasks = process(&[]);
        assert_eq!(silence(tasks.path(), 100).quiet_time().as_secs(), 12);
    }

    #[test]
    fn this_kernel_counts_it_of_this_process() {
        let here = Silence::of_process(std::process::id());
        assert_eq!(
            here.run_delays().is_empty(),
            !Path::new("/proc/self/schedstat").exists()
        );
    }
}
