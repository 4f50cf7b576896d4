// SPDX-License-Identifier: GPL-2.0-only
//! How a limit comes about, with the numbers put in.
//!
//! The host's is `vm.dirty_bytes`, or `vm.dirty_ratio` of what could be dirty (free memory and page
//! cache). A cgroup's is the same *part* of what the cgroup could have dirty: its page cache, and
//! what it can still grow by before the nearest `memory.max` or `memory.high` on its path,
//! whichever program set it. So a byte setting is scaled down. Example: 32 MiB of 1.9 GiB is 1.6 %;
//! a cgroup with `memory.max` 54 MiB gets 1.6 % of that: 0.9 MiB.
//!
//! What the kernel used is seen in the events, as the freerun level (background + limit) / 2; the
//! files say why. Files were read at the end, so the parts may not add up to the last page.

use super::binding::{Binding, is_about_the_hosts, tightest_binding};
use super::group::Group;
use crate::model::cgroup::{Cgroup, display_path, path_up};
use crate::model::host::{Device, PAGE};
use crate::model::observation::Observation;
use crate::model::text::format_size;
use knobs::Knob;
use policy::pause::Decider;

/// A limit and its derivation.
#[derive(Default)]
pub struct Derived {
    /// The derivation, in sentences.
    pub sentences: Vec<String>,
    /// Bytes; where it can be told.
    pub limit: Option<u64>,
    /// Writers are held above this many bytes.
    pub freerun: Option<u64>,
    /// The file that it stems from, if from one.
    pub binding: Option<Binding>,
}

/// Derives the limit of the domain that decided.
pub fn derive_limit(seen: &Observation, group: &Group, domain: Decider) -> Derived {
    match domain {
        Decider::Host => derive_host_limit(seen),
        Decider::Cgroup => derive_cgroup_limit(seen, group),
        Decider::Ancestor | Decider::Ceiling => {
            derive_ceiling(seen, group, domain).unwrap_or_else(|| derive_cgroup_limit(seen, group))
        }
        Decider::Device => derive_device_limit(seen, group),
        Decider::Unknown => Derived::default(),
    }
}

/// The kernel's own limit for a cgroup, computed from the files; the host's for the root.
pub fn limit_by_files<'a>(
    seen: &Observation,
    cgroup_at: impl Fn(&str) -> Option<&'a Cgroup>,
    cgroup: &Cgroup,
) -> Option<u64> {
    let (_, limits) = seen.limits.last()?;
    let host_limit = limits.thresh * PAGE;
    if cgroup.path.is_empty() {
        return Some(host_limit);
    }
    let host = seen.host.as_ref().filter(|_| cgroup.has_memory)?;
    let dirtyable = host.dirtyable * PAGE;
    let part = if host.dirty_bytes > 0 {
        host_limit as f64 / dirtyable.max(PAGE) as f64
    } else {
        host.dirty_ratio as f64 / 100.0
    };
    let room = path_up(&cgroup.path)
        .filter_map(|path| {
            let above = cgroup_at(path)?;
            let most = above.max.into_iter().chain(above.high).min()?;
            Some(most.saturating_sub(above.current))
        })
        .min()
        .unwrap_or(u64::MAX);
    let clean = cgroup.file.saturating_sub(cgroup.dirty + cgroup.writeback);
    let elsewhere = dirtyable
        .saturating_sub((limits.dirty + limits.writeback) * PAGE)
        .saturating_sub(clean);
    let could = cgroup.file.saturating_add(room.min(elsewhere));
    Some((could as f64 * part) as u64)
}

