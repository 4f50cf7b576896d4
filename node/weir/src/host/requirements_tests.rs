// SPDX-License-Identifier: GPL-2.0-only
//! A healthy machine laid out in files, then broken in one place at a time. That a real one is
//! judged right is tested in guests.

use super::super::doctor::{report_text, worst_verdict};
use super::*;
use policy::needs;
use std::fs;
use std::path::Path;

const RELEASE: &str = "6.12.1-test";

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("has a parent")).expect("made");
    fs::write(path, text).expect("written");
}

fn healthy_machine() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("made");
    let root = dir.path();
    let symbols: String = needs::needed_functions()
        .map(|function| function.name)
        .chain([MEMCG, BLK_CGROUP])
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
    let dir = healthy_machine();
    let enabled = "sys/module/damon_stat/parameters/enabled";
    write(dir.path(), enabled, "Y\n");
    let checks = examine_system(&System::at_root(dir.path(), RELEASE));
    assert_eq!(worst_verdict(&checks), CheckVerdict::Ok);
    let said = report_text(RELEASE, &checks);
    assert!(
        said.contains("ok    damon           damon_stat holds it"),
        "{said}"
    );
    assert!(said.contains(&format!("-> echo N >/{enabled}")), "{said}");
    write(dir.path(), enabled, "N\n");
    let checks = examine_system(&System::at_root(dir.path(), RELEASE));
    assert!(!report_text(RELEASE, &checks).contains("damon"));
}

#[test]
fn a_healthy_machine_passes() {
    let dir = healthy_machine();
    let checks = examine_system(&System::at_root(dir.path(), RELEASE));
    assert_eq!(
        worst_verdict(&checks),
        CheckVerdict::Ok,
        "{}",
        report_text(RELEASE, &checks)
    );
    assert!(report_text(RELEASE, &checks).ends_with("Linux 6.12.1-test can run weir.\n"));
}

/// Breaks `path` of a healthy machine (`None`: removes it) and expects exactly this complaint and
/// no other.
#[track_caller]
fn expect_complaint(
    path: &str,
    text: Option<&str>,
    verdict: CheckVerdict,
    seen: &str,
    remedy: &str,
) {
    let dir = healthy_machine();
    match text {
        Some(text) => write(dir.path(), path, text),
        None => fs::remove_file(dir.path().join(path)).expect("removed"),
    }
    let checks = examine_system(&System::at_root(dir.path(), RELEASE));
    let bad: Vec<&Check> = checks
        .iter()
        .filter(|c| c.verdict != CheckVerdict::Ok)
        .collect();
    assert_eq!(bad.len(), 1, "{bad:#?}");
    assert_eq!(
        (bad[0].verdict, bad[0].seen.as_str(), bad[0].remedy.as_str()),
        (verdict, seen, remedy)
    );
}

