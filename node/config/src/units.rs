// SPDX-License-Identifier: GPL-2.0-only
//! Sizes, bandwidths and durations as people write them. Sizes follow fio and the cgroup files:
//! `K`, `M`, `G`, `T` are powers of 1024, upper or lower case; a bare number is bytes. What cannot
//! be is refused here, so that sums and products of what is taken fit.

use std::num::IntErrorKind;

/// No size or bandwidth is larger: 1 PiB.
pub const LARGEST: u64 = 1 << 50;
/// No duration is longer: a year.
pub const LONGEST_NS: u64 = 366 * 24 * 3600 * 1_000_000_000;

/// Messages for a text that is no size, and for one that is too large.
const NO_SIZE: &str = "write a whole number with K, M, G or T (powers of 1024), as in `32M`";
const TOO_LARGE: &str = "more than 1 PiB";

/// Bytes from `32M`, `4k`, `262144`.
///
/// # Errors
/// What is wrong with `text` and what a size looks like.
pub fn parse_size(text: &str) -> Result<u64, String> {
    parse_bytes(text).map_err(|why| format!("`{text}` is not a size: {why}"))
}

/// Bytes per second from `256K/s`.
///
/// # Errors
/// What is wrong with `text` and what a bandwidth looks like.
pub fn parse_bandwidth(text: &str) -> Result<u64, String> {
    let wrong = |why: &str| format!("`{text}` is not a bandwidth: {why}");
    let Some(amount) = text.strip_suffix("/s") else {
        return Err(wrong(
            "expected an amount per second, as in `256K/s` or `20M/s`",
        ));
    };
    match parse_bytes(amount) {
        Ok(0) => Err(wrong("more than 0 is needed")),
        Ok(bytes) => Ok(bytes),
        Err(TOO_LARGE) => Err(wrong("more than 1 PiB per second")),
        Err(_) => Err(wrong("write a size per second, as in `256K/s` or `20M/s`")),
    }
}

fn parse_bytes(text: &str) -> Result<u64, &'static str> {
    let (digits, unit) = split_number(text);
    let shift = match unit {
        "" | "B" => 0,
        "K" | "k" => 10,
        "M" | "m" => 20,
        "G" | "g" => 30,
        "T" | "t" => 40,
        _ => return Err(NO_SIZE),
    };
    let number = digits.parse::<u64>().map_err(|why| match why.kind() {
        IntErrorKind::PosOverflow => TOO_LARGE,
        _ => NO_SIZE,
    })?;
    number
        .checked_mul(1 << shift)
        .filter(|bytes| *bytes <= LARGEST)
        .ok_or(TOO_LARGE)
}

/// Nanoseconds from `2ms`, `30s`, `5m`; units ns, us, ms, s, m.
///
/// # Errors
/// What is wrong with `text` and what a duration looks like.
pub fn parse_nanoseconds(text: &str) -> Result<u64, String> {
    let wrong = |why: &str| format!("`{text}` is not a duration: {why}");
    let (digits, unit) = split_number(text);
    let scale = match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "" => return Err(wrong("say the unit, as in `500ms`, `30s` or `5m`")),
        _ => {
            return Err(wrong(
                "write a whole number with ns, us, ms, s or m (minutes), as in `500ms`, `30s` or `5m`",
            ));
        }
    };
    let number: u64 = digits.parse().map_err(|_| {
        wrong(
            "write a whole number with ns, us, ms, s or m (minutes), as in `500ms`, `30s` or `5m`",
        )
    })?;
    number
        .checked_mul(scale)
        .filter(|ns| *ns <= LONGEST_NS)
        .ok_or_else(|| wrong("longer than 366 days"))
}

/// Milliseconds from `500ms`, `30s`, `5m`.
///
/// # Errors
/// As [`parse_nanoseconds`]; also when it is not a whole number of milliseconds.
pub fn parse_milliseconds(text: &str) -> Result<u64, String> {
    let ns = parse_nanoseconds(text)?;
    if ns % 1_000_000 != 0 {
        return Err(format!(
            "`{text}` is finer than the clock of a scenario: whole milliseconds, as in `500ms`"
        ));
    }
    Ok(ns / 1_000_000)
}

/// The leading digits of `text` and the rest.
fn split_number(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text.split_at(end)
}
