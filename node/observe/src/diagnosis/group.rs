// SPDX-License-Identifier: GPL-2.0-only
//! Who is judged together, and what they lost.

use super::binding;
use super::domain;
use super::lost::{Lost, TaskLost};
use crate::model::cgroup::{INODE, UNKNOWN};
use crate::model::observation::Observation;
use crate::model::stall::{Stall, StallKind, Throttled};
use crate::model::target::Target;
use crate::model::wait::Wait;
use crate::model::wait::Waits;
use policy::pause::Decider;
use std::collections::{BTreeMap, BTreeSet};

/// Tasks of a cgroup, or of a process.
pub struct Group<'a> {
    /// Below the root's directory.
    pub path: String,
    /// Stalls that events reported.
    pub stalls: Vec<&'a Stall>,
    /// Waits that looking found: outside of what events reported, where that is told apart.
    pub waits: Waits,
    /// Waits that looking found inside of what events reported.
    pub within: Waits,
    /// `true` if these are told apart.
    is_apart: bool,
    /// `true` if its tasks need again what was evicted of it.
    pub refaults: bool,
    /// Seconds for which the module held its tasks, and how often, as it counted, by kind:
    /// `bandwidth`.
    pub held: BTreeMap<&'static str, (f64, usize)>,
}

/// The groups to judge: one for a cgroup or process that was asked for, else one for each cgroup.
pub fn find_groups<'a>(seen: &'a Observation, target: &Target) -> Vec<Group<'a>> {
    let mut groups: BTreeMap<String, Group<'a>> = BTreeMap::new();
    let key = |home: String, task: Option<u32>| match target {
        Target::Host => Some(home),
        Target::Cgroup(path) => is_below(&home, path).then(|| path.clone()),
        Target::Process(_, path) => task
            .is_none_or(|task| seen.homes.contains_key(&task))
            .then(|| path.clone()),
    };
    fn group_entry<'m, 'a>(
        groups: &'m mut BTreeMap<String, Group<'a>>,
        path: String,
    ) -> &'m mut Group<'a> {
        let new = Group::with_path(path.clone());
        groups.entry(path).or_insert(new)
    }
    if let Some(path) = match target {
        Target::Host => None,
        Target::Cgroup(path) | Target::Process(_, path) => Some(path),
    } {
        group_entry(&mut groups, path.clone());
    }
    let is_a_tasks = |stall: &&Stall| !matches!(stall.kind, StallKind::Kswapd(_));
    for stall in seen.stalls.iter().filter(is_a_tasks) {
        if let Some(path) = key(home_of(seen, stall), Some(stall.task)) {
            group_entry(&mut groups, path).stalls.push(stall);
        }
    }
    for (home, waits) in &seen.waits {
        if let Some(path) = key(home.clone(), None) {
            let group = group_entry(&mut groups, path);
            for (wait, seconds) in waits {
                *group.waits.entry(*wait).or_default() += seconds;
            }
        }
    }
    for (home, waits) in seen.within.iter().flatten() {
        if let Some(path) = key(home.clone(), None) {
            let group = group_entry(&mut groups, path);
            for (wait, seconds) in waits {
                *group.within.entry(*wait).or_default() += seconds;
            }
        }
    }
    for cgroup in &seen.cgroups {
        // The module does not count by task.
        let is_process = matches!(target, Target::Process(..));
        let path = key(cgroup.path.clone(), None).filter(|_| !is_process);
        let (Some(stat), Some(path)) = (cgroup.stat, path) else {
            continue;
        };
        // Flushers that are held by a weight or a window are no tasks of the cgroup.
        if stat.bandwidth_held > 0 {
            let group = group_entry(&mut groups, path);
            let held = group.held.entry("bandwidth").or_default();
            held.0 += stat.bandwidth_held_usec as f64 / 1e6;
            let count = usize::try_from(stat.bandwidth_held).unwrap_or(usize::MAX);
            held.1 = held.1.saturating_add(count);
        }
    }
    if groups.is_empty() {
        group_entry(&mut groups, String::new());
    }
    for (path, group) in &mut groups {
        let cgroup = seen.cgroup_at(path);
        group.is_apart = seen.within.is_some();
        group.refaults = cgroup.is_some_and(|cgroup| cgroup.refaulted > 0);
    }
    groups.into_values().collect()
}

/// The cgroup of the task that stalled; of the writeback domain if the task is not known.
pub fn home_of(seen: &Observation, stall: &Stall) -> String {
    if let Some(home) = seen.homes.get(&stall.task) {
        return home.clone();
    }
    match &stall.kind {
        StallKind::Throttle(throttled) => match seen.cgroup_of(throttled.pause.cgroup) {
            Some(cgroup) => cgroup.path.clone(),
            None => format!("{INODE}{}", throttled.pause.cgroup),
        },
        StallKind::Reclaim(_) | StallKind::Kswapd(_) | StallKind::Sync => UNKNOWN.into(),
    }
}

