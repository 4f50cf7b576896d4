// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's events as this crate uses them, whatever they were read from.
//!
//! A ring buffer's record and a line of text both come as named fields ([`Fields`]); [`decode`] is
//! the one place that knows what they are called. Text prints some fields under other names than
//! the record has; both are looked for.

use policy::arith;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One thing that happened to one task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// On the trace's clock.
    pub ns: u64,
    /// The task's id (a thread's, not its process').
    pub task: u32,
    /// What the event reports.
    pub what: What,
}

/// What an event reports.
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
    /// `vmscan:mm_vmscan_throttled`: reclaim put the task to sleep, for so many microseconds.
    ReclaimSlept(u64),
    /// Direct or cgroup reclaim begins.
    ReclaimBegan,
    /// Direct or cgroup reclaim ends.
    ReclaimEnded,
    /// `ext4:ext4_sync_file_enter`: fsync begins.
    SyncBegan,
    /// `ext4:ext4_sync_file_exit`: fsync ends.
    SyncEnded,
}

/// Fields of `writeback:balance_dirty_pages`; pages, milliseconds, KiB/s.
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
    /// What the task is held to.
    pub task_ratelimit: u64,
    /// Pages since its last look.
    pub dirtied: u64,
    /// To be slept; negative or zero if not at all.
    pub pause_ms: i64,
    /// How long dirtying that much is to take at that rate; zero where that is less than a tick.
    #[serde(default)]
    pub period_ms: u64,
}

impl Pause {
    /// Where the domain that decided begins to hold writers, (background + limit) / 2. The event
    /// does not name the domain; this number tells it. Example: limit 8192, setpoint 7168: the
    /// domain runs freely up to 2 * 7168 - 8192 = 6144 pages.
    pub fn freerun(&self) -> u64 {
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

/// Fields of `writeback:global_dirty_state`, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Of the host.
    pub dirty: u64,
    /// Of the host.
    pub writeback: u64,
    /// Where the flusher starts.
    pub background: u64,
    /// The host's limit.
    pub thresh: u64,
}

impl Limits {
    /// Where the host's domain begins to hold writers.
    pub fn freerun(&self) -> u64 {
        arith::freerun(self.thresh, self.background)
    }

