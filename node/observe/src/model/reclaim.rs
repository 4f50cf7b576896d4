// SPDX-License-Identifier: GPL-2.0-only
//! Reclaim: what it sleeps for, and what it did to the host.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Why `reclaim_throttle()` put a task to sleep: `enum vmscan_throttle_state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Too many pages at the tail of the LRU are dirty or being written.
    Writeback,
    /// Too many pages are taken off the LRU by other tasks that reclaim.
    Isolated,
    /// Nothing could be reclaimed.
    Noprogress,
    /// The pages at the tail are being written a second time round.
    Congested,
    /// A reason of a kernel newer than this program, or none was recorded.
    Other,
}

/// Reasons and their names, by the number of their bit in the event.
const REASONS: [(Reason, &str); 4] = [
    (Reason::Writeback, "VMSCAN_THROTTLE_WRITEBACK"),
    (Reason::Isolated, "VMSCAN_THROTTLE_ISOLATED"),
    (Reason::Noprogress, "VMSCAN_THROTTLE_NOPROGRESS"),
    (Reason::Congested, "VMSCAN_THROTTLE_CONGESTED"),
];

impl Reason {
    /// Finds the reason of the event's field, which has one bit set.
    pub fn from_bits(bits: i64) -> Reason {
        let found = REASONS.iter().enumerate();
        let mut found = found.filter(|(bit, _)| bits == 1 << bit);
        found
            .next()
            .map_or(Reason::Other, |(_, (reason, _))| *reason)
    }

    /// Finds the reason of the event's text.
    pub fn from_text(text: &str) -> Reason {
        let found = REASONS.iter().find(|(_, name)| *name == text);
        found.map_or(Reason::Other, |(reason, _)| *reason)
    }
}

/// A sleep in `reclaim_throttle()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Recorded")]
pub struct Slept {
    /// Length of the sleep, in microseconds.
    pub us: u64,
    /// After how long it would have ended by itself, in microseconds; 0 if that is not recorded.
    pub timeout_us: u64,
    /// The reason why the task slept.
    pub reason: Reason,
}

/// A sleep as recordings have it: the first versions had the time alone.
#[derive(Deserialize)]
#[serde(untagged)]
enum Recorded {
    Time(u64),
    All {
        us: u64,
        timeout_us: u64,
        reason: Reason,
    },
}

impl From<Recorded> for Slept {
    fn from(recorded: Recorded) -> Slept {
        let (us, timeout_us, reason) = match recorded {
            Recorded::Time(us) => (us, 0, Reason::Other),
            Recorded::All {
                us,
                timeout_us,
                reason,
            } => (us, timeout_us, reason),
        };
        Slept {
            us,
            timeout_us,
            reason,
        }
    }
}

/// A task's sleeps between the beginning and the end of reclaim.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reclaimed {
    /// `true` if it was for a memory limit of its cgroup or of one above; not for the host.
    pub is_for_limit: bool,
    /// Nanoseconds that it slept in the meantime.
    pub slept: BTreeMap<Reason, u64>,
}

impl Reclaimed {
    /// Adds a sleep.
    pub fn add_sleep(&mut self, slept: Slept) {
        let ns = self.slept.entry(slept.reason).or_default();
        *ns = ns.saturating_add(slept.us.saturating_mul(1000));
    }
}

/// Counters of `/proc/vmstat`, in pages of 4 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Vmscan {
    /// Looked at by tasks that allocate, `pgscan_direct`.
    pub scanned_direct: u64,
    /// Looked at by kswapd, `pgscan_kswapd`.
    pub scanned_kswapd: u64,
    /// Freed by tasks that allocate, `pgsteal_direct`.
    pub stolen_direct: u64,
    /// Freed by kswapd, `pgsteal_kswapd`.
    pub stolen_kswapd: u64,
    /// Met dirty at the tail, to be freed as soon as they are written:
    /// `nr_vmscan_immediate_reclaim`.
    pub immediate: u64,
    /// Written to swap, `pswpout`.
    pub swapped_out: u64,
    /// Read from swap, `pswpin`.
    pub swapped_in: u64,
}

impl Vmscan {
    /// The counters by the kernel's names.
    pub(crate) fn named_counters(&mut self) -> [(&'static str, &mut u64); 7] {
        [
            ("pgscan_direct", &mut self.scanned_direct),
            ("pgscan_kswapd", &mut self.scanned_kswapd),
            ("pgsteal_direct", &mut self.stolen_direct),
            ("pgsteal_kswapd", &mut self.stolen_kswapd),
            ("nr_vmscan_immediate_reclaim", &mut self.immediate),
            ("pswpout", &mut self.swapped_out),
            ("pswpin", &mut self.swapped_in),
        ]
    }

    /// Counts since `before`.
    pub fn counts_since(mut self, mut before: Vmscan) -> Vmscan {
        for ((_, now), (_, before)) in self
            .named_counters()
            .into_iter()
            .zip(before.named_counters())
        {
            *now = now.saturating_sub(*before);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_a_bit_or_a_name() {
        for (bits, text, reason) in [
            (1, "VMSCAN_THROTTLE_WRITEBACK", Reason::Writeback),
            (2, "VMSCAN_THROTTLE_ISOLATED", Reason::Isolated),
            (4, "VMSCAN_THROTTLE_NOPROGRESS", Reason::Noprogress),
            (8, "VMSCAN_THROTTLE_CONGESTED", Reason::Congested),
            (16, "VMSCAN_THROTTLE_NEW", Reason::Other),
            (0, "", Reason::Other),
        ] {
            let read = (Reason::from_bits(bits), Reason::from_text(text));
            assert_eq!(read, (reason, reason), "{text}");
        }
    }

    #[test]
    fn a_recording_of_the_time_alone_is_read() {
        let old: Slept = serde_json::from_str("104000").expect("read");
        assert_eq!((old.us, old.reason), (104_000, Reason::Other));
        let new = Slept {
            us: 5,
            timeout_us: 20_000,
            reason: Reason::Isolated,
        };
        let text = serde_json::to_string(&new).expect("written");
        assert_eq!(serde_json::from_str::<Slept>(&text).expect("read"), new);
    }
}
