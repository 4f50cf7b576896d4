// SPDX-License-Identifier: GPL-2.0-only
//! What to change: the knob, a value and the command, best first.
//!
//! With weir's module a floor takes one cgroup out of the common throttle, and costs the others no
//! more than the floor. Without it only the host's own knobs are left, which move the limit for
//! all: they are given with what they cost. Values are starting points: a floor is what the cgroup
//! dirties in 30 s (what the kernel lets lie at most), four times that because it was held back
//! while it was measured, at least 16 MiB and at most what a floor may be.

use super::binding::Binding;
use super::command::cgroup_file;
use super::group::Group;
use super::holders::Blame;
use super::io_max::HeldBack;
use super::limit::Derived;
use crate::model::cgroup::{display_path, path_up};
use crate::model::host::PAGE;
use crate::model::observation::Observation;
use crate::model::text::format_size;
use knobs::Knob;
use policy::UNLIMITED;
use policy::floor::{Caps, Pool};
use policy::pause::Decider;
use serde::Serialize;

/// A setting to change.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Remedy {
    /// The file or setting.
    pub knob: String,
    /// The value to write to it.
    pub value: String,
    /// The command to type as root.
    pub command: String,
    /// The effect and the cost.
    pub effect: String,
}

const MIB: u64 = 1 << 20;
/// The host's limit times this is what a file's reader is told to raise it to at most.
const UNSEEN: u64 = 4;

pub(super) fn echo_command(knob: &str, value: &str, file: &str, effect: String) -> Remedy {
    Remedy {
        knob: knob.into(),
        value: value.into(),
        command: format!("echo {value} > {file}"),
        effect,
    }
}

/// Whole MiB, upwards.
pub(super) fn whole_mib(bytes: u64) -> String {
    format!("{}M", bytes.div_ceil(MIB).max(1))
}

/// Remedies for writers in the throttle.
pub fn throttle_remedies(
    seen: &Observation,
    group: &Group,
    domain: Decider,
    derived: &Derived,
    blame: &Blame,
) -> Vec<Remedy> {
    let mut remedies = Vec::new();
    let top = blame.culprit.as_deref();
    match domain {
        // A floor does not help the cgroup that fills the limit: it would fill that too.
        Decider::Host if top == Some(display_path(&group.path).as_str()) => {
            remedies.extend(raise_host_limit(seen, 2.0));
        }
        Decider::Host => {
            remedies.extend(floor_remedy(seen, group));
            let own = display_path(&group.path);
            let most = blame.most.as_deref().filter(|most| *most != own);
            let most = top.or(most.filter(|_| seen.is_live));
            remedies.extend(most.into_iter().flat_map(|most| bound_remedies(seen, most)));
            remedies.extend(raise_host_limit(seen, 2.0));
        }
        Decider::Cgroup => {
            remedies.extend(floor_remedy(seen, group));
            let wanted = wanted_bytes(seen, group);
            remedies.extend(derived.limit.and_then(|limit| {
                raise_host_limit(seen, (wanted as f64 / limit.max(1) as f64).max(2.0))
            }));
            remedies.extend(
                derived
                    .binding
                    .as_ref()
                    .map(|binding| raise_binding(binding, derived, wanted)),
            );
        }
        Decider::Ceiling | Decider::Ancestor => {
            let wanted = wanted_bytes(seen, group);
            remedies.extend(
                derived
                    .binding
                    .as_ref()
                    .map(|binding| raise_binding(binding, derived, wanted)),
            );
            if domain == Decider::Ancestor
                && derived
                    .binding
                    .as_ref()
                    .is_some_and(|binding| binding.file.starts_with("memory.dirty"))
            {
                return remedies;
            }
            remedies.extend(floor_remedy(seen, group));
        }
        Decider::Device => remedies.extend(device_remedies(seen, group)),
        Decider::Unknown => {}
    }
    put_stock_first(seen, remedies)
}

/// On a host without the module, what it has already comes first.
pub(super) fn put_stock_first(seen: &Observation, remedies: Vec<Remedy>) -> Vec<Remedy> {
    if !seen.is_live || seen.weir.is_some() || seen.weir_is_installed {
        return remedies;
    }
    let is_weirs = |remedy: &Remedy| remedy.command.starts_with(LOAD);
    let (weirs, stock): (Vec<_>, Vec<_>) = remedies.into_iter().partition(is_weirs);
    stock.into_iter().chain(weirs).collect()
}

