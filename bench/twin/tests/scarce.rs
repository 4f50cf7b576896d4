// SPDX-License-Identifier: GPL-2.0-only
//! Memory: what happens where little is free, held against what follows by hand.

use scenario::model::{Arm, Scenario};

/// Of 1 GiB 896 MiB are dirtyable and 66 kept in reserve. A reader fills the cache with `cached`
/// MiB; then another task wants twice `held`.
fn load(cached: u32, held: u32, limit: u32, (disk, twin): (&str, &str)) -> Scenario {
    let text = format!(
        r#"
title = "t"
[host]
memory = "1G"
cpus = 2
sysctl = {{ "vm.dirty_bytes" = "{limit}M", "vm.dirty_background_bytes" = "{}M" }}
[twin]
page = "2us"
{twin}
[[disk]]
name = "d"
write_bandwidth = "{disk}"
filesystem = "xfs"
[cgroup.quiet]
[cgroup.hog]
[[job]]
name = "fills"
fio = {{ rw = "write", bs = "1m", size = "{cached}m", invalidate = 0, rate = "100m", runtime = {} }}
[[job]]
name = "quiet"
cgroup = "quiet"
fio = {{ rw = "write", bs = "4k", size = "4k", invalidate = 0, rate = "40k" }}
[[job]]
name = "hog"
cgroup = "hog"
fio = {{ ioengine = "null", rw = "write", bs = "{held}m", iodepth = 2, size = "{held}m", thinktime = "1s", runtime = 10 }}
[[phase]]
name = "p"
jobs = ["fills", "quiet", "hog"]
duration = "20s"
delay = {{ hog = "10s" }}
"#,
        limit / 2,
        cached / 100
    );
    scenario::parse("t", "t.toml", &text).unwrap_or_else(|problems| panic!("{problems}"))
}

fn figures(scenario: &Scenario) -> impl Fn(&str) -> f64 + use<> {
    let outcome = twin::run(scenario, Arm::Stock, 1).unwrap_or_else(|why| panic!("{why:?}"));
    move |name| outcome.metrics[&format!("stock.p.{name}")].value
}

#[test]
fn who_finds_enough_free_pays_nothing() {
    let of = figures(&load(200, 100, 64, ("4G/s", "")));
    for name in ["kswapd_scanned", "allocstalls", "oom_kills", "mem_some_pct"] {
        assert_eq!(of(&format!("host.{name}")), 0.0, "{name}");
    }
    assert_eq!(of("hog.iops"), 1.0, "a second of thought after each");
}

/// 700 MiB are clean in the cache, 400 are wanted of the 258 that are free: kswapd takes them, and
/// a little more, and is all that is stalled: a microsecond for each page.
#[test]
fn clean_pages_are_kswapds_to_take() {
    let of = figures(&load(700, 200, 64, ("4G/s", "")));
    let mib = of("host.kswapd_scanned") / 256.0;
    assert!((142.0..142.0 + 66.0).contains(&mib), "{mib} MiB");
    assert_eq!((of("host.allocstalls"), of("host.oom_kills")), (0.0, 0.0));
    let (some, full) = (of("host.mem_some_pct"), of("host.mem_full_pct"));
    assert!(
        full <= some && (0.01..2.0).contains(&some),
        "{some} and {full} %"
    );
    assert_eq!(of("cgroup/quiet.mem_some_pct"), 0.0, "kswapd is nobody's");
}

/// Two thirds of the host are dirty, on a disk of 4 MiB/s, as a task wants 600 MiB of the 318 that
/// it may have at once: it gets what is written meanwhile, and waits.
#[test]
fn who_finds_only_dirty_pages_waits_for_them_to_be_written() {
    let of = figures(&load(600, 300, 900, ("4M/s", "")));
    assert!(of("host.allocstalls") > 100.0, "{}", of("host.allocstalls"));
    assert_eq!(of("host.oom_kills"), 0.0);
    let (hog, host) = (of("cgroup/hog.mem_some_pct"), of("host.mem_some_pct"));
    assert!((40.0..=51.0).contains(&hog), "nearly ten of 20 s: {hog} %");
    assert!(of("cgroup/hog.mem_full_pct") > hog - 0.1, "all it does");
    assert!(host >= 0.9 * hog, "{host} %");
    assert_eq!(of("hog.total_ios"), 0.0);
}

/// The same as the disk stands still: nothing is written, and sixteen looks later a task is killed.
#[test]
fn who_waits_in_vain_is_killed() {
    let still = "stall = \"10s\"\nstall_every = \"11s\"";
    let of = figures(&load(600, 300, 900, ("4M/s", still)));
    assert_eq!(of("host.oom_kills"), 1.0);
    assert!(of("host.allocstalls") >= 16.0);
    assert_eq!(of("hog.total_ios"), 0.0);
}
