// SPDX-License-Identifier: GPL-2.0-only
//! From an observation to a verdict. Pure functions: the same for a live look and a file.
//!
//! A verdict is made for a group of tasks (a cgroup, a process, all tasks of a cgroup) in four
//! steps:
//!
//! 1. add up what they lost, by kind: in the throttle, for a weight, a bandwidth or a full ceiling,
//!    in reclaim, for fsync and the journal, other sleeps. The kind with the most time is what stalled them; under 1 % of the
//!    time nothing did;
//! 2. for the throttle, say of each pause which domain decided ([`domain`]); the domain with the
//!    most time is the cause, unless `io.max` keeps the pages from being written (`io_max`);
//! 3. derive that domain's limit with the numbers put in (`limit`), find who holds the pages
//!    (`holders`) and whether the drain is the disk's, the flusher's or the journal's (`drain`);
//!    For reclaim, say what the time went to and for whom (`reclaim`);
//! 4. name the knob, a value and the command (`remedy`; `queue` and `flushers` where the device's
//!    queue or its one flusher is in the way), and say whether the kernel's own knobs
//!    suffice (`stock`).
//!
//! Example: 1,940 pauses of 28 s in all, 27.6 s of them decided by the host's limit of 32 MiB of
//! which /noisy holds 30.8 MiB: cause `host_limit`, culprit `/noisy`, command `echo 16M >
//! /sys/fs/cgroup/victim/memory.dirty_min`.

mod bandwidth;
mod command;
pub mod domain;
mod drain;
mod flushers;
mod group;
mod headroom;
mod holders;
pub mod interval;
mod io_max;
mod killed;
mod levels;
mod limit;
pub mod owed;
mod queue;
mod reclaim;
mod remedy;
mod stock;
mod verdict;
mod weight;

pub use domain::Domain;
pub use killed::Killed;
pub use levels::Level;
pub use reclaim::{Part, Split};
pub use remedy::Remedy;
pub use stock::Stock;
pub use verdict::{Cause, Diagnosis, Holder, Lost, Verdict};

use crate::model::cgroup::shown;
use crate::model::event::WOKE;
use crate::model::observation::Observation;
use crate::model::target::Target;
use group::Group;
pub(crate) use group::throttled_by_cgroup;
use std::collections::BTreeMap;

/// Less than this part of the time is no stall.
const STALLED: f64 = 0.01;
/// Cgroups with a verdict of their own when none was named.
const MOST_VERDICTS: usize = 5;

/// The verdicts for `target`; without stalls one verdict, [`Cause::Nothing`].
pub fn diagnose(seen: &Observation, target: &Target) -> Diagnosis {
    diagnose_most(seen, target, MOST_VERDICTS)
}

/// The same, with so many verdicts at most.
pub(crate) fn diagnose_most(seen: &Observation, target: &Target, most: usize) -> Diagnosis {
    let mut verdicts: Vec<Verdict> = group::groups(seen, target)
        .iter()
        .map(|group| verdict(seen, group))
        .collect();
    verdicts.sort_by(|a, b| b.lost.seconds.total_cmp(&a.lost.seconds));
    if verdicts
        .iter()
        .any(|verdict| verdict.cause != Cause::Nothing)
    {
        verdicts.retain(|verdict| verdict.cause != Cause::Nothing);
    } else {
        verdicts.truncate(1);
    }
    verdicts.truncate(most);
    Diagnosis {
        seconds: seen.seconds,
        verdicts,
        killed: killed::killed(seen, target),
        lost_events: seen.lost,
        notes: notes(seen, target),
    }
}

fn notes(seen: &Observation, target: &Target) -> Vec<String> {
    let mut notes = seen.blind.clone();
    if let Target::Process(process, _) = target {
        let name = seen.name_of(*process);
        notes.push(format!(
            "time lost is that of process {process} ({name}) alone, not of its whole cgroup"
        ));
    }
    if seen.lost > 0 {
        notes.push(format!(
            "{} records were lost: times are too low",
            seen.lost
        ));
    }
    if !seen.is_live {
        for (event, what) in [
            ("balance_dirty_pages", "pauses"),
            ("global_dirty_state", "which domain decided a pause"),
            ("sched_switch", "how long pauses lasted"),
        ] {
            // A recording that was cut has its own.
            let ends_are_seen = event == "sched_switch" && seen.seen.contains(WOKE);
            if !seen.seen.contains(event) && !ends_are_seen {
                notes.push(format!(
                    "the file has no {event} events, so it does not show {what}"
                ));
            }
        }
        notes.push("a file has no cgroup files, so it shows neither what unthrottled cgroups hold nor what each may hold".into());
    }
    notes
}

