// SPDX-License-Identifier: GPL-2.0-only
//! `weir status`: is weir in effect, and for whom.
//!
//! The host's figures are whatever files the module has below /sys/kernel/weir, so that a newer
//! module needs no newer command. The cgroups are those with a knob that is not at its default; the
//! others are not even asked for their statistics, because asking makes the module keep a record of
//! them.

use super::system::System;
use crate::output;
use anyhow::{Context, Result};
use comfy_table::{CellAlignment, Table, presets};
use knobs::Knob;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

/// Show whether weir is in effect, and for which cgroups
///
/// Exit status: 0 in effect or idle, 1 not loaded, switched off or without effect, 2 it cannot be
/// told.
#[derive(clap::Args, Debug)]
pub struct StatusArgs {
    /// One JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Module, parameters and cgroups with knobs.
#[derive(Debug, PartialEq, Serialize)]
struct ModuleStatus {
    loaded: bool,
    /// idle, active, observe, blind, off; `not loaded` without the module.
    state: String,
    /// Files of /sys/kernel/weir.
    host: BTreeMap<String, String>,
    /// Files of /sys/module/weir/parameters.
    parameters: BTreeMap<String, String>,
    cgroups: Vec<CgroupKnobs>,
}

/// A cgroup with a knob set.
#[derive(Debug, PartialEq, Serialize)]
struct CgroupKnobs {
    /// Path below /sys/fs/cgroup.
    path: String,
    /// Texts of all knobs, as they read.
    knobs: BTreeMap<&'static str, String>,
    /// Keys of `memory.dirty_stat`.
    stat: BTreeMap<String, String>,
}

/// Runs the subcommand.
pub fn run(args: &StatusArgs) -> Result<ExitCode> {
    let status = gather_status(&System::this_machine()?)?;
    if args.json {
        output::print_json(&status)?;
    } else {
        output::print(status_text(&status))?;
    }
    let in_effect = matches!(status.state.as_str(), "idle" | "active" | "observe");
    Ok(ExitCode::from(u8::from(!in_effect)))
}

fn gather_status(system: &System) -> Result<ModuleStatus> {
    if !system.path_exists("sys/module/weir") {
        return Ok(ModuleStatus {
            loaded: false,
            state: "not loaded".into(),
            host: BTreeMap::new(),
            parameters: BTreeMap::new(),
            cgroups: Vec::new(),
        });
    }
    let mut host = read_values(&system.full_path("sys/kernel/weir"))?;
    let state = host.remove("state").context(
        "the module is loaded, but has no /sys/kernel/weir/state: it may be loading or unloading, try again",
    )?;
    let parameters = system.full_path("sys/module/weir/parameters");
    let parameters = if parameters.is_dir() {
        read_values(&parameters)?
    } else {
        BTreeMap::new()
    };
    let mut cgroups = Vec::new();
    collect_cgroups(&system.full_path("sys/fs/cgroup"), "", &mut cgroups)?;
    cgroups.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(ModuleStatus {
        loaded: true,
        state,
        host,
        parameters,
        cgroups,
    })
}

/// Every file of a directory with its one value.
fn read_values(dir: &Path) -> Result<BTreeMap<String, String>> {
    let mut values = BTreeMap::new();
    for entry in fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))? {
        let path = entry
            .with_context(|| format!("cannot list {}", dir.display()))?
            .path();
        let Some(name) = path.file_name().and_then(|n| n.to_str()) else {
            continue;
        };
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        values.insert(name.to_string(), text.trim_end().to_string());
    }
    Ok(values)
}

/// Collects the cgroups at and below `dir` that have a knob set. Cgroups come and go: one that is
/// gone is left out.
fn collect_cgroups(dir: &Path, path: &str, found: &mut Vec<CgroupKnobs>) -> Result<()> {
    let read = |file: &str| {
        fs::read_to_string(dir.join(file))
            .ok()
            .map(|t| t.trim_end().to_string())
    };
    let knobs: BTreeMap<&str, String> = Knob::DIRTY
        .into_iter()
        .filter_map(|knob| Some((knob.name(), read(knob.file_name())?)))
        .collect();
    let is_set = |knob: Knob| {
        let value = knobs.get(knob.name());
        value.is_some_and(|value| !knob.is_default(value))
    };
    if Knob::DIRTY.into_iter().any(is_set) {
        let stat = read(knobs::stat_file()).unwrap_or_default();
        let stat = stat.lines().filter_map(|line| line.split_once(' '));
        let stat = stat
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .collect();
        found.push(CgroupKnobs {
            path: path.to_string(),
            knobs,
            stat,
        });
    }
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(why) => return Err(why).with_context(|| format!("cannot list {}", dir.display())),
    };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let name = entry.file_name().to_string_lossy().into_owned();
            let below = if path.is_empty() {
                name
            } else {
                format!("{path}/{name}")
            };
            collect_cgroups(&entry.path(), &below, found)?;
        }
    }
    Ok(())
}

fn status_text(status: &ModuleStatus) -> String {
    let meaning = match status.state.as_str() {
        "not loaded" => "the kernel behaves as stock; `weir load` loads the module",
        "idle" => "no knob is set, the kernel behaves as stock",
        "active" => "in effect",
        "observe" => "counting what it would do, changing nothing",
        "blind" => {
            "knobs are set but hooks have no effect: see `weir doctor`; the kernel behaves as stock"
        }
        "off" => "weir.off is set: nothing is hooked, the kernel behaves as stock",
        _ => "a state this command does not know",
    };
    let mut lines = vec![format!("{}: {meaning}", status.state)];
    lines.extend(
        status
            .host
            .iter()
            .map(|(name, value)| format!("  {name:<22}{}", format_value(name, value))),
    );
    if !status.cgroups.is_empty() {
        lines.push(String::new());
        lines.push(cgroup_table(&status.cgroups));
    }
    lines.join("\n") + "\n"
}

