// SPDX-License-Identifier: GPL-2.0-only
//! Jobs that map memory, and who waits for it, held against what follows by hand.

use scenario::model::{Arm, Scenario};
use std::fmt::Write as _;

/// 640 MiB on one CPU, a swap disk of 64 MiB/s. A light task maps 2 MiB 20 times a second, beside
/// `hogs` that each go through `size` MiB, and `writers` that rewrite 50 MiB.
fn load(kernel: &str, hogs: u32, size: u32, writers: u32) -> Scenario {
    let mut text = format!(
        r#"
title = "t"
[host]
memory = "640M"
cpus = 1
{kernel}
[[disk]]
name = "data"
write_bandwidth = "32M/s"
filesystem = "ext4"
[[disk]]
name = "swap"
size = "1G"
write_bandwidth = "64M/s"
read_bandwidth = "64M/s"
filesystem = "swap"
[[job]]
name = "light"
memory = {{ pattern = "fault", size = "2M", rate = 20 }}
[[job]]
name = "writers"
disk = "data"
fio = {{ rw = "randwrite", bs = "4k", size = "50m", numjobs = {} }}
"#,
        writers.max(1)
    );
    let mut jobs = String::from("\"light\"");
    if writers > 0 {
        jobs.push_str(", \"writers\"");
    }
    for hog in 0..hogs {
        write!(jobs, ", \"hog{hog}\"").expect("a string");
        write!(
            text,
            "[[job]]\nname = \"hog{hog}\"\nmemory = {{ pattern = \"churn\", size = \"{size}M\" }}\n"
        )
        .expect("a string");
    }
    if writers == 0 {
        text.push_str("[[phase]]\nname = \"q\"\njobs = [\"writers\"]\nduration = \"1s\"\n");
    }
    write!(
        text,
        "[[phase]]\nname = \"p\"\njobs = [{jobs}]\nduration = \"8s\"\n"
    )
    .expect("a string");
    scenario::parse("t", "t.toml", &text).unwrap_or_else(|problems| panic!("{problems}\n{text}"))
}

fn figures(scenario: &Scenario) -> impl Fn(&str) -> f64 + use<> {
    let outcome = twin::run(scenario, Arm::Stock, 1).unwrap_or_else(|why| panic!("{why:?}"));
    move |name| outcome.metrics[&format!("stock.p.{name}")].value
}

/// 512 first touches of 1.7 us are 0.87 ms, and 40 MiB a second.
#[test]
fn who_finds_free_pages_waits_for_nothing() {
    let of = figures(&load("", 0, 0, 0));
    assert_eq!(
        of("light.fault_p99_ns"),
        1_700.0,
        "no longer than the longest"
    );
    assert_eq!(of("light.map_max_ns"), 512.0 * 1_700.0);
    assert_eq!(of("light.alloc_bw"), f64::from(40 << 20));
    for name in ["pgscan_direct", "pgscan_kswapd", "pswpout", "allocstalls"] {
        assert_eq!(of(&format!("host.{name}")), 0.0, "{name}");
    }
}

/// 600 MiB that are used over and over on a host with some 500: what is taken was swapped out, and
/// each page that comes back was there before.
#[test]
fn what_does_not_fit_goes_to_the_swap_disk_and_back() {
    let of = figures(&load("", 3, 200, 0));
    let (written, taken) = (of("host.pswpout"), of("host.pgsteal_kswapd"));
    let taken = taken + of("host.pgsteal_direct");
    assert!(
        written > 20_000.0 && taken >= 0.9 * written,
        "{written}, {taken}"
    );
    assert_eq!(of("host.pswpin"), of("host.workingset_refault_anon"));
    assert_eq!(of("host.nr_vmscan_immediate_reclaim"), 0.0, "no files");
    assert_eq!(of("host.oom_kills"), 0.0);
    let bandwidth = of("disk/swap.bw_bytes");
    assert!(bandwidth <= 64.0 * 1024.0 * 1024.0, "{bandwidth}");
    assert!(of("light.fault_worst_ns") > 10.0 * 1_700.0);
}

/// Without enough swap a task is killed, and the others go on.
#[test]
fn what_fits_nowhere_is_killed() {
    let text = "[twin]\nanonymous = \"300M\"\n";
    let mut scenario = load(text, 6, 300, 0);
    scenario.disks[1].size_bytes = 64 << 20;
    let of = figures(&scenario);
    assert!(of("host.oom_kills") >= 1.0);
}

/// Up to 5.15 tasks that meet dirty pages only go on looking; the series has them sleep.
#[test]
fn the_series_has_tasks_sleep_instead_of_scan() {
    let of = |kernel: &str| {
        figures(&load(
            &format!("[twin]\nreclaim = \"{kernel}\"\n"),
            3,
            200,
            2,
        ))
    };
    let (waits, throttles) = (of("5.14"), of("5.16-rc"));
    let scanned = |of: &dyn Fn(&str) -> f64| of("host.pgscan_direct");
    assert!(scanned(&throttles) < 0.3 * scanned(&waits));
    assert_eq!(
        waits("host.throttled_writeback"),
        waits("host.throttled_writeback_zero"),
        "wait_iff_congested() does not sleep"
    );
    let slept = throttles("host.throttled_writeback") - throttles("host.throttled_writeback_zero");
    assert!(slept > 100.0, "{slept}");
    assert!(throttles("host.reclaim_cpu_pct") < waits("host.reclaim_cpu_pct"));
}

/// The model checks itself at every event: no page is lost, whichever kernel reclaims.
#[test]
fn pages_are_conserved() {
    let kernels = [
        "",
        "lru_gen = false\n",
        "[twin]\nreclaim = \"5.14\"\n",
        "[twin]\nreclaim = \"5.16-rc\"\n",
    ];
    for (number, kernel) in kernels.into_iter().enumerate() {
        for (hogs, size, writers, swap) in [(1, 500, 3, 1024), (5, 90, 1, 300), (9, 70, 4, 40)] {
            let mut scenario = load(kernel, hogs, size, writers);
            scenario.disks[1].size_bytes = swap << 20;
            let outcome = twin::run(&scenario, Arm::Stock, number as u64 + 1);
            outcome.unwrap_or_else(|why| panic!("{why:?}"));
        }
    }
}

#[test]
fn what_is_not_modelled_is_refused() {
    let mut scenario = load("lru_gen = true\n[twin]\nreclaim = \"5.14\"\n", 1, 100, 1);
    scenario.twin.fails = Some(3);
    let why = twin::run(&scenario, Arm::Stock, 1).expect_err("refused");
    let keys: Vec<&str> = why.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["host.lru_gen", "twin.fails"]);
    let mut scenario = load("", 0, 0, 1);
    scenario.jobs.remove(0);
    scenario.phases[0].jobs.remove(0);
    let why = twin::run(&scenario, Arm::Stock, 1).expect_err("refused");
    assert_eq!(why[0].0, "disk[1].filesystem");
}
