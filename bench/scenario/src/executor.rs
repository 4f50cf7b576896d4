// SPDX-License-Identifier: GPL-2.0-only
//! The part that lab, twin and host have in common: a scenario in, one [`Run`] for each arm and
//! repeat out.

use crate::metric::Figures;
use crate::model::{Arm, Scenario};
use config::problem::{Problem, Problems};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A place where scenarios run.
pub trait Executor {
    /// Every key of `scenario` that this place cannot honour. Starts and changes nothing.
    fn find_refusals(&self, scenario: &Scenario) -> Vec<Refusal>;

    /// Runs each arm as often as asked. A guest that fails is an [`Outcome`], not an error.
    ///
    /// # Errors
    /// What keeps runs from starting, or ends them all.
    fn run(&self, request: &Request, progress: &dyn Progress) -> Result<Vec<Run>, Error>;
}

/// A scenario to run, in these arms, so many times.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The scenario, as parsed.
    pub scenario: &'a Scenario,
    /// Arms to run it in.
    pub arms: &'a [Arm],
    /// Number of runs of each arm.
    pub repeat: u32,
    /// Keep a recording of each phase, as `weir record` makes.
    pub record: bool,
    /// Directory for logs, results and recordings; `None` keeps none.
    pub out: Option<&'a Path>,
}

/// Outcome and metrics of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// With the module or without.
    pub arm: Arm,
    /// Counted from 0.
    pub repeat: u32,
    /// Release of the kernel (`uname -r`), or of the one that was to be booted.
    pub kernel: String,
    /// End of the run.
    pub outcome: Outcome,
    /// Of the phases that were completed, by full name, `ARM.PHASE.SUBJECT.METRIC`.
    pub metrics: Figures,
    /// The console's log, of a guest.
    pub log: Option<PathBuf>,
    /// Seconds by the wall clock.
    pub seconds: f64,
}

/// Ends of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It did all that was asked, and its kernel has nothing to complain about.
    Done,
    /// Something broke (an oops, a warning, a death): what, and where to look, for people.
    Failed(String),
    /// It cannot be told (a hang, a missing result): why, and where to look, for people.
    Inconclusive(String),
}

/// Is told what goes on, from several threads.
pub trait Progress: Sync {
    /// Something is fetched or built before runs can start.
    fn report_preparation(&self, what: &str);
    /// A run has come to another stage (`mkfs slow`) or phase. About `left` remains of all runs.
    fn report_stage(&self, arm: Arm, repeat: u32, what: &str, left: Duration);
    /// Something that people should know of a run.
    fn report_note(&self, arm: Arm, repeat: u32, what: &str);
    /// A run has ended.
    fn report_finished_run(&self, run: &Run);
}

/// For who does not look.
impl Progress for () {
    fn report_preparation(&self, _: &str) {}
    fn report_stage(&self, _: Arm, _: u32, _: &str, _: Duration) {}
    fn report_note(&self, _: Arm, _: u32, _: &str) {}
    fn report_finished_run(&self, _: &Run) {}
}

/// Something that keeps a scenario from being run at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The scenario's key, as `disk[0].filesystem`; empty if the machine is to blame.
    pub key: String,
    /// The fault, and the remedy, for people.
    pub what: String,
}

impl Refusal {
    /// `key` is refused because of `what`.
    pub fn new(key: impl Into<String>, what: impl Into<String>) -> Refusal {
        let (key, what) = (key.into(), what.into());
        Refusal { key, what }
    }
}

/// Why there are no runs.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The place cannot honour the scenario.
    #[error("{}", join_refusals(.0))]
    Refused(Vec<Refusal>),
    /// The user ended the run, and everything is put back.
    #[error("interrupted; everything is put back")]
    Interrupted,
    /// Anything else, for people: what was wrong, where, and what to do.
    #[error(transparent)]
    Other(#[from] anyhow::Error),
}

fn join_refusals(refusals: &[Refusal]) -> String {
    let lines = refusals.iter().map(|refusal| match &*refusal.key {
        "" => refusal.what.clone(),
        key => format!("key `{key}`: {}", refusal.what),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Refusals as problems of the scenario file at `path`, with the lines that are to blame.
///
/// # Errors
/// The file cannot be read any more.
pub fn locate_refusals(path: &Path, refusals: Vec<Refusal>) -> Result<Problems, Problems> {
    let text = config::read_text(path, "scenario")?;
    let problem = |refusal: Refusal| match refusal.key.is_empty() {
        true => Problem {
            file: "this machine".into(),
            line: 0,
            key: refusal.key,
            what: refusal.what,
        },
        false => Problem {
            file: path.display().to_string(),
            line: config::reader::line_of(&text, &refusal.key),
            key: refusal.key,
            what: refusal.what,
        },
    };
    let mut problems: Vec<Problem> = refusals.into_iter().map(problem).collect();
    problems.sort_by_key(|problem| problem.line);
    Ok(Problems(problems))
}
