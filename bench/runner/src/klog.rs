// SPDX-License-Identifier: GPL-2.0-only
//! Lines of the kernel log that count against a run.
//!
//! A kernel that warned has failed, whatever was measured on it. The ring buffer is read once, at
//! the end: a guest's as a whole (the lab boots with a large one), a host's from the beginning of
//! the run. Lines are matched by the words Linux uses for trouble.
//!
//! KCSAN also reports races of the kernel's own, and a stock kernel has many. Its reports count
//! only if weir's code is involved: see [`find_troubles`].

use scenario::rundir::Event;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;

/// Words that mean trouble, in the spelling of the kernel's own messages.
const TROUBLE: &[&str] = &[
    "WARNING:",
    "BUG:",
    "BUG ",
    "Oops",
    "Kernel panic",
    "general protection fault",
    "KASAN",
    "UBSAN",
    "possible circular locking",
    "possible recursive locking",
    "inconsistent lock state",
    "suspicious RCU usage",
    "sleeping function called",
    "scheduling while atomic",
    "blocked for more than",
    "soft lockup",
    "detected stall",
    "self-detected stall",
    "refcount_t:",
    "corruption",
    "unchecked MSR",
    "new suspected memory leaks",
    "Bad page state",
    "Bad rss-counter",
    "page allocation failure",
];

/// Does this message of the kernel log mean trouble?
pub fn is_trouble(message: &str) -> bool {
    TROUBLE.iter().any(|word| message.contains(word))
}

/// Beginning of KCSAN's reports.
const RACE: &str = "BUG: KCSAN:";
/// Line that ends one of its reports, and comes before the first line.
const RULE: &str = "==================================================";
/// Text after the names of weir's functions.
const WEIR: &str = "[weir]";
/// Functions that weir wraps: what runs below one of these, the kernel does by itself.
const WRAPPED: &[&str] = &[
    "balance_dirty_pages",
    "domain_dirty_limits",
    "filemap_fdatawait_range_keep_errors",
];

/// The messages that mean trouble, in order.
///
/// Of KCSAN's reports, only those where weir's code made one of the two accesses, or called what
/// made it. A wrapped function that weir calls is the kernel's own again: it races without weir,
/// too.
///
/// ```text
/// BUG: KCSAN: data-race in tell [weir] / weir_tree_counts [weir]
///
/// write to 0xffff888104a5d8c0 of 8 bytes by task 201 on cpu 1:
///  tell+0x5a/0x120 [weir]
///  balance_dirty_pages+0x1a0/0x9c0
/// ```
pub fn find_troubles<'a>(messages: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut found = Vec::new();
    let mut race: Option<Race> = None;
    for (position, message) in messages.into_iter().enumerate() {
        if message.contains(RACE) || message.contains(RULE) {
            found.extend(race.take().and_then(Race::into_trouble));
        }
        if message.contains(RACE) {
            race = Some(Race::new(position, message));
        } else if let Some(open) = &mut race {
            open.add_line(message);
        }
        if !message.contains(RACE) && is_trouble(message) {
            found.push((position, message));
        }
    }
    found.extend(race.and_then(Race::into_trouble));
    found.sort_unstable();
    found.into_iter().map(|(_, message)| message).collect()
}

/// One of KCSAN's reports, as far as it is read.
struct Race<'a> {
    title: (usize, &'a str),
    has_weir: bool,
    /// The rest of this stack is below a wrapped function.
    is_below: bool,
}

