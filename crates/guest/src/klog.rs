// SPDX-License-Identifier: GPL-2.0-only
//! What the kernel log holds against a run.
//!
//! A guest that warned is a failed guest, whatever it measured. The whole ring buffer is read once,
//! at the end (the lab boots with a large one); lines are matched by the words Linux uses for trouble.

use crate::protocol::Event;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Read};
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
    "KCSAN",
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

/// Taint bits that a run may end with: an out-of-tree (12) and an unsigned (13) module, which weir's is, and
/// a livepatch (15), which only a test's script applies.
pub const HARMLESS_TAINT: u64 = 1 << 12 | 1 << 13 | 1 << 15;

/// Reads the log and the taint word into the event the host judges by.
pub fn scan() -> Event {
    let taint = std::fs::read_to_string("/proc/sys/kernel/tainted")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        // Unknown is not clean: all bits set makes the host look.
        .unwrap_or(u64::MAX);
    let lines = match messages() {
        Ok(messages) => messages
            .into_iter()
            .filter(|message| is_trouble(message))
            .take(50)
            .collect(),
        Err(error) => vec![format!(
            "BUG: the guest could not read its own kernel log: {error}"
        )],
    };
    Event::Kernel { taint, lines }
}

/// All messages of the ring buffer, without priority and time stamp.
pub(crate) fn messages() -> std::io::Result<Vec<String>> {
    let mut kmsg = OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK)
        .open("/dev/kmsg")?;
    let mut record = vec![0; 8192];
    let mut messages = Vec::new();
    loop {
        match kmsg.read(&mut record) {
            Ok(0) => return Ok(messages),
            Ok(length) => messages.push(message_of(&String::from_utf8_lossy(&record[..length]))),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(messages),
            // The oldest record was overwritten while it was read; the next read continues after it.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            Err(error) => return Err(error),
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
            "kmemleak: Kernel memory leak detector initialized (mem pool available: 15747)",
        ] {
            assert!(!is_trouble(line), "{line}");
        }
    }

    #[test]
    fn a_record_is_reduced_to_its_message() {
        let record = "4,612,9182736,-;WARNING: something\n SUBSYSTEM=block\n";
        assert_eq!(message_of(record), "WARNING: something");
    }
}