fn verdict(seen: &Observation, group: &Group) -> Verdict {
    let by_kind = group.seconds_by_kind();
    let (kind, most) = by_kind
        .iter()
        .max_by(|a, b| a.1.total_cmp(b.1))
        .map_or(("", 0.0), |(kind, most)| (*kind, *most));
    let decided = group.decided(seen);
    let device = group.device().or_else(|| drain::busiest_device(seen));
    let mut verdict = Verdict {
        cgroup: shown(&group.path),
        cause: Cause::Nothing,
        because: "nothing stalled".into(),
        culprit: None,
        device: device.clone(),
        lost: group.lost(kind, seen.seconds),
        seconds_by_kind: by_kind,
        seconds_by_domain: decided.clone(),
        levels: Vec::new(),
        reclaim: None,
        limit: Vec::new(),
        holders: holders::holders(seen),
        drain: drain::drain(seen, device.as_deref()),
        next: String::new(),
        remedies: Vec::new(),
        stock: None,
        io_pressure_seconds: seen
            .cgroup_at(&group.path)
            .map(|cgroup| cgroup.io_pressure as f64 / 1e6),
    };
    if most < STALLED * seen.seconds {
        return verdict;
    }
    match kind {
        "throttle" => throttled(seen, group, &decided, &mut verdict),
        "weight" => {
            let beside = weight::beside(seen, &group.path);
            verdict.cause = Cause::Weight;
            verdict.culprit = beside.as_ref().and_then(|beside| beside.culprit());
            verdict.because = match &verdict.culprit {
                Some(culprit) => format!(
                    "its writers wait for their turn beside {culprit}, by memory.dirty_weight"
                ),
                None => "its writers wait for their turn: they dirty more than its portion, by memory.dirty_weight".into(),
            };
            verdict.limit = beside.iter().map(weight::Beside::sentence).collect();
            verdict.next = "each writer waits until what its cgroup dirtied is paid for; no writer waits while the host is below its background level, nor below a floor".into();
            verdict.remedies = weight::remedies(seen, group, beside.as_ref());
        }
        "bandwidth" => bandwidth::judge(seen, group, &mut verdict),
        // Its own wait, which no event tells of.
        "ceiling" => {
            let own = seen.cgroup_at(&group.path);
            let domain = match own.is_some_and(|cgroup| !cgroup.ceilings.is_empty()) {
                true => Domain::Ceiling,
                false => Domain::Ancestor,
            };
            throttled(seen, group, &[(domain, most)].into(), &mut verdict);
        }
        "reclaim" => reclaim::judge(seen, group, &mut verdict),
        "fsync" => {
            verdict.cause = Cause::FsyncOrJournal;
            verdict.culprit = owed::most_of_syncs(seen, &group.path);
            verdict.because = match &verdict.culprit {
                Some(culprit) => {
                    format!("its tasks wait for fsync or the journal, behind what {culprit} writes")
                }
                None => "its tasks wait for fsync or the journal".into(),
            };
            verdict.next = "a commit of the journal waits for all data ordered before it; no dirty limit shortens a wait under way".into();
            let device = verdict.device.as_deref();
            verdict.remedies = queue::remedies(seen, verdict.culprit.as_deref(), device);
        }
        other => {
            let is_read = other.starts_with("reads");
            let held = io_max::reads(seen, &group.path).filter(|_| is_read);
            verdict.cause = Cause::NotWriteback;
            verdict.culprit = held.as_ref().map(|held| shown(&held.path));
            verdict.because = format!("its tasks wait for {other}, which is not writeback");
            verdict.limit = held.iter().map(io_max::HeldBack::sentence).collect();
            verdict.remedies = held.iter().flat_map(remedy::io_max).collect();
            verdict.next = "no dirty limit changes this".into();
            let device = verdict.device.as_deref();
            let flood = queue::flood(seen, &group.path, device);
            if let Some(flood) = flood.filter(|_| is_read && held.is_none()) {
                verdict.because = format!("its tasks wait for {other}, behind what {flood} writes");
                verdict.remedies = queue::remedies(seen, Some(&flood), device);
                verdict.culprit = Some(flood);
            }
        }
    }
    verdict
}

