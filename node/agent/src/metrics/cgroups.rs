// SPDX-License-Identifier: GPL-2.0-only
//! What cgroups hold, write and wait for.
//!
//! `memory.stat` makes the kernel add up its counters, which it does every two seconds by itself.
//! `memory.dirty_stat` is read only of cgroups that have a knob set, to bound the number of series.

use crate::family::Family;
use crate::tree::CgroupDir;
use observe::cgroup::Cgroup;
use observe::read::cgroup::{self, Want};
use observe::stack::Stack;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

const CGROUP: &str = "cgroup";

const WANT: Want = Want {
    limits: false,
    usage: false,
    ..Want::ALL
};

struct Table {
    dirty: Family,
    writeback: Family,
    written: Family,
    read: Family,
    pressure: Family,
    floor_wanted: Family,
    floor: Family,
    floor_unused: Family,
    ceiling: Family,
    weight: Family,
    throttled: Family,
    pauses: Family,
    passes: Family,
    admitted: Family,
    held: Family,
    waits: Family,
    waited: Family,
    bandwidth: Family,
    bandwidth_waits: Family,
    bandwidth_waited: Family,
    window: Family,
    window_waits: Family,
    window_waited: Family,
    observed: Family,
}

pub fn cgroup_families(places: &[CgroupDir], stack: &Stack) -> Vec<Family> {
    let mut table = Table::new();
    for place in places {
        table.add(place, stack);
    }
    table.into_families()
}

impl Table {
    fn new() -> Table {
        let gauge = Family::gauge;
        let counter = Family::counter;
        Table {
            dirty: gauge("weir_cgroup_dirty", "Dirty pages, of descendants too.").in_bytes(),
            writeback: gauge(
                "weir_cgroup_writeback",
                "Pages being written, of descendants too.",
            )
            .in_bytes(),
            written: counter(
                "weir_cgroup_written",
                "Written to devices, of descendants too.",
            )
            .in_bytes(),
            read: counter("weir_cgroup_read", "Read from devices, of descendants too.").in_bytes(),
            pressure: counter(
                "weir_cgroup_pressure_waiting",
                "Time in which some task waited for the resource (PSI, some).",
            )
            .in_seconds(),
            floor_wanted: gauge("weir_cgroup_floor_wanted", "The floor as it was written.")
                .in_bytes(),
            floor: gauge("weir_cgroup_floor", "The floor in effect.").in_bytes(),
            floor_unused: gauge(
                "weir_cgroup_floor_unused",
                "The part of its own floor that it does not hold.",
            )
            .in_bytes(),
            ceiling: gauge(
                "weir_cgroup_ceiling",
                "The tightest ceiling in effect, if any.",
            )
            .in_bytes(),
            weight: gauge("weir_cgroup_weight", "The weight as it was written."),
            throttled: counter(
                "weir_cgroup_throttled",
                "Time slept in the throttle, all tasks, by whose limit.",
            )
            .in_seconds(),
            pauses: counter(
                "weir_cgroup_pauses",
                "Times a task was put to sleep, by whose limit.",
            ),
            passes: counter(
                "weir_cgroup_passes",
                "Looks that the throttle took at a task.",
            ),
            admitted: counter(
                "weir_cgroup_floor_admitted_passes",
                "Passes left out because of a floor.",
            ),
            held: counter(
                "weir_cgroup_ceiling_held_passes",
                "Passes above the level that a ceiling makes.",
            ),
            waits: counter(
                "weir_cgroup_weight_waits",
                "Passes that waited for the weight.",
            ),
            waited: counter(
                "weir_cgroup_weight_waited",
                "Time waited for the weight, all tasks.",
            )
            .in_seconds(),
            bandwidth: gauge(
                "weir_cgroup_bandwidth",
                "What it may dirty in a second, as it was written.",
            )
            .in_bytes(),
            bandwidth_waits: counter(
                "weir_cgroup_bandwidth_waits",
                "Passes that waited for a bandwidth, its own or one above.",
            ),
            bandwidth_waited: counter(
                "weir_cgroup_bandwidth_waited",
                "Time waited for a bandwidth, all tasks.",
            )
            .in_seconds(),
            window: gauge(
                "weir_cgroup_window",
                "What its flushers may have under writeback on a device, as it was written.",
            )
            .in_bytes(),
            window_waits: counter(
                "weir_cgroup_window_waits",
                "Times its flushers waited for a window, its own or one above.",
            ),
            window_waited: counter(
                "weir_cgroup_window_waited",
                "Time its flushers waited for a window.",
            )
            .in_seconds(),
            observed: counter(
                "weir_cgroup_observed_passes",
                "What knobs would have done, in observe-only mode.",
            ),
        }
    }

