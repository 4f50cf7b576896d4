// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's events as this crate uses them, whatever they were read from.

use super::reclaim::Slept;
use policy::arith;
use serde::{Deserialize, Serialize};

/// Name of the return probe that a live look places, without its group.
pub const WOKE: &str = "throttle_woke";

/// Names of the probes on what fsync, syncfs and umount go through, without their group.
pub const SYNC_BEGAN: &str = "sync_began";
/// The return probe's.
pub const SYNC_ENDED: &str = "sync_ended";

/// Names of the probes on waits for ext4's journal outside of fsync, without their group.
pub const JOURNAL_BEGAN: &str = "journal_began";
/// The return probe's.
pub const JOURNAL_ENDED: &str = "journal_ended";

/// An event of one task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// On the trace's clock.
    pub ns: u64,
    /// The task's id (a thread's, not its process').
    pub task: u32,
    /// The event's report.
    pub what: What,
}

/// Report of an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum What {
    /// `writeback:balance_dirty_pages`: the throttle looked at the task; with `pause_ms` > 0 it
    /// announces a pause, which need not be slept.
    Pause(Pause),
    /// `weir:dirty_pause`, by the module: which domain decided the pause announced just before.
    DecidedBy(String),
    /// The throttle's sleep has ended: a return probe of weir's on `io_schedule_timeout()`.
    Woke,
    /// `sched:sched_switch`: the task stopped running; true if to wait, false if to run again
    /// later.
    SwitchedOut(bool),
    /// `sched:sched_switch`: it runs again.
    SwitchedIn,
    /// `writeback:global_dirty_state`: the host's limits, computed in the task's pass.
    Limits(Limits),
    /// `writeback:bdi_dirty_ratelimit`: what a cgroup's flusher writes to a device.
    Rate(Rate),
    /// `vmscan:mm_vmscan_throttled`: reclaim put the task to sleep.
    ReclaimSlept(Slept),
    /// Reclaim begins: direct, for the host; in old recordings any.
    ReclaimBegan,
    /// Reclaim for a memory limit begins.
    LimitReclaimBegan,
    /// Reclaim of either kind ends.
    ReclaimEnded,
    /// `ext4:ext4_sync_file_enter`, or a probe of weir's: fsync begins.
    SyncBegan,
    /// `ext4:ext4_sync_file_exit`, or a probe of weir's: fsync ends.
    SyncEnded,
    /// A probe of weir's: a wait for the journal begins.
    JournalBegan,
    /// A probe of weir's: it ends.
    JournalEnded,
    /// `sched:sched_process_fork`: the task made this one. Never recorded.
    Forked(u32),
    /// `cgroup:cgroup_attach_task`: that task was moved to the cgroup v2 with this inode. Never
    /// recorded.
    Moved(u32, u64),
    /// `block:block_bio_queue`: the task asks this device, which may be a partition, for what begins
    /// at this sector of the whole disk. Never recorded.
    ReadQueued(u32, u64),
    /// `block:block_rq_complete`: the disk has read from this sector on so many. Never recorded.
    ReadCompleted(u32, u64, u64),
}

/// Fields of `writeback:balance_dirty_pages`; pages of 4 KiB, milliseconds, KiB/s.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pause {
    /// `254:0`; the kernel's name of the device.
    pub bdi: String,
    /// Inode of the cgroup directory of the writeback domain, 1 for the root.
    pub cgroup: u64,
    /// The host's smoothed limit, whatever domain decided.
    pub limit: u64,
    /// Half way between `limit` and the freerun level of the domain that decided.
    pub setpoint: u64,
    /// Dirty + writeback of the domain that decided.
    pub dirty: u64,
    /// The device's share of the setpoint.
    pub bdi_setpoint: u64,
    /// The device's dirty + writeback, of the task's cgroup.
    pub bdi_dirty: u64,
    /// The base rate.
    pub dirty_ratelimit: u64,
    /// The rate that the task is held to.
    pub task_ratelimit: u64,
    /// Pages since its last look.
    pub dirtied: u64,
    /// To be slept; negative or zero if not at all.
    pub pause_ms: i64,
    /// Time that dirtying that much is to take at that rate; zero where that is less than a tick.
    #[serde(default)]
    pub period_ms: u64,
}

impl Pause {
    /// The level at which the domain that decided begins to hold writers, (background + limit) / 2.
    /// The event does not name the domain; this number tells it. Example: limit 8192, setpoint
    /// 7168: the domain runs freely up to 2 * 7168 - 8192 = 6144 pages.
    pub fn freerun_pages(&self) -> u64 {
        (2 * self.setpoint).saturating_sub(self.limit)
    }

    /// Pages that `next`, the same task's next look, counts again. After a look the kernel begins
    /// anew to count what the task dirties, but not if its rate was 0 (it looks again after the
    /// pause, before it returns to the task) nor if dirtying takes no time that is worth a pause.
    pub fn counted_again_in(&self, next: &Pause) -> u64 {
        let looks_again = self.pause_ms > 0 && self.task_ratelimit == 0;
        let goes_on = (-1000..=0).contains(&self.pause_ms) && self.period_ms == 0;
        if looks_again && next.dirtied == self.dirtied || goes_on && next.dirtied >= self.dirtied {
            self.dirtied
        } else {
            0
        }
    }
}

/// Fields of `writeback:global_dirty_state`, in pages of 4 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Dirty pages of the host.
    pub dirty: u64,
    /// Pages of the host in writeback.
    pub writeback: u64,
    /// Level at which the flusher starts.
    pub background: u64,
    /// The host's limit.
    pub thresh: u64,
}

impl Limits {
    /// The level at which the host's domain begins to hold writers.
    pub fn freerun_pages(&self) -> u64 {
        arith::freerun_level(self.thresh, self.background)
    }

    /// The level that the throttle aims at in the host's domain.
    pub fn setpoint_pages(&self) -> u64 {
        arith::setpoint_level(self.freerun_pages(), self.thresh)
    }
}

/// Fields of `writeback:bdi_dirty_ratelimit`, in KiB/s.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// Name of the device.
    pub bdi: String,
    /// Inode of the cgroup's directory.
    pub cgroup: u64,
    /// Smoothed rate of what is written back.
    pub written: u64,
    /// Rate of what is dirtied.
    pub dirtied: u64,
}
