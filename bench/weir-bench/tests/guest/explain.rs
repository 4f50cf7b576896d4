// SPDX-License-Identifier: GPL-2.0-only
//! `weir explain` on stock kernels: stalls staged in guests, explained, and removed by typing what
//! it prints; and the same from a file that trace-cmd wrote. `make stalls` runs those that are
//! ignored here: every stall on both kernels, with and without the module.

use crate::common;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// What tests that have stalls explained share, and where it is in the guest.
const VERDICT: &str = "bench/weir-bench/tests/guest/verdict.sh:/verdict.sh";

fn passes(kernel: &str, script: &str, options: &[&str], stalls: &[&str]) {
    let tap = format!("{ROOT}/kmod/tests/tap.sh:/tap.sh");
    let script = format!("{ROOT}/bench/weir-bench/tests/guest/{script}");
    let mut args = vec![
        "--kernel",
        kernel,
        "--memory",
        "1G",
        "--disk",
        "d=1G,ext4,1M/s",
        "--file",
        &tap,
    ];
    args.extend_from_slice(options);
    args.push(&script);
    args.extend_from_slice(stalls);
    common::passes(&args);
}

/// A lone writer's pauses against fio and PSI, on one CPU: with more, PSI weighs what it counts.
fn slept(kernel: &str, module: &[&str]) {
    let tap = format!("{ROOT}/kmod/tests/tap.sh:/tap.sh");
    let script = format!("{ROOT}/bench/weir-bench/tests/guest/slept.sh");
    let mut args = vec!["--kernel", kernel, "--memory", "1G", "--cpus", "1"];
    args.extend(["--disk", "d=1G,ext4,1M/s", "--file", &tap]);
    args.extend_from_slice(module);
    args.push(&script);
    common::passes(&args);
}

#[test]
#[ignore = "six minutes"]
fn what_was_slept_is_what_fio_and_psi_say() {
    for kernel in ["debian:6.12", "debian:6.1"] {
        slept(kernel, &["--no-module"]);
        slept(kernel, &["--env", "MODULE=y"]);
    }
}

/// One CPU and a clock of its own: another job on the machine changes nothing.
const COUNTED: &[&str] = &["--count-instructions", "--cpus", "1"];

/// Every stall that can be staged on every kernel.
const STALLS: &[&str] = &["host", "cgroup", "ancestor", "iomax", "fsync", "reads"];

fn staged(kernel: &str, module: bool, seconds: u32, stalls: &[&str], machine: &[&str]) {
    let stacks = format!("{ROOT}/kmod/tests/stacks.sh:/stacks.sh");
    let verdict = format!("{ROOT}/{VERDICT}");
    let seconds = format!("SECONDS_EACH={seconds}");
    let mut options = vec![
        "--disk",
        "e=1G,ext4,4M/s",
        "--file",
        &stacks,
        "--file",
        &verdict,
        "--env",
        &seconds,
    ];
    options.extend(if module {
        ["--env", "MODULE=y"].as_slice()
    } else {
        &["--no-module"]
    });
    options.extend(machine);
    if stalls.contains(&"device") {
        options.extend(["--package", "fuse-overlayfs"]);
        if kernel == "debian:6.1" {
            options.extend(["--driver", "fuse"]);
        }
    }
    passes(kernel, "stalls.sh", &options, stalls);
}

#[test]
#[ignore = "a minute: make stalls"]
fn a_neighbour_at_the_hosts_limit_without_the_module() {
    staged("debian:6.12", false, 5, &["host"], COUNTED);
}

#[test]
#[ignore = "forty seconds"]
fn a_small_cgroups_own_limit_with_the_module() {
    staged("debian:6.1", true, 5, &["cgroup"], &[]);
}

#[test]
#[ignore = "a minute: make stalls"]
fn what_a_cgroup_may_dirty_a_second() {
    for kernel in ["debian:6.12", "debian:7.3"] {
        staged(kernel, true, 5, &["bandwidth"], COUNTED);
    }
}

/// A database, a container's stop, a copy-up, short-lived processes and a client of FUSE.
fn first_contact(kernel: &str, module: &[&str]) {
    let file = |path: &str, name: &str| format!("{ROOT}/{path}:/{name}");
    let tap = file("kmod/tests/tap.sh", "tap.sh");
    let stacks = file("kmod/tests/stacks.sh", "stacks.sh");
    let verdict = format!("{ROOT}/{VERDICT}");
    let script = format!("{ROOT}/bench/weir-bench/tests/guest/first-contact.sh");
    let mut args = vec!["--kernel", kernel, "--memory", "1G", "--timeout", "30m"];
    args.extend(["--disk", "d=1G,ext4,8M/s", "--package", "fuse-overlayfs"]);
    args.extend(["--driver", "overlay", "--driver", "ext4"]);
    args.extend(["--file", &tap, "--file", &stacks, "--file", &verdict]);
    args.extend_from_slice(module);
    args.extend(COUNTED);
    args.push(&script);
    common::passes(&args);
}

