// SPDX-License-Identifier: GPL-2.0-only
//! The report for programs. Names and shape are an interface: scripts hold on to them.

use crate::Report;
use serde_json::{Map, Value, json};
use std::time::SystemTime;

/// Today's date in UTC, as in `2026-11-28`. No time of day: two runs on the twin print the same.
pub fn today_utc() -> String {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    now.split('T').next().unwrap_or_default().to_owned()
}

/// `{"verdict", "metrics": {NAME: {"median","min","max","n","unit"}}, "expect":
/// [{"text","verdict","observed"}]}`. `observed` is null where nothing was measured.
pub fn report_json(report: &Report) -> Value {
    let metrics: Map<String, Value> = report
        .metrics
        .iter()
        .map(|(name, s)| {
            let summary =
                json!({"median": s.median, "min": s.min, "max": s.max, "n": s.n, "unit": s.unit});
            (name.clone(), summary)
        })
        .collect();
    let expects: Vec<Value> = report
        .expects
        .iter()
        .map(|e| json!({"text": e.text, "verdict": e.verdict.name(), "observed": e.observed}))
        .collect();
    json!({"verdict": report.verdict.name(), "metrics": metrics, "expect": expects})
}
