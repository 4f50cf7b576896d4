// SPDX-License-Identifier: GPL-2.0-only
use super::*;
use std::fs;

const STAT: &str = "in_effect 1\ndirty 4096\nfloor 8388608\nfloor_unused 4096\nceiling max\nnr_passes 10\n\
    nr_floor_admitted 7\nnr_ceiling_held 0\nnr_weight_held 2\nweight_held_usec 1500000\n\
    nr_throttled_by_host 3\nthrottled_by_host_usec 250000\nnr_throttled_by_ceiling 0\nthrottled_by_ceiling_usec 0\nnr_would_admit 5\n\
    nr_bandwidth_held 6\nbandwidth_held_usec 750000\nnr_writeback_held 4\nwriteback_held_usec 500000\n";

struct Bench(tempfile::TempDir);

impl Bench {
    fn new() -> Bench {
        let bench = Bench(tempfile::tempdir().expect("made"));
        bench.write("cgroup.controllers", "memory io\n");
        bench.write("../../../proc/vmstat", "nr_dirty 5\nnr_dirty_threshold 7\n");
        bench
    }

    fn write(&self, file: &str, text: &str) {
        let file = self.0.path().join("sys/fs/cgroup").join(file);
        fs::create_dir_all(file.parent().expect("has one")).expect("made");
        fs::write(file, text).expect("written");
    }

    fn cgroup(&self, path: &str) {
        self.write(
            &format!("{path}/memory.stat"),
            "file 9\nfile_dirty 4096\nfile_writeback 8192\nactive_file 1\ninactive_file 2\n",
        );
        self.write(
            &format!("{path}/io.stat"),
            "254:0 rbytes=10 wbytes=100 rios=1 wios=2\n254:16 rbytes=1 wbytes=5 rios=1 wios=2\n",
        );
        self.write(
            &format!("{path}/io.pressure"),
            "some avg10=0.00 avg60=0.00 avg300=0.00 total=1500000\n",
        );
    }

    fn exporter(&self, max_cgroups: usize, only: &[&str]) -> Exporter {
        let root = self.0.path().to_path_buf();
        let tree = Hierarchy::open(&root.join("sys/fs/cgroup")).expect("a hierarchy");
        let only = only
            .iter()
            .map(|glob| crate::globs::parse_pattern(glob).expect("valid"));
        let only = only.collect();
        Exporter::new(root, tree, Shown { max_cgroups, only })
    }
}

fn scrape(exporter: &Exporter, accept: &str) -> Response {
    exporter.answer_request(Ok(Request {
        path: "/metrics".into(),
        accept: accept.into(),
    }))
}

#[track_caller]
fn says(text: &str, line: &str) {
    assert!(text.lines().any(|l| l == line), "no line {line}\n{text}");
}

#[test]
fn cgroups_are_shown_in_base_units() {
    let bench = Bench::new();
    bench.cgroup("db.service");
    bench.cgroup("web");
    bench.write("db.service/memory.dirty_min", "16777216\n");
    bench.write("db.service/memory.dirty_weight", "200\n");
    bench.write("db.service/memory.dirty_stat", STAT);
    bench.cgroup("batch");
    bench.write("batch/memory.writeback_bytes", "262144\n");
    bench.write("batch/memory.dirty_stat", STAT);
    bench.cgroup("sync");
    bench.write("sync/memory.dirty_bandwidth", "2097152\n");
    bench.write("sync/memory.dirty_stat", STAT);
    bench.write("web/memory.dirty_min", "0\n");
    bench.write("web/memory.writeback_bytes", "max\n");
    bench.write("web/memory.dirty_weight", "100\n");
    bench.write("web/memory.dirty_stat", STAT);
    let text = scrape(&bench.exporter(10, &[]), "application/openmetrics-text").body;
    for line in [
        "weir_cgroup_dirty_bytes{cgroup=\"/db.service\"} 4096",
        "weir_cgroup_writeback_bytes{cgroup=\"/web\"} 8192",
        "weir_cgroup_written_bytes_total{cgroup=\"/web\"} 105",
        "weir_cgroup_pressure_waiting_seconds_total{cgroup=\"/web\",resource=\"io\"} 1.5",
        "weir_cgroup_floor_wanted_bytes{cgroup=\"/db.service\"} 16777216",
        "weir_cgroup_floor_bytes{cgroup=\"/db.service\"} 8388608",
        "weir_cgroup_weight{cgroup=\"/db.service\"} 200",
        "weir_cgroup_pauses_total{cgroup=\"/db.service\",by=\"host\"} 3",
        "weir_cgroup_throttled_seconds_total{cgroup=\"/db.service\",by=\"host\"} 0.25",
        "weir_cgroup_weight_waited_seconds_total{cgroup=\"/db.service\"} 1.5",
        "weir_cgroup_observed_passes_total{cgroup=\"/db.service\",knob=\"floor\"} 5",
        "weir_cgroup_bandwidth_bytes{cgroup=\"/sync\"} 2097152",
        "weir_cgroup_bandwidth_waits_total{cgroup=\"/sync\"} 6",
        "weir_cgroup_bandwidth_waited_seconds_total{cgroup=\"/sync\"} 0.75",
        "weir_cgroup_window_bytes{cgroup=\"/batch\"} 262144",
        "weir_cgroup_window_waits_total{cgroup=\"/batch\"} 4",
        "weir_cgroup_window_waited_seconds_total{cgroup=\"/batch\"} 0.5",
        "# UNIT weir_cgroup_throttled_seconds seconds",
        "weir_host_dirty_bytes 20480",
        "weir_host_dirty_limit_bytes 28672",
        "weir_cgroups_shown 5",
        "weir_cgroups_left_out 0",
        "weir_module_state{state=\"not_loaded\"} 1",
        "# EOF",
    ] {
        says(&text, line);
    }
    assert!(!text.contains("weir_cgroup_ceiling_bytes"), "max is none");
    assert!(
        !text.contains("passes_total{cgroup=\"/web\""),
        "asking makes a record"
    );
}

