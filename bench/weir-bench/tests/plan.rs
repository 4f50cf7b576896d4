// SPDX-License-Identifier: GPL-2.0-only
//! `weir plan` as a user meets it: the weakest knobs with which a scenario meets its expectations.

mod command;

use command::{CEILING_OF_4K, scenario, shipped, weir};
use predicates::prelude::*;
use predicates::str::contains;

#[test]
fn a_plan_is_the_weakest_that_will_do_and_says_what_was_too_weak() {
    let plan = |knobs: &[&str]| {
        let mut command = weir();
        command.args(["plan", "--json"]).args(knobs);
        command.arg(shipped("dirty-knobs")).assert()
    };
    let json = |assert: &assert_cmd::assert::Assert| -> serde_json::Value {
        serde_json::from_slice(&assert.get_output().stdout).expect("JSON")
    };
    let own = json(&plan(&[]).code(0));
    assert_eq!(own, json(&plan(&[]).code(0)), "the same every time");
    let knob = &own["knobs"][0];
    let value = knob["value"].as_str().expect("a value");
    assert_eq!(knob["knob"], "victim/memory.dirty_min");
    assert!(knob["too_weak"].is_string(), "{own}");
    let command = format!("echo {value} > /sys/fs/cgroup/victim/memory.dirty_min");
    assert_eq!(own["commands"][1], command.as_str());

    // The plan runs as it was found.
    let set = format!("cgroup.victim.\"memory.dirty_min\"={value}");
    let sweep = weir()
        .args(["sweep", "--json", "--set", &set])
        .arg(shipped("dirty-knobs"))
        .assert()
        .code(0);
    assert_eq!(json(&sweep)["runs"][0]["verdict"], "pass");

    let little = json(&plan(&["--knob", "victim/memory.dirty_min=1M..4M"]).code(1));
    assert_eq!(little["verdict"], "fail");
    assert_eq!(little["commands"], serde_json::json!([]));
    for (knob, why) in [
        (
            "other/memory.dirty_min",
            "no cgroup `other`; it has: noisy, victim",
        ),
        ("victim/memory.low", "write CGROUP/FILE"),
        (
            "victim/memory.dirty_min=4M",
            "is not a range, as in 1M..16M",
        ),
        (
            "victim/memory.dirty_ratio=0..50",
            "`0` is not a value to search from 1 on: off is always tried",
        ),
        ("victim/memory.dirty_bytes=4K..1M", CEILING_OF_4K),
    ] {
        plan(&["--knob", knob]).code(2).stderr(contains(why));
    }
}

#[test]
fn a_plan_for_fsync_is_a_window_before_it_is_a_ceiling() {
    let scenario = r#"
title = "fsync beside a flood"
[host]
memory = "1G"
cpus = 1
sysctl = { "vm.dirty_bytes" = "64M", "vm.dirty_background_bytes" = "32M" }
[[disk]]
name = "d"
write_bandwidth = "16M/s"
filesystem = "ext4"
[cgroup.db]
[cgroup.flood]
[[job]]
name = "db"
cgroup = "db"
fio = { rw = "write", bs = "4k", rate = "80k", size = "16M", fdatasync = 1, overwrite = 0, fallocate = "none" }
[[job]]
name = "flood"
cgroup = "flood"
fio = { rw = "write", bs = "64k", size = "500M", overwrite = 0, fallocate = "none" }
[[phase]]
name = "p"
jobs = ["flood", "db"]
duration = "10s"
delay = { db = "2s" }
[[expect]]
metric = "weir.p.db.sync_p99_ns"
at_most = "60ms"
"#;
    let dir = tempfile::tempdir().expect("made");
    let file = dir.path().join("fsync.toml");
    std::fs::write(&file, scenario).expect("written");
    let plan = |more: &[&str]| weir().arg("plan").args(more).arg(&file).assert();
    let json: serde_json::Value =
        serde_json::from_slice(&plan(&["--json"]).code(0).get_output().stdout).expect("JSON");
    let knobs = json["knobs"].as_array().expect("knobs");
    let names: Vec<_> = knobs.iter().map(|knob| &knob["knob"]).collect();
    assert_eq!(
        names,
        ["flood/memory.writeback_bytes", "flood/memory.dirty_bytes"]
    );
    assert_eq!(knobs[1]["value"], "max", "{json}");
    let value = knobs[0]["value"].as_str().expect("a value");
    assert!(knobs[0]["too_weak"].is_string(), "{json}");
    let command = format!("echo {value} > /sys/fs/cgroup/flood/memory.writeback_bytes");
    assert_eq!(
        json["commands"].as_array().expect("commands")[1..],
        [command]
    );
    plan(&["--stock", "--knob", "flood/memory.writeback_bytes"])
        .code(2)
        .stderr(contains("without the module there is no window"));

    // A sweep takes it as any other key.
    let set = "cgroup.flood.\"memory.writeback_bytes\"=64K,8M";
    let sweep = weir()
        .args(["sweep", "--json", "--set", set])
        .arg(&file)
        .assert();
    let json: serde_json::Value = serde_json::from_slice(&sweep.get_output().stdout).expect("JSON");
    let verdicts: Vec<_> = (0..2).map(|run| &json["runs"][run]["verdict"]).collect();
    assert_eq!(verdicts, ["pass", "fail"]);
}

