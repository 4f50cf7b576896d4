// SPDX-License-Identifier: GPL-2.0-only
//! Shares, and who owes what in observations like those of staged stalls.

use super::*;
use crate::model::cgroup::Io;
use crate::model::event::Limits;
use crate::model::reclaim::Reclaimed;
use crate::model::stall::{Stall, Throttled};

const MIB: u64 = 1 << 20;
const LIMITS: Limits = Limits {
    dirty: 7900,
    writeback: 100,
    background: 4096,
    thresh: 8192,
};

fn cgroup(path: &str, inode: u64, mib: u64) -> Cgroup {
    Cgroup {
        path: path.into(),
        inode,
        dirty: mib * MIB,
        has_memory: true,
        grown: Some(0),
        ..Cgroup::default()
    }
}

/// A task of the cgroup with this inode is held by a domain with this freerun level and these pages.
fn pause(task: u32, inode: u64, freerun: u64, dirty: u64, dirtied: u64) -> Stall {
    let pause = Pause {
        bdi: "254:0".into(),
        cgroup: inode,
        limit: 8192,
        setpoint: policy::arith::setpoint_level(freerun, 8192),
        dirty,
        dirtied,
        task_ratelimit: 160,
        pause_ms: 100,
        ..Pause::default()
    };
    let kind = StallKind::Throttle(Box::new(Throttled {
        pause,
        by: None,
        host: Some(LIMITS),
    }));
    stall(task, kind)
}

fn stall(task: u32, kind: StallKind) -> Stall {
    Stall {
        ns: 5,
        task,
        kind,
        slept_ns: Some(100_000_000),
    }
}

fn seen(cgroups: &[Cgroup], homes: &[(u32, &str)], stalls: Vec<Stall>) -> Observation {
    Observation {
        is_live: true,
        seconds: 2.0,
        limits: vec![(5, LIMITS)],
        cgroups: cgroups.to_vec(),
        homes: homes
            .iter()
            .map(|(task, home)| (*task, home.to_string()))
            .collect(),
        stalls,
        ..Observation::default()
    }
}

/// Seconds that `victim` lost because of `culprit`, in thousandths.
fn ms(owed: &[Owed], victim: &str, culprit: &str) -> u64 {
    let seconds = owed
        .iter()
        .filter(|of| of.victim == victim && of.culprit == culprit);
    (seconds.map(|of| of.seconds).sum::<f64>() * 1000.0).round() as u64
}

fn of_one(seen: &Observation) -> Vec<Owed> {
    let mut flows = Flows::default();
    flows.add_stretch(seen);
    divide_losses(seen, &flows)
}

#[test]
fn what_one_leaves_of_a_share_goes_to_the_others() {
    let claim = |demand, floor, weight| Claim {
        demand,
        floor,
        weight,
    };
    let even = |demand| claim(demand, 0.0, 100.0);
    assert_eq!(
        fair_shares(16.0, &[even(27.0), even(3.0), even(2.0)]),
        [11.0, 3.0, 2.0]
    );
    assert_eq!(
        fair_shares(16.0, &[even(16.0), even(14.0), even(2.0)]),
        [7.0, 7.0, 2.0]
    );
    assert_eq!(
        fair_shares(12.0, &[claim(20.0, 0.0, 300.0), even(20.0)]),
        [9.0, 3.0],
        "by weight"
    );
    assert_eq!(
        fair_shares(12.0, &[claim(10.0, 8.0, 100.0), even(20.0)]),
        [10.0, 2.0],
        "a floor comes first"
    );
    assert_eq!(
        fair_shares(50.0, &[even(1.0), even(2.0)]),
        [1.0, 2.0],
        "all is there"
    );
    assert_eq!(fair_shares(1.0, &[]), [0.0; 0]);
}

