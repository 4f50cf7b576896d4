// SPDX-License-Identifier: GPL-2.0-only
//! The module on stock kernels: `kmod/tests/*.sh`, each in a guest of its own.

use crate::common;

pub const TESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../kmod/tests");

/// Fast enough to write a few dozen megabytes, slow enough to be throttled on.
pub const EXT4: &str = "d=1G,ext4,32M/s";

pub fn passes(kernel: &str, script: &str, options: &[&str], arguments: &[&str]) {
    let tap = format!("{TESTS}/tap.sh:/tap.sh");
    let script = format!("{TESTS}/{script}");
    let mut args = vec!["--kernel", kernel, "--memory", "1G", "--file", &tap];
    args.extend_from_slice(options);
    args.push(&script);
    args.extend_from_slice(arguments);
    common::passes(&args);
}

/// The same in a guest that counts instructions: beside other jobs it shows what it shows alone.
pub fn counted(kernel: &str, script: &str, options: &[&str], arguments: &[&str]) {
    let options = [&["--count-instructions"], options].concat();
    passes(kernel, script, &options, arguments);
}

/// Each on all kernels. After the first `|` it is only in `make proof` on 6.1, after the second on
/// 6.12, too: `make test` has little time. 7.3 is in another release, so all of it is there.
macro_rules! on_each_kernel {
    (
        $($name:ident: $script:literal, $options:expr, $arguments:expr;)*
        |
        $($long:ident: $long_script:literal, $long_options:expr, $long_arguments:expr;)*
        |
        $($proof:ident: $proof_script:literal, $proof_options:expr, $proof_arguments:expr;)*
    ) => {
        mod on_6_12 {
            use super::*;
            $(#[test] fn $name() { counted("debian:6.12", $script, $options, $arguments) })*
            $(#[test] fn $long() { counted("debian:6.12", $long_script, $long_options, $long_arguments) })*
            $(
                #[test]
                #[ignore = "a minute: make proof"]
                fn $proof() { counted("debian:6.12", $proof_script, $proof_options, $proof_arguments) }
            )*
        }
        mod on_6_1 {
            use super::*;
            $(#[test] fn $name() { counted("debian:6.1", $script, $options, $arguments) })*
            $(
                #[test]
                #[ignore = "a minute: make proof"]
                fn $long() { counted("debian:6.1", $long_script, $long_options, $long_arguments) }
            )*
            $(
                #[test]
                #[ignore = "a minute: make proof"]
                fn $proof() { counted("debian:6.1", $proof_script, $proof_options, $proof_arguments) }
            )*
        }
        mod on_7_3 {
            use super::*;
            $(
                #[test]
                #[ignore = "another release's kernel: make proof"]
                fn $name() { counted("debian:7.3", $script, $options, $arguments) }
            )*
            $(
                #[test]
                #[ignore = "another release's kernel: make proof"]
                fn $long() { counted("debian:7.3", $long_script, $long_options, $long_arguments) }
            )*
            $(
                #[test]
                #[ignore = "another release's kernel: make proof"]
                fn $proof() { counted("debian:7.3", $proof_script, $proof_options, $proof_arguments) }
            )*
        }
    };
}

on_each_kernel! {
    what_does_not_fit_is_named: "refusals.sh", &["--cpus", "1", "--make", "WEIR_FAULTS=y"], &[];
    |
    files_take_what_they_should: "files.sh", SINGLE, &[];
    probes_come_and_go: "lifecycle.sh", &["--disk", EXT4], &[];
    pauses_have_a_decider: "events.sh", &["--cpus", "1", "--disk", "d=1G,ext4,8M/s"], &[];
    counts_are_exact: "counts.sh", &["--cpus", "1", "--disk", "d=1G,ext4", "--disk", "x=1G,xfs",
        "--disk", "f=1G,vfat"], &[];
    faults_leave_shared_state_alone: "contract.sh", &["--make", "WEIR_FAULTS=y", "--disk", "d=1G,ext4,8M/s"], &[];
    a_stretch_may_lose_its_record: "stretch.sh", &["--cpus", "1", "--append", "slub_debug=FZPU",
        "--make", "WEIR_FAULTS=y", "--disk", "d=1G,ext4,4M/s"], &["2"];
    floors_cover_subtrees: "subtree.sh", &["--cpus", "1", "--disk", "d=1G,ext4,8M/s"], &[];
    knobs_hold_where_they_should: "filesystems.sh", &["--disk", EXT4, "--disk", "x=1G,xfs,32M/s",
        "--disk", "b=1G,btrfs,32M/s", "--disk", "v=1G,vfat,32M/s"], &[];
    shares_follow_weights: "weight.sh", &["--cpus", "1", "--disk", "d=1G,ext4,6M/s"], &[];
    what_was_synced_alone_is_not_owed: "alone.sh", &["--cpus", "1", "--disk", "d=1G,ext4,16M/s"], &[];
    what_no_sync_is_about_is_written: "synced.sh", &["--cpus", "1", "--disk", "d=1G,ext4,16M/s"], &[];
    flushers_keep_to_windows: "window.sh", &["--cpus", "1", "--disk", "d=2G,ext4,16M/s"], &[];
    what_is_held_takes_no_siblings_window: "held.sh", &["--cpus", "1", "--disk", "d=1G,ext4,16M/s"], &["5"];
    a_full_window_has_turns_for_all: "turns.sh", &["--cpus", "1", "--append", "slub_debug=FZPU",
        "--disk", "d=2G,ext4,16M/s"], &[];
    the_dead_answer: "dead.sh", &["--cpus", "1", "--disk", "d=1G,ext4"], &[];
    ceilings_bound_subtrees: "hierarchy.sh", &["--disk", "d=1G,xfs,32M/s",
        "--disk", "e=1G,ext4,32M/s"], &[];
    nobody_gets_past_a_full_ceiling: "past.sh", &["--cpus", "1",
        "--disk", "d=1G,ext4,8M/s", "--disk", "s=1G,ext4,256K/s", "--disk", "v=1G,vfat,8M/s"], &[];
    cgroups_and_loads_may_storm: "storm.sh", &["--disk", EXT4], &["2", "100"];
    the_removed_leave_nothing: "reparent.sh", &["--cpus", "1", "--disk", "d=1G,ext4"], &[];
    limits_follow_the_drain: "drain.sh", &["--cpus", "1", "--disk", "d=1G,ext4,8M/s"], &[];
    |
    a_full_limit_keeps_no_disk_idle: "lent.sh", &["--cpus", "1", "--disk", "d=2G,xfs,200M/s"], &[];
    a_tenants_window_makes_no_neighbour_wait: "tenant-window.sh", &["--cpus", "1", "--timeout", "30m",
        "--disk", "d=1G,ext4,16M/s", "--disk", "x=1G,xfs,16M/s"], &[];
    a_floor_of_all_memory_kills_nobody: "oom.sh", &["--cpus", "1", "--disk", EXT4], &[];
    the_beat_waits_for_no_tenant: "starved.sh", &["--cpus", "1", "--package", "util-linux"], &[];
    no_window_grows_on_a_disk_that_stands_still: "stall.sh", &["--cpus", "1", "--disk", "d=1G,ext4,16M/s"], &[];
    shares_stay_where_a_cgroup_goes: "weight-gone.sh", &["--cpus", "1", "--disk", "d=1G,ext4,16M/s"], &[];
    syncs_end_in_time: "sync.sh", &["--append", "slub_debug=FZPU", "--cpus", "1", "--package", "e2fsprogs", "--disk", "d=1G,ext4,8M/s",
        "--disk", "x=512M,xfs,32M/s", "--disk", "s=256M"], &[];
}

/// On two CPUs by the host's clock, what `make test` runs on one that counts instructions: it
/// judges shares, rates and who was throttled, and would fail beside other jobs.
#[test]
#[ignore = "a minute: make proof"]
fn floors_cover_subtrees_on_two_cpus() {
    passes(
        "debian:6.12",
        "subtree.sh",
        &["--disk", "d=1G,ext4,8M/s"],
        &[],
    );
}

#[test]
#[ignore = "a minute: make proof"]
fn ceilings_bound_subtrees_on_two_cpus() {
    passes(
        "debian:6.12",
        "hierarchy.sh",
        &["--disk", EXT4, "--disk", "e=1G,ext4,32M/s"],
        &[],
    );
}

#[test]
#[ignore = "a minute: make proof"]
fn shares_follow_weights_on_two_cpus() {
    passes(
        "debian:6.12",
        "weight.sh",
        &["--disk", "d=1G,ext4,6M/s"],
        &[],
    );
}

#[test]
#[ignore = "a minute: make proof"]
fn limits_follow_the_drain_on_two_cpus() {
    passes(
        "debian:6.12",
        "drain.sh",
        &["--disk", "d=1G,ext4,8M/s"],
        &[],
    );
}

/// For guests where nothing is to happen at the same time: they boot sooner.
const SINGLE: &[&str] = &["--cpus", "1"];

/// Freed memory is poisoned, to see a write into it.
const POISON: &[&str] = &["--append", "slub_debug=FZPU", "--disk", EXT4];

#[test]
fn a_write_that_fails_harms_nothing() {
    counted("debian:6.12", "writes.sh", POISON, &["4"]);
}

/// What a flusher stands on goes while it is held, and a disk that can be pulled keeps time by no
/// counted instruction: `LOSSES` in `proof.rs` says more.
const FLUSHER_GONE: &[&str] = &[
    "--append",
    "slub_debug=FZPU",
    "--package",
    "dmsetup",
    "--driver",
    "dm_mod",
    "--disk",
    "d=1G,ext4",
    "--disk",
    "u=96M,none,2M/s",
];

#[test]
fn a_held_flusher_may_lose_what_it_stands_on() {
    let options = [FLUSHER_GONE, SINGLE].concat();
    counted("debian:6.12", "flusher-gone.sh", &options, &["1"]);
}

#[test]
#[ignore = "five minutes: make proof"]
fn twenty_held_flushers_may_lose_what_they_stand_on() {
    let options = [FLUSHER_GONE, SINGLE, &["--timeout", "60m"]].concat();
    counted("debian:6.12", "flusher-gone.sh", &options, &["20"]);
    let disks = ["20", "window/device", "weight/device"];
    passes("debian:6.12", "flusher-gone.sh", &options, &disks);
}

#[test]
#[ignore = "a minute: make proof"]
fn a_write_that_fails_harms_nothing_on_6_1() {
    passes("debian:6.1", "writes.sh", POISON, &["30"]);
}

#[test]
fn records_are_paid_for() {
    counted("debian:6.12", "resources.sh", SINGLE, &["300"]);
}

#[test]
#[ignore = "two minutes: make proof"]
fn records_are_paid_for_on_6_1() {
    passes("debian:6.1", "resources.sh", &[], &["1000"]);
}

#[test]
fn a_write_costs_the_same_beside_many() {
    passes(
        "debian:6.12",
        "crowd.sh",
        &["--count-instructions"],
        &["500"],
    );
}

#[test]
#[ignore = "a minute: make proof"]
fn a_write_costs_the_same_beside_two_thousand() {
    passes(
        "debian:6.12",
        "crowd.sh",
        &["--count-instructions"],
        &["2000"],
    );
}

const TWO_DISKS: &[&str] = &[
    "--count-instructions",
    "--disk",
    "d=1G,ext4,8M/s",
    "--disk",
    "e=1G,ext4,64M/s",
];

#[test]
#[ignore = "a minute: make proof"]
fn who_is_let_go_dirties_little() {
    passes("debian:6.12", "release.sh", TWO_DISKS, &[]);
}

#[test]
#[ignore = "a minute: make proof"]
fn who_is_let_go_dirties_little_on_6_1() {
    passes("debian:6.1", "release.sh", TWO_DISKS, &[]);
}

const STALLS: &[&str] = &[
    "--count-instructions",
    "--cpus",
    "1",
    "--make",
    "WEIR_FAULTS=y",
    "--disk",
    "d=512M,ext4,8M/s",
];

#[test]
fn nothing_is_amended_while_blind() {
    passes("debian:6.12", "blind.sh", STALLS, &[]);
}

#[test]
#[ignore = "a minute: make proof"]
fn nothing_is_amended_while_blind_on_6_1() {
    passes("debian:6.1", "blind.sh", STALLS, &[]);
}

#[test]
fn nothing_vouches_twice() {
    let options = ["--cpus", "1", "--disk", "d=64M,ext4", "--driver", "brd"];
    counted("debian:6.12", "foreign.sh", &options, &[]);
}

#[test]
fn an_evicted_device_vouches_for_nothing() {
    let options = ["--cpus", "1", "--driver", "brd", "--disk", "d=64M,ext4"];
    counted("debian:6.12", "evicted.sh", &options, &[]);
}

#[test]
fn young_cgroups_hold_no_more_than_one() {
    let options = "--cpus 1 --disk d=1G,ext4,1M/s --make WEIR_FAULTS=y";
    let options: Vec<&str> = options.split(' ').collect();
    counted("debian:6.12", "young.sh", &options, &[]);
}

#[test]
#[ignore = "a minute: make proof"]
fn a_refused_load_waits_for_nobody() {
    let options = [
        "--count-instructions",
        "--cpus",
        "1",
        "--make",
        "WEIR_FAULTS=y",
        "--disk",
        "d=512M,ext4,1M/s",
    ];
    passes("debian:6.12", "settle.sh", &options, &[]);
}

#[test]
fn off_registers_nothing() {
    counted("debian:6.12", "off.sh", SINGLE, &[]);
}

#[test]
fn off_registers_nothing_on_6_1() {
    counted("debian:6.1", "off.sh", SINGLE, &[]);
}

#[test]
#[ignore = "some minutes: make proof"]
fn ten_thousand_floors_hold_no_lock_for_long() {
    let options = ["--cpus", "1", "--make", "WEIR_IRQSOFF=y"];
    counted("debian:6.12", "floors.sh", &options, &["10000"]);
}

fn fair_parts_protect_without_a_knob(kernel: &str) {
    let options = [
        "--cpus",
        "1",
        "--disk",
        "d=1G,ext4,4M/s",
        "--disk",
        "s=1G,ext4,256K/s",
    ];
    counted(kernel, "fair.sh", &options, &[]);
}

#[test]
#[ignore = "two minutes: make proof"]
fn fair_parts_protect_on_6_12() {
    fair_parts_protect_without_a_knob("debian:6.12");
}

#[test]
#[ignore = "two minutes: make proof"]
fn fair_parts_protect_on_6_1() {
    fair_parts_protect_without_a_knob("debian:6.1");
}

#[test]
#[ignore = "two minutes: make proof"]
fn fair_parts_protect_on_7_3() {
    fair_parts_protect_without_a_knob("debian:7.3");
}

/// At most 1.12 times its limit; 1.17 in the first seconds of five floods.
#[test]
#[ignore = "two minutes: make proof"]
fn the_host_peaks_near_its_limit() {
    let options = [
        "--count-instructions",
        "--cpus",
        "1",
        "--disk",
        "d=2G,ext4,4M/s",
    ];
    passes("debian:6.12", "peaks.sh", &options, &[]);
}

/// Short: `make reservation` has the long ones, and 6.1.
#[test]
#[ignore = "a minute: make proof"]
fn floors_stay_within_the_hosts_limit() {
    let disks = ["--disk", "d=2G,ext4,32M/s", "--disk", "o=1G,ext4,32M/s"];
    passes("debian:6.12", "reservation.sh", &disks, &["8", "2"]);
}

const TIERS: &[&str] = &["--tier", "512M", "--tier", "768M"];

#[test]
fn budgets_follow_limits_and_memory() {
    passes("debian:6.12", "tier.sh", TIERS, &[]);
}

#[test]
#[ignore = "half a minute: make proof"]
fn budgets_follow_limits_and_memory_on_6_1() {
    passes("debian:6.1", "tier.sh", TIERS, &[]);
}

#[test]
#[ignore = "make matrix tries more of it: make proof"]
fn the_generic_flavour_takes_it_too() {
    passes(
        "debian:6.12:generic",
        "lifecycle.sh",
        &["--disk", EXT4],
        &[],
    );
}

/// Held against stock. `make matrix` takes more ways to write and more time, on every filesystem
/// and kernel.
#[test]
#[ignore = "a minute: make proof"]
fn every_way_to_write_is_no_worse_than_stock() {
    let compare = format!("{TESTS}/compare.sh:/compare.sh");
    let options = [
        "--count-instructions",
        "--cpus",
        "1",
        "--disk",
        EXT4,
        "--file",
        &compare,
        "--env",
        "SECONDS_EACH=2",
    ];
    let ways = ["mmap", "io_uring", "shared", "laptop"];
    passes("debian:6.12", "behaviour.sh", &options, &ways);
}

#[test]
#[ignore = "a minute: make proof"]
fn tracepoints_have_followers() {
    let options = [
        "--disk",
        "d=1G,ext4,8M/s",
        "--package",
        "trace-cmd",
        "--package",
        "bpftrace",
    ];
    passes("debian:6.12", "followers.sh", &options, &[]);
}

/// Options of bandwidth.sh, besides its disks.
fn bandwidth(kernel: &str, more: &[&str], arguments: &[&str]) {
    let stacks = format!("{TESTS}/stacks.sh:/stacks.sh");
    let mut options = vec!["--count-instructions", "--cpus", "1", "--timeout", "60m"];
    options.extend(["--file", &stacks, "--disk", "d=2G,ext4"]);
    options.extend(more);
    passes(kernel, "bandwidth.sh", &options, arguments);
}

#[test]
fn writers_keep_to_their_bandwidth() {
    bandwidth("debian:6.12", &["--package", "util-linux"], &[]);
}

#[test]
#[ignore = "some minutes: make proof"]
fn writers_keep_to_their_bandwidth_on_6_1() {
    bandwidth("debian:6.1", &["--package", "util-linux"], &[]);
}

#[test]
#[ignore = "some minutes: make proof"]
fn writers_keep_to_their_bandwidth_on_any_filesystem() {
    let mut options = vec![
        "--disk", "x=2G,xfs", "--driver", "nfsd", "--driver", "nfsv4",
    ];
    for package in ["nfs-kernel-server", "nfs-common", "fuse-overlayfs"] {
        options.extend(["--package", package]);
    }
    bandwidth(
        "debian:6.12",
        &options,
        &["1 8 64 300", "ext4", "xfs", "nfs", "fuse"],
    );
}

/// What a build may leave out (`kmod/Kbuild`) is left out: the core does without.
#[test]
#[ignore = "a minute: make proof"]
fn the_core_alone_is_a_module() {
    let mut options = vec!["--disk", EXT4];
    for left_out in [
        "WEIR_BANDWIDTH=n",
        "WEIR_FLUSHER=n",
        "WEIR_DRAIN=n",
        "WEIR_TIERS=n",
    ] {
        options.extend(["--make", left_out]);
    }
    counted("debian:6.12", "lifecycle.sh", &options, &[]);
}

#[test]
#[ignore = "two minutes: make proof"]
fn filesystems_on_top_of_others_are_no_worse_than_stock() {
    let compare = format!("{TESTS}/compare.sh:/compare.sh");
    let stacks = format!("{TESTS}/stacks.sh:/stacks.sh");
    let mut options = vec![
        "--disk",
        EXT4,
        "--file",
        &compare,
        "--file",
        &stacks,
        "--env",
        "SECONDS_EACH=2",
    ];
    for package in ["nfs-kernel-server", "nfs-common", "fuse-overlayfs"] {
        options.extend(["--package", package]);
    }
    options.extend(["--driver", "nfsd", "--driver", "nfsv4"]);
    passes(
        "debian:6.12",
        "stacked.sh",
        &options,
        &["loop", "nfs", "fuse"],
    );
}
