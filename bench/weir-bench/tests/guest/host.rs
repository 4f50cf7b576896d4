// SPDX-License-Identifier: GPL-2.0-only
//! doctor, load, status, unload and the agent on stock kernels, in guests: the scripts are in
//! `guest/`. All count instructions: nothing is judged by how busy this machine is, and the seconds
//! that a disk takes are skipped.

use std::path::Path;

use crate::common;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The script of `tests/guest/` passes in a guest with these options, words that blanks divide.
pub fn passes(script: &str, options: &str, arguments: &[&str]) {
    let tap = format!("{ROOT}/kmod/tests/tap.sh:/tap.sh");
    let script = format!("{ROOT}/bench/weir-bench/tests/guest/{script}");
    let mut args = vec!["--count-instructions", "--file", &tap];
    args.extend(options.split_whitespace());
    args.push(&script);
    args.extend(arguments);
    common::passes(&args);
}

#[test]
fn the_host_commands_work_on_the_cloud_kernel() {
    passes("host.sh", "--kernel debian:6.12 --cpus 1 --memory 1G", &[]);
}

#[test]
fn the_host_commands_work_on_the_oldest_kernel() {
    passes("host.sh", "--kernel debian:6.1 --cpus 1 --memory 1G", &[]);
}

/// What `figures.sh` wants.
pub const FIGURES: &str = "--no-module --cpus 1 --memory 1G --disk d=1G,ext4,8M/s";

#[test]
fn figures_are_what_was_set() {
    passes("figures.sh", FIGURES, &[]);
}

#[test]
fn the_agent_keeps_knobs() {
    passes("agent.sh", "--cpus 1 --memory 1G", &[]);
}

#[test]
#[ignore = "minutes: make proof"]
fn the_agent_follows_the_module() {
    let options = "--kernel debian:6.12 --cpus 1 --memory 1G --disk d=1G,ext4,64M/s";
    passes("modes.sh", options, &[]);
}

#[test]
#[ignore = "minutes: make proof"]
fn the_agent_limits_who_allocates_most() {
    let options = "--memory 640M --disk swap=768M,swap,64M/s --timeout 60m";
    passes("reclaim.sh", options, &[]);
}

#[test]
#[ignore = "minutes: make proof"]
fn the_agent_keeps_rules_without_the_module() {
    let options = "--no-module --cpus 1 --memory 1G --disk d=1G,ext4,8M/s --timeout 60m";
    for kernel in ["debian:6.12", "debian:7.3"] {
        passes("stock.sh", &format!("--kernel {kernel} {options}"), &[]);
    }
}

#[test]
#[ignore = "minutes: make proof"]
fn a_slow_device_has_a_part_of_the_hosts_limit() {
    let disks = "--disk d=1G,ext4,1M/s --disk e=1G,ext4,16M/s";
    for kernel in ["debian:6.1", "debian:6.12", "debian:7.3"] {
        let options = format!("--kernel {kernel} --no-module --cpus 1 --memory 1G {disks}");
        passes("devices.sh", &options, &[]);
    }
}

#[test]
#[ignore = "minutes: make proof"]
fn the_agent_lifts_the_hosts_limit_without_the_module() {
    for kernel in ["debian:6.12", "debian:7.3"] {
        let options = format!(
            "--kernel {kernel} --no-module --cpus 1 --memory 1G --package dmsetup \
             --package e2fsprogs --driver dm_mod --driver ext4 --kbuild {ROOT}/bench/lab/disk \
             --disk s=1G --disk d=1G,ext4,16M/s --timeout 25m"
        );
        passes("drain-auto.sh", &options, &[]);
    }
}

#[test]
#[ignore = "minutes: make proof"]
fn the_agent_narrows_a_disks_queue_without_the_module() {
    let options = "--no-module --cpus 1 --memory 1G --disk d=4G,ext4,16M/s";
    passes("queue.sh", &format!("{options} --timeout 30m"), &[]);
}

/// One flusher cannot feed the disk: a CPU submits 8M/s of the 20M/s that it could do. Time at a
/// target of the device mapper is spent in halts, so four CPUs that count instructions show it.
#[test]
#[ignore = "minutes: make proof"]
fn assistants_of_a_flusher_feed_a_disk_and_no_writer_waits() {
    for filesystem in ["ext4", "xfs"] {
        let drivers = format!("{ROOT}/bench/lab/disk");
        let options = format!(
            "--no-module --cpus 4 --memory 1500M --disk d=1G,{filesystem},20M/s --package dmsetup \
             --driver dm_mod --kbuild {drivers} --env SECONDS_EACH=20 --timeout 60m"
        );
        passes("assist.sh", &options, &["flood", "paced"]);
    }
}

/// Its cost while no task reclaims, among 1,000 cgroups.
#[test]
#[ignore = "minutes: make proof"]
fn reclaim_at_rest_costs_a_thousandth_of_a_cpu_at_most() {
    let options = "--no-module --cpus 1 --memory 640M --timeout 60m";
    passes("reclaim-rest.sh", options, &[]);
}

#[test]
#[ignore = "minutes: make proof"]
fn the_agent_keeps_a_ceiling_in_seconds() {
    let options = "--cpus 1 --memory 1G --disk d=6G,ext4,8M/s --timeout 60m";
    passes("seconds.sh", options, &[]);
}

