// SPDX-License-Identifier: GPL-2.0-only
//! `System.map`: the symbols that a kernel was linked with, an address, a letter and a name a line.

use crate::kallsyms::Symbols;

/// A kernel has more symbols than this. Debian ships a file of one line instead, that names the
/// package which holds the map.
const FEWEST: usize = 1_000;

/// Reads a line; `None` if it is none of a map.
fn parse_line(line: &str) -> Option<(String, u64)> {
    let (address, rest) = line.split_once(' ')?;
    let (kind, name) = rest.split_once(' ')?;
    let is_line = kind.len() == 1 && !name.is_empty() && !name.contains(' ');
    let address = u64::from_str_radix(address, 16).ok()?;
    is_line.then(|| (name.to_owned(), address))
}

/// Do the bytes begin as a map does, or Debian's file in its place?
pub(crate) fn is_one(bytes: &[u8]) -> bool {
    let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or(bytes);
    let digits = first.iter().take_while(|byte| byte.is_ascii_hexdigit());
    let digits = digits.count();
    (8..=16).contains(&digits) && matches!(first[digits..], [b' ', _, b' ', _, ..])
}

/// The symbols of a map; `None` if it is a placeholder.
pub(crate) fn read(text: &str) -> Option<Symbols> {
    let symbols: Symbols = text
        .lines()
        .filter_map(parse_line)
        .map(|(name, address)| (name, Some(address)))
        .collect();
    (symbols.len() >= FEWEST).then_some(symbols)
}
