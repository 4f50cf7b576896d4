// SPDX-License-Identifier: GPL-2.0-only
//! Who owes whom: the time that each cgroup's tasks lost, divided among those who caused it.
//!
//! The same decisions as for a verdict: which domain decided a pause, whose limit that stems from,
//! whether `io.max` is behind it. What differs is that a verdict names one culprit and this divides
//! the time among all, so that the parts add up to what was lost.
//!
//! Rule. Of what is scarce (dirty pages; what was written to the device that an fsync waited for;
//! memory that was taken, for reclaim) each cgroup has a share, and owes in proportion to what it
//! has beyond it. Shares are max-min fair: level by level of the hierarchy what there is goes to all
//! in proportion to their weights (`memory.dirty_weight`, 100 by default), none gets more than it
//! has use for, and what it leaves goes to the others. A floor is a share in any case.
//! What is divided is the level that the kernel leaves alone: of dirty pages the host's background
//! level, and never more than half of what all have together, so that there always is something
//! beyond.
//!
//! Example: the host holds 32 MiB and its background level is 16 MiB. /noisy has 27 MiB, /victim 3,
//! /log 2. Shares are 3 and 2 for the small ones and the rest, 11, for /noisy: only /noisy is beyond
//! its share, by 16 MiB, and owes all of the time, its own included. With 16, 14 and 2 MiB, shares
//! are 7, 7 and 2, and the first two owe it 9 to 7.
//!
//! Pages count for the cgroup that they are charged to, which is who touched them first. Where
//! another one dirties them, the throttle's events tell: it dirties more than ever comes to it.
//! [`Flows`] keeps track of that, and what is beyond counts for that one.

use super::group::{self, Group};
use super::{binding, io_max, limit};
use crate::model::cgroup::{Cgroup, display_path, path_up};
use crate::model::event::Pause;
use crate::model::host::PAGE;
use crate::model::observation::Observation;
use crate::model::stall::StallKind;
use crate::model::target::Target;
use knobs::Knob;
use policy::pause::Decider;
use serde::Serialize;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// Seconds that tasks of one cgroup lost because of one cgroup, which may be the same.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Owed {
    /// The cgroup whose tasks lost them; [`UNKNOWN`] if they ended before that was known.
    pub victim: String,
    /// The cgroup that owes them; [`UNKNOWN`] if that cannot be told.
    pub culprit: String,
    /// The limit that they were lost to.
    pub limit: Limit,
    /// The device, as in `254:0`; empty where none is concerned.
    pub device: String,
    /// Added up over tasks.
    pub seconds: f64,
}

/// Stands for a cgroup that is not known.
pub const UNKNOWN: &str = "unknown";

/// Limit that time was lost to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(into = "&'static str")]
pub enum Limit {
    /// A limit of dirty pages.
    Throttle(Decider),
    /// `io.max`, which keeps pages from being written.
    IoMax,
    /// fsync, or the journal.
    Fsync,
    /// The host's memory: direct reclaim.
    Memory,
    /// `memory.max` or `memory.high`: reclaim for it.
    MemoryLimit,
}

impl Limit {
    /// Every limit, in the order of scrapes.
    pub const ALL: [Limit; 10] = [
        Limit::Throttle(Decider::Host),
        Limit::Throttle(Decider::Cgroup),
        Limit::Throttle(Decider::Ceiling),
        Limit::Throttle(Decider::Ancestor),
        Limit::Throttle(Decider::Device),
        Limit::IoMax,
        Limit::Throttle(Decider::Unknown),
        Limit::Fsync,
        Limit::Memory,
        Limit::MemoryLimit,
    ];

    /// The limit's name as a label.
    pub fn name(self) -> &'static str {
        match self {
            Limit::Throttle(decider) => decider.name(),
            Limit::IoMax => "io_max",
            Limit::Fsync => "fsync",
            Limit::Memory => "memory",
            Limit::MemoryLimit => "memory_limit",
        }
    }
}

