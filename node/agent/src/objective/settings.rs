// SPDX-License-Identifier: GPL-2.0-only
//! `[[objective]]` of a policy file: what a cgroup's waits should not exceed, and who may be limited
//! for that.
//!
//! ```toml
//! [[objective]]
//! cgroup = "/system.slice/etcd.service"
//! fsync_p99 = "10ms"                 # or fsync_p50, fsync_p999, read_p50, read_p99, read_p999,
//!                                    # io_pressure = "5%", memory_pressure
//! limit = ["/batch.slice", "/system.slice/docker-*.scope"]
//! floor = "1M"                       # no ceiling below that
//! mode = "on"                        # or observe: says what it would set; or off
//! ```

use crate::globs::{self, matches_path};
use crate::limits::Mode;
use config::reader::Table;
use config::units;
use glob::Pattern;
use knobs::PAGE;

/// Keys of the section.
pub const KEYS: &[&str] = &[
    "cgroup",
    "fsync_p50",
    "fsync_p99",
    "fsync_p999",
    "read_p50",
    "read_p99",
    "read_p999",
    "io_pressure",
    "memory_pressure",
    "limit",
    "floor",
    "mode",
];

/// Ceiling in bytes below which a disk cannot do its work.
const FLOOR_BYTES: u64 = 1 << 20;
/// The least that may be given for it.
const LEAST_FLOOR_BYTES: u64 = 64 << 10;

/// The kind of calls that is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// Calls of fsync and the like.
    Fsync,
    /// Reads of disks, from when they are queued.
    Read,
}

/// The measured quantity, and the value that it should not exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Bound on the time of calls: so many of a thousand take no longer than so many nanoseconds.
    Calls {
        /// The kind of calls.
        of: Calls,
        /// Calls of a thousand that keep the bound: 990 for the 99th percentile.
        per_mille: u32,
        /// The longest they should take.
        ns: u64,
    },
    /// Some task waits in no more of the time than so many millionths.
    Pressure {
        /// The cgroup's file that says so.
        file: &'static str,
        /// Millionths of the time.
        ppm: u64,
    },
}

impl Bound {
    /// The bound's name in the policy file.
    pub fn name(&self) -> &'static str {
        match self {
            Bound::Calls { of, per_mille, .. } => {
                let is_it = |call: &&(_, _, _)| (call.1, call.2) == (*of, *per_mille);
                CALLS.iter().find(is_it).map_or("", |call| call.0)
            }
            Bound::Pressure { file, .. } if *file == IO => "io_pressure",
            Bound::Pressure { .. } => "memory_pressure",
        }
    }

    /// Nanoseconds or millionths.
    pub fn numeric_value(&self) -> u64 {
        match self {
            Bound::Calls { ns, .. } => *ns,
            Bound::Pressure { ppm, .. } => *ppm,
        }
    }

    /// The longest wait for what is in a disk's queue that it allows, in microseconds; none if what is
    /// under writeback makes no wait longer. An fsync waits three times, one after the other: for its
    /// data, for the journal's log, and for the record that commits it.
    pub fn wait_us(&self) -> Option<u64> {
        match self {
            Bound::Calls { of, ns, .. } => Some(match of {
                Calls::Fsync => ns / 3_000,
                Calls::Read => ns / 1_000,
            }),
            Bound::Pressure { file, .. } => (*file == IO).then_some(PRESSURE_US),
        }
    }

    /// A measured value and the bound, for people.
    pub fn describe_measured(&self, value: u64) -> String {
        let name = self.name();
        let shown = |value: u64| match self {
            Bound::Calls { .. } if value < 1_000_000 => format!("{} us", value / 1_000),
            Bound::Calls { .. } => format!("{:.1} ms", value as f64 / 1e6),
            Bound::Pressure { .. } => format!("{:.1} %", value as f64 / 1e4),
        };
        let (is, bound) = (shown(value), shown(self.numeric_value()));
        format!("{name} is {is}, bound {bound}")
    }
}