/// Seconds slept in the throttle, by the cgroup's path.
pub fn throttled_by_cgroup(seen: &Observation) -> BTreeMap<String, f64> {
    let mut throttled: BTreeMap<String, f64> = BTreeMap::new();
    for stall in &seen.stalls {
        if let StallKind::Throttle(_) = stall.kind {
            *throttled.entry(home_of(seen, stall)).or_default() += stall.length_ns() as f64 / 1e9;
        }
    }
    throttled
}

fn is_below(path: &str, above: &str) -> bool {
    above.is_empty()
        || path == above
        || path
            .strip_prefix(above)
            .is_some_and(|rest| rest.starts_with('/'))
}

fn kind_of(stall: &Stall) -> &'static str {
    match stall.kind {
        StallKind::Throttle(_) => "throttle",
        StallKind::Reclaim(_) | StallKind::Kswapd(_) => "reclaim",
        StallKind::Sync => "fsync",
    }
}

/// Counts as reclaim, beside what events say of it.
const OVER_HIGH: &str = "over memory.high";
/// The same, of a cgroup whose pages were evicted before.
const FAULTS: &str = "page faults that read";

/// Tasks of a group that are named.
const MOST_TASKS: usize = 3;

fn kind_of_wait(wait: Wait) -> &'static str {
    match wait {
        Wait::Throttle => "throttle",
        Wait::Bandwidth => "bandwidth",
        Wait::Ceiling => "ceiling",
        Wait::Reclaim | Wait::Queue => "reclaim",
        Wait::OverHigh => OVER_HIGH,
        Wait::Fault => FAULTS,
        Wait::Journal | Wait::Sync | Wait::Flush => "fsync",
        Wait::Fuse => "fuse",
        Wait::Read | Wait::Write | Wait::Lock | Wait::Other => wait.in_words(),
    }
}

