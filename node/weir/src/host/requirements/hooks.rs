// SPDX-License-Identifier: GPL-2.0-only
//! Functions of the kernel that the module calls and replaces, and the tracing it does that with.

use super::super::system::{Content, System};
use super::{Check, REPORT, check_forbidden, fail, has_symbol, has_word, not_known, ok};
use policy::needs;
use std::collections::BTreeSet;

pub(super) fn check_functions(system: &System) -> Check {
    const NAME: &str = "functions";
    let symbols = match system.read("proc/kallsyms") {
        Content::Text(text) if !text.is_empty() => text,
        Content::Hidden(why) => return check_forbidden(NAME, system, "/proc/kallsyms", why),
        _ => {
            return fail(
                NAME,
                "no /proc/kallsyms",
                "run a kernel built with CONFIG_KALLSYMS",
            );
        }
    };
    check_names(
        symbols
            .lines()
            .filter_map(|line| line.split_whitespace().nth(2)),
    )
}

/// Are all functions that the module needs among these names of a kernel?
pub(in crate::host) fn check_names<'a>(names: impl Iterator<Item = &'a str>) -> Check {
    const NAME: &str = "functions";
    let names: BTreeSet<&str> = names.collect();
    let missing: Vec<String> = needs::needed_functions()
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
        let all = needs::needed_functions().count();
        return ok(NAME, format!("all {all} the module calls or hooks"));
    }
    fail(NAME, format!("missing: {}", missing.join(", ")), REPORT)
}

pub(super) fn check_kprobes(system: &System) -> Check {
    const NAME: &str = "kprobes";
    match system.read("sys/kernel/debug/kprobes/enabled") {
        Content::Text(text) if text == "1" => ok(NAME, "enabled"),
        Content::Text(_) => fail(
            NAME,
            "switched off",
            "echo 1 > /sys/kernel/debug/kprobes/enabled",
        ),
        Content::Hidden(why) => {
            check_forbidden(NAME, system, "/sys/kernel/debug/kprobes/enabled", why)
        }
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

pub(super) fn check_ftrace(system: &System) -> Check {
    const NAME: &str = "ftrace";
    match system
        .read_text("proc/sys/kernel/ftrace_enabled")
        .as_deref()
    {
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

/// Function of an arm64 kernel whose ftrace hands no arguments over: "arm64: ftrace: move from REGS
/// to ARGS" (6.2) took it away.
pub(in crate::host) const REGS: &str = "ftrace_regs_caller";

/// Does ftrace hand the arguments over? On x86-64 wherever there is BTF.
pub(in crate::host) fn check_ftrace_arguments(lacks_arguments: bool) -> Check {
    const NAME: &str = "ftrace args";
    match lacks_arguments {
        false => ok(NAME, "handed to whom it calls"),
        true => fail(
            NAME,
            "not handed to whom it calls: built without CONFIG_DYNAMIC_FTRACE_WITH_ARGS",
            "take a newer kernel, on Debian 12 that of linux-image-6.12-arm64; arm64 has it since 6.2",
        ),
    }
}

pub(super) fn check_ftrace_site(system: &System) -> Check {
    const NAME: &str = "probe site";
    let mut hidden = None;
    for folder in ["sys/kernel/tracing", "sys/kernel/debug/tracing"] {
        let file = format!("{folder}/available_filter_functions");
        match system.read(&file) {
            Content::Text(list) => {
                let there: BTreeSet<&str> = list.lines().collect();
                return check_sites(|function| there.contains(function));
            }
            Content::Hidden(why) => hidden = hidden.or(Some((format!("/{file}"), why))),
            Content::Missing => {}
        }
    }
    if let Some((file, why)) = hidden {
        return check_forbidden(NAME, system, &file, why);
    }
    let filesystems = system.read_text("proc/filesystems").unwrap_or_default();
    if !filesystems.is_empty() && !has_word(&filesystems, "tracefs") {
        return fail(
            NAME,
            "no tracefs in this kernel: built without CONFIG_FTRACE",
            "run a kernel built with CONFIG_FTRACE and CONFIG_FUNCTION_TRACER",
        );
    }
    not_known(
        NAME,
        "tracefs is not mounted at /sys/kernel/tracing (ENOENT)",
        "as root: mount -t tracefs none /sys/kernel/tracing",
    )
}

/// Can each function that the module replaces be hooked? It calls what it has replaced past the
/// function's ftrace site.
pub(in crate::host) fn check_sites(is_there: impl Fn(&str) -> bool) -> Check {
    const NAME: &str = "probe site";
    let all: Vec<&str> = needs::needed_functions()
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