#[test]
#[ignore = "six minutes: make stalls"]
fn what_people_come_with() {
    for kernel in ["debian:6.12", "debian:7.3"] {
        first_contact(kernel, &["--no-module"]);
        first_contact(kernel, &["--env", "MODULE=y"]);
    }
}

/// Without the module, on two kernels: the first command that is printed, typed, brings the wait
/// below a tenth.
fn contact(kernel: &str, machine: &[&str], stalls: &[&str]) {
    let stacks = format!("{ROOT}/kmod/tests/stacks.sh:/stacks.sh");
    let verdict = format!("{ROOT}/{VERDICT}");
    let tap = format!("{ROOT}/kmod/tests/tap.sh:/tap.sh");
    let script = format!("{ROOT}/bench/weir-bench/tests/guest/contact.sh");
    let mut args = vec!["--kernel", kernel, "--no-module", "--count-instructions"];
    args.extend(["--timeout", "60m", "--driver", "ext4", "--file", &stacks]);
    args.extend(["--file", &verdict, "--file", &tap]);
    args.extend_from_slice(machine);
    args.push(&script);
    args.extend_from_slice(stalls);
    common::passes(&args);
}

const SMALL: &[&str] = &["--cpus", "1", "--memory", "1G", "--disk", "d=1G,ext4,8M/s"];

#[test]
fn an_fsync_behind_a_neighbours_io_max() {
    contact("debian:6.12", SMALL, &["inverted"]);
}

#[test]
#[ignore = "minutes: make stalls"]
fn the_first_command_helps_without_the_module() {
    for kernel in ["debian:6.12", "debian:7.3"] {
        contact(kernel, SMALL, &["syncfs", "write", "inverted", "alone"]);
    }
}

/// A client of FUSE beside a flood, and one that outruns the disk.
#[test]
#[ignore = "minutes: make stalls"]
fn a_client_of_fuse_without_the_module() {
    let machine = [SMALL, &["--package", "fuse-overlayfs"]].concat();
    for kernel in ["debian:6.12", "debian:7.3"] {
        contact(kernel, &machine, &["fuse"]);
        contact(kernel, &machine, &["fuse_alone"]);
    }
}

/// Four CPUs, of which one submits 8M/s of what the disk could do.
#[test]
#[ignore = "minutes: make stalls"]
fn a_flusher_that_is_too_slow_without_the_module() {
    let drivers = format!("{ROOT}/bench/lab/disk");
    let mut machine = vec![
        "--cpus",
        "4",
        "--memory",
        "1500M",
        "--disk",
        "d=1G,ext4,20M/s",
    ];
    machine.extend([
        "--package",
        "dmsetup",
        "--driver",
        "dm_mod",
        "--kbuild",
        &drivers,
    ]);
    for kernel in ["debian:6.12", "debian:7.3"] {
        contact(kernel, &machine, &["flusher"]);
    }
}

/// The kernels of Debian 12 and 13.
#[test]
#[ignore = "minutes: make stalls"]
fn a_stranger_gets_from_a_stall_to_its_remedy() {
    for kernel in ["debian:6.1", "debian:7.3"] {
        contact(kernel, SMALL, &["stranger"]);
    }
}

#[test]
#[ignore = "minutes: make stalls"]
fn rename_truncate_o_dsync_io_uring_and_freeze_wait_behind_a_flood() {
    contact("debian:6.12", SMALL, &["ways"]);
}

fn recorded(machine: &[&str]) {
    let options = [&["--no-module", "--package", "trace-cmd"], machine].concat();
    passes("debian:6.12", "foreign.sh", &options, &[]);
}

#[test]
#[ignore = "two minutes: make stalls"]
fn a_stall_that_trace_cmd_recorded() {
    recorded(COUNTED);
}

#[test]
#[ignore = "a minute: make stalls"]
fn a_stall_that_trace_cmd_recorded_on_two_cpus() {
    recorded(&[]);
}

macro_rules! all_stalls {
    ($($name:ident: $kernel:literal, $module:literal;)*) => {
        $(
            #[test]
            #[ignore = "takes four minutes"]
            fn $name() {
                let (first, rest) = STALLS.split_at(3);
                staged($kernel, $module, 8, first, &[]);
                staged($kernel, $module, 8, rest, &[]);
                staged($kernel, $module, 8, &["device"], &[]);
            }
        )*
    };
}

all_stalls! {
    all_stalls_on_6_12: "debian:6.12", false;
    all_stalls_on_6_12_with_the_module: "debian:6.12", true;
    all_stalls_on_7_3: "debian:7.3", false;
    all_stalls_on_6_1: "debian:6.1", false;
    all_stalls_on_6_1_with_the_module: "debian:6.1", true;
}

