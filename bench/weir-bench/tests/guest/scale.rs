// SPDX-License-Identifier: GPL-2.0-only
//! What the beat takes among many cgroups, removed ones, and possible CPUs: `kmod/tests/scale.sh`.
//!
//! A cgroup takes 1.8 KiB of each possible CPU's memory: 60,000 of them with 256 would take 27 GiB.
//! So one guest has all the cgroups, and another all the CPUs. The work is the product of both.

use crate::common;
use crate::module::TESTS;
use crate::proof::program;

fn beat_is_bounded(name: &str, possible_cpus: &str, memory: &str, cgroups: &[&str]) {
    let built = program("scale");
    // Each test compiles its own: they run side by side.
    let own = built.with_file_name(name);
    std::fs::rename(&built, &own).expect("keeping the program");
    let scale = format!("{}:/scale", own.display());
    let tap = format!("{TESTS}/tap.sh:/tap.sh");
    let script = format!("{TESTS}/scale.sh");
    let words = "--kernel debian:6.12 --cpus 1 --count-instructions --timeout 120m \
         --disk d=256M,ext4 --disk v=64M,vfat";
    let mut args: Vec<&str> = words.split_whitespace().collect();
    args.extend(["--possible-cpus", possible_cpus, "--memory", memory]);
    args.extend(["--file", &tap, "--file", &scale, &script]);
    args.extend_from_slice(cgroups);
    common::passes(&args);
}

#[test]
fn the_beat_is_bounded() {
    beat_is_bounded("scale-short", "256", "1G", &["300", "500", "10"]);
}

#[test]
#[ignore = "a quarter of an hour: make scale"]
fn the_beat_is_bounded_among_60000_cgroups() {
    beat_is_bounded("scale-cgroups", "8", "3500M", &["10000", "50000"]);
}

#[test]
#[ignore = "ten minutes, and 9 GiB of memory: make scale"]
fn the_beat_is_bounded_among_256_cpus() {
    beat_is_bounded("scale-cpus", "256", "8500M", &["10000", "4000"]);
}