impl<'a> Race<'a> {
    fn new(position: usize, title: &'a str) -> Race<'a> {
        Race {
            title: (position, title),
            has_weir: title.contains(WEIR),
            is_below: false,
        }
    }

    fn add_line(&mut self, message: &str) {
        let Some(function) = function_of(message) else {
            // Not a frame: the next one begins a stack.
            self.is_below = false;
            return;
        };
        self.is_below |= WRAPPED.contains(&function);
        self.has_weir |= !self.is_below && message.contains(WEIR);
    }

    fn into_trouble(self) -> Option<(usize, &'a str)> {
        self.has_weir.then_some(self.title)
    }
}

/// ` balance_dirty_pages.isra.0+0x1a0/0x9c0` to `balance_dirty_pages`; a time stamp may precede it.
fn function_of(message: &str) -> Option<&str> {
    let frame = message
        .split_whitespace()
        .find(|word| word.contains("+0x"))?;
    frame.split(['.', '+']).next()
}

/// Taint bits that a run may end with: an out-of-tree (12) and an unsigned (13) module, which
/// weir's is, and a livepatch (15), which only a test's script applies.
pub const HARMLESS_TAINT: u64 = (1 << 12) | (1 << 13) | (1 << 15);

/// The kernel's taint word, `/proc/sys/kernel/tainted`.
pub fn kernel_taint() -> u64 {
    std::fs::read_to_string("/proc/sys/kernel/tainted")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        // Unknown is not clean: all bits set makes people look.
        .unwrap_or(u64::MAX)
}

/// Reads the log, and the bits of the taint word that are not in `before`, into the event a run is
/// judged by.
pub fn scan_log(log: &mut Log, before: u64) -> Event {
    let taint = kernel_taint() & !before;
    let lines = match log.read_messages() {
        Ok(messages) => find_troubles(messages.iter().map(String::as_str))
            .into_iter()
            .take(50)
            .map(str::to_owned)
            .collect(),
        Err(error) => vec![format!("BUG: weir could not read the kernel log: {error}")],
    };
    Event::Kernel { taint, lines }
}

/// The kernel's log, or what of it came after a moment.
pub struct Log(std::io::Result<File>);

impl Log {
    /// All that is still in the ring buffer.
    pub fn from_start() -> Log {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(nix::libc::O_NONBLOCK)
            .open("/dev/kmsg");
        Log(file)
    }

    /// The log after this call.
    pub fn from_now() -> Log {
        let seek = |mut file: File| file.seek(SeekFrom::End(0)).map(|_| file);
        Log(Log::from_start().0.and_then(seek))
    }

