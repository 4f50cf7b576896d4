// SPDX-License-Identifier: GPL-2.0-only
//! Reclaim: what the time went to, for whom memory was reclaimed, and what changes it.
//!
//! Events give the spans and, inside them, the sleeps in `reclaim_throttle()`; the rest of a span
//! is scanning. Of that, looks tell how much was waiting in a disk's queue: a task that writes
//! others' pages to swap. Outside of spans looks find page faults that read back what was evicted,
//! and the penalty of a cgroup over `memory.high`.
//!
//! Memory is reclaimed for who takes it: what a cgroup grew by, and what was reclaimed of it.
//! Example: /victim took 4 MiB in 10 s and lost 3 s in reclaim for the host, /noisy took 900 MiB.
//! The culprit is /noisy; a `memory.high` below what it could have lets it reclaim for itself.

use super::binding::{self, Binding};
use super::group::Group;
use super::limit;
use super::reclaim_split::{ReclaimPart, Split};
use super::remedy::{self, Remedy};
use super::verdict::{Cause, Unchanged, Verdict, Why};
use super::{holders, killed};
use crate::diagnosis::command::cgroup_file;
use crate::model::cgroup::{Cgroup, display_path};
use crate::model::observation::Observation;
use crate::model::text::format_size;

/// In percent: a cgroup with so much memory that is no page cache has next to nothing to reclaim.
const MOSTLY: u64 = 80;

/// Fills in a verdict whose cause is reclaim.
pub fn judge_reclaim(seen: &Observation, group: &Group, verdict: &mut Verdict) {
    let split = Split::of_group(seen, group);
    let own: f64 = split.for_limit(group);
    let all: f64 = split.seconds.values().sum();
    let binding = binding::tightest_binding(seen, &group.path);
    verdict.cause = Cause::Reclaim;
    // Old recordings do not tell whom spans were for: a limit that is there is the likelier reason.
    let is_told = seen.vmscan.is_some();
    match binding.filter(|_| own * 2.0 > all || !is_told) {
        Some(binding) => for_limit(seen, &binding, verdict),
        None if own * 2.0 > all => {
            verdict.because = "its tasks reclaim memory for a limit of their cgroup or of one above, memory.max or memory.high; which cgroup is not shown".into();
            verdict.next = "each allocation goes on reclaiming until memory is free".into();
        }
        None => judge_for_host(seen, group, &split, verdict),
    }
    verdict.reclaim = Some(split);
}

fn for_limit(seen: &Observation, binding: &Binding, verdict: &mut Verdict) {
    verdict.culprit = Some(display_path(&binding.path));
    verdict.because = format!(
        "its tasks reclaim memory, because {} is close to its {}",
        display_path(&binding.path),
        binding.file
    );
    verdict.limit.push(binding.to_sentence());
    verdict.next = "each allocation goes on reclaiming until memory is free".into();
    let holder = seen.cgroup_at(&binding.path);
    let is_full_of_dirty = |cgroup: &&Cgroup| 2 * (cgroup.dirty + cgroup.writeback) > cgroup.file;
    let raised = match unreclaimable_remedy(seen, binding) {
        Some(remedy) => vec![remedy],
        None => remedy::reclaim_remedies(seen, Some(binding)),
    };
    let ceiling = holder
        .filter(is_full_of_dirty)
        .and_then(|cgroup| killed::ceiling_remedy(seen, cgroup));
    let all = ceiling.into_iter().chain(raised);
    verdict.remedies = remedy::put_stock_first(seen, all.collect());
}

/// Remedy for memory that cannot be reclaimed: any `memory.high` is too little, however large, once
/// it has grown.
fn unreclaimable_remedy(seen: &Observation, binding: &Binding) -> Option<Remedy> {
    let cgroup = seen.cgroup_at(&binding.path)?;
    let is_without_swap = seen.host.as_ref()?.swap == Some(0);
    let anonymous = cgroup.current.saturating_sub(cgroup.file);
    let is_mostly = anonymous > cgroup.current / 100 * MOSTLY;
    if binding.file != "memory.high" || !is_without_swap || !is_mostly {
        return None;
    }
    let file = cgroup_file(&binding.path, binding.file);
    let effect = format!(
        "{} of it are no page cache, and without swap nothing of that can be reclaimed: twice the limit stalls it again when \
         it has grown; memory.max bounds it, by a kill",
        format_size(anonymous)
    );
    Some(remedy::echo_command(binding.file, "max", &file, effect))
}