#[test]
fn the_hosts_limit_is_owed_by_those_beyond_their_share() {
    let cgroups = [
        cgroup("", 1, 32),
        cgroup("noisy", 7, 27),
        cgroup("victim", 8, 3),
        cgroup("log", 9, 2),
    ];
    let stalls = vec![pause(70, 7, 6144, 7900, 90), pause(80, 8, 6144, 7900, 4)];
    let owed = of_one(&seen(&cgroups, &[(70, "noisy"), (80, "victim")], stalls));
    assert_eq!(ms(&owed, "/victim", "/noisy"), 100);
    assert_eq!(ms(&owed, "/noisy", "/noisy"), 100);
    assert_eq!(owed.len(), 2, "{owed:?}");
    assert_eq!(
        (owed[0].limit, owed[0].device.as_str()),
        (Limit::Throttle(Decider::Host), "254:0")
    );
}

#[test]
fn a_tenant_gains_nothing_by_many_cgroups() {
    let mut cgroups = vec![cgroup("", 1, 32), cgroup("t", 2, 20), cgroup("one", 3, 12)];
    cgroups.extend((0..10).map(|n| cgroup(&format!("t/{n}"), 10 + n, 2)));
    let seen = seen(&cgroups, &[(30, "one")], vec![pause(30, 3, 6144, 7900, 4)]);
    let owed = of_one(&seen);
    // Shares of 16 MiB are 8 each: /one is 4 beyond, all of /t is 12.
    assert_eq!(ms(&owed, "/one", "/one"), 25);
    assert_eq!((ms(&owed, "/one", "/t/3"), owed.len()), (8, 11));
    let all: f64 = owed.iter().map(|of| of.seconds).sum();
    assert!(
        (all - 0.1).abs() < 1e-9,
        "what is owed is what was lost: {all}"
    );
}

#[test]
fn pages_that_are_charged_to_another_are_owed_by_who_dirties_them() {
    let mut owner = cgroup("owner", 7, 27);
    owner.io.insert(
        "254:0".into(),
        Io {
            written: 4 * MIB,
            ..Io::default()
        },
    );
    let cgroups = [
        cgroup("", 1, 32),
        owner,
        cgroup("victim", 8, 3),
        cgroup("writer", 9, 0),
    ];
    let homes = [(80, "victim"), (90, "writer")];
    let stalls = vec![pause(80, 8, 6144, 7900, 4), pause(90, 9, 6144, 7900, 1024)];
    let seen = seen(&cgroups, &homes, stalls);
    assert_eq!(ms(&of_one(&seen), "/victim", "/writer"), 100);
    assert_eq!(
        ms(
            &divide_losses(&seen, &Flows::default()),
            "/victim",
            "/owner"
        ),
        100,
        "else"
    );
}

#[test]
fn who_wrote_a_file_once_owes_nothing_for_who_overwrites_it() {
    let io = |mib: u64| {
        let io = Io {
            written: mib * MIB,
            ..Io::default()
        };
        [("254:0".to_string(), io)].into()
    };
    let homes = [(1, "noisy"), (2, "victim"), (3, "owner")];
    let mut flows = Flows::default();
    // The owner makes 64 MiB, which are written at once.
    let made = Cgroup {
        io: io(64),
        ..cgroup("owner", 12, 0)
    };
    let first = seen(&[made], &homes, vec![pause(3, 12, 6144, 8000, 64 << 8)]);
    flows.add_stretch(&first);
    // Another overwrites 25 MiB of them, of which 4 are written.
    let overwritten = Cgroup {
        io: io(4),
        grown: Some(25 << 20),
        ..cgroup("owner", 12, 25)
    };
    let cgroups = [overwritten, cgroup("victim", 11, 3), cgroup("noisy", 10, 0)];
    let stalls = vec![
        pause(1, 10, 6144, 8000, 29 << 8),
        pause(2, 11, 6144, 8000, 32),
    ];
    let later = seen(&cgroups, &homes, stalls);
    flows.add_stretch(&later);
    let owed = divide_losses(&later, &flows);
    assert_eq!(ms(&owed, "/victim", "/noisy"), 100);
    assert_eq!(ms(&owed, "/victim", "/owner"), 0);
}