    /// The messages that were not read yet, without priority and time stamp.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn read_messages(&mut self) -> std::io::Result<Vec<String>> {
        let kmsg = match &mut self.0 {
            Ok(file) => file,
            Err(error) => return Err(error.kind().into()),
        };
        let mut record = vec![0; 8192];
        let mut messages = Vec::new();
        loop {
            match kmsg.read(&mut record) {
                Ok(0) => return Ok(messages),
                Ok(length) => {
                    messages.push(message_of(&String::from_utf8_lossy(&record[..length])));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(messages),
                // The oldest record was overwritten while it was read; the next read continues
                // after it.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// `6,339,5140900,-;text\n SUBSYSTEM=...` to `text`.
fn message_of(record: &str) -> String {
    let text = record.split_once(';').map_or(record, |(_, text)| text);
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_is_told_from_ordinary_lines() {
        for line in [
            "WARNING: CPU: 1 PID: 77 at mm/page-writeback.c:1 foo+0x1/0x2",
            "BUG: kernel NULL pointer dereference, address: 0000000000000000",
            "Oops: Oops: 0002 [#1] PREEMPT SMP NOPTI",
            "INFO: task fio:88 blocked for more than 120 seconds.",
            "rcu: INFO: rcu_preempt self-detected stall on CPU",
            "unchecked MSR access error: WRMSR to 0x1a4",
            "kmemleak: 3 new suspected memory leaks (see /sys/kernel/debug/kmemleak)",
        ] {
            assert!(is_trouble(line), "{line}");
        }
        for line in [
            "weir: loading out-of-tree module taints kernel.",
            "EXT4-fs (vda): mounted filesystem with ordered data mode.",
            "DEBUG_PAGEALLOC is off",
            "kcsan: non-strict mode configured - use CONFIG_KCSAN_STRICT=y to see all data races",
            "kmemleak: Kernel memory leak detector initialized (mem pool available: 15747)",
        ] {
            assert!(!is_trouble(line), "{line}");
        }
    }

    /// As KCSAN prints a race, with these frames in the stacks of the two accesses.
    fn report(title: &str, stacks: [&[&str]; 2]) -> Vec<String> {
        let mut lines = vec![format!("{RULE}{RULE}")];
        lines.push(format!("BUG: KCSAN: data-race in {title}"));
        for stack in stacks {
            lines.push(String::new());
            lines.push("write to 0xffff888104a5d8c0 of 8 bytes by task 201 on cpu 1:".into());
            lines.extend(stack.iter().map(|frame| format!(" {frame}+0x5a/0x120")));
        }
        let lines = lines.into_iter();
        let lines = lines.chain(["", "value changed: 0x10 -> 0x18", ""].map(String::from));
        let rest = [
            "Reported by Kernel Concurrency Sanitizer on:",
            "CPU: 1 UID: 0 PID: 201 Comm: dd Tainted: G           OE      6.12.117-weir-kcsan #1",
            RULE,
        ];
        // %pS puts the module behind the offset.
        lines
            .map(|line| match line.strip_prefix(" weir ") {
                Some(frame) => format!(" {frame} [weir]"),
                None => line,
            })
            .chain(rest.map(String::from))
            .collect()
    }

    fn found(lines: &[String]) -> Vec<&str> {
        find_troubles(lines.iter().map(String::as_str))
    }

    #[test]
    fn races_count_where_weir_takes_part() {
        let kernel: &[&str] = &["wb_update_bandwidth", "ksys_write"];
        let title = "BUG: KCSAN: data-race in a / b";
        for weirs in [
            &[
                "weir tell",
                "weir pass",
                "balance_dirty_pages_ratelimited_flags",
            ][..],
            &[
                "__list_add_valid",
                "weir weir_record_get",
                "cgroup_file_write",
            ],
            &[
                "weir weir_limits",
                "balance_dirty_pages.isra.0",
                "weir pass",
            ],
        ] {
            assert_eq!(
                found(&report("a / b", [weirs, kernel])),
                [title],
                "{weirs:?}"
            );
            assert_eq!(
                found(&report("a / b", [kernel, weirs])),
                [title],
                "{weirs:?}"
            );
        }
        let own = report("weir_a [weir] / b", [kernel, kernel]);
        assert_eq!(found(&own).len(), 1);
    }

    #[test]
    fn races_of_the_kernels_own_do_not_count() {
        let wrapped: &[&str] = &["__wb_update_bandwidth", "balance_dirty_pages", "weir pass"];
        let limits: &[&str] = &["domain_dirty_limits.constprop.0", "weir limits"];
        for stacks in [[wrapped, limits], [limits, &["ksys_read"]]] {
            assert!(found(&report("a / b", stacks)).is_empty(), "{stacks:?}");
        }
    }

    #[test]
    fn a_race_hides_nothing_else() {
        let mut lines = report("a / b", [&["x"], &["y"]]);
        // Another CPU's, in the midst of it; and weir's name outside of any report.
        lines.insert(3, "WARNING: CPU: 0 PID: 7 at mm/slub.c:1".into());
        lines.push(" tell+0x5a/0x120 [weir]".into());
        lines.extend(report("weir_c [weir] / d", [&["x"], &["y"]]));
        // The log ends within a report.
        lines.truncate(lines.len() - 3);
        assert_eq!(
            found(&lines),
            [
                "WARNING: CPU: 0 PID: 7 at mm/slub.c:1",
                "BUG: KCSAN: data-race in weir_c [weir] / d"
            ]
        );
    }

    #[test]
    fn a_record_is_reduced_to_its_message() {
        let record = "4,612,9182736,-;WARNING: something\n SUBSYSTEM=block\n";
        assert_eq!(message_of(record), "WARNING: something");
    }
}
