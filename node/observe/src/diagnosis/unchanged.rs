// SPDX-License-Identifier: GPL-2.0-only
//! Why no command is given that changes a stall: nothing does, or this source does not show what
//! would. Each with a command that leads further.

use super::command::cgroup_file;
use super::verdict::{Cause, Unchanged, Verdict, Why};
use crate::model::cgroup::{INODE, UNKNOWN};
use crate::model::observation::Observation;
use crate::model::wait::Wait;
use policy::pause::Decider;

/// The command that records all that a file has to have.
const RECORD: &str =
    "trace-cmd record -e balance_dirty_pages -e global_dirty_state -e sched_switch sleep 30";

fn with_reason(why: Why, because: &str, command: impl Into<String>) -> Unchanged {
    Unchanged {
        why,
        because: because.into(),
        command: command.into(),
    }
}

/// Finds the reason for a verdict without remedies.
pub fn why_unchanged(seen: &Observation, verdict: &Verdict) -> Option<Unchanged> {
    let is_left = verdict.remedies.is_empty() && verdict.cause != Cause::Nothing;
    if !is_left {
        return None;
    }
    let path = verdict.cgroup.trim_start_matches('/');
    let is_known = path != UNKNOWN && !path.starts_with(INODE);
    Some(match verdict.cause {
        _ if verdict.is_on_purpose => with_reason(
            Why::NothingHelps,
            "it is held on purpose, and what frees it stalls the others again",
            format!("weir explain {}", verdict.held_for.as_deref().unwrap_or("")).trim_end(),
        ),
        Cause::Throttle(Decider::Unknown) => with_reason(
            Why::NotShown,
            "the events that tell the limit are missing",
            RECORD,
        ),
        Cause::Reclaim if path == UNKNOWN => with_reason(
            Why::NotShown,
            "a file does not have the cgroups of tasks; it is memory.max or memory.high of theirs",
            format!(
                "cat /proc/{}/cgroup && weir explain {0}",
                verdict.tasks.first().map_or(1, |task| task.task)
            ),
        ),
        Cause::FsyncOrJournal if !seen.is_live => with_reason(
            Why::NotShown,
            "a window, memory.writeback_bytes, for the cgroup that writes most to that disk, or the disk's nr_requests; \
             on the host, this names both",
            "weir explain",
        ),
        _ if !seen.is_live => with_reason(
            Why::NotShown,
            "a file has the events only; run this on the host while it stalls",
            match is_known {
                true => format!(
                    "weir explain {}",
                    super::command::shell_quoted(&verdict.cgroup)
                ),
                false => "weir explain".into(),
            },
        ),
        Cause::FsyncOrJournal if verdict.device.is_none() => with_reason(
            Why::NotShown,
            "no disk was busy meanwhile: a network filesystem's server, or a device without statistics",
            "weir top",
        ),
        Cause::FsyncOrJournal => with_reason(
            Why::NothingHelps,
            "nothing else writes to the disk: what is synced takes as long as the disk takes to write it",
            "weir top",
        ),
        Cause::NotWriteback
            if verdict.waits_for == Some(Wait::Read) || verdict.waits_for == Some(Wait::Write) =>
        {
            with_reason(
                Why::NothingHelps,
                "no other cgroup fills the disk: it takes as long as it takes",
                "weir top",
            )
        }
        Cause::NotWriteback => with_reason(
            Why::NotShown,
            "it is no wait for writeback; the stacks of its tasks tell what it is",
            format!(
                "for task in $(cat {}); do cat /proc/$task/comm /proc/$task/stack; done",
                cgroup_file(path, "cgroup.threads")
            ),
        ),
        Cause::Reclaim => with_reason(
            Why::NothingHelps,
            "only more memory or swap, or a smaller working set, changes that",
            "free -m",
        ),
        _ => with_reason(
            Why::NothingHelps,
            "the limit is as far up as it can be",
            "weir top",
        ),
    })
}