/// Keys of bounds on calls: of a thousand so many.
const CALLS: [(&str, Calls, u32); 6] = [
    ("fsync_p50", Calls::Fsync, 500),
    ("fsync_p99", Calls::Fsync, 990),
    ("fsync_p999", Calls::Fsync, 999),
    ("read_p50", Calls::Read, 500),
    ("read_p99", Calls::Read, 990),
    ("read_p999", Calls::Read, 999),
];

/// Pressure says in what part of the time there are waits, not how long they may be.
const PRESSURE_US: u64 = 50_000;
const IO: &str = "io.pressure";
const MEMORY: &str = "memory.pressure";

/// An objective, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectiveSettings {
    /// Cgroups whose waits are measured.
    cgroups: Vec<Pattern>,
    /// Cgroups that may be limited.
    limit: Vec<Pattern>,
    /// The bound that their waits should not exceed.
    pub bound: Bound,
    /// No ceiling is below so many pages.
    pub floor: u64,
    /// Mode in which ceilings are set.
    pub mode: Mode,
}

impl ObjectiveSettings {
    /// The globs of the cgroups whose waits are measured, as the policy file has them.
    pub fn measured_globs(&self) -> String {
        let globs: Vec<&str> = self.cgroups.iter().map(Pattern::as_str).collect();
        globs.join(" ")
    }

    /// The globs of the cgroups that may be limited.
    pub fn limit_globs(&self) -> &[Pattern] {
        &self.limit
    }

    /// Reads a table; what is wrong is noted with it.
    pub fn read(table: &Table) -> Option<ObjectiveSettings> {
        let cgroups = table
            .required("cgroup", "cgroup = \"/system.slice/etcd.service\"")
            .map(|value| globs::read_patterns(&value));
        let limit = table
            .required("limit", "limit = [\"/batch.slice\"]")
            .map(|value| globs::read_patterns(&value));
        let floor = table.optional("floor").and_then(|value| {
            let bytes = value.parse_with("a size, as in `\"1M\"`", units::parse_size)?;
            if bytes < LEAST_FLOOR_BYTES {
                value.complain("too small for a disk to work with: expected at least `64K`");
            }
            Some(bytes)
        });
        let mode = table
            .optional("mode")
            .and_then(|value| value.parse_with("`on`, `observe` or `off`", Mode::parse));
        Some(ObjectiveSettings {
            bound: read_bound(table)?,
            cgroups: cgroups?,
            limit: limit?,
            floor: floor.unwrap_or(FLOOR_BYTES) / PAGE,
            mode: mode.unwrap_or(Mode::On),
        })
    }

    /// Returns whether the cgroup at `path`, or one above it, is one whose waits are measured.
    pub fn is_within_measured(&self, path: &str) -> bool {
        path_and_ancestors(path)
            .any(|path| self.cgroups.iter().any(|glob| matches_path(glob, path)))
    }

    /// Returns whether it is one of them itself.
    pub fn is_measured(&self, path: &str) -> bool {
        self.cgroups.iter().any(|glob| matches_path(glob, path))
    }

    /// Returns whether the cgroup at `path` may be limited.
    pub fn may_limit(&self, path: &str) -> bool {
        !self.is_within_measured(path) && self.limit.iter().any(|glob| matches_path(glob, path))
    }
}

/// A path and those above it, without the root.
fn path_and_ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| {
        let (parent, _) = path.rsplit_once('/')?;
        Some(parent).filter(|parent| !parent.is_empty())
    })
}

fn read_bound(table: &Table) -> Option<Bound> {
    let calls = CALLS.into_iter().filter_map(|(key, of, per_mille)| {
        let value = table.optional(key)?;
        let ns = value.parse_with("a time, as in `\"10ms\"`", units::parse_nanoseconds);
        if ns == Some(0) {
            value.complain("expected more than 0, as in `10ms`");
        }
        Some(ns.map(|ns| Bound::Calls { of, per_mille, ns }))
    });
    let pressure = [("io_pressure", IO), ("memory_pressure", MEMORY)];
    let pressure = pressure.into_iter().filter_map(|(key, file)| {
        let value = table.optional(key)?;
        let ppm = value.parse_with("a part of the time, as in `\"5%\"`", parse_percent_ppm);
        Some(ppm.map(|ppm| Bound::Pressure { file, ppm }))
    });
    let bounds: Vec<Option<Bound>> = calls.chain(pressure).collect();
    match bounds[..] {
        [bound] => bound,
        [] => {
            table.complain("has no bound: add for example `fsync_p99 = \"10ms\"` or `read_p99`");
            None
        }
        _ => {
            table.complain("has several bounds: write an `[[objective]]` for each");
            None
        }
    }
}