#[test]
fn a_limit_of_its_own_is_owed_by_those_below_it() {
    let mut small = cgroup("small", 8, 3);
    (small.max, small.current) = (Some(48 * MIB), 40 * MIB);
    let cgroups = [
        cgroup("", 1, 32),
        cgroup("noisy", 7, 20),
        small,
        cgroup("small/a", 10, 2),
        cgroup("small/b", 11, 1),
    ];
    let seen = seen(
        &cgroups,
        &[(80, "small/b")],
        vec![pause(80, 8, 230, 700, 4)],
    );
    let owed = of_one(&seen);
    assert_eq!(
        (owed[0].limit, ms(&owed, "/small/b", "/small/a")),
        (Limit::Throttle(Decider::Cgroup), 83),
        "{owed:?}"
    );
}

/// What a cgroup above has beyond those below it are pages of cgroups that are gone, or none.
#[test]
fn a_cgroup_of_cgroups_owes_for_those_that_are_gone_alone() {
    let owes = |dying| {
        let mut above = cgroup("above", 8, 4);
        (above.max, above.current) = (Some(48 * MIB), 40 * MIB);
        above.dying = dying;
        let cgroups = [
            cgroup("", 1, 32),
            above,
            cgroup("above/hog", 10, 2),
            cgroup("above/victim", 11, 1),
        ];
        let stalls = vec![pause(80, 8, 230, 700, 4)];
        let owed = of_one(&seen(&cgroups, &[(80, "above/victim")], stalls));
        let (of, by) = ("/above/victim", ["/above", "/above/hog", "/above/victim"]);
        by.map(|culprit| ms(&owed, of, culprit))
    };
    assert_eq!(owes(0), [0, 83, 17]);
    assert_eq!(owes(1), [17, 67, 17]);
}

#[test]
fn fsyncs_are_owed_by_who_has_the_device_write() {
    let with = |mut cgroup: Cgroup, written| {
        cgroup.io.insert(
            "254:0".into(),
            Io {
                written,
                ..Io::default()
            },
        );
        cgroup
    };
    let cgroups = [
        with(cgroup("", 1, 9), 20 * MIB),
        with(cgroup("noisy", 7, 6), 8 * MIB),
        with(cgroup("db", 8, 0), MIB),
    ];
    let owed = of_one(&seen(
        &cgroups,
        &[(80, "db")],
        vec![stall(80, StallKind::Sync)],
    ));
    assert_eq!(
        (ms(&owed, "/db", "/noisy"), owed.len()),
        (100, 1),
        "{owed:?}"
    );
    assert_eq!(
        (owed[0].limit, owed[0].device.as_str()),
        (Limit::Fsync, "254:0")
    );
    let alone = of_one(&seen(
        &cgroups[..1],
        &[(80, "db")],
        vec![stall(80, StallKind::Sync)],
    ));
    assert_eq!(ms(&alone, "/db", "/db"), 100);
}

#[test]
fn reclaim_is_owed_by_who_takes_memory() {
    let took = |path: &str, inode, mib: u64| Cgroup {
        allocated: Some(mib * MIB),
        max: (path == "box").then_some(64 * MIB),
        ..cgroup(path, inode, 0)
    };
    let cgroups = [
        took("", 1, 0),
        took("hog", 7, 900),
        took("box", 8, 40),
        took("box/a", 9, 39),
        took("box/b", 10, 1),
    ];
    let reclaims = |is_for_limit| {
        StallKind::Reclaim(Reclaimed {
            is_for_limit,
            ..Reclaimed::default()
        })
    };
    let homes = [(80, "box/b"), (81, "gone")];
    let stalls = vec![
        stall(80, reclaims(false)),
        stall(80, reclaims(true)),
        stall(99, reclaims(false)),
    ];
    let owed = of_one(&seen(&cgroups, &homes, stalls));
    let of = |limit| {
        owed.iter()
            .find(|of| of.limit == limit && of.victim == "/box/b")
            .expect("owed")
    };
    assert_eq!(of(Limit::Memory).culprit, "/hog");
    assert_eq!(of(Limit::MemoryLimit).culprit, "/box/a");
    assert_eq!(ms(&owed, UNKNOWN, "/hog"), 100, "of a task that is gone");
}