impl<'a> Group<'a> {
    /// Without any tasks.
    pub fn with_path(path: String) -> Group<'a> {
        Group {
            path,
            stalls: Vec::new(),
            waits: Waits::new(),
            within: Waits::new(),
            is_apart: false,
            refaults: false,
            held: BTreeMap::new(),
        }
    }

    /// Seconds that looking found, wherever.
    pub fn looked_seconds(&self, wait: Wait) -> f64 {
        let of = |waits: &Waits| waits.get(&wait).copied().unwrap_or(0.0);
        of(&self.waits) + of(&self.within)
    }

    /// The tasks that lost most to one kind.
    pub fn most_lost_tasks(&self, seen: &Observation, kind: &str) -> Vec<TaskLost> {
        let mut lost: BTreeMap<u32, f64> = BTreeMap::new();
        for stall in self.stalls.iter().filter(|stall| kind_of(stall) == kind) {
            *lost.entry(stall.task).or_default() += stall.length_ns() as f64 / 1e9;
        }
        let mut lost: Vec<TaskLost> = lost
            .into_iter()
            .filter(|(_, seconds)| *seconds > 0.0)
            .map(|(task, seconds)| TaskLost {
                task,
                name: seen.name_of(task).into(),
                seconds,
            })
            .collect();
        lost.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        lost.truncate(MOST_TASKS);
        lost
    }

    /// Pauses in the throttle.
    pub fn pauses(&self) -> impl Iterator<Item = (&'a Stall, &'a Throttled)> {
        self.stalls.iter().filter_map(|stall| match &stall.kind {
            StallKind::Throttle(throttled) => Some((*stall, throttled.as_ref())),
            StallKind::Reclaim(_) | StallKind::Kswapd(_) | StallKind::Sync => None,
        })
    }

    /// Events are exact. What looking found outside of them is more of the same, or of another kind;
    /// what it found inside is the same sleep once more. Of old recordings, which do not tell these
    /// apart, what looking found counts where there were no events, or where it is more. So it does of
    /// what the module counts, which it does when a wait has ended.
    pub fn seconds_by_kind(&self) -> BTreeMap<&'static str, f64> {
        let mut exact: BTreeMap<&'static str, f64> = BTreeMap::new();
        for stall in &self.stalls {
            *exact.entry(kind_of(stall)).or_default() += stall.length_ns() as f64 / 1e9;
        }
        exact.extend(self.held.iter().map(|(kind, held)| (*kind, held.0)));
        let mut looked: BTreeMap<&'static str, f64> = BTreeMap::new();
        for (wait, seconds) in &self.waits {
            *looked.entry(kind_of_wait(*wait)).or_default() += seconds;
        }
        for (kind, seconds) in looked {
            let exact = exact.entry(kind).or_default();
            let is_settled = matches!(kind, "throttle" | "reclaim") && *exact > 0.0;
            let is_counted = matches!(kind, "bandwidth" | "ceiling");
            if self.is_apart && !is_settled && !is_counted {
                *exact += seconds;
            } else if !is_settled {
                *exact = exact.max(seconds);
            }
        }
        let beside = [(OVER_HIGH, true), (FAULTS, self.refaults)];
        for (kind, _) in beside.iter().filter(|(_, is_reclaim)| *is_reclaim) {
            let seconds = exact.remove(kind).unwrap_or(0.0);
            if seconds > 0.0 {
                *exact.entry("reclaim").or_default() += seconds;
            }
        }
        exact
    }

    /// The domain that decided each pause. A cgroup's own limit that stems from a limit above it
    /// counts as the ancestor's; one that is about as large as the host's, from no limit at all, as
    /// the host's.
    pub fn pause_decisions(&self, seen: &Observation) -> Vec<(Decider, &'a Stall, &'a Throttled)> {
        let path = self.domain_path(seen);
        let binding = binding::tightest_binding(seen, &path);
        let decision = |(stall, throttled): (&'a Stall, &'a Throttled)| {
            let domain = match domain::deciding_domain(seen, stall, throttled) {
                Decider::Cgroup => match &binding {
                    Some(binding) if binding.path == path => Decider::Cgroup,
                    Some(_) => Decider::Ancestor,
                    None if binding::is_about_the_hosts(seen, throttled) => Decider::Host,
                    None => Decider::Cgroup,
                },
                domain => domain,
            };
            (domain, stall, throttled)
        };
        self.pauses().map(decision).collect()
    }

    /// Throttled seconds by domain.
    pub fn seconds_by_domain(&self, seen: &Observation) -> BTreeMap<Decider, f64> {
        let mut decided: BTreeMap<Decider, f64> = BTreeMap::new();
        for (domain, stall, _) in self.pause_decisions(seen) {
            *decided.entry(domain).or_default() += stall.length_ns() as f64 / 1e9;
        }
        decided
    }

    /// The cgroup whose writeback domain most pauses were made in.
    pub fn domain_path(&self, seen: &Observation) -> String {
        let most = most_frequent(self.pauses().map(|(_, throttled)| throttled.pause.cgroup));
        let cgroup = most.and_then(|inode| seen.cgroup_of(inode));
        cgroup.map_or_else(|| self.path.clone(), |cgroup| cgroup.path.clone())
    }

    /// The device most pauses were made for.
    pub fn main_device(&self) -> Option<String> {
        most_frequent(
            self.pauses()
                .map(|(_, throttled)| throttled.pause.bdi.clone()),
        )
    }

    /// Time that was lost to one kind.
    pub fn time_lost(&self, kind: &str, seconds: f64) -> Lost {
        let stalls: Vec<&&Stall> = self
            .stalls
            .iter()
            .filter(|stall| kind_of(stall) == kind)
            .collect();
        let exact: f64 = stalls
            .iter()
            .map(|stall| stall.length_ns() as f64 / 1e9)
            .sum();
        let total = self.seconds_by_kind().get(kind).copied().unwrap_or(0.0);
        if let Some((_, count)) = self.held.get(kind).filter(|held| held.0 >= total) {
            return Lost {
                seconds: total,
                count: Some(*count),
                measured: "counted",
                ..Lost::default()
            };
        }
        // A few looks beside events do not take away how often and how long they were.
        let is_mostly_looks = if self.is_apart {
            exact * 2.0 < total
        } else {
            exact < total
        };
        if stalls.is_empty() || is_mostly_looks {
            return Lost {
                seconds: total,
                measured: "looks",
                ..Lost::default()
            };
        }
        let mut lengths: Vec<u64> = stalls
            .iter()
            .map(|stall| stall.length_ns())
            .filter(|ns| *ns > 0)
            .collect();
        lengths.sort_unstable();
        let at = |part: f64| {
            let index =
                ((lengths.len() as f64 * part).ceil() as usize).clamp(1, lengths.len().max(1)) - 1;
            lengths.get(index).map_or(0.0, |ns| *ns as f64 / 1e6)
        };
        let tasks: BTreeSet<u32> = stalls.iter().map(|stall| stall.task).collect();
        let measured = stalls.iter().all(|stall| stall.slept_ns.is_some());
        Lost {
            seconds: total,
            tasks: tasks.len(),
            share: if seconds > 0.0 {
                (total / (seconds * tasks.len() as f64)).min(1.0)
            } else {
                0.0
            },
            some: if seconds > 0.0 {
                (union_seconds(&stalls) / seconds).min(1.0)
            } else {
                0.0
            },
            count: Some(lengths.len()),
            p50_ms: at(0.5),
            p99_ms: at(0.99),
            max_ms: at(1.0),
            measured: if measured { "slept" } else { "announced" },
        }
    }
}

/// Seconds in which at least one of these was under way; they are in order.
fn union_seconds(stalls: &[&&Stall]) -> f64 {
    let (mut all, mut until) = (0, 0);
    for stall in stalls {
        let end = stall.ns.saturating_add(stall.length_ns());
        all += end.saturating_sub(stall.ns.max(until));
        until = until.max(end);
    }
    all as f64 / 1e9
}

fn most_frequent<T: Ord>(of: impl Iterator<Item = T>) -> Option<T> {
    let mut counts: BTreeMap<T, usize> = BTreeMap::new();
    for one in of {
        *counts.entry(one).or_default() += 1;
    }
    counts
        .into_iter()
        .max_by_key(|(_, count)| *count)
        .map(|(one, _)| one)
}
