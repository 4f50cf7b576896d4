// SPDX-License-Identifier: GPL-2.0-only
//! A workload that fills memory, reads it at random, and knows what must be in it.
//!
//! fio measures disks; here it matters in which tier a job's pages lie while it reads them, and
//! that moving them about loses nothing. So this is a program of its own, one process
//! (`weir-memory`) for each job, in the job's cgroup:
//!
//! 1. it maps its memory and writes all over it ([`region`]): first touch decides where pages are
//!    allocated, as it does for any program; then it says `ready`;
//! 2. its threads read words at random, and write some if told to ([`reader`]), until standard
//!    input ends; a line `mark` begins the time that counts;
//! 3. it asks the kernel where each page lies, reads everything again, and prints one JSON object,
//!    a [`Report`].
//!
//! The hot set is not in one piece: every so many pieces of 2 MiB one is hot, so that where a job
//! begins to allocate does not decide what of it is in fast memory. Example: 156 MiB hot of 340: 78
//! of 170 pieces, so 0, 3, 5, 7, 9, 11, 14, ... A page's words follow from its number, so nothing
//! has to be remembered to check them; the first is a counter, which only the thread that owns the
//! page writes, and remembers.
//!
//! In scripts: `sleep 30 | weir-memory '{"size_bytes": 104857600}'`.

pub mod job;
mod program;
mod reader;
mod region;

use serde::{Deserialize, Serialize};

pub use program::{is_asked, main};

/// The program's name, which weir is started by: in guests there is a link, too.
pub const PROGRAM: &str = "weir-memory";

/// What the program has to say in the end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Reads and writes in the time that counts.
    pub ops: u64,
    /// How long that was.
    pub milliseconds: u64,
    /// Hot pages on each node; all pages are hot if all are read alike.
    pub hot: Vec<u64>,
    /// The other pages.
    pub cold: Vec<u64>,
    /// Hot pages that are on no node: swapped out, or being moved just then.
    pub hot_nowhere: u64,
    /// Pages that did not hold what they should, when read or in the end.
    pub corrupt_pages: u64,
    /// Bytes in huge pages.
    pub huge_bytes: u64,
}