fn judge_for_host(seen: &Observation, group: &Group, split: &Split, verdict: &mut Verdict) {
    verdict.limit.extend(split.host_sentence());
    verdict.next = "each allocation goes on reclaiming until memory is free".into();
    if split.frees_nothing() && !is_dirty(split) {
        return judge_in_vain(seen, verdict);
    }
    let most = split.taken.first().filter(|most| most.bytes > 0);
    let culprit = most.filter(|most| most.cgroup != verdict.cgroup && most.cgroup != "/");
    let high = culprit.and_then(|culprit| high_remedy(seen, &culprit.cgroup));
    let low = low_remedy(seen, group).filter(|_| split.largest_part() == Some(ReclaimPart::SwapIn));
    verdict.remedies = [high, low].into_iter().flatten().collect();
    if is_dirty(split) && meets_dirty(seen, verdict) {
        return;
    }
    verdict.culprit = most.map(|most| most.cgroup.clone());
    verdict.because = match most {
        None if is_dirty(split) => {
            let command = match seen.is_live {
                true => "weir top",
                false => "weir explain",
            };
            verdict.unchanged = Some(Unchanged {
                why: Why::NotShown,
                because: "a ceiling, memory.dirty_bytes, for the cgroup that holds most dirty pages; this names it".into(),
                command: command.into(),
            });
            "its tasks reclaim memory and meet dirty pages; which cgroup holds them is not shown, a ceiling for that one helps".into()
        }
        None => "its tasks reclaim memory, because the host is short of it".into(),
        Some(most) if most.cgroup == verdict.cgroup => {
            verdict.next += "; only more memory or swap, or a smaller working set, changes that";
            format!(
                "its tasks reclaim memory for the host, and took most of it themselves: {}",
                format_size(most.bytes)
            )
        }
        Some(most) => format!(
            "its tasks reclaim memory for the host, and {} took {} meanwhile",
            most.cgroup,
            format_size(most.bytes)
        ),
    };
}

/// Reclaim meets dirty pages: the cgroup with most of them gets a ceiling first, whichever takes
/// memory. False if that cgroup or its ceiling is not known.
fn meets_dirty(seen: &Observation, verdict: &mut Verdict) -> bool {
    let holder = holders::find_holders(seen).into_iter().next();
    let all = limit::median_held(seen).unwrap_or(0);
    let holder = holder.filter(|most| most.bytes.saturating_mul(2) > all);
    let bounds = holder
        .as_ref()
        .map_or_else(Vec::new, |most| remedy::bound_remedies(seen, &most.cgroup));
    let Some(most) = holder.filter(|_| !bounds.is_empty()) else {
        return false;
    };
    verdict.because = format!(
        "its tasks reclaim memory for the host and meet dirty pages, most of them {}'s: {}",
        most.cgroup,
        format_size(most.bytes)
    );
    verdict.culprit = Some(most.cgroup);
    verdict.remedies.splice(0..0, bounds);
    true
}

/// Fills in a verdict where nothing can be reclaimed: then it matters who has memory, not who takes
/// the little that is freed.
fn judge_in_vain(seen: &Observation, verdict: &mut Verdict) {
    verdict.because =
        "its tasks reclaim memory for the host, and next to nothing can be reclaimed".into();
    verdict.next += "; only more memory or swap changes that, or smaller working sets";
    if let Some(most) = holders::holders_by_cgroup(seen, |cgroup| cgroup.current).first() {
        verdict.because += &format!(": {} has {}", most.cgroup, format_size(most.bytes));
        verdict.culprit = Some(most.cgroup.clone());
    }
}

/// Returns whether the pages that reclaim meets are dirty file pages: then their writer is to hold
/// fewer.
fn is_dirty(split: &Split) -> bool {
    let waits = [ReclaimPart::Writeback, ReclaimPart::Congested];
    let asleep = split
        .largest_part()
        .is_some_and(|part| waits.contains(&part));
    let met = split.pages.is_some_and(|pages| {
        let scanned = pages.scanned_direct.saturating_add(pages.scanned_kswapd);
        // Those that are written to swap come round as well.
        pages.immediate.saturating_sub(pages.swapped_out) > scanned / 4
    });
    asleep || met
}

/// Lets who takes most reclaim for itself: what it has and what is free, less an eighth of memory
/// for all others.
fn high_remedy(seen: &Observation, culprit: &str) -> Option<Remedy> {
    let host = seen.host.as_ref()?;
    let cgroup = seen.cgroup_at(culprit.trim_start_matches('/'))?;
    let kept = host.memory / 8;
    let has = own_memory(seen, cgroup).saturating_add(host.free);
    let bytes = has.saturating_sub(kept).max(cgroup.min).max(kept / 2);
    if cgroup.high.is_some_and(|high| high <= bytes) || bytes >= host.memory {
        return None;
    }
    Some(remedy::echo_command(
        "memory.high",
        &remedy::whole_mib(bytes),
        &cgroup_file(culprit, "memory.high"),
        format!(
            "{culprit} reclaims for itself beyond {}, and {} are left to all others; `[reclaim]` of weir agent keeps such a \
             limit by itself",
            format_size(bytes),
            format_size(kept)
        ),
    ))
}

fn own_memory(seen: &Observation, cgroup: &Cgroup) -> u64 {
    let held = holders::holders_by_cgroup(seen, |cgroup| cgroup.current);
    let held = held
        .iter()
        .find(|held| held.cgroup == display_path(&cgroup.path));
    held.map_or(cgroup.current, |held| held.bytes)
}

/// Keeps what is read back again and again from being evicted.
fn low_remedy(seen: &Observation, group: &Group) -> Option<Remedy> {
    let cgroup = seen
        .cgroup_at(&group.path)
        .filter(|cgroup| !cgroup.path.is_empty())?;
    let host = seen.host.as_ref()?;
    let bytes = cgroup
        .current
        .saturating_add(cgroup.refaulted)
        .min(host.memory / 2);
    Some(remedy::echo_command(
        "memory.low",
        &remedy::whole_mib(bytes),
        &cgroup_file(&group.path, "memory.low"),
        format!(
            "{} of it are reclaimed last, as far as cgroups above are protected as well",
            format_size(bytes)
        ),
    ))
}
