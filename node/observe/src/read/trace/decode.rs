// SPDX-License-Identifier: GPL-2.0-only
//! From named fields to events.
//!
//! A ring buffer's record and a line of text both come as named fields ([`Fields`]);
//! [`decode_event`] is the one place that knows what they are called. Text prints some fields under
//! other names than the record has; both are looked for.

use crate::model::event::{
    Event, JOURNAL_BEGAN, JOURNAL_ENDED, Limits, Pause, Rate, SYNC_BEGAN, SYNC_ENDED, WOKE, What,
};
use crate::model::reclaim::{Reason, Slept};
use knobs::PageSize;
use policy::pause::Decider;

/// Named fields of one record.
pub trait Fields {
    /// The field `name` as a number.
    fn number_of(&self, name: &str) -> Option<i64>;
    /// The field `name` as text.
    fn text_of(&self, name: &str) -> Option<String>;
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
    "sched/sched_process_fork",
    "cgroup/cgroup_attach_task",
    "weir/dirty_pause",
];

/// Events that tell how long reads take: asked for only of the running kernel.
pub const READS: [&str; 2] = ["block/block_bio_queue", "block/block_rq_complete"];

/// A field that a record of an event must have, and has not.
#[derive(Debug, PartialEq, Eq)]
pub struct Lacks(pub &'static str);

/// Returns whether an event of this name is understood.
pub fn is_known(name: &str) -> bool {
    [WOKE, SYNC_BEGAN, SYNC_ENDED, JOURNAL_BEGAN, JOURNAL_ENDED].contains(&name)
        || KNOWN
            .iter()
            .any(|known| known.rsplit('/').next() == Some(name))
}

/// Adds what a record of a kernel with these pages says to `out`; nothing for an event that is not
/// understood.
///
/// # Errors
/// The record lacks a field.
pub fn decode_event(
    name: &str,
    ns: u64,
    task: u32,
    fields: &dyn Fields,
    pages: PageSize,
    out: &mut Vec<Event>,
) -> Result<(), Lacks> {
    let held = |names: &[&'static str]| Ok(pages.units_of_pages(first_count(fields, names)?));
    let what = match name {
        "balance_dirty_pages" => What::Pause(decode_pause(fields, pages)?),
        "dirty_pause" => What::DecidedBy(decider_name(fields)?),
        "global_dirty_state" => What::Limits(Limits {
            dirty: held(&["nr_dirty", "dirty"])?,
            writeback: held(&["nr_writeback", "writeback"])?,
            background: held(&["background_thresh", "bg_thresh"])?,
            thresh: held(&["dirty_thresh", "thresh"])?,
        }),
        "bdi_dirty_ratelimit" => What::Rate(Rate {
            bdi: fields.text_of("bdi").ok_or(Lacks("bdi"))?,
            cgroup: first_count(fields, &["cgroup_ino"])?,
            written: first_count(fields, &["avg_write_bw", "awrite_bw"])?,
            dirtied: first_count(fields, &["dirty_rate"])?,
        }),
        "mm_vmscan_throttled" => What::ReclaimSlept(decode_slept(fields)?),
        "mm_vmscan_direct_reclaim_begin" => What::ReclaimBegan,
        "mm_vmscan_memcg_reclaim_begin" => What::LimitReclaimBegan,
        "mm_vmscan_direct_reclaim_end" | "mm_vmscan_memcg_reclaim_end" => What::ReclaimEnded,
        "ext4_sync_file_enter" | SYNC_BEGAN => What::SyncBegan,
        "ext4_sync_file_exit" | SYNC_ENDED => What::SyncEnded,
        JOURNAL_BEGAN => What::JournalBegan,
        JOURNAL_ENDED => What::JournalEnded,
        WOKE => What::Woke,
        "sched_process_fork" => match u32::try_from(first_count(fields, &["child_pid"])?) {
            Ok(child) => What::Forked(child),
            Err(_) => return Ok(()),
        },
        // Of cgroup v1's hierarchies as well, which have other numbers.
        "cgroup_attach_task" => {
            let moved = u32::try_from(first_count(fields, &["pid"])?);
            match (moved, first_count(fields, &["dst_root"])?) {
                (Ok(task), 0) => What::Moved(task, first_count(fields, &["dst_id"])?),
                _ => return Ok(()),
            }
        }
        "block_bio_queue" => {
            What::ReadQueued(device_number(fields)?, first_count(fields, &["sector"])?)
        }
        "block_rq_complete" => What::ReadCompleted(
            device_number(fields)?,
            first_count(fields, &["sector"])?,
            first_count(fields, &["nr_sector"])?,
        ),
        "sched_switch" => {
            let id = |name| Ok(u32::try_from(first_count(fields, &[name])?).unwrap_or(0));
            // A record has the state as bits, 0 for running; text as a letter, R for running.
            let runs = fields.text_of("prev_state").map_or_else(
                || fields.number_of("prev_state") == Some(0),
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

/// A device as the kernel has it: 12 bits of major number, 20 of minor.
fn device_number(fields: &dyn Fields) -> Result<u32, Lacks> {
    Ok(u32::try_from(first_count(fields, &["dev"])?).unwrap_or(0))
}

fn decode_slept(fields: &dyn Fields) -> Result<Slept, Lacks> {
    // A record has the reason as a bit, text as a name.
    let reason = match fields.number_of("reason") {
        Some(bits) => Reason::from_bits(bits),
        None => Reason::from_text(&fields.text_of("reason").unwrap_or_default()),
    };
    Ok(Slept {
        // The kernel's text spells the field otherwise than its format does.
        us: first_count(fields, &["usec_delayed", "usect_delayed"])?,
        timeout_us: first_count(fields, &["usec_timeout"])?,
        reason,
    })
}

fn decode_pause(fields: &dyn Fields, pages: PageSize) -> Result<Pause, Lacks> {
    let held = |names: &[&'static str]| Ok(pages.units_of_pages(first_count(fields, names)?));
    Ok(Pause {
        bdi: fields.text_of("bdi").ok_or(Lacks("bdi"))?,
        // Without cgroup writeback in the kernel there is no such field, and one domain.
        cgroup: first_count(fields, &["cgroup_ino"]).unwrap_or(1),
        limit: held(&["limit"])?,
        setpoint: held(&["setpoint"])?,
        dirty: held(&["dirty"])?,
        // renamed in 6.16
        bdi_setpoint: held(&["bdi_setpoint", "wb_setpoint"])?,
        bdi_dirty: held(&["bdi_dirty", "wb_dirty"])?,
        dirty_ratelimit: first_count(fields, &["dirty_ratelimit"])?,
        task_ratelimit: first_count(fields, &["task_ratelimit"])?,
        dirtied: held(&["dirtied"])?,
        pause_ms: fields.number_of("pause").ok_or(Lacks("pause"))?,
        period_ms: first_count(fields, &["period"])?,
    })
}

/// The domain's name: text in a line of text, the module's number for it in a record.
fn decider_name(fields: &dyn Fields) -> Result<String, Lacks> {
    match fields.number_of("by").and_then(|n| u32::try_from(n).ok()) {
        Some(number) => {
            let decider = Decider::ALL.get(number as usize).copied();
            Ok(decider.unwrap_or_default().name().into())
        }
        None => fields.text_of("by").ok_or(Lacks("by")),
    }
}

/// The first of these fields that is there; what is negative counts as nothing.
fn first_count(fields: &dyn Fields, names: &[&'static str]) -> Result<u64, Lacks> {
    names
        .iter()
        .find_map(|name| fields.number_of(name))
        .map(|n| u64::try_from(n).unwrap_or(0))
        .ok_or(Lacks(names[0]))
}
