// SPDX-License-Identifier: GPL-2.0-only
//! Kinds of disks in scenarios: what writers and readers get of them.

use scenario::model::Arm;

/// What a job of these fio options gets in a second: operations, and pages written.
fn run(disk: &str, fio: &str) -> (f64, f64) {
    let text = format!(
        r#"
title = "a kind of disk"
[host]
memory = "2G"
cpus = 1
sysctl = {{ "vm.dirty_bytes" = "32M", "vm.dirty_background_bytes" = "16M" }}
[[disk]]
name = "d"
{disk}
filesystem = "ext4"
[[job]]
name = "a"
fio = {{ {fio} }}
[[phase]]
name = "p"
jobs = ["a"]
duration = "20s"
"#
    );
    let scenario = scenario::parse("kinds", "kinds.toml", &text).expect("valid");
    let outcome = twin::run(&scenario, Arm::Stock, 1).expect("modelled");
    let figure = |name: &str| outcome.metrics[name].value;
    let written = figure("stock.p.host.disk_bw_bytes") / 4096.0;
    (figure("stock.p.a.iops"), written)
}

fn iops(disk: &str, fio: &str) -> f64 {
    run(disk, fio).0
}

fn written(disk: &str, fio: &str) -> f64 {
    run(disk, fio).1
}

const RANDOM_READS: &str = "rw = \"randread\", bs = \"4k\", size = \"1g\"";
const RANDOM_WRITES: &str = "rw = \"randwrite\", bs = \"4k\", size = \"1g\"";
const WRITES: &str = "rw = \"write\", bs = \"64k\", size = \"8g\"";

#[test]
fn random_writes_are_for_flash() {
    let kinds = ["hdd", "usb", "ssd", "nvme"].map(|kind| format!("kind = \"{kind}\""));
    let [hdd, usb, ssd, nvme] = kinds.each_ref().map(|kind| written(kind, RANDOM_WRITES));
    assert!((200.0..260.0).contains(&hdd), "{hdd}");
    assert!((130.0..160.0).contains(&usb), "{usb}");
    assert!((60_000.0..90_000.0).contains(&ssd), "{ssd}");
    assert!(nvme > 1.5 * ssd, "{nvme}");
    // What is written in order comes at each disk's bandwidth.
    let [hdd, usb, ssd, _] = kinds
        .each_ref()
        .map(|kind| written(kind, WRITES) * 4.096e-3);
    for (found, published) in [(hdd, 154.0), (usb, 98.0), (ssd, 530.0)] {
        assert!(
            (found / published - 1.0).abs() < 0.1,
            "{found}, {published}"
        );
    }
}

#[test]
fn keys_override_the_kind() {
    let alone = iops("kind = \"ssd\"", RANDOM_READS);
    assert!((11_000.0..13_500.0).contains(&alone), "{alone}");
    let slow = iops("kind = \"ssd\"\nlatency = \"1ms\"", RANDOM_READS);
    assert!((900.0..1_000.0).contains(&slow), "{slow}");
    let narrow = iops("kind = \"hdd\"\nwrite_bandwidth = \"20M/s\"", WRITES);
    assert!((300.0..340.0).contains(&narrow), "{narrow}");
    let seeks = written(
        "write_bandwidth = \"100M/s\"\nseek = \"10ms\"",
        RANDOM_WRITES,
    );
    assert!((90.0..110.0).contains(&seeks), "{seeks}");
}
