// SPDX-License-Identifier: GPL-2.0-only
//! From what a guest said, and how it ended, to an outcome. Silence is never a pass.

use crate::qemu::End;
use crate::tool::last_lines;
use guest::protocol::Event;
use runner::klog::{HARMLESS_TAINT, find_troubles};
use scenario::executor::Outcome;
use std::path::Path;

/// Collects from the events what decides the outcome.
#[derive(Debug, Default)]
pub struct Witness {
    /// `uname -r`, once the guest has booted.
    pub release: Option<String>,
    /// A script's exit status.
    pub status: Option<i32>,
    problems: Vec<(bool, String)>,
    kernel: Option<(u64, Vec<String>)>,
}

impl Witness {
    /// Takes note of one event.
    pub fn record_event(&mut self, event: &Event) {
        match event {
            Event::Boot { release } => self.release = Some(release.clone()),
            Event::Exit { status } => self.status = Some(*status),
            Event::Problem { text, failed } => self.problems.push((*failed, text.clone())),
            Event::Kernel { taint, lines } => self.kernel = Some((*taint, lines.clone())),
            _ => {}
        }
    }

    /// Decides. `log` is the console's file.
    pub fn judge_outcome(&self, end: &End, log: &Path) -> Outcome {
        let console = std::fs::read(log).unwrap_or_default();
        let console = String::from_utf8_lossy(&console);
        let trouble: Vec<&str> = match &self.kernel {
            Some((_, lines)) => lines.iter().map(String::as_str).collect(),
            // The guest could not say it itself any more; the console may hold it.
            None => find_troubles(console.lines()),
        };
        let see = format!("see {}", log.display());
        if !trouble.is_empty() {
            let more = trouble.len() - 1;
            let more = if more > 0 {
                format!(" (and {more} more such lines)")
            } else {
                String::new()
            };
            return Outcome::Failed(format!(
                "the guest's kernel complained: {}{more}; {see}",
                trouble[0].trim()
            ));
        }
        if let Some((_, text)) = self.problems.iter().find(|(failed, _)| *failed) {
            return Outcome::Failed(format!("{text}; {see}"));
        }
        if let Some((_, text)) = self.problems.first() {
            return Outcome::Inconclusive(format!("{text}; {see}"));
        }
        let last = || {
            let last = last_lines(&console, 3);
            if last.is_empty() {
                see.clone()
            } else {
                format!("{see}, which ends with:\n{last}")
            }
        };
        match end {
            End::Complete => match self.kernel {
                Some((taint, _)) if taint & !HARMLESS_TAINT != 0 => Outcome::Failed(format!(
                    "the guest's kernel is tainted ({taint}, see /proc/sys/kernel/tainted in proc(5)); {see}"
                )),
                Some(_) => Outcome::Done,
                None => Outcome::Inconclusive(format!(
                    "the guest did not report on its kernel log; {see}"
                )),
            },
            End::Died(status) if self.release.is_none() => Outcome::Inconclusive(format!(
                "the guest did not boot (QEMU: {status}); {}",
                last()
            )),
            End::Died(status) => {
                Outcome::Inconclusive(format!("the guest died (QEMU: {status}); {}", last()))
            }
            End::TimerLost => Outcome::Inconclusive(format!(
                "a timer of the emulated machine was lost at each boot; {}",
                last()
            )),
            End::Silent(silence) => Outcome::Inconclusive(format!(
                "the guest hangs: nothing heard for {} s; {}",
                silence.as_secs(),
                last()
            )),
            End::Deadline => Outcome::Inconclusive(format!(
                "the guest was not done when its time was up; {see}"
            )),
            End::Garbled(text) => Outcome::Inconclusive(format!(
                "the guest said something unreadable ({text}); {see}"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn judge(events: &[Event], end: End, console: &str) -> Outcome {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("console.log");
        std::fs::write(&log, console).unwrap();
        let mut witness = Witness::default();
        events.iter().for_each(|event| witness.record_event(event));
        match witness.judge_outcome(&end, &log) {
            Outcome::Failed(text) => {
                Outcome::Failed(text.replace(&log.display().to_string(), "LOG"))
            }
            Outcome::Inconclusive(text) => {
                Outcome::Inconclusive(text.replace(&log.display().to_string(), "LOG"))
            }
            done => done,
        }
    }

    fn boot() -> Event {
        Event::Boot {
            release: "6.12".into(),
        }
    }

    fn kernel(taint: u64, lines: &[&str]) -> Event {
        Event::Kernel {
            taint,
            lines: lines.iter().map(|line| (*line).to_owned()).collect(),
        }
    }

    #[test]
    fn only_a_complete_and_clean_guest_is_done() {
        assert_eq!(
            judge(&[boot(), kernel(HARMLESS_TAINT, &[])], End::Complete, ""),
            Outcome::Done
        );
        assert_eq!(
            judge(&[boot()], End::Complete, ""),
            Outcome::Inconclusive("the guest did not report on its kernel log; see LOG".into())
        );
    }

    #[test]
    fn a_warning_fails_whatever_else_was_said() {
        assert_eq!(
            judge(
                &[boot(), kernel(0, &["WARNING: one", "BUG: two"])],
                End::Complete,
                ""
            ),
            Outcome::Failed(
                "the guest's kernel complained: WARNING: one (and 1 more such lines); see LOG"
                    .into()
            )
        );
        assert!(
            matches!(judge(&[boot(), kernel(512, &[])], End::Complete, ""), Outcome::Failed(text) if text.contains("tainted (512"))
        );
    }

    #[test]
    fn a_panic_is_read_from_the_console() {
        assert_eq!(
            judge(&[boot()], End::Died("exit status: 0".into()), "x\nKernel panic - not syncing: sysrq triggered crash\n"),
            Outcome::Failed("the guest's kernel complained: Kernel panic - not syncing: sysrq triggered crash; see LOG".into())
        );
    }

    #[test]
    fn silence_death_and_noise_are_inconclusive() {
        for (events, end, text) in [
            (
                vec![],
                End::Died("exit status: 1".into()),
                "the guest did not boot (QEMU: exit status: 1); see LOG, which ends with:\nlast words",
            ),
            (
                vec![boot()],
                End::Died("signal: 9 (SIGKILL)".into()),
                "the guest died (QEMU: signal: 9 (SIGKILL)); see LOG, which ends with:\nlast words",
            ),
            (
                vec![boot()],
                End::Silent(Duration::from_secs(60)),
                "the guest hangs: nothing heard for 60 s; see LOG, which ends with:\nlast words",
            ),
            (
                vec![boot()],
                End::Deadline,
                "the guest was not done when its time was up; see LOG",
            ),
            (
                vec![boot()],
                End::Garbled("x".into()),
                "the guest said something unreadable (x); see LOG",
            ),
        ] {
            assert_eq!(
                judge(&events, end, "last words\n"),
                Outcome::Inconclusive(text.into())
            );
        }
    }
}
