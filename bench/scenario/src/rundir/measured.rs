// SPDX-License-Identifier: GPL-2.0-only
//! Measurements of a kernel, as [`crate::metric`] takes it.

use super::{Allocations, MemoryReport as Report, PhaseResult, Pressure, TierSamples, TierSeries};
use crate::measured::{
    self, AllocatingJob, Latency, Measured, MeasuredHost, MeasuredJob, MemoryJob, Placement, Tiers,
};
use knobs::PAGE;
use serde_json::Value;
use std::collections::BTreeMap;

impl PhaseResult {
    /// The same in the units of all places where scenarios run.
    pub fn to_measured(&self) -> Measured {
        let events = |start: &str| {
            let matching = self
                .events
                .iter()
                .filter(|(name, _)| name.starts_with(start));
            matching.map(|(_, count)| *count).sum()
        };
        let samples = self.samples.get("host");
        let host = MeasuredHost {
            held: samples.map_or_else(Vec::new, |of| of.dirty_bytes.clone()),
            writeback: samples.map_or_else(Vec::new, |of| of.writeback_bytes.clone()),
            pressure: measured::MeasuredPressure {
                mem_some_ns: Some(self.pressure.mem_some_ns),
                mem_full_ns: Some(self.pressure.mem_full_ns),
                ..io_pressure(&self.pressure)
            },
            io_stalls: self.io_stalls.clone(),
            flusher_ns: self.flusher_cpu_ns,
            allocstalls: events("allocstall"),
            kswapd_scanned: events("pgscan_kswapd"),
            oom_kills: events("oom_kill"),
            vmstat: self.events.clone(),
            cpu: self.cpu,
        };
        let tiers = self.tiers.as_ref();
        let memory = tiers.iter().flat_map(|tiers| {
            let jobs = self.memory.iter();
            let jobs = jobs.filter(|(_, report)| report.allocations.is_none());
            jobs.map(|(name, report)| (name.clone(), to_memory_job(report, &tiers.top_nodes)))
        });
        let allocating = self.memory.iter().filter_map(|(name, report)| {
            let allocations = report.allocations.as_ref()?;
            Some((name.clone(), allocating_job(report, allocations)))
        });
        Measured {
            phase: self.phase.clone(),
            elapsed_ns: self.elapsed_ns,
            jobs: map_values(&self.jobs, read_fio_job),
            memory: memory.collect(),
            allocating: allocating.collect(),
            disks: map_values(&self.disks, |disk| measured::MeasuredDisk {
                written: disk.written,
                queued_ns: disk.queued_ns,
            }),
            host,
            cgroups: self.cgroup_measures(),
            tiers: tiers.map(to_tiers),
        }
    }

    fn cgroup_measures(&self) -> BTreeMap<String, measured::MeasuredCgroup> {
        let mut cgroups = BTreeMap::<String, measured::MeasuredCgroup>::new();
        for (path, series) in self.samples.iter().filter(|(path, _)| *path != "host") {
            cgroups.entry(path.clone()).or_default().held = series.dirty_bytes.clone();
        }
        for (path, bytes) in &self.written {
            cgroups.entry(path.clone()).or_default().written = Some(*bytes);
        }
        for (path, kills) in &self.oom_kills {
            cgroups.entry(path.clone()).or_default().oom_kills = Some(*kills);
        }
        for (path, pressure) in &self.cgroup_pressure {
            cgroups.entry(path.clone()).or_default().pressure = Some(io_pressure(pressure));
        }
        for (path, texts) in &self.dirty_stat {
            cgroups.entry(path.clone()).or_default().stat = measured::summarize_dirty_stat(
                &knobs::parse_dirty_stat(&texts.before).collect(),
                &knobs::parse_dirty_stat(&texts.after).collect(),
            );
        }
        if let Some(tiers) = &self.tiers {
            for (path, series) in &tiers.cgroups {
                cgroups.entry(path.clone()).or_default().places = to_placements(series, tiers);
            }
        }
        cgroups
    }
}

fn map_values<A, B>(map: &BTreeMap<String, A>, of: fn(&A) -> B) -> BTreeMap<String, B> {
    map.iter().map(|(name, a)| (name.clone(), of(a))).collect()
}

fn io_pressure(pressure: &Pressure) -> measured::MeasuredPressure {
    measured::MeasuredPressure {
        io_some_ns: pressure.io_some_ns,
        io_full_ns: pressure.io_full_ns,
        ..measured::MeasuredPressure::default()
    }
}

