// SPDX-License-Identifier: GPL-2.0-only
//! What weir's module says of itself in /sys/kernel/weir; see docs/knobs.md.

use crate::family::Family;
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// Words that `state` may have, and the word for a host without the module.
const STATES: [&str; 6] = ["idle", "active", "observe", "blind", "off", "not_loaded"];

/// Name, help, file.
type Row = (&'static str, &'static str, &'static str);

const BYTES: [Row; 5] = [
    (
        "weir_module_limit",
        "The host's limit as the module last saw it.",
        "limit_bytes",
    ),
    (
        "weir_module_limit_in_force",
        "The host's limit for writers that no floor covers.",
        "limit_in_force_bytes",
    ),
    (
        "weir_module_floors_wanted",
        "All floors together, as they were written.",
        "floors_wanted_bytes",
    ),
    (
        "weir_module_floors",
        "All floors together, as they are in effect.",
        "floors_bytes",
    ),
    (
        "weir_module_floors_unused",
        "The part of all floors that no cgroup holds.",
        "unused_bytes",
    ),
];

pub fn module_families(root: &Path) -> Vec<Family> {
    let directory = root.join("sys/kernel/weir");
    let text = |file: &str| {
        fs::read_to_string(directory.join(file))
            .ok()
            .map(|text| text.trim().to_string())
    };
    let number = |file: &str| text(file).and_then(|text| text.parse::<u64>().ok());
    let now = text("state").unwrap_or_else(|| "not_loaded".into());
    let mut state = Family::gauge(
        "weir_module_state",
        "1 for the state that the module is in.",
    );
    for name in STATES {
        state.add(&[("state", &Arc::from(name))], name == now);
    }
    let mut families = vec![state];
    let mut gauge = |family: Family, value: Option<u64>| {
        families.extend(value.map(|value| family.with(value)));
    };
    for (name, help, file) in BYTES {
        gauge(Family::gauge(name, help).in_bytes(), number(file));
    }
    gauge(
        Family::gauge(
            "weir_module_groups",
            "Cgroups that the module keeps a record of.",
        ),
        number("groups"),
    );
    gauge(
        Family::counter(
            "weir_module_missed_decisions",
            "Decisions lost to missed probes.",
        ),
        number("missed"),
    );
    let age = number("beat_age_ms");
    families.extend(age.map(|age| {
        Family::gauge(
            "weir_module_beat_age",
            "Since the module last brought its sums up to date.",
        )
        .in_seconds()
        .with(age as f64 / 1e3)
    }));
    families
}
