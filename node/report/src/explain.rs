// SPDX-License-Identifier: GPL-2.0-only
//! A diagnosis for people: what stalled first, then where that comes from, then what to type.

use crate::format::{format_bytes, seen_lines, significant_digits};
use comfy_table::{CellAlignment, Table, presets};
use observe::diagnosis::{Cause, Diagnosis, Killed, Lost, Remedy, Verdict};

/// Columns of the text.
const WIDTH: usize = 96;
/// Tasks that are taken to be there all the time.
const MOST_AT_ONCE: usize = 8;
/// Indent of lines below a label.
const INDENT: &str = "            ";

/// The diagnosis as text.
pub fn explain_diagnosis(diagnosis: &Diagnosis) -> String {
    let mut text = String::new();
    for verdict in &diagnosis.verdicts {
        text += &verdict_paragraph(verdict, diagnosis.seconds);
        text.push('\n');
    }
    for killed in &diagnosis.killed {
        text += &kills_paragraph(killed);
        text.push('\n');
    }
    for note in &diagnosis.notes {
        text += &labelled_line("note", note);
    }
    seen_lines(&text)
}

/// A line for each cgroup: what it lost to what.
pub fn losses_by_cgroup(diagnosis: &Diagnosis) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header([
        "cgroup", "cause", "lost s", "tasks", "times", "p50 ms", "p99 ms", "max ms",
    ]);
    for verdict in &diagnosis.verdicts {
        let lost = &verdict.lost;
        let cause = serde_json::to_value(verdict.cause).unwrap_or_default();
        let mut row = vec![
            verdict.cgroup.clone(),
            cause.as_str().unwrap_or("?").to_string(),
        ];
        row.push(significant_digits(lost.seconds));
        row.extend(match lost.count {
            Some(count) => [
                lost.tasks.to_string(),
                count.to_string(),
                significant_digits(lost.p50_ms),
                significant_digits(lost.p99_ms),
                significant_digits(lost.max_ms),
            ],
            None => ["-"; 5].map(str::to_string),
        });
        table.add_row(row);
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if index > 1 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    seen_lines(&table.trim_fmt()) + "\n"
}

fn verdict_paragraph(verdict: &Verdict, seconds: f64) -> String {
    if verdict.cause == Cause::Nothing {
        return format!(
            "{}: nothing stalled in {} s\n",
            verdict.cgroup,
            significant_digits(seconds)
        );
    }
    let mut text = wrap_text(
        &format!("{}: {}", verdict.cgroup, verdict.because),
        "",
        "  ",
    );
    if verdict.lost.seconds > 0.0 {
        text += &labelled_line("lost", &describe_lost_time(&verdict.lost, seconds));
    }
    let known = verdict.tasks.iter().filter(|task| task.name != "?");
    let tasks = known.map(|task| {
        let seconds = significant_digits(task.seconds);
        format!("{} ({}) {seconds} s", task.name, task.task)
    });
    let tasks = tasks.collect::<Vec<_>>().join(", ");
    if !tasks.is_empty() {
        text += &labelled_line("tasks", &tasks);
    }
    if let Some(reclaim) = &verdict.reclaim {
        text += &labelled_line("went to", &reclaim.to_sentence());
        let taken = reclaim.taken.iter();
        let taken = taken.map(|taken| format!("{} {}", taken.cgroup, format_bytes(taken.bytes)));
        let taken = taken.collect::<Vec<_>>().join(", ");
        if !taken.is_empty() {
            text += &labelled_line("taken by", &taken);
        }
    }
    for (at, sentence) in verdict.limit.iter().enumerate() {
        text += &labelled_line(if at == 0 { "limit" } else { "" }, sentence);
    }
    for (at, level) in verdict.levels.iter().enumerate() {
        let label = if at == 0 { "freerun" } else { "" };
        text += &labelled_line(label, &level.to_sentence(&verdict.cgroup));
    }
    let holders: Vec<String> = verdict
        .holders
        .iter()
        .map(|holder| format!("{} {}", holder.cgroup, format_bytes(holder.bytes)))
        .collect();
    if !holders.is_empty() {
        text += &labelled_line("held by", &holders.join(", "));
    }
    if verdict.seconds_by_domain.len() > 1 {
        let parts = verdict.seconds_by_domain.iter().map(|(domain, seconds)| {
            format!(
                "{} {} s",
                format!("{domain:?}").to_lowercase(),
                significant_digits(*seconds)
            )
        });
        text += &labelled_line("decided", &parts.collect::<Vec<_>>().join(", "));
    }
    text += &labelled_line("drain", &verdict.drain);
    if !verdict.next.is_empty() {
        text += &labelled_line("next", &verdict.next);
    }
    for (at, remedy) in verdict.remedies.iter().enumerate() {
        text += &remedy_lines(if at == 0 { "to change" } else { "or" }, remedy);
    }
    if let Some(unchanged) = &verdict.unchanged {
        text += &labelled_line("to change", &unchanged.to_sentence());
        text += &format!("{INDENT}{}\n", unchanged.command);
    }
    if let Some(stock) = &verdict.stock {
        text += &labelled_line("stock", &stock.because);
    }
    text
}

