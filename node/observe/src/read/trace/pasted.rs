// SPDX-License-Identifier: GPL-2.0-only
//! Output of other tools that people paste: stacks of offcputime and bpftrace, `ps` with wchan,
//! `strace -T`, iostat. They tell what tasks wait for, or that a disk is busy, but not behind what.

use crate::model::wait::{self, Wait};
use std::collections::BTreeMap;

/// Tasks and calls that are told.
const MOST: usize = 3;
/// Calls that wait for writeback, or in the throttle, as strace names them.
const CALLS: [&str; 14] = [
    "fsync",
    "fdatasync",
    "syncfs",
    "sync",
    "sync_file_range",
    "msync",
    "umount2",
    "write",
    "pwrite64",
    "writev",
    "pwritev2",
    "close",
    "rename",
    "io_uring_enter",
];

/// Describes in words which waits such a text shows.
pub fn describe_waits(text: &str) -> Option<String> {
    read_folded_stacks(text)
        .or_else(|| read_listed_stacks(text))
        .or_else(|| read_strace_times(text))
        .or_else(|| describe_process_waits(text))
        .or_else(|| {
            text.contains("%util").then(|| {
                "it is iostat's, which shows how busy disks are, not which task waits behind what".into()
            })
        })
}

fn join_waits(what: &str, waits: Vec<String>) -> Option<String> {
    let waits: Vec<String> = waits.into_iter().take(MOST).collect();
    let all = waits.join("; ");
    (!waits.is_empty())
        .then(|| format!("it has {what}, in which {all}; they do not show behind what"))
}

/// A stack in which a task slept, the innermost function first.
struct SleptStack<'a> {
    name: &'a str,
    frames: Vec<&'a str>,
    /// Time, or times, in the unit of the tool that wrote it.
    count: u64,
}

/// `postgres;do_syscall_64;ext4_sync_file;jbd2_log_wait_commit;schedule 8123441`, the innermost last.
fn read_folded_stacks(text: &str) -> Option<String> {
    let stacks = text.lines().filter_map(|line| {
        let (stack, count) = line.trim().rsplit_once(' ')?;
        let (name, frames) = stack.split_once(';')?;
        Some(SleptStack {
            name,
            frames: frames.rsplit(';').map(bare_function).collect(),
            count: count.parse().ok()?,
        })
    });
    describe_slept("folded stacks", stacks.collect())
}

/// Stacks as offcputime and bpftrace list them, a function a line, the innermost first; then
/// `-  postgres (1842)` and a line with the time, or `, postgres]: 8123441`.
fn read_listed_stacks(text: &str) -> Option<String> {
    let mut stacks: Vec<SleptStack> = Vec::new();
    let mut frames = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        let ended = match line.strip_prefix("- ") {
            Some(name) => Some((name.trim(), 0)),
            None => line.rsplit_once("]: ").and_then(|(name, count)| {
                Some((name.trim_start_matches([',', ' ']), count.parse().ok()?))
            }),
        };
        if let Some((name, count)) = ended {
            stacks.push(SleptStack {
                name: if name.is_empty() { "a task" } else { name },
                frames: std::mem::take(&mut frames),
                count,
            });
        } else if let (Ok(count), Some(last)) = (line.parse(), stacks.last_mut()) {
            last.count = count;
        } else if line.is_empty() || line.ends_with(['[', '.']) {
            // The tools' own words end with a dot; names of C++ have spaces, too.
            frames.clear();
        } else {
            frames.push(bare_function(line));
        }
    }
    describe_slept("stacks of tasks", stacks)
}

/// A function without its offset, and without the suffix of a compiler.
fn bare_function(frame: &str) -> &str {
    frame.split(['.', '+']).next().unwrap_or(frame)
}

