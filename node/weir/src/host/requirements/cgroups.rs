// SPDX-License-Identifier: GPL-2.0-only
//! cgroup v2 with the controllers that the module's files need.

use super::super::system::System;
use super::{Check, fail, has_symbol, has_word, not_known, ok};
use knobs::Knob;

/// Remedy that brings all controllers to cgroup v2. To mount it over a hierarchy of v1 would hide
/// from container runtimes what they use.
const UNIFIED: &str =
    "boot with systemd.unified_cgroup_hierarchy=1, where there is no systemd with cgroup_no_v1=all";

pub(super) fn check_cgroup2(system: &System) -> Check {
    const NAME: &str = "cgroup v2";
    if system.path_exists("sys/fs/cgroup/cgroup.controllers") {
        return ok(NAME, "mounted at /sys/fs/cgroup");
    }
    let is_hybrid = system.path_exists("sys/fs/cgroup/unified/cgroup.controllers");
    let of_v1 = v1_hierarchies(system);
    if is_hybrid || !of_v1.is_empty() {
        let held = match of_v1.is_empty() {
            true => String::new(),
            false => format!(": v1 has {}", of_v1.join(", ")),
        };
        let seen = match is_hybrid {
            true => "only at /sys/fs/cgroup/unified, without the controllers (hybrid mode)",
            false => "not mounted at /sys/fs/cgroup",
        };
        return fail(NAME, format!("{seen}{held}"), UNIFIED);
    }
    let filesystems = system.read_text("proc/filesystems").unwrap_or_default();
    if !filesystems.is_empty() && !has_word(&filesystems, "cgroup2") {
        return fail(
            NAME,
            "not in this kernel: built without CONFIG_CGROUPS",
            "run a kernel built with CONFIG_CGROUPS, CONFIG_MEMCG and CONFIG_BLK_CGROUP",
        );
    }
    fail(
        NAME,
        "not mounted at /sys/fs/cgroup, nor is v1",
        "mount -t cgroup2 none /sys/fs/cgroup",
    )
}

/// Controllers that v1 has, and the places of its other hierarchies.
fn v1_hierarchies(system: &System) -> Vec<String> {
    let controllers = system.read_text("proc/cgroups").unwrap_or_default();
    let controllers = controllers.lines().filter_map(|line| {
        let (name, rest) = line.split_once('\t')?;
        let hierarchy = rest.split('\t').next()?;
        let is_one = !name.starts_with('#') && hierarchy != "0";
        is_one.then(|| name.to_owned())
    });
    // `ID PARENT DEVICE ROOT PLACE OPTIONS ... - TYPE SOURCE OPTIONS`
    let mounts = system.read_text("proc/self/mountinfo").unwrap_or_default();
    let places = mounts.lines().filter_map(|line| {
        let (mount, filesystem) = line.split_once(" - ")?;
        let (kind, options) = filesystem.split_once(' ')?;
        let is_named = kind == "cgroup" && options.contains("name=");
        is_named.then(|| mount.split(' ').nth(4).map(str::to_owned))?
    });
    controllers.chain(places).collect()
}

/// A controller that the files need, and where it comes from.
struct Controller {
    /// Name in cgroup v2.
    name: &'static str,
    /// Name in v1 and in `/proc/cgroups`.
    name_in_v1: &'static str,
    option: &'static str,
    /// Function that kernels have with the option alone.
    function: &'static str,
}

/// Memory for the files, io because the kernel writes back by cgroup only where both are there.
const CONTROLLERS: [Controller; 2] = [
    Controller {
        name: "memory",
        name_in_v1: "memory",
        option: "CONFIG_MEMCG",
        function: MEMCG,
    },
    Controller {
        name: "io",
        name_in_v1: "blkio",
        option: "CONFIG_BLK_CGROUP",
        function: BLK_CGROUP,
    },
];
/// A function that kernels with CONFIG_MEMCG have.
pub(in crate::host) const MEMCG: &str = "mem_cgroup_from_task";
/// A function that kernels with CONFIG_BLK_CGROUP have.
pub(in crate::host) const BLK_CGROUP: &str = "bio_associate_blkg_from_css";

