// SPDX-License-Identifier: GPL-2.0-only
//! Memory of several speeds: what a scenario says about it, and every refusal by its full text.

use scenario::model::{Agent, Backing, JobMemory, Pattern, Scenario};

/// Line numbers in the cases count from the `title` line = 1.
const VALID: &str = r#"title = "the last comes late"
[host]
cpus = 2
weir = { tiers = "0;1", tier_ratio = 0 }
[[tier]]
name = "dram"
size = "1280M"
latency = "80ns"
bandwidth = "200G/s"
[[tier]]
name = "cxl"
size = "384M"
latency = "250ns"
bandwidth = "50G/s"
[agent]
engine = "move_pages"
lend = false
[cgroup.victim]
"memory.max" = "345M"
"memory.toptier_ratio" = "default"
[[job]]
name = "victim"
cgroup = "victim"
memory = { size = "340M", pattern = "hotcold", hot = "156M", hot_reads = "80%", threads = 2 }
[[phase]]
name = "all"
jobs = ["victim"]
duration = "45s"
[[expect]]
metric = "cgroup/victim.settle_ns"
arm = "weir"
phase = "all"
at_most = "30s"
"#;

fn parse(text: &str) -> Scenario {
    scenario::parse("t", "t.toml", text).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Replaces `from` (which must be there) by `to` and compares the complaints, one per line.
#[track_caller]
fn check(from: &str, to: &str, complaints: &str) {
    assert!(VALID.contains(from), "not there: {from}");
    let got = scenario::parse("t", "t.toml", &VALID.replacen(from, to, 1))
        .expect_err("must be refused")
        .to_string();
    let wanted = complaints.trim();
    assert_eq!(got, wanted, "\n--- got\n{got}\n--- wanted\n{wanted}");
}

#[test]
fn tiers_jobs_and_the_agent_are_read() {
    let scenario = parse(VALID);
    assert_eq!(scenario.host.memory_bytes, 1664 << 20);
    assert_eq!(scenario.host.weir["tiers"], "0;1");
    let cxl = &scenario.tiers[1];
    assert_eq!(
        (cxl.name.as_str(), cxl.latency_ns, cxl.bandwidth),
        ("cxl", 250, 50 << 30)
    );
    assert_eq!(
        scenario.agent,
        Some(Agent {
            engine: "move_pages".into(),
            lend: false,
            interval_ms: 1000,
            reclaim: false,
            policy: String::new(),
        })
    );
    let victim = &scenario.cgroups["victim"];
    assert_eq!(victim.knobs["memory.toptier_ratio"], "default");
    assert_eq!(
        scenario.jobs[0].memory,
        Some(JobMemory {
            size_bytes: 340 << 20,
            backing: Backing::Anonymous,
            pattern: Pattern::HotCold {
                hot_bytes: 156 << 20,
                hot_reads_pct: 80
            },
            threads: 2,
            rate: None,
            writes_pct: 0,
            huge_pages: false
        })
    );
    assert!(scenario.jobs[0].fio.is_empty() && scenario.jobs[0].disk.is_empty());
}

#[test]
fn what_is_left_out_has_a_default() {
    let text = VALID
        .replace("engine = \"move_pages\"\nlend = false\n", "")
        .replace(
            "pattern = \"hotcold\", hot = \"156M\", hot_reads = \"80%\", threads = 2",
            "pattern = \"random\"",
        );
    let scenario = parse(&text);
    let agent = scenario.agent.expect("there is one");
    assert_eq!((agent.engine.as_str(), agent.lend), ("auto", true));
    let memory = scenario.jobs[0].memory.as_ref().expect("read");
    assert_eq!((memory.pattern, memory.threads), (Pattern::Random, 1));
}

#[test]
fn tiers_that_cannot_be() {
    check(
        "cpus = 2",
        "cpus = 2\nmemory = \"2G\"",
        "t.toml:4: key `host.memory`: is the sum of what the `[[tier]]` tables say: leave it out",
    );
    check(
        "\"250ns\"",
        "\"50ns\"",
        "t.toml:13: key `tier[1].latency`: is less than that of `dram` above it: the fastest tier comes first",
    );
    check(
        "\"1280M\"",
        "\"128M\"",
        "t.toml:7: key `tier[0].size`: is too small to boot a distribution kernel in: at least `512M`",
    );
    check(
        "bandwidth = \"50G/s\"\n",
        "",
        "t.toml:10: key `tier[1]`: `bandwidth` is missing: add for example `bandwidth = \"200G/s\"`",
    );
    check(
        "name = \"cxl\"",
        "name = \"dram\"",
        "t.toml:11: key `tier[1].name`: `dram` is already defined above: names must differ",
    );
}

#[test]
fn node_lists_that_the_module_would_refuse() {
    for (list, why) in [
        (
            "0;2",
            "the host has nodes 0 to 1, one for each `[[tier]]`, not 2",
        ),
        ("0;0", "node 0 is there twice"),
        ("0-1;1", "node 1 is there twice"),
        ("0;;1", "`` is neither a node nor a range"),
        ("dram", "`dram` is neither a node nor a range"),
        ("", "`` is neither a node nor a range"),
    ] {
        check(
            "\"0;1\"",
            &format!("\"{list}\""),
            &format!(
                "t.toml:4: key `host.weir.tiers`: `{list}` does not list nodes, fastest first, as in `0;1` or `0-1;2`: {why}"
            ),
        );
    }
    parse(&VALID.replace("\"0;1\"", "\"0-1;\""));
    check(
        "tier_ratio = 0",
        "tier_ratio = 101",
        "t.toml:4: key `host.weir.tier_ratio`: `101` is not what `tier_ratio` takes: a percentage, 1 to 100, or 0 (by capacity)",
    );
}

#[test]
fn files_that_cannot_be_written() {
    check(
        "toptier_ratio\" = \"default\"",
        "toptier_ratio\" = 101",
        "t.toml:20: key `cgroup.victim.\"memory.toptier_ratio\"`: memory.toptier_ratio: invalid value `101`: expected a whole number from 0 to 100, or `default`",
    );
    check(
        "\"memory.toptier_ratio\" = \"default\"",
        "\"memory.toptier_max\" = \"1G\"",
        "t.toml:20: key `cgroup.victim.\"memory.toptier_max\"`: `memory.toptier_max` is read, not written: it follows the limit it is named after",
    );
}

#[test]
fn jobs_that_mean_nothing() {
    check(
        "threads = 2 }",
        "threads = 2 }\nfio = { rw = \"write\", size = \"1M\" }",
        "t.toml:24: key `job[0].memory`: `fio`, `memory` and `sync` exclude each other: use two jobs",
    );
    check(
        "hot = \"156M\", ",
        "",
        "t.toml:24: key `job[0].memory`: `hot` is missing: add for example `hot = \"157M\"`",
    );
    check(
        "hot = \"156M\"",
        "hot = \"340M\"",
        "t.toml:24: key `job[0].memory.hot`: leaves nothing that is cold: less than `size`",
    );
    check(
        "\"80%\"",
        "\"80\"",
        "t.toml:24: key `job[0].memory.hot_reads`: `80` is not a percentage: `0%` to `100%`",
    );
    check(
        "pattern = \"hotcold\", hot = \"156M\", hot_reads = \"80%\"",
        "pattern = \"random\", hot = \"156M\"",
        "t.toml:24: key `job[0].memory.hot`: only has a meaning with `pattern = \"hotcold\"`",
    );
    check(
        "pattern = \"hotcold\"",
        "pattern = \"hot\"",
        "t.toml:24: key `job[0].memory.pattern`: no pattern `hot`, did you mean `hotcold`? known: churn, fault, hotcold, random",
    );
    check(
        "threads = 2",
        "backing = \"file\"",
        "t.toml:21: key `job[0]`: has nowhere to write: define a `[[disk]]`",
    );
    check(
        "cgroup = \"victim\"",
        "cgroup = \"victim\"\ndisk = \"d\"",
        "t.toml:24: key `job[0].disk`: memory that is no file's is on no disk: leave it out",
    );
}

#[test]
fn an_agent_without_tiers_or_engine() {
    check(
        "weir = { tiers = \"0;1\", tier_ratio = 0 }\n",
        "",
        "t.toml:14: key `agent`: has nothing to do: it moves memory between the tiers that `[host]` names, as in `weir = { tiers = \"0;1\" }`, has allocators reclaim by `reclaim = true`, or keeps a `policy`",
    );
    check(
        "engine = \"move_pages\"",
        "engine = \"move\"",
        "t.toml:16: key `agent.engine`: no engine `move`, did you mean `move_pages`? known: auto, damon, damon+move_pages, move_pages, reclaim",
    );
}

#[test]
fn figures_that_nothing_measures() {
    let expect = "metric = \"cgroup/victim.settle_ns\"\narm = \"weir\"";
    check(
        expect,
        "metric = \"cgroup/victim.settle_ns\"\narm = \"stock\"",
        "t.toml:30: key `expect[0].metric`: `stock.all.cgroup/victim.settle_ns` cannot be measured: no metric `settle_ns` of a cgroup in arm `stock`, known: dirty_max_bytes, dirty_median_bytes, disk_bw_bytes, io_full_pct, io_some_pct, lowtier_bytes, mem_full_pct, mem_some_pct, oom_kills, toptier_bytes, toptier_pct",
    );
    check(
        expect,
        "metric = \"victim.iops\"\narm = \"weir\"",
        "t.toml:30: key `expect[0].metric`: `weir.all.victim.iops` cannot be measured: no metric `iops` of a job that reads memory, known: corrupt_pages, hot_low_pct, ops_per_sec",
    );
    let flat = VALID
        .replace(
            "[[tier]]\nname = \"dram\"\nsize = \"1280M\"\nlatency = \"80ns\"\nbandwidth = \"200G/s\"\n[[tier]]\nname = \"cxl\"\nsize = \"384M\"\nlatency = \"250ns\"\nbandwidth = \"50G/s\"\n",
            "",
        )
        .replace("cpus = 2", "cpus = 2\nmemory = \"2G\"")
        .replace("0;1", "0");
    let got = scenario::parse("t", "t.toml", &flat)
        .expect_err("must be refused")
        .to_string();
    assert!(
        got.contains(
            "no metric `settle_ns` of a cgroup, known: bandwidth_held_usec, ceiling, dirty"
        ),
        "{got}"
    );
}