/// Bytes that the cgroup would have dirty if it were let.
pub(super) fn wanted_bytes(seen: &Observation, group: &Group) -> u64 {
    let pages: f64 = group
        .pauses()
        .map(|(_, throttled)| throttled.pause.dirtied as f64)
        .sum();
    let rate = pages * PAGE as f64 / seen.seconds.max(1.0);
    ((rate * 120.0) as u64).max(16 * MIB)
}

/// Returns whether weir's module can be had: it is not there and off.
pub(super) fn can_have_weir(seen: &Observation) -> bool {
    seen.weir.as_deref() != Some("off")
}

/// The command that loads the module.
const LOAD: &str = "weir load && ";

/// The same remedy, after loading the module where that is to be done. A file does not say; its reader
/// knows.
pub(super) fn load_first(seen: &Observation, mut remedy: Remedy) -> Remedy {
    if seen.is_live && seen.weir.is_none() {
        remedy.command = format!("{LOAD}{}", remedy.command);
        if !seen.weir_is_installed {
            remedy.effect += "; needs weir's module, which is not installed for this kernel";
        }
    } else if !seen.is_live && seen.weir.is_none() {
        remedy.effect += "; needs weir's module";
    }
    remedy
}

/// A floor, with weir's module.
pub(super) fn floor_remedy(seen: &Observation, group: &Group) -> Option<Remedy> {
    if !can_have_weir(seen) {
        return None;
    }
    let path = group.domain_path(seen);
    let pool = Pool {
        wanted_total: UNLIMITED,
        host_thresh: seen.limits.last().map_or(UNLIMITED, |(_, l)| l.thresh),
    };
    let caps = |max: u64| Caps {
        wanted: UNLIMITED,
        memory_max: max / PAGE,
        memory_min: 0,
    };
    let stat = seen.cgroup_at(&path).and_then(|cgroup| cgroup.stat);
    let ceiling = stat.and_then(|stat| stat.ceiling);
    let cap = path_up(&path)
        .filter_map(|path| Some(caps(seen.cgroup_at(path)?.max?).capped_floor()))
        .chain(ceiling.map(|bytes| policy::ceiling::writer_limit(bytes / PAGE)))
        .min()
        .unwrap_or(UNLIMITED);
    let others: f64 = seen
        .cgroups
        .iter()
        .filter(|cgroup| cgroup.path != path)
        .filter_map(|cgroup| cgroup.dirty_min)
        .map(|floor| floor as f64)
        .sum();
    let room = pool
        .total_floors()
        .saturating_sub(others as u64 / PAGE)
        .min(cap)
        * PAGE;
    // One that is there already is full, or it would not be throttled.
    let own = seen.cgroup_at(&path).and_then(|cgroup| cgroup.dirty_min);
    let own = own.unwrap_or(0);
    if path.is_empty() || room < MIB {
        return None;
    }
    let bytes = wanted_bytes(seen, group)
        .max(own.saturating_mul(2))
        .min(room)
        / MIB
        * MIB;
    if bytes <= own {
        return None;
    }
    let file = cgroup_file(&path, Knob::DirtyMin.file_name());
    let remedy = echo_command(
        Knob::DirtyMin.file_name(),
        &whole_mib(bytes),
        &file,
        format!(
            "its writers are not throttled while it holds less than {}; the others' limit shrinks by that",
            format_size(bytes)
        ),
    );
    Some(load_first(seen, remedy))
}

/// `memory.high` of a cgroup, in bytes, with which it is held before the host is; nothing for the
/// root.
pub(super) fn stock_bound(seen: &Observation, top: &str) -> Option<u64> {
    let (host, (_, limits)) = (seen.host.as_ref()?, seen.limits.last()?);
    if top == "/" {
        return None;
    }
    // A cgroup's limit is the host's part of what it could have dirty.
    let bytes = ((limits.freerun_pages() * PAGE / 2) as f64 / part_dirty(seen)?) as u64;
    Some(bytes.min(host.memory / 2).max(16 * MIB))
}

/// The part of what could be dirty that may be.
pub(super) fn part_dirty(seen: &Observation) -> Option<f64> {
    let (host, (_, limits)) = (seen.host.as_ref()?, seen.limits.last()?);
    Some(limits.thresh as f64 / host.dirtyable.max(1) as f64)
}

