// SPDX-License-Identifier: GPL-2.0-only
//! What a task sleeps for, told from the kernel function it sleeps in and the system call it is in.
//!
//! Events give exact times but only for what has events. A look tells everything else, one at a
//! time: a task that is found in the journal in 30 of 100 looks spent about 30 % of the time there.
//! It takes `/proc/PID/wchan` and `/proc/PID/syscall`, not `/proc/PID/stack`: the kernel names the
//! function of a task that it keeps asleep meanwhile, but walks a whole stack while the task may
//! wake up, and up to 6.9 warns if it then meets a return probe there, ours or another program's.
//!
//! The function decides where it says enough. A wait for a page (`folio_wait_bit_common`) does not:
//! in fsync it is for writing, in read() for reading. In a page fault there is no system call: the
//! kernel gives -1 for its number.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Sleeps that were seen, in task-seconds.
pub type Waits = BTreeMap<Wait, f64>;

/// Event that a sleeping task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// The throttle, `balance_dirty_pages()`.
    Throttle,
    /// The bandwidth of its cgroup, in weir's module.
    Bandwidth,
    /// A full ceiling of its cgroup, in weir's module.
    Ceiling,
    /// Memory that reclaim has to free first.
    Reclaim,
    /// The kernel's penalty for a cgroup over `memory.high`.
    OverHigh,
    /// Room in a disk's queue, in a page fault: for what reclaim writes to swap, or what it reads.
    Queue,
    /// A page that a page fault needs, from swap or from a file.
    Fault,
    /// The filesystem's journal or log.
    Journal,
    /// fsync and the like: its data being written. So do close, rename, truncate and copy-up.
    Sync,
    /// All dirty pages of a filesystem: umount, syncfs, sync, mount, freeze.
    Flush,
    /// The daemon of a FUSE filesystem, interruptibly.
    Fuse,
    /// A read from a disk.
    Read,
    /// A write to a disk that is not writeback: direct I/O, a full queue.
    Write,
    /// A lock that another task holds.
    Lock,
    /// Something else, uninterruptibly. Recordings of older modules have waits for a weight.
    #[serde(alias = "weight")]
    Other,
}

impl Wait {
    /// In words, after "waits for".
    pub fn in_words(self) -> &'static str {
        match self {
            Wait::Throttle => "the throttle",
            Wait::Bandwidth => "what its cgroup may dirty a second",
            Wait::Ceiling => "room below a ceiling",
            Wait::Reclaim => "memory to be reclaimed",
            Wait::OverHigh => "its cgroup to come below memory.high",
            Wait::Queue => "room in a disk's queue",
            Wait::Fault => "page faults that read",
            Wait::Journal => "the journal",
            Wait::Sync => "fsync",
            Wait::Flush => "the writeback of a filesystem",
            Wait::Fuse => "the daemon of a FUSE filesystem",
            Wait::Read => "reads from a disk",
            Wait::Write => "direct writes to a disk",
            Wait::Lock => "a lock",
            Wait::Other => "something else",
        }
    }
}

/// Functions, or how they begin, that say enough.
const FUNCTIONS: &[(Wait, &[&str])] = &[
    (Wait::Bandwidth, &["weir_bandwidth_"]),
    (Wait::Ceiling, &["weir_ceiling_"]),
    (
        Wait::Throttle,
        &["balance_dirty_pages", "io_schedule_timeout"],
    ),
    (
        Wait::Reclaim,
        &[
            "reclaim_throttle",
            "shrink_",
            "try_to_free_",
            "do_try_to_free_pages",
        ],
    ),
    (
        Wait::OverHigh,
        &[
            "mem_cgroup_handle_over_high",
            "__mem_cgroup_handle_over_high",
        ],
    ),
    (
        Wait::Journal,
        &[
            "jbd2_",
            "__jbd2_",
            "wait_transaction_locked",
            "add_transaction_credits",
            "start_this_handle",
            "do_get_write_access",
            "xlog_",
            "xfs_log_",
            "btrfs_commit_transaction",
            "btrfs_sync_log",
            "wait_current_trans",
            "wait_for_commit",
        ],
    ),
    (
        Wait::Flush,
        &[
            "wb_wait_for_completion",
            "sync_inodes_sb",
            "wait_sb_inodes",
            "sync_filesystem",
            "writeback_inodes_sb",
            "try_to_writeback_inodes_sb",
        ],
    ),
    // One file that is closed, removed or renamed while it is written; and NFS's own requests.
    (
        Wait::Sync,
        &[
            "inode_wait_for_writeback",
            "__inode_wait_for_writeback",
            "nfs_wait_on_request",
            "wait_on_commit",
            "__nfs_commit_inode",
        ],
    ),
    // For one, of a filesystem that is frozen.
    (Wait::Lock, &["percpu_rwsem_wait"]),
    (Wait::Fuse, &["request_wait_answer"]),
];