#[test]
fn each_requirement_says_why_it_fails_and_what_to_do() {
    use CheckVerdict::{Fail, Unknown};
    expect_complaint(
        "sys/fs/cgroup/cgroup.controllers",
        Some("cpu memory\n"),
        Fail,
        "io is not offered at /sys/fs/cgroup, as in a container",
        "run weir doctor on the host",
    );
    expect_complaint(
        "sys/fs/cgroup/cgroup.subtree_control",
        Some("pids\n"),
        Fail,
        "memory is not enabled for the cgroups below the root",
        "echo +memory > /sys/fs/cgroup/cgroup.subtree_control",
    );
    expect_complaint(
        "sys/fs/cgroup/system.slice/memory.dirty_min",
        Some("0\n"),
        Fail,
        "this kernel has memory.dirty_min of its own",
        "use those: weir leaves a kernel alone that can do it itself",
    );
    expect_complaint(
        "sys/kernel/btf/vmlinux",
        None,
        Fail,
        "no /sys/kernel/btf/vmlinux",
        "run a kernel built with CONFIG_DEBUG_INFO_BTF; Debian's are",
    );
    expect_complaint(
        "sys/kernel/debug/kprobes/enabled",
        Some("0\n"),
        Fail,
        "switched off",
        "echo 1 > /sys/kernel/debug/kprobes/enabled",
    );
    expect_complaint(
        "proc/sys/kernel/ftrace_enabled",
        Some("0\n"),
        Fail,
        "switched off, which silences the hooks",
        "sysctl kernel.ftrace_enabled=1",
    );
    expect_complaint(
        "sys/kernel/tracing/available_filter_functions",
        Some("a\ndomain_dirty_limits\ndo_writepages\n"),
        Fail,
        "balance_dirty_pages cannot be traced",
        "boot another kernel, docs/support.md has tested ones, and report this one with its configuration",
    );
    expect_complaint(
        "sys/kernel/tracing/available_filter_functions",
        None,
        Unknown,
        "tracefs is not mounted at /sys/kernel/tracing (ENOENT)",
        "as root: mount -t tracefs none /sys/kernel/tracing",
    );
    expect_complaint(
        "proc/sys/kernel/modules_disabled",
        Some("1\n"),
        Fail,
        "kernel.modules_disabled is set, which lasts until a reboot",
        "reboot without setting it",
    );
    expect_complaint(
        "sys/kernel/security/lockdown",
        Some("none [integrity] confidentiality\n"),
        Fail,
        "the kernel is in lockdown (integrity), as under Secure Boot, and the installed module is not signed",
        "sign it with a key enrolled by mokutil --import (DKMS does that), or switch Secure Boot off",
    );
    expect_complaint(
        "sys/module/module/parameters/sig_enforce",
        Some("Y\n"),
        Fail,
        "module.sig_enforce is on, and the installed module is not signed",
        "sign it with a key enrolled by mokutil --import (DKMS does that), or switch Secure Boot off",
    );
    expect_complaint(
        "lib/modules/6.12.1-test/updates/weir.ko",
        None,
        Fail,
        "no weir.ko for this kernel in /lib/modules/6.12.1-test/updates",
        "install weir-dkms and this kernel's headers, or run make install in weir's source tree",
    );
    expect_complaint(
        "proc/cmdline",
        Some("quiet weir.off=1\n"),
        Fail,
        "on the kernel command line: the module loads, but does nothing",
        "boot without it",
    );
}

#[test]
fn functions_the_compiler_changed_are_told_apart_from_absent_ones() {
    let symbols: String = needs::needed_functions()
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
    expect_complaint(
        "proc/kallsyms",
        Some(&symbols),
        CheckVerdict::Fail,
        "missing: cgroup_rm_cftypes (inlined or not in this kernel), \
         balance_dirty_pages (the compiler made it balance_dirty_pages.isra.0)",
        "boot another kernel, docs/support.md has tested ones, and report this one with its configuration",
    );
}

#[test]
fn ftrace_of_an_old_arm64_kernel_hands_no_arguments_over() {
    let dir = healthy_machine();
    let symbols = fs::read_to_string(dir.path().join("proc/kallsyms")).expect("read");
    let symbols = format!("{symbols}0000000000000000 T ftrace_regs_caller\n");
    write(dir.path(), "proc/kallsyms", &symbols);
    let mut system = System::at_root(dir.path(), RELEASE);
    assert_eq!(
        worst_verdict(&examine_system(&system)),
        CheckVerdict::Ok,
        "x86-64 has the function, too"
    );
    system.machine = "aarch64".into();
    let checks = examine_system(&system);
    assert_eq!(worst_verdict(&checks), CheckVerdict::Fail);
    let said = report_text(RELEASE, &checks);
    assert!(said.contains("FAIL  ftrace args"), "{said}");
    assert!(
        said.contains("-> take a newer kernel, on Debian 12 that of linux-image-6.12-arm64;"),
        "{said}"
    );
}

