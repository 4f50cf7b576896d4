// SPDX-License-Identifier: GPL-2.0-only
//! What a run changes for the whole machine, to be asked about before.

use crate::{LocalHost, disk, has_module, worker};
use runner::disks;
use scenario::executor::Request;
use scenario::model::Arm;
use std::fs;

/// One line for each change that others on this machine notice; it is put back when the run is
/// over.
pub fn list_changes(host: &LocalHost, request: &Request) -> Vec<String> {
    let scenario = request.scenario;
    let mut lines = Vec::new();
    let now = |name: &str| {
        let text = fs::read_to_string(worker::sysctl_file(name)).unwrap_or_default();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    for (name, value) in &scenario.host.sysctl {
        lines.push(format!("{name} = {value} (now {})", now(name)));
    }
    lines.push(format!(
        "vm.dirty_ratio = 100 for moments, when a phase is over and writers still sleep (now {})",
        now("vm.dirty_ratio")
    ));
    lines.push("all filesystems are written back (sync) before phases".into());
    let missing = worker::missing_controllers(scenario);
    if !missing.is_empty() {
        let names: Vec<&str> = missing.iter().map(String::as_str).collect();
        lines.push(format!(
            "cgroup controllers enabled for all cgroups below the root: {}",
            names.join(", ")
        ));
    }
    if request.arms.contains(&Arm::Weir) {
        match &host.module {
            Some(path) if !has_module() => {
                lines.push(format!("arm weir: {} is loaded", path.display()));
            }
            _ => {}
        }
        for (name, value) in &scenario.host.weir {
            lines.push(format!("arm weir: the module's {name} = {value}"));
        }
    }
    for made in scenario
        .disks
        .iter()
        .filter(|disk| !host.disks.contains_key(&disk.name))
    {
        let encrypted = if made.encrypted {
            ", dm-crypt on it"
        } else {
            ""
        };
        lines.push(format!(
            "disk {}: a network block device of this machine's memory ({}, module {}){encrypted}",
            made.name,
            disks::kernel_name(made.filesystem),
            disk::DRIVER
        ));
    }
    lines
}