fn derive_host_limit(seen: &Observation) -> Derived {
    let Some((_, limits)) = seen.limits.last() else {
        return Derived::default();
    };
    let (limit, background) = (limits.thresh * PAGE, limits.background * PAGE);
    let freerun = limits.freerun_pages() * PAGE;
    let source = match &seen.host {
        Some(host) if host.dirty_bytes > 0 => format!("vm.dirty_bytes {}", host.dirty_bytes),
        Some(host) => format!(
            "vm.dirty_ratio {} % of {} that could be dirty",
            host.dirty_ratio,
            format_size(limit * 100 / host.dirty_ratio.max(1))
        ),
        None => "taken from the events".into(),
    };
    let median = median_held(seen).unwrap_or(0);
    Derived {
        sentences: vec![
            format!("the host's limit is {}: {source}", format_size(limit)),
            format!(
                "writers are held above the middle of background and limit, ({} + {}) / 2 = {}; the host held {} (median)",
                format_size(background),
                format_size(limit),
                format_size(freerun),
                format_size(median)
            ),
        ],
        limit: Some(limit),
        freerun: Some(freerun),
        binding: None,
    }
}

/// Bytes that the host held: dirty and in writeback, the median.
pub fn median_held(seen: &Observation) -> Option<u64> {
    let mut held: Vec<u64> = seen
        .limits
        .iter()
        .map(|(_, limits)| limits.dirty + limits.writeback)
        .collect();
    held.sort_unstable();
    held.get(held.len() / 2).map(|pages| pages * PAGE)
}

fn derive_cgroup_limit(seen: &Observation, group: &Group) -> Derived {
    // The last pause: files were read right after it.
    let path = group.domain_path(seen);
    let event = group
        .pauses()
        .filter(|(_, throttled)| !is_about_the_hosts(seen, throttled))
        .last();
    let (Some((_, throttled)), Some((_, host))) = (event, seen.limits.last()) else {
        return Derived {
            binding: tightest_binding(seen, &path),
            ..Derived::default()
        };
    };
    let freerun = throttled.pause.freerun_pages() * PAGE;
    // (background + limit) / 2 is the freerun level, and both are scaled by the same part.
    let part = host.thresh as f64 / (host.thresh + host.background).max(1) as f64;
    let limit = (2.0 * freerun as f64 * part) as u64;
    let mut derived = Derived {
        limit: Some(limit),
        freerun: Some(freerun),
        binding: tightest_binding(seen, &path),
        sentences: Vec::new(),
    };
    let (Some(settings), Some(cgroup)) = (&seen.host, seen.cgroup_at(&path)) else {
        derived.sentences = vec![format!(
            "the cgroup's limit is {}, the host's {}",
            format_size(limit),
            format_size(host.thresh * PAGE)
        )];
        return derived;
    };
    let dirtyable = if settings.dirty_bytes > 0 {
        settings.dirtyable * PAGE
    } else {
        host.thresh * PAGE * 100 / settings.dirty_ratio.max(1)
    };
    let part = (host.thresh * PAGE) as f64 / dirtyable.max(1) as f64;
    let setting = if settings.dirty_bytes > 0 {
        format!(
            "vm.dirty_bytes {} of {} dirtyable is {:.2} %",
            format_size(settings.dirty_bytes),
            format_size(dirtyable),
            part * 100.0
        )
    } else {
        format!("vm.dirty_ratio is {} %", settings.dirty_ratio)
    };
    let could = (limit as f64 / part.max(1e-9)) as u64;
    derived.sentences = vec![
        format!(
            "the limit of {} is {}: {setting}, and a cgroup gets that part of what it could have dirty, {}",
            display_path(&path),
            format_size(limit),
            format_size(could)
        ),
        match &derived.binding {
            Some(binding) => format!(
                "that is its page cache, {}, and what it may still grow by: {}",
                format_size(cgroup.file),
                binding.to_sentence()
            ),
            None => format!(
                "that is its page cache, {}, and clean memory elsewhere; no memory limit is set",
                format_size(cgroup.file)
            ),
        },
        format!(
            "writers are held from {} on; the cgroup held {}",
            format_size(freerun),
            format_size(throttled.pause.dirty * PAGE)
        ),
    ];
    derived
}