fn remedy_lines(label: &str, remedy: &Remedy) -> String {
    // A command is to be copied: never broken.
    format!("  {label:<10}{}\n", remedy.command) + &labelled_line("", &remedy.effect)
}

fn kills_paragraph(killed: &Killed) -> String {
    let times = match killed.kills {
        1 => "a task".to_string(),
        kills => format!("{kills} tasks"),
    };
    let head = format!(
        "{}: {times} killed for memory since it was made",
        killed.cgroup
    );
    wrap_text(&head, "", "  ") + &remedy_lines("to change", &killed.remedy)
}

fn describe_lost_time(lost: &Lost, seconds: f64) -> String {
    let Some(count) = lost.count else {
        return format!(
            "{} task-seconds in {} s, estimated from looking again and again",
            significant_digits(lost.seconds),
            significant_digits(seconds)
        );
    };
    if lost.measured == "counted" {
        return format!(
            "{} task-seconds in {} s, {count} waits, as the module counted",
            significant_digits(lost.seconds),
            significant_digits(seconds)
        );
    }
    let tasks = match lost.tasks {
        1 => "1 task".to_string(),
        tasks => format!("{tasks} tasks"),
    };
    let total = if lost.measured == "slept" {
        let (share, some) = (
            significant_digits(lost.share * 100.0),
            significant_digits(lost.some * 100.0),
        );
        // Most of many tasks live for a part of the time only.
        let of = match lost.tasks {
            0..=MOST_AT_ONCE => format!("{share} % of the wall time of {tasks}"),
            _ => format!("by {tasks}, at least one of them for {some} % of the time"),
        };
        format!(
            "{} s slept in {} s, {of}",
            significant_digits(lost.seconds),
            significant_digits(seconds)
        )
    } else {
        format!(
            "{} s of pauses announced to {tasks} in {} s; the time slept is not known",
            significant_digits(lost.seconds),
            significant_digits(seconds)
        )
    };
    if count == 1 {
        return format!("{total}: once");
    }
    format!(
        "{total}: {count} times, p50 {} ms, p99 {} ms, longest {} ms",
        significant_digits(lost.p50_ms),
        significant_digits(lost.p99_ms),
        significant_digits(lost.max_ms),
    )
}

fn labelled_line(label: &str, text: &str) -> String {
    wrap_text(text, &format!("  {label:<10}"), INDENT)
}

fn wrap_text(text: &str, first: &str, others: &str) -> String {
    let options = textwrap::Options::new(WIDTH)
        .initial_indent(first)
        .subsequent_indent(others)
        .break_words(false);
    textwrap::fill(text, options) + "\n"
}
