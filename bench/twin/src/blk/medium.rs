// SPDX-License-Identifier: GPL-2.0-only
//! Times of a disk's requests besides their bytes: latency, part of which overlaps with others',
//! and seeks. A disk of which only a bandwidth is said takes neither.
//!
//! Example. An SSD answers a read of 4 KiB after 77 us, 8 at a time: each holds the line for 9.6 us
//! and is complete 67.4 us after it has left it.

use crate::sim::clock::Ns;
use scenario::model::Timing;

/// Pages of a file on the disk are numbered from its own multiple of this on.
const FILE: u32 = 32;

/// Position of a page of a file on its disk, as far as seeks are concerned.
pub fn sector_of(file: usize, page: u64) -> u64 {
    ((file as u64 + 1) << FILE) + page
}

/// Times of a disk's reads and writes besides bandwidth.
#[derive(Clone, Copy, Debug, Default)]
pub struct Medium {
    /// Times that a read takes.
    pub reads: Timing,
    /// Times that a write takes.
    pub writes: Timing,
}

impl Medium {
    fn timing_of(&self, is_read: bool) -> &Timing {
        match is_read {
            true => &self.reads,
            false => &self.writes,
        }
    }

    /// The least time for which a request holds the line.
    pub fn service_interval(&self, is_read: bool) -> Ns {
        let timing = self.timing_of(is_read);
        timing.latency_ns / u64::from(timing.parallel.max(1))
    }

    /// From there to its completion.
    pub fn completion_delay(&self, is_read: bool) -> Ns {
        self.timing_of(is_read).latency_ns - self.service_interval(is_read)
    }

    /// Further time of a request at `start` because the last ended at `end`.
    pub fn seek_time(&self, is_read: bool, end: u64, start: u64) -> Ns {
        let timing = self.timing_of(is_read);
        match (end == start, end >> FILE == start >> FILE) {
            (true, _) => 0,
            (false, true) => timing.near_ns,
            (false, false) => timing.far_ns,
        }
    }
}