#[test]
fn the_module_is_shown() {
    let bench = Bench::new();
    for (file, value) in [
        ("state", "active"),
        ("missed", "4"),
        ("beat_age_ms", "150"),
        ("floors_bytes", "4096"),
    ] {
        bench.write(&format!("../../kernel/weir/{file}"), &format!("{value}\n"));
    }
    let text = scrape(&bench.exporter(10, &[]), "").body;
    for line in [
        "weir_module_state{state=\"active\"} 1",
        "weir_module_state{state=\"not_loaded\"} 0",
        "weir_module_missed_decisions_total 4",
        "weir_module_beat_age_seconds 0.15",
        "weir_module_floors_bytes 4096",
    ] {
        says(&text, line);
    }
}

#[test]
fn no_more_cgroups_than_allowed_and_those_with_rules_first() {
    let bench = Bench::new();
    for number in 0..50 {
        bench.cgroup(&format!("pods/p{number:02}/c"));
    }
    let exporter = bench.exporter(4, &["/pods/**"]);
    let kept = bench.0.path().join("sys/fs/cgroup/pods/p33/c");
    exporter.store_published(Published {
        families: Vec::new(),
        kept: [kept].into(),
    });
    let text = scrape(&exporter, "").body;
    let shown: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("weir_cgroup_dirty_bytes{cgroup=\""))
        .collect();
    assert_eq!(
        shown,
        ["/pods/p33/c\"} 4096"],
        "the others are p00 to p02, which have no files"
    );
    says(&text, "weir_cgroups_shown 4");
    says(&text, "weir_cgroups_left_out 96");
}

#[test]
fn scrapes_that_follow_at_once_are_read_once() {
    let bench = Bench::new();
    bench.cgroup("a");
    let exporter = bench.exporter(10, &[]);
    let first = scrape(&exporter, "application/openmetrics-text");
    bench.write("a/memory.stat", "file_dirty 12345\n");
    let second = scrape(&exporter, "text/plain");
    assert_eq!(
        first.kind,
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    );
    assert_eq!(second.kind, "text/plain; version=0.0.4; charset=utf-8");
    says(&second.body, "weir_cgroup_dirty_bytes{cgroup=\"/a\"} 4096");
    says(
        &second.body,
        "# TYPE weir_cgroup_written_bytes_total counter",
    );
}

#[test]
fn there_are_two_pages() {
    let bench = Bench::new();
    let exporter = bench.exporter(10, &[]);
    let status = |path: &str| {
        let request = Request {
            path: path.into(),
            accept: String::new(),
        };
        exporter.answer_request(Ok(request)).status
    };
    assert_eq!(status("/"), "200 OK");
    assert_eq!(status("/../etc/passwd"), "404 Not Found");
    let refused = Response::plain_text("405 Method Not Allowed", "no\n");
    assert_eq!(
        exporter.answer_request(Err(refused)).status,
        "405 Method Not Allowed"
    );
    let text = scrape(&exporter, "").body;
    says(
        &text,
        "weir_agent_http_requests_total{result=\"answered\"} 1",
    );
    says(
        &text,
        "weir_agent_http_requests_total{result=\"refused\"} 2",
    );
}
