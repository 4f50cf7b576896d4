// SPDX-License-Identifier: GPL-2.0-only
//! Each cause, from numbers like those of the staged stalls in guests.

mod drain;
mod first;
mod limits;
mod targets;
mod waits;

use observe::Target;
use observe::cgroup::{Cgroup, Io, IoMax};
use observe::diagnosis::{Cause, Decider, Diagnosis, ReclaimPart, Verdict, diagnose};
use observe::event::{Limits, Pause};
use observe::host::{Device, HostSettings, QueueBound};
use observe::observation::Flushers;
use observe::reclaim::{Reason, Reclaimed, Vmscan};
use observe::stall::{Stall, StallKind, Throttled};
use observe::{DirtyStat, Observation, Wait};
use std::collections::BTreeMap;

const MIB: u64 = 1 << 20;
const VICTIM: u64 = 70;
const HOST: Limits = Limits {
    dirty: 7900,
    writeback: 100,
    background: 4096,
    thresh: 8192,
};
const EASY: Limits = Limits {
    dirty: 400,
    writeback: 0,
    background: 4096,
    thresh: 8192,
};

fn cgroup(path: &str, inode: u64, dirty: u64) -> Cgroup {
    Cgroup {
        path: path.into(),
        inode,
        dirty,
        file: 20 * MIB,
        current: 30 * MIB,
        ..Cgroup::default()
    }
}

/// 100 pauses of 80 ms in 10 s, of a task of /victim, in a domain with this freerun level and these
/// pages.
fn observation(freerun: u64, dirty: u64, host: Limits) -> Observation {
    let pause = Pause {
        bdi: "254:0".into(),
        cgroup: VICTIM,
        limit: 8192,
        setpoint: policy::arith::setpoint_level(freerun, 8192),
        dirty,
        dirtied: 4,
        task_ratelimit: 160,
        pause_ms: 80,
        ..Pause::default()
    };
    let kind = StallKind::Throttle(Box::new(Throttled {
        pause,
        by: None,
        host: None,
    }));
    let stall = |n: u64| Stall {
        ns: n * 100_000_000,
        task: 9,
        kind: kind.clone(),
        slept_ns: Some(80_000_000),
    };
    Observation {
        is_live: true,
        seconds: 10.0,
        stalls: (0..100).map(stall).collect(),
        limits: vec![(0, host), (10_000_000_000, host)],
        host: Some(HostSettings {
            dirty_bytes: 32 * MIB,
            background_bytes: 16 * MIB,
            dirtyable: 250_000,
            memory: 1024 * MIB,
            ..HostSettings::default()
        }),
        cgroups: vec![
            cgroup("", 1, 32 * MIB),
            cgroup("victim", VICTIM, MIB),
            cgroup("noisy", 71, 30 * MIB),
        ],
        devices: vec![Device {
            bdi: "254:0".into(),
            max_ratio: 100,
            strict: Some(false),
            busy_ms: 9900,
            written: 10 * MIB,
            ..Device::default()
        }],
        homes: BTreeMap::from([(9, "victim".to_string())]),
        ..Observation::default()
    }
}

fn victim(seen: &Observation) -> Verdict {
    let diagnosis = diagnose(seen, &Target::Cgroup("victim".into()));
    assert_eq!(diagnosis.verdicts.len(), 1);
    diagnosis.verdicts.into_iter().next().expect("one")
}

fn command(verdict: &Verdict) -> &str {
    &verdict.remedies[0].command
}

fn stock(verdict: &Verdict) -> (bool, &str) {
    let stock = verdict.stock.as_ref().expect("can be told");
    (stock.suffices, &stock.because)
}
