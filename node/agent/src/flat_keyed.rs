// SPDX-License-Identifier: GPL-2.0-only
//! Files of a key and a number on each line, as `memory.stat`.

/// The number with this key in a flat-keyed file.
pub fn find_value(text: &str, key: &str) -> Option<u64> {
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
    value?.trim().parse().ok()
}
