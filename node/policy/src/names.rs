// SPDX-License-Identifier: GPL-2.0-only
//! Names that users read and write, and the module's periods; see `policy/names.h`.

use crate::ffi as c;
use std::ffi::{CStr, c_char};

/// The beat evaluates every cgroup and proves the hooks, in milliseconds.
pub const BEAT_MS: u64 = c::WEIR_BEAT_MS as u64;
/// Between beats, what floors leave unused is counted at most this often, in milliseconds.
pub const RECOUNT_MS: u64 = c::WEIR_RECOUNT_MS as u64;
/// Two looks of `drain_seconds` are at least so far apart, in milliseconds.
pub const DRAIN_LOOK_MS: u64 = c::WEIR_DRAIN_LOOK_MS as u64;
/// A task that waits at its return to user mode looks so often, in milliseconds.
pub const STEP_MS: u64 = c::WEIR_STEP_MS as u64;

/// The unit of a key of `memory.dirty_stat`.
pub use c::weir_unit as Unit;

/// The behaviour of a key of `memory.dirty_stat` over time.
pub use c::weir_kind as Kind;

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