impl From<Limit> for &'static str {
    fn from(limit: Limit) -> &'static str {
        limit.name()
    }
}

impl Ord for Limit {
    fn cmp(&self, other: &Limit) -> Ordering {
        let place = |limit| Limit::ALL.iter().position(|other| other == limit);
        place(self).cmp(&place(other))
    }
}

impl PartialOrd for Limit {
    fn partial_cmp(&self, other: &Limit) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Cgroups and what each of them has, for itself.
type BytesByCgroup = BTreeMap<String, f64>;

/// Bytes that cgroups dirtied, and that came to them, of late: it tells whose dirty pages are
/// another's.
#[derive(Clone, Debug, Default)]
pub struct Flows {
    flows: BTreeMap<String, Flow>,
    /// Bytes that went to each device, by cgroup, with all below it.
    written: BTreeMap<(String, String), f64>,
}

/// In bytes; what is long ago counts less.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    /// Dirtied by the cgroup's tasks, as far as they were held for it.
    dirtied: f64,
    /// The cgroup's pages that became dirty, by any task.
    came: f64,
}

impl Flow {
    /// Takes out what is written by now: `part` of what there was is still dirty. Without it a
    /// cgroup that wrote a file once would have made the pages that another dirties there later.
    fn keep_part(&mut self, part: f64) {
        let own = self.dirtied.min(self.came).max(0.0);
        self.dirtied -= own * (1.0 - part);
        self.came *= part;
    }
}

/// After so many seconds a byte counts a third.
const FLOWS: f64 = 20.0;
/// The same of what was written: it is counted when it is sent to the disk, which may have it in its
/// queue for seconds.
const QUEUED: f64 = 5.0;
/// A cgroup dirties others' pages if it dirties so many times what comes to it.
const FOREIGN: f64 = 2.0;
/// Part of a flow below which it says nothing.
const LITTLE: f64 = 0.05;

impl Flows {
    /// Flows of one stretch of time.
    fn from_observation(seen: &Observation) -> Flows {
        let mut flows = Flows::default();
        flows.add_stretch(seen);
        flows
    }

    /// Takes in what was seen.
    pub fn add_stretch(&mut self, seen: &Observation) {
        let fade = (-seen.seconds / FLOWS).exp();
        for flow in self.flows.values_mut() {
            flow.dirtied *= fade;
            flow.came *= fade;
        }
        self.flows
            .retain(|_, flow| flow.dirtied + flow.came.abs() >= PAGE as f64);
        for (path, dirtied) in dirtied_bytes(seen, None) {
            self.flows.entry(path).or_default().dirtied += dirtied;
        }
        let stack = seen.device_stack();
        let came = own_bytes(seen, |cgroup| {
            let grown = cgroup.grown? as f64;
            Some(cgroup.bytes_written(&stack) as f64 + grown)
        });
        for (path, came) in came.into_iter().filter(|(_, came)| *came != 0.0) {
            self.flows.entry(path).or_default().came += came;
        }
        let held = own_bytes(seen, |cgroup| {
            Some((cgroup.dirty + cgroup.writeback) as f64)
        });
        let written = own_bytes(seen, |cgroup| Some(cgroup.bytes_written(&stack) as f64));
        for (path, written) in written.into_iter().filter(|(_, bytes)| *bytes > 0.0) {
            if let Some(flow) = self.flows.get_mut(&path) {
                let held = held.get(&path).map_or(0.0, |bytes| bytes.max(0.0));
                flow.keep_part(held / (held + written));
            }
        }
        let fade = (-seen.seconds / QUEUED).exp();
        self.written.values_mut().for_each(|bytes| *bytes *= fade);
        self.written.retain(|_, bytes| *bytes >= 1.0);
        for cgroup in &seen.cgroups {
            for (device, io) in cgroup.io.iter().filter(|(_, io)| io.written > 0) {
                let key = (cgroup.path.clone(), device.clone());
                *self.written.entry(key).or_default() += io.written as f64;
            }
        }
    }

