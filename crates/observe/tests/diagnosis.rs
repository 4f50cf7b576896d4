// SPDX-License-Identifier: GPL-2.0-only
//! Each cause, from numbers like those of the staged stalls in guests.

use observe::Target;
use observe::cgroup::{Cgroup, Io, IoMax};
use observe::diagnosis::{Cause, Diagnosis, Part, Verdict, diagnose};
use observe::event::{Limits, Pause};
use observe::host::{Device, Host};
use observe::observation::Flushers;
use observe::reclaim::{Reason, Reclaimed, Vmscan};
use observe::stall::{Kind, Stall, Throttled};
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
        setpoint: policy::arith::setpoint(freerun, 8192),
        dirty,
        dirtied: 4,
        task_ratelimit: 160,
        pause_ms: 80,
        ..Pause::default()
    };
    let kind = Kind::Throttle(Box::new(Throttled {
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
        host: Some(Host {
            dirty_bytes: 32 * MIB,
            background_bytes: 16 * MIB,
            dirtyable: 250_000,
            memory: 1024 * MIB,
            ..Host::default()
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

#[test]
fn the_hosts_limit_and_who_fills_it() {
    let mut seen = observation(6144, 8000, HOST);
    seen.cgroups[1].has_memory = true;
    let verdict = victim(&seen);
    assert_eq!(
        (verdict.cause, verdict.culprit.as_deref()),
        (Cause::HostLimit, Some("/noisy"))
    );
    assert_eq!(
        verdict.limit[0],
        "the host's limit is 32.0 MiB: vm.dirty_bytes 33554432"
    );
    assert!(
        verdict.limit[1].contains("(16.0 MiB + 32.0 MiB) / 2 = 24.0 MiB; the host held 31.2 MiB"),
        "{:?}",
        verdict.limit
    );
    assert!(
        verdict.drain.starts_with("device-bound"),
        "{}",
        verdict.drain
    );
    // Half of freerun is 12 MiB, and 32 of 977 MiB dirtyable are 3.3 %: 366 MiB.
    assert_eq!(
        command(&verdict),
        "echo 367M > /sys/fs/cgroup/noisy/memory.high"
    );
    let levels = |verdict: &Verdict| -> Vec<String> {
        let levels = verdict.levels.iter();
        levels.map(|level| level.sentence("/victim")).collect()
    };
    // 3.3 % of the 946 MiB that it could have dirty, by files.
    assert_eq!(
        levels(&verdict),
        [
            "the host holds 31.2 MiB and throttles above 24.0 MiB: 100 pauses",
            "/victim holds 1.0 MiB and throttles above 23.3 MiB: 0 pauses"
        ]
    );
    assert_eq!(
        stock(&verdict),
        (
            true,
            "memory.high suffices: /noisy would be held first, below 366.2 MiB of memory, page cache included, once what it holds has drained"
        )
    );
    let lost = &verdict.lost;
    assert_eq!(
        (lost.count, lost.tasks, lost.measured),
        (Some(100), 1, "slept")
    );
    assert!(
        (lost.seconds - 8.0).abs() < 1e-9 && (lost.share - 0.8).abs() < 1e-9 && lost.p99_ms == 80.0
    );

    seen.weir = Some("idle".into());
    assert_eq!(
        command(&victim(&seen)),
        "echo 18M > /sys/fs/cgroup/victim/memory.dirty_min"
    );
    seen.weir = None;
    seen.weir_is_installed = true;
    assert_eq!(
        command(&victim(&seen)),
        "weir load && echo 18M > /sys/fs/cgroup/victim/memory.dirty_min"
    );
}

#[test]
fn a_byte_setting_scaled_to_a_small_cgroup() {
    let mut seen = observation(230, 260, EASY);
    seen.cgroups[1].max = Some(48 * MIB);
    let verdict = victim(&seen);
    assert_eq!(
        (verdict.cause, verdict.culprit.as_deref()),
        (Cause::CgroupLimit, Some("/victim"))
    );
    // 2 * 230 pages / (1 + 1/2) is the limit, 3.3 % of what the cgroup could have dirty.
    assert_eq!(
        verdict.limit[0],
        "the limit of /victim is 1.2 MiB: vm.dirty_bytes 32.0 MiB of 976.6 MiB dirtyable is 3.28 %, and a cgroup gets that part of what it could have dirty, 36.6 MiB"
    );
    assert!(
        verdict.limit[1].contains("memory.max of /victim is 48.0 MiB, of which 30.0 MiB are used"),
        "{:?}",
        verdict.limit
    );
    assert_eq!(verdict.remedies[0].knob, "vm.dirty_bytes");
    seen.weir = Some("idle".into());
    assert_eq!(
        command(&victim(&seen)),
        "echo 18M > /sys/fs/cgroup/victim/memory.dirty_min"
    );
}

#[test]
fn when_the_kernels_own_knobs_suffice() {
    // Several holders, each of whom would need a limit.
    let mut seen = observation(6144, 8000, HOST);
    seen.cgroups[0].dirty = 62 * MIB;
    seen.cgroups.push(cgroup("other", 72, 29 * MIB));
    assert_eq!(
        stock(&victim(&seen)),
        (
            false,
            "the kernel's own knobs do not suffice: without /noisy the others still hold 32.0 MiB, and each of them would need a memory limit"
        )
    );
    // One that is mostly no page cache.
    let mut seen = observation(6144, 8000, HOST);
    seen.cgroups[2].current = 500 * MIB;
    assert!(!stock(&victim(&seen)).0);
    // What a cgroup has dirty of its own is its own.
    seen.cgroups[1].dirty = 31 * MIB;
    seen.cgroups[2].dirty = 0;
    assert!(stock(&victim(&seen)).0);

    // In bytes a small cgroup has 3.3 % of what it could have dirty; in percent it may have more.
    let mut seen = observation(230, 260, EASY);
    seen.cgroups[1].max = Some(48 * MIB);
    assert_eq!(
        stock(&victim(&seen)),
        (
            false,
            "the kernel's own knobs do not suffice: memory.max of /victim would have to be 751.3 MiB for 18.8 MiB of dirty pages"
        )
    );
    let mut seen = observation(460, 500, EASY);
    seen.cgroups[1].max = Some(96 * MIB);
    assert_eq!(
        stock(&victim(&seen)),
        (
            true,
            "vm.dirty_ratio suffices: 26 % would let it have 18.8 MiB dirty, and the host 253.9 MiB"
        )
    );
}

#[test]
fn who_was_killed_for_memory_is_told_of_the_rule() {
    let mut seen = observation(6144, 8000, HOST);
    seen.cgroups[2].kills = 3;
    let killed = |seen: &Observation| diagnose(seen, &Target::Host).killed;
    seen.weir = Some("idle".into());
    assert_eq!(killed(&seen), [], "no memory.max");
    seen.cgroups[2].max = Some(64 * MIB);
    let found = killed(&seen);
    assert_eq!((found[0].cgroup.as_str(), found[0].kills), ("/noisy", 3));
    let remedy = &found[0].remedy;
    assert_eq!(
        remedy.command,
        "echo 49152K > /sys/fs/cgroup/noisy/memory.dirty_bytes"
    );
    assert!(
        remedy.effect.contains("finds 16.0 MiB") && remedy.effect.contains("\"75%\""),
        "{}",
        remedy.effect
    );
    // Counted above, too, where there is a limit as well.
    seen.cgroups[0].kills = 3;
    seen.cgroups[0].max = Some(512 * MIB);
    assert_eq!(killed(&seen).len(), 1);
    let about_another = diagnose(&seen, &Target::Cgroup("victim".into()));
    assert_eq!(about_another.killed, []);
    seen.cgroups[2].ceilings = vec!["memory.dirty_bytes = 4096".into()];
    assert_eq!(killed(&seen), [], "it has a ceiling");
    seen.cgroups[2].ceilings.clear();
    seen.weir = None;
    assert_eq!(killed(&seen), [], "no module");
}

#[test]
fn a_limit_above() {
    let mut seen = observation(230, 260, EASY);
    seen.cgroups[1] = cgroup("above/victim", VICTIM, MIB);
    seen.cgroups.push(Cgroup {
        high: Some(48 * MIB),
        ..cgroup("above", 72, MIB)
    });
    seen.homes.insert(9, "above/victim".into());
    let diagnosis = diagnose(&seen, &Target::Cgroup("above/victim".into()));
    let verdict = &diagnosis.verdicts[0];
    assert_eq!(
        (verdict.cause, verdict.culprit.as_deref()),
        (Cause::AncestorLimit, Some("/above"))
    );
    assert_eq!(verdict.remedies[0].knob, "memory.high");

    // With weir its own event says so, and the ceiling is the knob.
    seen.cgroups[3].high = None;
    seen.cgroups[3].ceilings = vec!["memory.dirty_bytes = 2097152".into()];
    seen.weir = Some("active".into());
    for stall in &mut seen.stalls {
        let Kind::Throttle(throttled) = &mut stall.kind else {
            continue;
        };
        throttled.by = Some("ancestor".into());
    }
    let verdict = &diagnose(&seen, &Target::Cgroup("above".into())).verdicts[0];
    assert_eq!(
        (verdict.cause, verdict.culprit.as_deref()),
        (Cause::AncestorLimit, Some("/above"))
    );
    assert_eq!(
        command(verdict),
        "echo 19M > /sys/fs/cgroup/above/memory.dirty_bytes"
    );
}

#[test]
fn a_strict_device() {
    let mut seen = observation(6144, 400, EASY);
    seen.devices[0].strict = Some(true);
    seen.devices[0].max_ratio = 5;
    let verdict = victim(&seen);
    assert_eq!(
        (verdict.cause, verdict.culprit.as_deref()),
        (Cause::DeviceLimit, Some("254:0"))
    );
    assert_eq!(
        command(&verdict),
        "echo 0 > /sys/class/bdi/254:0/strict_limit"
    );
    // FUSE asks for it: the share is what can be changed.
    seen.devices[0].filesystem = Some("fuse.fuse-overlayfs".into());
    assert_eq!(
        command(&victim(&seen)),
        "echo 100 > /sys/class/bdi/254:0/max_ratio"
    );
}

#[test]
fn io_max_behind_it() {
    let mut seen = observation(6144, 8000, HOST);
    let limits = IoMax {
        wbps: Some(262_144),
        ..IoMax::default()
    };
    seen.cgroups[2].io_max.insert("254:0".into(), limits);
    seen.cgroups[2].io.insert(
        "254:0".into(),
        Io {
            written: 2_500_000,
            ..Io::default()
        },
    );
    let verdict = victim(&seen);
    assert_eq!(
        (verdict.cause, verdict.culprit.as_deref()),
        (Cause::IoMax, Some("/noisy"))
    );
    assert_eq!(
        command(&verdict),
        "echo '254:0 wbps=max' > /sys/fs/cgroup/noisy/io.max"
    );
    // A limit that is not come up to is not in the way.
    seen.cgroups[2].io.insert(
        "254:0".into(),
        Io {
            written: 1_000_000,
            ..Io::default()
        },
    );
    assert_eq!(victim(&seen).cause, Cause::HostLimit);
    // Unless what is under way is more than it lets through while we look, and the disk rests.
    seen.cgroups[2].writeback = 8 << 20;
    seen.devices[0].busy_ms = 9_000;
    assert_eq!(victim(&seen).cause, Cause::HostLimit);
    seen.devices[0].busy_ms = 0;
    assert_eq!(victim(&seen).cause, Cause::IoMax);
}

#[test]
fn what_is_not_the_throttle() {
    let stalled = |waits: &[(Wait, f64)]| {
        let mut seen = observation(6144, 8000, HOST);
        seen.stalls.truncate(1);
        seen.waits
            .insert("victim".into(), waits.iter().copied().collect());
        seen.cgroups[2].io.insert(
            "254:0".into(),
            Io {
                written: 9_000_000,
                ..Io::default()
            },
        );
        seen.weir = Some("idle".into());
        victim(&seen)
    };
    let verdict = stalled(&[(Wait::Journal, 6.0), (Wait::Sync, 2.0)]);
    assert_eq!(
        (verdict.cause, verdict.culprit.as_deref()),
        (Cause::FsyncOrJournal, Some("/noisy"))
    );
    assert_eq!(
        command(&verdict),
        "echo 1M > /sys/fs/cgroup/noisy/memory.dirty_bytes"
    );
    let verdict = stalled(&[(Wait::Read, 6.0)]);
    assert_eq!(verdict.cause, Cause::NotWriteback);
    assert_eq!(
        verdict.because,
        "its tasks wait for reads from a disk, which is not writeback"
    );
    assert_eq!(stalled(&[(Wait::Reclaim, 6.0)]).cause, Cause::Reclaim);
    let verdict = stalled(&[]);
    assert_eq!(
        (verdict.cause, verdict.because.as_str()),
        (Cause::Nothing, "nothing stalled"),
        "80 ms of 10 s"
    );
}

/// A span of reclaim of a second, of which some was slept.
fn reclaim(is_for_limit: bool, slept: &[(Reason, u64)]) -> Stall {
    Stall {
        ns: 0,
        task: 9,
        kind: Kind::Reclaim(Reclaimed {
            is_for_limit,
            slept: slept
                .iter()
                .map(|(reason, ms)| (*reason, ms * 1_000_000))
                .collect(),
        }),
        slept_ns: Some(1_000_000_000),
    }
}

#[test]
fn what_reclaim_went_to_and_for_whom() {
    let seen = |stalls: Vec<Stall>, waits: &[(Wait, f64)]| {
        let mut seen = observation(6144, 400, EASY);
        seen.stalls = stalls;
        seen.waits
            .insert("victim".into(), waits.iter().copied().collect());
        seen.vmscan = Some(Vmscan::default());
        seen.cgroups[1].allocated = Some(4 * MIB);
        seen.cgroups[2].allocated = Some(900 * MIB);
        seen.cgroups[2].current = 600 * MIB;
        seen
    };
    let parts = |verdict: &Verdict| {
        let split = verdict.reclaim.as_ref().expect("the cause is reclaim");
        let parts = split.seconds.iter();
        parts
            .map(|(part, seconds)| (*part, (seconds * 10.0).round() as u64))
            .collect::<Vec<_>>()
    };
    // For the host: a neighbour took the memory.
    let mut host = seen(
        vec![
            reclaim(false, &[(Reason::Noprogress, 300)]),
            reclaim(true, &[]),
        ],
        &[(Wait::Queue, 0.6), (Wait::Fault, 0.9)],
    );
    host.stalls[1].slept_ns = Some(150_000_000);
    host.stalls.push(Stall {
        task: 40,
        kind: Kind::Kswapd(Reason::Writeback),
        ..host.stalls[0].clone()
    });
    let verdict = victim(&host);
    assert_eq!(
        (verdict.cause, verdict.culprit.as_deref()),
        (Cause::Reclaim, Some("/noisy"))
    );
    let wanted = [
        (Part::ScanningForOthers, 2),
        (Part::ScanningForItsLimit, 0),
        (Part::Noprogress, 3),
        (Part::SwapOut, 6),
    ];
    assert_eq!(
        parts(&verdict),
        wanted,
        "the queue is part of what was not slept"
    );
    assert_eq!(
        verdict.seconds_by_kind["reclaim"], 1.15,
        "kswapd's sleep is not the task's"
    );
    let split = verdict.reclaim.as_ref().expect("there");
    assert_eq!(split.kswapd_seconds[&Part::Writeback], 1.0);
    assert_eq!(split.taken[0].bytes, 900 * MIB);
    // 600 MiB, less an eighth of 1 GiB.
    assert_eq!(
        command(&verdict),
        "echo 472M > /sys/fs/cgroup/noisy/memory.high"
    );

    // What was evicted of it is read back: that counts, and can be kept from being evicted.
    host.cgroups[1].refaulted = 2 * MIB;
    let verdict = victim(&host);
    assert_eq!(*parts(&verdict).last().expect("some"), (Part::SwapIn, 9));
    assert_eq!(
        verdict.remedies[1].command,
        "echo 32M > /sys/fs/cgroup/victim/memory.low"
    );

    // For its own limit, whatever the others took.
    let mut own = seen(vec![reclaim(true, &[])], &[(Wait::OverHigh, 2.0)]);
    own.cgroups[1].high = Some(32 * MIB);
    let verdict = victim(&own);
    assert_eq!(verdict.culprit.as_deref(), Some("/victim"));
    assert_eq!(
        parts(&verdict),
        [(Part::ScanningForItsLimit, 10), (Part::OverHigh, 20)]
    );
    assert_eq!(
        command(&verdict),
        "echo 64M > /sys/fs/cgroup/victim/memory.high"
    );

    // Dirty pages of a neighbour: it is to hold fewer.
    let mut dirty = seen(vec![reclaim(false, &[(Reason::Writeback, 900)])], &[]);
    dirty.weir = Some("idle".into());
    let verdict = victim(&dirty);
    assert_eq!(
        command(&verdict),
        "echo 12M > /sys/fs/cgroup/noisy/memory.dirty_bytes"
    );

    // The victim alone took memory.
    let mut alone = seen(vec![reclaim(false, &[])], &[]);
    alone.cgroups[2].allocated = Some(0);
    let verdict = victim(&alone);
    assert_eq!(verdict.culprit.as_deref(), Some("/victim"));
    assert!(verdict.remedies.is_empty() && verdict.next.contains("only more memory"));
}

#[test]
fn who_bounds_the_drain() {
    let drain = |flushers: Flushers, busy_ms: u64| {
        let mut seen = observation(6144, 8000, HOST);
        seen.devices[0].busy_ms = busy_ms;
        seen.flushers = flushers;
        victim(&seen).drain
    };
    let flushers = Flushers {
        looks: 100,
        idle: 50,
        ..Flushers::default()
    };
    assert!(
        drain(
            Flushers {
                ran: 45,
                ..flushers
            },
            1000
        )
        .starts_with("flusher-bound")
    );
    assert!(
        drain(
            Flushers {
                in_journal: 45,
                ..flushers
            },
            9900
        )
        .starts_with("journal-bound")
    );
    let in_reclaim = Flushers {
        in_reclaim: 45,
        ..flushers
    };
    assert!(drain(in_reclaim, 9900).starts_with("reclaim-bound"));
    assert!(drain(flushers, 9900).starts_with("device-bound"));
    assert!(drain(flushers, 100).starts_with("neither"));
    // A target on this disk may explain what neither of them does.
    let mut seen = observation(6144, 8000, HOST);
    seen.cgroups[2].io_latency = vec!["254:0".into()];
    assert!(!victim(&seen).drain.contains("io.latency"));
    (seen.devices[0].busy_ms, seen.flushers) = (100, flushers);
    let said = victim(&seen).drain;
    assert!(said.contains("it may be io.latency of /noisy, "), "{said}");
    seen.cgroups[2].io_latency = vec!["8:0".into()];
    assert!(!victim(&seen).drain.contains("io.latency"));
}

/// The published host: 77 GB can be dirty, background 7.7, limit 15.5, the flusher submits 578 MB/s.
fn flusher_bound() -> Observation {
    let pages = |mb: u64| mb * 1_000_000 / 4096;
    let host = Limits {
        dirty: pages(14_000),
        background: pages(7_700),
        thresh: pages(15_500),
        ..HOST
    };
    let mut seen = observation(host.freerun(), host.dirty, host);
    let settings = seen.host.as_mut().expect("there");
    (settings.dirtyable, settings.memory) = (pages(77_000), 384 << 30);
    (seen.devices[0].written, seen.devices[0].busy_ms) = (5_780_000_000, 3_000);
    (seen.flushers.looks, seen.flushers.ran) = (100, 97);
    for stall in &mut seen.stalls {
        if let Kind::Throttle(throttled) = &mut stall.kind {
            throttled.pause.limit = host.thresh;
            throttled.pause.setpoint = policy::arith::setpoint(host.freerun(), host.thresh);
        }
    }
    seen.weir = Some("on".into());
    seen
}

#[test]
fn seconds_of_drain_where_the_flusher_is_the_bottleneck() {
    let verdict = victim(&flusher_bound());
    assert_eq!(
        command(&verdict),
        "echo 30 > /sys/module/weir/parameters/drain_seconds"
    );
    assert!(
        !verdict.drain.contains("drain_seconds"),
        "{}",
        verdict.drain
    );
    let effect = &verdict.remedies[0].effect;
    assert!(
        effect.contains("held above 16.1 GiB instead of 10.8 GiB"),
        "{effect}"
    );
    // Half as much again as writers may hold now.
    let mut slow = flusher_bound();
    slow.devices[0].written = 1_000_000_000;
    assert_eq!(victim(&slow).remedies[0].value, "173");
    let mut unloaded = flusher_bound();
    (unloaded.weir, unloaded.weir_is_installed) = (None, true);
    assert!(command(&victim(&unloaded)).starts_with("weir load && echo 30 >"));
    unloaded.weir_is_installed = false;
    assert_ne!(victim(&unloaded).remedies[0].knob, "drain_seconds");
}

#[test]
fn seconds_of_drain_that_would_not_help() {
    let not = |change: fn(&mut Observation), why: &str| {
        let mut seen = flusher_bound();
        change(&mut seen);
        let verdict = victim(&seen);
        let none = verdict.remedies.iter().all(|to| to.knob != "drain_seconds");
        assert!(none, "{why}: {:?}", verdict.remedies);
        let said = format!("drain_seconds would not help: {why}");
        assert!(verdict.drain.contains(&said), "{why}: {}", verdict.drain);
    };
    not(
        |seen| seen.devices[0].busy_ms = 9_900,
        "the disk writes no faster",
    );
    not(|seen| seen.flushers.in_journal = 97, "the journal");
    not(|seen| seen.flushers.in_reclaim = 97, "memory is scarce");
    not(
        |seen| seen.flushers.ran = 10,
        "that the flusher paces the drain was not seen",
    );
    not(
        |seen| seen.devices[0].written = 40_000_000,
        "3.8 MiB are written in a second",
    );
    not(
        |seen| {
            seen.vmscan = Some(Vmscan {
                scanned_direct: 32,
                ..Vmscan::default()
            });
        },
        "memory is scarce, tasks reclaim",
    );
    not(|seen| seen.drain_seconds = 60, "it is 60 already");
    not(
        |seen| seen.host.as_mut().expect("there").dirtyable = 30_000_000_000 / 4096,
        "more than a quarter of what can be dirty, 7.0 GiB, runs into scarce memory",
    );
}

#[test]
fn without_a_target_each_cgroup_is_judged_worst_first() {
    let mut seen = observation(6144, 8000, HOST);
    for stall in seen.stalls.iter_mut().take(20) {
        stall.task = 10;
    }
    seen.homes.insert(10, "noisy".into());
    seen.waits
        .insert("idle".into(), BTreeMap::from([(Wait::Read, 0.01)]));
    let paths = |diagnosis: Diagnosis| {
        diagnosis
            .verdicts
            .into_iter()
            .map(|verdict| verdict.cgroup)
            .collect::<Vec<_>>()
    };
    assert_eq!(paths(diagnose(&seen, &Target::Host)), ["/victim", "/noisy"]);
}

#[test]
fn without_files_who_was_throttled_is_known_to_hold_pages() {
    let mut seen = observation(6144, 8000, HOST);
    for cgroup in &mut seen.cgroups {
        (cgroup.dirty, cgroup.writeback) = (0, 0);
    }
    for stall in &mut seen.stalls {
        if let Kind::Throttle(throttled) = &mut stall.kind {
            throttled.pause.bdi_dirty = 512;
        }
    }
    let verdict = victim(&seen);
    assert_eq!(verdict.holders[0].bytes, 2 * MIB);
    assert_eq!(verdict.holders[0].cgroup, "/victim");
    seen.cgroups.retain(|cgroup| cgroup.path != "victim");
    assert_eq!(victim(&seen).holders[0].cgroup, "inode:70");
}

#[test]
fn a_process_is_judged_alone() {
    let mut seen = observation(6144, 8000, HOST);
    // Another task's, in the same cgroup.
    for stall in seen.stalls.iter_mut().take(20) {
        stall.task = 10;
    }
    seen.names.insert(9, "fio".into());
    let diagnosis = diagnose(&seen, &Target::Process(9, "victim".into()));
    assert_eq!(diagnosis.verdicts.len(), 1);
    let verdict = &diagnosis.verdicts[0];
    assert_eq!(verdict.cgroup, "/victim");
    assert_eq!((verdict.lost.count, verdict.lost.tasks), (Some(80), 1));
    assert_eq!(
        diagnosis.notes,
        ["time lost is that of process 9 (fio) alone, not of its whole cgroup"]
    );
}

#[test]
fn what_is_missing_is_said() {
    let mut seen = observation(6144, 8000, HOST);
    seen.is_live = false;
    seen.limits.clear();
    seen.cgroups.clear();
    seen.lost = 7;
    let diagnosis = diagnose(&seen, &Target::Host);
    assert_eq!(diagnosis.verdicts[0].cause, Cause::CannotTell);
    let notes = diagnosis.notes.join("\n");
    assert!(notes.contains("7 records were lost"), "{notes}");
    assert!(
        notes.contains("has no global_dirty_state events"),
        "{notes}"
    );
}

#[test]
fn a_weight_and_who_is_due_more() {
    let mut seen = observation(6144, 8000, HOST);
    seen.stalls.clear();
    seen.weir = Some("active".into());
    seen.cgroups[1].stat = Some(DirtyStat {
        weight_portion: 2000,
        weight_held: 30,
        weight_held_usec: 6_000_000,
        ..DirtyStat::default()
    });
    seen.cgroups[2].weight = Some(400);
    seen.cgroups[2].io.insert(
        "254:0".into(),
        Io {
            written: 9_000_000,
            ..Io::default()
        },
    );
    let verdict = victim(&seen);
    assert_eq!(
        (verdict.cause, verdict.culprit.as_deref()),
        (Cause::Weight, Some("/noisy"))
    );
    assert_eq!(
        verdict.limit,
        [
            "memory.dirty_weight of /victim is 100, beside /noisy 400: 20 % if all of them write; now it is due 20 % of a device"
        ]
    );
    assert_eq!(
        (
            verdict.lost.seconds,
            verdict.lost.count,
            verdict.lost.measured
        ),
        (6.0, Some(30), "counted")
    );
    assert_eq!(
        command(&verdict),
        "echo 400 > /sys/fs/cgroup/victim/memory.dirty_weight"
    );
    assert!(verdict.remedies[0].effect.contains("from 20 to 50 %"));
    assert_eq!(verdict.remedies[1].knob, "memory.dirty_min");
    // Waits that have not ended are not counted yet, but seen.
    seen.cgroups[1].stat = None;
    seen.waits
        .insert("victim".into(), [(Wait::Weight, 8.0)].into());
    let verdict = victim(&seen);
    assert_eq!(
        (verdict.cause, verdict.lost.measured),
        (Cause::Weight, "looks")
    );
}

#[test]
fn floors_that_cover_it_are_told_and_not_offered_again() {
    let mut seen = observation(6144, 8000, HOST);
    seen.weir = Some("active".into());
    seen.cgroups[1].path = "above/victim".into();
    seen.cgroups.push(Cgroup {
        dirty_min: Some(4 * MIB),
        ..cgroup("above", 72, 5 * MIB)
    });
    seen.homes = BTreeMap::from([(9, "above/victim".to_string())]);
    let look = |seen: &Observation| {
        let diagnosis = diagnose(seen, &Target::Cgroup("above/victim".into()));
        diagnosis.verdicts.into_iter().next().expect("one")
    };
    let verdict = look(&seen);
    assert_eq!(
        verdict.limit.last().map(String::as_str),
        Some(
            "/above has a floor of 4.0 MiB, for all that it and its descendants hold; they hold 5.0 MiB"
        )
    );
    assert_eq!(
        command(&verdict),
        "echo 18M > /sys/fs/cgroup/above/victim/memory.dirty_min"
    );
    // Its own is full at 12 MiB: four fifths of the host's 32 MiB less the other's 4 leave 21.
    seen.cgroups[1].dirty_min = Some(12 * MIB);
    assert_eq!(
        command(&look(&seen)),
        "echo 21M > /sys/fs/cgroup/above/victim/memory.dirty_min"
    );
    seen.cgroups[1].dirty_min = Some(22 * MIB);
    assert_eq!(look(&seen).remedies[0].knob, "memory.dirty_bytes");
}