fn cgroup_table(cgroups: &[CgroupKnobs]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header([
        "cgroup",
        Knob::DirtyMin.name(),
        "floor",
        Knob::DirtyBytes.name(),
        Knob::DirtyRatio.name(),
        "ceiling",
        "weight",
        "dirty+wb",
    ]);
    for cgroup in cgroups {
        let knob = |name: &str| {
            cgroup
                .knobs
                .get(name)
                .map_or("-".into(), |v| format_value("_bytes", v))
        };
        let stat = |name: &str| {
            cgroup
                .stat
                .get(name)
                .map_or("-".into(), |v| format_value("_bytes", v))
        };
        let number = |name: &str| cgroup.stat.get(name).and_then(|v| v.parse::<u64>().ok());
        let pages = number("dirty")
            .zip(number("writeback"))
            .map(|(d, w)| (d + w).to_string());
        let ratio = cgroup
            .knobs
            .get(Knob::DirtyRatio.name())
            .map_or("-".into(), |v| format!("{v} %"));
        table.add_row([
            cgroup.path.clone(),
            knob(Knob::DirtyMin.name()),
            stat("floor"),
            knob(Knob::DirtyBytes.name()),
            ratio,
            stat("ceiling"),
            cgroup
                .knobs
                .get(Knob::DirtyWeight.name())
                .cloned()
                .unwrap_or_else(|| "-".into()),
            pages.map_or("-".into(), |v| format_value("_bytes", &v)),
        ]);
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if index > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

/// Bytes as K, M or G where the name says bytes and nothing is lost or a tenth is enough.
fn format_value(name: &str, value: &str) -> String {
    let Some(bytes) = value
        .parse::<u64>()
        .ok()
        .filter(|_| name.ends_with("_bytes"))
    else {
        return value.into();
    };
    for (shift, unit) in [(30, 'G'), (20, 'M'), (10, 'K')] {
        if bytes >= 1 << shift {
            let scaled = bytes as f64 / (1u64 << shift) as f64;
            return if bytes % (1 << shift) == 0 {
                format!("{}{unit}", bytes >> shift)
            } else {
                format!("{scaled:.1}{unit}")
            };
        }
    }
    value.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("has a parent")).expect("made");
        fs::write(path, text).expect("written");
    }

    #[test]
    fn without_the_module() {
        let dir = tempfile::tempdir().expect("made");
        let status = gather_status(&System::at_root(dir.path(), "6.12")).expect("gathered");
        assert_eq!(
            (status.loaded, status.state.as_str()),
            (false, "not loaded")
        );
        assert_eq!(
            status_text(&status),
            "not loaded: the kernel behaves as stock; `weir load` loads the module\n"
        );
    }

    #[test]
    fn cgroups_with_a_knob_set_are_listed_with_what_is_effective() {
        let dir = tempfile::tempdir().expect("made");
        let root = dir.path();
        write(root, "sys/kernel/weir/state", "active\n");
        write(root, "sys/kernel/weir/floors_bytes", "8388608\n");
        write(root, "sys/module/weir/parameters/observe", "N\n");
        for (cgroup, min, bytes, ratio, weight) in [
            ("a.slice", "0", "max", "0", "100"),
            ("a.slice/db", "16777216", "max", "0", "100"),
            ("batch", "0", "100000", "5", "400"),
        ] {
            let cgroup = format!("sys/fs/cgroup/{cgroup}");
            write(root, &format!("{cgroup}/memory.dirty_min"), min);
            write(root, &format!("{cgroup}/memory.dirty_bytes"), bytes);
            write(root, &format!("{cgroup}/memory.dirty_ratio"), ratio);
            write(root, &format!("{cgroup}/memory.dirty_weight"), weight);
            write(
                root,
                &format!("{cgroup}/memory.dirty_stat"),
                "dirty 4096\nwriteback 8192\nfloor 8388608\nceiling max\n",
            );
        }
        let status = gather_status(&System::at_root(root, "6.12")).expect("gathered");
        assert_eq!(status.host["floors_bytes"], "8388608");
        assert_eq!(status.parameters["observe"], "N");
        let expected = "\
active: in effect
  floors_bytes          8M

cgroup      dirty_min  floor  dirty_bytes  dirty_ratio  ceiling  weight  dirty+wb
a.slice/db        16M     8M          max          0 %      max     100       12K
batch               0     8M        97.7K          5 %      max     400       12K
";
        assert_eq!(status_text(&status), expected, "\n{}", status_text(&status));
    }

    #[test]
    fn a_half_unloaded_module_is_an_error() {
        let dir = tempfile::tempdir().expect("made");
        write(dir.path(), "sys/module/weir/x", "");
        fs::create_dir_all(dir.path().join("sys/kernel/weir")).expect("made");
        let why = gather_status(&System::at_root(dir.path(), "6.12"))
            .expect_err("no state")
            .to_string();
        assert!(why.contains("has no /sys/kernel/weir/state"), "{why}");
    }
}
