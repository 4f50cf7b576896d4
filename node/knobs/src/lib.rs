// SPDX-License-Identifier: GPL-2.0-only
//! weir's files in a cgroup: what they are called, what they take, what `memory.dirty_stat` says.
//!
//! Names and grammar are the module's own, out of `policy/names.h` and `policy/parse.c`. So every
//! place where a value is written (scenarios, the agent's policy, `weir plan`) accepts exactly what
//! the module accepts, and refuses the rest with one message:
//!
//! ```
//! let refused = knobs::Knob::DirtyMin.parse("16MB").unwrap_err();
//! assert_eq!(
//!     refused.to_string(),
//!     "memory.dirty_min: invalid value `16MB`: expected bytes with optional K, M, G or T, or `max`"
//! );
//! ```

mod page;

use policy::names;
use policy::parse::{self, Error};
use policy::pause::Decider;
use policy::{bandwidth, ceiling, division, window};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::LazyLock;

pub use page::{PAGE, PageSize};
pub use policy::UNLIMITED;
pub use policy::assist::THREADS_MAX as ASSIST_THREADS_MAX;
pub use policy::drain::SECONDS_MAX as DRAIN_SECONDS_MAX;
pub use policy::names::{Kind, StatKey, Unit};

/// A file that is written in every cgroup but the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "&str", try_from = "String")]
#[repr(u32)]
pub enum Knob {
    /// The floor, `memory.dirty_min`.
    DirtyMin,
    /// The ceiling in bytes.
    DirtyBytes,
    /// The ceiling in percent of dirtyable memory.
    DirtyRatio,
    /// The rate at which pages may be dirtied, in bytes per second.
    DirtyBandwidth,
    /// The weight among cgroups that compete for a device.
    DirtyWeight,
    /// The window: what flushers have under writeback on a device at once, in bytes.
    WritebackBytes,
    /// The part of a cgroup's memory that may lie in the fastest tier.
    ToptierRatio,
}

impl Knob {
    /// All knobs, in the order of `policy/names.h`.
    pub const ALL: [Knob; 7] = [
        Knob::DirtyMin,
        Knob::DirtyBytes,
        Knob::DirtyRatio,
        Knob::DirtyBandwidth,
        Knob::DirtyWeight,
        Knob::WritebackBytes,
        Knob::ToptierRatio,
    ];
    /// Those about dirty pages, which need no tiers.
    pub const DIRTY: [Knob; 6] = [
        Knob::DirtyMin,
        Knob::DirtyBytes,
        Knob::DirtyRatio,
        Knob::DirtyBandwidth,
        Knob::DirtyWeight,
        Knob::WritebackBytes,
    ];

