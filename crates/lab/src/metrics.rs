// SPDX-License-Identifier: GPL-2.0-only
//! From what a guest measured to flat, named numbers: `ARM.PHASE.SUBJECT.METRIC`.

use guest::protocol::{PhaseResult, Series};
use scenario::model::Arm;
use serde_json::Value;
use std::collections::BTreeMap;

/// One figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric {
    /// In `unit`.
    pub value: f64,
    /// `ns`, `bytes`, `bytes/s`, `iops`, `percent` or `count`.
    pub unit: &'static str,
}

/// All figures of one phase in one arm.
pub fn metrics(arm: Arm, result: &PhaseResult) -> BTreeMap<String, Metric> {
    let mut out = BTreeMap::new();
    let prefix = format!("{}.{}", arm.name(), result.phase);
    let mut add = |subject: &str, name: &str, value: f64, unit: &'static str| {
        out.insert(format!("{prefix}.{subject}.{name}"), Metric { value, unit });
    };
    for (name, fio) in &result.jobs {
        job(fio, &mut |metric, value, unit| {
            add(name, metric, value, unit)
        });
    }
    let seconds = (result.elapsed_ms.max(1)) as f64 / 1000.0;
    let mut written = 0.0;
    for (name, disk) in &result.disks {
        written += disk.written as f64;
        add(
            &format!("disk/{name}"),
            "bw_bytes",
            disk.written as f64 / seconds,
            "bytes/s",
        );
    }
    add("host", "disk_bw_bytes", written / seconds, "bytes/s");
    let percent = |us: u64| us as f64 / 1e6 / seconds * 100.0;
    add(
        "host",
        "io_some_pct",
        percent(result.pressure.io_some_us),
        "percent",
    );
    add(
        "host",
        "io_full_pct",
        percent(result.pressure.io_full_us),
        "percent",
    );
    add(
        "host",
        "mem_full_pct",
        percent(result.pressure.mem_full_us),
        "percent",
    );
    for (subject, series) in &result.samples {
        let subject = if subject == "host" {
            subject.clone()
        } else {
            format!("cgroup/{subject}")
        };
        if let Some((max, median)) = max_and_median(series) {
            add(&subject, "dirty_max_bytes", max, "bytes");
            add(&subject, "dirty_median_bytes", median, "bytes");
        }
    }
    for (path, stat) in &result.dirty_stat {
        for (key, after) in keys(&stat.after) {
            let before = keys(&stat.before)
                .find(|(other, _)| *other == key)
                .map_or(0.0, |(_, value)| value);
            add(&format!("cgroup/{path}"), key, after - before, "count");
        }
    }
    out
}

/// A job's figures. A job that wrote and read: rates of both, latencies of the direction with more operations.
fn job(fio: &Value, add: &mut dyn FnMut(&str, f64, &'static str)) {
    let number = |direction: &str, path: &str| {
        fio.pointer(&format!("/{direction}/{path}"))
            .and_then(Value::as_f64)
            .unwrap_or(0.0)
    };
    let both = |path: &str| number("write", path) + number("read", path);
    add("iops", both("iops"), "iops");
    add("bw_bytes", both("bw_bytes"), "bytes/s");
    add("total_ios", both("total_ios"), "count");
    let direction = if number("read", "total_ios") > number("write", "total_ios") {
        "read"
    } else {
        "write"
    };
    // Not a single operation completed: there is no latency, and no number stands in for it.
    if number(direction, "total_ios") > 0.0 {
        add(
            "clat_p50_ns",
            number(direction, "clat_ns/percentile/50.000000"),
            "ns",
        );
        add(
            "clat_p99_ns",
            number(direction, "clat_ns/percentile/99.000000"),
            "ns",
        );
        add("clat_max_ns", number(direction, "clat_ns/max"), "ns");
    }
}

fn max_and_median(series: &Series) -> Option<(f64, f64)> {
    let mut kib = series.dirty_kib.clone();
    kib.sort_unstable();
    let max = *kib.last()?;
    let middle = kib.len() / 2;
    let median = if kib.len() % 2 == 1 {
        kib[middle] as f64
    } else {
        (kib[middle - 1] + kib[middle]) as f64 / 2.0
    };
    Some((max as f64 * 1024.0, median * 1024.0))
}

/// The numeric keys of a flat-keyed file.
fn keys(text: &str) -> impl Iterator<Item = (&str, f64)> {
    text.lines().filter_map(|line| {
        let (key, value) = line.split_once(' ')?;
        Some((key, value.trim().parse().ok()?))
    })
}
