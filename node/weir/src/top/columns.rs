// SPDX-License-Identifier: GPL-2.0-only
//! Columns: the text of a row, and the order of rows by it.

use super::table::{CellKind, Spec};
use observe::diagnosis::{Cause, Decider};
use observe::interval::{CgroupRow, DeviceRow, StallRow};
use std::cmp::Ordering;

/// A column of the cgroups' table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Column {
    /// Path of the cgroup
    Cgroup,
    /// Dirty pages of it
    Dirty,
    /// Pages being written
    Writeback,
    /// Floor in force
    Floor,
    /// Ceiling in force
    Ceiling,
    /// The kernel's own limit
    Limit,
    /// Bytes dirtied per second
    In,
    /// Bytes written per second
    Out,
    /// Time that flushers waited for a window
    Held,
    /// Time slept in the throttle
    Throttled,
    /// Time lost to the throttle, fsync, reclaim, limits
    Lost,
    /// Time lost to any cause
    Stall,
}

/// A column's place in the table, and what goes first where the line is too short for all.
const COLUMNS: [(Column, &str, usize, u8); 12] = [
    (Column::Cgroup, "CGROUP", 10, 0),
    (Column::Dirty, "DIRTY", 5, 0),
    (Column::Writeback, "WRTBK", 5, 3),
    (Column::Floor, "FLOOR", 5, 5),
    (Column::Ceiling, "CEIL", 5, 6),
    (Column::Limit, "LIMIT", 5, 4),
    (Column::In, "IN/s", 5, 2),
    (Column::Out, "OUT/s", 5, 2),
    (Column::Held, "HELD%", 5, 7),
    (Column::Throttled, "THROT%", 6, 7),
    (Column::Lost, "LOST%", 6, 0),
    (Column::Stall, "STALLED BY", 10, 1),
];

/// Columns beyond these are shown where paths have more room than they need.
const USUAL: u8 = 6;
/// Characters of that.
const PATH_ROOM: usize = 24;

impl Column {
    /// In the order of the table.
    pub const ALL: [Column; 12] = {
        let mut all = [Column::Cgroup; 12];
        let mut at = 0;
        while at < all.len() {
            all[at] = COLUMNS[at].0;
            at += 1;
        }
        all
    };

    /// The column's title in the table.
    pub fn column_title(self) -> &'static str {
        COLUMNS[self as usize].1
    }

    /// Columns that fit into the width of a terminal; all without a width.
    pub fn columns_that_fit(width: Option<usize>) -> Vec<Column> {
        let needs = |most: u8| -> usize {
            let kept = COLUMNS.iter().filter(|column| column.3 <= most);
            let room = if most > USUAL { PATH_ROOM } else { 0 };
            kept.map(|column| column.2 + 1).sum::<usize>() - 1 + room
        };
        let most = (0..=7u8)
            .rev()
            .find(|most| width.is_none_or(|width| needs(*most) <= width))
            .unwrap_or(0);
        let kept = COLUMNS.iter().filter(|column| column.3 <= most);
        kept.map(|column| column.0).collect()
    }

    /// The column's layout.
    pub fn column_spec(self) -> Spec {
        let (_, title, width, _) = COLUMNS[self as usize];
        let kind = match self {
            Column::Cgroup => CellKind::Path,
            Column::Stall => CellKind::Text,
            _ => CellKind::Number,
        };
        Spec { title, width, kind }
    }

    /// The row's text in this column.
    pub fn cell_text(self, row: &CgroupRow) -> String {
        match self {
            Column::Cgroup => printable_name(&row.cgroup),
            Column::Held => format_percent(row.window_held_seconds_per_second),
            Column::Throttled => format_percent(row.throttled_seconds_per_second),
            Column::Lost => format_percent(row.lost_seconds_per_second),
            Column::Stall => row
                .stall
                .as_ref()
                .map_or_else(String::new, |stall| stall_text(&row.cgroup, stall)),
            _ => format_size(self.sort_value(row)),
        }
    }

    fn sort_value(self, row: &CgroupRow) -> Option<f64> {
        let bytes = match self {
            Column::Dirty => row.dirty_bytes,
            Column::Writeback => row.writeback_bytes,
            Column::Floor => row.floor_bytes,
            Column::Ceiling => row.ceiling_bytes,
            Column::Limit => row.limit_bytes,
            Column::In => return row.in_bytes_per_second,
            Column::Out => return row.out_bytes_per_second,
            Column::Held => return row.window_held_seconds_per_second,
            Column::Throttled => return row.throttled_seconds_per_second,
            Column::Lost => return row.lost_seconds_per_second,
            Column::Stall => return row.stall.as_ref().map(|stall| stall.lost_seconds),
            Column::Cgroup => None,
        };
        bytes.map(|bytes| bytes as f64)
    }

    /// The most first, names by the alphabet, what is not known last; those that are equal by what
    /// they hold.
    pub fn compare_rows(self, a: &CgroupRow, b: &CgroupRow) -> Ordering {
        let most_first = |column: Column| {
            let value = |row| column.sort_value(row).unwrap_or(-1.0);
            value(b).total_cmp(&value(a))
        };
        most_first(self)
            .then_with(|| match self {
                Column::Cgroup => Ordering::Equal,
                _ => most_first(Column::Dirty),
            })
            .then_with(|| a.cgroup.cmp(&b.cgroup))
    }
}

