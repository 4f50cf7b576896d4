// SPDX-License-Identifier: GPL-2.0-only
//! Slices of a machine that is laid out in a directory: real readers on files with real contents.

use observe::interval::{CgroupRow, Interval};
use observe::watch::IntervalWatch;
use std::fs;
use std::path::Path;

const MIB: u64 = 1 << 20;

fn write(root: &Path, file: &str, text: &str) {
    let path = root.join(file);
    fs::create_dir_all(path.parent().expect("has one")).expect("made");
    fs::write(path, text).expect("written");
}

/// Files of a cgroup that holds so many dirty bytes, has written so many, and is bounded by `max`.
fn cgroup(root: &Path, path: &str, dirty: u64, written: u64, max: &str) {
    let file = |name: &str, text: &str| write(root, &format!("sys/fs/cgroup/{path}/{name}"), text);
    file(
        "memory.stat",
        &format!(
            "anon 4096\nfile_dirty {dirty}\nfile_writeback 0\ninactive_file 20971520\nactive_file 0\n"
        ),
    );
    file(
        "io.stat",
        &format!("254:0 rbytes=0 wbytes={written} rios=0 wios=9 dbytes=0 dios=0\n"),
    );
    file("memory.max", max);
    file("memory.current", "20971520\n");
}

/// A host with 32 MiB for dirty pages and 1000 MiB that could be.
fn machine() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("made");
    let root = dir.path();
    write(
        root,
        "sys/fs/cgroup/cgroup.controllers",
        "cpu io memory pids\n",
    );
    write(
        root,
        "proc/vmstat",
        "nr_dirty 7000\nnr_writeback 200\nnr_dirty_threshold 8192\nnr_dirty_background_threshold 4096\n",
    );
    write(root, "proc/sys/vm/dirty_bytes", "33554432\n");
    write(
        root,
        "proc/zoneinfo",
        "Node 0, zone   Normal\n  pages free     256000\n",
    );
    write(
        root,
        "proc/self/mountinfo",
        "32 1 254:0 / /mnt/d rw,relatime - ext4 /dev/vda rw\n",
    );
    write(root, "sys/class/bdi/254:0/max_ratio", "100\n");
    disk(root, 0);
    cgroup(root, "", 30 * MIB, 0, "");
    cgroup(root, "a", 28 * MIB, 0, "max\n");
    cgroup(root, "a/db", 4 * MIB, 0, "56623104\n");
    dir
}

fn disk(root: &Path, sectors: u64) {
    write(
        root,
        "proc/diskstats",
        &format!(" 254       0 vda 10 0 0 5 20 0 {sectors} 9 0 33 14 0 0 0 0\n"),
    );
}

fn row<'a>(interval: &'a Interval, cgroup: &str) -> &'a CgroupRow {
    let mut rows = interval.cgroups.iter();
    rows.find(|row| row.cgroup == cgroup).expect("is there")
}

