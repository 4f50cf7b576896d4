// SPDX-License-Identifier: GPL-2.0-only
//! The report for people: one table, stock beside weir, for the terminal and for Markdown; then
//! each expectation with what was observed and what it was held against.
//!
//! A row is a measure of a phase. Jobs come first, then cgroups, then the host. A job that ran with
//! fewer others in an earlier phase also gets its share of that phase's IOPS, because "contended /
//! solo" is what the reader came for. With many phases only what an expectation is about is shown, so that the
//! answer is not buried.

use crate::format::format_summary;
use crate::{Judged, Report, Summary, Verdict};
use comfy_table::{Attribute, Cell, CellAlignment, Color, Table, presets};
use report::{format_comparison, format_ratio, format_value};
use scenario::metric::{Unit, unit_of_metric};
use scenario::model::{Arm, Job, Phase, Scenario};

/// More phases than this and only judged metrics are shown.
const MANY_PHASES: usize = 4;
/// Columns of the narrowest terminal.
const WIDTH: usize = 80;

/// Measures of a job, as shown.
const JOB: &[(&str, &str)] = &[
    ("iops", "IOPS"),
    ("clat_p99_ns", "p99"),
    ("clat_max_ns", "worst"),
    ("bw_bytes", "written"),
    ("bw_bytes", READ),
    ("ops_per_sec", "reads/s"),
    ("hot_low_pct", "hot, low tier"),
    ("map_p50_ns", "mapping p50"),
    ("map_p99_ns", "mapping p99"),
    ("fault_worst_ns", "worst fault"),
    ("touch_bw", "touched"),
];
/// The same of a job that waits for fsync, which is what it is about: its writes end in memory.
const SYNCING: &[(&str, &str)] = &[
    ("iops", "IOPS"),
    ("sync_p99_ns", "fsync p99"),
    ("sync_max_ns", "fsync worst"),
    ("clat_p99_ns", "write p99"),
    ("clat_max_ns", "write worst"),
    ("bw_bytes", "written"),
];
/// Measure of a job that only reads, in place of what was written.
const READ: &str = "read";
/// Measures of a cgroup, as shown.
const CGROUP: &[(&str, &str)] = &[
    ("dirty_max_bytes", "dirty max"),
    ("toptier_bytes", "top tier"),
    ("lowtier_bytes", "low tier"),
    ("budget_error_pct", "budget error"),
    ("settle_ns", "time to settle"),
    (KILLS, "OOM kills"),
];
/// Measures of the host, as shown.
const HOST: &[(&str, &str)] = &[
    ("dirty_max_bytes", "dirty max"),
    ("disk_bw_bytes", "disk"),
    ("io_full_pct", "IO full"),
    ("ops_per_sec", "reads/s"),
    ("migrated_bytes_per_min", "moved/min"),
    (KILLS, "OOM kills"),
];
/// Shown where there were any.
const KILLS: &str = "oom_kills";
/// Of the host, where it has disks.
const OF_DISKS: [&str; 3] = ["dirty_max_bytes", "disk_bw_bytes", "io_full_pct"];

/// One line of the table: a figure per arm, and those of later arms divided by the first's.
struct Row {
    phase: String,
    measure: String,
    arms: Vec<String>,
    ratios: Vec<String>,
}

/// The report for a terminal, at most 80 columns where names allow; `colour` adds ANSI colours.
pub fn terminal_report(report: &Report, scenario: &Scenario, colour: bool) -> String {
    let mut lines = vec![
        paint_text(&report.title, &[BOLD], colour),
        report_subtitle(report),
        String::new(),
    ];
    if report.metrics.is_empty() {
        lines.push("No run got to its end: there are no figures and nothing to judge.".into());
    } else {
        lines.push(terminal_table(report, scenario, colour));
        lines.push(String::new());
        lines.extend(
            report
                .expects
                .iter()
                .map(|judged| expectation_line(judged, colour)),
        );
    }
    let bang = paint_text("!", &[RED, BOLD], colour);
    lines.extend(
        report
            .troubles
            .iter()
            .map(|trouble| format!("  {bang} {trouble}")),
    );
    lines.push(String::new());
    lines.push(paint_text(
        &conclusion_line(report),
        &[BOLD, verdict_tone(report.verdict)],
        colour,
    ));
    lines.join("\n") + "\n"
}

