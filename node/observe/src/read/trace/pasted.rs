// SPDX-License-Identifier: GPL-2.0-only
//! Output of other tools that people paste: folded stacks of offcputime, `ps` with wchan, `strace -T`,
//! iostat. They tell what tasks wait for, or that a disk is busy, but not behind what.

use crate::model::wait;
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

/// `postgres;do_syscall_64;ext4_sync_file;jbd2_log_wait_commit;schedule 8123441`, the innermost last.
fn read_folded_stacks(text: &str) -> Option<String> {
    let mut most: Vec<(u64, String)> = Vec::new();
    for line in text.lines() {
        let Some((stack, count)) = line.trim().rsplit_once(' ') else {
            continue;
        };
        let Ok(count) = count.parse::<u64>() else {
            continue;
        };
        let mut frames: Vec<&str> = stack.split(';').collect();
        if frames.len() < 3 {
            continue;
        }
        let name = frames.remove(0);
        frames.reverse();
        if let (wait, Some(function)) = wait::wait_of_stack(&frames) {
            most.push((
                count,
                format!("{name} waits for {}, in {function}()", wait.in_words()),
            ));
        }
    }
    most.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    join_waits(
        "folded stacks",
        most.into_iter().map(|(_, said)| said).collect(),
    )
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
            "open(\"f\") = 3 <0.1>\n",
            "PID COMMAND\n1 init\n",
        ] {
            assert_eq!(describe_waits(other), None, "{other}");
        }
    }
}
