// SPDX-License-Identifier: GPL-2.0-only
//! Files that runs leave in a directory: `results.jsonl`, which has all that a run said as
//! [`Event`]s, `PHASE.csv` with samples and `PHASE.weir` with recordings. Times are in nanoseconds,
//! sizes in bytes.

mod event;
mod kept;
mod measured;
mod result;

pub use event::{About, BEAT_MS, Event, OUT, decode_part, encode_part};
pub use kept::RunFiles;
pub use result::{
    Allocations, BeforeAfter, DiskBytes, MemoryReport, PhaseResult, Pressure, Series, TierSamples,
    TierSeries,
};

/// The name of the file that has what a run said.
pub const RESULTS: &str = "results.jsonl";
