// SPDX-License-Identifier: GPL-2.0-only
//! A real Prometheus scrapes the agent, its promtool checks what it gets, and every query of the
//! Grafana dashboard is put to it.

use crate::machine::{Agent, get, until};
use serde_json::Value;
use std::io::Write;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// In bytes, as the kernel would show them.
const POLICY: &str = "[[rule]]\ncgroup = \"/pods.slice/*\"\n\
    set = { \"memory.dirty_min\" = 16777216, \"memory.dirty_bytes\" = 67108864, \"memory.dirty_weight\" = 200, \
    \"memory.dirty_bandwidth\" = 2097152, \"memory.writeback_bytes\" = 262144 }\n";

/// Ends with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn promtool(metrics: &str) {
    let mut child = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool runs: `make metrics` gets it");
    let mut to = child.stdin.take().expect("piped");
    to.write_all(metrics.as_bytes()).expect("taken");
    drop(to);
    let output = child.wait_with_output().expect("ended");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && said.is_empty(),
        "promtool: {said}\n{metrics}"
    );
}

/// As a URL wants it.
fn encoded(query: &str) -> String {
    query.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

fn ask(address: &str, path: &str) -> Value {
    let text = get(address, path, "*/*").unwrap_or_default();
    serde_json::from_str(&text).unwrap_or(Value::Null)
}

/// The samples a query finds.
fn query(address: &str, expr: &str) -> Vec<Value> {
    let answer = ask(address, &format!("/api/v1/query?query={}", encoded(expr)));
    assert_ne!(answer["status"], "error", "{expr}: {}", answer["error"]);
    answer["data"]["result"]
        .as_array()
        .cloned()
        .unwrap_or_default()
}

/// Metrics that only a running kernel gives occasion for: a guest's test has them.
const NOT_HERE: [&str; 2] = ["weir_stall_", "weir_agent_objective_"];

fn guide() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide.md");
    std::fs::read_to_string(path).expect("docs/guide.md is there")
}

#[test]
fn the_alert_rules_ask_for_metrics_that_the_guide_has() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../cluster/prometheus/weir.rules.yaml"
    );
    let rules = std::fs::read_to_string(path).expect("cluster/prometheus/weir.rules.yaml is there");
    let guide = guide();
    let words = rules.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':');
    let names: Vec<&str> = words.filter(|word| word.starts_with("weir_")).collect();
    assert!(names.len() >= 8, "{names:?}");
    for name in names {
        assert!(
            guide.contains(&format!("`{name}`")),
            "no {name} in the guide"
        );
    }
}

/// All queries of the dashboard, its variables put in.
fn dashboard() -> Vec<String> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../cluster/grafana/weir.json"
    );
    let text = std::fs::read_to_string(path).expect("cluster/grafana/weir.json is there");
    let dashboard: Value = serde_json::from_str(&text).expect("JSON");
    let mut found = Vec::new();
    collect(&dashboard, &mut found);
    let variables = [
        ("$__rate_interval", "10s"),
        ("$instance", ".*"),
        ("$cgroup", ".*"),
        ("$namespace", ".*"),
        ("$__range", "1h"),
        ("$1", "ONE"),
    ];
    let fill = |expr: &String| {
        variables.iter().fold(expr.clone(), |expr, (name, value)| {
            expr.replace(name, value)
        })
    };
    found.iter().map(fill).collect()
}

