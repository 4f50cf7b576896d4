// SPDX-License-Identifier: GPL-2.0-only
//! From what a guest measured to flat, named numbers: `ARM.PHASE.SUBJECT.METRIC`.

mod tiers;

use guest::protocol::PhaseResult;
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
    if let Some(samples) = &result.tiers {
        for (name, report) in &result.memory {
            tiers::memory_job(report, &samples.top_nodes, &mut |metric, value, unit| {
                add(name, metric, value, unit)
            });
        }
        tiers::tiers(samples, &mut add);
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
    add(
        "host",
        "mem_some_pct",
        percent(result.pressure.mem_some_us),
        "percent",
    );
    add(
        "host",
        "flusher_cpu_pct",
        percent(result.flusher_cpu_us),
        "percent",
    );
    let events = |start: &str| {
        let matching = result.events.iter().filter(|(k, _)| k.starts_with(start));
        matching.map(|(_, count)| *count).sum::<u64>() as f64
    };
    add("host", "allocstalls", events("allocstall"), "count");
    add("host", "kswapd_scanned", events("pgscan_kswapd"), "count");
    add("host", "oom_kills", events("oom_kill"), "count");
    for (subject, series) in &result.samples {
        let subject = if subject == "host" {
            subject.clone()
        } else {
            format!("cgroup/{subject}")
        };
        if let Some((max, median)) = max_and_median(in_bytes(&series.dirty_kib)) {
            add(&subject, "dirty_max_bytes", max, "bytes");
            add(&subject, "dirty_median_bytes", median, "bytes");
        }
        if let Some((_, median)) = max_and_median(in_bytes(&series.writeback_kib)) {
            add(&subject, "writeback_median_bytes", median, "bytes");
        }
    }
    for (path, bytes) in &result.written {
        let (subject, rate) = (format!("cgroup/{path}"), *bytes as f64 / seconds);
        add(&subject, "disk_bw_bytes", rate, "bytes/s");
    }
    for (path, pressure) in &result.cgroup_pressure {
        let subject = format!("cgroup/{path}");
        add(
            &subject,
            "io_some_pct",
            percent(pressure.io_some_us),
            "percent",
        );
        add(
            &subject,
            "io_full_pct",
            percent(pressure.io_full_us),
            "percent",
        );
    }
    for (path, stat) in &result.dirty_stat {
        for (key, after) in keys(&stat.after) {
            // Counters say what happened in this phase; everything else is a level, as it was at its end.
            let is_counter = key.starts_with("nr_") || key.ends_with("_usec");
            let before = keys(&stat.before)
                .find(|(other, _)| is_counter && *other == key)
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

fn max_and_median(mut values: Vec<f64>) -> Option<(f64, f64)> {
    values.sort_unstable_by(f64::total_cmp);
    let max = *values.last()?;
    let middle = values.len() / 2;
    let median = if values.len() % 2 == 1 {
        values[middle]
    } else {
        (values[middle - 1] + values[middle]) / 2.0
    };
    Some((max, median))
}

fn in_bytes(kib: &[u64]) -> Vec<f64> {
    kib.iter().map(|kib| *kib as f64 * 1024.0).collect()
}

/// The numeric keys of a flat-keyed file.
fn keys(text: &str) -> impl Iterator<Item = (&str, f64)> {
    text.lines().filter_map(|line| {
        let (key, value) = line.split_once(' ')?;
        Some((key, value.trim().parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use guest::protocol::Event;

    /// What a real guest said: tests/data/short.toml of crates/weir, arm weir, Debian's 6.12 cloud kernel.
    const TRANSCRIPT: &str = include_str!("testdata/short-weir.jsonl");

    fn events() -> Vec<Event> {
        TRANSCRIPT
            .lines()
            .map(|line| serde_json::from_str(line).expect("an event"))
            .collect()
    }

    #[test]
    fn a_recorded_guest_gives_the_figures_fio_printed() {
        let mut all = BTreeMap::new();
        for event in events() {
            if let Event::PhaseEnd(result) = event {
                all.extend(metrics(Arm::Weir, &result));
            }
        }
        for (name, value, unit) in [
            ("alone.writer.iops", 49.983339, "iops"),
            ("alone.writer.bw_bytes", 204_731.0, "bytes/s"),
            ("alone.writer.total_ios", 150.0, "count"),
            ("alone.writer.clat_p50_ns", 358_400.0, "ns"),
            ("alone.writer.clat_p99_ns", 2_965_504.0, "ns"),
            ("alone.writer.clat_max_ns", 3_729_563.0, "ns"),
            // A job that only reads has the latencies of its reads.
            ("both.reader.clat_p99_ns", 4_227_072.0, "ns"),
            ("both.host.dirty_max_bytes", 600.0 * 1024.0, "bytes"),
            // An even number of samples: between the two in the middle.
            (
                "both.cgroup/inner/writer.dirty_median_bytes",
                328.0 * 1024.0,
                "bytes",
            ),
            ("both.disk/fast.bw_bytes", 0.0, "bytes/s"),
            ("both.host.io_full_pct", 0.0, "percent"),
            // 24 since the module was loaded, 16 of them in the phase before.
            ("both.cgroup/inner/writer.nr_passes", 8.0, "count"),
            ("both.cgroup/inner/writer.floor", 4_194_304.0, "count"),
        ] {
            assert_eq!(
                all.get(&format!("weir.{name}")),
                Some(&Metric { value, unit }),
                "{name}"
            );
        }
        assert!(
            !all.contains_key("weir.both.cgroup/inner/writer.ceiling"),
            "`max` is not a number"
        );
        assert!(
            !all.contains_key("weir.alone.reader.iops"),
            "the reader did not run in this phase"
        );
    }

    #[test]
    fn a_job_without_a_single_operation_has_no_latency() {
        let fio = serde_json::json!({"write": {"iops": 0.0, "bw_bytes": 0, "total_ios": 0, "clat_ns": {"max": 0}}});
        let mut names = Vec::new();
        job(&fio, &mut |name, _, _| names.push(name.to_owned()));
        assert_eq!(names, ["iops", "bw_bytes", "total_ios"]);
    }

    #[test]
    fn events_survive_the_channel() {
        for event in events() {
            let line = serde_json::to_string(&event).expect("JSON");
            assert!(!line.contains('\n'), "one event is one line");
            assert_eq!(
                serde_json::from_str::<Event>(&line).expect("an event"),
                event
            );
        }
    }
}
