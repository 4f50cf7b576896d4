// SPDX-License-Identifier: GPL-2.0-only
//! Tracepoints of the modelled kernel: names and units as the kernel's events have them.

/// KiB of a page; rates in events are in KiB/s.
pub const PAGE_KIB: u64 = 4;

/// The id of a task by the process' number: Linux counts from 1.
pub fn task_id(process: u32) -> u32 {
    process + 1
}

/// The inode of a cgroup's directory: the root's is 1.
pub fn cgroup_inode(cgroup: usize) -> u64 {
    cgroup as u64 + 1
}