/// A database that syncs, or a writer in bursts, beside a flood, on a host of `gigabytes`.
fn host_of(gigabytes: u64, victim: &str, expects: &str) -> tempfile::NamedTempFile {
    scenario(&format!(
        r#"
title = "a flood beside"
[host]
memory = "{gigabytes}G"
cpus = 8
[[disk]]
name = "d"
write_bandwidth = "100M/s"
filesystem = "ext4"
[cgroup.victim]
[cgroup.flood]
[[job]]
name = "victim"
cgroup = "victim"
fio = {{ rw = "write", bs = "4k", {victim} }}
[[job]]
name = "flood"
cgroup = "flood"
fio = {{ rw = "write", bs = "128k", size = "60g", numjobs = 2, rate = "85m" }}
[[phase]]
name = "p"
jobs = ["victim", "flood"]
duration = "30s"
delay = {{ victim = "5s" }}
{expects}"#
    ))
}

#[test]
fn a_plan_is_found_on_hosts_of_any_size() {
    let syncs = "size = \"64m\", fdatasync = 1, thinktime = \"20ms\"";
    let soon = "[[expect]]\nmetric = \"weir.p.victim.sync_p99_ns\"\nat_most = \"100ms\"\n";
    let bursts = "size = \"512m\", thinktime = \"300ms\", thinktime_blocks = 4096";
    let goes_on =
        "[[expect]]\nmetric = \"weir.p.cgroup/flood.dirty_max_bytes\"\nat_most = \"12M\"\n";
    for gigabytes in [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048] {
        for (victim, expects) in [(syncs, soon), (bursts, goes_on)] {
            let file = host_of(gigabytes, victim, expects);
            let plan = |more: &[&str]| weir().arg("plan").args(more).arg(file.path()).assert();
            let output = plan(&[]).code(0);
            let text = String::from_utf8_lossy(&output.get_output().stdout).into_owned();
            assert!(text.contains("/flood/memory."), "{gigabytes} GB: {text}");
            // A sweep finds ceilings of some megabytes: the plan has to look there, too.
            if [64, 2048].contains(&gigabytes) {
                plan(&["--knob", "flood/memory.dirty_bytes"]).code(0);
            }
        }
    }
}

