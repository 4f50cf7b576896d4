// SPDX-License-Identifier: GPL-2.0-only
//! Figures of runs side by side, and their differences.

use super::text::escape_text;
use crate::format::{format_ratio, format_value, plain_table, seen_lines};
use crate::timeline::Timeline;
use comfy_table::CellAlignment;
use config::Unit;
use std::collections::BTreeSet;
use std::fmt::Write;

/// Names of the runs' figures by phase, with their units: each once.
fn figure_names<'a>(runs: &[&'a Timeline]) -> Vec<(&'a str, &'a str, Unit)> {
    let mut names: Vec<(&str, &str, Unit)> = Vec::new();
    let mut of_module = BTreeSet::new();
    for figure in runs.iter().flat_map(|run| &run.figures) {
        let name = (figure.phase.as_str(), figure.name.as_str(), figure.unit);
        if !names.contains(&name) {
            names.push(name);
        }
        if figure.is_of_module {
            of_module.insert(name.1);
        }
    }
    // Phase by phase, though a second run may bring more names of the first.
    let order = |phase: &str| names.iter().position(|(other, ..)| *other == phase);
    let mut sorted = names.clone();
    sorted
        .sort_by_key(|(phase, name, _)| (order(phase), sort_rank(name, of_module.contains(name))));
    sorted
}

/// The same as text, for one run or two: each with its facts, then the figures that are not 0.
pub fn comparison_text(runs: &[&Timeline]) -> String {
    let mut out = String::new();
    for run in runs {
        let _ = writeln!(out, "{}", seen_lines(&run.name));
        for (name, fact) in &run.facts {
            let _ = writeln!(out, "  {name}: {}", seen_lines(fact));
        }
    }
    let mut table = plain_table(false);
    let columns = ["first", "second", "difference"]
        .iter()
        .take(match runs.len() {
            1 => 1,
            _ => 3,
        });
    let head = ["phase", "figure"].iter().chain(columns);
    table.set_header(head.map(ToString::to_string));
    let mut phase = "";
    for (of, name, unit) in figure_names(runs) {
        let values: Vec<Option<f64>> = runs.iter().map(|run| find_figure(run, of, name)).collect();
        if values.iter().all(|value| value.unwrap_or(0.0) == 0.0) {
            continue;
        }
        let shown = |one: &Option<f64>| one.map_or("-".into(), |one| format_value(one, unit));
        let first = if of == phase {
            String::new()
        } else {
            of.to_owned()
        };
        phase = of;
        let mut cells = vec![first, name.to_owned()];
        cells.extend(values.iter().map(shown));
        if let [first, second] = values[..] {
            let both = first.zip(second);
            cells.push(both.map_or("-".into(), |(a, b)| format_difference(a, b, unit)));
        }
        table.add_row(cells);
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    out + "\n" + &table.trim_fmt() + "\n"
}

/// Figures of all runs by phase, the difference in the last column where there are two.
pub(super) fn figures_table(runs: &[&Timeline]) -> String {
    let (mut rows, mut phase, mut nothing) = (String::new(), "", 0);
    for (of, name, unit) in figure_names(runs) {
        let values: Vec<Option<f64>> = runs.iter().map(|run| find_figure(run, of, name)).collect();
        if values.iter().all(|value| value.unwrap_or(0.0) == 0.0) {
            nothing += 1;
            continue;
        }
        if of != phase {
            phase = of;
            let wide = runs.len() + 1 + usize::from(runs.len() == 2);
            let _ = writeln!(
                rows,
                "<tr><th scope=\"rowgroup\" colspan=\"{wide}\">{}</th></tr>",
                escape_text(of)
            );
        }
        rows += &figures_row(name, &values, unit);
    }
    if rows.is_empty() {
        return String::new();
    }
    let mut head = String::from("<th scope=\"col\"></th>");
    for run in runs {
        let _ = write!(head, "<th scope=\"col\">{}</th>", escape_text(&run.name));
    }
    if runs.len() == 2 {
        head += "<th scope=\"col\">difference</th>";
    }
    let left_out = match nothing {
        0 => String::new(),
        _ => format!("<p class=\"small\">{nothing} more are 0 or not measured.</p>\n"),
    };
    format!(
        "<section>\n<h2>Figures</h2>\n<table class=\"figures\">\n<thead><tr>{head}</tr></thead>\n\
         <tbody>\n{rows}</tbody>\n</table>\n{left_out}</section>\n"
    )
}

/// Jobs come first and the module's counters last, as in the table of `weir run`.
fn sort_rank(name: &str, is_of_module: bool) -> usize {
    let subjects = ["host.", "disk/", "cgroup/"];
    let subject = subjects.iter().position(|start| name.starts_with(start));
    match is_of_module {
        true => subjects.len() + 1,
        false => subject.map_or(0, |subject| subject + 1),
    }
}

fn find_figure(run: &Timeline, phase: &str, name: &str) -> Option<f64> {
    let mut all = run.figures.iter();
    let found = all.find(|figure| figure.phase == phase && figure.name == name);
    found.map(|figure| figure.value)
}

fn figures_row(name: &str, values: &[Option<f64>], unit: Unit) -> String {
    let mut cells = format!("<th scope=\"row\">{}</th>", escape_text(name));
    for one in values {
        let shown = one.map_or("-".into(), |one| format_value(one, unit));
        let _ = write!(cells, "<td>{shown}</td>");
    }
    if let [first, second] = values {
        let shown = match (first, second) {
            (Some(first), Some(second)) => format_difference(*first, *second, unit),
            _ => "-".into(),
        };
        let _ = write!(cells, "<td>{shown}</td>");
    }
    format!("<tr>{cells}</tr>\n")
}

/// `+86.0 (3.18x)`, `-2.0 points`, `=`.
fn format_difference(first: f64, second: f64, unit: Unit) -> String {
    let by = second - first;
    if by == 0.0 {
        return "=".into();
    }
    let sign = if by > 0.0 { "+" } else { "" };
    match unit {
        Unit::Percent if by.abs() < 0.05 => "=".into(),
        Unit::Percent => format!("{sign}{by:.1} points"),
        _ if first == 0.0 || second == 0.0 => format!("{sign}{}", format_value(by, unit)),
        _ => format!(
            "{sign}{} ({})",
            format_value(by, unit),
            format_ratio(second, first)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_have_a_sign_and_a_unit() {
        assert_eq!(format_difference(39.3, 125.0, Unit::Iops), "+85.7 (3.18x)");
        assert_eq!(
            format_difference(2e9, 1e9, Unit::Nanoseconds),
            "-1.00 s (0.50x)"
        );
        assert_eq!(format_difference(40.0, 35.5, Unit::Percent), "-4.5 points");
        assert_eq!(format_difference(0.0, 4096.0, Unit::Bytes), "+4.00 KiB");
        assert_eq!(format_difference(7.0, 7.0, Unit::Count), "=");
    }
}
