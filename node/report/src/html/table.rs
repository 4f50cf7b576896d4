// SPDX-License-Identifier: GPL-2.0-only
//! The numbers behind the pictures, for those who do not see them and those who want digits.

use super::axis::AxisUnit;
use super::pictures::Panel;
use super::text::escape_text;
use crate::timeline::Timeline;

/// Rows of the table of tasks; those that lost most.
const TASKS: usize = 100;
/// Characters of a cell beyond which it may be broken: a name, no number.
const LONG: usize = 16;

/// Table of a panel's series, summed up.
pub(super) fn series_table(panel: &Panel) -> String {
    let rows = panel.marks.iter().filter_map(|mark| {
        let sums = mark.summarize_points()?;
        let mut cells = vec![mark.name.clone(), sums.count.to_string()];
        let values = [sums.least, sums.median, sums.most, sums.last];
        cells.extend(values.map(|value| panel.unit.format_value(value)));
        Some(cells)
    });
    let head = ["", "samples", "least", "median", "most", "last"];
    format!(
        "<details><summary>Numbers</summary>\n{}</details>\n",
        html_table(&head, rows)
    )
}

/// Table of the tasks: what each got and lost.
pub(super) fn tasks_table(run: &Timeline) -> String {
    if run.tasks.is_empty() {
        return "<p class=\"nothing\">Nothing is known of single tasks.</p>\n".into();
    }
    let sums = run.task_totals();
    let mut order: Vec<usize> = (0..run.tasks.len()).collect();
    order.sort_by(|a, b| sums[*b].seconds.total_cmp(&sums[*a].seconds));
    let rows = order.iter().take(TASKS).map(|index| {
        let (task, sum) = (&run.tasks[*index], &sums[*index]);
        let bytes = sum
            .bytes
            .map_or("-".into(), |bytes| AxisUnit::Bytes.format_value(bytes));
        vec![
            format!("{} {}", task.name, task.id),
            task.cgroup.clone().unwrap_or("-".into()),
            bytes,
            sum.count.to_string(),
            AxisUnit::Seconds.format_value(sum.seconds),
            AxisUnit::Seconds.format_value(sum.longest),
        ]
    });
    let head = ["task", "cgroup", "dirtied", "pauses", "lost", "longest"];
    let all = html_table(&head, rows);
    let most = order.len().min(TASKS);
    if most == order.len() {
        return all;
    }
    format!(
        "<p class=\"small\">The {most} that lost most, of {}.</p>\n{all}",
        order.len()
    )
}

fn html_table(head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let cells = |cells: &[String], scope: &str| -> String {
        let mut out = String::from("<tr>");
        for (index, cell) in cells.iter().enumerate() {
            let cell = escape_text(cell);
            out += &match (index, scope) {
                (_, "col") => format!("<th scope=\"col\">{cell}</th>"),
                (0, _) => format!("<th scope=\"row\">{cell}</th>"),
                _ if cell.len() > LONG => format!("<td class=\"long\">{cell}</td>"),
                _ => format!("<td>{cell}</td>"),
            };
        }
        out + "</tr>\n"
    };
    let head: Vec<String> = head.iter().map(|name| name.to_string()).collect();
    let rows: String = rows.map(|row| cells(&row, "row")).collect();
    format!(
        "<table>\n<thead>{}</thead>\n<tbody>\n{rows}</tbody>\n</table>\n",
        cells(&head, "col")
    )
}