    /// Moves what cgroups have of others' making to those others. What `seen` says of floors tells
    /// whose writers are never held, so that what they dirty is not known.
    fn settle_foreign(&self, seen: &Observation, has: &mut BytesByCgroup) {
        let outward = |(path, flow): (&String, &Flow)| {
            let beyond = flow.dirtied - flow.came.max(0.0);
            (flow.dirtied > FOREIGN * flow.came.max(0.0)).then(|| (path.clone(), beyond))
        };
        let free = |path: &str| {
            path_up(path).any(|path| {
                seen.cgroup_at(path)
                    .is_some_and(|cgroup| cgroup.dirty_min.unwrap_or(0) > 0)
            })
        };
        let inward = |(path, flow): (&String, &Flow)| {
            let beyond = flow.came - flow.dirtied;
            let counts = beyond > LITTLE * flow.came && !path.is_empty() && !free(path);
            counts.then(|| (path.clone(), beyond, flow.came))
        };
        let outward: Vec<(String, f64)> = self.flows.iter().filter_map(outward).collect();
        let inward: Vec<(String, f64, f64)> = self.flows.iter().filter_map(inward).collect();
        let out: f64 = outward.iter().map(|(_, bytes)| bytes).sum();
        let all: f64 = inward.iter().map(|(_, bytes, _)| bytes).sum();
        if out < LITTLE * all || all <= 0.0 {
            return;
        }
        let part = (out / all).min(1.0);
        for (owner, beyond, came) in inward {
            let Some(had) = has.get_mut(&owner) else {
                continue;
            };
            let moved = *had * (beyond * part / came).min(1.0);
            *had -= moved;
            for (path, bytes) in &outward {
                *has.entry(path.clone()).or_default() += moved * bytes / out;
            }
        }
    }
}

/// Divides what was lost in a stretch of time; `flows` has seen it, and those before.
pub fn divide_losses(seen: &Observation, flows: &Flows) -> Vec<Owed> {
    let mut lost: BTreeMap<(String, String, Limit, String), f64> = BTreeMap::new();
    let parts = Parts { seen, flows };
    let host = parts.host_culprits();
    for group in group::find_groups(seen, &Target::Host) {
        let mut add = |culprits: &BytesByCgroup, limit: Limit, device: &str, seconds: f64| {
            let victim = parts.victim_name(&group);
            let all: f64 = culprits.values().sum();
            for (culprit, part) in culprits {
                let key = (victim.clone(), name(culprit), limit, device.to_string());
                *lost.entry(key).or_default() += seconds * part / all;
            }
        };
        for ((domain, device), seconds) in throttled_seconds(seen, &group) {
            let (culprits, limit) = parts.pause_culprits(&group, domain, &device, &host);
            add(&culprits, limit, &device, seconds);
        }
        let (mut synced, mut reclaimed) = (0.0, [0.0, 0.0]);
        for stall in &group.stalls {
            let seconds = stall.length_ns() as f64 / 1e9;
            match &stall.kind {
                StallKind::Sync => synced += seconds,
                StallKind::Reclaim(of) => reclaimed[usize::from(of.is_for_limit)] += seconds,
                StallKind::Throttle(_) | StallKind::Kswapd(_) => {}
            }
        }
        if synced > 0.0 {
            let device = parts.device_of(&group.path);
            let culprits = parts.sync_culprits(&group.path, &device);
            add(&culprits, Limit::Fsync, &device, synced);
        }
        if reclaimed[0] > 0.0 {
            add(
                &parts.memory_culprits(&group.path, ""),
                Limit::Memory,
                "",
                reclaimed[0],
            );
        }
        if reclaimed[1] > 0.0 {
            let binding = binding::tightest_binding(seen, &group.path);
            let below = binding.map_or_else(|| group.path.clone(), |binding| binding.path);
            add(
                &parts.memory_culprits(&group.path, &below),
                Limit::MemoryLimit,
                "",
                reclaimed[1],
            );
        }
    }
    let owed = lost.into_iter().filter(|(_, seconds)| *seconds > 0.0);
    owed.map(|((victim, culprit, limit, device), seconds)| Owed {
        victim,
        culprit,
        limit,
        device,
        seconds,
    })
    .collect()
}

