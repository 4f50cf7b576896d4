// SPDX-License-Identifier: GPL-2.0-only
//! A scenario on the machine one sits at, and nothing left of it afterwards.
//!
//! Three processes take part, so that any of them may be killed at any time:
//!
//! ```text
//! weir run        shows what goes on, computes, judges; Ctrl-C reaches only this one
//!  └ weir-keeper  waits for the end of either of the others, then puts everything back
//!     └ worker    makes cgroups and disks, sets sysctls, runs the jobs
//! ```
//!
//! * The worker ends, killed or not: the keeper kills what it has started and puts everything back.
//! * `weir run` ends: the keeper's standard input does, too. It kills the worker, and so on.
//! * The keeper is killed: the worker dies with it (`PR_SET_PDEATHSIG`), and `weir run` puts
//!   everything back.
//! * All three are: the next run does, or `weir run --on host --clean-up`.
//!
//! There is one way of putting back ([`clean`]), whichever process does it, also after a run that
//! went well. It needs no list of what was made, since all of it is found by name: one run at a
//! time, held by a lock on [`RUN`], has cgroups below `weir-run`, mounts below [`RUN`],
//! device-mapper devices called `weir-run-*`, and processes with [`MARK`] in their environment,
//! which their children inherit. Only what was there before has to be remembered: values of files,
//! and which modules were not loaded. That is the [`ledger`], written before each change.
//!
//! Disks that the scenario wants slow are made: `disk` has how, and why not of loop devices.

mod ask;
mod check;
pub mod clean;
mod disk;
mod keeper;
mod ledger;
mod lock;
mod modules;
mod mounts;
mod processes;
mod session;
mod worker;

pub use disk::{PROGRAM as DISK, serve_disk as disk};
pub use keeper::{PROGRAM as KEEPER, keep_run as keeper};
pub use session::Interrupt;

use scenario::executor::{Error, Executor, Progress, Refusal, Request, Run};
use scenario::model::{Arm, Scenario};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The directory of a run's mounts, its ledger and temporary files. Its lock, too: there is one run
/// at a time.
pub const RUN: &str = "/run/weir-run";
/// The cgroup below which the scenario's are made.
pub const CGROUP: &str = "/sys/fs/cgroup/weir-run";
/// An environment variable that all processes of a run have, besides the three that are weir's own.
pub const MARK: &str = "WEIR_RUN_ON_HOST";

/// Is shown what a run changes for the whole machine, and says whether it may.
pub type Agree<'a> = dyn Fn(&[String]) -> anyhow::Result<bool> + 'a;

/// This machine as a place where scenarios run.
pub struct LocalHost<'a> {
    /// Disks by name that lie in directories; the others are made.
    pub disks: BTreeMap<String, PathBuf>,
    /// The module to load, if none is loaded.
    pub module: Option<PathBuf>,
    /// Ends runs before their time.
    pub interrupt: &'a Interrupt,
    /// Asked before anything is changed.
    pub agree: &'a Agree<'a>,
}

impl Executor for LocalHost<'_> {
    fn find_refusals(&self, scenario: &Scenario) -> Vec<Refusal> {
        check::refusals_of_scenario(scenario, &self.disks)
    }

    fn run(&self, request: &Request, progress: &dyn Progress) -> Result<Vec<Run>, Error> {
        let mut refused = check::refusals_of_machine(request.arms, self.module.as_deref());
        refused.extend(self.find_refusals(request.scenario));
        if !refused.is_empty() {
            return Err(Error::Refused(refused));
        }
        if !(self.agree)(&ask::list_changes(self, request))? {
            return Err(anyhow::anyhow!("nothing was changed").into());
        }
        session::run(self, request, progress)
    }
}

/// One run, as the keeper is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct RunConfig {
    scenario: Scenario,
    arm: Arm,
    /// Record each phase as `weir record` does.
    record: bool,
    /// Disks by name that lie in directories of this machine; the others are made.
    disks: BTreeMap<String, PathBuf>,
    /// The module to load instead of the installed one.
    module: Option<PathBuf>,
}

/// Is the module loaded?
fn has_module() -> bool {
    Path::new("/sys/module/weir").exists()
}
