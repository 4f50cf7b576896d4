// SPDX-License-Identifier: GPL-2.0-only
//! What people and container runtimes write into the knob files; see `policy/parse.c`.

use crate::ffi as c;

/// The largest byte value a file takes, other than `max`.
pub const BYTES_MAX: u64 = c::WEIR_BYTES_MAX;

/// The C functions' answer.
pub(crate) use c::weir_parsed as Parsed;

/// Why a text is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// Not a number in the file's form: `EINVAL`.
    Invalid,
    /// A number no such file takes: `ERANGE`.
    OutOfRange,
}

fn value_if_parsed<T>(parsed: Parsed, value: T) -> Result<T, Error> {
    match parsed {
        Parsed::Value => Ok(value),
        Parsed::Invalid => Err(Error::Invalid),
        Parsed::OutOfRange => Err(Error::OutOfRange),
    }
}

/// The bytes a `memory.dirty_min` or `memory.dirty_bytes` text stands for; `max` is
/// [`crate::UNLIMITED`].
///
/// # Errors
/// [`Error::Invalid`] for anything that is not digits with an optional K, M, G or T, or `max`;
/// [`Error::OutOfRange`] above [`BYTES_MAX`].
pub fn parse_bytes(text: &[u8]) -> Result<u64, Error> {
    let mut bytes = 0;
    // SAFETY: the pointers are valid for the call, the text for its length; C returns enumerators.
    let parsed =
        unsafe { c::weir_parse_bytes(text.as_ptr().cast(), text.len() as u64, &mut bytes) };
    value_if_parsed(parsed, bytes)
}

/// The percentage a `memory.dirty_ratio` text stands for, 0 to 100.
///
/// # Errors
/// [`Error::Invalid`] for anything else.
pub fn parse_percent(text: &[u8]) -> Result<u32, Error> {
    let mut percent = 0;
    // SAFETY: the pointers are valid for the call, the text for its length; C returns enumerators.
    let parsed =
        unsafe { c::weir_parse_percent(text.as_ptr().cast(), text.len() as u64, &mut percent) };
    value_if_parsed(parsed, percent)
}

/// The percentage a `memory.toptier_ratio` text stands for, 0 to 100; `default` is
/// [`crate::tier::BY_CAPACITY`].
///
/// # Errors
/// [`Error::Invalid`] for anything else.
pub fn parse_ratio(text: &[u8]) -> Result<u32, Error> {
    let mut ratio = 0;
    // SAFETY: the pointers are valid for the call, the text for its length; C returns enumerators.
    let parsed =
        unsafe { c::weir_parse_ratio(text.as_ptr().cast(), text.len() as u64, &mut ratio) };
    value_if_parsed(parsed, ratio)
}

/// The weight a `memory.dirty_weight` text stands for, 1 to 10000.
///
/// # Errors
/// [`Error::Invalid`] for anything but digits, [`Error::OutOfRange`] outside 1 to 10000.
pub fn parse_weight(text: &[u8]) -> Result<u32, Error> {
    let mut weight = 0;
    // SAFETY: the pointers are valid for the call, the text for its length; C returns enumerators.
    let parsed =
        unsafe { c::weir_parse_weight(text.as_ptr().cast(), text.len() as u64, &mut weight) };
    value_if_parsed(parsed, weight)
}

/// `bytes` if a `memory.dirty_bytes` may be that low on a kernel with pages of `page_bytes`.
///
/// # Errors
/// [`Error::OutOfRange`] below two pages.
pub fn check_ceiling_bytes(bytes: u64, page_bytes: u64) -> Result<u64, Error> {
    value_if_parsed(c::weir_check_ceiling_bytes(bytes, page_bytes), bytes)
}

/// The number that `text` stands for in the file of the knob with this number in `enum weir_knob`, on
/// a kernel with pages of `page_bytes`.
///
/// # Errors
/// As for the file's own function; [`Error::Invalid`] where there is no such knob.
pub fn parse_knob(knob: u32, text: &[u8], page_bytes: u64) -> Result<u64, Error> {
    let mut number = 0;
    // SAFETY: the pointers are valid for the call, the text for its length; C returns enumerators.
    let parsed = unsafe {
        c::weir_parse_knob(
            knob,
            text.as_ptr().cast(),
            text.len() as u64,
            page_bytes,
            &mut number,
        )
    };
    value_if_parsed(parsed, number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UNLIMITED;

    #[test]
    fn what_is_taken() {
        for (text, expected) in [
            ("0", 0),
            ("16777216\n", 16 << 20),
            ("16M\n", 16 << 20),
            (" 16m ", 16 << 20),
            ("1T", 1 << 40),
            ("max\n", UNLIMITED),
            ("9223372036854775807", BYTES_MAX),
            ("00000000000000000000000000000001", 1),
        ] {
            assert_eq!(parse_bytes(text.as_bytes()), Ok(expected), "{text:?}");
        }
        assert_eq!(parse_percent(b"0"), Ok(0));
        assert_eq!(parse_percent(b"100\n"), Ok(100));
        assert_eq!(check_ceiling_bytes(8_192, 4_096), Ok(8_192));
    }

    /// The text that a floor's file shows can be written back.
    #[test]
    fn a_floor_may_be_automatic() {
        let floor = |text: &str| parse_knob(0, text.as_bytes(), 4_096);
        assert_eq!(crate::names::knob_file(0), Some("memory.dirty_min"));
        for text in ["auto", " auto\n", "auto 5242880\n", "auto 5M"] {
            assert_eq!(floor(text), Ok(0), "{text:?}");
        }
        for text in ["aut", "auto5M", "auto 5 M", "auto x", "automatic", "Auto"] {
            assert_eq!(floor(text), Err(Error::Invalid), "{text:?}");
        }
        assert_eq!(floor("16M"), Ok(16 << 20));
        assert_eq!(parse_knob(1, b"auto", 4_096), Err(Error::Invalid));
    }

    #[test]
    fn what_is_refused() {
        for text in [
            "",
            "\n",
            "K",
            "-1",
            "+1",
            "1.5M",
            "0x10",
            "1 M",
            "16MB",
            "16M 16M",
            "max max",
            "Max",
            "1\0",
            "99999999999999999999999x",
        ] {
            assert_eq!(
                parse_bytes(text.as_bytes()),
                Err(Error::Invalid),
                "{text:?}"
            );
        }
        for text in ["9223372036854775808", "8388608T", "99999999999999999999999"] {
            assert_eq!(
                parse_bytes(text.as_bytes()),
                Err(Error::OutOfRange),
                "{text:?}"
            );
        }
        for text in ["101", "10%", "max", "99999999999999999999999"] {
            assert_eq!(
                parse_percent(text.as_bytes()),
                Err(Error::Invalid),
                "{text:?}"
            );
        }
        assert_eq!(check_ceiling_bytes(8_191, 4_096), Err(Error::OutOfRange));
    }
}