/// The cgroup that owes most of what the host's limit takes, by what was seen alone; nothing where
/// what cgroups hold is not known.
pub(super) fn largest_host_culprit(seen: &Observation) -> Option<String> {
    let flows = Flows::from_observation(seen);
    let parts = Parts {
        seen,
        flows: &flows,
    };
    largest_culprit(&parts.host_culprits(), None)
}

/// The cgroup other than the victim that owes most of its fsyncs, by what was seen alone.
pub(super) fn largest_sync_culprit(seen: &Observation, victim: &str) -> Option<String> {
    let flows = Flows::from_observation(seen);
    let parts = Parts {
        seen,
        flows: &flows,
    };
    let culprits = parts.sync_culprits(victim, &parts.device_of(victim));
    largest_culprit(&culprits, Some(victim))
}

fn largest_culprit(has: &BytesByCgroup, but: Option<&str>) -> Option<String> {
    let others = has.iter().filter(|(path, _)| but != Some(path.as_str()));
    others
        .max_by(|a, b| a.1.total_cmp(b.1))
        .map(|(path, _)| name(path))
}

/// The cgroup's name as labels have it.
fn name(path: &str) -> String {
    if path == UNKNOWN {
        UNKNOWN.into()
    } else {
        display_path(path)
    }
}

/// Throttled seconds by the domain that decided and the device.
fn throttled_seconds(seen: &Observation, group: &Group) -> BTreeMap<(Decider, String), f64> {
    let mut throttled: BTreeMap<(Decider, String), f64> = BTreeMap::new();
    for (domain, stall, of) in group.pause_decisions(seen) {
        let key = (domain, of.pause.bdi.clone());
        *throttled.entry(key).or_default() += stall.length_ns() as f64 / 1e9;
    }
    throttled
}

/// Bytes that tasks had dirtied at their pauses, by their cgroup; to one device, or any.
fn dirtied_bytes(seen: &Observation, device: Option<&str>) -> BytesByCgroup {
    let mut dirtied = BytesByCgroup::new();
    let mut last: BTreeMap<u32, &Pause> = BTreeMap::new();
    for stall in &seen.stalls {
        let StallKind::Throttle(throttled) = &stall.kind else {
            continue;
        };
        let pause = &throttled.pause;
        let again = last
            .insert(stall.task, pause)
            .map_or(0, |last| last.counted_again_in(pause));
        if device.is_none_or(|device| device == pause.bdi) {
            let pages = pause.dirtied.saturating_sub(again);
            *dirtied
                .entry(memory_cgroup(seen, &group::home_of(seen, stall)))
                .or_default() += (pages * PAGE) as f64;
        }
    }
    dirtied
}

/// The cgroup whose counters a cgroup's pages are in: its own, or those of the first above it that
/// has any.
fn memory_cgroup(seen: &Observation, path: &str) -> String {
    let has = |path: &&str| seen.cgroup_at(path).is_some_and(|cgroup| cgroup.has_memory);
    path_up(path).find(has).unwrap_or(path).to_string()
}

/// Bytes that each cgroup has for itself of what files count with all descendants'.
fn own_bytes(seen: &Observation, of: impl Fn(&Cgroup) -> Option<f64>) -> BytesByCgroup {
    let mut own = BytesByCgroup::new();
    for cgroup in &seen.cgroups {
        *own.entry(cgroup.path.clone()).or_default() += of(cgroup).unwrap_or(0.0);
    }
    for cgroup in &seen.cgroups {
        // The nearest above that was read.
        let above = path_up(&cgroup.path)
            .skip(1)
            .find(|path| own.contains_key(*path));
        if let (Some(above), Some(bytes)) = (above.map(str::to_string), of(cgroup)) {
            *own.entry(above).or_default() -= bytes;
        }
    }
    own
}

