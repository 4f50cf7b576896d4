// SPDX-License-Identifier: GPL-2.0-only
//! What weir needs of a kernel and its settings.
//!
//! Each requirement is looked for, none is guessed from a version number. What cannot be seen is
//! said to be unknown rather than taken for granted; the module proves the rest itself when it is
//! loaded.

use super::system::{Content, System};
use knobs::Knob;
use policy::needs;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::Path;

/// What to do about a kernel that lacks what weir was made for.
pub(super) const REPORT: &str = "boot another kernel, docs/support.md has tested ones, and report this one with its configuration";

/// What became of a requirement, or of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    /// The kernel meets it.
    Ok,
    /// The kernel does not meet it.
    Fail,
    /// Whether the kernel meets it cannot be seen.
    Unknown,
}

/// One requirement and whether it is met.
#[derive(Debug, Serialize)]
pub(super) struct Check {
    /// Name, in a word or two.
    pub name: &'static str,
    /// Whether it is met.
    pub verdict: Verdict,
    /// What was seen.
    pub seen: String,
    /// What to do about it; empty when it is fine.
    pub remedy: String,
}

pub(super) fn ok(name: &'static str, seen: impl Into<String>) -> Check {
    Check {
        name,
        verdict: Verdict::Ok,
        seen: seen.into(),
        remedy: String::new(),
    }
}

pub(super) fn fail(
    name: &'static str,
    seen: impl Into<String>,
    remedy: impl Into<String>,
) -> Check {
    Check {
        name,
        verdict: Verdict::Fail,
        seen: seen.into(),
        remedy: remedy.into(),
    }
}

pub(super) fn unknown(
    name: &'static str,
    seen: impl Into<String>,
    remedy: impl Into<String>,
) -> Check {
    Check {
        name,
        verdict: Verdict::Unknown,
        seen: seen.into(),
        remedy: remedy.into(),
    }
}

/// Looks for all of them.
pub(super) fn examine(system: &System) -> Vec<Check> {
    let mut checks = vec![
        root(system),
        cgroup2(system),
        controllers(system),
        own_files(system),
        btf(system),
        functions(system),
        kprobes(system),
        ftrace(system),
        ftrace_arguments(system.machine == "aarch64" && has_symbol(system, REGS)),
        ftrace_site(system),
        modules_allowed(system),
        signatures(system),
        installed(system),
        switched_off(system),
    ];
    checks.extend(damon(system));
    checks
}

/// Only where something is to be said: the kernel itself holds what tiers would tell heat by.
fn damon(system: &System) -> Option<Check> {
    const ENABLED: &str = "sys/module/damon_stat/parameters/enabled";
    match system.read(ENABLED) {
        Content::Text(text) if text.trim() == "Y" => Some(Check {
            remedy: format!("echo N >/{ENABLED}"),
            ..ok(
                "damon",
                "damon_stat holds it: tiers move pages without telling cold from hot",
            )
        }),
        _ => None,
    }
}

fn root(system: &System) -> Check {
    const NAME: &str = "root";
    if system.is_root {
        return ok(NAME, "running as root");
    }
    unknown(
        NAME,
        "not running as root: some of the rest cannot be seen",
        "sudo weir doctor",
    )
}

fn cgroup2(system: &System) -> Check {
    const NAME: &str = "cgroup v2";
    if system.has("sys/fs/cgroup/cgroup.controllers") {
        return ok(NAME, "mounted at /sys/fs/cgroup");
    }
    let remedy =
        "boot with systemd.unified_cgroup_hierarchy=1, or mount -t cgroup2 none /sys/fs/cgroup";
    if system.has("sys/fs/cgroup/unified/cgroup.controllers") {
        return fail(
            NAME,
            "only at /sys/fs/cgroup/unified, without the controllers (hybrid mode)",
            remedy,
        );
    }
    fail(NAME, "not mounted at /sys/fs/cgroup", remedy)
}

