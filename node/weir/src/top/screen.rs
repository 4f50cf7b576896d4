// SPDX-License-Identifier: GPL-2.0-only
//! Lines of text for a view of an interval: a whole screen, or as long as it takes.
//!
//! A screen gives each part what is left after what matters more: the cgroups' rows, then the keys,
//! the first line, what the marked row is about, the devices. Example: of 24 lines 1 is the title,
//! 2 the host, up to 5 devices, 2 the marked row, 1 the keys; cgroups have the rest. In 6 lines
//! there are cgroups and keys.

use super::columns::{
    Column, device_cells, device_specs, format_size, lost_time_text, printable_name,
};
use super::table::{self, keep_beginning};
use super::view::{HELP, KEYS, View};
use observe::interval::{CgroupRow, DeviceRow, Interval};

/// Kind of a line, for terminals that show emphasis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// A row without emphasis.
    Plain,
    /// Titles of columns.
    Titles,
    /// The cgroup was throttled.
    Stalled,
    /// The marked row.
    Marked,
    /// Something could not be seen.
    Note,
    /// The line of keys.
    Keys,
}

/// A line of the screen.
pub type Line = (Tone, String);

/// Devices in sight unless all are asked for, with the titles.
const DEVICE_LINES: usize = 5;
/// In fewer lines than this only cgroups and keys are shown.
const SMALL: usize = 10;

/// The lines of a screen, and the number of cgroups' rows in sight.
pub fn screen_lines(
    view: &View,
    interval: Option<&Interval>,
    width: usize,
    height: usize,
) -> (Vec<Line>, usize) {
    let fill = |line: &str| keep_beginning(line, width);
    let keys = (height > 1).then(|| (Tone::Keys, fill(&bottom_line(view))));
    let room = height - usize::from(keys.is_some());
    let mut lines = Vec::new();
    let mut page = 0;
    match interval {
        _ if view.help => lines = help_lines(width),
        None => lines.push((Tone::Plain, fill("weir top: looking"))),
        Some(interval) => {
            let rows = view.visible_rows(interval);
            let mut below = Vec::new();
            if height >= SMALL {
                lines.extend(head_lines(view, interval, Some(width)));
                let most = if view.all_devices {
                    height / 2
                } else {
                    DEVICE_LINES
                };
                let mut devices = device_lines(view, interval, Some(width));
                devices.truncate(most.min(height / 3));
                lines.extend(devices);
                below = marked_row_lines(view, &rows, width);
            }
            page = room.saturating_sub(lines.len() + below.len() + 1);
            lines.extend(cgroup_lines(view, &rows, width, page));
            lines.resize(
                room.saturating_sub(below.len()),
                (Tone::Plain, String::new()),
            );
            lines.extend(below);
        }
    }
    lines.resize(room, (Tone::Plain, String::new()));
    lines.extend(keys);
    (lines, page)
}

/// The same as text without end.
pub fn plain_text(view: &View, interval: &Interval) -> String {
    let rows = view.visible_rows(interval);
    let mut lines = head_lines(view, interval, None);
    lines.push((Tone::Plain, String::new()));
    lines.extend(device_lines(view, interval, None));
    lines.push((Tone::Plain, String::new()));
    let columns = Column::columns_that_fit(None);
    lines.extend(
        table_lines(&columns, &rows, None)
            .into_iter()
            .map(|line| (Tone::Plain, line)),
    );
    let lines = lines.iter().map(|(_, line)| line.clone() + "\n");
    lines.collect::<String>() + "\n"
}

fn head_lines(view: &View, interval: &Interval, width: Option<usize>) -> Vec<Line> {
    let cut = |text: String| match width {
        Some(width) => keep_beginning(&text, width),
        None => text,
    };
    let module = match interval.weir.as_deref() {
        Some(state) => format!("weir's module {}", printable_name(state)),
        None => "no module".into(),
    };
    let order = if view.reversed { ", least first" } else { "" };
    let mut title = format!(
        "weir top: last {:.1} s, {module}, by {}{order}",
        interval.seconds,
        view.sort.column_title()
    );
    if !view.filter.is_empty() {
        title += &format!(", only *{}*", printable_name(&view.filter));
    }
    if view.held {
        title += ", HELD";
    }
    let bytes = |bytes: u64| format_size(Some(bytes as f64));
    let host = &interval.host;
    let mut lines = vec![
        (Tone::Plain, cut(title)),
        (
            Tone::Plain,
            cut(format!(
                "host: {} dirty + {} in writeback; writers held from {}, limit {}",
                bytes(host.dirty_bytes),
                bytes(host.writeback_bytes),
                bytes(host.freerun_bytes),
                bytes(host.limit_bytes)
            )),
        ),
    ];
    let notes = interval.notes.iter();
    let most = width.map_or(usize::MAX, |_| 2);
    lines.extend(
        notes
            .take(most)
            .map(|note| (Tone::Note, cut(format!("note: {}", printable_name(note))))),
    );
    lines
}