struct Parts<'a> {
    seen: &'a Observation,
    flows: &'a Flows,
}

impl Parts<'_> {
    /// A task that ended before its cgroup was asked for has none, or that of its pages.
    fn victim_name(&self, group: &Group) -> String {
        let is_known = group.stalls.iter().any(|stall| {
            self.seen.homes.contains_key(&stall.task)
                || matches!(stall.kind, StallKind::Throttle(_))
        });
        if is_known {
            name(&group.path)
        } else {
            UNKNOWN.into()
        }
    }

    /// Dirty pages of each cgroup.
    fn held_bytes(&self) -> BytesByCgroup {
        let mut held = own_bytes(self.seen, |cgroup| {
            Some((cgroup.dirty + cgroup.writeback) as f64)
        });
        let empty = self.without_own_pages();
        held.retain(|path, bytes| *bytes > 0.0 && !empty.contains(path.as_str()));
        self.flows.settle_foreign(self.seen, &mut held);
        held
    }

    /// Cgroups that hold nothing but what those below them hold: the kernel lets none but the root have
    /// both tasks and cgroups with a memory controller. What is left over when they are subtracted is
    /// of cgroups that are gone, or else no bytes at all: `memory.stat` leaves out up to 64 changes for
    /// each CPU (`MEMCG_CHARGE_BATCH`), of a cgroup below more of the same than of the one above.
    fn without_own_pages(&self) -> BTreeSet<&str> {
        let with_memory = self.seen.cgroups.iter().filter(|below| below.has_memory);
        let mut above: BTreeSet<&str> = with_memory
            .flat_map(|below| path_up(&below.path).skip(1))
            .collect();
        let has_own = |path: &str| {
            let cgroup = self.seen.cgroup_at(path);
            path.is_empty() || cgroup.is_some_and(|cgroup| cgroup.dying > 0)
        };
        above.retain(|path| !has_own(path));
        above
    }

    fn host_culprits(&self) -> BytesByCgroup {
        let background = self
            .seen
            .limits
            .last()
            .map_or(0, |(_, limits)| limits.background * PAGE);
        let mut held = self.held_bytes();
        // What no cgroup below accounts for is of the kernel, or of cgroups that are gone.
        if held.len() > 1 {
            held.remove("");
        }
        self.beyond_share(held, background as f64)
    }

    /// Culprits of pauses that a domain decided, and the limit that they are for.
    fn pause_culprits(
        &self,
        group: &Group,
        domain: Decider,
        device: &str,
        host: &BytesByCgroup,
    ) -> (BytesByCgroup, Limit) {
        if let Some(held) =
            io_max::find_write_limit(self.seen, group, largest_culprit(host, None).as_deref())
        {
            return (self.holders_below(&held.path), Limit::IoMax);
        }
        let own = group.domain_path(self.seen);
        let culprits = match domain {
            Decider::Host => host.clone(),
            Decider::Cgroup | Decider::Ceiling => self.holders_below(&own),
            Decider::Ancestor => match limit::derive_limit(self.seen, group, domain).binding {
                Some(binding) if binding.file.starts_with("memory.dirty") => {
                    self.holders_below(&binding.path)
                }
                Some(binding) => self.usage_culprits(&binding.path, &own),
                None => BytesByCgroup::from([(own, 1.0)]),
            },
            Decider::Device => {
                let half = self.beyond_share(dirtied_bytes(self.seen, Some(device)), f64::INFINITY);
                if half.values().sum::<f64>() > 0.0 {
                    half
                } else {
                    BytesByCgroup::from([(own, 1.0)])
                }
            }
            Decider::Unknown => BytesByCgroup::from([(UNKNOWN.into(), 1.0)]),
        };
        let culprits = if culprits.is_empty() {
            BytesByCgroup::from([(UNKNOWN.into(), 1.0)])
        } else {
            culprits
        };
        (culprits, Limit::Throttle(domain))
    }

    /// Holders of dirty pages at and below a cgroup.
    fn holders_below(&self, path: &str) -> BytesByCgroup {
        self.within_path(self.held_bytes(), path)
    }

    /// Users of memory at and below a cgroup. The page cache of the one that is held takes no room
    /// from it: what could be dirty includes that.
    fn usage_culprits(&self, path: &str, held: &str) -> BytesByCgroup {
        let usage = own_bytes(self.seen, |cgroup| Some(cgroup.current as f64));
        let cache = own_bytes(self.seen, |cgroup| Some(cgroup.file as f64));
        let takes = |(of, bytes): (String, f64)| {
            let is_held = path_up(&of).any(|above| above == held);
            let cache = if is_held {
                cache.get(&of).copied().unwrap_or(0.0)
            } else {
                0.0
            };
            (of, bytes - cache)
        };
        let mut usage: BytesByCgroup = usage.into_iter().map(takes).collect();
        // What is its own is of cgroups that are gone.
        if path != held {
            usage.remove(path);
        }
        let within = self.within_path(usage, path);
        match within.len() {
            1 if within.contains_key(path) && path != held => {
                BytesByCgroup::from([(held.into(), 1.0)])
            }
            _ => within,
        }
    }

    fn within_path(&self, mut has: BytesByCgroup, path: &str) -> BytesByCgroup {
        has.retain(|of, bytes| *bytes > 0.0 && path_up(of).any(|above| above == path));
        if has.is_empty() {
            return BytesByCgroup::from([(path.to_string(), 1.0)]);
        }
        self.beyond_share(has, f64::INFINITY)
    }

    /// The device that most of a cgroup's data went to; the busiest if none did.
    fn device_of(&self, path: &str) -> String {
        let written = &self.flows.written;
        let most = path_up(path)
            .filter(|path| !path.is_empty())
            .find_map(|path| {
                let own = written.iter().filter(|((of, _), _)| of == path);
                own.max_by(|a, b| a.1.total_cmp(b.1))
                    .map(|((_, device), _)| device.clone())
            });
        most.or_else(|| super::drain::busiest_device(self.seen))
            .unwrap_or_default()
    }

    /// Culprits of a wait for fsync: those whose data the device wrote meanwhile.
    fn sync_culprits(&self, victim: &str, device: &str) -> BytesByCgroup {
        let of = |cgroup: &Cgroup| (cgroup.path.clone(), device.to_string());
        let mut written = own_bytes(self.seen, |cgroup| {
            self.flows.written.get(&of(cgroup)).copied()
        });
        // The root's is the journal's, which is written for all.
        written.remove("");
        written.retain(|_, bytes| *bytes > 0.0);
        self.flows.settle_foreign(self.seen, &mut written);
        let culprits = self.beyond_share(written, f64::INFINITY);
        if culprits.is_empty() {
            BytesByCgroup::from([(victim.into(), 1.0)])
        } else {
            culprits
        }
    }

    /// Cgroups for which memory was reclaimed, at and below a cgroup.
    fn memory_culprits(&self, victim: &str, below: &str) -> BytesByCgroup {
        let taken = own_bytes(self.seen, |cgroup| {
            cgroup.allocated.map(|bytes| bytes as f64)
        });
        let is_below = |path: &String| path_up(path).any(|above| above == below);
        let mut taken: BytesByCgroup = taken
            .into_iter()
            .filter(|(path, bytes)| *bytes > 0.0 && is_below(path))
            .collect();
        if taken.len() > 1 {
            taken.remove("");
        }
        if taken.is_empty() {
            return self.usage_culprits(below, victim);
        }
        self.beyond_share(taken, f64::INFINITY)
    }

    /// Bytes that each has beyond its share of `level`, or of half of all if that is less.
    fn beyond_share(&self, has: BytesByCgroup, level: f64) -> BytesByCgroup {
        let all: f64 = has.values().sum();
        let mut tree = ShareTree::default();
        for (path, bytes) in has {
            tree.add(self.seen, &path, bytes);
        }
        let mut beyond = BytesByCgroup::new();
        tree.divide_share("", level.min(all / 2.0), &mut beyond);
        beyond.retain(|_, bytes| *bytes > 0.0);
        beyond
    }
}

