// SPDX-License-Identifier: GPL-2.0-only
//! All that is known of a stretch of time, from a live look or from a file. A file has the events
//! and nothing else; what it lacks stays empty, and the diagnosis has to say so.

use super::bounds::{MOST_BYTES, Plausible, all_at_most, plausible_counts};
use super::cgroup::Cgroup;
use super::event::{Event, Limits, Rate, What};
use super::host::{Device, HostSettings, PressureTotals};
use super::reclaim::Vmscan;
use super::stack::Stack;
use super::stall::{self, Stall};
use super::trace::Trace;
use super::wait::Waits;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Observation of a host, live or from a file.
#[derive(Clone, Debug, Default)]
pub struct Observation {
    /// `true` if it is of the running kernel, not of a file.
    pub is_live: bool,
    /// Length of the observation.
    pub seconds: f64,
    /// Stalls, by their beginning.
    pub stalls: Vec<Stall>,
    /// Names of tasks, by id.
    pub names: BTreeMap<u32, String>,
    /// Events there could have been; without their system.
    pub seen: BTreeSet<String>,
    /// Records the buffer had no room for.
    pub lost: u64,
    /// Notes on what could not be seen, for people.
    pub blind: Vec<String>,
    /// Events as they came: for pictures.
    pub events: Vec<Event>,
    /// The host's limits and pages over time.
    pub limits: Vec<(u64, Limits)>,
    /// The host's pressure over time; in recordings only.
    pub pressure: Vec<(u64, PressureTotals)>,
    /// Bytes that tasks had dirtied since they began, over time; in recordings only.
    pub progress: Vec<(u64, Progress)>,
    /// The last of each device and cgroup.
    pub rates: Vec<Rate>,
    /// Settings of the host.
    pub host: Option<HostSettings>,
    /// At the end, with what happened meanwhile.
    pub cgroups: Vec<Cgroup>,
    /// At the end, with what happened meanwhile.
    pub devices: Vec<Device>,
    /// Cgroup path to what its tasks slept for, from looking at them now and then.
    pub waits: BTreeMap<String, Waits>,
    /// The same, of looks that fell inside of what events reported, which `waits` is without then;
    /// nothing where these are not told apart.
    pub within: Option<BTreeMap<String, Waits>>,
    /// Tasks that serve a FUSE filesystem, of those that stalled.
    pub fuse_daemons: BTreeSet<u32>,
    /// Task to its cgroup's path.
    pub homes: BTreeMap<u32, String>,
    /// Looks at flushers.
    pub flushers: Flushers,
    /// Counters of reclaim meanwhile; only a live look knows.
    pub vmscan: Option<Vmscan>,
    /// State of weir's module, if it is loaded.
    pub weir: Option<String>,
    /// The module's parameter `drain_seconds`.
    pub drain_seconds: u64,
    /// `true` if the module is installed for this kernel, loaded or not.
    pub weir_is_installed: bool,
    /// Host and program of a recording; only recordings have it.
    pub made: Option<Made>,
}

/// Host and program that made a recording; empty where an older weir did not say so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// Release of the kernel, as in `uname -r`.
    pub kernel: String,
    /// Name of the host, as in `uname -n`.
    pub machine: String,
    /// Version of weir.
    pub weir: String,
}

/// Bytes that each of some tasks has dirtied since it began.
pub type Progress = BTreeMap<u32, u64>;

/// Activity of flushers, in numbers of looks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flushers {
    /// Looks at all tasks together.
    pub looks: u64,
    /// Looks that found a flusher running.
    pub ran: u64,
    /// Waiting for the journal.
    pub in_journal: u64,
    /// Waiting for memory.
    #[serde(default)]
    pub in_reclaim: u64,
    /// Looks that found a flusher idle.
    pub idle: u64,
    /// Rounds of looks.
    #[serde(default)]
    pub rounds: u64,
    /// Those of them that found a flusher of this device running.
    #[serde(default)]
    pub ran_for: BTreeMap<String, u64>,
}

impl Observation {
    /// The devices that lie on others.
    pub(crate) fn device_stack(&self) -> Stack {
        Stack::from_devices(&self.devices)
    }

    /// Makes an observation of a trace alone.
    pub fn from_trace(trace: Trace) -> Observation {
        // A sleep that ends with its event began before it, and a pause lasts beyond its own.
        let stalls = stall::find_stalls(&trace);
        let begins = trace.events.iter().take(1).map(|event| event.ns);
        let first = begins.chain(stalls.iter().map(|stall| stall.ns)).min();
        let ends = stalls
            .iter()
            .map(|stall| stall.ns.saturating_add(stall.length_ns()));
        let ends = ends.chain(trace.events.last().map(|event| event.ns));
        let (first, last) = (first.unwrap_or(0), ends.max().unwrap_or(0));
        let mut rates: BTreeMap<(String, u64), Rate> = BTreeMap::new();
        let mut limits = Vec::new();
        for event in &trace.events {
            match &event.what {
                What::Rate(rate) => {
                    rates.insert((rate.bdi.clone(), rate.cgroup), rate.clone());
                }
                What::Limits(now) => limits.push((event.ns, *now)),
                _ => {}
            }
        }
        Observation {
            seconds: (last - first) as f64 / 1e9,
            stalls,
            names: trace.names,
            seen: trace.seen,
            lost: trace.lost,
            blind: trace.damage,
            events: trace.events,
            limits,
            rates: rates.into_values().collect(),
            ..Observation::default()
        }
    }

    /// The first and the last moment of which anything is known.
    pub fn time_span(&self) -> (u64, u64) {
        let times = || {
            let ends = [self.events.first(), self.events.last()];
            let events = ends.into_iter().flatten().map(|event| event.ns);
            events
                .chain(self.limits.iter().map(|(ns, _)| *ns))
                .chain(self.pressure.iter().map(|(ns, _)| *ns))
        };
        (times().min().unwrap_or(0), times().max().unwrap_or(0))
    }

    /// A cgroup by its directory's inode.
    pub fn cgroup_of(&self, inode: u64) -> Option<&Cgroup> {
        self.cgroups.iter().find(|cgroup| cgroup.inode == inode)
    }

    /// A device as people call it, by its number.
    pub fn device_name(&self, bdi: &str) -> String {
        let device = self.devices.iter().find(|device| device.bdi == bdi);
        device.map_or_else(|| bdi.into(), Device::name)
    }

    /// A cgroup by its path.
    pub fn cgroup_at(&self, path: &str) -> Option<&Cgroup> {
        self.cgroups.iter().find(|cgroup| cgroup.path == path)
    }

    /// The name of a task.
    pub fn name_of(&self, task: u32) -> &str {
        self.names.get(&task).map_or("?", String::as_str)
    }
}

impl Plausible for Progress {
    fn is_plausible(&self) -> bool {
        self.values().all(|bytes| *bytes <= MOST_BYTES)
    }
}

impl Plausible for Flushers {
    fn is_plausible(&self) -> bool {
        let Flushers {
            looks,
            ran,
            in_journal,
            in_reclaim,
            idle,
            rounds,
            ref ran_for,
        } = *self;
        plausible_counts([looks, rounds])
            && all_at_most([ran, in_journal, in_reclaim, idle], looks)
            && ran_for.values().all(|ran| *ran <= rounds)
    }
}