/// Functions that do not sleep themselves and say enough where one that does was called by them.
const CALLERS: &[(Wait, &[&str])] = &[
    (
        Wait::Sync,
        &[
            "__filemap_fdatawait_range",
            "filemap_fdatawait",
            "file_write_and_wait_range",
            "file_fdatawait_range",
            "folio_wait_writeback",
            "vfs_fsync",
            "do_fsync",
            "ext4_sync_file",
            "xfs_file_fsync",
            "btrfs_sync_file",
            "blkdev_fsync",
        ],
    ),
    (
        Wait::Read,
        &[
            "filemap_get_pages",
            "filemap_update_page",
            "filemap_read",
            "iomap_dio_read",
        ],
    ),
    (Wait::Fault, &["filemap_fault", "do_swap_page"]),
];

/// Functions by which a task sleeps, whatever for. `wchan` passes over them, a stack does not.
const SLEEPS: &[&str] = &[
    "finish_task_switch",
    "__schedule",
    "schedule",
    "io_schedule",
    "preempt_schedule",
    "wait_for_completion",
    "__wait_for_common",
    "wait_for_common",
    "bit_wait",
    "__wait_on_bit",
    "out_of_line_wait_on_bit",
];
/// Functions that wait for a lock; a stack in which something else is known is about that.
const LOCKS: &[&str] = &[
    "rwsem_down_",
    "down_read",
    "down_write",
    "__mutex_lock",
    "mutex_lock",
    "rt_mutex_",
];

/// Functions that wait in a disk's queue: no free tag, or too much under way already.
const QUEUES: [&str; 3] = ["blk_mq_get_tag", "rq_qos_wait", "wbt_wait"];

// Numbers of system calls: read, pread64, readv and so on. They are of the architecture weir runs
// on.
use nix::libc;
const READS: &[i64] = &[
    libc::SYS_read,
    libc::SYS_pread64,
    libc::SYS_readv,
    libc::SYS_preadv,
    libc::SYS_preadv2,
];
const WRITES: &[i64] = &[
    libc::SYS_write,
    libc::SYS_pwrite64,
    libc::SYS_writev,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
];
const SYNCS: &[i64] = &[
    libc::SYS_msync,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_sync,
    libc::SYS_sync_file_range,
    libc::SYS_syncfs,
    // Writes what is dirty first.
    libc::SYS_umount2,
];
/// Calls that change a file or its name: in them, a wait for a page, or for room in a disk's queue, is
/// for what is written. close writes back on NFS and FUSE, and on ext4 after a truncation, as rename
/// does (`auto_da_alloc`); an open for writing copies a file up on overlayfs.
const CHANGES: &[i64] = &[
    libc::SYS_close,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_renameat2,
    libc::SYS_unlinkat,
    libc::SYS_linkat,
    libc::SYS_truncate,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fchmodat,
    libc::SYS_fchownat,
    libc::SYS_copy_file_range,
    libc::SYS_mount,
    libc::SYS_ioctl,
    libc::SYS_exit_group,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
];
/// Number in place of a system call's where there is none.
const FAULT: i64 = -1;

/// The wait of tasks that sleep in a function, or in what it calls, if its name says so.
pub fn wait_of_function(function: &str) -> Option<Wait> {
    let mut known = FUNCTIONS
        .iter()
        .chain(CALLERS)
        .filter(|(_, names)| begins_with_one(function, names));
    known.next().map(|(wait, _)| *wait)
}

fn begins_with_one(function: &str, names: &[&str]) -> bool {
    names.iter().any(|name| function.starts_with(name))
}

/// Returns whether the innermost function of a stack, but for those that record it, is one in which
/// a task sleeps.
pub fn is_asleep(frames: &[&str]) -> bool {
    let records = |frame: &str| frame.contains("bpf") || frame.contains("trace");
    let innermost = frames.iter().find(|frame| !records(frame));
    innermost.is_some_and(|frame| begins_with_one(frame, SLEEPS))
}