/// Bytes of cgroups, with all below them.
#[derive(Default)]
struct ShareTree(BTreeMap<String, ShareNode>);

#[derive(Default)]
struct ShareNode {
    own: f64,
    all: f64,
    weight: f64,
    floor: f64,
    below: BTreeSet<String>,
}

/// Claim to what is divided among several: how much one has use for, what it gets in any case, its
/// weight.
#[derive(Clone, Copy)]
struct Claim {
    demand: f64,
    floor: f64,
    weight: f64,
}

impl ShareTree {
    fn add(&mut self, seen: &Observation, path: &str, bytes: f64) {
        self.node_at(seen, path).own += bytes;
        let mut below: Option<&str> = None;
        for path in path_up(path) {
            let node = self.node_at(seen, path);
            node.all += bytes;
            node.below.extend(below.map(str::to_string));
            below = Some(path);
        }
    }

    fn node_at(&mut self, seen: &Observation, path: &str) -> &mut ShareNode {
        self.0.entry(path.to_string()).or_insert_with(|| {
            let cgroup = seen.cgroup_at(path);
            let weight = cgroup.and_then(|cgroup| cgroup.weight);
            let floor = cgroup.and_then(|cgroup| cgroup.dirty_min);
            ShareNode {
                weight: weight.unwrap_or_else(|| Knob::DirtyWeight.default()) as f64,
                floor: floor.unwrap_or(0) as f64,
                ..ShareNode::default()
            }
        })
    }

