// SPDX-License-Identifier: GPL-2.0-only
//! A text without events that are understood: what it is, what it shows all the same, and what to
//! record.
//!
//! A log of hung tasks, `/proc/PID/stack` and SysRq-w show in which functions tasks sleep, which
//! tells what they wait for but neither how long nor behind what.

use super::pasted;
use crate::model::wait::{self, Wait};

/// The command that records the throttle, reclaim and fsync, for any kernel.
pub const RECORD: &str = "trace-cmd record -e balance_dirty_pages -e global_dirty_state -e vmscan -e ext4_sync_file_enter \
    -e ext4_sync_file_exit -e sched_switch sleep 30";
/// Tasks that are told.
const MOST_TASKS: usize = 3;

/// Why `text` is refused, with the command that records what is missing; `events` are the names of
/// those that are not understood.
pub fn explain_refusal(text: &str, events: &[String]) -> String {
    let what = if !events.is_empty() {
        format!(
            "no event in it shows a wait: its events are {}{}",
            events.join(", "),
            graph_hint(text)
        )
    } else if let Some(stacks) = describe_stacks(text) {
        format!(
            "no event in it: it has stacks of tasks, in which {stacks}; they show neither how long nor behind what"
        )
    } else if let Some(what) = pasted::describe_waits(text).or_else(|| counter_hint(text)) {
        format!("no event in it: {what}")
    } else if text.contains(" us |") {
        format!("no event in it that is understood{}", graph_hint(text))
    } else {
        "no event in it: wanted is text as `cat trace`, `trace-cmd report`, `perf script` or `perf trace` print it".into()
    };
    format!(
        "{what}. On the host that stalls run `weir explain`, or `weir record FILE`; without weir \
         `{RECORD}`, then `weir explain --from trace.dat`"
    )
}

/// The function_graph tracer's.
fn graph_hint(text: &str) -> String {
    if !text.contains(" us |") && !text.contains("funcgraph_") {
        return String::new();
    }
    let functions = text
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .find(|word| wait::wait_of_function(word).is_some());
    match functions {
        Some(function) => format!(
            "; function_graph shows that tasks were in {function}() and how long, not which limit held them"
        ),
        None => {
            "; function_graph shows how long functions take, not which limit holds tasks".into()
        }
    }
}

/// The waits of the tasks of a log, by their stacks.
fn describe_stacks(text: &str) -> Option<String> {
    let mut tasks: Vec<(Option<String>, Vec<&str>)> = Vec::new();
    for line in text.lines() {
        if let Some(name) = task_in_heading(line) {
            // The kernel names a hung task twice before its stack.
            match tasks.last_mut() {
                Some((before, frames)) if frames.is_empty() => *before = Some(name),
                _ => tasks.push((Some(name), Vec::new())),
            }
        } else if let Some(frame) = frame_function(line) {
            if tasks.is_empty() {
                tasks.push((None, Vec::new()));
            }
            tasks.last_mut()?.1.push(frame);
        }
    }
    let found = tasks.into_iter().filter(|(_, frames)| !frames.is_empty());
    let told = found.map(|(name, frames)| {
        let name = name.unwrap_or_else(|| "a task".into());
        let (wait, function) = wait::wait_of_stack(&frames);
        match (wait, function) {
            (Wait::Other, _) | (_, None) => {
                format!(
                    "{name} sleeps in {}(), which is not known to be writeback",
                    frames[0]
                )
            }
            (wait, Some(function)) => {
                format!("{name} waits for {}, in {function}()", wait.in_words())
            }
        }
    });
    let told: Vec<String> = told.take(MOST_TASKS).collect();
    (!told.is_empty()).then(|| told.join("; "))
}

/// The task of `INFO: task fio:412 blocked for more than 120 seconds.`, or of
/// `task:fio             state:D stack:0     pid:412`.
fn task_in_heading(line: &str) -> Option<String> {
    if let Some((_, rest)) = line.split_once("INFO: task ") {
        let (task, _) = rest.split_once(" blocked ")?;
        let (name, id) = task.rsplit_once(':')?;
        return Some(format!("{name} ({id})"));
    }
    let (_, rest) = line.split_once("task:")?;
    let (name, rest) = rest.split_once(" state:")?;
    let id = rest.split_once("pid:")?.1;
    let id = id
        .trim_start()
        .split(|c: char| !c.is_ascii_digit())
        .next()?;
    Some(format!("{} ({id})", name.trim()))
}

/// The function of ` jbd2_log_wait_commit+0xd3/0x140`, whatever is before it; none of a line with a
/// question mark, which is no part of the stack.
fn frame_function(line: &str) -> Option<&str> {
    let (before, rest) = line.split_once("+0x")?;
    let is_offset = rest.split([' ', '\t', ']', '[']).next()?.contains("/0x");
    let (before, name) = before.rsplit_once([' ', ']', '\t']).unwrap_or(("", before));
    let is_sure = !before.trim_end().ends_with('?') && !before.contains("RIP:");
    // Compilers add suffixes, as in `balance_dirty_pages.isra.0`.
    let name = name.split('.').next()?;
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (is_offset && is_sure && !name.is_empty() && name.chars().all(is_part)).then_some(name)
}