fn throttled(
    seen: &Observation,
    group: &Group,
    decided: &BTreeMap<Domain, f64>,
    verdict: &mut Verdict,
) {
    let domain = decided
        .iter()
        .max_by(|a, b| a.1.total_cmp(b.1))
        .map_or(Domain::Unknown, |(domain, _)| *domain);
    let derived = limit::derive(seen, group, domain);
    verdict.limit.clone_from(&derived.sentences);
    verdict.levels = levels::levels(seen, group);
    verdict
        .limit
        .extend(limit::floors(seen, &group.domain_path(seen)));
    verdict.next = drain::next(seen, group, &derived);
    let holds = verdict.holders.first().map(|holder| holder.cgroup.clone());
    let top = owed::most_of_host(seen).or_else(|| holds.clone());
    if let Some(held) = io_max::writes(seen, group, top.as_deref()) {
        verdict.cause = Cause::IoMax;
        verdict.culprit = Some(shown(&held.path));
        verdict.because = format!(
            "{} may write {} at most ({}), and writers wait for its pages",
            shown(&held.path),
            held.limit,
            held.line
        );
        verdict.drain = format!(
            "held by io.max of {}: the disk could do more; sleeping does not help the drain",
            shown(&held.path)
        );
        verdict.remedies = remedy::io_max(&held);
        verdict.stock = Some(stock::io_max());
        return;
    }
    let top_holds = top == holds;
    let (cause, culprit, because) = match domain {
        Domain::Host => {
            let because = match &top {
                Some(top) if *top == verdict.cgroup => "the host is at its limit of dirty pages, and most of them are its own".into(),
                Some(top) if top_holds => format!("the host is at its limit of dirty pages, and {top} holds most of them"),
                Some(top) => format!("the host is at its limit of dirty pages, and {top} dirties most of them"),
                None => "the host is at its limit of dirty pages".into(),
            };
            (Cause::HostLimit, top.clone(), because)
        }
        Domain::Cgroup => (Cause::CgroupLimit, Some(verdict.cgroup.clone()), "the cgroup is at its own limit of dirty pages, the host is not".into()),
        Domain::Ceiling => (Cause::CgroupLimit, Some(verdict.cgroup.clone()), "the cgroup is at its own ceiling of dirty pages".into()),
        Domain::Ancestor => {
            let above = derived.binding.as_ref().map(|binding| shown(&binding.path));
            let because = match &above {
                Some(above) => format!("{above}, above it, bounds how many pages may be dirty"),
                None => "a cgroup above it bounds how many pages may be dirty".into(),
            };
            (Cause::AncestorLimit, above, because)
        }
        Domain::Device => (Cause::DeviceLimit, verdict.device.clone(), "the device is kept to its share of the limit, although the host is below it".into()),
        Domain::Unknown => (
            Cause::CannotTell,
            None,
            "writers were throttled, but the events that tell which limit decided are missing: record global_dirty_state as well".into(),
        ),
    };
    verdict.cause = cause;
    verdict.culprit = culprit;
    verdict.because = because;
    verdict.remedies = remedy::throttle(seen, group, domain, &derived, top.as_deref());
    verdict.stock = stock::stock(seen, group, domain, &derived, &verdict.holders);
    let bound = drain::bound(seen, verdict.device.as_deref());
    let split = flushers::remedy(seen, bound, verdict.device.as_deref(), top.as_deref());
    verdict.remedies.extend(split);
    // What lifts the host's limit lifts a cgroup's share of it.
    let lifts = matches!(domain, Domain::Host | Domain::Cgroup);
    if lifts && seen.is_live && remedy::can_have_weir(seen) {
        match headroom::seconds(seen, bound) {
            Ok(remedy) => verdict.remedies.insert(0, remedy),
            Err(why) => verdict.drain += &format!("; drain_seconds would not help: {why}"),
        }
    }
}
