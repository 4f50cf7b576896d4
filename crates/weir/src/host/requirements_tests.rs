// SPDX-License-Identifier: GPL-2.0-only
//! A healthy machine laid out in files, then broken in one place at a time. That a real one is
//! judged right is tested in guests.

use super::super::doctor::{sum_up, text};
use super::*;
use std::fs;
use std::path::Path;

const RELEASE: &str = "6.12.1-test";

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("has a parent")).expect("made");
    fs::write(path, text).expect("written");
}

fn healthy() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("made");
    let root = dir.path();
    let symbols: String = needs::functions()
        .map(|function| function.name)
        .map(|f| format!("0000000000000000 T {f}\n"))
        .collect();
    let module = format!("lib/modules/{RELEASE}/updates/weir.ko");
    for (path, text) in [
        (
            "sys/fs/cgroup/cgroup.controllers",
            "cpuset cpu io memory pids\n",
        ),
        ("sys/fs/cgroup/cgroup.subtree_control", "memory pids\n"),
        ("sys/fs/cgroup/system.slice/memory.stat", ""),
        ("sys/kernel/btf/vmlinux", "x"),
        ("proc/kallsyms", symbols.as_str()),
        ("sys/kernel/debug/kprobes/enabled", "1\n"),
        ("proc/sys/kernel/ftrace_enabled", "1\n"),
        (
            "sys/kernel/tracing/available_filter_functions",
            "a\nbalance_dirty_pages\ndomain_dirty_limits\ndo_writepages\n",
        ),
        ("proc/sys/kernel/modules_disabled", "0\n"),
        (
            "sys/kernel/security/lockdown",
            "[none] integrity confidentiality\n",
        ),
        ("sys/module/module/parameters/sig_enforce", "N\n"),
        ("proc/cmdline", "root=/dev/vda1 quiet\n"),
        (module.as_str(), "ELF"),
    ] {
        write(root, path, text);
    }
    dir
}

/// As on Debian's 7.3 from boot on.
#[test]
fn that_the_kernel_itself_holds_damon_is_said_and_no_failure() {
    let dir = healthy();
    let enabled = "sys/module/damon_stat/parameters/enabled";
    write(dir.path(), enabled, "Y\n");
    let checks = examine(&System::at(dir.path(), RELEASE));
    assert_eq!(sum_up(&checks), Verdict::Ok);
    let said = text(RELEASE, &checks);
    assert!(
        said.contains("ok    damon           damon_stat holds it"),
        "{said}"
    );
    assert!(said.contains(&format!("-> echo N >/{enabled}")), "{said}");
    write(dir.path(), enabled, "N\n");
    let checks = examine(&System::at(dir.path(), RELEASE));
    assert!(!text(RELEASE, &checks).contains("damon"));
}

#[test]
fn a_healthy_machine_passes() {
    let dir = healthy();
    let checks = examine(&System::at(dir.path(), RELEASE));
    assert_eq!(sum_up(&checks), Verdict::Ok, "{}", text(RELEASE, &checks));
    assert!(text(RELEASE, &checks).ends_with("Linux 6.12.1-test can run weir.\n"));
}

/// Breaks `path` of a healthy machine (`None`: removes it) and expects exactly this complaint and
/// no other.
#[track_caller]
fn broken(path: &str, text: Option<&str>, verdict: Verdict, seen: &str, remedy: &str) {
    let dir = healthy();
    match text {
        Some(text) => write(dir.path(), path, text),
        None => fs::remove_file(dir.path().join(path)).expect("removed"),
    }
    let checks = examine(&System::at(dir.path(), RELEASE));
    let bad: Vec<&Check> = checks.iter().filter(|c| c.verdict != Verdict::Ok).collect();
    assert_eq!(bad.len(), 1, "{bad:#?}");
    assert_eq!(
        (bad[0].verdict, bad[0].seen.as_str(), bad[0].remedy.as_str()),
        (verdict, seen, remedy)
    );
}