    /// What the throttle aims at in the host's domain.
    pub fn setpoint(&self) -> u64 {
        arith::setpoint(self.freerun(), self.thresh)
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

/// Named fields of one record.
pub trait Fields {
    /// The field `name` as a number.
    fn number(&self, name: &str) -> Option<i64>;
    /// The field `name` as text.
    fn text(&self, name: &str) -> Option<String>;
}

/// Events this crate understands, as `system/name`. The two of weir's own are left out where there
/// is no such probe or module.
pub const KNOWN: &[&str] = &[
    "writeback/balance_dirty_pages",
    "writeback/global_dirty_state",
    "writeback/bdi_dirty_ratelimit",
    "vmscan/mm_vmscan_throttled",
    "vmscan/mm_vmscan_direct_reclaim_begin",
    "vmscan/mm_vmscan_direct_reclaim_end",
    "vmscan/mm_vmscan_memcg_reclaim_begin",
    "vmscan/mm_vmscan_memcg_reclaim_end",
    "ext4/ext4_sync_file_enter",
    "ext4/ext4_sync_file_exit",
    "sched/sched_switch",
    "weir/dirty_pause",
];

/// Name of the return probe that a live look places, without its group.
pub const WOKE: &str = "throttle_woke";

/// A field that a record of an event must have, and has not.
#[derive(Debug, PartialEq, Eq)]
pub struct Lacks(pub &'static str);

/// Whether an event of this name is understood.
pub fn is_known(name: &str) -> bool {
    name == WOKE
        || KNOWN
            .iter()
            .any(|known| known.rsplit('/').next() == Some(name))
}

/// Adds what a record says to `out`; nothing for an event that is not understood.
///
/// # Errors
/// The record lacks a field.
pub fn decode(
    name: &str,
    ns: u64,
    task: u32,
    fields: &dyn Fields,
    out: &mut Vec<Event>,
) -> Result<(), Lacks> {
    let what = match name {
        "balance_dirty_pages" => What::Pause(pause(fields)?),
        "dirty_pause" => What::DecidedBy(by(fields)?),
        "global_dirty_state" => What::Limits(Limits {
            dirty: count(fields, &["nr_dirty", "dirty"])?,
            writeback: count(fields, &["nr_writeback", "writeback"])?,
            background: count(fields, &["background_thresh", "bg_thresh"])?,
            thresh: count(fields, &["dirty_thresh", "thresh"])?,
        }),
        "bdi_dirty_ratelimit" => What::Rate(Rate {
            bdi: fields.text("bdi").ok_or(Lacks("bdi"))?,
            cgroup: count(fields, &["cgroup_ino"])?,
            written: count(fields, &["avg_write_bw", "awrite_bw"])?,
            dirtied: count(fields, &["dirty_rate"])?,
        }),
        "mm_vmscan_throttled" => What::ReclaimSlept(count(
            fields,
            // The kernel's text spells the field otherwise than its format does.
            &["usec_delayed", "usect_delayed"],
        )?),
        "mm_vmscan_direct_reclaim_begin" | "mm_vmscan_memcg_reclaim_begin" => What::ReclaimBegan,
        "mm_vmscan_direct_reclaim_end" | "mm_vmscan_memcg_reclaim_end" => What::ReclaimEnded,
        "ext4_sync_file_enter" => What::SyncBegan,
        "ext4_sync_file_exit" => What::SyncEnded,
        WOKE => What::Woke,
        "sched_switch" => {
            let id = |name| Ok(u32::try_from(count(fields, &[name])?).unwrap_or(0));
            // A record has the state as bits, 0 for running; text as a letter, R for running.
            let runs = fields.text("prev_state").map_or_else(
                || fields.number("prev_state") == Some(0),
                |letter| letter.starts_with('R'),
            );
            out.push(Event {
                ns,
                task: id("prev_pid")?,
                what: What::SwitchedOut(!runs),
            });
            out.push(Event {
                ns,
                task: id("next_pid")?,
                what: What::SwitchedIn,
            });
            return Ok(());
        }
        _ => return Ok(()),
    };
    out.push(Event { ns, task, what });
    Ok(())
}

fn pause(fields: &dyn Fields) -> Result<Pause, Lacks> {
    Ok(Pause {
        bdi: fields.text("bdi").ok_or(Lacks("bdi"))?,
        // Without cgroup writeback in the kernel there is no such field, and one domain.
        cgroup: count(fields, &["cgroup_ino"]).unwrap_or(1),
        limit: count(fields, &["limit"])?,
        setpoint: count(fields, &["setpoint"])?,
        dirty: count(fields, &["dirty"])?,
        // renamed in 6.16
        bdi_setpoint: count(fields, &["bdi_setpoint", "wb_setpoint"])?,
        bdi_dirty: count(fields, &["bdi_dirty", "wb_dirty"])?,
        dirty_ratelimit: count(fields, &["dirty_ratelimit"])?,
        task_ratelimit: count(fields, &["task_ratelimit"])?,
        dirtied: count(fields, &["dirtied"])?,
        pause_ms: fields.number("pause").ok_or(Lacks("pause"))?,
        period_ms: count(fields, &["period"])?,
    })
}

/// The domain's name: text in a line of text, the module's number for it in a record.
fn by(fields: &dyn Fields) -> Result<String, Lacks> {
    match fields.number("by").and_then(|n| u32::try_from(n).ok()) {
        Some(number) => Ok(policy::names::decider(number).unwrap_or("unknown").into()),
        None => fields.text("by").ok_or(Lacks("by")),
    }
}

/// The first of these fields that is there; what is negative counts as nothing.
fn count(fields: &dyn Fields, names: &[&'static str]) -> Result<u64, Lacks> {
    names
        .iter()
        .find_map(|name| fields.number(name))
        .map(|n| u64::try_from(n).unwrap_or(0))
        .ok_or(Lacks(names[0]))
}

/// Fields as text prints them, `name=value`.
impl Fields for BTreeMap<&str, &str> {
    fn number(&self, name: &str) -> Option<i64> {
        self.get(name)?.parse().ok()
    }

    fn text(&self, name: &str) -> Option<String> {
        self.get(name).map(|text| text.to_string())
    }
}