/// Memory for the files, io because the kernel writes back by cgroup only where both are there.
fn controllers(system: &System) -> Check {
    const NAME: &str = "controllers";
    let Some(there) = system.text("sys/fs/cgroup/cgroup.controllers") else {
        return fail(NAME, "no cgroup v2 to have any", "see cgroup v2 above");
    };
    let there: BTreeSet<&str> = there.split_whitespace().collect();
    let missing: Vec<&str> = ["memory", "io"]
        .into_iter()
        .filter(|c| !there.contains(c))
        .collect();
    if !missing.is_empty() {
        return fail(
            NAME,
            format!("{} not on cgroup v2", missing.join(" and ")),
            "unmount cgroup v1, remove cgroup_disable= from the kernel command line; CONFIG_MEMCG and CONFIG_BLK_CGROUP",
        );
    }
    let enabled = system
        .text("sys/fs/cgroup/cgroup.subtree_control")
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

/// Whether the kernel has files of these names although the module is not loaded.
fn own_files(system: &System) -> Check {
    const NAME: &str = "file names";
    if system.has("sys/module/weir") {
        return ok(NAME, "weir is loaded, the memory.dirty_* files are its own");
    }
    let dirs = std::fs::read_dir(system.path("sys/fs/cgroup"))
        .into_iter()
        .flatten()
        .flatten();
    let mut children = dirs
        .map(|entry| entry.path())
        .filter(|path| path.join("memory.stat").is_file());
    let Some(child) = children.next() else {
        return unknown(
            NAME,
            "no cgroup with a memory controller to look into",
            "create one",
        );
    };
    // The module's files, which a kernel may one day have itself.
    let files = Knob::DIRTY.map(Knob::file);
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

fn btf(system: &System) -> Check {
    const NAME: &str = "BTF";
    if system.has("sys/kernel/btf/vmlinux") {
        return ok(NAME, "/sys/kernel/btf/vmlinux tells the layouts");
    }
    fail(
        NAME,
        "no /sys/kernel/btf/vmlinux",
        "run a kernel built with CONFIG_DEBUG_INFO_BTF; Debian's are",
    )
}

fn has_symbol(system: &System, wanted: &str) -> bool {
    let symbols = system.text("proc/kallsyms").unwrap_or_default();
    symbols
        .lines()
        .any(|line| line.split_whitespace().nth(2) == Some(wanted))
}

fn functions(system: &System) -> Check {
    const NAME: &str = "functions";
    let symbols = match system.read("proc/kallsyms") {
        Content::Text(text) if !text.is_empty() => text,
        Content::Hidden(why) => {
            return unknown(NAME, format!("/proc/kallsyms: {why}"), "sudo weir doctor");
        }
        _ => {
            return fail(
                NAME,
                "no /proc/kallsyms",
                "run a kernel built with CONFIG_KALLSYMS",
            );
        }
    };
    names(
        symbols
            .lines()
            .filter_map(|line| line.split_whitespace().nth(2)),
    )
}

/// Are all functions that the module needs among these names of a kernel?
pub(super) fn names<'a>(names: impl Iterator<Item = &'a str>) -> Check {
    const NAME: &str = "functions";
    let names: BTreeSet<&str> = names.collect();
    let missing: Vec<String> = needs::functions()
        .map(|function| function.name)
        .filter(|function| !names.contains(function))
        .map(|function| {
            let variant = format!("{function}.");
            match names.iter().find(|name| name.starts_with(&variant)) {
                Some(name) => format!("{function} (the compiler made it {name})"),
                None => format!("{function} (inlined or not in this kernel)"),
            }
        })
        .collect();
    if missing.is_empty() {
        let all = needs::functions().count();
        return ok(NAME, format!("all {all} the module calls or hooks"));
    }
    fail(NAME, format!("missing: {}", missing.join(", ")), REPORT)
}

fn kprobes(system: &System) -> Check {
    const NAME: &str = "kprobes";
    match system.read("sys/kernel/debug/kprobes/enabled") {
        Content::Text(text) if text == "1" => ok(NAME, "enabled"),
        Content::Text(_) => fail(
            NAME,
            "switched off",
            "echo 1 > /sys/kernel/debug/kprobes/enabled",
        ),
        Content::Hidden(why) => unknown(
            NAME,
            format!("/sys/kernel/debug/kprobes/enabled: {why}"),
            "sudo weir doctor",
        ),
        // debugfs, which could switch them off, need not be mounted.
        Content::Missing if has_symbol(system, "register_kprobe") => ok(
            NAME,
            "built in (whether they are switched off, debugfs would say: it is not mounted)",
        ),
        Content::Missing => fail(
            NAME,
            "not in this kernel",
            "run a kernel built with CONFIG_KPROBES",
        ),
    }
}

fn ftrace(system: &System) -> Check {
    const NAME: &str = "ftrace";
    match system.text("proc/sys/kernel/ftrace_enabled").as_deref() {
        Some("1") => ok(NAME, "enabled"),
        Some(_) => fail(
            NAME,
            "switched off, which silences the hooks",
            "sysctl kernel.ftrace_enabled=1",
        ),
        None => fail(
            NAME,
            "not in this kernel",
            "run a kernel built with CONFIG_FUNCTION_TRACER",
        ),
    }
}

/// What an arm64 kernel has whose ftrace hands no arguments over: "arm64: ftrace: move from REGS to
/// ARGS" (6.2) took it away.
pub(super) const REGS: &str = "ftrace_regs_caller";

/// Does ftrace hand the arguments over? On x86-64 wherever there is BTF.
pub(super) fn ftrace_arguments(is_before: bool) -> Check {
    const NAME: &str = "ftrace args";
    match is_before {
        false => ok(NAME, "handed to whom it calls"),
        true => fail(
            NAME,
            "not handed to whom it calls: built without CONFIG_DYNAMIC_FTRACE_WITH_ARGS",
            "take a newer kernel, on Debian 12 that of linux-image-6.12-arm64; arm64 has it since 6.2",
        ),
    }
}

fn ftrace_site(system: &System) -> Check {
    const NAME: &str = "probe site";
    let lists = ["sys/kernel/tracing", "sys/kernel/debug/tracing"];
    let found = lists
        .iter()
        .find_map(|dir| system.text(format!("{dir}/available_filter_functions")));
    let Some(list) = found else {
        return unknown(
            NAME,
            "no list of traceable functions to be read in /sys/kernel/tracing",
            "as root: mount -t tracefs none /sys/kernel/tracing",
        );
    };
    let there: BTreeSet<&str> = list.lines().collect();
    sites(|function| there.contains(function))
}

/// Can each function that the module replaces be hooked? It calls what it has replaced past the
/// function's ftrace site.
pub(super) fn sites(is_there: impl Fn(&str) -> bool) -> Check {
    const NAME: &str = "probe site";
    let all: Vec<&str> = needs::functions()
        .filter(|function| function.how == needs::Use::Hooked)
        .map(|function| function.name)
        .collect();
    let missing: Vec<&str> = all.iter().copied().filter(|name| !is_there(name)).collect();
    if missing.is_empty() {
        return ok(NAME, format!("{} can be traced", all.join(" and ")));
    }
    let missing = missing.join(" and ");
    fail(NAME, format!("{missing} cannot be traced"), REPORT)
}

fn modules_allowed(system: &System) -> Check {
    const NAME: &str = "modules";
    match system.text("proc/sys/kernel/modules_disabled").as_deref() {
        Some("0") => ok(NAME, "can be loaded"),
        Some(_) => fail(
            NAME,
            "kernel.modules_disabled is set, which lasts until a reboot",
            "reboot without setting it",
        ),
        None => fail(
            NAME,
            "not in this kernel",
            "run a kernel built with CONFIG_MODULES",
        ),
    }
}

/// Secure Boot and its like take only modules signed with a key the kernel trusts.
fn signatures(system: &System) -> Check {
    const NAME: &str = "signatures";
    let lockdown = system
        .text("sys/kernel/security/lockdown")
        .unwrap_or_default();
    let mode = lockdown
        .split_once('[')
        .and_then(|(_, rest)| rest.split(']').next())
        .unwrap_or("none");
    let enforced = system
        .text("sys/module/module/parameters/sig_enforce")
        .is_some_and(|v| v == "Y");
    let reason = match (mode, enforced) {
        ("none", false) => {
            return ok(
                NAME,
                "unsigned modules are accepted (no lockdown, no module.sig_enforce)",
            );
        }
        ("none", true) => "module.sig_enforce is on".to_string(),
        (mode, _) => format!("the kernel is in lockdown ({mode}), as under Secure Boot"),
    };
    let signed = system
        .installed_module()
        .is_some_and(|path| is_signed(&path));
    if signed {
        return ok(
            NAME,
            format!("{reason}; the installed module is signed, the kernel judges the key"),
        );
    }
    fail(
        NAME,
        format!("{reason}, and the installed module is not signed"),
        "sign it with a key enrolled by mokutil --import (DKMS does that), or switch Secure Boot off",
    )
}

/// Signed modules end with this; DKMS signs first and compresses afterwards.
fn is_signed(path: &Path) -> bool {
    lab::decompressed(path).is_ok_and(|bytes| bytes.ends_with(b"~Module signature appended~\n"))
}

fn installed(system: &System) -> Check {
    const NAME: &str = "module";
    if system.has("sys/module/weir") {
        return ok(NAME, "weir is loaded");
    }
    let Some(path) = system.installed_module() else {
        return fail(
            NAME,
            format!(
                "no weir.ko for this kernel in /lib/modules/{}/updates",
                system.release
            ),
            "install weir-dkms and this kernel's headers, or run make install in weir's source tree",
        );
    };
    ok(NAME, format!("{} is there", path.display()))
}

fn switched_off(system: &System) -> Check {
    const NAME: &str = "weir.off";
    let line = system.text("proc/cmdline").unwrap_or_default();
    let off = line
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("weir.off"))
        .next_back();
    match off {
        None | Some("=0" | "=n" | "=N" | "=off") => ok(NAME, "not on the kernel command line"),
        Some(_) => fail(
            NAME,
            "on the kernel command line: the module loads, but does nothing",
            "boot without it",
        ),
    }
}

#[cfg(test)]
#[path = "requirements_tests.rs"]
mod tests;