/// A job's figures, from fio's own result.
fn read_fio_job(fio: &Value) -> MeasuredJob {
    let of = |direction: &str, path: &str| fio.pointer(&format!("/{direction}/{path}"));
    let number =
        |direction: &str, path: &str| of(direction, path).and_then(Value::as_f64).unwrap_or(0.0);
    let count =
        |direction: &str, path: &str| of(direction, path).and_then(Value::as_u64).unwrap_or(0);
    let both = |path: &str| number("write", path) + number("read", path);
    let (reads, writes) = (count("read", "total_ios"), count("write", "total_ios"));
    let direction = if reads > writes { "read" } else { "write" };
    let latency = |kind: &str, path: &str| {
        let max_ns = count(kind, &format!("{path}/max"));
        // fio's percentile is the middle of a histogram's bucket, which may lie above the maximum.
        let percentile = |key| count(kind, &format!("{path}/percentile/{key}")).min(max_ns);
        Latency {
            p50_ns: percentile("50.000000"),
            p99_ns: percentile("99.000000"),
            p999_ns: percentile("99.900000"),
            max_ns,
        }
    };
    MeasuredJob {
        iops: both("iops"),
        bandwidth: both("bw_bytes"),
        total_ios: reads + writes,
        latency: (reads + writes > 0).then(|| latency(direction, "clat_ns")),
        sync: (count("sync", "lat_ns/N") > 0).then(|| latency("sync", "lat_ns")),
        each: Vec::new(),
    }
}

fn to_memory_job(report: &Report, top_nodes: &[usize]) -> MemoryJob {
    let (top, low) = split_by_tier(&report.hot, top_nodes);
    MemoryJob {
        ops: report.ops,
        elapsed_ns: report.elapsed_ns,
        hot_low: low + report.hot_nowhere,
        hot: top + low + report.hot_nowhere,
        corrupt: report.corrupt_pages,
    }
}

fn allocating_job(report: &Report, allocations: &Allocations) -> AllocatingJob {
    AllocatingJob {
        elapsed_ns: report.elapsed_ns,
        allocated: allocations.pages * PAGE,
        touched: report.ops * PAGE,
        fault: allocations.fault,
        map: allocations.map,
        worst_fault_ns: allocations.worst_fault_ns,
        corrupt: report.corrupt_pages,
    }
}

/// Memory on the nodes of the fastest tier, and memory elsewhere.
fn split_by_tier(nodes: &[u64], top_nodes: &[usize]) -> (u64, u64) {
    let top = top_nodes.iter().filter_map(|node| nodes.get(*node)).sum();
    (top, nodes.iter().sum::<u64>() - top)
}

fn to_tiers(tiers: &TierSamples) -> Tiers {
    Tiers {
        last_start_ns: tiers.last_start_ns,
        mark_ns: tiers.mark_ns,
        end_ns: tiers.end_ns,
        migrated: tiers.migrated.clone(),
    }
}

