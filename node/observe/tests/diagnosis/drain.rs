// SPDX-License-Identifier: GPL-2.0-only
//! What bounds the drain, and whether seconds of drain would help.

use super::*;

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
                ..flushers.clone()
            },
            1000
        )
        .starts_with("flusher-bound")
    );
    assert!(
        drain(
            Flushers {
                in_journal: 45,
                ..flushers.clone()
            },
            9900
        )
        .starts_with("journal-bound")
    );
    let in_reclaim = Flushers {
        in_reclaim: 45,
        ..flushers.clone()
    };
    assert!(drain(in_reclaim, 9900).starts_with("reclaim-bound"));
    assert!(drain(flushers.clone(), 9900).starts_with("device-bound"));
    assert!(drain(flushers.clone(), 100).starts_with("neither"));
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

/// A device of LVM or dm-crypt has work for as long as a task submits it; the disk below is idle.
#[test]
fn a_disk_below_tells_whether_it_could_do_more() {
    let mut seen = observation(6144, 8000, HOST);
    let mut disk = seen.devices[0].clone();
    (disk.bdi, disk.disk, disk.mounted_at) = ("8:0".into(), Some("sda".into()), None);
    disk.busy_ms = 4_300;
    (seen.devices[0].busy_ms, seen.devices[0].below) = (10_000, vec!["8:0".into()]);
    seen.devices.push(disk);
    (seen.flushers.looks, seen.flushers.ran) = (100, 97);
    let said = victim(&seen).drain;
    assert!(said.starts_with("flusher-bound"), "{said}");
    assert!(said.ends_with("its disks busy 43 % of the time"), "{said}");
    seen.devices[1].busy_ms = 9_900;
    assert!(victim(&seen).drain.starts_with("device-bound"));
    // Requests that a flusher gathers count as the disk's work; one that ran in every round says
    // otherwise.
    seen.flushers.rounds = 100;
    seen.flushers.ran_for = [("254:0".into(), 97)].into();
    let said = victim(&seen).drain;
    assert!(said.starts_with("flusher-bound"), "{said}");
    seen.flushers.ran_for = [("254:0".into(), 60), ("8:0".into(), 97)].into();
    assert!(victim(&seen).drain.starts_with("device-bound"));
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
    let mut seen = observation(host.freerun_pages(), host.dirty, host);
    let settings = seen.host.as_mut().expect("there");
    (settings.dirtyable, settings.memory) = (pages(77_000), 384 << 30);
    (seen.devices[0].written, seen.devices[0].busy_ms) = (5_780_000_000, 3_000);
    (seen.flushers.looks, seen.flushers.ran) = (100, 97);
    for stall in &mut seen.stalls {
        if let StallKind::Throttle(throttled) = &mut stall.kind {
            throttled.pause.limit = host.thresh;
            throttled.pause.setpoint =
                policy::arith::setpoint_level(host.freerun_pages(), host.thresh);
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
        "echo 35 > /sys/module/weir/parameters/drain_seconds"
    );
    assert!(
        !verdict.drain.contains("drain_seconds"),
        "{}",
        verdict.drain
    );
    let effect = &verdict.remedies[0].effect;
    assert!(
        effect.contains("held above 18.8 GiB instead of 10.8 GiB"),
        "{effect}"
    );
    // Of what is available, not only of what can be dirty.
    let mut full = flusher_bound();
    full.host.as_mut().expect("there").available = Some(35_000_000_000);
    assert_eq!(victim(&full).remedies[0].value, "24");
    let mut unloaded = flusher_bound();
    (unloaded.weir, unloaded.weir_is_installed) = (None, true);
    assert!(command(&victim(&unloaded)).starts_with("weir load && echo 35 >"));
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
        "3.8 MiB are written in a second, and no seconds",
    );
    not(
        |seen| seen.flushers.ran = 70,
        "551.2 MiB are written in a second, and no seconds",
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
        "551.2 MiB are written in a second, and no seconds of that are both more than 10.8 GiB",
    );
}

#[test]
fn writers_are_split_where_one_flusher_is_not_enough() {
    let mut seen = flusher_bound();
    let more = |seen: &Observation| {
        let remedies = victim(seen).remedies.into_iter();
        let found = remedies.filter(|remedy| ["[assist]", "cgroup.procs"].contains(&&*remedy.knob));
        found.map(|remedy| remedy.knob).collect::<Vec<_>>()
    };
    // A process to be moved is one that was seen.
    assert_eq!(more(&seen), ["[assist]"]);
    seen.stalls[0].task = 10;
    seen.homes.insert(10, "noisy".into());
    assert_eq!(more(&seen), ["[assist]", "cgroup.procs"]);
    let split = |seen: &Observation| {
        let remedies = victim(seen).remedies.into_iter();
        let mut found = remedies.filter(|remedy| remedy.knob == "cgroup.procs");
        found.next()
    };
    let remedy = split(&seen).expect("named");
    assert_eq!(remedy.value, "4");
    assert_eq!(
        remedy.command,
        "mkdir /sys/fs/cgroup/noisy.2 && echo 10 > /sys/fs/cgroup/noisy.2/cgroup.procs"
    );
    for words in [
        "leaves 254:0 idle for 70 % of the time",
        "split the writers of /noisy over 4 cgroups, for up to 1.8 GiB/s",
        "one process cannot be split",
    ] {
        assert!(remedy.effect.contains(words), "{}", remedy.effect);
    }
    seen.weir = Some("off".into());
    assert!(split(&seen).is_some(), "stock has it");
    seen.devices[0].filesystem = Some("btrfs".into());
    assert_eq!(more(&seen), ["cgroup.procs"]);
    seen.devices[0].filesystem = Some("nfs".into());
    assert_eq!(split(&seen), None, "one flusher whatever the cgroups");
    seen.devices[0].filesystem = None;
    seen.devices[0].busy_ms = 9_900;
    assert_eq!(split(&seen), None, "the disk is what they wait for");
}