#[test]
fn what_is_held_and_what_went_in_and_out() {
    let machine = machine();
    let root = machine.path();
    let mut watch = IntervalWatch::start(root).expect("begun");
    cgroup(root, "a/db", 6 * MIB, 3 * MIB, "56623104\n");
    disk(root, 6 * 2048);
    let interval = Interval::from_observation(&watch.end_slice().expect("seen"));
    let db = row(&interval, "/a/db");
    let in_slice = |rate: Option<f64>| (rate.expect("known") * interval.seconds).round() as u64;
    assert_eq!(
        (db.dirty_bytes, db.writeback_bytes),
        (Some(6 * MIB), Some(0))
    );
    assert_eq!(in_slice(db.out_bytes_per_second), 3 * MIB);
    assert_eq!(in_slice(db.in_bytes_per_second), 5 * MIB);
    let a = row(&interval, "/a");
    assert_eq!(in_slice(a.in_bytes_per_second), 0);
    // 3.2 % of its 20 MiB of cache and the 34 MiB that it may still use; what has no limit may use
    // all.
    let limit = db.limit_bytes.expect("known") as f64 / MIB as f64;
    assert!((limit - 54.0 * 0.032).abs() < 0.01, "{limit}");
    let limit = a.limit_bytes.expect("known") as f64 / MIB as f64;
    assert!((30.0..32.0).contains(&limit), "{limit}");
    assert_eq!(row(&interval, "/").limit_bytes, Some(32 * MIB));
    assert_eq!(interval.host.freerun_bytes, 24 * MIB);
    // Pauses are not seen on a machine of files, and without the module nothing else counts them.
    assert_eq!(db.throttled_seconds_per_second, None);
    let device = &interval.devices[0];
    assert_eq!(device.disk.as_deref(), Some("vda"));
    assert_eq!(in_slice(Some(device.out_bytes_per_second)), 6 * MIB);
    assert_eq!(device.dirty_bytes, None, "debugfs is not mounted");

    cgroup(root, "a/db", 0, 3 * MIB, "56623104\n");
    let interval = Interval::from_observation(&watch.end_slice().expect("seen"));
    let db = row(&interval, "/a/db");
    assert_eq!(
        (db.in_bytes_per_second, db.out_bytes_per_second),
        (Some(0.0), Some(0.0)),
        "deleted, not written"
    );
}

#[test]
fn with_the_module_knobs_and_its_counts_are_shown() {
    let machine = machine();
    let root = machine.path();
    let stat = |usec| {
        let text =
            format!("floor 8388608\nceiling 4194304\nthrottled_usec {usec}\nweight_held_usec 0\n");
        write(root, "sys/fs/cgroup/a/memory.dirty_stat", &text);
        write(root, "sys/fs/cgroup/a/db/memory.dirty_stat", &text);
    };
    stat(5_000_000);
    write(root, "sys/fs/cgroup/a/memory.dirty_min", "8388608\n");
    write(root, "sys/fs/cgroup/a/db/memory.dirty_min", "0\n");
    write(root, "sys/kernel/weir/state", "active\n");
    write(root, "sys/kernel/debug/bdi/254:0/wb_stats", "");
    write(
        root,
        "sys/kernel/debug/bdi/254:0/stats",
        "BdiWriteback: 4 kB\nBdiReclaimable: 1024 kB\nBdiDirtyThresh: 2048 kB\nBdiDirtied: 0 kB\n",
    );
    let mut watch = IntervalWatch::start(root).expect("begun");
    stat(6_000_000);
    let interval = Interval::from_observation(&watch.end_slice().expect("seen"));
    let db = row(&interval, "/a/db");
    assert_eq!(
        (db.floor_bytes, db.ceiling_bytes),
        (Some(8 * MIB), Some(4 * MIB)),
        "those of the cgroup above"
    );
    let throttled = db.throttled_seconds_per_second.expect("counted") * interval.seconds;
    assert_eq!((throttled * 1e6).round(), 1e6);
    assert_eq!(interval.weir.as_deref(), Some("active"));
    assert_eq!(interval.devices[0].limit_bytes, Some(2 * MIB));
}

#[test]
fn cgroups_come_and_go() {
    let machine = machine();
    let root = machine.path();
    let mut watch = IntervalWatch::start(root).expect("begun");
    // In this order: unlike the kernel, a filesystem gives a new directory the number of one that
    // is gone.
    cgroup(root, "new", MIB, MIB, "max\n");
    fs::remove_dir_all(root.join("sys/fs/cgroup/a/db")).expect("removed");
    let interval = Interval::from_observation(&watch.end_slice().expect("seen"));
    assert!(interval.cgroups.iter().all(|row| row.cgroup != "/a/db"));
    let new = row(&interval, "/new").in_bytes_per_second.expect("known");
    assert_eq!((new * interval.seconds).round() as u64, 2 * MIB);
}
