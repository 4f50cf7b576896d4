// SPDX-License-Identifier: GPL-2.0-only
//! Names that users read and write, and the module's periods; see `policy/names.h`.

use std::ffi::{CStr, c_char};

mod c {
    use super::*;
    unsafe extern "C" {
        pub safe fn weir_stat_key(key: u32) -> *const Key;
        pub safe fn weir_stat_file() -> *const c_char;
        pub safe fn weir_knob_file(knob: u32) -> *const c_char;
        pub safe fn weir_knob_unset(knob: u32) -> u64;
        pub safe fn weir_decider_name(by: u32) -> *const c_char;
    }

    #[repr(C)]
    pub struct Key {
        pub name: *const c_char,
        pub unit: Unit,
        pub kind: Kind,
    }
}

include!(concat!(env!("OUT_DIR"), "/periods.rs"));

/// The unit of a key of `memory.dirty_stat`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code)] // constructed by C
pub enum Unit {
    /// A number of events, or a part.
    Count,
    /// Bytes, or `max`.
    Bytes,
    /// A time in microseconds.
    Microseconds,
}

/// The behaviour of a key of `memory.dirty_stat` over time.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code)] // constructed by C
pub enum Kind {
    /// It says what is so now.
    Level,
    /// It only grows.
    Counter,
}

/// A key of `memory.dirty_stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatKey {
    /// The key as it is printed.
    pub name: &'static str,
    /// The unit it counts in.
    pub unit: Unit,
    /// Its behaviour over time.
    pub kind: Kind,
}

/// The text at `name`, if there is one.
pub(crate) fn c_text(name: *const c_char) -> Option<&'static str> {
    if name.is_null() {
        return None;
    }
    // SAFETY: the C functions return string literals, which are terminated and never change.
    unsafe { CStr::from_ptr(name) }.to_str().ok()
}

/// The key that `memory.dirty_stat` prints as number `index`, from 0.
pub fn stat_key(index: u32) -> Option<StatKey> {
    // SAFETY: null, or an element of an immutable array.
    let key = unsafe { c::weir_stat_key(index).as_ref() }?;
    Some(StatKey {
        name: c_text(key.name)?,
        unit: key.unit,
        kind: key.kind,
    })
}

/// The name of the file `memory.dirty_stat`.
pub fn stat_file() -> &'static str {
    c_text(c::weir_stat_file()).unwrap_or_default()
}

/// The file of the knob with this number in `enum weir_knob`.
pub fn knob_file(knob: u32) -> Option<&'static str> {
    c_text(c::weir_knob_file(knob))
}

/// The value of the knob with this number until it is written.
pub fn knob_unset(knob: u32) -> u64 {
    c::weir_knob_unset(knob)
}

/// The name of the decider with this number in `enum weir_pause_by`.
pub fn decider_name(by: u32) -> Option<&'static str> {
    c_text(c::weir_decider_name(by))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pause::Decider;

    #[test]
    fn lists_end_and_names_are_different() {
        let keys: Vec<StatKey> = (0..).map_while(stat_key).collect();
        assert_eq!(keys.len(), 40);
        let mut names: Vec<&str> = keys.iter().map(|key| key.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 40);
        assert_eq!((0..).map_while(knob_file).count(), 7);
        assert_eq!(stat_file(), "memory.dirty_stat");
    }

    #[test]
    fn a_name_tells_unit_and_kind() {
        for key in (0..).map_while(stat_key) {
            let is_time = key.name.ends_with("_usec");
            assert_eq!(key.unit == Unit::Microseconds, is_time, "{}", key.name);
            let counts = is_time || key.name.starts_with("nr_");
            assert_eq!(key.kind == Kind::Counter, counts, "{}", key.name);
        }
    }

    #[test]
    fn deciders_are_in_the_order_of_their_numbers() {
        let names: Vec<&str> = (0..).map_while(decider_name).collect();
        assert_eq!(names, Decider::ALL.map(Decider::name));
        for decider in Decider::ALL {
            assert_eq!(format!("{decider:?}").to_lowercase(), decider.name());
            assert_eq!(Decider::by_name(decider.name()), Some(decider));
        }
    }
}