    /// Gives `amount` to a cgroup and those below it, and notes what they have beyond that.
    fn divide_share(&self, path: &str, amount: f64, beyond: &mut BytesByCgroup) {
        let Some(node) = self.0.get(path) else { return };
        // Its own pages are as those of one more cgroup below.
        let own = Claim {
            demand: node.own,
            floor: if node.below.is_empty() {
                node.floor
            } else {
                0.0
            },
            weight: Knob::DirtyWeight.default() as f64,
        };
        let below = node.below.iter().filter_map(|path| self.0.get(path));
        let claims: Vec<Claim> = below
            .map(|node| Claim {
                demand: node.all,
                floor: node.floor,
                weight: node.weight,
            })
            .chain([own])
            .collect();
        let shares = fair_shares(amount, &claims);
        for (path, share) in node.below.iter().zip(&shares) {
            self.divide_share(path, *share, beyond);
        }
        if let Some(share) = shares.last() {
            beyond.insert(path.to_string(), (node.own - share).max(0.0));
        }
    }
}

/// Max-min fair shares by weight: those who want less than their part get it, the rest is divided
/// among the others.
fn fair_shares(amount: f64, claims: &[Claim]) -> Vec<f64> {
    let sure: Vec<f64> = claims
        .iter()
        .map(|claim| claim.floor.min(claim.demand))
        .collect();
    let mut left = (amount - sure.iter().sum::<f64>()).max(0.0);
    let wants = |at: usize| claims[at].demand - sure[at];
    let mut order: Vec<usize> = (0..claims.len()).collect();
    order.sort_by(|a, b| {
        let ratio = |at: usize| wants(at) / claims[at].weight.max(1.0);
        ratio(*a).total_cmp(&ratio(*b))
    });
    let mut weights: f64 = claims.iter().map(|claim| claim.weight.max(1.0)).sum();
    let mut shares = sure.clone();
    for at in order {
        let weight = claims[at].weight.max(1.0);
        let share = wants(at).min(left * weight / weights);
        shares[at] += share;
        left -= share;
        weights -= weight;
    }
    shares
}

#[cfg(test)]
mod tests;