/// Keeps the holder of the pages below the level at which all writers are held: by weir, and by the
/// kernel's own file, which costs it page cache.
pub(super) fn bound_remedies(seen: &Observation, top: &str) -> Vec<Remedy> {
    let Some((_, limits)) = seen.limits.last() else {
        return Vec::new();
    };
    let bytes = (limits.freerun_pages() * PAGE / 2).max(MIB);
    let effect = format!(
        "{top} is held at {} of dirty pages, before the host is; others write on",
        format_size(bytes)
    );
    let high = stock_bound(seen, top).filter(|_| seen.weir.is_none());
    let high = high.and_then(|bytes| high_remedy(seen, top, bytes));
    let both = ceiling_remedy(seen, top, bytes, effect)
        .into_iter()
        .chain(high);
    put_stock_first(seen, both.collect())
}

/// A ceiling of dirty pages, unless there is a lower one; not for the root.
pub(super) fn ceiling_remedy(
    seen: &Observation,
    top: &str,
    bytes: u64,
    effect: String,
) -> Option<Remedy> {
    let own = seen.cgroup_at(top.trim_start_matches('/'));
    let now = own
        .and_then(|cgroup| cgroup.stat)
        .and_then(|stat| stat.ceiling);
    let set = own.into_iter().flat_map(|cgroup| &cgroup.ceilings);
    let set = set.filter_map(|line| line.rsplit_once("bytes = ")?.1.parse::<u64>().ok());
    let lowest = now.into_iter().chain(set).min();
    if !can_have_weir(seen) || top == "/" || lowest.is_some_and(|lowest| lowest <= bytes) {
        return None;
    }
    let file = cgroup_file(top, Knob::DirtyBytes.file_name());
    let remedy = echo_command(
        Knob::DirtyBytes.file_name(),
        &whole_mib(bytes),
        &file,
        effect,
    );
    Some(load_first(seen, remedy))
}

/// `memory.high` of so many bytes.
pub(super) fn high_remedy(seen: &Observation, top: &str, bytes: u64) -> Option<Remedy> {
    let part = part_dirty(seen)?;
    let file = cgroup_file(top, "memory.high");
    Some(echo_command(
        "memory.high",
        &whole_mib(bytes),
        &file,
        format!(
            "{top} may use {} of memory, so its own limit is {} of dirty pages and it is held before the host is; this costs it page cache",
            format_size(bytes),
            format_size((bytes as f64 * part) as u64)
        ),
    ))
}

/// For a FUSE daemon, which dirties pages for all its clients. A `memory.high` of others alone leaves it
/// half of what may be dirty, and they hold more than theirs at times, as the kernel's counts of a
/// cgroup are two seconds old: with the host's limit raised beside it none of that reaches the daemon
/// (docs/experiments/0055-first-contact-fuse.md).
pub(super) fn leave_room(remedies: &mut Vec<Remedy>) {
    let at = |knob: &str| remedies.iter().position(|remedy| remedy.knob == knob);
    let (Some(high), Some(limit)) = (at("memory.high"), at("vm.dirty_bytes")) else {
        return;
    };
    let (bound, raised) = (&remedies[high], &remedies[limit]);
    let both = Remedy {
        command: format!("{} && {}", bound.command, raised.command),
        effect: format!(
            "{}; the daemon writes for all its clients, and has room when others hold more than theirs for a moment; \
             fsync waits for more",
            bound.effect
        ),
        ..bound.clone()
    };
    remedies.insert(high, both);
}

/// The host's setting, for all cgroups.
fn raise_host_limit(seen: &Observation, factor: f64) -> Option<Remedy> {
    let (_, limits) = seen.limits.last()?;
    // More than 40 % of memory dirty makes reclaim wait for the disk. A file does not tell how much
    // there is.
    let most = seen
        .host
        .as_ref()
        .map_or(limits.thresh * PAGE * UNSEEN, |host| {
            host.dirtyable * PAGE / 5 * 2
        });
    let bytes = ((limits.thresh * PAGE) as f64 * factor) as u64;
    let bytes = bytes.min(most).div_ceil(MIB) * MIB;
    if bytes <= limits.thresh * PAGE {
        return None;
    }
    Some(Remedy {
        knob: "vm.dirty_bytes".into(),
        value: bytes.to_string(),
        command: format!("sysctl -w vm.dirty_bytes={bytes}"),
        effect: "all cgroups may hold more; a writer faster than the disk fills that too, and fsync waits for more".into(),
    })
}