/// The table as a terminal shows it.
fn terminal_table(report: &Report, scenario: &Scenario, colour: bool) -> String {
    let mut table = figures_table(report, scenario, colour);
    table.load_preset(presets::NOTHING);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    if colour {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    table.trim_fmt()
}

/// The same table and expectations as Markdown.
pub fn markdown_report(report: &Report, scenario: &Scenario) -> String {
    let mut table = figures_table(report, scenario, false);
    table.load_preset(presets::ASCII_MARKDOWN).force_no_tty();
    let mut lines = vec![format!(
        "**{}** ({})\n\n{table}\n",
        report.title,
        report_subtitle(report)
    )];
    lines.extend(report.expects.iter().map(|judged| {
        let (sign, _) = verdict_mark(judged.verdict);
        format!("- {sign} `{}`: {}", judged.text, describe_outcome(judged))
    }));
    lines.extend(
        report
            .troubles
            .iter()
            .map(|trouble| format!("- ! {trouble}")),
    );
    lines.push(String::new());
    lines.push(conclusion_line(report));
    lines.join("\n") + "\n"
}

fn report_subtitle(report: &Report) -> String {
    let kernels = if report.kernels.is_empty() {
        "no kernel".into()
    } else {
        report.kernels.join(", ")
    };
    let mut counts: Vec<usize> = report.finished.values().copied().collect();
    counts.dedup();
    let n = match counts.as_slice() {
        [] => "no finished run".into(),
        [1] => "single run, N = 1".into(),
        [n] => format!("median (min..max), N = {n}"),
        _ => {
            let each: Vec<String> = report
                .finished
                .iter()
                .map(|(arm, n)| format!("{} {n}", arm.name()))
                .collect();
            format!("median (min..max), N = {}", each.join(", "))
        }
    };
    format!("Linux {kernels} · {n}")
}

fn figures_table(report: &Report, scenario: &Scenario, colour: bool) -> Table {
    let arms: Vec<Arm> = report.finished.keys().copied().collect();
    let mut table = Table::new();
    let mut header = vec![Cell::new("phase"), Cell::new("measure")];
    let names = arms.iter().map(|arm| arm.name().to_owned());
    let ratios = arms.iter().skip(1).map(|arm| match arms.len() {
        2 => "ratio".to_owned(),
        _ => format!("{}/{}", arm.name(), arms[0].name()),
    });
    header.extend(names.chain(ratios).map(right_cell));
    if colour {
        header = header
            .into_iter()
            .map(|cell| cell.add_attribute(Attribute::Bold))
            .collect();
    }
    table.set_header(header);
    let mut last = String::new();
    for row in table_rows(report, scenario, &arms) {
        let phase = if row.phase == last {
            String::new()
        } else {
            row.phase.clone()
        };
        last = row.phase;
        let mut phase = Cell::new(phase);
        if colour {
            phase = phase.fg(Color::Cyan);
        }
        let mut cells = vec![phase, Cell::new(row.measure)];
        cells.extend(row.arms.into_iter().chain(row.ratios).map(right_cell));
        table.add_row(cells);
    }
    table
}

fn right_cell(text: String) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

/// Later arms' figures divided by the first's.
fn format_ratios(figures: &[Option<f64>]) -> Vec<String> {
    let later = figures.iter().skip(1);
    let ratios = later.map(|figure| match (*figure, figures[0]) {
        (Some(figure), Some(first)) => format_ratio(figure, first),
        _ => "-".into(),
    });
    ratios.collect()
}

fn table_rows(report: &Report, scenario: &Scenario, arms: &[Arm]) -> Vec<Row> {
    let judged_only = scenario.phases.len() > MANY_PHASES;
    let mut rows = Vec::new();
    for (index, phase) in scenario.phases.iter().enumerate() {
        let mut add = |subject: &str, shown: &str, measures: &[(&str, &str)]| {
            for (metric, label) in measures {
                let path = format!("{}.{subject}.{metric}", phase.name);
                let of_it = |judged: &Judged| judged.metric.ends_with(&format!(".{path}"));
                if judged_only && !report.expects.iter().any(of_it) {
                    continue;
                }
                let is_zero = |arm: &Arm| {
                    let figure = report.metrics.get(&format!("{}.{path}", arm.name()));
                    figure.is_none_or(|figure| figure.max == 0.0)
                };
                let of_disks = subject == "host" && OF_DISKS.contains(metric);
                if *metric == KILLS && arms.iter().all(is_zero)
                    || of_disks && scenario.disks.is_empty()
                {
                    continue;
                }
                let found = figures_row(report, phase, &path, format!("{shown} {label}"), arms);
                let has_iops = found.is_some() && *metric == "iops";
                rows.extend(found);
                if has_iops {
                    rows.extend(baseline_share_row(report, scenario, index, subject, arms));
                }
            }
        };
        for job in &phase.jobs {
            add(job, job, &job_measures(report, scenario, phase, job));
        }
        for cgroup in scenario.cgroups.keys() {
            let used =
                |job: &Job| phase.jobs.contains(&job.name) && job.cgroup.as_ref() == Some(cgroup);
            if scenario.jobs.iter().any(used) {
                let s = if cgroup.ends_with('s') { "" } else { "s" };
                add(
                    &format!("cgroup/{cgroup}"),
                    &format!("{cgroup}'{s}"),
                    CGROUP,
                );
            }
        }
        add("host", "host", HOST);
    }
    rows
}

/// Measures shown of a job: that of fsync if it called it.
fn job_measures(
    report: &Report,
    scenario: &Scenario,
    phase: &Phase,
    job: &str,
) -> Vec<(&'static str, &'static str)> {
    let syncs = |arm: &Arm| {
        let name = format!("{}.{}.{job}.sync_p99_ns", arm.name(), phase.name);
        report.metrics.contains_key(&name)
    };
    if Arm::ALL.iter().any(syncs) {
        return SYNCING.to_vec();
    }
    let job = scenario.jobs.iter().find(|other| other.name == job);
    let rw = job.and_then(Job::fio_pattern);
    let reads = rw.is_some_and(|rw| rw == "read" || rw == "randread");
    let other = if reads { "written" } else { READ };
    let measures = JOB.iter().filter(|(_, label)| *label != other);
    measures.copied().collect()
}

/// The figures of `PHASE.SUBJECT.METRIC`, if any arm has one.
fn figures_row(
    report: &Report,
    phase: &Phase,
    path: &str,
    measure: String,
    arms: &[Arm],
) -> Option<Row> {
    let of = |arm: &Arm| report.metrics.get(&format!("{}.{path}", arm.name()));
    let found: Vec<Option<&Summary>> = arms.iter().map(of).collect();
    if found.iter().all(Option::is_none) {
        return None;
    }
    let unit = unit_of_metric(path);
    let medians: Vec<Option<f64>> = found.iter().map(|s| s.map(|s| s.median)).collect();
    let arms = found
        .iter()
        .map(|s| s.map_or("-".into(), |s| format_summary(s, unit)))
        .collect();
    Some(Row {
        phase: phase.name.clone(),
        measure,
        arms,
        ratios: format_ratios(&medians),
    })
}

/// A job's IOPS as a share of those in its baseline: an earlier phase of which this one has all jobs,
/// and more.
fn baseline_share_row(
    report: &Report,
    scenario: &Scenario,
    index: usize,
    job: &str,
    arms: &[Arm],
) -> Option<Row> {
    let phase = &scenario.phases[index];
    let is_baseline = |other: &&Phase| {
        other.jobs.iter().any(|name| name == job)
            && other.jobs.iter().all(|name| phase.jobs.contains(name))
            && other.jobs.len() < phase.jobs.len()
    };
    let first = scenario.phases[..index].iter().find(is_baseline)?;
    let median = |arm: &Arm, phase: &str| {
        report
            .metrics
            .get(&format!("{}.{phase}.{job}.iops", arm.name()))
            .map(|s| s.median)
    };
    let shares: Vec<Option<f64>> = arms
        .iter()
        .map(|arm| Some(median(arm, &phase.name)? / median(arm, &first.name)?))
        .collect();
    let arms = shares
        .iter()
        .map(|s| s.map_or("-".into(), |s| format_value(100.0 * s, Unit::Percent)))
        .collect();
    Some(Row {
        phase: phase.name.clone(),
        measure: format!("{job} IOPS/{}", first.name),
        arms,
        ratios: format_ratios(&shares),
    })
}

/// One expectation; what was seen stands beside it where it fits, below it where not.
fn expectation_line(judged: &Judged, colour: bool) -> String {
    let (sign, tone) = verdict_mark(judged.verdict);
    let sign = paint_text(sign, &[tone, BOLD], colour);
    let (text, outcome) = (&judged.text, describe_outcome(judged));
    let room = (WIDTH - 4).saturating_sub(text.chars().count());
    if outcome.chars().count() + 2 <= room {
        format!("  {sign} {text}{outcome:>room$}")
    } else {
        format!("  {sign} {text}\n{outcome:>WIDTH$}")
    }
}

/// The value observed, next to what it had to be.
fn describe_outcome(judged: &Judged) -> String {
    let unit = unit_of_metric(&judged.metric);
    match (judged.observed, judged.bound) {
        (Some(observed), Some(bound)) if judged.why.is_empty() => {
            format_comparison(observed, bound, unit)
        }
        _ => format!("{}: {}", judged.verdict.name(), judged.why),
    }
}

fn conclusion_line(report: &Report) -> String {
    let count = |verdict| {
        report
            .expects
            .iter()
            .filter(|e| e.verdict == verdict)
            .count()
    };
    let (met, skipped, all) = (
        count(Verdict::Pass),
        count(Verdict::Skipped),
        report.expects.len(),
    );
    let mut text = match report.verdict {
        Verdict::Pass => format!("pass: {met} of {all} expectations met"),
        Verdict::Fail if report.troubles.is_empty() => {
            format!(
                "fail: {} of {all} expectations not met",
                count(Verdict::Fail)
            )
        }
        Verdict::Fail => "fail: a guest failed".into(),
        _ => "inconclusive: not everything needed could be measured".into(),
    };
    if skipped > 0 {
        text += &format!(", {skipped} skipped");
    }
    text
}

const BOLD: &str = "1";
const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";

fn verdict_mark(verdict: Verdict) -> (&'static str, &'static str) {
    let sign = match verdict {
        Verdict::Pass => "✓",
        Verdict::Fail => "✗",
        Verdict::Inconclusive => "?",
        Verdict::Skipped => "-",
    };
    (sign, verdict_tone(verdict))
}

fn verdict_tone(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => GREEN,
        Verdict::Fail => RED,
        Verdict::Inconclusive | Verdict::Skipped => YELLOW,
    }
}

fn paint_text(text: &str, codes: &[&str], colour: bool) -> String {
    if colour {
        format!("\x1b[{}m{text}\x1b[0m", codes.join(";"))
    } else {
        text.into()
    }
}
