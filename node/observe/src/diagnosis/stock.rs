// SPDX-License-Identifier: GPL-2.0-only
//! Whether the kernel's own knobs suffice against a stall in the throttle, without weir.
//!
//! Measured in `docs/experiments/0025-whose-limit.md`. Where the host decided, a memory limit on
//! the cgroup that fills it has that cgroup held first, as long as it is one cgroup and its memory
//! is mostly page cache. Where the cgroup's own domain decided, the limit is a part of what the
//! cgroup could have dirty: a setting in percent gives it a larger part than one in bytes on a
//! large host, and a larger memory limit more to take it of. Example: 32 MiB of 256 GiB are 0.01 %,
//! and of 64 MiB 8 KiB; 20 % of 64 MiB are 12.8 MiB.

use super::group::Group;
use super::holders::Holder;
use super::limit::Derived;
use super::remedy;
use crate::model::cgroup::display_path;
use crate::model::host::PAGE;
use crate::model::observation::Observation;
use crate::model::text::format_size;
use policy::pause::Decider;
use serde::Serialize;

/// Percent of dirtyable memory that should be dirty at most: reclaim waits for the disk beyond.
const MOST_PERCENT: u64 = 40;

/// Stock Linux's own means against it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StockVerdict {
    /// `true` if that suffices.
    pub suffices: bool,
    /// The kernel's file or setting; absent if none does it.
    pub knob: Option<&'static str>,
    /// The reason, in a sentence.
    pub because: String,
}

fn suffices_by(knob: &'static str, because: String) -> Option<StockVerdict> {
    Some(StockVerdict {
        suffices: true,
        knob: Some(knob),
        because: format!("{knob} suffices: {because}"),
    })
}

fn none_suffices(because: String) -> Option<StockVerdict> {
    Some(StockVerdict {
        suffices: false,
        knob: None,
        because: format!("the kernel's own knobs do not suffice: {because}"),
    })
}

/// Against a limit on writing: it is the kernel's own.
pub fn io_max_suffices() -> StockVerdict {
    StockVerdict {
        suffices: true,
        knob: Some("io.max"),
        because: "io.max suffices: it is what holds the pages".into(),
    }
}

/// Absent where the files to tell it by were not read, or the limit is one that weir set.
pub fn judge_stock(
    seen: &Observation,
    group: &Group,
    domain: Decider,
    derived: &Derived,
    holders: &[Holder],
) -> Option<StockVerdict> {
    match domain {
        Decider::Host => judge_against_holder(seen, group, derived, holders),
        Decider::Cgroup | Decider::Ancestor => {
            let binding = derived.binding.as_ref();
            let is_weirs = binding.is_some_and(|binding| binding.file.starts_with("memory.dirty"));
            if is_weirs {
                return None;
            }
            judge_small_cgroup(seen, group, derived)
        }
        Decider::Device => suffices_by(
            "/sys/class/bdi",
            "the device's own share is what decided".into(),
        ),
        Decider::Ceiling | Decider::Unknown => None,
    }
}

fn judge_against_holder(
    seen: &Observation,
    group: &Group,
    derived: &Derived,
    holders: &[Holder],
) -> Option<StockVerdict> {
    seen.host.as_ref()?;
    let top = holders.first()?;
    if top.cgroup == display_path(&group.path) {
        return suffices_by(
            "vm.dirty_bytes",
            "the pages are its own, and a limit on others would free none".into(),
        );
    }
    let freerun = derived.freerun?;
    let others: u64 = holders.iter().skip(1).map(|holder| holder.bytes).sum();
    if others > freerun {
        return none_suffices(format!(
            "without {} the others still hold {}, and each of them would need a memory limit",
            top.cgroup,
            format_size(others)
        ));
    }
    let cgroup = seen.cgroup_at(top.cgroup.trim_start_matches('/'))?;
    let Some(high) = remedy::stock_bound(seen, &top.cgroup) else {
        return none_suffices("the pages are the root's, which no memory limit bounds".into());
    };
    let other_memory = cgroup.current.saturating_sub(cgroup.file);
    if other_memory >= high {
        return none_suffices(format!(
            "memory.high of {} would have to be {}, and it has {} that is no page cache",
            top.cgroup,
            format_size(high),
            format_size(other_memory)
        ));
    }
    suffices_by(
        "memory.high",
        format!(
            "{} would be held first, below {} of memory, page cache included, once what it holds has drained",
            top.cgroup,
            format_size(high)
        ),
    )
}

fn judge_small_cgroup(
    seen: &Observation,
    group: &Group,
    derived: &Derived,
) -> Option<StockVerdict> {
    let (host, (_, limits)) = (seen.host.as_ref()?, seen.limits.last()?);
    let (limit, wanted) = (derived.limit?, remedy::wanted_bytes(seen, group));
    let dirtyable = (host.dirtyable * PAGE).max(1);
    let percent_now = limits.thresh as f64 * PAGE as f64 * 100.0 / dirtyable as f64;
    let could = limit as f64 * 100.0 / percent_now.max(1e-9);
    let percent = (wanted as f64 * 100.0 / could.max(1.0)).ceil() as u64;
    if percent <= MOST_PERCENT {
        return suffices_by(
            "vm.dirty_ratio",
            format!(
                "{percent} % would let it have {} dirty, and the host {}",
                format_size(wanted),
                format_size(dirtyable * percent / 100)
            ),
        );
    }
    let Some(binding) = &derived.binding else {
        return none_suffices(format!(
            "even {MOST_PERCENT} % of the {} that it could have dirty are less than {}",
            format_size(could as u64),
            format_size(wanted)
        ));
    };
    let grown = (binding.value as f64 * wanted as f64 / limit.max(1) as f64) as u64;
    if grown <= host.memory / 2 {
        return suffices_by(
            binding.file,
            format!(
                "{} of it on {} would let it have {} dirty",
                format_size(grown),
                display_path(&binding.path),
                format_size(wanted)
            ),
        );
    }
    none_suffices(format!(
        "{} of {} would have to be {} for {} of dirty pages",
        binding.file,
        display_path(&binding.path),
        format_size(grown),
        format_size(wanted)
    ))
}
