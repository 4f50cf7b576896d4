// SPDX-License-Identifier: GPL-2.0-only
//! The kernel that a scenario runs on: its controllers, the module's parameters, commands.

use anyhow::{Context, Result, bail};
use scenario::model::Cgroup;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// Where cgroup v2 is mounted.
pub const CGROUP_ROOT: &str = "/sys/fs/cgroup";

/// Controllers that a scenario's cgroups need: what is measured comes of memory and io, their files
/// of others.
pub fn controllers(cgroups: &BTreeMap<String, Cgroup>) -> BTreeSet<String> {
    let files = cgroups.values().flat_map(|cgroup| cgroup.files.keys());
    files
        .filter_map(|file| file.split_once('.'))
        .map(|(controller, _)| controller)
        .filter(|controller| *controller != "cgroup")
        .chain(["memory", "io"])
        .map(str::to_owned)
        .collect()
}

/// Lets the children of the cgroup at `directory` use these controllers.
///
/// # Errors
/// The kernel's.
pub fn enable(directory: &Path, controllers: &BTreeSet<String>) -> Result<()> {
    let file = directory.join("cgroup.subtree_control");
    let words: Vec<String> = controllers.iter().map(|name| format!("+{name}")).collect();
    let words = words.join(" ");
    std::fs::write(&file, &words)
        .with_context(|| format!("writing `{words}` to {}", file.display()))
}

/// Writes the module's parameters.
pub fn write_parameters(parameters: &BTreeMap<String, String>) -> Result<()> {
    for (name, value) in parameters {
        let file = Path::new("/sys/module/weir/parameters").join(name);
        std::fs::write(&file, value)
            .with_context(|| format!("writing `{value}` to {}", file.display()))?;
    }
    Ok(())
}

/// Runs a command to its end; its output becomes part of the error if it fails.
pub fn run(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .with_context(|| format!("cannot run {name}"))?;
    if !output.status.success() {
        bail!(
            "{name} failed ({}): {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(())
}

/// Release of the running kernel (`uname -r`).
pub fn kernel_release() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease")
        .map(|text| text.trim().to_owned())
        .unwrap_or_else(|error| format!("unknown ({error})"))
}

/// A line of /proc/meminfo, as `MemAvailable:`, in bytes.
pub fn meminfo(key: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}
