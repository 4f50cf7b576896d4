// SPDX-License-Identifier: GPL-2.0-only
//! Units of figures.

use serde::{Serialize, Serializer};

/// Quantity that a metric counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Time in nanoseconds.
    Nanoseconds,
    /// Microseconds, of times that `memory.dirty_stat` has.
    Microseconds,
    /// Size in bytes.
    Bytes,
    /// Bytes per second.
    Bandwidth,
    /// Bytes per minute.
    BytesPerMinute,
    /// A part of a hundred.
    Percent,
    /// Operations per second of a job.
    Iops,
    /// Anything else that is counted.
    Count,
}

impl Unit {
    /// The unit's name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Nanoseconds => "ns",
            Unit::Microseconds => "us",
            Unit::Bytes => "bytes",
            Unit::Bandwidth => "bytes/s",
            Unit::BytesPerMinute => "bytes/min",
            Unit::Percent => "percent",
            Unit::Iops => "iops",
            Unit::Count => "count",
        }
    }

    /// The quantity in words, for people.
    pub fn in_words(self) -> &'static str {
        match self {
            Unit::Nanoseconds => "a time",
            Unit::Microseconds => "a time in microseconds (a plain number)",
            Unit::Bytes => "a size",
            Unit::Bandwidth => "a bandwidth",
            Unit::BytesPerMinute => "a size per minute",
            Unit::Percent => "a percentage (a plain number)",
            Unit::Iops | Unit::Count => "a plain number",
        }
    }

    /// `true` if a figure of this unit may stand in a bound of a metric in `wanted`: a bandwidth
    /// may be written without its `/s`, as fio does, and rates and counts are plain numbers.
    pub fn may_bound(self, wanted: Unit) -> bool {
        let plain = [Unit::Iops, Unit::Count];
        self == wanted
            || self == Unit::Bytes && [Unit::Bandwidth, Unit::BytesPerMinute].contains(&wanted)
            || plain.contains(&self) && plain.contains(&wanted)
    }
}

impl Serialize for Unit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
