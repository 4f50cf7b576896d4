// SPDX-License-Identifier: GPL-2.0-only
//! What a valid scenario means once parsed.

use scenario::model::{Arm, Bound, Filesystem, Op, Scenario, Term};

const MINIMAL: &str = r#"
title = "t"
[host]
memory = "2G"
cpus = 2
sysctl = { "vm.dirty_bytes" = "32M", "vm.swappiness" = 10 }
[[disk]]
name = "slow"
write_bandwidth = "256K/s"
filesystem = "ext4"
[cgroup."pod.slice/victim"]
"memory.dirty_min" = "16M"
"memory.max" = "256M"
[[job]]
name = "victim"
cgroup = "pod.slice/victim"
fio = { rw = "write", size = "32M", numjobs = 3, thread = true }
[[phase]]
name = "solo"
jobs = ["victim"]
duration = "1m"
delay = { victim = "1500ms" }
[phase.set."pod.slice/victim"]
"memory.dirty_min" = "max"
[[phase]]
name = "again"
jobs = ["victim"]
duration = "5s"
clean = true
"#;

fn parse(expects: &str) -> Scenario {
    scenario::parse("test", "test.toml", &format!("{MINIMAL}{expects}"))
        .unwrap_or_else(|p| panic!("{p}"))
}

fn term(factor: f64, metrics: &[&str]) -> Term {
    Term {
        factor,
        metrics: metrics.iter().map(|m| m.to_string()).collect(),
    }
}

#[test]
fn sizes_times_and_references_are_resolved() {
    let s = parse("");
    assert_eq!(s.name, "test");
    assert_eq!((s.host.memory_bytes, s.host.cpus), (2 << 30, 2));
    assert_eq!(s.host.sysctl["vm.dirty_bytes"], "33554432");
    assert_eq!(s.host.sysctl["vm.swappiness"], "10");
    assert_eq!(
        (s.disks[0].write_bandwidth, s.disks[0].read_bandwidth),
        (Some(262_144), None)
    );
    assert_eq!(
        (s.disks[0].filesystem, s.disks[0].size_bytes),
        (Filesystem::Ext4, 2 << 30)
    );
    let cgroup = &s.cgroups["pod.slice/victim"];
    assert_eq!(cgroup.knobs["memory.dirty_min"], "16M");
    assert_eq!(cgroup.files["memory.max"], "256M");
    let job = &s.jobs[0];
    assert_eq!(
        (job.disk.as_str(), job.cgroup.as_deref()),
        ("slow", Some("pod.slice/victim"))
    );
    assert_eq!(
        (job.fio["numjobs"].as_str(), job.fio["thread"].as_str()),
        ("3", "1")
    );
    assert_eq!(
        (
            s.phases[0].duration_ms,
            s.phases[0].delay_ms["victim"],
            s.phases[0].clean
        ),
        (60_000, 1_500, false)
    );
    assert_eq!(
        s.phases[0].set["pod.slice/victim"]["memory.dirty_min"],
        "max"
    );
    assert!(s.phases[1].clean);
}

#[test]
fn short_names_in_bounds_stand_for_this_metric_elsewhere() {
    let s = parse(
        r#"
[[expect]]
metric = "victim.iops"
arm = "weir"
phase = "again"
at_least = "0.99 * solo"
[[expect]]
metric = "weir.again.victim.bw_bytes"
at_least = "0.95 * stock"
at_most = "20M/s"
"#,
    );
    assert_eq!(s.expects[0].metric, "weir.again.victim.iops");
    assert_eq!(s.expects[0].op, Op::AtLeast);
    assert_eq!(
        s.expects[0].bound,
        Bound(vec![term(0.99, &["weir.solo.victim.iops"])])
    );
    assert_eq!(s.expects[0].text, "weir.again.victim.iops >= 0.99 * solo");
    assert_eq!(
        s.expects[1].bound,
        Bound(vec![term(0.95, &["stock.again.victim.bw_bytes"])])
    );
    assert_eq!(
        (s.expects[2].op, &s.expects[2].bound),
        (Op::AtMost, &Bound(vec![term(20_971_520.0, &[])]))
    );
}

#[test]
fn bounds_are_sums_of_products() {
    let s = parse(
        r#"
[[expect]]
metric = "cgroup/pod.slice/victim.dirty_max_bytes"
arm = "weir"
phase = "solo"
at_most = "1.05 * 64M"
[[expect]]
metric = "host.dirty_max_bytes"
arm = "weir"
phase = "solo"
at_most = "stock.solo.host.dirty_max_bytes + 16M - 0.5 * weir.again.host.dirty_max_bytes"
[[expect]]
metric = "victim.clat_p99_ns"
arm = "stock"
phase = "solo"
at_most = 2000000
"#,
    );
    assert_eq!(
        s.expects[0].bound,
        Bound(vec![term(1.05 * 67_108_864.0, &[])])
    );
    assert_eq!(
        s.expects[1].bound,
        Bound(vec![
            term(1.0, &["stock.solo.host.dirty_max_bytes"]),
            term(16_777_216.0, &[]),
            term(-0.5, &["weir.again.host.dirty_max_bytes"]),
        ])
    );
    assert_eq!(s.expects[2].bound, Bound(vec![term(2e6, &[])]));
}

#[test]
fn arms_have_the_names_the_files_use() {
    for arm in Arm::ALL {
        assert_eq!(Arm::from_name(arm.name()), Some(arm));
    }
    assert_eq!(Arm::from_name("both"), None);
}

#[test]
fn disks_may_stand_still_as_seldom_as_a_scenario_is_long() {
    let text = MINIMAL.replace(
        "[[disk]]",
        "[twin]\nstall = \"1m\"\nstall_every = \"90m\"\n[[disk]]",
    );
    let scenario = scenario::parse("test", "test.toml", &text).expect("valid");
    assert_eq!(scenario.twin.stall_every_ns, Some(5_400_000_000_000));
    let longer = text.replace("\"1m\"\nstall_every", "\"2m\"\nstall_every");
    let problems =
        scenario::parse("test", "test.toml", &longer).expect_err("a stall of two minutes");
    assert!(problems.to_string().contains("at most `1m`"), "{problems}");
}