#[test]
fn each_requirement_says_why_it_fails_and_what_to_do() {
    use Verdict::{Fail, Unknown};
    broken(
        "sys/fs/cgroup/cgroup.controllers",
        Some("cpu memory\n"),
        Fail,
        "io not on cgroup v2",
        "unmount cgroup v1, remove cgroup_disable= from the kernel command line; CONFIG_MEMCG and CONFIG_BLK_CGROUP",
    );
    broken(
        "sys/fs/cgroup/cgroup.subtree_control",
        Some("pids\n"),
        Fail,
        "memory is not enabled for the cgroups below the root",
        "echo +memory > /sys/fs/cgroup/cgroup.subtree_control",
    );
    broken(
        "sys/fs/cgroup/system.slice/memory.dirty_min",
        Some("0\n"),
        Fail,
        "this kernel has memory.dirty_min of its own",
        "use those: weir leaves a kernel alone that can do it itself",
    );
    broken(
        "sys/kernel/btf/vmlinux",
        None,
        Fail,
        "no /sys/kernel/btf/vmlinux",
        "run a kernel built with CONFIG_DEBUG_INFO_BTF; Debian's are",
    );
    broken(
        "sys/kernel/debug/kprobes/enabled",
        Some("0\n"),
        Fail,
        "switched off",
        "echo 1 > /sys/kernel/debug/kprobes/enabled",
    );
    broken(
        "proc/sys/kernel/ftrace_enabled",
        Some("0\n"),
        Fail,
        "switched off, which silences the hooks",
        "sysctl kernel.ftrace_enabled=1",
    );
    broken(
        "sys/kernel/tracing/available_filter_functions",
        Some("a\ndomain_dirty_limits\ndo_writepages\n"),
        Fail,
        "balance_dirty_pages cannot be traced",
        "boot another kernel, docs/support.md has tested ones, and report this one with its configuration",
    );
    broken(
        "sys/kernel/tracing/available_filter_functions",
        None,
        Unknown,
        "no list of traceable functions to be read in /sys/kernel/tracing",
        "as root: mount -t tracefs none /sys/kernel/tracing",
    );
    broken(
        "proc/sys/kernel/modules_disabled",
        Some("1\n"),
        Fail,
        "kernel.modules_disabled is set, which lasts until a reboot",
        "reboot without setting it",
    );
    broken(
        "sys/kernel/security/lockdown",
        Some("none [integrity] confidentiality\n"),
        Fail,
        "the kernel is in lockdown (integrity), as under Secure Boot, and the installed module is not signed",
        "sign it with a key enrolled by mokutil --import (DKMS does that), or switch Secure Boot off",
    );
    broken(
        "sys/module/module/parameters/sig_enforce",
        Some("Y\n"),
        Fail,
        "module.sig_enforce is on, and the installed module is not signed",
        "sign it with a key enrolled by mokutil --import (DKMS does that), or switch Secure Boot off",
    );
    broken(
        "lib/modules/6.12.1-test/updates/weir.ko",
        None,
        Fail,
        "no weir.ko for this kernel in /lib/modules/6.12.1-test/updates",
        "install weir-dkms and this kernel's headers, or run make install in weir's source tree",
    );
    broken(
        "proc/cmdline",
        Some("quiet weir.off=1\n"),
        Fail,
        "on the kernel command line: the module loads, but does nothing",
        "boot without it",
    );
}

#[test]
fn functions_the_compiler_changed_are_told_apart_from_absent_ones() {
    let symbols: String = needs::functions()
        .map(|function| function.name)
        .filter(|f| *f != "cgroup_rm_cftypes")
        .map(|f| {
            if f == "balance_dirty_pages" {
                "balance_dirty_pages.isra.0"
            } else {
                f
            }
        })
        .map(|f| format!("0000000000000000 T {f}\n"))
        .collect();
    broken(
        "proc/kallsyms",
        Some(&symbols),
        Verdict::Fail,
        "missing: cgroup_rm_cftypes (inlined or not in this kernel), \
         balance_dirty_pages (the compiler made it balance_dirty_pages.isra.0)",
        "boot another kernel, docs/support.md has tested ones, and report this one with its configuration",
    );
}

#[test]
fn ftrace_of_an_old_arm64_kernel_hands_no_arguments_over() {
    let dir = healthy();
    let symbols = fs::read_to_string(dir.path().join("proc/kallsyms")).expect("read");
    let symbols = format!("{symbols}0000000000000000 T ftrace_regs_caller\n");
    write(dir.path(), "proc/kallsyms", &symbols);
    let mut system = System::at(dir.path(), RELEASE);
    assert_eq!(
        sum_up(&examine(&system)),
        Verdict::Ok,
        "x86-64 has the function, too"
    );
    system.machine = "aarch64".into();
    let checks = examine(&system);
    assert_eq!(sum_up(&checks), Verdict::Fail);
    let said = text(RELEASE, &checks);
    assert!(said.contains("FAIL  ftrace args"), "{said}");
    assert!(
        said.contains("-> take a newer kernel, on Debian 12 that of linux-image-6.12-arm64;"),
        "{said}"
    );
}

#[test]
fn a_signed_module_is_left_to_the_kernel() {
    let dir = healthy();
    write(
        dir.path(),
        "sys/module/module/parameters/sig_enforce",
        "Y\n",
    );
    write(
        dir.path(),
        &format!("lib/modules/{RELEASE}/updates/weir.ko"),
        "ELF~Module signature appended~\n",
    );
    assert_eq!(
        sum_up(&examine(&System::at(dir.path(), RELEASE))),
        Verdict::Ok
    );
}

#[test]
fn who_is_not_root_is_told_that_something_may_be_hidden() {
    let dir = healthy();
    let mut system = System::at(dir.path(), RELEASE);
    system.is_root = false;
    assert_eq!(sum_up(&examine(&system)), Verdict::Unknown);
}