fn to_placements(series: &TierSeries, tiers: &TierSamples) -> Vec<Placement> {
    let samples = series.at_ns.iter().zip(&series.node_bytes);
    let samples = samples.zip(&series.budget_bytes);
    let place = |((at_ns, nodes), budget): ((&u64, &Vec<u64>), &Option<u64>)| {
        let (top, low) = split_by_tier(nodes, &tiers.top_nodes);
        Placement {
            at_ns: *at_ns,
            top,
            low,
            budget: *budget,
        }
    };
    samples.map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::{Figure, Figures, Unit, compute_metrics};
    use crate::model::Arm;
    use crate::rundir::Event;

    /// What a real guest said, arm weir, Debian's 6.12 cloud kernel: a floored writer of 50 writes a
    /// second, alone and beside a reader.
    const TRANSCRIPT: &str = include_str!("testdata/short-weir.jsonl");

    fn events() -> Vec<Event> {
        let lines = TRANSCRIPT.lines();
        lines
            .map(|line| serde_json::from_str(line).expect("an event"))
            .collect()
    }

    #[test]
    fn a_recorded_guest_gives_the_figures_fio_printed() {
        let mut all = Figures::new();
        for event in events() {
            if let Event::PhaseEnd(result) = event {
                all.extend(compute_metrics(Arm::Weir, &result.to_measured()));
            }
        }
        let stat = "both.cgroup/inner/writer";
        for (name, value, unit) in [
            ("alone.writer.iops", 49.983339, Unit::Iops),
            ("alone.writer.bw_bytes", 204_731.0, Unit::Bandwidth),
            ("alone.writer.total_ios", 150.0, Unit::Count),
            ("alone.writer.clat_p50_ns", 358_400.0, Unit::Nanoseconds),
            ("alone.writer.clat_p99_ns", 2_965_504.0, Unit::Nanoseconds),
            ("alone.writer.clat_max_ns", 3_729_563.0, Unit::Nanoseconds),
            // A job that only reads has the latencies of its reads.
            ("both.reader.clat_p99_ns", 4_227_072.0, Unit::Nanoseconds),
            ("both.host.dirty_max_bytes", 600.0 * 1024.0, Unit::Bytes),
            // An even number of samples: between the two in the middle.
            (
                &format!("{stat}.dirty_median_bytes"),
                328.0 * 1024.0,
                Unit::Bytes,
            ),
            ("both.disk/fast.bw_bytes", 0.0, Unit::Bandwidth),
            ("both.host.io_full_pct", 0.0, Unit::Percent),
            // 24 since the module was loaded, 16 of them in the phase before.
            (&format!("{stat}.nr_passes"), 8.0, Unit::Count),
            (&format!("{stat}.floor"), 4_194_304.0, Unit::Bytes),
            (&format!("{stat}.throttled_usec"), 0.0, Unit::Microseconds),
        ] {
            let figure = all.get(&format!("weir.{name}"));
            assert_eq!(figure, Some(&Figure { value, unit }), "{name}");
        }
        assert!(
            !all.contains_key(&format!("weir.{stat}.ceiling")),
            "`max` is not a number"
        );
        assert!(
            !all.contains_key("weir.alone.reader.iops"),
            "the reader did not run in this phase"
        );
    }

    #[test]
    fn a_job_without_a_single_operation_has_no_latency() {
        let fio = serde_json::json!({
            "write": {"iops": 0.0, "bw_bytes": 0, "total_ios": 0, "clat_ns": {"max": 0}}
        });
        assert_eq!(read_fio_job(&fio), MeasuredJob::default());
    }

    #[test]
    fn calls_of_fsync_have_latencies_of_their_own() {
        let percentiles = |ns: u64| serde_json::json!({"50.000000": ns, "99.000000": 2 * ns, "99.900000": 3 * ns});
        let fio = serde_json::json!({
            "write": {"iops": 1.0, "bw_bytes": 4096, "total_ios": 9,
                "clat_ns": {"max": 40, "percentile": percentiles(10)}},
            "sync": {"total_ios": 0, "lat_ns": {"N": 9, "max": 4000, "percentile": percentiles(1000)}},
        });
        let latency = |p50_ns, max_ns| Latency {
            p50_ns,
            p99_ns: 2 * p50_ns,
            p999_ns: 3 * p50_ns,
            max_ns,
        };
        let job = read_fio_job(&fio);
        assert_eq!(job.latency, Some(latency(10, 40)));
        assert_eq!(job.sync, Some(latency(1000, 4000)));
    }

    #[test]
    fn no_percentile_is_above_the_maximum() {
        let fio = serde_json::json!({
            "write": {"iops": 1.0, "bw_bytes": 4096, "total_ios": 9,
                "clat_ns": {"max": 198_000_000, "percentile":
                    {"50.000000": 9, "99.000000": 198_180_864, "99.900000": 198_180_864}}},
        });
        let latency = read_fio_job(&fio).latency.expect("writes were timed");
        assert_eq!((latency.p50_ns, latency.p99_ns), (9, 198_000_000));
        assert_eq!(latency.p999_ns, latency.max_ns);
    }

    #[test]
    fn hot_pages_that_are_nowhere_are_not_in_fast_memory() {
        let report = Report {
            ops: 3000,
            elapsed_ns: 1_500_000_000,
            hot: vec![90, 8],
            hot_nowhere: 2,
            ..Report::default()
        };
        let job = to_memory_job(&report, &[0]);
        assert_eq!(
            (job.hot_low, job.hot, job.elapsed_ns),
            (10, 100, 1_500_000_000)
        );
    }

    #[test]
    fn a_job_that_allocates_needs_no_tiers() {
        let spread = measured::Spread {
            p99_ns: 7_000_000,
            ..measured::Spread::default()
        };
        let allocations = Allocations {
            pages: 256,
            map: Some(spread),
            worst_fault_ns: 9_000_000,
            ..Allocations::default()
        };
        let report = Report {
            ops: 512,
            elapsed_ns: 1_000_000_000,
            allocations: Some(allocations),
            ..Report::default()
        };
        let result = PhaseResult {
            phase: "p".into(),
            memory: BTreeMap::from([("light".into(), report)]),
            events: BTreeMap::from([("pgscan_direct".into(), 7)]),
            ..PhaseResult::default()
        };
        let all = compute_metrics(Arm::Stock, &result.to_measured());
        let value = |name: &str| all.get(&format!("stock.p.{name}")).map(|of| of.value);
        assert_eq!(value("light.map_p99_ns"), Some(7e6));
        assert_eq!(value("light.fault_worst_ns"), Some(9e6));
        assert_eq!(value("light.alloc_bw"), Some(1_048_576.0));
        assert_eq!(value("light.touch_bw"), Some(2_097_152.0));
        assert_eq!(value("light.fault_p99_ns"), None, "no fault was timed");
        assert_eq!(value("light.ops_per_sec"), None);
        assert_eq!(value("host.pgscan_direct"), Some(7.0));
        assert_eq!(
            value("host.pgscan_kswapd"),
            None,
            "the kernel has no such counter"
        );
        assert_eq!(value("host.system_cpu_pct"), None);
    }

    #[test]
    fn events_survive_the_channel() {
        for event in events() {
            let line = serde_json::to_string(&event).expect("JSON");
            assert!(!line.contains('\n'), "one event is one line");
            let again: Event = serde_json::from_str(&line).expect("an event");
            assert_eq!(again, event);
        }
    }
}
