// SPDX-License-Identifier: GPL-2.0-only
//! `memory.writeback_bytes` on the twin: by the module's own policy, so what a subtree has in flight
//! is no more than its window, and what follows for others on the disk.

use scenario::model::Arm;
use std::collections::BTreeMap;

/// Bytes per second of the disk.
const DISK: f64 = 16.0 * 1_048_576.0;
const KIB: f64 = 1024.0;

/// Runs 20 s of jobs, (cgroup, fio options), with windows on cgroups and a disk of 16 MiB/s; the
/// figures of arm weir.
fn run(filesystem: &str, jobs: &[(&str, &str)], windows: &[(&str, &str)]) -> Figures {
    let mut text = format!(
        "title = \"t\"\n[host]\nmemory = \"2G\"\ncpus = 1\n\
         sysctl = {{ \"vm.dirty_bytes\" = \"64M\", \"vm.dirty_background_bytes\" = \"32M\" }}\n\
         [[disk]]\nname = \"d\"\nfilesystem = \"{filesystem}\"\n\
         write_bandwidth = \"16M/s\"\nread_bandwidth = \"16M/s\"\n"
    );
    for path in ["p", "p/a", "p/b", "q"] {
        text += &format!("[cgroup.\"{path}\"]\n");
        for (_, window) in windows.iter().filter(|(of, _)| of == &path) {
            let knob = match window.contains("wbps") {
                true => "io.max",
                false => "memory.writeback_bytes",
            };
            text += &format!("\"{knob}\" = \"{window}\"\n");
        }
    }
    let name = |path: &str| path.replace('/', "_");
    for (path, fio) in jobs {
        text += &format!(
            "[[job]]\nname = \"{}\"\ncgroup = \"{path}\"\nfio = {{ {fio} }}\n",
            name(path)
        );
    }
    let names: Vec<String> = (jobs.iter())
        .map(|(path, _)| format!("\"{}\"", name(path)))
        .collect();
    text += &format!(
        "[[phase]]\nname = \"p\"\njobs = [{}]\nduration = \"20s\"\n",
        names.join(", ")
    );
    let scenario = scenario::parse("t", "t.toml", &text)
        .unwrap_or_else(|problems| panic!("{problems}\n{text}"));
    let outcome =
        twin::run(&scenario, Arm::Weir, 1).unwrap_or_else(|refusals| panic!("{refusals:?}"));
    let values = outcome.metrics.into_iter();
    Figures(values.map(|(name, figure)| (name, figure.value)).collect())
}

struct Figures(BTreeMap<String, f64>);

impl Figures {
    fn of(&self, metric: &str) -> f64 {
        let found = self.0.get(&format!("weir.p.{metric}"));
        *found.unwrap_or_else(|| panic!("{metric} of {:?}", self.0.keys()))
    }

    /// Part of the disk's rate.
    fn disk(&self) -> f64 {
        self.of("host.disk_bw_bytes") / DISK
    }

    /// KiB that are in flight at the median.
    fn in_flight(&self) -> f64 {
        self.of("host.writeback_median_bytes") / KIB
    }
}

const FLOOD: &str =
    "rw = \"write\", bs = \"64k\", size = \"900m\", overwrite = 0, fallocate = \"none\"";
const SYNCS: &str = "rw = \"write\", bs = \"4k\", rate = \"80k\", size = \"16m\", fdatasync = 1, overwrite = 0, fallocate = \"none\"";

/// The queue holds 32 requests of 256 KiB without one.
#[test]
fn no_more_is_in_flight_than_the_window() {
    let without = run("ext4", &[("p/a", FLOOD)], &[]);
    assert!(
        without.in_flight() > 7.0 * 1024.0,
        "{}",
        without.in_flight()
    );
    for (window, kib) in [("1M", 1024.0), ("256K", 256.0), ("128K", 128.0)] {
        let with = run("ext4", &[("p/a", FLOOD)], &[("p/a", window)]);
        let in_flight = with.in_flight();
        assert!(in_flight <= kib && in_flight >= kib / 2.0, "{in_flight}");
        assert!(with.disk() > 0.97, "{}", with.disk());
        // The cgroup keeps its dirty pages.
        let dirty = |figures: &Figures| figures.of("cgroup/p/a.dirty_median_bytes");
        assert!(dirty(&with) > 0.95 * dirty(&without), "{}", dirty(&with));
        assert!(with.of("cgroup/p/a.nr_writeback_held") > 50.0);
    }
}