/// The longest waits of stacks that end in the scheduler; waits that are not known only where no
/// other is.
fn describe_slept(what: &str, stacks: Vec<SleptStack>) -> Option<String> {
    let mut most: BTreeMap<(bool, String), u64> = BTreeMap::new();
    for stack in stacks.iter().filter(|stack| wait::is_asleep(&stack.frames)) {
        let (wait, function) = wait::wait_of_stack(&stack.frames);
        let (name, function) = (stack.name, function.unwrap_or_default());
        let is_known = wait != Wait::Other;
        let said = match is_known {
            true => format!("{name} waits for {}, in {function}()", wait.in_words()),
            false => {
                format!("{name} sleeps in {function}(), which is not known to be writeback")
            }
        };
        let sum = most.entry((is_known, said)).or_default();
        *sum = sum.saturating_add(stack.count);
    }
    let has_known = most.keys().any(|(is_known, _)| *is_known);
    most.retain(|(is_known, _), _| *is_known == has_known);
    let mut most: Vec<_> = most.into_iter().collect();
    most.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let said = most.into_iter().map(|((_, said), _)| said);
    join_waits(what, said.collect())
}

/// `1842 03:12:44.1 fdatasync(5) = 0 <1.284330>`.
fn read_strace_times(text: &str) -> Option<String> {
    let mut calls: BTreeMap<&str, (f64, f64, u32)> = BTreeMap::new();
    for line in text.lines() {
        let Some((line, seconds)) = line.trim_end().rsplit_once(" <") else {
            continue;
        };
        let seconds = seconds
            .strip_suffix('>')
            .and_then(|text| text.parse::<f64>().ok());
        let Some(seconds) = seconds.filter(|seconds| (0.0..1e6).contains(seconds)) else {
            continue;
        };
        let Some((before, _)) = line.split_once('(') else {
            continue;
        };
        let name = before.rsplit(' ').next().unwrap_or(before);
        let Some(name) = CALLS.iter().find(|call| **call == name) else {
            continue;
        };
        let (sum, longest, count) = calls.entry(name).or_default();
        (*sum, *longest, *count) = (*sum + seconds, longest.max(seconds), *count + 1);
    }
    let mut calls: Vec<_> = calls.into_iter().collect();
    calls.sort_by(|a, b| b.1.0.total_cmp(&a.1.0));
    let said = calls.into_iter().map(|(name, (sum, longest, count))| {
        format!("{name}() took {sum:.2} s in {count} calls, the longest {longest:.2} s")
    });
    join_waits("times of strace", said.collect())
}

