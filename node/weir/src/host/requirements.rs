// SPDX-License-Identifier: GPL-2.0-only
//! Requirements of weir on a kernel and its settings.
//!
//! Each requirement is looked for, none is guessed from a version number. What cannot be seen is
//! said to be unknown rather than taken for granted; the module proves the rest itself when it is
//! loaded.

mod cgroups;
mod hooks;

use super::system::{Content, System};
use nix::errno::Errno;
use serde::Serialize;
use std::path::Path;

pub(super) use cgroups::{BLK_CGROUP, MEMCG};
pub(super) use hooks::{REGS, check_ftrace_arguments, check_names, check_sites};

/// Remedy for a kernel that lacks what weir was made for.
pub(super) const REPORT: &str = "boot another kernel, docs/support.md has tested ones, and report this one with its configuration";

/// Verdict on a requirement, or on all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckVerdict {
    /// The kernel meets it.
    Ok,
    /// The kernel does not meet it.
    Fail,
    /// The kernel does not show whether it meets it.
    Unknown,
}

/// A requirement, and the verdict on it.
#[derive(Debug, Serialize)]
pub struct Check {
    /// Name, in a word or two.
    pub name: &'static str,
    /// The verdict on it.
    pub verdict: CheckVerdict,
    /// The observation that the verdict is from.
    pub seen: String,
    /// The remedy; empty when it is fine.
    pub remedy: String,
}

pub(super) fn ok(name: &'static str, seen: impl Into<String>) -> Check {
    Check {
        name,
        verdict: CheckVerdict::Ok,
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
        verdict: CheckVerdict::Fail,
        seen: seen.into(),
        remedy: remedy.into(),
    }
}

pub(super) fn not_known(
    name: &'static str,
    seen: impl Into<String>,
    remedy: impl Into<String>,
) -> Check {
    Check {
        name,
        verdict: CheckVerdict::Unknown,
        seen: seen.into(),
        remedy: remedy.into(),
    }
}

/// Looks for all of them.
pub(super) fn examine_system(system: &System) -> Vec<Check> {
    let mut checks = vec![
        check_root(system),
        cgroups::check_cgroup2(system),
        cgroups::check_controllers(system),
        cgroups::check_file_names(system),
        check_btf(system),
        hooks::check_functions(system),
        hooks::check_kprobes(system),
        hooks::check_ftrace(system),
        check_ftrace_arguments(system.machine == "aarch64" && has_symbol(system, REGS)),
        hooks::check_ftrace_site(system),
        check_modules_allowed(system),
        check_signatures(system),
        check_installed(system),
        check_switched_off(system),
    ];
    checks.extend(check_damon(system));
    checks
}

/// Only where something is to be said: the kernel itself holds what tiers would tell heat by.
fn check_damon(system: &System) -> Option<Check> {
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

fn check_root(system: &System) -> Check {
    const NAME: &str = "root";
    if system.is_root {
        return ok(NAME, "running as root");
    }
    not_known(
        NAME,
        "not running as root: some of the rest cannot be seen",
        "sudo weir doctor",
    )
}

fn check_btf(system: &System) -> Check {
    const NAME: &str = "BTF";
    if system.path_exists("sys/kernel/btf/vmlinux") {
        return ok(NAME, "/sys/kernel/btf/vmlinux tells the layouts");
    }
    fail(
        NAME,
        "no /sys/kernel/btf/vmlinux",
        "run a kernel built with CONFIG_DEBUG_INFO_BTF; Debian's are",
    )
}

fn has_symbol(system: &System, wanted: &str) -> bool {
    let symbols = system.read_text("proc/kallsyms").unwrap_or_default();
    symbols
        .lines()
        .any(|line| line.split_whitespace().nth(2) == Some(wanted))
}

fn has_word(text: &str, word: &str) -> bool {
    text.split_whitespace().any(|one| one == word)
}

/// A file that may not be read, and what to do about that.
fn check_forbidden(name: &'static str, system: &System, file: &str, why: Errno) -> Check {
    let seen = format!("{file}: {why}");
    if !system.is_root {
        return not_known(name, seen, "sudo weir doctor");
    }
    if lockdown_mode(system) == "confidentiality" {
        return not_known(
            name,
            format!("{seen}: the kernel is in lockdown (confidentiality)"),
            "boot with lockdown=integrity or none: confidentiality forbids tracing, which weir explain, top and record need as well",
        );
    }
    not_known(
        name,
        format!("{seen}, for root too: a rule of a container, of AppArmor or SELinux"),
        "run weir doctor on the host, outside of containers",
    )
}

/// The mode in which the kernel is locked down, `none` if it is not.
pub(super) fn lockdown_mode(system: &System) -> String {
    let modes = system
        .read_text("sys/kernel/security/lockdown")
        .unwrap_or_default();
    let mode = modes
        .split_once('[')
        .and_then(|(_, rest)| rest.split(']').next());
    mode.unwrap_or("none").to_owned()
}

fn check_modules_allowed(system: &System) -> Check {
    const NAME: &str = "modules";
    match system
        .read_text("proc/sys/kernel/modules_disabled")
        .as_deref()
    {
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
fn check_signatures(system: &System) -> Check {
    const NAME: &str = "signatures";
    let mode = lockdown_mode(system);
    let enforced = system
        .read_text("sys/module/module/parameters/sig_enforce")
        .is_some_and(|v| v == "Y");
    let reason = match (mode.as_str(), enforced) {
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
    kernel_image::unpacked_module(path)
        .is_ok_and(|bytes| bytes.ends_with(b"~Module signature appended~\n"))
}

fn check_installed(system: &System) -> Check {
    const NAME: &str = "module";
    if system.path_exists("sys/module/weir") {
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

fn check_switched_off(system: &System) -> Check {
    const NAME: &str = "weir.off";
    let line = system.read_text("proc/cmdline").unwrap_or_default();
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
