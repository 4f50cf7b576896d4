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
//! A job that allocates ([`allocator`]) says `ready` at once, and has no pages to look for in the end.
//!
//! In scripts: `sleep 30 | weir-memory '{"size_bytes": 104857600}'`.

mod allocator;
mod histogram;
pub mod job;
mod program;
mod reader;
mod region;

pub use program::main;
pub use scenario::rundir::MemoryReport as Report;

/// The program's name, which weir is started by: in guests there is a link, too.
pub const PROGRAM: &str = "weir-memory";
