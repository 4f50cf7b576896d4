// SPDX-License-Identifier: GPL-2.0-only
//! What goes on while a scenario runs, on stderr: a line per arm that renews itself on a terminal,
//! plain lines elsewhere.

use indicatif::{MultiProgress, ProgressBar, ProgressState, ProgressStyle};
use scenario::executor::{Outcome, Progress, Request, Run};
use scenario::model::Arm;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::IsTerminal;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use weir::output;

/// Shows the runs of a request on stderr.
pub fn show_runs(request: &Request) -> Box<dyn Progress> {
    if std::io::stderr().is_terminal() {
        Box::new(Spinners::new(request.arms, request.repeat))
    } else {
        Box::new(Lines {
            repeat: request.repeat,
        })
    }
}

/// The same of a twin's runs: nothing but on a terminal, as most are over at once.
pub fn show_twin_runs(request: &Request) -> Box<dyn Progress> {
    if std::io::stderr().is_terminal() {
        Box::new(Spinners::new(request.arms, request.repeat))
    } else {
        Box::new(())
    }
}

/// Plain lines, for logs and pipes.
struct Lines {
    repeat: u32,
}

impl Progress for Lines {
    fn report_preparation(&self, what: &str) {
        output::print_note(format_args!("weir: preparing {what}"));
    }

    fn report_stage(&self, arm: Arm, repeat: u32, what: &str, left: Duration) {
        output::print_note(format_args!(
            "weir: {}: {what}, about {} left",
            guest_name(arm, repeat, self.repeat),
            format_minutes(left)
        ));
    }

    fn report_note(&self, arm: Arm, repeat: u32, what: &str) {
        output::print_note(format_args!(
            "weir: {}: {what}",
            guest_name(arm, repeat, self.repeat)
        ));
    }

    fn report_finished_run(&self, done: &Run) {
        self.report_note(done.arm, done.repeat, &describe_ending(done));
    }
}

/// The time at which everything will be over, as far as one can tell; nothing while that is
/// unknown.
type End = Arc<Mutex<Option<Instant>>>;

/// A line per arm that renews itself.
struct Spinners {
    repeat: u32,
    bars: MultiProgress,
    preparing: ProgressBar,
    arms: BTreeMap<Arm, (ProgressBar, End)>,
}

impl Spinners {
    /// Shows a line for each of `arms`, with `repeat` guests.
    fn new(arms: &[Arm], repeat: u32) -> Spinners {
        let bars = MultiProgress::new();
        let spinner = |end: End| {
            let bar = bars.add(ProgressBar::new_spinner());
            bar.set_style(spinner_style(end));
            bar.enable_steady_tick(Duration::from_millis(250));
            bar
        };
        let preparing = spinner(End::default());
        let arms = arms
            .iter()
            .map(|arm| {
                let end = End::default();
                let bar = spinner(end.clone());
                bar.set_prefix(arm.name());
                bar.set_message("waiting");
                (*arm, (bar, end))
            })
            .collect();
        Spinners {
            repeat,
            bars,
            preparing,
            arms,
        }
    }
}

/// Counts down by itself between two reports.
fn spinner_style(end: End) -> ProgressStyle {
    let left = move |_: &ProgressState, out: &mut dyn Write| {
        let end = *end.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(end) = end {
            let left = end.saturating_duration_since(Instant::now());
            // A line that cannot be drawn is not worth stopping a run for.
            let _ = write!(out, "about {} left", format_minutes(left));
        }
    };
    ProgressStyle::with_template("{spinner} {prefix:<10} {msg:<32} {left}")
        .unwrap_or_else(|_| ProgressStyle::default_spinner())
        .with_key("left", left)
}

impl Progress for Spinners {
    fn report_preparation(&self, what: &str) {
        self.preparing.set_message(format!("preparing {what}"));
    }

    fn report_stage(&self, arm: Arm, repeat: u32, what: &str, left: Duration) {
        self.preparing.finish_and_clear();
        if let Some((bar, end)) = self.arms.get(&arm) {
            *end.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + left);
            bar.set_prefix(guest_name(arm, repeat, self.repeat));
            bar.set_message(what.to_string());
        }
    }

    fn report_note(&self, arm: Arm, repeat: u32, what: &str) {
        let line = format!("{}: {what}", guest_name(arm, repeat, self.repeat));
        self.bars
            .suspend(|| output::print_note(format_args!("weir: {line}")));
    }

    fn report_finished_run(&self, done: &Run) {
        if let Some((bar, _)) = self.arms.get(&done.arm) {
            if done.repeat + 1 == self.repeat {
                bar.finish_and_clear();
            }
        }
        if done.outcome != Outcome::Done {
            self.report_note(done.arm, done.repeat, &describe_ending(done));
        }
    }
}

/// A guest's name, as in `stock 2/3`.
fn guest_name(arm: Arm, repeat: u32, of: u32) -> String {
    if of == 1 {
        arm.name().into()
    } else {
        format!("{} {}/{of}", arm.name(), repeat + 1)
    }
}

fn describe_ending(guest: &Run) -> String {
    match &guest.outcome {
        Outcome::Done => format!("done in {:.0} s", guest.seconds),
        Outcome::Failed(why) => format!("failed: {why}"),
        Outcome::Inconclusive(why) => format!("inconclusive: {why}"),
    }
}

/// `45 s`, `2 min 05 s`
fn format_minutes(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds => format!("{} min {:02} s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_and_times_are_named_for_people() {
        assert_eq!(guest_name(Arm::Stock, 1, 3), "stock 2/3");
        assert_eq!(guest_name(Arm::Weir, 0, 1), "weir");
        assert_eq!(format_minutes(Duration::from_secs(45)), "45 s");
        assert_eq!(format_minutes(Duration::from_secs(125)), "2 min 05 s");
    }
}
