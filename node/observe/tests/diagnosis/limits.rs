// SPDX-License-Identifier: GPL-2.0-only
//! The throttle: whose limit it is, and what changes that.

use super::*;
use observe::diagnosis::Why;

#[test]
fn the_hosts_limit_and_who_fills_it() {
    let mut seen = observation(6144, 8000, HOST);
    seen.cgroups[1].has_memory = true;
    let verdict = victim(&seen);
    assert_eq!(
        (verdict.cause, verdict.culprit.as_deref()),
        (Cause::Throttle(Decider::Host), Some("/noisy"))
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
        levels.map(|level| level.to_sentence("/victim")).collect()
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
        (Cause::Throttle(Decider::Cgroup), Some("/victim"))
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
    // A file does not tell how much memory there is: no more than four times the limit.
    let mut file = seen.clone();
    (file.host, file.is_live) = (None, false);
    let remedies = victim(&file).remedies;
    let raised = remedies.iter().find(|of| of.knob == "vm.dirty_bytes");
    let raised = raised
        .expect("named")
        .value
        .parse::<u64>()
        .expect("a number");
    assert!(raised <= 4 * EASY.thresh * 4096, "{raised}");
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
    seen.stalls.truncate(30);
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
fn nothing_helps_a_writer_that_outruns_its_disk() {
    let mut seen = observation(6144, 8000, HOST);
    seen.cgroups[1].dirty = 31 * MIB;
    seen.cgroups[2].dirty = 0;
    // Held for 80 % of the time: it would dirty 4 MiB a second more than the disk's one.
    let verdict = victim(&seen);
    assert_eq!(
        (verdict.cause, verdict.remedies.len()),
        (Cause::Throttle(Decider::Host), 0)
    );
    let unchanged = verdict.unchanged.expect("told");
    assert_eq!(unchanged.why, Why::NothingHelps);
    assert!(
        unchanged
            .because
            .ends_with("writes, 1.0 MiB/s, and a limit of twice 32.0 MiB would be full within 8 s"),
        "{}",
        unchanged.because
    );
    // A burst now and then passes below a higher limit.
    seen.stalls.truncate(30);
    assert_eq!(command(&victim(&seen)), "sysctl -w vm.dirty_bytes=67108864");
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
        (Cause::Throttle(Decider::Ancestor), Some("/above"))
    );
    assert_eq!(verdict.remedies[0].knob, "memory.high");

    // With weir its own event says so, and the ceiling is the knob.
    seen.cgroups[3].high = None;
    seen.cgroups[3].ceilings = vec!["memory.dirty_bytes = 2097152".into()];
    seen.weir = Some("active".into());
    for stall in &mut seen.stalls {
        let StallKind::Throttle(throttled) = &mut stall.kind else {
            continue;
        };
        throttled.by = Some("ancestor".into());
    }
    let verdict = &diagnose(&seen, &Target::Cgroup("above".into())).verdicts[0];
    assert_eq!(
        (verdict.cause, verdict.culprit.as_deref()),
        (Cause::Throttle(Decider::Ancestor), Some("/above"))
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
        (Cause::Throttle(Decider::Device), Some("254:0"))
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
    assert_eq!(victim(&seen).cause, Cause::Throttle(Decider::Host));
    // Unless what is under way is more than it lets through while we look, and the disk rests.
    seen.cgroups[2].writeback = 8 << 20;
    seen.devices[0].busy_ms = 9_000;
    assert_eq!(victim(&seen).cause, Cause::Throttle(Decider::Host));
    seen.devices[0].busy_ms = 0;
    assert_eq!(victim(&seen).cause, Cause::IoMax);
}

#[test]
fn io_max_of_the_disk_below_the_filesystems_device() {
    let mut seen = observation(6144, 8000, HOST);
    seen.devices[0].below = vec!["8:0".into()];
    let limits = IoMax {
        wbps: Some(262_144),
        ..IoMax::default()
    };
    let io = Io {
        written: 2_500_000,
        ..Io::default()
    };
    let noisy = &mut seen.cgroups[2];
    noisy.io_max.insert("8:0".into(), limits);
    noisy.io = ["254:0", "8:0"].map(|device| (device.into(), io)).into();
    let verdict = victim(&seen);
    assert_eq!(verdict.cause, Cause::IoMax);
    assert_eq!(
        command(&verdict),
        "echo '8:0 wbps=max' > /sys/fs/cgroup/noisy/io.max"
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
