// SPDX-License-Identifier: GPL-2.0-only
//! From an observation to a verdict. Pure functions: the same for a live look and a file.
//!
//! A verdict is made for a group of tasks (a cgroup, a process, all tasks of a cgroup) in four
//! steps:
//!
//! 1. add up what they lost, by kind: in the throttle, for a bandwidth or a full ceiling, in reclaim,
//!    for fsync and the journal, for a FUSE daemon, other sleeps. The kind with the most time is
//!    what stalled them; under 1 % of the time nothing did;
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
mod binding;
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
mod lost;
pub mod owed;
mod queue;
mod reclaim;
mod reclaim_split;
mod remedy;
mod stock;
mod sync;
mod unchanged;
mod verdict;

pub use holders::Holder;
pub use killed::Killed;
pub use levels::Level;
pub use lost::{Lost, TaskLost};
pub use policy::pause::Decider;
pub use reclaim_split::{ReclaimPart, Split};
pub use remedy::Remedy;
pub use stock::StockVerdict;
pub use verdict::{Cause, Diagnosis, Unchanged, Verdict, Why};

use crate::model::cgroup::display_path;
use crate::model::event::{SYNC_BEGAN, WOKE};
use crate::model::observation::Observation;
use crate::model::stall::Stall;
use crate::model::target::Target;
use crate::model::text;
use crate::model::wait::Wait;
use group::Group;
pub(crate) use group::{home_of, throttled_by_cgroup};
use std::collections::BTreeMap;

/// Part of the time below which tasks do not count as stalled.
const STALLED: f64 = 0.01;
/// Said of the host's dirty pages, and replaced where a daemon stands for its clients.
const OWN: &str = "most of them are its own";
/// Cgroups with a verdict of their own when none was named.
const MOST_VERDICTS: usize = 5;

/// The verdicts for `target`; without stalls one verdict, [`Cause::Nothing`].
pub fn diagnose(seen: &Observation, target: &Target) -> Diagnosis {
    diagnose_most(seen, target, MOST_VERDICTS)
}

/// The same, with so many verdicts at most.
pub(crate) fn diagnose_most(seen: &Observation, target: &Target, most: usize) -> Diagnosis {
    let mut verdicts: Vec<Verdict> = group::find_groups(seen, target)
        .iter()
        .map(|group| judge_group(seen, group))
        .collect();
    if verdicts
        .iter()
        .any(|verdict| verdict.cause != Cause::Nothing)
    {
        verdicts.retain(|verdict| verdict.cause != Cause::Nothing);
    } else {
        verdicts.truncate(1);
    }
    note_purpose(seen, &mut verdicts);
    verdicts.sort_by(|a, b| {
        let lost = b.lost.seconds.total_cmp(&a.lost.seconds);
        a.is_on_purpose.cmp(&b.is_on_purpose).then(lost)
    });
    verdicts.truncate(most);
    for verdict in &mut verdicts {
        let told = verdict.unchanged.take();
        verdict.unchanged =
            unchanged::why_unchanged(seen, verdict).map(|other| told.unwrap_or(other));
    }
    Diagnosis {
        seconds: seen.seconds,
        verdicts,
        killed: killed::find_killed(seen, target),
        lost_events: seen.lost,
        notes: collect_notes(seen, target),
    }
}

/// Notes which verdicts are on purpose: of several cgroups that stall, one that others wait for is
/// held for their sake, and so is one below a ceiling. It comes last, and is not told how to get
/// free.
fn note_purpose(seen: &Observation, verdicts: &mut [Verdict]) {
    let blamed: Vec<(String, String)> = verdicts
        .iter()
        .filter_map(|verdict| Some((verdict.culprit.clone()?, verdict.cgroup.clone())))
        .filter(|(culprit, victim)| culprit != victim)
        .collect();
    let is_alone = verdicts.len() == 1;
    for verdict in verdicts {
        let is_throttle = matches!(
            verdict.cause,
            Cause::Throttle(Decider::Host | Decider::Cgroup | Decider::Ceiling)
                | Cause::IoMax
                | Cause::Bandwidth
        );
        let victim = blamed.iter().find(|(culprit, victim)| {
            *culprit == verdict.cgroup && verdict.culprit.as_ref() != Some(victim)
        });
        let own = seen.cgroup_at(verdict.cgroup.trim_start_matches('/'));
        let has_bound = own.is_some_and(|cgroup| match verdict.cause {
            Cause::Throttle(Decider::Cgroup | Decider::Ceiling) => !cgroup.ceilings.is_empty(),
            Cause::Bandwidth => cgroup.bandwidth.is_some(),
            _ => false,
        });
        if !is_throttle || !(victim.is_some() || has_bound && !is_alone) {
            continue;
        }
        verdict.is_on_purpose = true;
        verdict.held_for = victim.map(|(_, victim)| victim.clone());
        verdict.remedies.clear();
        verdict.stock = None;
        verdict.because += &match &verdict.held_for {
            Some(victim) => format!("; {victim} waits for it, so it is held on purpose"),
            None => "; that was set, so it is held on purpose".into(),
        };
    }
}

