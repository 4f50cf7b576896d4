// SPDX-License-Identifier: GPL-2.0-only
//! Sleeps in reclaim as a table, as they were published for Linux 5.16: reason by length.

use crate::format::seen_lines;
use comfy_table::{CellAlignment, Table, presets};
use observe::Observation;
use observe::event::What;
use observe::reclaim::{Reason, Slept};
use observe::stall;
use std::collections::BTreeMap;

/// Upper bounds of the columns between "not at all" and "to the end", in ms.
const UP_TO_MS: [u64; 4] = [8, 20, 100, 500];

/// Columns of one reason: not at all, up to each bound, longer, to the end.
type Row = [u64; UP_TO_MS.len() + 3];

/// The table; nothing if no task slept in reclaim.
pub fn reclaim_sleeps(seen: &Observation) -> Option<String> {
    let mut rows: BTreeMap<(&str, Reason), Row> = BTreeMap::new();
    for event in &seen.events {
        let What::ReclaimSlept(slept) = &event.what else {
            continue;
        };
        let who = if stall::is_kswapd(&seen.names, &seen.seen, event.task) {
            "kswapd"
        } else {
            "direct"
        };
        rows.entry((who, slept.reason)).or_default()[column_of(slept)] += 1;
    }
    if rows.is_empty() {
        return None;
    }
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    let bounds = UP_TO_MS.map(|ms| format!("to {ms} ms"));
    let mut header = vec!["slept in reclaim".to_string(), "all".into(), "0".into()];
    header.extend(bounds);
    header.extend(["longer".into(), "to the timeout".into()]);
    table.set_header(header);
    for ((who, reason), row) in rows {
        let mut line = vec![format!("{who} {reason:?}").to_lowercase()];
        line.push(row.iter().sum::<u64>().to_string());
        line.extend(row.map(|count| count.to_string()));
        table.add_row(line);
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if index > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    Some(seen_lines(&table.trim_fmt()) + "\n")
}

fn column_of(slept: &Slept) -> usize {
    let end = UP_TO_MS.len() + 2;
    if slept.us == 0 {
        return 0;
    }
    if slept.timeout_us > 0 && slept.us >= slept.timeout_us {
        return end;
    }
    let longer = UP_TO_MS.iter().position(|ms| slept.us <= ms * 1000);
    longer.map_or(end - 1, |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use observe::event::Event;

    #[test]
    fn sleeps_are_told_apart_by_length_and_timeout() {
        let slept = |task: u32, us: u64, timeout_us: u64, reason: Reason| Event {
            ns: 0,
            task,
            what: What::ReclaimSlept(Slept {
                us,
                timeout_us,
                reason,
            }),
        };
        let mut seen = Observation::default();
        assert_eq!(reclaim_sleeps(&seen), None);
        seen.names = [(1, "kswapd0".into()), (2, "fio".into())].into();
        seen.events = vec![
            slept(1, 0, 100_000, Reason::Writeback),
            slept(1, 104_000, 100_000, Reason::Writeback),
            slept(2, 4_000, 20_000, Reason::Isolated),
            slept(2, 300_000, 500_000, Reason::Noprogress),
        ];
        let table = reclaim_sleeps(&seen).expect("a table");
        let cells: Vec<String> = table
            .lines()
            .skip(1)
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(
            cells,
            [
                "direct isolated 1 0 1 0 0 0 0 0",
                "direct noprogress 1 0 0 0 0 1 0 0",
                "kswapd writeback 2 1 0 0 0 0 0 1",
            ]
        );
    }
}
