// SPDX-License-Identifier: GPL-2.0-only
//! Results of a scenario, and verdicts on what had to come out.
//!
//! The input is one [`Run`] per guest, from any executor; the output a [`Report`], printed as a
//! table ([`terminal_report`], [`markdown_report`]) or as one JSON object ([`report_json`]). Three
//! rules:
//!
//! * **A figure carries its N.** Metrics are medians over the runs of an arm with their range, from
//!   runs that were done; a run that failed contributes nothing but its failure.
//! * **A verdict is explicit.** An expectation is met, not met, *inconclusive* (a figure it needs
//!   is missing) or *skipped* (an arm it needs was not asked for). The last two are never a pass.
//! * **The worst news wins.** One failed guest fails the report whatever the figures say; then one
//!   inconclusive guest or figure makes it inconclusive; only then do the expectations decide.
//!
//! Worked example, `weir.contended.victim.iops >= 0.99 * solo` over three runs of arm weir with
//! 124.9, 125.0 and 124.1 IOPS contended and 125.0, 125.0, 124.8 solo: observed is the median
//! 124.9, the bound 0.99 x 125.0 = 123.75, so it is met, although the worst run alone would have
//! been close.
//!
//! The directory that `weir run --out` leaves of a run is read as a [`report::timeline::Timeline`]
//! by [`read_run()`].

mod format;
mod json;
mod judge;
mod kept;
mod stats;
mod table;

pub use json::{report_json, today_utc};
pub use kept::read_run;
pub use stats::Summary;
pub use table::{markdown_report, terminal_report};

pub use scenario::executor::{Outcome, Run};
use scenario::model::{Arm, Scenario};
use std::collections::BTreeMap;

/// Of an expectation or of the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The expectation is met.
    Pass,
    /// Not met, or a guest failed.
    Fail,
    /// It cannot be told.
    Inconclusive,
    /// An arm it needs was not run. Only of expectations.
    Skipped,
}

impl Verdict {
    /// The verdict's name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::Fail => "fail",
            Verdict::Inconclusive => "inconclusive",
            Verdict::Skipped => "skipped",
        }
    }

    /// 0 met, 1 not met, 2 could not be told.
    pub fn exit_status(self) -> u8 {
        match self {
            Verdict::Pass => 0,
            Verdict::Fail => 1,
            Verdict::Inconclusive | Verdict::Skipped => 2,
        }
    }
}

/// An expectation and what became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// The expectation in the scenario's words.
    pub text: String,
    /// Full name of the metric it is about.
    pub metric: String,
    /// Verdict on the expectation.
    pub verdict: Verdict,
    /// Median of the metric, if there is one.
    pub observed: Option<f64>,
    /// Value that it was held against, if that can be computed.
    pub bound: Option<f64>,
    /// Why there is no verdict, for people; empty otherwise.
    pub why: String,
}

/// All runs of a scenario, summed up and judged.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Verdict of the whole run.
    pub verdict: Verdict,
    /// Title of the scenario.
    pub title: String,
    /// `uname -r` of each kernel that ran (one, unless guests disagree).
    pub kernels: Vec<String>,
    /// Arms with at least one finished run, and how many.
    pub finished: BTreeMap<Arm, usize>,
    /// Metrics by full name.
    pub metrics: BTreeMap<String, Summary>,
    /// Expectations in file order.
    pub expects: Vec<Judged>,
    /// One line per run that did not get to the end.
    pub troubles: Vec<String>,
}

impl Report {
    /// Sums up and judges `runs` of `scenario`; `arms` are those that were asked for.
    pub fn new(scenario: &Scenario, arms: &[Arm], runs: &[Run]) -> Report {
        judge::summarize_runs(scenario, arms, runs)
    }
}