fn collect_notes(seen: &Observation, target: &Target) -> Vec<String> {
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

fn judge_group(seen: &Observation, group: &Group) -> Verdict {
    let by_kind = group.seconds_by_kind();
    let (kind, most) = by_kind
        .iter()
        .max_by(|a, b| a.1.total_cmp(b.1))
        .map_or(("", 0.0), |(kind, most)| (*kind, *most));
    let decided = group.seconds_by_domain(seen);
    let device = group.main_device().or_else(|| drain::busiest_device(seen));
    let mut verdict = Verdict {
        cgroup: display_path(&group.path),
        cause: Cause::Nothing,
        because: "nothing stalled".into(),
        culprit: None,
        device: device.clone(),
        lost: group.time_lost(kind, seen.seconds),
        tasks: group.most_lost_tasks(seen, kind),
        seconds_by_kind: by_kind,
        seconds_by_domain: decided.clone(),
        levels: Vec::new(),
        reclaim: None,
        limit: Vec::new(),
        holders: holders::find_holders(seen),
        drain: drain::describe_drain(seen, device.as_deref()),
        next: String::new(),
        remedies: Vec::new(),
        unchanged: None,
        is_on_purpose: false,
        held_for: None,
        waits_for: None,
        stock: None,
        io_pressure_seconds: seen
            .cgroup_at(&group.path)
            .map(|cgroup| cgroup.io_pressure as f64 / 1e6),
    };
    if most <= 0.0 && !seen.is_live && !shows_waits(seen) {
        verdict.cause = Cause::Throttle(Decider::Unknown);
        verdict.because =
            "the file has no event that shows a wait, so it does not tell whether any task stalled"
                .into();
        return verdict;
    }
    if most < STALLED * seen.seconds {
        return verdict;
    }
    match kind {
        "throttle" => judge_throttled(seen, group, &decided, &mut verdict),
        "bandwidth" => bandwidth::judge_bandwidth(seen, group, &mut verdict),
        // Its own wait, which no event tells of.
        "ceiling" => {
            let own = seen.cgroup_at(&group.path);
            let domain = match own.is_some_and(|cgroup| !cgroup.ceilings.is_empty()) {
                true => Decider::Ceiling,
                false => Decider::Ancestor,
            };
            judge_throttled(seen, group, &[(domain, most)].into(), &mut verdict);
        }
        "reclaim" => reclaim::judge_reclaim(seen, group, &mut verdict),
        "fsync" => sync::judge_sync(seen, group, &mut verdict),
        "fuse" => judge_fuse(seen, &mut verdict),
        other => judge_beside_writeback(seen, group, other, &mut verdict),
    }
    verdict
}

/// Notes that a cgroup dirties faster than its disk writes, and not in bursts: any limit is full
/// after a while, which is told if that is shorter than what was looked at. While writers are held
/// for 80 % of the time and 8 MiB are written in a second they would dirty 40, so 32 MiB more are
/// full after one.
fn note_outrun(seen: &Observation, group: &Group, derived: &limit::Derived, verdict: &mut Verdict) {
    let device = verdict.device.as_deref();
    let device = seen
        .devices
        .iter()
        .find(|found| Some(&*found.bdi) == device);
    let (Some(device), Some(limit)) = (device, derived.limit) else {
        return;
    };
    let rate = device.written as f64 / seen.seconds.max(1.0);
    let held = group.time_lost("throttle", seen.seconds).some.min(0.999);
    let beyond = rate * held / (1.0 - held);
    if beyond * seen.seconds <= limit as f64 {
        return;
    }
    let lasts = (limit as f64 / beyond).ceil();
    verdict.remedies.clear();
    verdict.stock = None;
    verdict.unchanged = Some(Unchanged {
        why: Why::NothingHelps,
        because: format!(
            "it dirties faster than {} writes, {}/s, and a limit of twice {} would be full within {lasts} s",
            device.name(),
            text::format_size(rate as u64),
            text::format_size(limit),
        ),
        command: "weir top".into(),
    });
}

/// Returns whether a file has events, or samples, that show what tasks wait for.
fn shows_waits(seen: &Observation) -> bool {
    let waits = [
        "balance_dirty_pages",
        "throttled",
        "reclaim_begin",
        "sync_file_enter",
    ];
    let has = |name: &String| name == SYNC_BEGAN || waits.iter().any(|wait| name.ends_with(wait));
    !seen.stalls.is_empty() || !seen.waits.is_empty() || seen.seen.iter().any(has)
}

/// Tasks that wait for what is no limit: the disk, a lock.
fn judge_beside_writeback(seen: &Observation, group: &Group, what: &str, verdict: &mut Verdict) {
    let waits = [Wait::Read, Wait::Write, Wait::Lock, Wait::Other];
    verdict.waits_for = waits.into_iter().find(|wait| wait.in_words() == what);
    let is_read = what.starts_with("reads");
    let is_of_disk = is_read || verdict.waits_for == Some(Wait::Write);
    let held = io_max::find_read_limit(seen, &group.path).filter(|_| is_read);
    verdict.cause = Cause::NotWriteback;
    verdict.culprit = held.as_ref().map(|held| display_path(&held.path));
    verdict.because = format!("its tasks wait for {what}, which is not writeback");
    verdict.limit = held.iter().map(io_max::HeldBack::to_sentence).collect();
    verdict.remedies = held.iter().flat_map(remedy::lift_io_max).collect();
    verdict.next = "no dirty limit changes this".into();
    let device = verdict.device.as_deref();
    let flood = queue::find_flood(seen, &group.path, device);
    if let Some(flood) = flood.filter(|_| is_of_disk && held.is_none()) {
        verdict.because = format!("its tasks wait for {what}, behind what {flood} writes");
        verdict.remedies = queue::flood_remedies(seen, Some(&flood), device);
        verdict.culprit = Some(flood);
    }
}

/// Tasks that wait for a FUSE filesystem's daemon: whatever that waits for is what holds them.
fn judge_fuse(seen: &Observation, verdict: &mut Verdict) {
    let serves = |stall: &&Stall| seen.fuse_daemons.contains(&stall.task);
    let mut daemon = Group::with_path(String::new());
    daemon.stalls = seen.stalls.iter().filter(serves).collect();
    if let Some(stall) = daemon.stalls.first() {
        daemon.path = group::home_of(seen, stall);
    }
    let found = self::judge_group(seen, &daemon);
    let (lost, kinds) = (verdict.lost.clone(), verdict.seconds_by_kind.clone());
    let cgroup = verdict.cgroup.clone();
    if found.cause == Cause::Nothing {
        verdict.cause = Cause::NotWriteback;
        verdict.waits_for = Some(Wait::Fuse);
        verdict.because =
            "its tasks wait for the daemon of a FUSE filesystem, which no limit of dirty pages holds".into();
        verdict.next = "no dirty limit changes this".into();
        return;
    }
    let of = found.tasks.first().map_or_else(String::new, |task| {
        format!(", {} ({})", task.name, task.task)
    });
    let mut remedies = found.remedies.clone();
    remedy::leave_room(&mut remedies);
    let because = found
        .because
        .replace(OWN, &format!("{} has most of them", found.cgroup));
    *verdict = Verdict {
        because: format!(
            "its tasks wait for the daemon of a FUSE filesystem{of}, and for that: {because}"
        ),
        cgroup,
        lost,
        seconds_by_kind: kinds,
        remedies,
        ..found
    };
}

fn judge_throttled(
    seen: &Observation,
    group: &Group,
    decided: &BTreeMap<Decider, f64>,
    verdict: &mut Verdict,
) {
    let domain = decided
        .iter()
        .max_by(|a, b| a.1.total_cmp(b.1))
        .map_or(Decider::Unknown, |(domain, _)| *domain);
    let derived = limit::derive_limit(seen, group, domain);
    verdict.limit.clone_from(&derived.sentences);
    verdict.levels = levels::find_levels(seen, group);
    verdict
        .limit
        .extend(limit::describe_floors(seen, &group.domain_path(seen)));
    verdict.next = drain::describe_next(seen, group, &derived);
    let blame = holders::blame_for_host(seen, group, &verdict.holders);
    let top = blame.culprit.clone();
    if let Some(held) = io_max::find_write_limit(seen, group, top.as_deref()) {
        verdict.cause = Cause::IoMax;
        verdict.culprit = Some(display_path(&held.path));
        verdict.because = format!(
            "{} may write {} at most ({}), and writers wait for its pages",
            display_path(&held.path),
            held.limit,
            held.line
        );
        verdict.drain = format!(
            "held by io.max of {}: the disk could do more; sleeping does not help the drain",
            display_path(&held.path)
        );
        verdict.remedies = remedy::lift_io_max(&held);
        verdict.stock = Some(stock::io_max_suffices());
        return;
    }
    let (culprit, because) = match domain {
        Decider::Host => {
            let because = match &top {
                Some(top) if *top == verdict.cgroup => format!("the host is at its limit of dirty pages, and {OWN}"),
                Some(top) if blame.holds => format!("the host is at its limit of dirty pages, and {top} holds most of them"),
                Some(top) => format!("the host is at its limit of dirty pages, and {top} dirties most of them"),
                None => format!("the host is at its limit of dirty pages; {}", blame.to_sentence(&verdict.cgroup)),
            };
            (top.clone(), because)
        }
        Decider::Cgroup => (Some(verdict.cgroup.clone()), "the cgroup is at its own limit of dirty pages, the host is not".into()),
        Decider::Ceiling => (Some(verdict.cgroup.clone()), "the cgroup is at its own ceiling of dirty pages".into()),
        Decider::Ancestor => {
            let above = derived.binding.as_ref().map(|binding| display_path(&binding.path));
            let because = match &above {
                Some(above) => format!("{above}, above it, bounds how many pages may be dirty"),
                None => "a cgroup above it bounds how many pages may be dirty".into(),
            };
            (above, because)
        }
        Decider::Device => (verdict.device.clone(), "the device is kept to its share of the limit, although the host is below it".into()),
        Decider::Unknown => (
            None,
            "writers were throttled, but the events that tell which limit decided are missing: record global_dirty_state as well".into(),
        ),
    };
    verdict.cause = Cause::Throttle(domain);
    verdict.culprit = culprit;
    verdict.because = because;
    verdict.remedies = remedy::throttle_remedies(seen, group, domain, &derived, &blame);
    verdict.stock = stock::judge_stock(seen, group, domain, &derived, &verdict.holders);
    let bound = drain::find_bound(seen, verdict.device.as_deref());
    let most = blame.most.as_deref();
    let more = flushers::flusher_remedies(
        seen,
        bound,
        verdict.device.as_deref(),
        top.as_deref().or(most),
    );
    let is_own = domain == Decider::Host && verdict.culprit.as_ref() == Some(&verdict.cgroup);
    if is_own && bound == drain::DrainBound::Device {
        note_outrun(seen, group, &derived, verdict);
    }
    // A limit that is raised for a writer whose flusher is too slow fills, too.
    let at = if is_own { 0 } else { verdict.remedies.len() };
    verdict.remedies.splice(at..at, more);
    // What lifts the host's limit lifts a cgroup's share of it.
    let lifts = matches!(domain, Decider::Host | Decider::Cgroup);
    if lifts && seen.is_live && remedy::can_have_weir(seen) {
        match headroom::drain_seconds_remedy(seen, bound) {
            Ok(remedy) => {
                verdict.remedies.insert(0, remedy);
                let remedies = std::mem::take(&mut verdict.remedies);
                verdict.remedies = remedy::put_stock_first(seen, remedies);
            }
            Err(why) => verdict.drain += &format!("; drain_seconds would not help: {why}"),
        }
    }
}