/// Finds the wait by the functions of a stack, the innermost first; with the one that tells it, or
/// the one in which the task sleeps.
pub fn wait_of_stack<'a>(frames: &[&'a str]) -> (Wait, Option<&'a str>) {
    let awake = || {
        let frames = frames.iter().copied();
        frames.filter(|frame| !begins_with_one(frame, SLEEPS))
    };
    if let Some(known) = awake().find_map(|frame| Some((wait_of_function(frame)?, Some(frame)))) {
        return known;
    }
    match awake().find(|frame| begins_with_one(frame, LOCKS)) {
        Some(lock) => (Wait::Lock, Some(lock)),
        None => (Wait::Other, awake().next().or(frames.first().copied())),
    }
}

/// Finds the wait by the texts of `wchan` and `syscall`.
pub fn classify_wait(wchan: &str, syscall: &str) -> Wait {
    if let Some(kind) = wait_of_function(wchan) {
        return kind;
    }
    // What sleeps in these themselves waits for the inode's lock: the lock's functions do not
    // count.
    if wchan.ends_with("_write_iter") || wchan.ends_with("_read_iter") {
        return Wait::Lock;
    }
    let number = syscall.split_whitespace().next();
    // `running`, or nothing: it is awake by now, or gone.
    let Some(number) = number.and_then(|number| number.parse::<i64>().ok()) else {
        return Wait::Other;
    };
    match number {
        FAULT if QUEUES.iter().any(|name| wchan.starts_with(name)) => Wait::Queue,
        FAULT if wchan.contains("folio") || wchan.contains("swap_read") => Wait::Fault,
        number if SYNCS.contains(&number) => Wait::Sync,
        number if READS.contains(&number) => Wait::Read,
        // Writing into a page that is just being written.
        number if WRITES.contains(&number) && wchan.starts_with("folio_wait") => Wait::Sync,
        number if WRITES.contains(&number) => Wait::Write,
        number if CHANGES.contains(&number) && is_write(wchan) => Wait::Sync,
        // What io_uring's threads write waits in the throttle, what they sync has events.
        libc::SYS_io_uring_enter if wchan.starts_with("folio_wait") => Wait::Read,
        _ => Wait::Other,
    }
}

/// Returns whether a call that reads no data waits there for a disk, or for a server.
fn is_write(wchan: &str) -> bool {
    let waits = ["folio_wait", "rpc_wait_bit", "submit_bio_wait"];
    waits
        .iter()
        .chain(&QUEUES)
        .any(|name| wchan.starts_with(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_and_calls_of_real_kernels() {
        for (wchan, syscall, kind) in [
            ("balance_dirty_pages", "1 0x3 0x7f 0x1000", Wait::Throttle),
            ("weir_bandwidth_sleep", "-1 0x7f 0x1000", Wait::Bandwidth),
            ("weir_ceiling_sleep", "-1 0x7f 0x1000", Wait::Ceiling),
            ("jbd2_log_wait_commit", "74 0x3", Wait::Journal),
            ("folio_wait_bit_common", "74 0x3", Wait::Sync),
            ("wb_wait_for_completion", "166 0x3", Wait::Flush),
            ("wb_wait_for_completion", "231 0x0", Wait::Flush),
            ("folio_wait_bit_common", "166 0x3", Wait::Sync),
            ("folio_wait_bit_common", "257 0x3", Wait::Sync),
            ("folio_wait_bit_common", "82 0x3", Wait::Sync),
            ("folio_wait_bit_common", "3 0x3", Wait::Sync),
            ("blk_mq_get_tag", "82 0x3", Wait::Sync),
            ("rpc_wait_bit_killable", "3 0x3", Wait::Sync),
            ("folio_wait_bit_common", "426 0x3", Wait::Read),
            ("percpu_rwsem_wait", "1 0x3", Wait::Lock),
            ("request_wait_answer", "1 0x3", Wait::Fuse),
            ("folio_wait_bit_common", "0 0x3", Wait::Read),
            ("folio_wait_bit_common", "1 0x3", Wait::Sync),
            ("blk_io_schedule", "17 0x3", Wait::Read),
            ("blk_io_schedule", "18 0x3", Wait::Write),
            ("ext4_buffered_write_iter", "1 0x3", Wait::Lock),
            ("reclaim_throttle", "1 0x3", Wait::Reclaim),
            ("__mem_cgroup_handle_over_high", "1 0x3", Wait::OverHigh),
            ("blk_mq_get_tag", "-1 0x7ffc 0x5566", Wait::Queue),
            ("folio_wait_bit_common", "-1 0x7ffc 0x5566", Wait::Fault),
            ("blk_mq_get_tag", "18 0x3", Wait::Write),
            ("msleep", "35 0x3", Wait::Other),
            ("0", "running", Wait::Other),
            ("", "", Wait::Other),
        ] {
            assert_eq!(classify_wait(wchan, syscall), kind, "{wchan} in {syscall}");
        }
    }
}
