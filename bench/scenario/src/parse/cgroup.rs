// SPDX-License-Identifier: GPL-2.0-only
//! `[cgroup.NAME]`: stock cgroup v2 files for both arms, weir's knobs for arm `weir` only.

use crate::io_max::parse_io_max;
use crate::model::{Cgroup, Disk};
use config::problem::suggest_known;
use config::reader::{Table, Value};
use knobs::Knob;
use std::collections::BTreeMap;

/// cgroup v2 files of the controllers the guest enables that take one value and name no device:
/// what a device's number will be in a guest is not known when a scenario is written.
const FILES: &[&str] = &[
    "cgroup.freeze",
    "cgroup.max.depth",
    "cgroup.max.descendants",
    "cpu.idle",
    "cpu.max",
    "cpu.max.burst",
    "cpu.weight",
    "cpu.weight.nice",
    "io.bfq.weight",
    "io.prio.class",
    "io.weight",
    "memory.high",
    "memory.low",
    "memory.max",
    "memory.min",
    "memory.oom.group",
    "memory.swap.high",
    "memory.swap.max",
    "pids.max",
];

/// Beginnings of the names of weir's own files: the error for a misspelt one names those there are.
const KNOBS: [&str; 3] = ["memory.dirty_", "memory.toptier_", "memory.writeback_"];

/// Keys whose values are checked one by one.
const OTHERS: [&str; 2] = ["copies", "io.max"];

pub(super) fn read_cgroups(root: &Table, disks: &[Disk]) -> BTreeMap<String, Cgroup> {
    let mut cgroups = BTreeMap::new();
    let tables = root
        .optional("cgroup")
        .and_then(|v| v.as_entries("written as `[cgroup.NAME]`"));
    for (path, table) in tables.unwrap_or_default() {
        if let Err(why) = check_path(path) {
            table.complain(why);
        }
        let mut cgroup = Cgroup::default();
        for (file, value) in table
            .as_entries("a table of cgroup files")
            .unwrap_or_default()
        {
            if file == "copies" {
                cgroup.copies = read_copies(&value);
            } else if KNOBS.iter().any(|of| file.starts_with(of)) {
                if let Some(text) = read_knob(file, &value) {
                    cgroup.knobs.insert(file.into(), text);
                }
            } else if file == "io.max" {
                cgroup.files.extend(read_io_max(&value, disks));
            } else if let Some(text) = read_stock_file(file, &value) {
                cgroup.files.insert(file.into(), text);
            }
        }
        cgroups.insert(path.into(), cgroup);
    }
    cgroups
}

/// More cgroups than any host has.
const MOST_COPIES: u64 = 100_000;

fn read_copies(value: &Value) -> Option<u32> {
    match value.as_unsigned("a number of cgroups, as in `1000`")? {
        n @ 1..=MOST_COPIES => u32::try_from(n).ok(),
        n => {
            value.complain(format!("`{n}` copies: 1 to {MOST_COPIES}"));
            None
        }
    }
}

/// `io.max`, if all its disks are there.
fn read_io_max(value: &Value, disks: &[Disk]) -> Option<(String, String)> {
    let text = value.string("limits by disk, as in `\"slow wbps=1M\"`")?;
    let names = || disks.iter().map(|disk| disk.name.as_str());
    match parse_io_max(text) {
        Err(why) => value.complain(why),
        Ok(all) => {
            for limit in all
                .iter()
                .filter(|limit| names().all(|name| name != limit.disk))
            {
                value.complain(format!(
                    "no disk `{}` is defined, {}",
                    limit.disk.escape_debug(),
                    suggest_known(&limit.disk, names())
                ));
            }
            return Some(("io.max".into(), text.into()));
        }
    }
    None
}

fn check_path(path: &str) -> Result<(), String> {
    let part_fits = |part: &str| {
        !part.is_empty()
            && part != "."
            && part != ".."
            && part
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"_-.@".contains(&b))
    };
    if path.split('/').all(part_fits) {
        return Ok(());
    }
    Err(format!(
        "`{}` is not a cgroup's path below the root, as in `victim` or `pod.slice/victim`",
        path.escape_debug()
    ))
}

/// A knob's value as it will be written, after checking that weir would take it.
pub(super) fn read_knob(file: &str, value: &Value) -> Option<String> {
    let text = value.as_scalar()?;
    let Some(knob) = Knob::by_file(file) else {
        value.complain(match file {
            "memory.toptier_min"
            | "memory.toptier_low"
            | "memory.toptier_high"
            | "memory.toptier_max" => {
                format!("`{file}` is read, not written: it follows the limit it is named after")
            }
            _ if file == knobs::stat_file() => {
                format!("`{file}` is read, not written: expectations can use its counters")
            }
            _ => format!(
                "weir has no file `{file}`, {}",
                suggest_known(file, Knob::ALL.map(Knob::file_name))
            ),
        });
        return None;
    };
    match knob.parse(&text) {
        Ok(_) => Some(text),
        Err(why) => {
            value.complain(why.to_string());
            None
        }
    }
}

fn read_stock_file(file: &str, value: &Value) -> Option<String> {
    if FILES.contains(&file) {
        return value.as_scalar();
    }
    value.complain(if ["io.latency", "io.cost.qos", "io.cost.model"].contains(&file) {
        format!("`{file}` wants a device number, which is not known before the guest has booted: throttle the `[[disk]]` instead")
    } else {
        format!("not a cgroup file that can be set here, {}", suggest_known(file, FILES.iter().copied().chain(Knob::ALL.map(Knob::file_name)).chain(OTHERS)))
    });
    None
}