/// Returns whether it holds, writes, waits for and is promised nothing.
pub fn is_idle(row: &CgroupRow) -> bool {
    let shown = [
        Column::Dirty,
        Column::Writeback,
        Column::Floor,
        Column::Ceiling,
        Column::In,
        Column::Out,
        Column::Lost,
        Column::Stall,
    ];
    shown
        .iter()
        .all(|column| column.sort_value(row).unwrap_or(0.0) == 0.0)
}

/// Layout of the devices' table.
pub fn device_specs() -> Vec<Spec> {
    let column = |title, width, kind| Spec { title, width, kind };
    let number = |title, width| column(title, width, CellKind::Number);
    vec![
        column("DEVICE", 10, CellKind::Text),
        column("MOUNTED AT", 10, CellKind::Path),
        number("DIRTY", 5),
        number("WRTBK", 5),
        number("LIMIT", 5),
        number("IN/s", 5),
        number("OUT/s", 5),
        number("READ/s", 6),
        number("BUSY%", 5),
        number("THROT%", 6),
    ]
}

/// Texts of a device's row.
pub fn device_cells(row: &DeviceRow) -> Vec<String> {
    let bytes = |bytes: Option<u64>| format_size(bytes.map(|bytes| bytes as f64));
    vec![
        match &row.disk {
            Some(disk) => printable_name(&format!("{} {disk}", row.device)),
            None => printable_name(&row.device),
        },
        printable_name(row.mounted_at.as_deref().unwrap_or("")),
        bytes(row.dirty_bytes),
        bytes(row.writeback_bytes),
        bytes(row.limit_bytes),
        format_size(row.in_bytes_per_second),
        format_size(Some(row.out_bytes_per_second)),
        format_size(Some(row.read_bytes_per_second)),
        format_percent(Some(row.busy)),
        format_percent(row.throttled_seconds_per_second),
    ]
}

fn stall_text(cgroup: &str, stall: &StallRow) -> String {
    let cause = match stall.cause {
        Cause::Throttle(Decider::Host) => "host",
        Cause::Throttle(Decider::Cgroup | Decider::Ceiling) => "own limit",
        Cause::Throttle(Decider::Ancestor) => "above",
        Cause::Throttle(Decider::Device) => "device",
        Cause::Throttle(Decider::Unknown) => "?",
        Cause::IoMax => "io.max",
        Cause::Bandwidth => "bandwidth",
        Cause::FsyncOrJournal => "fsync",
        Cause::Reclaim => "reclaim",
        Cause::NotWriteback => "other",
        Cause::Nothing => "",
    };
    match stall.culprit.as_deref() {
        Some(culprit) if culprit == cgroup && cause == "own limit" => cause.into(),
        Some(culprit) if culprit == cgroup => format!("{cause} itself"),
        Some(culprit) => printable_name(&format!("{cause} {culprit}")),
        None => cause.into(),
    }
}

/// In five columns: `-`, `0`, `812`, `4.0K`, `31.2M`.
pub fn format_size(bytes: Option<f64>) -> String {
    let Some(mut value) = bytes else {
        return "-".into();
    };
    let mut units = ["", "K", "M", "G", "T", "P"].iter();
    let mut unit = units.next().copied().unwrap_or_default();
    for next in units {
        if value.abs() < 999.5 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    match value {
        value if unit.is_empty() || value >= 99.95 => format!("{value:.0}{unit}"),
        value => format!("{value:.1}{unit}"),
    }
}

/// The kinds of waits that a cgroup lost time to, the most first: `fsync 76.5 %, throttle 3.5 %`;
/// empty if nothing.
pub fn lost_time_text(row: &CgroupRow) -> String {
    let mut parts: Vec<(&&str, &f64)> = row.lost_to.iter().collect();
    parts.sort_by(|a, b| b.1.total_cmp(a.1));
    let shown = parts
        .iter()
        .map(|(kind, part)| format!("{kind} {} %", format_percent(Some(**part))));
    shown.collect::<Vec<_>>().join(", ")
}

/// Percent of one task's time; more than 100 if several tasks waited.
fn format_percent(part: Option<f64>) -> String {
    match part.map(|part| part * 100.0) {
        None => "-".into(),
        Some(percent) if percent < 0.05 => "0".into(),
        Some(percent) if percent < 99.95 => format!("{percent:.1}"),
        Some(percent) => format!("{percent:.0}"),
    }
}

/// Names are others' to choose, and may try to speak to the terminal.
pub fn printable_name(name: &str) -> String {
    let is_fine = |c: &char| c.is_ascii_graphic() || *c == ' ';
    name.chars()
        .map(|c| if is_fine(&c) { c } else { '?' })
        .collect()
}