/// Every lack of memory that can be staged, with MGLRU and without it, where the kernel has it.
fn short_of_memory(kernel: &str, mglru: bool, stalls: &[&str]) {
    let tap = format!("{ROOT}/kmod/tests/tap.sh:/tap.sh");
    let verdict = format!("{ROOT}/{VERDICT}");
    let script = format!("{ROOT}/bench/weir-bench/tests/guest/reclaim-stalls.sh");
    let mut args = vec!["--kernel", kernel, "--no-module", "--memory", "640M"];
    args.extend(["--disk", "swap=768M,swap,64M/s"]);
    args.extend(["--file", &tap, "--file", &verdict, "--timeout", "60m"]);
    args.extend(["--env", if mglru { "LRU=y" } else { "LRU=n" }]);
    args.extend(["--env", "SECONDS_EACH=6"]);
    args.extend(COUNTED);
    args.push(&script);
    args.extend_from_slice(stalls);
    common::passes(&args);
}

/// One light task beside three that take all memory, and two that are held by limits of their own.
const SHORT: &[&str] = &["swap", "limit", "over_high"];

macro_rules! short_of_memory {
    ($($name:ident: $kernel:literal, $mglru:literal;)*) => {
        $(
            #[test]
            #[ignore = "three minutes: make stalls"]
            fn $name() {
                short_of_memory($kernel, $mglru, SHORT);
            }
        )*
    };
}

short_of_memory! {
    short_of_memory_on_6_12: "debian:6.12", true;
    short_of_memory_on_6_12_without_mglru: "debian:6.12", false;
    short_of_memory_on_6_1: "debian:6.1", false;
    short_of_memory_on_7_3: "debian:7.3", true;
}

/// `weir agent` tells who owes whom of stalls whose culprits are known.
fn owed(kernel: &str, module: bool, seconds: u32, shapes: &[&str]) {
    let tap = format!("{ROOT}/kmod/tests/tap.sh:/tap.sh");
    let verdict = format!("{ROOT}/{VERDICT}");
    let script = format!("{ROOT}/bench/weir-bench/tests/guest/owed.sh");
    let seconds = format!("SECONDS_EACH={seconds}");
    let mut args = vec!["--kernel", kernel, "--timeout", "90m", "--file", &tap];
    args.extend(["--file", &verdict]);
    args.extend(["--disk", "d=1G,ext4,1M/s", "--disk", "e=1G,ext4,4M/s"]);
    args.extend(["--memory", "1G", "--env", &seconds]);
    args.extend(if module {
        ["--env", "MODULE=y"].as_slice()
    } else {
        &["--no-module"]
    });
    args.extend(COUNTED);
    args.push(&script);
    args.extend_from_slice(shapes);
    common::passes(&args);
}

#[test]
fn the_agent_bills_a_neighbour_and_who_overwrites_anothers_file() {
    owed("debian:6.12", false, 25, &["host", "shared"]);
}

macro_rules! all_bills {
    ($($name:ident: $kernel:literal, $module:literal;)*) => {
        $(
            #[test]
            #[ignore = "takes ten minutes: make stalls"]
            fn $name() {
                owed($kernel, $module, 20, &["host", "shared", "nested", "two"]);
                owed($kernel, $module, 20, &["own", "iomax", "fsync", "short"]);
            }
        )*
    };
}

all_bills! {
    all_bills_on_6_12: "debian:6.12", false;
}

/// What it takes to know that, by instructions, among a thousand cgroups.
#[test]
#[ignore = "some minutes: make stalls"]
fn the_bill_costs_half_a_percent_of_a_cpu_at_most() {
    let tap = format!("{ROOT}/kmod/tests/tap.sh:/tap.sh");
    let script = format!("{ROOT}/bench/weir-bench/tests/guest/owed-cost.sh");
    let mut args = vec!["--no-module", "--memory", "2G", "--timeout", "60m"];
    args.extend(["--disk", "d=1G,ext4,1M/s", "--file", &tap]);
    args.extend(COUNTED);
    args.extend([script.as_str(), "1000"]);
    common::passes(&args);
}

/// Cost of a fork with the event by which a task's cgroup is known after its end.
#[test]
#[ignore = "a minute: make stalls"]
fn explain_adds_little_to_a_fork() {
    let tap = format!("{ROOT}/kmod/tests/tap.sh:/tap.sh");
    let script = format!("{ROOT}/bench/weir-bench/tests/guest/fork-cost.sh");
    let mut args = vec!["--no-module", "--memory", "1G", "--file", &tap];
    args.extend(COUNTED);
    args.push(&script);
    common::passes(&args);
}