/// The limit the cgroup's own stems from.
fn raise_binding(binding: &Binding, derived: &Derived, wanted: u64) -> Remedy {
    let limit = derived.limit.unwrap_or(binding.value).max(1);
    let factor = (wanted as f64 / limit as f64).clamp(2.0, 64.0);
    let file = cgroup_file(&binding.path, binding.file);
    if binding.file == Knob::DirtyRatio.file_name() {
        return echo_command(binding.file, "0", &file, "no ceiling".into());
    }
    let value = whole_mib((binding.value as f64 * factor) as u64);
    let effect = if binding.file == Knob::DirtyBytes.file_name() {
        "all below it may hold more dirty pages".into()
    } else {
        format!(
            "its limit of dirty pages grows with it, from {}",
            format_size(limit)
        )
    };
    echo_command(binding.file, &value, &file, effect)
}

fn device_remedies(seen: &Observation, group: &Group) -> Vec<Remedy> {
    let Some(bdi) = group.main_device() else {
        return Vec::new();
    };
    let Some(device) = seen.devices.iter().find(|device| device.bdi == bdi) else {
        return device_remedies_of_file(&bdi);
    };
    let mut remedies = Vec::new();
    // FUSE asks for strictness itself, and older kernels have no file for it.
    let fuse = device
        .filesystem
        .as_deref()
        .is_some_and(|kind| kind.starts_with("fuse"));
    if device.strict == Some(true) && !fuse {
        let file = format!("/sys/class/bdi/{bdi}/strict_limit");
        remedies.push(echo_command(
            "strict_limit",
            "0",
            &file,
            "the device is held only when the host is at its limit".into(),
        ));
    }
    if device.max_share() < 1_000_000 {
        let file = format!("/sys/class/bdi/{bdi}/max_ratio");
        remedies.push(echo_command(
            "max_ratio",
            "100",
            &file,
            format!(
                "the device may hold as much as it writes of all, instead of {} %",
                device.max_share() as f64 / 1e4
            ),
        ));
    } else {
        let file = format!("/sys/class/bdi/{bdi}/min_ratio");
        remedies.push(echo_command(
            "min_ratio",
            "50",
            &file,
            "the device may hold half of the limit, whatever it wrote of late".into(),
        ));
    }
    remedies
}

/// Remedies for a device that only its number is known of: one without a disk is FUSE's, or a
/// network's, and asks for strictness itself.
fn device_remedies_of_file(bdi: &str) -> Vec<Remedy> {
    let has_disk = !bdi.starts_with("0:");
    let strict = has_disk.then(|| {
        echo_command(
            "strict_limit",
            "0",
            &format!("/sys/class/bdi/{bdi}/strict_limit"),
            "the device is held only when the host is at its limit".into(),
        )
    });
    let ratio = echo_command(
        "max_ratio",
        "100",
        &format!("/sys/class/bdi/{bdi}/max_ratio"),
        "the device may hold as much as it writes of all; FUSE begins with 1 %".into(),
    );
    strict.into_iter().chain([ratio]).collect()
}

/// Remedies for what may not be written or read faster.
pub fn lift_io_max(held: &HeldBack) -> Vec<Remedy> {
    let key = held.line.trim_start_matches("io.max ");
    let key = key.split('=').next().unwrap_or(key);
    let value = format!("{} {key}=max", held.device);
    let file = cgroup_file(&held.path, "io.max");
    vec![Remedy {
        knob: "io.max".into(),
        command: format!("echo '{value}' > {file}"),
        value,
        effect:
            "as fast as the disk can; to share the disk use io.weight, which leaves nothing idle"
                .into(),
    }]
}

/// Commands against stalls in reclaim.
pub fn reclaim_remedies(seen: &Observation, binding: Option<&Binding>) -> Vec<Remedy> {
    let memory = seen.host.as_ref().map_or(u64::MAX, |host| host.memory);
    let Some(binding) = binding.filter(|binding| binding.value < memory) else {
        return Vec::new();
    };
    let value = whole_mib((binding.value.saturating_mul(2)).min(memory));
    let file = cgroup_file(&binding.path, binding.file);
    vec![echo_command(
        binding.file,
        &value,
        &file,
        "its tasks find memory without reclaiming; others have less".into(),
    )]
}