/// A writer that takes half of a disk beside eight floods, on hosts whose disk takes 51 s to write what
/// may be dirty.
#[test]
fn a_plan_is_found_for_a_writer_beside_floods_on_hosts_of_any_size() {
    for gigabytes in [4, 512, 2048] {
        let rate = gigabytes * 4;
        // As many calls on hosts of all sizes.
        let (half, piece) = (rate / 2, (32 * gigabytes).clamp(128, 16 << 10));
        let file = scenario(&format!(
            r#"
title = "a writer beside floods"
[host]
memory = "{gigabytes}G"
cpus = 8
[[disk]]
name = "d"
size = "8192G"
write_bandwidth = "{rate}M/s"
filesystem = "ext4"
[cgroup.victim]
[cgroup.flood]
copies = 8
[[job]]
name = "victim"
cgroup = "victim"
fio = {{ rw = "write", bs = "{}k", size = "{half}g", rate = "{half}m" }}
[[job]]
name = "flood"
cgroup = "flood"
fio = {{ rw = "write", bs = "{piece}k", size = "{half}g", numjobs = 8, rate = "{half}m" }}
[[phase]]
name = "p"
jobs = ["victim", "flood"]
duration = "60s"
delay = {{ victim = "30s" }}
[[expect]]
metric = "weir.p.victim.clat_p99_ns"
at_most = "1ms"
"#,
            piece / 8
        ));
        let plan = weir().arg("plan").arg(file.path()).assert().code(0);
        plan.stdout(contains("/victim/memory.dirty_min"));
        // A sweep finds ceilings below about a hundredth of memory.
        if gigabytes == 512 {
            let mut ceilings = weir();
            ceilings.args(["plan", "--knob", "flood/memory.dirty_bytes"]);
            let plan = ceilings.arg(file.path()).assert().code(0);
            plan.stdout(contains("memory.dirty_bytes; done"));
        }
    }
}

#[test]
fn a_plan_says_why_there_is_none() {
    let syncs = "size = \"64m\", fdatasync = 1, thinktime = \"20ms\"";
    let soon = "[[expect]]\nmetric = \"weir.p.victim.sync_p99_ns\"\nat_most = \"1us\"\n";
    let file = host_of(64, syncs, soon);
    let plan = |more: &[&str]| weir().arg("plan").args(more).arg(file.path()).assert();
    plan(&["--knob", "flood/memory.dirty_ratio"])
        .code(1)
        .stdout(contains(
            "Searched: flood/memory.dirty_ratio 100 to 1, the least there is; memory.dirty_bytes goes lower",
        ));
    plan(&["--knob", "victim/memory.dirty_min"])
        .code(1)
        .stdout(contains("of 5 runs"))
        .stdout(contains(
            "with all values tried of victim/memory.dirty_min: given up",
        ))
        .stdout(contains(
            "What fsync waits for in the disk's queue no dirty limit changes; a window does: \
             `--knob CGROUP/memory.writeback_bytes`",
        ));
    plan(&["--knob", "flood/memory.dirty_bytes"])
        .code(1)
        .stdout(contains(
            "M to 1M, what the disk writes in a hundredth of a second",
        ));
}

#[test]
fn a_plan_may_be_none_or_a_limit_of_stock_kernels() {
    let syncs = "size = \"64m\", fdatasync = 1, thinktime = \"20ms\"";
    let late = "[[expect]]\nmetric = \"weir.p.victim.sync_p99_ns\"\nat_most = \"10s\"\n";
    let file = host_of(64, syncs, late);
    let text = weir().arg("plan").arg(file.path()).assert().code(0);
    text.stdout(contains(
        "Nothing is needed: stock meets what is expected, in 2 runs.",
    ))
    .stdout(contains("weir load").not());
    let small =
        "[[expect]]\nmetric = \"weir.p.cgroup/flood.dirty_max_bytes\"\nat_most = \"512M\"\n";
    let file = host_of(64, syncs, small);
    let mut high = weir();
    high.args(["plan", "--knob", "flood/memory.high"])
        .arg(file.path());
    high.assert()
        .code(0)
        .stdout(contains("M > /sys/fs/cgroup/flood/memory.high"))
        .stdout(contains("weir load").not());
}

