// SPDX-License-Identifier: GPL-2.0-only
//! What the module promises under stress: `kmod/tests/*.sh` again, those that are hard on it.
//!
//! A short turn of each is part of `make test`. The ones marked `ignore` are the same scripts at
//! full length, for `make proof`, `make chaos` and `make hostile`.

use crate::common;
use std::path::PathBuf;
use std::process::Command;

const TESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../kmod/tests");
const POLICY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../policy");
const EXT4: &str = "d=1G,ext4,32M/s";

/// Options that put files of `kmod/tests` into the guest's root.
fn files(names: &[&str]) -> Vec<String> {
    names
        .iter()
        .flat_map(|name| ["--file".to_owned(), format!("{TESTS}/{name}:/{name}")])
        .collect()
}

fn passes(kernel: &str, options: &[String], script: &str, arguments: &[&str]) {
    let script = format!("{TESTS}/{script}");
    let files = files(&["tap.sh"]);
    let mut args = vec!["--kernel", kernel];
    args.extend(files.iter().map(String::as_str));
    args.extend(options.iter().map(String::as_str));
    args.push(&script);
    args.extend_from_slice(arguments);
    common::passes(&args);
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// The C sources in a folder.
fn sources(folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder of sources");
    entries
        .map(|entry| entry.expect("a directory entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "c"))
        .collect()
}

/// A C program of `kmod/tests`, a file or a folder of files, linked with the policy, for guests
/// without libraries.
pub fn program(name: &str) -> PathBuf {
    let built = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let folder = format!("{TESTS}/{name}");
    let own = if std::path::Path::new(&folder).is_dir() {
        sources(&folder)
    } else {
        vec![format!("{folder}.c").into()]
    };
    let status = Command::new("gcc")
        .args([
            "-Wall", "-Wextra", "-Werror", "-O2", "-static", "-I", POLICY,
        ])
        .arg("-o")
        .arg(&built)
        .args(own)
        .args(sources(POLICY))
        .status()
        .expect("gcc runs");
    assert!(status.success(), "{name} does not compile");
    built
}

fn knob_fuzz(name: &str, writes: &str) {
    // Each test compiles its own: they run side by side.
    let fuzzer = program("knob-fuzz");
    let own = fuzzer.with_file_name(name);
    std::fs::rename(&fuzzer, &own).expect("keeping the program");
    let file = format!(
        "--count-instructions --cpus 1 --file {}:/knob-fuzz --memory 1G --timeout 30m",
        own.display()
    );
    passes("debian:6.12", &words(&file), "knob-fuzz.sh", &[writes]);
}

fn missed(writers: &str, seconds: &str) {
    let options = format!(
        "--memory 3G --cpus 4 --append preempt=full --timeout 20m --disk {}",
        EXT4.replace("1G,ext4,32M", "2G,ext4,8M")
    );
    passes(
        "debian:6.12",
        &words(&options),
        "missed.sh",
        &[writers, seconds],
    );
}

/// A guest that counts instructions: how busy this machine is does not change what it shows.
const COUNTING: &str = "--count-instructions --memory 1500M --timeout 25m";

fn livepatch(kernel: &str) {
    let options = format!("{COUNTING} --disk d=256M,ext4,32M/s --kbuild {TESTS}/livepatch");
    passes(kernel, &words(&options), "livepatch.sh", &[]);
}

/// Sets of bpftrace's probes; kfunc and kretfunc are fentry and fexit.
pub const PROBES: &[&str] = &[
    "kprobe,kretprobe",
    "kfunc,kretfunc",
    "kprobe,kretprobe,kfunc,kretfunc",
];

pub fn beside(kernel: &str, probes: &[&str]) {
    let options = format!("{COUNTING} --disk d=256M,ext4,8M/s --package bpftrace");
    passes(kernel, &words(&options), "beside.sh", probes);
}

fn cleared_beside_a_livepatch(kernel: &str) {
    let options = format!("{COUNTING} --cpus 1 --kbuild {TESTS}/livepatch");
    passes(kernel, &words(&options), "patched.sh", &[]);
}

fn chaos(kernel: &str, arguments: &[&str]) {
    let mut options = words(
        "--memory 2G --timeout 90m --disk d=1G,ext4,8M/s --disk x=1G,xfs,32M/s --disk b=1G,btrfs,32M/s \
         --disk u=128M --package dmsetup --package nfs-kernel-server --package nfs-common \
         --driver null_blk --driver dm_flakey --driver nfsd --driver nfsv4",
    );
    options.extend(files(&["stacks.sh"]));
    passes(kernel, &options, "chaos.sh", arguments);
}

/// Options for guests in which memory is poisoned when it is freed.
const POISON: &str = "--append slub_debug=FZPU";

/// The unprivileged owner of a delegated cgroup; each test compiles its own program.
fn hostile(name: &str, kernel: &str, options: &str, arguments: &[&str]) {
    let built = program("hostile");
    let own = built.with_file_name(name);
    std::fs::rename(&built, &own).expect("keeping the program");
    let options = format!(
        "--file {}:/hostile --disk d=1G,ext4,4M/s --package dmsetup --driver loop \
         --driver null_blk --driver dm_mod {options}",
        own.display()
    );
    passes(kernel, &words(&options), "hostile.sh", arguments);
}

/// What writers sleep on while it is removed. The guest counts instructions: by an emulated clock a
/// writer of a busy machine is awake again before the script has removed anything. A disk that can
/// be pulled keeps time by no counted instruction, so disks go in a guest of its own, with one CPU:
/// with two, QEMU aborts now and then as the disk comes back (`iotlb_to_section`), because the one
/// CPU still looks up a place in memory that the other has just moved.
const LOSSES: &str = "cgroup controller task module \
     paced/cgroup paced/controller paced/task paced/module \
     left/cgroup left/controller left/task left/module \
     past/cgroup past/controller past/task past/module";
/// The module is not unloaded on 7.3 while thirty write others' files: that kernel's own throttle
/// lets them fill the memory (`docs/experiments/0039-past-a-full-limit.md`).
const LOSSES_7_3: &str = "cgroup controller task module \
     paced/cgroup paced/controller paced/task paced/module \
     left/cgroup left/controller left/task left/module \
     past/cgroup past/controller past/task";
const LOST_DISKS: &str = "device paced/device past/device";

fn sleeping_writer(kernel: &str, options: &str, rounds: &str, kinds: &str) {
    let clock = if kinds.contains("device") {
        "--cpus 1"
    } else {
        "--count-instructions"
    };
    let options = format!("--disk d=1G,ext4,1M/s --disk u=96M,none,1M/s {clock} {options}");
    let arguments: Vec<&str> = [rounds]
        .into_iter()
        .chain(kinds.split_whitespace())
        .collect();
    passes(kernel, &words(&options), "sleeping-writer.sh", &arguments);
}

/// All of it, on a kernel that poisons freed memory.
fn sleeping_writers(kernel: &str, rounds: &str, losses: &str) {
    let options = format!("{POISON} --memory 1G --timeout 120m");
    sleeping_writer(kernel, &options, rounds, losses);
    sleeping_writer(kernel, &options, rounds, LOST_DISKS);
}

#[test]
#[ignore = "five minutes: make hostile"]
fn a_hostile_tenant_does_no_harm() {
    let options = format!("{POISON} --memory 1G --timeout 15m");
    hostile("hostile-short", "debian:6.12", &options, &["20"]);
}

#[test]
fn a_writer_may_lose_what_it_sleeps_on() {
    let options = format!("{POISON} --memory 1G --timeout 15m");
    let kinds = "cgroup controller task module \
         paced/cgroup paced/task paced/module left/cgroup past/cgroup past/task";
    sleeping_writer("debian:6.12", &options, "1", kinds);
}

/// Without `past/device`: beside other jobs, of forty writers none may be asleep when its disk goes.
#[test]
fn a_writer_may_lose_its_disk() {
    let options = format!("{POISON} --memory 1G --timeout 15m");
    let kinds = "device paced/device";
    sleeping_writer("debian:6.12", &options, "1", kinds);
}

/// What a task is to wait for at its return to user mode is taken back from one that does not return.
#[test]
fn a_task_that_does_not_return_is_left_without_work() {
    let blocked = program("blocked");
    let options = format!(
        "{POISON} --count-instructions --cpus 1 --memory 1G --timeout 15m --disk d=1G,ext4 \
         --file {}:/blocked",
        blocked.display()
    );
    passes("debian:6.12", &words(&options), "at-return.sh", &[]);
}

/// A neighbour of a tenant that uses its own knobs; each test compiles its own program.
fn waits(name: &str, kernel: &str, disks: &str, arguments: &str) {
    let built = program("waits");
    let own = built.with_file_name(name);
    std::fs::rename(&built, &own).expect("keeping the program");
    let options = format!(
        "--count-instructions --cpus 1 --memory 1G --timeout 60m --file {}:/waits {disks}",
        own.display()
    );
    let arguments: Vec<&str> = arguments.split_whitespace().collect();
    passes(kernel, &words(&options), "waits.sh", &arguments);
}

const EACH_DISK: &str = "--disk d=1G,ext4,16M/s --disk x=1G,xfs,16M/s --disk b=1G,btrfs,16M/s";

#[test]
fn a_neighbour_does_not_wait_for_a_held_writer() {
    let locks = "rename unlink getdents uring freeze suspend bandwidth 4";
    waits(
        "waits-short",
        "debian:6.12",
        "--disk d=1G,ext4,16M/s",
        locks,
    );
}

#[test]
#[ignore = "fifteen minutes: make proof"]
fn a_neighbour_does_not_wait_on_any_filesystem() {
    waits("waits-each", "debian:6.12", EACH_DISK, "");
}

#[test]
#[ignore = "fifteen minutes: make proof"]
fn a_neighbour_does_not_wait_on_any_filesystem_on_7_3() {
    waits("waits-each-7.3", "debian:7.3", EACH_DISK, "");
}

/// As long as one write() can be: without weir a neighbour waits for all of it, with weir no longer.
fn calls_of_2_gib(name: &str, kernel: &str, filesystem: &str) {
    let disk = format!(
        "--disk d=4G,{filesystem},16M/s --env LIMIT=400 \
         --append sysctl.kernel.hung_task_timeout_secs=0"
    );
    waits(name, kernel, &disk, "rename bandwidth ceiling 2048");
}

#[test]
#[ignore = "ten minutes: make proof"]
fn a_neighbour_does_not_wait_for_calls_of_2_gib() {
    calls_of_2_gib("waits-2g", "debian:6.12", "ext4");
}

#[test]
#[ignore = "ten minutes: make proof"]
fn a_neighbour_does_not_wait_for_calls_of_2_gib_on_7_3() {
    calls_of_2_gib("waits-2g-7.3", "debian:7.3", "xfs");
}

#[test]
#[ignore = "fifteen minutes: make proof"]
fn a_neighbour_does_not_wait_for_a_hundred_writers() {
    let disks = "--disk d=1G,ext4,16M/s --disk x=1G,xfs,16M/s";
    let cases = "many rename unlink getdents readlog uring mmap bandwidth ceiling 1";
    waits("waits-many", "debian:6.12", disks, cases);
}

/// By a ceiling no longer than by `memory.max`, which is the kernel's own.
#[test]
#[ignore = "five minutes: make proof"]
fn a_neighbour_waits_no_longer_than_for_a_small_memory() {
    let disk = "--disk d=1G,ext4,16M/s --env LIMIT=60";
    let cases = "many unlink memory ceiling 4";
    waits("waits-memory", "debian:6.12", disk, cases);
}

/// By a weight no longer than by `io.max` of its own, which is the kernel's own.
#[test]
#[ignore = "five minutes: make proof"]
fn a_neighbour_waits_no_longer_than_for_a_small_io_max() {
    let disk = "--disk d=1G,ext4,16M/s --env LIMIT=900 --env IOMAX_SECONDS=400 \
         --append sysctl.kernel.hung_task_timeout_secs=0";
    let cases = "rename unlink append iomax weight 16";
    waits("waits-iomax", "debian:6.12", disk, cases);
}

/// What serves a tenant takes locks for it: threads of the NFS server, its own FUSE daemon.
#[test]
#[ignore = "five minutes: make proof"]
fn a_neighbour_does_not_wait_for_servers() {
    let options = "--disk d=1G,ext4,16M/s --driver nfsd --driver nfsv4 \
         --package nfs-kernel-server --package nfs-common --package fuse-overlayfs";
    let stacks = files(&["stacks.sh"]).join(" ");
    for on_top in ["nfs", "fuse"] {
        waits(
            &format!("waits-{on_top}"),
            "debian:6.12",
            &format!("{options} {stacks}"),
            &format!("{on_top} rename append bandwidth weight ceiling 4"),
        );
    }
}

/// Below one bound, children that do not pay.
#[test]
#[ignore = "five minutes: make proof"]
fn siblings_keep_their_part_of_a_bound() {
    let siblings = program("siblings");
    let options = format!(
        "--count-instructions --cpus 1 --memory 1G --timeout 30m --disk d=1G,ext4 --disk x=1G,xfs \
         --file {}:/siblings",
        siblings.display()
    );
    passes("debian:6.12", &words(&options), "siblings.sh", &[]);
}

#[test]
#[ignore = "four minutes: make proof"]
fn a_writer_may_lose_what_it_sleeps_on_6_1() {
    sleeping_writers("debian:6.1", "2", LOSSES);
}

#[test]
#[ignore = "four minutes: make proof"]
fn a_writer_may_lose_what_it_sleeps_on_7_3() {
    sleeping_writers("debian:7.3", "2", LOSSES_7_3);
}

#[test]
#[ignore = "five minutes: make proof"]
fn a_writer_may_lose_what_it_sleeps_on_6_12_rt() {
    let options = format!("{POISON} --memory 1G --timeout 60m");
    sleeping_writer("debian:6.12:rt", &options, "2", LOSSES);
}

#[test]
#[ignore = "five minutes: make proof"]
fn a_writer_may_lose_what_it_sleeps_on_7_3_rt() {
    let options = format!("{POISON} --memory 1G --timeout 60m");
    sleeping_writer("debian:7.3:rt", &options, "2", LOSSES_7_3);
}

#[test]
#[ignore = "an hour: make hostile"]
fn fifty_writers_may_lose_what_they_sleep_on_6_12() {
    sleeping_writers("debian:6.12", "50", LOSSES);
}

#[test]
#[ignore = "an hour: make hostile"]
fn fifty_writers_may_lose_what_they_sleep_on_6_1() {
    sleeping_writers("debian:6.1", "50", LOSSES);
}

#[test]
#[ignore = "an hour or more, and the debug kernel: make hostile"]
fn fifty_writers_may_lose_what_they_sleep_on_the_debug_kernel() {
    sleeping_writer("debug", "--memory 2G --timeout 240m", "50", LOSSES);
}

#[test]
#[ignore = "half an hour, and the debug kernel: make hostile"]
fn a_hostile_tenant_on_the_debug_kernel() {
    let options = "--tier 1G --tier 1G --timeout 120m";
    let arguments = ["600", "1", "tiers", "steady", "without", "stock"];
    hostile("hostile-debug", "debug", options, &arguments);
}

#[test]
#[ignore = "half an hour, and the kernel with KCSAN: make hostile"]
fn a_hostile_tenant_on_the_kcsan_kernel() {
    let options = "--tier 1G --tier 1G --timeout 120m";
    hostile(
        "hostile-kcsan",
        "debug-kcsan",
        options,
        &["600", "1", "tiers", "steady"],
    );
}

#[test]
fn knobs_take_what_the_policy_takes() {
    knob_fuzz("knob-fuzz-short", "4000");
}

#[test]
fn no_probe_is_missed() {
    missed("100", "10");
}

#[test]
fn a_livepatch_and_weir_exclude_each_other_on_6_12() {
    livepatch("debian:6.12");
}

#[test]
#[ignore = "two minutes: make proof"]
fn a_livepatch_and_weir_exclude_each_other_on_6_1() {
    livepatch("debian:6.1");
}

#[test]
fn a_pass_left_out_stays_out_beside_fexit() {
    beside("debian:6.12", &["kfunc,kretfunc"]);
}

#[test]
#[ignore = "some minutes: make proof"]
fn a_pass_left_out_stays_out_beside_bpftrace_on_6_12() {
    beside("debian:6.12", PROBES);
}

#[test]
#[ignore = "some minutes: make proof"]
fn a_pass_left_out_stays_out_beside_bpftrace_on_6_1() {
    beside("debian:6.1", PROBES);
}

#[test]
fn knobs_are_cleared_beside_a_livepatch() {
    cleared_beside_a_livepatch("debian:6.12");
}

#[test]
#[ignore = "a minute: make proof"]
fn knobs_are_cleared_beside_a_livepatch_on_6_1() {
    cleared_beside_a_livepatch("debian:6.1");
}

#[test]
#[ignore = "two minutes: make proof"]
fn five_thousand_sleepers_are_all_counted() {
    let sleepers = program("sleepers");
    let options = format!(
        "--memory 2G --count-instructions --disk d=1G,ext4,2M/s --file {}:/sleepers",
        sleepers.display()
    );
    passes("debian:6.12", &words(&options), "sleepers.sh", &["5000"]);
}

/// From 6.14 on programs may ask that what they write does not stay in the page cache.
#[test]
#[ignore = "a minute: make proof"]
fn writers_that_want_nothing_cached_are_held_and_explained() {
    let writer = program("dontcache");
    let options = format!(
        "--memory 1G --cpus 1 --count-instructions --disk d=1G,ext4,8M/s --file {}:/dontcache",
        writer.display()
    );
    passes("debian:7.3", &words(&options), "dontcache.sh", &[]);
}

#[test]
#[ignore = "some minutes: make proof"]
fn knobs_take_what_the_policy_takes_a_million_times() {
    knob_fuzz("knob-fuzz-long", "1000000");
}

#[test]
#[ignore = "some minutes: make proof"]
fn no_probe_is_missed_under_a_thousand_writers() {
    missed("1000", "120");
}

#[test]
#[ignore = "three quarters of an hour, and the debug kernel: make chaos"]
fn chaos_on_the_debug_kernel() {
    chaos("debug", &["1800"]);
}

#[test]
#[ignore = "two minutes: make proof"]
fn chaos_on_a_stock_kernel() {
    chaos("debian:6.12", &["60"]);
}

#[test]
#[ignore = "two minutes: make proof"]
fn a_tenant_that_shuffles_gets_no_more() {
    let options = "--count-instructions --disk d=1G,ext4,4M/s --disk u=2G,ext4,64M/s";
    passes("debian:6.12", &words(options), "weight-evaded.sh", &[]);
}

#[test]
#[ignore = "ten minutes: make hostile"]
fn a_neighbour_notices_no_hostile_tenant() {
    let built = program("hostile");
    let own = built.with_file_name("hostile-beside");
    std::fs::rename(&built, &own).expect("keeping the program");
    let options = format!(
        "--count-instructions --memory 1500M --timeout 100m --disk d=1G,none,4M/s \
         --file {}:/hostile",
        own.display()
    );
    passes("debian:6.12", &words(&options), "neighbour.sh", &["60"]);
}

#[test]
#[ignore = "some minutes: make proof"]
fn a_tenants_weights_stay_within_the_tenant() {
    passes(
        "debian:6.12",
        &words("--cpus 1 --count-instructions --memory 1G --disk d=1G,ext4,6M/s"),
        "tenant-weight.sh",
        &["200"],
    );
}