fn collect(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match value.as_str() {
                    Some(text) if key == "expr" => found.push(text.into()),
                    // label_values(METRIC, LABEL), as variables have it.
                    Some(text) if key == "query" && text.starts_with("label_values(") => {
                        let inner = text.trim_start_matches("label_values(");
                        found.push(inner.split(',').next().unwrap_or(inner).into());
                    }
                    _ => collect(value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        _ => {}
    }
}

#[test]
fn the_dashboard_asks_for_metrics_that_there_are() {
    let queries = dashboard();
    assert!(queries.len() > 20, "{queries:?}");
    assert!(
        !queries.iter().any(|query| query.contains('$')),
        "{queries:?}"
    );
    let (machine, policy) = crate::bench(POLICY);
    let agent = Agent::start(&machine, &policy, &[]);
    let metrics = || get(&agent.address, "/metrics", "").expect("answered");
    until("knobs in metrics", || {
        metrics().contains("\nweir_agent_knobs{state=\"set\"} 5\n")
    });
    let metrics = metrics();
    let words = queries
        .iter()
        .flat_map(|query| query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'))
        .filter(|word| word.starts_with("weir_") || word.starts_with("process_"));
    for name in words {
        if NOT_HERE.iter().any(|prefix| name.starts_with(prefix)) {
            assert!(
                guide().contains(&format!("`{name}`")),
                "no {name} in the guide"
            );
            continue;
        }
        assert!(
            metrics.contains(&format!("\n# TYPE {name} ")),
            "no {name} in\n{metrics}"
        );
    }
}

#[test]
#[ignore = "takes Prometheus: make metrics"]
fn prometheus_takes_every_metric_and_answers_every_query() {
    let (machine, policy) = crate::bench(POLICY);
    machine.appear("pods.slice/batch.scope");
    let agent = Agent::start(&machine, &policy, &[]);
    promtool(&get(&agent.address, "/metrics", "text/plain").expect("answered"));

    let config = machine.root().join("prometheus.yml");
    let address = {
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        free.local_addr().expect("bound").to_string()
    };
    machine.write(
        "prometheus.yml",
        &format!(
            "scrape_configs:\n- job_name: weir\n  scrape_interval: 1s\n  static_configs:\n  - targets: ['{}']\n",
            agent.address
        ),
    );
    let server = Command::new("prometheus")
        .arg(format!("--config.file={}", config.display()))
        .arg(format!(
            "--storage.tsdb.path={}",
            machine.root().join("tsdb").display()
        ))
        .arg(format!("--web.listen-address={address}"))
        .arg("--log.level=warn")
        .spawn()
        .expect("prometheus runs: `make metrics` gets it");
    let _server = Server(server);

    // Counters grow while it looks.
    let began = Instant::now();
    until("ten scrapes", || {
        machine.go_on(1 + began.elapsed().as_secs());
        std::thread::sleep(Duration::from_millis(200));
        let scrapes = query(&address, "count_over_time(up{job=\"weir\"}[1m])");
        let count = scrapes
            .first()
            .and_then(|sample| sample["value"][1].as_str()?.parse::<u32>().ok());
        count >= Some(10)
    });
    assert_eq!(
        query(&address, "min_over_time(up[1m]) == 1").len(),
        1,
        "every scrape was good"
    );
    // Units are in OpenMetrics alone: that is what it asked for and got.
    let metadata = ask(&address, "/api/v1/metadata?metric=weir_cgroup_dirty_bytes");
    assert_eq!(
        metadata["data"]["weir_cgroup_dirty_bytes"][0]["unit"], "bytes",
        "{metadata}"
    );

    let dirty = query(
        &address,
        "weir_cgroup_dirty_bytes{cgroup=\"/pods.slice/db.scope\"}",
    );
    assert_eq!(dirty[0]["value"][1], "4194304", "{dirty:?}");
    let written = query(
        &address,
        "rate(weir_cgroup_written_bytes_total{cgroup=\"/pods.slice/db.scope\"}[30s]) > 0",
    );
    assert_eq!(written.len(), 1);
    let queries = dashboard();
    let is_here = |expr: &&String| {
        let elsewhere = NOT_HERE.iter().chain(&["container_memory_"]);
        !elsewhere.into_iter().any(|name| expr.contains(name))
    };
    for expr in queries.iter().filter(is_here) {
        machine.go_on(1 + began.elapsed().as_secs());
        let found = query(&address, expr);
        assert!(
            !found.is_empty(),
            "the dashboard would show nothing for: {expr}"
        );
        println!("{} series: {expr}", found.len());
    }
    println!("{} queries", queries.len());
}