#[test]
fn a_plan_may_be_a_part_of_the_first_tier() {
    let file = scenario(
        r#"
title = "a victim beside hogs on two tiers"
[host]
cpus = 8
weir = { tiers = "0;1" }
[[tier]]
name = "dram"
size = "12G"
latency = "100ns"
bandwidth = "60G/s"
[[tier]]
name = "cxl"
size = "4G"
latency = "300ns"
bandwidth = "6G/s"
[agent]
engine = "move_pages"
lend = false
[cgroup.hog]
"memory.max" = "12G"
[cgroup.victim]
"memory.max" = "3G"
[[job]]
name = "hog"
cgroup = "hog"
memory = { size = "11G", pattern = "random", threads = 4 }
[[job]]
name = "victim"
cgroup = "victim"
memory = { size = "2G", pattern = "random" }
[[phase]]
name = "p"
jobs = ["hog", "victim"]
duration = "30s"
delay = { victim = "5s" }
[[expect]]
metric = "weir.p.cgroup/hog.toptier_pct"
at_most = 70
"#,
    );
    let plan = |knob: &str| {
        weir()
            .args(["plan", "--knob", knob])
            .arg(file.path())
            .assert()
    };
    plan("hog/memory.toptier_ratio")
        .code(0)
        .stdout(contains("echo '0;1' > /sys/module/weir/parameters/tiers"))
        .stdout(contains(" > /sys/fs/cgroup/hog/memory.toptier_ratio"))
        .stdout(contains(
            "would not do: weir.p.cgroup/hog.toptier_pct <= 70",
        ));
    plan("tier_ratio")
        .code(0)
        .stdout(contains(" > /sys/module/weir/parameters/tier_ratio"));
    let file = host_of(
        64,
        "size = \"64m\"",
        "[[expect]]\nmetric = \"host.disk_bw_bytes\"\narm = \"weir\"\nphase = \"p\"\nat_least = 1\n",
    );
    let mut none = weir();
    none.args(["plan", "--knob", "tier_ratio"]).arg(file.path());
    none.assert().code(2).stderr(contains(
        "--knob tier_ratio: needs the module, and a scenario with `[[tier]]` tables",
    ));
}

#[test]
fn a_plan_without_the_module_is_a_policy_and_what_it_keeps() {
    let plan = |scenario: &str, more: &[&str]| {
        let mut command = weir();
        command.args(["plan", "--stock", "--json"]).args(more);
        command.arg(shipped(scenario)).assert()
    };
    let json = |assert: &assert_cmd::assert::Assert| -> serde_json::Value {
        serde_json::from_slice(&assert.get_output().stdout).expect("JSON")
    };
    let found = json(&plan("dirty-knobs", &[]).code(0));
    let lines = found["commands"].as_array().expect("a policy").iter();
    let lines: Vec<&str> = lines.filter_map(serde_json::Value::as_str).collect();
    assert_eq!(lines[..2], ["[stock]", "limit = [\"/noisy\"]"]);
    assert!(
        found["least_kept"].as_f64().expect("a part") > 0.9,
        "{found}"
    );
    let first = &found["kept"][0];
    assert_eq!(first["metric"], "weir.contended.victim.iops");
    assert!(first["stock"].as_f64() < first["without_module"].as_f64());
    // The agent takes it.
    let dir = tempfile::tempdir().expect("made");
    let policy = dir.path().join("agent.toml");
    std::fs::write(&policy, lines.join("\n")).expect("written");
    weir()
        .args(["agent", "--check"])
        .arg(&policy)
        .assert()
        .code(0);

    // Seconds of drain are the host's limit then.
    let drain = json(&plan("io-psi", &[]).code(0));
    assert_eq!(drain["knobs"][0]["knob"], "vm.dirty_bytes");
    assert!(
        drain["commands"][1]
            .as_str()
            .expect("a line")
            .contains("vm.dirty_bytes")
    );
    plan("io-psi", &["--knob", "drain_seconds"])
        .code(2)
        .stderr(contains("or vm.dirty_bytes"));
}
