// SPDX-License-Identifier: GPL-2.0-only
//! What a task sleeps for, told from its kernel stack (`/proc/PID/stack`).
//!
//! Events give exact times but only for what has events. A stack tells everything else, one look at
//! a time: a task that is found in the journal in 30 of 100 looks spent about 30 % of the time there.
//! A function is looked for in the whole stack; kinds are asked in an order that lets the reason win
//! over the occasion: a writer in the throttle inside an fsync waits for the throttle.

use serde::{Deserialize, Serialize};

/// What for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// `balance_dirty_pages()`
    Throttle,
    /// Memory that reclaim has to free first.
    Reclaim,
    /// The filesystem's journal or log.
    Journal,
    /// fsync and the like: its data being written.
    Sync,
    /// A read from a disk.
    Read,
    /// A write to a disk that is not writeback: direct I/O, a full queue.
    Write,
    /// A lock that somebody else holds.
    Lock,
    /// Something else, uninterruptibly.
    Other,
}

/// Names of functions, or how they begin, that give a kind away.
const KINDS: &[(Wait, &[&str])] = &[
    (Wait::Throttle, &["balance_dirty_pages"]),
    (
        Wait::Reclaim,
        &[
            "try_to_free_",
            "shrink_",
            "reclaim_throttle",
            "mem_cgroup_handle_over_high",
            "__mem_cgroup_handle_over_high",
            "do_try_to_free_pages",
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
        Wait::Sync,
        &[
            "vfs_fsync_range",
            "do_fsync",
            "sync_inodes_sb",
            "sync_filesystem",
            "file_write_and_wait_range",
            "filemap_fdatawait",
            "__filemap_fdatawait_range",
            "folio_wait_writeback",
            "ksys_sync",
        ],
    ),
    (
        Wait::Read,
        &[
            "filemap_read",
            "filemap_fault",
            "filemap_get_pages",
            "page_cache_ra_",
            "ext4_dio_read",
            "ext4_file_read_iter",
            "xfs_file_dio_read",
            "xfs_file_read_iter",
            "btrfs_file_read_iter",
            "btrfs_direct_read",
            "blkdev_read_iter",
            "swap_read",
            "swapin_",
            "vfs_read",
        ],
    ),
    (
        Wait::Write,
        &[
            "iomap_dio_rw",
            "__iomap_dio_rw",
            "blkdev_write_iter",
            "rq_qos_wait",
            "wbt_wait",
            "blk_mq_get_tag",
            "submit_bio_wait",
        ],
    ),
    (
        Wait::Lock,
        &["rwsem_down_", "__mutex_lock", "__down", "futex_"],
    ),
];

/// From the text of a stack.
pub fn classify(stack: &str) -> Wait {
    let functions: Vec<&str> = stack
        .lines()
        .filter_map(|line| line.split_whitespace().nth(1))
        .collect();
    let found = KINDS.iter().find(|(_, names)| {
        functions
            .iter()
            .any(|function| names.iter().any(|name| function.starts_with(name)))
    });
    found.map_or(Wait::Other, |(kind, _)| *kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_of_real_kernels() {
        for (stack, kind) in [
            (
                "[<0>] balance_dirty_pages+0x3bc/0xd60\n[<0>] generic_perform_write+0x15a/0x240\n",
                Wait::Throttle,
            ),
            (
                "[<0>] jbd2_log_wait_commit+0xd8/0x140\n[<0>] ext4_sync_file+0x1a9/0x390\n[<0>] do_fsync+0x38/0x70\n",
                Wait::Journal,
            ),
            (
                "[<0>] folio_wait_bit_common+0x13d/0x350\n[<0>] folio_wait_writeback+0x2b/0x80\n[<0>] do_fsync+0x38/0x70\n",
                Wait::Sync,
            ),
            (
                "[<0>] folio_wait_bit_common+0x13d/0x350\n[<0>] filemap_get_pages+0x6d0/0x7a0\n[<0>] filemap_read+0xd9/0x350\n",
                Wait::Read,
            ),
            (
                "[<0>] reclaim_throttle+0x1/0x2\n[<0>] shrink_node+0x1/0x2\n[<0>] filemap_read+0xd9/0x350\n",
                Wait::Reclaim,
            ),
            ("[<0>] rwsem_down_write_slowpath+0x1/0x2\n", Wait::Lock),
            ("[<0>] msleep+0x1/0x2\n", Wait::Other),
            ("", Wait::Other),
        ] {
            assert_eq!(classify(stack), kind, "{stack}");
        }
    }
}
