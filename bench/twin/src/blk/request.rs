// SPDX-License-Identifier: GPL-2.0-only
//! Requests on their way to a disk, and waiters for room there.

use crate::mm::domain::PAGE;

/// Bytes that xfs's log writes for one inode: 820 to 1,020 were counted for each fsync of an append
/// (`scenarios/fsync/fitted-xfs.toml`, what the disk wrote besides data), so two sectors.
const CHECKPOINT: u64 = 1024;

/// Contents of a request.
#[derive(Clone, Copy, Debug)]
pub enum What {
    /// Dirty pages of a file.
    Pages {
        /// Index of the file.
        file: u32,
        /// No more of their bio follow.
        last: bool,
        /// Their blocks count as unwritten until they are.
        unwritten: bool,
    },
    /// Pages that a task reads.
    Read(u32),
    /// Anonymous pages on their way to the swap disk, by number of the write.
    SwapOut(u32),
    /// Those that a task reads back.
    SwapIn(u32),
    /// Further writes of the filesystem: its journal.
    Journal,
    /// A checkpoint of xfs's log, by its sequence.
    Log(u64),
    /// Nothing: a task has the disk empty its cache, which takes no time but a slot.
    Flush(u32),
}

/// Pages on the way to the disk, or from it.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Contents of the request.
    pub what: What,
    /// Number of pages in it.
    pub pages: u32,
    /// Begin on the disk, in pages (`sector_of()`); 0 outside of files.
    pub sector: u64,
    /// Owner of its slot: a CPU, or a writeback where the disk is divided by weight.
    pub hctx: u32,
    /// Cgroup that limits and weights count it for.
    pub cgroup: u32,
}

impl Request {
    /// `true` if the kernel's writeback throttling counts it (`wbt_should_throttle`): not what a
    /// task reads or waits for.
    pub fn is_wbt_tracked(&self) -> bool {
        matches!(self.what, What::Pages { .. } | What::SwapOut(_))
    }

    /// Bytes in it.
    pub fn bytes(&self) -> u64 {
        match self.what {
            What::Log(_) => CHECKPOINT,
            _ => u64::from(self.pages) * PAGE,
        }
    }

    /// End on the disk, in pages.
    pub fn end_sector(&self) -> u64 {
        self.sector + u64::from(self.pages)
    }

    /// `true` if it reads.
    pub fn is_read(&self) -> bool {
        matches!(self.what, What::Read(_) | What::SwapIn(_))
    }
}

/// A waiter for a slot.
#[derive(Clone, Copy, Debug)]
pub enum Waiter {
    /// The flusher of a writeback.
    Flusher(u32),
    /// A task that writes its own file back, or swaps out.
    Task(u32),
    /// kswapd, which swaps out.
    Kswapd,
    /// A request without a waiting task: a limit has let it through, or the filesystem writes it.
    Request(Request),
}