    /// The file's name, as in `memory.dirty_min`.
    pub fn file_name(self) -> &'static str {
        names::knob_file(self as u32).unwrap_or_default()
    }

    /// The file's name without its controller, as in `dirty_min`.
    pub fn name(self) -> &'static str {
        let file = self.file_name();
        file.split_once('.').map_or(file, |(_, name)| name)
    }

    /// The knob with this file.
    pub fn by_file(file: &str) -> Option<Knob> {
        Knob::ALL.into_iter().find(|knob| knob.file_name() == file)
    }

    /// The file's value until it is written, as [`Knob::parse`] returns it.
    pub fn default(self) -> u64 {
        names::knob_unset(self as u32)
    }

    /// `true` if `text`, as the file shows it, is the default.
    pub fn is_default(self, text: &str) -> bool {
        self.parse(text) == Ok(self.default())
    }

    /// The number that `text` stands for in this file: bytes, bytes per second, percent or a weight.
    /// [`UNLIMITED`] for `max`, [`policy::tier::BY_CAPACITY`] for `default`.
    ///
    /// # Errors
    /// The module would refuse the text on a kernel with pages of 4 KiB.
    pub fn parse(self, text: &str) -> Result<u64, Refused> {
        self.parse_on(PageSize::default(), text)
    }

    /// The same on a kernel with these pages: the least ceiling is two of them.
    ///
    /// # Errors
    /// The module would refuse the text there.
    pub fn parse_on(self, pages: PageSize, text: &str) -> Result<u64, Refused> {
        let number = parse::parse_knob(self as u32, text.as_bytes(), pages.bytes());
        number.map_err(|why| Refused {
            knob: self,
            text: text.into(),
            why,
            pages,
        })
    }

    /// The least and the most that makes a difference, apart from words, with pages of 4 KiB.
    pub fn value_range(self) -> (u64, u64) {
        self.range_on(PageSize::default())
    }

    /// The same on a kernel with these pages.
    pub fn range_on(self, pages: PageSize) -> (u64, u64) {
        match self {
            Knob::DirtyMin => (0, parse::BYTES_MAX),
            Knob::DirtyBytes => (ceiling::CEILING_MIN * pages.bytes(), parse::BYTES_MAX),
            Knob::DirtyRatio | Knob::ToptierRatio => (0, 100),
            Knob::DirtyBandwidth => (bandwidth::BANDWIDTH_MIN, parse::BYTES_MAX),
            Knob::DirtyWeight => (division::WEIGHT_MIN.into(), division::WEIGHT_MAX.into()),
            Knob::WritebackBytes => (window::WINDOW_MIN, parse::BYTES_MAX),
        }
    }

    /// The values that the file accepts, for people: the rest of "expected ...".
    pub fn accepted_values(self) -> String {
        self.accepted_values_on(PageSize::default())
    }

    fn accepted_values_on(self, pages: PageSize) -> String {
        let (least, most) = self.range_on(pages);
        match self {
            Knob::DirtyMin => "bytes with optional K, M, G or T, or `max`".into(),
            Knob::DirtyBytes | Knob::WritebackBytes => {
                format!("bytes with optional K, M, G or T, at least {least}, or `max`")
            }
            Knob::DirtyBandwidth => {
                format!("bytes per second with optional K, M, G or T, at least {least}, or `max`")
            }
            Knob::DirtyRatio => format!("a whole number from {least} (off) to {most}"),
            Knob::DirtyWeight => format!("a whole number from {least} to {most}"),
            Knob::ToptierRatio => format!("a whole number from {least} to {most}, or `default`"),
        }
    }
}

impl From<Knob> for &'static str {
    fn from(knob: Knob) -> &'static str {
        knob.file_name()
    }
}

impl TryFrom<String> for Knob {
    type Error = String;

    fn try_from(file: String) -> Result<Knob, String> {
        Knob::by_file(&file).ok_or_else(|| format!("weir has no file `{file}`"))
    }
}

/// A text that a knob's file does not take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The knob whose file refuses it.
    pub knob: Knob,
    /// The text that was written.
    pub text: String,
    /// The module's way of refusing it.
    pub why: Error,
    /// Pages of the kernel that it is refused on.
    pub pages: PageSize,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: invalid value `{}`: expected {}",
            self.knob.file_name(),
            self.text.escape_debug(),
            self.knob.accepted_values_on(self.pages)
        )
    }
}

impl std::error::Error for Refused {}

/// The name of the file `memory.dirty_stat`, which is read only.
pub fn stat_file() -> &'static str {
    names::stat_file()
}

/// The keys of `memory.dirty_stat`, in the order it prints them.
pub fn stat_keys() -> &'static [StatKey] {
    static KEYS: LazyLock<Vec<StatKey>> =
        LazyLock::new(|| (0..).map_while(names::stat_key).collect());
    &KEYS
}

/// Keys and values of a `memory.dirty_stat`'s text; `max` is [`UNLIMITED`]. Lines that are not of
/// that form are left out.
pub fn parse_dirty_stat(text: &str) -> impl Iterator<Item = (&str, u64)> {
    text.lines().filter_map(|line| {
        let (key, value) = line.split_once(' ')?;
        let value = match value.trim() {
            "max" => UNLIMITED,
            number => number.parse().ok()?,
        };
        Some((key, value))
    })
}

