// SPDX-License-Identifier: GPL-2.0-only
//! What is on its way to a disk, and who waits for room there.

/// What is on its way.
#[derive(Clone, Copy, Debug)]
pub enum What {
    /// Dirty pages of a file, of whose writeback.
    Pages {
        /// Index of the writeback structure.
        wb: u32,
        /// Index of the file.
        file: u32,
        /// No more of their bio follow.
        last: bool,
    },
    /// Pages that a task reads.
    Read(u32),
    /// Anonymous pages on their way to the swap disk, by number of the write.
    SwapOut(u32),
    /// Those that a task reads back.
    SwapIn(u32),
    /// What the filesystem writes besides: its journal.
    Journal,
}

/// Pages on the way to the disk, or from it.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// What they are.
    pub what: What,
    /// Number of pages in it.
    pub pages: u32,
    /// Whose slot it has: a CPU's, or a writeback's where the disk is divided by weight.
    pub hctx: u32,
    /// Whom limits and weights count it for.
    pub cgroup: u32,
}

impl Request {
    /// Whether it needs a slot: there is always one for reads and the journal.
    pub fn has_slot(&self) -> bool {
        matches!(self.what, What::Pages { .. } | What::SwapOut(_))
    }

    /// Whether it reads.
    pub fn is_read(&self) -> bool {
        matches!(self.what, What::Read(_) | What::SwapIn(_))
    }
}

/// Who waits for a slot.
#[derive(Clone, Copy, Debug)]
pub enum Waiter {
    /// The flusher of a writeback.
    Flusher(u32),
    /// A task that writes its own file back, or swaps out.
    Task(u32),
    /// kswapd, which swaps out.
    Kswapd,
    /// Pages without a waiting task: a limit has let them through, or a commit carries them.
    Pages(Request),
}