/// Files of counters.
fn counter_hint(text: &str) -> Option<String> {
    let number = |key: &str| {
        let lines = text
            .lines()
            .filter_map(|line| line.split_once([' ', ':', '\t']));
        let mut found = lines.filter(|(name, _)| name.trim() == key);
        found
            .next()?
            .1
            .split_whitespace()
            .next()?
            .parse::<u64>()
            .ok()
    };
    let size = crate::model::text::format_size;
    if text.contains("some avg10=") {
        return Some("it is a pressure file, which shows that tasks waited, not for what".into());
    }
    if let (Some(dirty), Some(writeback)) = (number("file_dirty"), number("file_writeback")) {
        return Some(format!(
            "it is a cgroup's memory.stat, which has {} dirty and {} in writeback at one moment, and no wait",
            size(dirty),
            size(writeback)
        ));
    }
    if let (Some(dirty), Some(limit)) = (number("nr_dirty"), number("nr_dirty_threshold")) {
        return Some(format!(
            "it is /proc/vmstat, which has {dirty} dirty pages below a limit of {limit} at one moment, and no wait"
        ));
    }
    number("MemTotal")
        .map(|_| "it is /proc/meminfo, which has the dirty pages of one moment, and no wait".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hung_task_is_told_by_its_stack() {
        let log = "[ 1208.1] INFO: task postgres:412 blocked for more than 120 seconds.\n\
            [ 1208.1]       Not tainted 6.12.117-amd64\n\
            [ 1208.1] task:postgres        state:D stack:0     pid:412   tgid:412   ppid:1\n\
            [ 1208.1] Call Trace:\n[ 1208.1]  <TASK>\n[ 1208.1]  __schedule+0x3ff/0xb30\n\
            [ 1208.1]  schedule+0x27/0xf0\n[ 1208.1]  ? foo+0x1/0x2\n\
            [ 1208.1]  jbd2_log_wait_commit+0xd3/0x140 [jbd2]\n[ 1208.1]  ext4_sync_file+0x1b/0x30 [ext4]\n\
            [ 1208.1]  __x64_sys_fsync+0x3b/0x70\n";
        let said = explain_refusal(log, &[]);
        assert!(
            said.contains("postgres (412) waits for the journal, in jbd2_log_wait_commit()"),
            "{said}"
        );
        assert!(
            said.contains("trace-cmd record -e balance_dirty_pages"),
            "{said}"
        );
    }

    #[test]
    fn a_stack_file_is_told_by_what_called() {
        for (stack, wanted) in [
            (
                "[<0>] balance_dirty_pages+0x3f1/0xa00\n[<0>] ext4_buffered_write_iter+0x1/0x2\n",
                "a task waits for the throttle, in balance_dirty_pages()",
            ),
            (
                "[<0>] wb_wait_for_completion+0x5b/0x90\n[<0>] sync_inodes_sb+0xd6/0x2c0\n[<0>] sync_filesystem+0x84/0xa0\n",
                "a task waits for the writeback of a filesystem, in wb_wait_for_completion()",
            ),
            (
                "[<0>] folio_wait_bit_common+0x13d/0x350\n[<0>] __filemap_fdatawait_range+0x81/0xf0\n[<0>] vfs_fsync+0x1/0x2\n",
                "a task waits for fsync, in __filemap_fdatawait_range()",
            ),
            (
                "[<0>] futex_wait_queue+0x63/0x90\n",
                "a task sleeps in futex_wait_queue(), which is not known to be writeback",
            ),
        ] {
            let said = explain_refusal(stack, &[]);
            assert!(said.contains(wanted), "{said}");
        }
    }

    #[test]
    fn counters_and_graphs_are_told_from_other_text() {
        for (text, wanted) in [
            (
                "some avg10=1.00 avg60=0.50 avg300=0.10 total=912000\n",
                "a pressure file",
            ),
            (
                "anon 4096\nfile_dirty 8192\nfile_writeback 0\n",
                "8.0 KiB dirty",
            ),
            (
                "nr_dirty 12\nnr_dirty_threshold 99\n",
                "12 dirty pages below a limit of 99",
            ),
            ("MemTotal:  1000 kB\nDirty: 5 kB\n", "/proc/meminfo"),
            (
                " 0)  # 85000.000 us |  } /* balance_dirty_pages */\n",
                "tasks were in balance_dirty_pages()",
            ),
            ("hello\n", "wanted is text as `cat trace`"),
        ] {
            let said = explain_refusal(text, &[]);
            assert!(said.contains(wanted), "{said}");
        }
    }
}