    fn add(&mut self, place: &CgroupDir, stack: &Stack) {
        let seen = cgroup::read_cgroup(&place.directory, WANT);
        let path: Arc<str> = place.path.as_str().into();
        let labels = [(CGROUP, &path)];
        if seen.has_memory {
            self.dirty.add(&labels, seen.dirty);
            self.writeback.add(&labels, seen.writeback);
        }
        if seen.has_io {
            self.written.add(&labels, seen.bytes_written(stack));
            self.read.add(&labels, seen.bytes_read(stack));
        }
        for (resource, waited) in [
            ("cpu", seen.cpu_pressure),
            ("io", seen.io_pressure),
            ("memory", seen.memory_pressure),
        ] {
            if place
                .directory
                .join(format!("{resource}.pressure"))
                .exists()
            {
                let labels = [(CGROUP, &path), ("resource", &resource.into())];
                self.pressure.add(&labels, seconds_from_us(waited));
            }
        }
        self.add_knobs(&place.directory, &path, &seen);
    }

    fn add_knobs(&mut self, directory: &Path, path: &Arc<str>, seen: &Cgroup) {
        let labels = [(CGROUP, path)];
        let floor = seen.dirty_min.filter(|floor| *floor > 0);
        let paces = seen.weight.is_some() || seen.window.is_some() || seen.bandwidth.is_some();
        if floor.is_none() && !paces && seen.ceilings.is_empty() {
            return;
        }
        if let Some(floor) = floor {
            self.floor_wanted.add(&labels, floor);
        }
        if let Some(weight) = seen.weight {
            self.weight.add(&labels, weight);
        }
        if let Some(bandwidth) = seen.bandwidth {
            self.bandwidth.add(&labels, bandwidth);
        }
        if let Some(window) = seen.window {
            self.window.add(&labels, window);
        }
        let Ok(text) = fs::read_to_string(directory.join(knobs::stat_file())) else {
            return;
        };
        let stat = parse_numbers(&text);
        let value = |key: &str| {
            debug_assert!(knobs::stat_keys().iter().any(|of| of.name == key), "{key}");
            stat.get(key).copied()
        };
        for (family, key) in [
            (&mut self.floor, "floor"),
            (&mut self.floor_unused, "floor_unused"),
            (&mut self.ceiling, "ceiling"),
            (&mut self.passes, "nr_passes"),
            (&mut self.admitted, "nr_floor_admitted"),
            (&mut self.held, "nr_ceiling_held"),
            (&mut self.waits, "nr_weight_held"),
            (&mut self.bandwidth_waits, "nr_bandwidth_held"),
            (&mut self.window_waits, "nr_writeback_held"),
        ] {
            if let Some(value) = value(key) {
                family.add(&labels, value);
            }
        }
        for (family, key) in [
            (&mut self.waited, "weight_held_usec"),
            (&mut self.bandwidth_waited, "bandwidth_held_usec"),
            (&mut self.window_waited, "writeback_held_usec"),
        ] {
            if let Some(waited) = value(key) {
                family.add(&labels, seconds_from_us(waited));
            }
        }
        for by in knobs::decider_names() {
            let labels = [(CGROUP, path), ("by", &by.into())];
            if let Some(pauses) = value(&format!("nr_throttled_by_{by}")) {
                self.pauses.add(&labels, pauses);
            }
            if let Some(slept) = value(&format!("throttled_by_{by}_usec")) {
                self.throttled.add(&labels, seconds_from_us(slept));
            }
        }
        for (knob, key) in [
            ("floor", "nr_would_admit"),
            ("ceiling", "nr_would_hold"),
            ("weight", "nr_would_wait"),
        ] {
            if let Some(passes) = value(key) {
                let labels = [(CGROUP, path), ("knob", &knob.into())];
                self.observed.add(&labels, passes);
            }
        }
    }

    fn into_families(self) -> Vec<Family> {
        vec![
            self.dirty,
            self.writeback,
            self.written,
            self.read,
            self.pressure,
            self.floor_wanted,
            self.floor,
            self.floor_unused,
            self.ceiling,
            self.weight,
            self.throttled,
            self.pauses,
            self.passes,
            self.admitted,
            self.held,
            self.waits,
            self.waited,
            self.bandwidth,
            self.bandwidth_waits,
            self.bandwidth_waited,
            self.window,
            self.window_waits,
            self.window_waited,
            self.observed,
        ]
    }
}

/// A flat-keyed file's numbers. What is `max` is none.
fn parse_numbers(text: &str) -> BTreeMap<&str, u64> {
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    pairs
        .filter_map(|(key, value)| Some((key, value.trim().parse().ok()?)))
        .collect()
}

fn seconds_from_us(microseconds: u64) -> f64 {
    microseconds as f64 / 1e6
}