/// Why cgroup v2 has no such controller, and what to do about it.
fn explain_missing_controller(system: &System, controller: &Controller) -> (String, String) {
    let Controller {
        name,
        name_in_v1,
        option,
        function,
    } = controller;
    let on_v1 = v1_hierarchies(system);
    if on_v1.iter().any(|one| one == name_in_v1) {
        return (format!("{name} is on a hierarchy of v1"), UNIFIED.into());
    }
    let line = system.read_text("proc/cmdline").unwrap_or_default();
    let disabled = line
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("cgroup_disable="))
        .flat_map(|names| names.split(','));
    if let Some(disabled) = disabled
        .into_iter()
        .find(|of| [name, name_in_v1].contains(&of))
    {
        return (
            format!("{name} is switched off by cgroup_disable={disabled} at boot"),
            "take it off the kernel command line, and reboot".into(),
        );
    }
    if system.path_exists("proc/kallsyms") && !has_symbol(system, function) {
        return (
            format!("no {name} in this kernel: built without {option}"),
            format!("run a kernel built with {option}"),
        );
    }
    (
        format!("{name} is not offered at /sys/fs/cgroup, as in a container"),
        "run weir doctor on the host".into(),
    )
}

pub(super) fn check_controllers(system: &System) -> Check {
    const NAME: &str = "controllers";
    let Some(there) = system.read_text("sys/fs/cgroup/cgroup.controllers") else {
        return fail(NAME, "no cgroup v2 to have any", "see cgroup v2 above");
    };
    let missing = CONTROLLERS
        .iter()
        .filter(|controller| !has_word(&there, controller.name))
        .map(|controller| explain_missing_controller(system, controller));
    let (seen, mut remedies): (Vec<String>, Vec<String>) = missing.unzip();
    if !seen.is_empty() {
        remedies.dedup();
        return fail(NAME, seen.join("; "), remedies.join("; "));
    }
    let enabled = system
        .read_text("sys/fs/cgroup/cgroup.subtree_control")
        .unwrap_or_default();
    if !enabled.split_whitespace().any(|c| c == "memory") {
        return fail(
            NAME,
            "memory is not enabled for the cgroups below the root",
            "echo +memory > /sys/fs/cgroup/cgroup.subtree_control",
        );
    }
    ok(
        NAME,
        "memory and io on cgroup v2, memory enabled below the root",
    )
}

/// Checks that the kernel has no files of these names while the module is not loaded.
pub(super) fn check_file_names(system: &System) -> Check {
    const NAME: &str = "file names";
    if system.path_exists("sys/module/weir") {
        return ok(NAME, "weir is loaded, the memory.dirty_* files are its own");
    }
    let dirs = std::fs::read_dir(system.full_path("sys/fs/cgroup"))
        .into_iter()
        .flatten()
        .flatten();
    let mut children = dirs
        .map(|entry| entry.path())
        .filter(|path| path.join("memory.stat").is_file());
    let Some(child) = children.next() else {
        return not_known(
            NAME,
            "no cgroup with a memory controller to look into",
            "create one",
        );
    };
    // The module's files, which a kernel may one day have itself.
    let files = Knob::DIRTY.map(Knob::file_name);
    let taken: Vec<&str> = files
        .into_iter()
        .chain([knobs::stat_file()])
        .filter(|file| child.join(file).exists())
        .collect();
    if taken.is_empty() {
        return ok(NAME, "the kernel has no memory.dirty_* files of its own");
    }
    fail(
        NAME,
        format!("this kernel has {} of its own", taken.join(", ")),
        "use those: weir leaves a kernel alone that can do it itself",
    )
}