/// A ceiling set through weir, the cgroup's own or the first above that has one.
fn derive_ceiling(seen: &Observation, group: &Group, domain: Decider) -> Option<Derived> {
    let path = group.domain_path(seen);
    let skip = usize::from(domain == Decider::Ancestor);
    let cgroup = path_up(&path)
        .skip(skip)
        .filter_map(|path| seen.cgroup_at(path))
        .find(|cgroup| !cgroup.ceilings.is_empty())?;
    let pause = group.pauses().last();
    let freerun = pause.map(|(_, throttled)| throttled.pause.freerun_pages() * PAGE);
    let value = cgroup.ceilings.iter().find_map(|line| {
        line.strip_prefix(Knob::DirtyBytes.file_name())?
            .strip_prefix(" = ")?
            .parse()
            .ok()
    });
    let binding = Binding {
        path: cgroup.path.clone(),
        file: if value.is_some() {
            Knob::DirtyBytes.file_name()
        } else {
            Knob::DirtyRatio.file_name()
        },
        value: value.unwrap_or(0),
        used: cgroup.dirty + cgroup.writeback,
    };
    let mut sentences = vec![format!(
        "{} has {}, for all that it and its descendants hold; they hold {}",
        display_path(&cgroup.path),
        cgroup.ceilings.join(" and "),
        format_size(binding.used)
    )];
    sentences.extend(freerun.map(|freerun| {
        format!(
            "writers are held from {} on: half way between the scaled background level and 3/4 of the ceiling, where their pace ends",
            format_size(freerun)
        )
    }));
    Some(Derived {
        sentences,
        limit: value,
        freerun,
        binding: Some(binding),
    })
}

/// Floors that cover a cgroup: its own and those above it, each with what counts against it.
pub fn describe_floors(seen: &Observation, path: &str) -> Vec<String> {
    let covering = path_up(path).filter_map(|path| {
        let cgroup = seen.cgroup_at(path)?;
        let floor = cgroup.dirty_min.filter(|floor| *floor > 0)?;
        let held = cgroup.dirty + cgroup.writeback;
        Some(format!(
            "{} has a floor of {}, for all that it and its descendants hold; they hold {}",
            display_path(path),
            format_size(floor),
            format_size(held)
        ))
    });
    let mut sentences: Vec<String> = covering.collect();
    if let Some(stat) = seen.cgroup_at(path).and_then(|cgroup| cgroup.stat) {
        if !sentences.is_empty() {
            sentences.push(format!(
                "{} of the floor are in effect for {}: weir honours no more of it than fits in memory, below a ceiling and in the host's limit",
                format_size(stat.floor),
                display_path(path)
            ));
        }
    }
    sentences
}

/// The most that a device may hold of the host's limit.
fn device_share(host: u64, device: &Device) -> u64 {
    (u128::from(host) * u128::from(device.max_share()) / 1_000_000) as u64
}

fn derive_device_limit(seen: &Observation, group: &Group) -> Derived {
    let bdi = group.main_device().unwrap_or_default();
    let Some(device) = seen.devices.iter().find(|device| device.bdi == bdi) else {
        return Derived::default();
    };
    let Some((_, throttled)) = group.pauses().last() else {
        return Derived::default();
    };
    let strict = match device.strict {
        Some(true) => "is strict: it is kept to its share even while the host is below its limit",
        _ => "is kept to its share",
    };
    let host = seen
        .limits
        .last()
        .map_or(0, |(_, limits)| limits.thresh * PAGE);
    Derived {
        sentences: vec![
            format!(
                "{} ({}) {strict}",
                device.name(),
                device.filesystem.as_deref().unwrap_or("not mounted")
            ),
            format!(
                "its share is at most {}, max_ratio {} % of the host's {}, at least min_ratio {} %; in between what it wrote of late, against other devices",
                format_size(device_share(host, device)),
                device.max_share() as f64 / 1e4,
                format_size(host),
                device.min_ratio
            ),
            format!(
                "it aimed at {} and held {}",
                format_size(throttled.pause.bdi_setpoint * PAGE),
                format_size(throttled.pause.bdi_dirty * PAGE)
            ),
        ],
        limit: Some(device_share(host, device)),
        freerun: None,
        binding: None,
    }
}