/// Millionths, of a whole number of percent.
fn parse_percent_ppm(text: &str) -> Result<u64, String> {
    let number = text.strip_suffix('%').and_then(|text| text.parse().ok());
    match number {
        Some(percent @ 1..=100u64) => Ok(percent * 10_000),
        _ => Err(format!("`{}`: expected 1% to 100%", text.escape_debug())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Rules;

    fn read(text: &str) -> Result<Vec<ObjectiveSettings>, String> {
        let text = format!("[[objective]]\n{text}");
        let rules = Rules::parse("agent.toml", &text);
        rules
            .map(|rules| rules.objectives)
            .map_err(|problems| problems.to_string())
    }

    const NAMES: &str = "cgroup = \"/db\"\nlimit = [\"/batch\", \"/db/*\", \"/t/*\"]\n";

    #[test]
    fn an_objective_is_read() {
        let all = read(&format!("{NAMES}fsync_p99 = \"10ms\"\n")).expect("valid");
        let [objective] = &all[..] else {
            panic!("{all:?}")
        };
        let bound = Bound::Calls {
            of: Calls::Fsync,
            per_mille: 990,
            ns: 10_000_000,
        };
        assert_eq!(
            (objective.bound, objective.floor, objective.mode),
            (bound, 256, Mode::On)
        );
        let reads = read(&format!("{NAMES}read_p999 = \"500us\"\n")).expect("valid");
        let bound = reads[0].bound;
        assert_eq!(
            (bound.name(), bound.numeric_value()),
            ("read_p999", 500_000)
        );
        assert_eq!(
            bound.describe_measured(1_234_567),
            "read_p999 is 1.2 ms, bound 500 us"
        );
        assert_eq!(bound.wait_us(), Some(500), "an fsync waits three times");
        assert_eq!(objective.bound.wait_us(), Some(3_333));
        assert!(objective.is_within_measured("/db/pod/x") && !objective.is_within_measured("/dbx"));
        let may = |path| objective.may_limit(path);
        assert!(may("/batch") && may("/t/a") && !may("/batch/a") && !may("/db/a"));
        let all = read(&format!(
            "{NAMES}io_pressure = \"5%\"\nmode = \"observe\"\n"
        ));
        assert_eq!(all.expect("valid")[0].bound.numeric_value(), 50_000);
    }

    #[test]
    fn what_was_measured_is_told_with_its_bound() {
        let bound = Bound::Pressure {
            file: IO,
            ppm: 50_000,
        };
        assert_eq!(
            bound.describe_measured(123_456),
            "io_pressure is 12.3 %, bound 5.0 %"
        );
    }

    #[test]
    fn mistakes_are_named() {
        for (text, words) in [
            (NAMES.to_string(), "has no bound"),
            (format!("{NAMES}fsync_p99 = \"0ms\""), "more than 0"),
            (format!("{NAMES}fsync_p99 = \"fast\""), "agent.toml:4"),
            (
                format!("{NAMES}fsync_p99 = \"1s\"\nread_p99 = \"1s\""),
                "several bounds",
            ),
            (
                format!("{NAMES}fsync_p99 = \"1s\"\nio_pressure = \"5%\""),
                "several bounds",
            ),
            (format!("{NAMES}io_pressure = \"0%\""), "1% to 100%"),
            (
                format!("{NAMES}fsync_p99 = \"1s\"\nfloor = \"4K\""),
                "at least `64K`",
            ),
            ("fsync_p99 = \"1s\"".into(), "limit = [\"/batch.slice\"]"),
        ] {
            let why = read(&text).expect_err(&text);
            assert!(why.contains(words), "{why}");
        }
    }
}
