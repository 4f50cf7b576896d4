// SPDX-License-Identifier: GPL-2.0-only
//! Counters of reclaim, where pages are kept one by one.

use crate::sim::clock::Ns;
use std::collections::BTreeMap;

/// Why reclaim sleeps (`enum vmscan_throttle_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// Pages in writeback come round again.
    Writeback,
    /// Others have isolated too many.
    Isolated,
    /// Reclaim makes no progress.
    NoProgress,
    /// All dirty pages are in writeback and marked (from 5.16 on; before, with 5.16-rc, the same
    /// as [`Reason::Writeback`]).
    Congested,
}

impl Reason {
    /// All, in the kernel's order.
    pub const ALL: [Reason; 4] = [
        Reason::Writeback,
        Reason::Isolated,
        Reason::NoProgress,
        Reason::Congested,
    ];
}

/// Sleeps of one reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stalls {
    /// Sleeps of this reason.
    pub all: u64,
    /// That ended in the tick they began in.
    pub zero: u64,
    /// That nothing ended but the timeout.
    pub full: u64,
}

/// Counters, by their names in `/proc/vmstat` as far as they have one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Vmstat {
    /// Pages taken by tasks.
    pub pgsteal_direct: u64,
    /// Pages that reclaim wrote.
    pub nr_vmscan_write: u64,
    /// Dirty pages of files that it met.
    pub nr_vmscan_immediate_reclaim: u64,
    /// Anonymous pages read back.
    pub workingset_refault_anon: u64,
    /// Pages of files that came back.
    pub workingset_refault_file: u64,
    /// Pages read from the swap disk.
    pub pswpin: u64,
    /// Pages written to it.
    pub pswpout: u64,
    /// Sleeps of tasks, by reason.
    pub stalls: [Stalls; 4],
    /// CPU time of reclaim.
    pub cpu: Ns,
}

impl Vmstat {
    /// Growth since it was `before`.
    pub fn growth_since(&self, before: &Vmstat) -> Vmstat {
        let mut stalls = self.stalls;
        for (now, before) in stalls.iter_mut().zip(before.stalls) {
            now.all -= before.all;
            now.zero -= before.zero;
            now.full -= before.full;
        }
        Vmstat {
            pgsteal_direct: self.pgsteal_direct - before.pgsteal_direct,
            nr_vmscan_write: self.nr_vmscan_write - before.nr_vmscan_write,
            nr_vmscan_immediate_reclaim: self.nr_vmscan_immediate_reclaim
                - before.nr_vmscan_immediate_reclaim,
            workingset_refault_anon: self.workingset_refault_anon - before.workingset_refault_anon,
            workingset_refault_file: self.workingset_refault_file - before.workingset_refault_file,
            pswpin: self.pswpin - before.pswpin,
            pswpout: self.pswpout - before.pswpout,
            stalls,
            cpu: self.cpu - before.cpu,
        }
    }

    /// By the names that figures have, with what is counted elsewhere, too.
    pub fn counters_by_name(&self, also: &Reclaimed) -> BTreeMap<String, u64> {
        let mut all = BTreeMap::from(
            [
                ("pgscan_direct", also.pgscan_direct),
                ("pgscan_kswapd", also.pgscan_kswapd),
                ("pgsteal_direct", self.pgsteal_direct),
                ("pgsteal_kswapd", also.pgsteal_kswapd),
                ("nr_vmscan_write", self.nr_vmscan_write),
                (
                    "nr_vmscan_immediate_reclaim",
                    self.nr_vmscan_immediate_reclaim,
                ),
                ("workingset_refault_anon", self.workingset_refault_anon),
                ("workingset_refault_file", self.workingset_refault_file),
                ("pswpin", self.pswpin),
                ("pswpout", self.pswpout),
                ("reclaim_cpu_ns", self.cpu),
            ]
            .map(|(name, value)| (name.to_owned(), value)),
        );
        for (reason, stalls) in Reason::ALL.iter().zip(self.stalls) {
            let name = format!("throttled_{reason:?}").to_lowercase();
            all.insert(format!("{name}_zero"), stalls.zero);
            all.insert(format!("{name}_full"), stalls.full);
            all.insert(name, stalls.all);
        }
        all
    }
}

/// Pages looked at, and the results; since the host began.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reclaimed {
    /// Pages kswapd has looked at.
    pub pgscan_kswapd: u64,
    /// Pages that kswapd has taken.
    pub pgsteal_kswapd: u64,
    /// Pages that tasks have looked at for themselves.
    pub pgscan_direct: u64,
    /// Number of times that they began to.
    pub stalls: u64,
    /// Tasks that were killed.
    pub kills: u64,
}

impl Reclaimed {
    /// Growth since it was `before`.
    pub fn growth_since(&self, before: &Reclaimed) -> Reclaimed {
        Reclaimed {
            pgscan_kswapd: self.pgscan_kswapd - before.pgscan_kswapd,
            pgsteal_kswapd: self.pgsteal_kswapd - before.pgsteal_kswapd,
            pgscan_direct: self.pgscan_direct - before.pgscan_direct,
            stalls: self.stalls - before.stalls,
            kills: self.kills - before.kills,
        }
    }
}