/// The names that `memory.dirty_stat` and the event `weir:dirty_pause` have for those whose limit
/// put a task to sleep, by number.
pub fn decider_names() -> impl Iterator<Item = &'static str> {
    Decider::ALL.into_iter().map(Decider::name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_knob_is_its_file() {
        let files = [
            "memory.dirty_min",
            "memory.dirty_bytes",
            "memory.dirty_ratio",
            "memory.dirty_bandwidth",
            "memory.dirty_weight",
            "memory.writeback_bytes",
            "memory.toptier_ratio",
        ];
        assert_eq!(Knob::ALL.map(Knob::file_name), files);
        for knob in Knob::ALL {
            assert_eq!(Knob::by_file(knob.file_name()), Some(knob));
            let json = serde_json::to_string(&knob).expect("JSON");
            assert_eq!(json, format!("\"{}\"", knob.file_name()));
            assert_eq!(serde_json::from_str::<Knob>(&json).expect("a knob"), knob);
        }
        assert_eq!(Knob::by_file("memory.max"), None);
        assert_eq!(Knob::DirtyMin.name(), "dirty_min");
    }

    #[test]
    fn defaults_are_what_the_files_show() {
        let shown = ["0", "max", "0", "max", "100", "max", "default"];
        for (knob, shown) in Knob::ALL.into_iter().zip(shown) {
            assert!(knob.is_default(shown), "{}", knob.file_name());
        }
    }

    #[test]
    fn the_ends_of_a_range_are_taken_and_nothing_beyond() {
        for knob in Knob::ALL {
            let (least, most) = knob.value_range();
            assert_eq!(knob.parse(&least.to_string()), Ok(least));
            assert_eq!(knob.parse(&most.to_string()), Ok(most));
            knob.parse(&(most + 1).to_string()).expect_err("too much");
            if let Some(less) = least.checked_sub(1) {
                knob.parse(&less.to_string()).expect_err("too little");
            }
        }
    }

    #[test]
    fn the_least_ceiling_is_two_pages() {
        let large = PageSize::of_bytes(16 << 10).expect("a size");
        let takes = |text| Knob::DirtyBytes.parse_on(large, text);
        assert_eq!(takes("32K"), Ok(32 << 10));
        let refused = takes("8K").expect_err("half a page").to_string();
        assert!(refused.contains("at least 32768"), "{refused}");
        for knob in Knob::ALL
            .into_iter()
            .filter(|knob| *knob != Knob::DirtyBytes)
        {
            assert_eq!(knob.range_on(large), knob.value_range());
        }
    }

    #[test]
    fn what_is_refused_is_told_with_what_is_taken() {
        let message = |knob: Knob, text| knob.parse(text).expect_err("refused").to_string();
        assert_eq!(
            message(Knob::DirtyBytes, "4K"),
            "memory.dirty_bytes: invalid value `4K`: expected bytes with optional K, M, G or T, \
             at least 8192, or `max`"
        );
        assert_eq!(
            message(Knob::DirtyRatio, "101"),
            "memory.dirty_ratio: invalid value `101`: expected a whole number from 0 (off) to 100"
        );
        assert_eq!(
            message(Knob::DirtyBandwidth, "63K"),
            "memory.dirty_bandwidth: invalid value `63K`: expected bytes per second with optional \
             K, M, G or T, at least 65536, or `max`"
        );
        assert_eq!(
            message(Knob::DirtyWeight, "0"),
            "memory.dirty_weight: invalid value `0`: expected a whole number from 1 to 10000"
        );
        assert_eq!(
            message(Knob::WritebackBytes, "63K"),
            "memory.writeback_bytes: invalid value `63K`: expected bytes with optional K, M, G or T, \
             at least 65536, or `max`"
        );
        assert_eq!(
            message(Knob::ToptierRatio, "half"),
            "memory.toptier_ratio: invalid value `half`: expected a whole number from 0 to 100, \
             or `default`"
        );
    }

    #[test]
    fn a_stat_is_read() {
        let text = "in_effect 1\nceiling max\nnr_passes 7\nnonsense\n";
        let keys: Vec<_> = parse_dirty_stat(text).collect();
        assert_eq!(
            keys,
            [("in_effect", 1), ("ceiling", UNLIMITED), ("nr_passes", 7)]
        );
        assert_eq!(stat_keys()[0].name, "in_effect");
    }
}
