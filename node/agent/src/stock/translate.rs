// SPDX-License-Identifier: GPL-2.0-only
//! What a stock kernel can do for each of weir's knobs.
//!
//! | knob | stock |
//! |---|---|
//! | `memory.dirty_bytes`, `memory.dirty_ratio` | `memory.high`, with which the kernel's own limit for the cgroup is the ceiling |
//! | `memory.dirty_min` | what it leaves of the host's freerun is a ceiling, shared by those who are to leave room |
//! | `memory.dirty_bandwidth` | `io.max`, and a ceiling of what is written in a second |
//! | `memory.dirty_weight` | `io.weight`, which needs iocost |
//! | an objective's `fsync_p99`, `read_p99` | `queue/nr_requests` and `queue/max_sectors_kb` of the disk, then ceilings |
//!
//! The kernel limits a cgroup's dirty pages to the same share of its memory that the host's limit is
//! of the host's: of its page cache and of what it may still grow by. So a cgroup that may have
//! `limit / share` of page cache has that limit: three quarters of a ceiling, as in the module, since
//! writers pass a limit until they are looked at next. Its other memory comes on top, and so do pages
//! of files that it has used more than once, where these are more: its own programs are among them.
//! Then `memory.high` bounds dirty pages by itself, for it leaves only the limit's worth beside.
//!
//! Example. A host with a limit of 32 MiB of 1,800 MiB and a cgroup with a ceiling of 8 MiB and 40
//! MiB of its own: 40 + 6 / (32 / 1800) = 377 MiB. With 600 MiB of page cache in use and clean: 646.

use knobs::PAGE;

/// Pages that a bandwidth may have dirty at least: less keeps no disk busy.
const BANDWIDTH_PAGES: u64 = 256;

/// The host, in pages of 4 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostLimits {
    /// Pages that may be dirty.
    pub limit: u64,
    /// Dirty pages from which on flushers write.
    pub background: u64,
    /// Pages that can be dirtied at all.
    pub dirtyable: u64,
}

/// Memory of a cgroup, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CgroupMemory {
    /// Memory that is charged to it.
    pub usage: u64,
    /// Page cache, all of it.
    pub file: u64,
    /// Page cache on the active list.
    pub active_file: u64,
    /// Page cache that is dirty or in writeback.
    pub held: u64,
}

impl HostLimits {
    /// Dirty pages at which the kernel begins to throttle, which floors are taken from.
    pub fn freerun_pages(&self) -> u64 {
        policy::arith::freerun_level(self.limit, self.background)
    }

    /// Page cache with which the kernel's limit for a cgroup is `limit` pages.
    fn cache_for_limit(&self, limit: u64) -> u64 {
        let pages = u128::from(limit) * u128::from(self.dirtyable);
        u64::try_from(pages / u128::from(self.limit.max(1))).unwrap_or(u64::MAX)
    }

    /// Pages that each of `sharers` may hold beside floors of `floors` pages; a sixteenth of
    /// freerun is always theirs.
    pub fn room_per_sharer(&self, floors: u64, sharers: u64) -> u64 {
        let freerun = self.freerun_pages();
        let room = freerun.saturating_sub(floors).max(freerun / 16);
        (room / sharers.max(1)).max(policy::ceiling::CEILING_MIN)
    }
}

/// `memory.high` of a cgroup that is to have a ceiling; none where the host's limit is no higher.
/// It comes down by a sixteenth of what is in use at a time: the agent, if it writes a lower one, has to
/// reclaim the difference.
pub fn memory_high(host: &HostLimits, memory: &CgroupMemory, ceiling: u64) -> Option<u64> {
    if ceiling >= host.limit {
        return None;
    }
    let own = memory.usage.saturating_sub(memory.file);
    let clean = memory.file.saturating_sub(memory.held);
    let limit = policy::ceiling::writer_limit(ceiling);
    let used = memory.active_file.min(clean) + limit;
    let wanted = own + host.cache_for_limit(limit).max(used);
    Some(wanted.max(memory.usage - memory.usage / 16))
}

/// The ceiling, in pages, that goes with a bandwidth of so many bytes a second.
pub fn ceiling_beside_bandwidth(bytes: u64) -> u64 {
    (bytes / PAGE).max(BANDWIDTH_PAGES)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: HostLimits = HostLimits {
        limit: 32 << 8,
        background: 16 << 8,
        dirtyable: 1800 << 8,
    };

    #[test]
    fn worked_example() {
        let mut memory = CgroupMemory {
            usage: 60 << 8,
            file: 20 << 8,
            active_file: 0,
            held: 0,
        };
        assert_eq!(
            memory_high(&HOST, &memory, 8 << 8),
            Some((40 << 8) + (6 << 8) * 1800 / 32)
        );
        (memory.file, memory.usage) = (600 << 8, 640 << 8);
        memory.active_file = 700 << 8;
        assert_eq!(memory_high(&HOST, &memory, 8 << 8), Some(646 << 8));
        assert_eq!(memory_high(&HOST, &memory, 32 << 8), None, "the host's own");
    }

    #[test]
    fn dirty_pages_do_not_count_as_used() {
        let memory = CgroupMemory {
            usage: 1000 << 8,
            file: 1000 << 8,
            active_file: 1000 << 8,
            held: 990 << 8,
        };
        // 10 clean and 6 of limit are less than what makes the kernel's limit; by steps of 1/16.
        assert_eq!(
            memory_high(&HOST, &memory, 8 << 8),
            Some((1000 << 8) - (1000 << 4))
        );
    }

    #[test]
    fn what_floors_leave_is_shared() {
        assert_eq!(HOST.freerun_pages(), 24 << 8);
        assert_eq!(HOST.room_per_sharer(16 << 8, 1), 8 << 8);
        assert_eq!(HOST.room_per_sharer(16 << 8, 4), 2 << 8);
        assert_eq!(HOST.room_per_sharer(u64::MAX, 1), 384, "never all of it");
        assert_eq!(ceiling_beside_bandwidth(8 << 20), 2048);
        assert_eq!(ceiling_beside_bandwidth(1 << 16), 256);
    }
}
