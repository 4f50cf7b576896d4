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
        format!("no event in it: it has stacks of tasks, in which {stacks}")
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

/// A task of a log, by its heading and its stack.
#[derive(Default)]
struct StackedTask<'a> {
    /// As `fio (412)`.
    name: Option<String>,
    /// As `for more than 120 seconds`.
    since: Option<&'a str>,
    /// Functions, the innermost first.
    frames: Vec<&'a str>,
    /// The task that holds the lock it waits for, which kernels name from 6.16 on.
    held_by: Option<String>,
}

/// The waits of the tasks of a log, by their stacks, and what these do not show.
fn describe_stacks(text: &str) -> Option<String> {
    let mut tasks: Vec<StackedTask> = Vec::new();
    for line in text.lines() {
        if let Some((_, holder)) = line.split_once(" is blocked on a") {
            let holder = holder.split_once(" by task ").map(|(_, task)| task);
            if let (Some(task), Some(holder)) = (tasks.last_mut(), holder.and_then(name_and_id)) {
                task.held_by = Some(holder);
            }
        } else if let Some((name, since)) = task_in_heading(line) {
            // The kernel names a hung task twice before its stack.
            if tasks.last().is_none_or(|task| !task.frames.is_empty()) {
                tasks.push(StackedTask::default());
            }
            let task = tasks.last_mut()?;
            task.name = Some(name);
            task.since = since.or(task.since);
        } else if let Some(frame) = frame_function(line) {
            if tasks.is_empty() {
                tasks.push(StackedTask::default());
            }
            tasks.last_mut()?.frames.push(frame);
        }
    }
    tasks.retain(|task| !task.frames.is_empty());
    let mut told: Vec<String> = tasks.iter().take(MOST_TASKS).map(describe_task).collect();
    if tasks.len() > MOST_TASKS {
        told.push(format!("{} more", tasks.len() - MOST_TASKS));
    }
    let missing = match tasks.iter().all(|task| task.since.is_some()) {
        true => "they do not show behind what",
        false => "they show neither how long nor behind what",
    };
    (!told.is_empty()).then(|| format!("{}; {missing}", told.join("; ")))
}

/// The wait of one task in words.
fn describe_task(task: &StackedTask) -> String {
    let name = task.name.as_deref().unwrap_or("a task");
    let since = task
        .since
        .map_or(String::new(), |since| format!(" {since}"));
    let (wait, function) = wait::wait_of_stack(&task.frames);
    let function = function.unwrap_or_default();
    let is_flusher = task
        .frames
        .iter()
        .any(|frame| frame.starts_with("wb_workfn"));
    match wait {
        _ if is_flusher => {
            format!("{name}, a flusher, waits{since} for its disk or filesystem, in {function}()")
        }
        Wait::Other => {
            format!("{name} sleeps{since} in {function}(), which is not known to be writeback")
        }
        wait => {
            let holder = task.held_by.as_ref();
            let holder = holder.map_or(String::new(), |holder| format!(" that {holder} holds"));
            format!(
                "{name} waits{since} for {}{holder}, in {function}()",
                wait.in_words()
            )
        }
    }
}

/// The task of `INFO: task fio:412 blocked for more than 120 seconds.`, with how long it has waited,
/// or of `task:fio             state:D stack:0     pid:412`.
fn task_in_heading(line: &str) -> Option<(String, Option<&str>)> {
    if let Some((_, rest)) = line.split_once("INFO: task ") {
        let (task, since) = rest.split_once(" blocked ")?;
        let since = since.trim_end().trim_end_matches('.');
        return Some((
            name_and_id(task)?,
            since.starts_with("for ").then_some(since),
        ));
    }
    let (_, rest) = line.split_once("task:")?;
    let (name, rest) = rest.split_once(" state:")?;
    let id = rest.split_once("pid:")?.1.split_whitespace().next()?;
    Some((name_and_id(&format!("{}:{id}", name.trim()))?, None))
}

/// `kworker/0:1 (12)` of `kworker/0:1:12`, whatever follows the number.
fn name_and_id(task: &str) -> Option<String> {
    let task = task.split(" <").next()?;
    let (name, id) = task.rsplit_once(':')?;
    let id = id.split(|c: char| !c.is_ascii_digit()).next()?;
    (!id.is_empty()).then(|| format!("{name} ({id})"))
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
            said.contains(
                "postgres (412) waits for more than 120 seconds for the journal, in \
                 jbd2_log_wait_commit(); they do not show behind what"
            ),
            "{said}"
        );
        assert!(
            said.contains("trace-cmd record -e balance_dirty_pages"),
            "{said}"
        );
    }

    #[test]
    fn tasks_behind_a_hung_one_are_told_by_their_lock() {
        let task = |name: &str, id: u32, frames: &[&str]| {
            let frames = frames
                .iter()
                .map(|name| format!("[ 9.1]  {name}+0x1/0x2\n"));
            format!(
                "[ 9.1] INFO: task {name}:{id} blocked for more than 241 seconds.\n\
                 [ 9.1] task:{name} state:D stack:0 pid:{id} tgid:{id} ppid:1\n{}",
                frames.collect::<String>()
            )
        };
        let log = [
            task("umount", 412, &["schedule", "wb_wait_for_completion", "sync_inodes_sb"]),
            task("runc", 99, &["__schedule", "schedule", "rwsem_down_write_slowpath", "path_umount"]),
            "[ 9.1] INFO: task runc:99 <writer> is blocked on an rw-semaphore likely owned by task \
             umount:412 <writer>\n"
                .into(),
            task("kworker/u8:1", 7, &["io_schedule", "blk_mq_get_tag", "ext4_writepages", "wb_workfn"]),
            task("a", 1, &["msleep"]),
        ];
        let said = explain_refusal(&log.concat(), &[]);
        let wanted = "umount (412) waits for more than 241 seconds for the writeback of a filesystem, in \
            wb_wait_for_completion(); runc (99) waits for more than 241 seconds for a lock that umount (412) \
            holds, in rwsem_down_write_slowpath(); kworker/u8:1 (7), a flusher, waits for more than 241 \
            seconds for its disk or filesystem, in blk_mq_get_tag(); 1 more;";
        assert!(said.contains(wanted), "{said}");
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
                "[<0>] schedule_timeout+0x1/0x2\n[<0>] io_schedule_timeout+0x1/0x2\n[<0>] wait_for_completion_io+0x1/0x2\n\
                 [<0>] blkdev_issue_flush+0x1/0x2\n[<0>] ext4_sync_file+0x1/0x2\n",
                "a task waits for fsync, in ext4_sync_file()",
            ),
            (
                "[<0>] io_schedule_timeout+0x4c/0x80\n[<0>] balance_dirty_pages+0x2e9/0xd50\n",
                "a task waits for the throttle, in balance_dirty_pages()",
            ),
            (
                "[<0>] mutex_lock_io+0x1/0x2\n[<0>] __jbd2_log_wait_for_space+0x1/0x2\n",
                "a task waits for the journal, in __jbd2_log_wait_for_space()",
            ),
            (
                "[<0>] schedule+0x1/0x2\n[<0>] futex_wait_queue+0x63/0x90\n",
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
