// SPDX-License-Identifier: GPL-2.0-only
//! Jobs that hold memory of their own must fit into their cgroups: what a cgroup would swap, or
//! whom it would kill, is not modelled.

use super::{Refusal, memory};
use crate::mm::domain::PAGE;
use crate::task::fio::Work;
use scenario::model::{Cgroup, Phase, Scenario};

/// Those that do not.
pub fn refuse_holders(scenario: &Scenario, works: &[Option<Work>], refusals: &mut Vec<Refusal>) {
    for (path, cgroup) in &scenario.cgroups {
        let mut phases = scenario.phases.iter();
        refusals.extend(
            phases.find_map(|phase| first_beyond_limit(scenario, works, phase, (path, cgroup))),
        );
    }
}

/// The first job of a phase that brings what all hold in a cgroup, or in each of its copies, beyond
/// that one's limit.
fn first_beyond_limit(
    scenario: &Scenario,
    works: &[Option<Work>],
    phase: &Phase,
    (path, cgroup): (&str, &Cgroup),
) -> Option<Refusal> {
    let most = memory::least_limit(&cgroup.files) / PAGE;
    let mut all = 0u64;
    let mut jobs = scenario.jobs.iter().zip(works).enumerate();
    let over = jobs.find(|(_, (job, work))| {
        let runs = phase.jobs.contains(&job.name) && job.is_in_subtree(path);
        let Some(work) = work.as_ref().filter(|work| runs && work.holds > 0) else {
            return false;
        };
        let processes = work.processes.div_ceil(cgroup.copies.unwrap_or(1).max(1));
        all = all.saturating_add(work.holds.saturating_mul(processes.into()));
        all > most
    });
    over.map(|(index, _)| (
        format!("job[{index}].fio.bs"),
        format!("exceeds memory.high or memory.max of `{path}`: the twin does not model reclaim of a cgroup's own memory"),
    ))
}