/// Lines of `ps -eo pid,stat,wchan:30,comm`, in any order of columns.
fn describe_process_waits(text: &str) -> Option<String> {
    let header = text.lines().next()?;
    if !header.split_whitespace().any(|word| word == "WCHAN") {
        return None;
    }
    let said = text.lines().skip(1).filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let known = words
            .iter()
            .find_map(|word| Some((wait::wait_of_function(word)?, *word)));
        let is_page = |word: &&&str| word.starts_with("folio_wait");
        let page = words.iter().find(is_page);
        let id = words.iter().find(|word| word.parse::<u32>().is_ok())?;
        match (known, page) {
            (Some((wait, function)), _) => Some(format!(
                "{id} waits for {}, in {function}()",
                wait.in_words()
            )),
            (None, Some(function)) => Some(format!(
                "{id} waits for a page to be read or written, in {function}()"
            )),
            (None, None) => None,
        }
    });
    join_waits("a list of tasks", said.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_other_tools_tells_what_is_waited_for() {
        for (text, wanted) in [
            (
                "dd;ksys_write;balance_dirty_pages;io_schedule_timeout;schedule 900\n\
                 postgres;do_syscall_64;ext4_sync_file;jbd2_log_wait_commit;schedule 8123441\n",
                "postgres waits for the journal, in jbd2_log_wait_commit(); dd waits for the throttle",
            ),
            (
                // One that sleeps longest waits for no disk; the others, as bcc writes them.
                "sshd;[Missed User Stack];do_sys_poll;schedule_hrtimeout_range;schedule;__schedule;\
                 finish_task_switch.isra.0 29000000\n\
                 db;fdatasync;-;do_fsync;ext4_sync_file;jbd2_log_wait_commit;schedule;__schedule;\
                 finish_task_switch.isra.0 5000\n\
                 db;fsync;-;do_fsync;ext4_sync_file;jbd2_log_wait_commit;schedule;__schedule;\
                 finish_task_switch.isra.0 5000\n\
                 cp;[unknown];vfs_write;fuse_perform_write;request_wait_answer;schedule;__schedule;\
                 finish_task_switch.isra.0 9000\n",
                "it has folded stacks, in which db waits for the journal, in jbd2_log_wait_commit(); cp \
                 waits for the daemon of a FUSE filesystem, in request_wait_answer(); they",
            ),
            (
                "Tracing off-CPU time (us) of all threads by user + kernel stack for 10 secs.\n\n    \
                 finish_task_switch.isra.0\n    __schedule\n    schedule\n    jbd2_log_wait_commit\n    \
                 ext4_sync_file\n    --\n    fdatasync\n    -                postgres (1842)\n        \
                 8123441\n\n    finish_task_switch.isra.0\n    schedule\n    do_nanosleep\n    \
                 -                sleep (99)\n        9000000\n",
                "stacks of tasks, in which postgres (1842) waits for the journal, in jbd2_log_wait_commit(); they",
            ),
            (
                "Attaching 2 probes...\n\n@us[\n    finish_task_switch.isra.0+144\n    __schedule+876\n    \
                 schedule+39\n    io_schedule_timeout+70\n    balance_dirty_pages+2041\n, dd]: 81234\n",
                "stacks of tasks, in which dd waits for the throttle, in balance_dirty_pages(); they",
            ),
            (
                "    finish_task_switch.isra.0\n    schedule\n    jbd2_log_wait_commit\n    ext4_sync_file\n    --\n    \
                 fdatasync\n    log_write_up_to(unsigned long, bool)\n    -                mysqld (1842)\n        812\n",
                "stacks of tasks, in which mysqld (1842) waits for the journal, in jbd2_log_wait_commit(); they",
            ),
            (
                "sshd;do_sys_poll;schedule_hrtimeout_range;schedule;finish_task_switch 29000000\n",
                "sshd sleeps in do_sys_poll(), which is not known to be writeback",
            ),
            (
                "1842  03:12:44.1 fdatasync(5)      = 0 <1.284330>\n\
                 1842  03:12:45.4 pwrite64(5, \"(\"..., 8192, 40960) = 8192 <0.000031>\n\
                 1842  03:12:45.5 fdatasync(5)      = 0 <2.101200>\n",
                "fdatasync() took 3.39 s in 2 calls, the longest 2.10 s",
            ),
            (
                "    PID STAT WCHAN                  COMMAND\n   1842 D    jbd2_log_wait_commit   postgres\n   \
                 2202 D    folio_wait_bit_common  rsync\n      1 S    ep_poll    init\n",
                "1842 waits for the journal, in jbd2_log_wait_commit(); 2202 waits for a page",
            ),
            ("Device r/s w/s %util\nsda 0 142 100\n", "iostat's"),
        ] {
            let said = describe_waits(text).unwrap_or_default();
            assert!(said.contains(wanted), "{said}");
        }
        for other in [
            "hello\n",
            "a;b 1\n",
            "cc1;do_fsync;ext4_sync_file;memcpy 97\n", // it runs
            "db;jbd2_log_wait_commit;schedule;__schedule;pick_next_task_fair 97\n",
            "open(\"f\") = 3 <0.1>\n",
            "PID COMMAND\n1 init\n",
        ] {
            assert_eq!(describe_waits(other), None, "{other}");
        }
    }
}
