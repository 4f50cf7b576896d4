// SPDX-License-Identifier: GPL-2.0-only
//! Numbers for people: three digits that matter, and one unit for a value and its range.

use comfy_table::{Table, presets};
use config::Unit;

/// A time after which something had not happened yet.
const NOT_SETTLED: &str = "not settled";

/// A figure as reports show it: `0.48 ms`.
pub fn format_value(value: f64, unit: Unit) -> String {
    if !value.is_finite() {
        return NOT_SETTLED.into();
    }
    let (scale, suffix) = scale_for(value, unit);
    format!("{}{suffix}", significant_digits(value / scale))
}

/// A size as reports show it: `24.0 MiB`.
pub fn format_bytes(bytes: u64) -> String {
    format_value(bytes as f64, Unit::Bytes)
}

/// Two values in one unit, precisely enough to see which is larger: `124.9, bound 123.8`.
pub fn format_comparison(observed: f64, bound: f64, unit: Unit) -> String {
    if !observed.is_finite() || !bound.is_finite() {
        return format!(
            "{}, bound {}",
            format_value(observed, unit),
            format_value(bound, unit)
        );
    }
    let (scale, suffix) = scale_for(observed.abs().max(bound.abs()), unit);
    format!(
        "{}, bound {}{suffix}",
        more_digits(observed / scale),
        more_digits(bound / scale)
    )
}

/// `11.6x`; nothing when there is nothing to divide by.
pub fn format_ratio(over: f64, under: f64) -> String {
    let ratio = over / under;
    if !ratio.is_finite() {
        return "-".into();
    }
    match ratio.abs() {
        r if r >= 100.0 => format!("{ratio:.0}x"),
        r if r >= 10.0 => format!("{ratio:.1}x"),
        r if r >= 0.01 || r == 0.0 => format!("{ratio:.2}x"),
        r if r >= 0.0001 => format!("{ratio:.4}x"),
        _ => format!("{ratio:.6}x"),
    }
}

/// The power of the unit that leaves one to four digits before the point.
pub fn scale_for(of: f64, unit: Unit) -> (f64, &'static str) {
    const BYTES: &[(f64, &str, &str)] = &[
        (1073741824.0, " GiB", " GiB/s"),
        (1048576.0, " MiB", " MiB/s"),
        (1024.0, " KiB", " KiB/s"),
        (1.0, " B", " B/s"),
    ];
    let bytes = || {
        BYTES
            .iter()
            .find(|(scale, ..)| of.abs() >= *scale)
            .unwrap_or(&BYTES[BYTES.len() - 1])
    };
    match unit {
        Unit::Nanoseconds if of.abs() >= 1e9 => (1e9, " s"),
        Unit::Nanoseconds if of.abs() >= 1e5 => (1e6, " ms"),
        Unit::Nanoseconds => (1e3, " us"),
        // The name of the latter says that it is by the minute.
        Unit::Bytes | Unit::BytesPerMinute => (bytes().0, bytes().1),
        Unit::Bandwidth => (bytes().0, bytes().2),
        Unit::Microseconds if of.abs() >= 1e6 => (1e6, " s"),
        Unit::Microseconds if of.abs() >= 1e2 => (1e3, " ms"),
        Unit::Microseconds => (1.0, " us"),
        Unit::Percent => (1.0, " %"),
        Unit::Iops | Unit::Count => (1.0, ""),
    }
}

/// Three significant digits, more only before the point.
pub fn significant_digits(value: f64) -> String {
    match value.abs() {
        v if v >= 99.95 || v == 0.0 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// One digit more than `digits`.
fn more_digits(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        v if v >= 999.5 => format!("{value:.0}"),
        v if v >= 99.95 => format!("{value:.1}"),
        v if v >= 9.995 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// An empty table without colour, for figures of another shape than a report's: as text or as
/// Markdown.
pub fn plain_table(markdown: bool) -> Table {
    let mut table = Table::new();
    table.load_preset(if markdown {
        presets::ASCII_MARKDOWN
    } else {
        presets::NOTHING
    });
    table.force_no_tty();
    table
}

/// A letter of a name as it can be seen: a kernel's names are others' to choose, and what steers a
/// terminal or the direction of writing must not be obeyed.
pub(crate) fn make_visible(letter: char) -> String {
    if is_unsafe(letter) {
        format!("\\u{{{:x}}}", letter as u32)
    } else {
        letter.into()
    }
}

/// Lines of text with such names in them.
pub(crate) fn seen_lines(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' => out.push('\n'),
            letter => out.push_str(&make_visible(letter)),
        }
    }
    out
}

/// Control characters, what no XML may hold, and what turns the direction of writing.
fn is_unsafe(letter: char) -> bool {
    letter.is_control()
        || matches!(
            letter,
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_that_matter() {
        let cases = [
            (124.98, Unit::Count, "125"),
            (10.84, Unit::Count, "10.8"),
            (99.96, Unit::Count, "100"),
            (0.0, Unit::Percent, "0 %"),
            (26.24, Unit::Percent, "26.2 %"),
            (480_000.0, Unit::Nanoseconds, "0.48 ms"),
            (16_200_000_000.0, Unit::Nanoseconds, "16.2 s"),
            (25_700.0, Unit::Nanoseconds, "25.7 us"),
            (900.0, Unit::Nanoseconds, "0.90 us"),
            (25_165_824.0, Unit::Bytes, "24.0 MiB"),
            (262_144.0, Unit::Bandwidth, "256 KiB/s"),
            (12.0, Unit::Bytes, "12.0 B"),
        ];
        for (number, unit, wanted) in cases {
            assert_eq!(format_value(number, unit), wanted);
        }
    }

    #[test]
    fn an_observation_and_its_bound_share_a_unit() {
        assert_eq!(
            format_comparison(124.98, 123.75, Unit::Count),
            "125.0, bound 123.8"
        );
        assert_eq!(
            format_comparison(480e3, 2e6, Unit::Nanoseconds),
            "0.480, bound 2.000 ms"
        );
    }

    #[test]
    fn ratios() {
        assert_eq!(format_ratio(125.0, 10.8), "11.6x");
        assert_eq!(format_ratio(0.48, 526.0), "0.0009x");
        assert_eq!(format_ratio(25.7e3, 204e6), "0.0001x");
        assert_eq!(format_ratio(15e3, 204e6), "0.000074x");
        assert_eq!(format_ratio(1.0, 0.0), "-");
        assert_eq!(format_ratio(0.0, 5.0), "0.00x");
    }
}