/// Its part is the window, so nothing is in flight while the flusher is woken.
#[test]
fn the_least_window_costs_some_of_the_disk() {
    let figures = run("ext4", &[("p/a", FLOOD)], &[("p/a", "64K")]);
    assert!(figures.in_flight() <= 64.0, "{}", figures.in_flight());
    assert!((0.4..0.95).contains(&figures.disk()), "{}", figures.disk());
}

/// xfs writes folios of 128 KiB whole where 64 KiB are asked for.
#[test]
fn a_part_is_no_less_than_a_folio() {
    let flood = FLOOD.replace("64k", "128k");
    let figures = run("xfs", &[("p/a", &flood)], &[("p/a", "128K")]);
    assert!((0.4..0.95).contains(&figures.disk()), "{}", figures.disk());
    let figures = run("xfs", &[("p/a", &flood)], &[("p/a", "256K")]);
    assert!(figures.disk() > 0.97, "{}", figures.disk());
}

/// Its data and the journal's blocks wait for a window each, at most; without, for the queue.
#[test]
fn fdatasync_waits_for_windows_instead_of_the_queue() {
    let jobs = [("p/a", FLOOD), ("q", SYNCS)];
    let p99_ms = |figures: &Figures| figures.of("q.sync_p99_ns") / 1e6;
    let without = run("ext4", &jobs, &[]);
    assert!(p99_ms(&without) > 900.0, "{}", p99_ms(&without));
    let with = run("ext4", &jobs, &[("p/a", "256K")]);
    assert!(p99_ms(&with) < 50.0, "{}", p99_ms(&with));
    assert!(with.disk() > 0.95, "{}", with.disk());
    assert!(with.of("q.iops") > 19.9, "{}", with.of("q.iops"));
}

/// Pages that a child's `io.max` holds are overtaken, and take no room of its sibling.
#[test]
fn pages_held_above_the_disk_take_no_window_of_a_sibling() {
    let windows = [("p", "256K"), ("p/a", "d wbps=8K")];
    let alone = run("ext4", &[("p/b", FLOOD)], &windows[..1]);
    let beside = run("ext4", &[("p/a", FLOOD), ("p/b", FLOOD)], &windows);
    let written = |figures: &Figures| figures.of("cgroup/p/b.disk_bw_bytes");
    assert!(
        written(&beside) > 0.9 * written(&alone),
        "{} of {}",
        written(&beside),
        written(&alone)
    );
}

/// Reads have a line of their own on this disk, but wait for one of its 32 tags.
#[test]
fn a_reader_waits_for_a_tag_without_a_window_only() {
    let reader = "rw = \"randread\", bs = \"4k\", rate = \"200k\", size = \"256m\"";
    let jobs = [("p/a", FLOOD), ("q", reader)];
    let p99_ms = |windows| run("ext4", &jobs, windows).of("q.clat_p99_ns") / 1e6;
    let (without, with) = (p99_ms(&[]), p99_ms(&[("p/a", "256K")]));
    assert!(without > 30.0 && with < 1.0, "{without}, {with}");
}

/// A window of a subtree is one for all below it, and a narrower one inside it counts too.
#[test]
fn a_subtree_has_one_window() {
    let jobs = [("p/a", FLOOD), ("p/b", FLOOD)];
    let in_flight = |windows| run("ext4", &jobs, windows).in_flight();
    // Others' figures are a tick old, so each may be a part beyond.
    let one = in_flight(&[("p", "256K")]);
    assert!(one <= 256.0 + 64.0, "{one}");
    let each = in_flight(&[("p/a", "256K"), ("p/b", "256K")]);
    assert!(each > 256.0 + 64.0 && each <= 512.0, "{each}");
    let narrow = run("ext4", &jobs, &[("p", "256K"), ("p/a", "64K")]);
    let written = |path: &str| narrow.of(&format!("cgroup/{path}.disk_bw_bytes"));
    assert!(written("p/b") > 2.0 * written("p/a"), "{}", written("p/a"));
    assert!(narrow.in_flight() <= 256.0 + 64.0, "{}", narrow.in_flight());
}

/// Each flusher's part of what is in flight is its part of the disk.
#[test]
fn windows_divide_the_disk() {
    let jobs = [("p/a", FLOOD), ("p/b", FLOOD)];
    let figures = run("ext4", &jobs, &[("p/a", "384K"), ("p/b", "128K")]);
    let written = |path: &str| figures.of(&format!("cgroup/{path}.disk_bw_bytes"));
    let ratio = written("p/a") / written("p/b");
    assert!((2.6..3.4).contains(&ratio), "{ratio}");
    assert!(figures.disk() > 0.97, "{}", figures.disk());
}
