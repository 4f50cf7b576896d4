// SPDX-License-Identifier: GPL-2.0-only
//! Time and pages of reclaim: what the time of a group of tasks went to.

use super::group::Group;
use super::holders::{self, Holder};
use crate::model::observation::Observation;
use crate::model::reclaim::{Reason, Vmscan};
use crate::model::stall::StallKind;
use crate::model::wait::Wait;
use serde::Serialize;
use std::collections::BTreeMap;

/// Work or wait of a task in reclaim, or because of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReclaimPart {
    /// Scanned for the host: for all cgroups.
    ScanningForOthers,
    /// Scanned for a limit of its own, or of a cgroup above.
    ScanningForItsLimit,
    /// Slept until pages at the tail of the LRU are written.
    Writeback,
    /// Slept until others put back what they took off the LRU.
    Isolated,
    /// Slept because nothing could be reclaimed.
    Noprogress,
    /// Slept because the tail came round again unwritten.
    Congested,
    /// Slept for a reason that is not known.
    Asleep,
    /// Waited in a disk's queue: to write to swap.
    SwapOut,
    /// Waited in a page fault for what was evicted before.
    SwapIn,
    /// Waited because its cgroup is over `memory.high`.
    OverHigh,
}

impl From<Reason> for ReclaimPart {
    fn from(reason: Reason) -> ReclaimPart {
        match reason {
            Reason::Writeback => ReclaimPart::Writeback,
            Reason::Isolated => ReclaimPart::Isolated,
            Reason::Noprogress => ReclaimPart::Noprogress,
            Reason::Congested => ReclaimPart::Congested,
            Reason::Other => ReclaimPart::Asleep,
        }
    }
}

impl ReclaimPart {
    /// In words, after "most of the time".
    pub(super) fn in_words(self) -> &'static str {
        match self {
            ReclaimPart::ScanningForOthers => "scanning memory for the host",
            ReclaimPart::ScanningForItsLimit => "scanning memory for their limit",
            ReclaimPart::Writeback => "asleep until dirty pages are written",
            ReclaimPart::Isolated => "asleep until other tasks' reclaim has ended",
            ReclaimPart::Noprogress => "asleep because nothing can be reclaimed",
            ReclaimPart::Congested => "asleep until the disk has written what reclaim met before",
            ReclaimPart::Asleep => "asleep",
            ReclaimPart::SwapOut => "waiting in a disk's queue to write to swap",
            ReclaimPart::SwapIn => "waiting for what was evicted to be read back",
            ReclaimPart::OverHigh => "held for being over memory.high",
        }
    }
}

/// Time and pages of reclaim.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Split {
    /// Task-seconds of the stalled, by what they went to.
    pub seconds: BTreeMap<ReclaimPart, f64>,
    /// Seconds that kswapd slept, by reason: it frees memory for all.
    pub kswapd_seconds: BTreeMap<ReclaimPart, f64>,
    /// Pages of the host's reclaim; absent if unknown.
    pub pages: Option<Vmscan>,
    /// Bytes that each cgroup took meanwhile, most first: for whom memory was reclaimed.
    pub taken: Vec<Holder>,
}

impl Split {
    /// Splits the reclaim of a group's tasks.
    pub fn of_group(seen: &Observation, group: &Group) -> Split {
        let mut split = Split {
            pages: seen.vmscan,
            taken: holders::holders_by_cgroup(seen, |cgroup| cgroup.allocated.unwrap_or(0)),
            ..Split::default()
        };
        let mut add = |part: ReclaimPart, seconds: f64| {
            if seconds > 0.0 {
                *split.seconds.entry(part).or_default() += seconds;
            }
        };
        let (mut others, mut own) = (0.0, 0.0);
        for stall in &group.stalls {
            let StallKind::Reclaim(reclaimed) = &stall.kind else {
                continue;
            };
            let mut scanned = stall.length_ns() as f64 / 1e9;
            for (reason, ns) in &reclaimed.slept {
                let slept = *ns as f64 / 1e9;
                add(ReclaimPart::from(*reason), slept);
                scanned = (scanned - slept).max(0.0);
            }
            *(if reclaimed.is_for_limit {
                &mut own
            } else {
                &mut others
            }) += scanned;
        }
        let waited = |wait: Wait| group.looked_seconds(wait);
        // In a page fault the queue is met by reclaim, or by what is read back: with spans, no more
        // than they have.
        let queued = match others + own {
            0.0 => waited(Wait::Queue),
            scanned => waited(Wait::Queue).min(scanned),
        };
        let left = 1.0 - queued / (others + own).max(queued).max(f64::MIN_POSITIVE);
        add(ReclaimPart::SwapOut, queued);
        add(ReclaimPart::ScanningForOthers, others * left);
        add(ReclaimPart::ScanningForItsLimit, own * left);
        add(ReclaimPart::OverHigh, waited(Wait::OverHigh));
        if group.refaults {
            add(ReclaimPart::SwapIn, waited(Wait::Fault));
        }
        for stall in &seen.stalls {
            if let StallKind::Kswapd(reason) = stall.kind {
                let slept = split.kswapd_seconds.entry(reason.into()).or_default();
                *slept += stall.length_ns() as f64 / 1e9;
            }
        }
        split
    }

    /// The part that most of the time went to.
    pub(super) fn largest_part(&self) -> Option<ReclaimPart> {
        let most = self.seconds.iter().max_by(|a, b| a.1.total_cmp(b.1));
        most.map(|(part, _)| *part)
    }

    /// Returns whether less than a hundredth of the pages that the host's reclaim scanned was
    /// freed.
    pub(super) fn frees_nothing(&self) -> bool {
        self.pages.is_some_and(|pages| {
            let scanned = pages.scanned_direct.saturating_add(pages.scanned_kswapd);
            let freed = pages.stolen_direct.saturating_add(pages.stolen_kswapd);
            freed < scanned / 100
        })
    }

    /// Seconds in which it was for a limit of the stalled's own.
    pub(super) fn for_limit(&self, group: &Group) -> f64 {
        let spans = group.stalls.iter().filter_map(|stall| match &stall.kind {
            StallKind::Reclaim(of) if of.is_for_limit => Some(stall.length_ns() as f64 / 1e9),
            _ => None,
        });
        spans.sum::<f64>()
            + self
                .seconds
                .get(&ReclaimPart::OverHigh)
                .copied()
                .unwrap_or(0.0)
    }

    /// The parts of the time, most first, in words.
    pub fn to_sentence(&self) -> String {
        let mut parts: Vec<_> = self.seconds.iter().collect();
        parts.sort_by(|a, b| b.1.total_cmp(a.1));
        let parts = parts
            .into_iter()
            .map(|(part, seconds)| format!("{seconds:.2} s {}", part.in_words()));
        parts.collect::<Vec<_>>().join(", ")
    }

    /// The host's reclaim in a sentence.
    pub(super) fn host_sentence(&self) -> Option<String> {
        let pages = self.pages?;
        let mut said = format!(
            "tasks that allocate scanned {} pages and freed {}, kswapd scanned {} and freed {}",
            pages.scanned_direct, pages.stolen_direct, pages.scanned_kswapd, pages.stolen_kswapd
        );
        if !self.kswapd_seconds.is_empty() {
            let slept: f64 = self.kswapd_seconds.values().sum();
            said += &format!(", and slept {slept:.2} s in reclaim");
        }
        Some(said)
    }
}