fn device_lines(view: &View, interval: &Interval, width: Option<usize>) -> Vec<Line> {
    let is_busy = |row: &&DeviceRow| {
        row.dirty_bytes.unwrap_or(0) > 0
            || row.out_bytes_per_second + row.read_bytes_per_second > 0.0
            || row.throttled_seconds_per_second.unwrap_or(0.0) > 0.0
    };
    let mut rows: Vec<&DeviceRow> = interval
        .devices
        .iter()
        .filter(|row| view.all_devices || view.all || is_busy(row))
        .collect();
    let lost = |row: &DeviceRow| row.throttled_seconds_per_second.unwrap_or(0.0);
    rows.sort_by(|a, b| {
        lost(b)
            .total_cmp(&lost(a))
            .then(b.out_bytes_per_second.total_cmp(&a.out_bytes_per_second))
            .then_with(|| a.device.cmp(&b.device))
    });
    let rows: Vec<Vec<String>> = rows.into_iter().map(device_cells).collect();
    let mut lines = table::layout_lines(&device_specs(), &rows, width).into_iter();
    let titles = lines.next().map(|line| (Tone::Titles, line));
    titles
        .into_iter()
        .chain(lines.map(|line| (Tone::Plain, line)))
        .collect()
}

fn table_lines(columns: &[Column], rows: &[&CgroupRow], width: Option<usize>) -> Vec<String> {
    let specs: Vec<_> = columns.iter().map(|column| column.column_spec()).collect();
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| columns.iter().map(|column| column.cell_text(row)).collect())
        .collect();
    table::layout_lines(&specs, &cells, width)
}

/// Rows around the marked one, as many as fit.
fn cgroup_lines(view: &View, rows: &[&CgroupRow], width: usize, page: usize) -> Vec<Line> {
    let mark = view.marked_index(rows);
    let first = mark.map_or(0, |mark| (mark + 1).saturating_sub(page));
    let seen = &rows[first..rows.len().min(first + page)];
    let columns = Column::columns_that_fit(Some(width));
    let mut lines = table_lines(&columns, seen, Some(width)).into_iter();
    let titles = lines.next().map(|line| (Tone::Titles, line));
    let tone = |at: usize, row: &CgroupRow| {
        if mark == Some(first + at) {
            Tone::Marked
        } else if row.stall.is_some() {
            Tone::Stalled
        } else {
            Tone::Plain
        }
    };
    let body = lines.zip(seen).enumerate();
    let mut lines: Vec<Line> = titles
        .into_iter()
        .chain(body.map(|(at, (line, row))| (tone(at, row), line)))
        .collect();
    if rows.is_empty() {
        let why = if view.filter.is_empty() {
            "no cgroup holds, writes or waits for anything; a shows all"
        } else {
            "no such cgroup holds, writes or waits for anything; a shows all, Esc leaves the filter"
        };
        lines.push((Tone::Plain, keep_beginning(why, width)));
    }
    lines
}

/// Two lines on the marked row, or on the first: why it stalls, and what to type.
fn marked_row_lines(view: &View, rows: &[&CgroupRow], width: usize) -> Vec<Line> {
    let Some(row) = rows.get(view.marked_index(rows).unwrap_or(0)) else {
        return Vec::new();
    };
    let Some(stall) = row.stall.as_ref() else {
        return Vec::new();
    };
    let lost = match lost_time_text(row) {
        lost if lost.is_empty() => lost,
        lost => format!("{lost}; "),
    };
    let why = format!("{lost}{}: {}", stall.victim, stall.because);
    let change = match &stall.command {
        Some(command) => format!("to change: {command}"),
        None => "no knob of the kernel's or of weir's changes this".into(),
    };
    [why, change]
        .iter()
        .map(|line| (Tone::Plain, keep_beginning(&printable_name(line), width)))
        .collect()
}

fn bottom_line(view: &View) -> String {
    if view.typing {
        return format!(
            "filter: {}_   Enter keeps it, Esc leaves it",
            printable_name(&view.filter)
        );
    }
    KEYS.into()
}

fn help_lines(width: usize) -> Vec<Line> {
    let keys = HELP.iter().map(|(keys, what)| format!("{keys:<22}{what}"));
    let columns = [
        "",
        "Cgroups count with their descendants. WRTBK pages being written. FLOOR, CEIL in",
        "force by weir's module. LIMIT the kernel's own for the cgroup. IN/s what is",
        "dirtied, OUT/s what is written. LOST% of one task's time, over 100 where several",
        "waited: throttle, fsync, reclaim, limits. - is what cannot be known.",
    ];
    keys.chain(columns.map(str::to_string))
        .map(|line| (Tone::Plain, keep_beginning(&line, width)))
        .collect()
}
