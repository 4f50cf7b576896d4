// SPDX-License-Identifier: GPL-2.0-only
//! Jobs that allocate, swap, the LRU and the agent that limits allocators: what a scenario says,
//! every refusal by its full text, and which place runs it.

use scenario::model::{Filesystem, Pattern};
use scenario::place::{Place, refused_keys};

/// Line numbers in the cases count from the `title` line = 1.
const VALID: &str = r#"title = "a light allocator"
[host]
memory = "640M"
cpus = 1
lru_gen = false
[[disk]]
name = "data"
filesystem = "ext4"
[[disk]]
name = "swap"
filesystem = "swap"
[agent]
reclaim = true
[[job]]
name = "light"
memory = { pattern = "fault", size = "2M", rate = 20 }
[[job]]
name = "hog"
memory = { pattern = "churn", size = "200M", huge_pages = true }
[[job]]
name = "writer"
fio = { rw = "write", size = "1M" }
[[phase]]
name = "all"
jobs = ["light", "hog", "writer"]
duration = "4s"
[[expect]]
metric = "weir.all.light.map_p99_ns"
at_most = "0.5 * stock"
[[expect]]
metric = "stock.all.host.pgscan_direct"
at_least = 1
"#;

#[track_caller]
fn check(from: &str, to: &str, complaint: &str) {
    assert!(VALID.contains(from), "not there: {from}");
    let got = scenario::parse("t", "t.toml", &VALID.replacen(from, to, 1));
    assert_eq!(got.expect_err("must be refused").to_string(), complaint);
}

#[test]
fn allocating_jobs_swap_and_the_lru_are_read() {
    let scenario = scenario::parse("t", "t.toml", VALID).expect("valid");
    assert_eq!(scenario.host.lru_gen, Some(false));
    assert_eq!(scenario.disks[1].filesystem, Filesystem::Swap);
    assert!(scenario.agent.expect("there is one").reclaim);
    let patterns: Vec<_> = scenario
        .jobs
        .iter()
        .filter_map(|job| Some(job.memory.as_ref()?.pattern))
        .collect();
    assert_eq!(patterns, [Pattern::Fault, Pattern::Churn]);
    // The only disk that can have files.
    assert_eq!(scenario.jobs[2].disk, "data");
}

#[test]
fn what_an_allocating_job_cannot_have_is_refused() {
    check(
        "rate = 20",
        "threads = 2",
        "t.toml:16: key `job[0].memory.threads`: has no meaning for a job that allocates: leave it out",
    );
    check(
        "rate = 20",
        "hot = \"2M\"",
        "t.toml:16: key `job[0].memory.hot`: only has a meaning with `pattern = \"hotcold\"`",
    );
    check(
        "fio = {",
        "disk = \"swap\"\nfio = {",
        "t.toml:22: key `job[2].disk`: no disk `swap` is defined, known: data",
    );
    check(
        "filesystem = \"swap\"",
        "filesystem = \"swap\"\nencrypted = true",
        "t.toml:12: key `disk[1].encrypted`: swap space does not take this key: leave it out",
    );
    check(
        "light.map_p99_ns",
        "writer.map_p99_ns",
        "t.toml:28: key `expect[0].metric`: `weir.all.writer.map_p99_ns` cannot be measured: no metric `map_p99_ns` of a job, did you mean `clat_p99_ns`? known: bw_bytes, clat_max_ns, clat_p50_ns, clat_p999_ns, clat_p99_ns, iops, jain, spread_pct, sync_max_ns, sync_p50_ns, sync_p99_ns, total_ios",
    );
}

#[test]
fn who_honours_reclaim_says_so() {
    let scenario = scenario::parse("t", "t.toml", VALID).expect("valid");
    let keys = |place| -> Vec<String> {
        let refused = refused_keys(&scenario, place).into_iter();
        refused.map(|refusal| refusal.key).collect()
    };
    assert_eq!(keys(Place::Lab), [""; 0]);
    // A scenario changes no other program's reclaim; which filesystem it is, the host checks.
    assert_eq!(keys(Place::Host), ["host.lru_gen", "agent"]);
    assert_eq!(
        keys(Place::Twin),
        ["agent.reclaim", "job[1].memory.huge_pages"],
        "what of the rest it models it tells itself"
    );
}