#[test]
#[ignore = "minutes: make proof"]
fn the_agent_keeps_a_window_in_milliseconds() {
    let options = "--cpus 1 --memory 1G --disk d=3G,ext4,16M/s --timeout 60m";
    passes("window-time.sh", options, &[]);
}

fn the_agent_keeps_an_objective_on(kernel: &str) {
    let options = "--cpus 1 --memory 768M --disk d=512M,ext4,4M/s --timeout 60m";
    passes("objective.sh", &format!("--kernel {kernel} {options}"), &[]);
}

#[test]
#[ignore = "minutes: make proof"]
fn the_agent_keeps_an_objective() {
    the_agent_keeps_an_objective_on("debian:6.12");
}

#[test]
#[ignore = "minutes: make proof"]
fn the_agent_keeps_an_objective_on_the_oldest_kernel() {
    the_agent_keeps_an_objective_on("debian:6.1");
}

/// 30 ms beside a flood, on a disk that writes as on stock Linux.
fn a_window_keeps_an_objective_on(filesystem: &str) {
    let options = format!(
        "--kernel debian:6.12 --cpus 1 --memory 1G --disk d=2G,{filesystem},16M/s --timeout 60m"
    );
    passes("objective-window.sh", &options, &[]);
}

#[test]
#[ignore = "minutes: make proof"]
fn a_window_keeps_an_objective_on_ext4() {
    a_window_keeps_an_objective_on("ext4");
}

#[test]
#[ignore = "minutes: make proof"]
fn a_window_keeps_an_objective_on_xfs() {
    a_window_keeps_an_objective_on("xfs");
}

/// 5 ms for each read beside a flood, by the disk's queue and by a window.
fn an_objective_keeps_reads_on(filesystem: &str) {
    let options = format!(
        "--kernel debian:6.12 --cpus 1 --memory 1G --disk d=2G,{filesystem},16M/s --timeout 60m"
    );
    passes("objective-reads.sh", &options, &[]);
}

#[test]
#[ignore = "minutes: make proof"]
fn an_objective_keeps_reads_on_ext4() {
    an_objective_keeps_reads_on("ext4");
}

#[test]
#[ignore = "minutes: make proof"]
fn an_objective_keeps_reads_on_xfs() {
    an_objective_keeps_reads_on("xfs");
}

/// The service of a script beside a copy, on a disk of 16 MB/s.
fn an_objective_keeps(script: &str, options: &str) {
    let beside = format!("{ROOT}/bench/weir-bench/tests/guest/beside.sh:/beside.sh");
    let options = format!(
        "--kernel debian:6.12 --cpus 1 --memory 1G --disk d=1G,ext4,16M/s --timeout 60m \
         --file {beside} {options}"
    );
    passes(script, &options, &[]);
}

#[test]
#[ignore = "minutes: make proof"]
fn an_objective_keeps_a_databases_transactions() {
    an_objective_keeps(
        "postgres.sh",
        "--package postgresql-15 --package postgresql-client-15 --package tzdata --package util-linux",
    );
}

/// etcd beside a copy, and the fio recipe that judges disks for it. Its own load generator comes along
/// where `tools/etcd-benchmark.sh target/etcd` has built it.
#[test]
#[ignore = "minutes: make proof"]
fn an_objective_keeps_etcds_puts() {
    let benchmark = format!("{ROOT}/target/etcd/benchmark");
    let mut options = "--package etcd-server".to_owned();
    if Path::new(&benchmark).exists() {
        options += &format!(" --file {benchmark}:/benchmark");
    }
    an_objective_keeps("etcd.sh", &options);
}

/// Killed for writing on stock Linux, alive under the agent's rule.
#[test]
#[ignore = "a minute: make proof"]
fn a_rule_keeps_writers_alive() {
    let options = "--cpus 1 --memory 1500M --timeout 60m --driver brd --driver dm_delay \
         --package dmsetup";
    passes("killed.sh", options, &["3", "32", "3", "ext4 xfs"]);
}

/// A scenario on the guest as on a host: judged, refused, killed again and again.
fn runs_on_the_host_and_leaves_nothing(kernel: &str, kills: &str) {
    let scenario = format!("{ROOT}/bench/weir-bench/tests/guest/host-run.toml:/host-run.toml");
    let options = format!(
        "--kernel {kernel} --cpus 1 --memory 1500M --timeout 60m --disk d=512M,ext4,8M/s \
         --package dmsetup --driver nbd --driver dm_crypt --driver xts --file {scenario}"
    );
    passes("host-run.sh", &options, &[kills]);
}

#[test]
fn a_scenario_on_a_host_leaves_nothing() {
    runs_on_the_host_and_leaves_nothing("debian:6.12", "1");
}

/// The kit for real disks, one scenario of it, on a guest's.
#[test]
#[ignore = "minutes: make proof"]
fn what_a_real_disk_shows_is_one_archive() {
    let files: String = ["tools/hardware.sh", "scenarios/hardware/weight.toml"]
        .map(|file| format!(" --file {ROOT}/{file}:/kit/{file}"))
        .concat();
    let options = format!(
        "--kernel debian:6.12 --cpus 1 --memory 2500M --timeout 30m \
         --disk d=14G,ext4,32M/s{files}"
    );
    passes("hardware.sh", &options, &[]);
}

#[test]
#[ignore = "minutes: make proof"]
fn a_scenario_killed_on_a_host_20_times_leaves_nothing() {
    runs_on_the_host_and_leaves_nothing("debian:6.12", "20");
    runs_on_the_host_and_leaves_nothing("debian:6.1", "20");
}
