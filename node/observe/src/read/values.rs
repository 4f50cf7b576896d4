// SPDX-License-Identifier: GPL-2.0-only
//! Numbers in files of the kernel.

use std::fs;
use std::path::Path;

/// A number; nothing for `max` and for what is not there.
pub(crate) fn parse_number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

pub(crate) fn flat_value(text: &str, key: &str) -> u64 {
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
    value.and_then(parse_number).unwrap_or(0)
}

/// The running total of a line of a pressure file, in microseconds.
pub(crate) fn pressure_total(text: &str, line: &str) -> u64 {
    text.lines()
        .find(|text| text.starts_with(line))
        .and_then(|text| text.rsplit_once("total=")?.1.trim().parse().ok())
        .unwrap_or(0)
}

/// A file's, empty if it cannot be had.
pub(crate) fn read_text(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_default()
}

pub(crate) fn read_number(file: &Path) -> u64 {
    read_text(file).trim().parse().unwrap_or(0)
}