#[test]
fn a_signed_module_is_left_to_the_kernel() {
    let dir = healthy_machine();
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
        worst_verdict(&examine_system(&System::at_root(dir.path(), RELEASE))),
        CheckVerdict::Ok
    );
}

#[test]
fn who_is_not_root_is_told_that_something_may_be_hidden() {
    let dir = healthy_machine();
    let mut system = System::at_root(dir.path(), RELEASE);
    system.is_root = false;
    assert_eq!(
        worst_verdict(&examine_system(&system)),
        CheckVerdict::Unknown
    );
}

/// The result of a check on a healthy machine after these files are written, or removed.
fn check_after(name: &str, files: &[(&str, Option<&str>)]) -> (CheckVerdict, String, String) {
    let dir = healthy_machine();
    for (path, text) in files {
        match text {
            Some(text) => write(dir.path(), path, text),
            None => fs::remove_file(dir.path().join(path)).expect("removed"),
        }
    }
    let checks = examine_system(&System::at_root(dir.path(), RELEASE));
    let check = checks.into_iter().find(|check| check.name == name);
    let check = check.expect("a line of this name");
    (check.verdict, check.seen, check.remedy)
}

/// As `/proc/cgroups` has it on v1.
const ON_V1: &str = "#subsys_name\thierarchy\tnum_cgroups\tenabled\n\
                     cpuset\t0\t1\t1\nblkio\t3\t70\t1\nmemory\t5\t80\t1\n";
const UNIFIED: &str =
    "boot with systemd.unified_cgroup_hierarchy=1, where there is no systemd with cgroup_no_v1=all";

/// Container runtimes use the hierarchies of v1: what is mounted over them hides them.
#[test]
fn on_hosts_of_v1_nothing_is_to_be_mounted_over_it() {
    const CONTROLLERS: &str = "sys/fs/cgroup/cgroup.controllers";
    let named = "36 33 0:31 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n\
                 37 33 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
    let hybrid = ("sys/fs/cgroup/unified/cgroup.controllers", Some("\n"));
    for (files, seen) in [
        (
            vec![("proc/cgroups", Some(ON_V1))],
            "not mounted at /sys/fs/cgroup: v1 has blkio, memory",
        ),
        (
            vec![("proc/self/mountinfo", Some(named))],
            "not mounted at /sys/fs/cgroup: v1 has /sys/fs/cgroup/systemd",
        ),
        (
            vec![hybrid, ("proc/cgroups", Some(ON_V1))],
            "only at /sys/fs/cgroup/unified, without the controllers (hybrid mode): v1 has blkio, memory",
        ),
        (
            vec![hybrid],
            "only at /sys/fs/cgroup/unified, without the controllers (hybrid mode)",
        ),
    ] {
        let files = [vec![(CONTROLLERS, None)], files].concat();
        let wanted = (CheckVerdict::Fail, seen.to_owned(), UNIFIED.to_owned());
        assert_eq!(check_after("cgroup v2", &files), wanted);
    }
    // Nothing is there that a mount could hide.
    let (_, seen, remedy) = check_after("cgroup v2", &[(CONTROLLERS, None)]);
    assert_eq!(seen, "not mounted at /sys/fs/cgroup, nor is v1");
    assert_eq!(remedy, "mount -t cgroup2 none /sys/fs/cgroup");
    let filesystems = ("proc/filesystems", Some("nodev\tsysfs\nnodev\ttracefs\n"));
    let (_, seen, _) = check_after("cgroup v2", &[(CONTROLLERS, None), filesystems]);
    assert_eq!(seen, "not in this kernel: built without CONFIG_CGROUPS");
}

#[test]
fn a_controller_that_is_missing_says_why() {
    const CONTROLLERS: &str = "sys/fs/cgroup/cgroup.controllers";
    let without = |function: &str| {
        let dir = healthy_machine();
        let symbols = fs::read_to_string(dir.path().join("proc/kallsyms")).expect("read");
        symbols.replace(&format!(" T {function}\n"), " T other\n")
    };
    let (no_memcg, no_io) = (without(MEMCG), without(BLK_CGROUP));
    for (there, file, text, seen, remedy) in [
        (
            "cpu io\n",
            "proc/kallsyms",
            no_memcg.as_str(),
            "no memory in this kernel: built without CONFIG_MEMCG",
            "run a kernel built with CONFIG_MEMCG",
        ),
        (
            "cpu memory\n",
            "proc/kallsyms",
            no_io.as_str(),
            "no io in this kernel: built without CONFIG_BLK_CGROUP",
            "run a kernel built with CONFIG_BLK_CGROUP",
        ),
        (
            "cpu io\n",
            "proc/cmdline",
            "quiet cgroup_disable=pids,memory\n",
            "memory is switched off by cgroup_disable=memory at boot",
            "take it off the kernel command line, and reboot",
        ),
        (
            "cpu\n",
            "proc/cgroups",
            ON_V1,
            "memory is on a hierarchy of v1; io is on a hierarchy of v1",
            UNIFIED,
        ),
    ] {
        let found = check_after(
            "controllers",
            &[(CONTROLLERS, Some(there)), (file, Some(text))],
        );
        let wanted = (CheckVerdict::Fail, seen.to_owned(), remedy.to_owned());
        assert_eq!(found, wanted);
    }
}

/// Tests run as root, to which no file's mode forbids anything: what lockdown does to tracefs is seen
/// in a guest (`tests/guest/static.sh`).
#[test]
fn a_forbidden_file_is_told_with_its_error_and_by_what() {
    const TRACEFS: &str = "sys/kernel/tracing/available_filter_functions";
    let dir = healthy_machine();
    let file = format!("/{TRACEFS}");
    let mut system = System::at_root(dir.path(), RELEASE);
    let said = |system: &System, why| {
        let check = check_forbidden("probe site", system, &file, why);
        assert_eq!(check.verdict, CheckVerdict::Unknown);
        (check.seen, check.remedy)
    };
    let (seen, remedy) = said(&system, Errno::EACCES);
    let by = "for root too: a rule of a container, of AppArmor or SELinux";
    assert_eq!(seen, format!("{file}: EACCES: Permission denied, {by}"));
    assert_eq!(remedy, "run weir doctor on the host, outside of containers");
    system.is_root = false;
    assert_eq!(said(&system, Errno::EACCES).1, "sudo weir doctor");
    system.is_root = true;
    let locked = "none integrity [confidentiality]\n";
    write(dir.path(), "sys/kernel/security/lockdown", locked);
    let (seen, remedy) = said(&system, Errno::EPERM);
    assert!(
        seen.ends_with(
            "EPERM: Operation not permitted: the kernel is in lockdown (confidentiality)"
        ),
        "{seen}"
    );
    assert!(
        remedy.starts_with("boot with lockdown=integrity"),
        "{remedy}"
    );
}

#[test]
fn a_kernel_without_tracefs_is_told_apart_from_one_that_is_not_mounted() {
    let gone = ("sys/kernel/tracing/available_filter_functions", None);
    let with = |names| check_after("probe site", &[gone, ("proc/filesystems", Some(names))]);
    let (verdict, seen, _) = with("nodev\tsysfs\nnodev\tcgroup2\n");
    assert_eq!(verdict, CheckVerdict::Fail);
    assert_eq!(
        seen,
        "no tracefs in this kernel: built without CONFIG_FTRACE"
    );
    let (verdict, seen, _) = with("nodev\tsysfs\nnodev\ttracefs\n");
    assert_eq!(verdict, CheckVerdict::Unknown);
    assert_eq!(
        seen,
        "tracefs is not mounted at /sys/kernel/tracing (ENOENT)"
    );
}
