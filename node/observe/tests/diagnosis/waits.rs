// SPDX-License-Identifier: GPL-2.0-only
//! What is not the throttle: reclaim, fsync, reads, weights.

use super::*;

#[test]
fn what_is_not_the_throttle() {
    let stalled_beside = |written: u64, waits: &[(Wait, f64)]| {
        let mut seen = observation(6144, 8000, HOST);
        seen.stalls.truncate(1);
        seen.waits
            .insert("victim".into(), waits.iter().copied().collect());
        seen.cgroups[2].io.insert(
            "254:0".into(),
            Io {
                written: written / 10 * 9,
                ..Io::default()
            },
        );
        seen.devices[0].disk = Some("vda".into());
        seen.devices[0].queue = Some(QueueBound {
            requests: 32,
            kib: 256,
        });
        seen.devices[0].written = written;
        seen.weir = Some("idle".into());
        victim(&seen)
    };
    let stalled = |waits: &[(Wait, f64)]| stalled_beside(160 * MIB, waits);
    let verdict = stalled(&[(Wait::Journal, 6.0), (Wait::Sync, 2.0)]);
    assert_eq!(
        (verdict.cause, verdict.culprit.as_deref()),
        (Cause::FsyncOrJournal, Some("/noisy"))
    );
    let commands = |verdict: &Verdict| -> Vec<String> {
        let commands = verdict.remedies.iter();
        commands.map(|remedy| remedy.command.clone()).collect()
    };
    let both = |window: &str, requests: u64, kib: u64| {
        let directory = "/sys/block/vda/queue";
        vec![
            format!("echo {window} > /sys/fs/cgroup/noisy/memory.writeback_bytes"),
            format!(
                "echo {requests} > {directory}/nr_requests && echo {kib} > {directory}/max_sectors_kb"
            ),
        ]
    };
    assert_eq!(commands(&verdict), both("160K", 5, 32));
    let effects: Vec<&str> = verdict.remedies.iter().map(|of| &*of.effect).collect();
    assert!(effects[0].contains("about 20 ms; less is sooner, until the disk writes less"));
    assert!(effects[0].contains("`[[objective]]`"), "{}", effects[0]);
    assert!(
        effects[1].starts_with("vda has 160.0 KiB in flight at most instead of 8.0 MiB"),
        "{}",
        effects[1]
    );
    let slow = stalled_beside(10 * MIB, &[(Wait::Sync, 6.0)]);
    assert_eq!(commands(&slow), both("64K", 4, 16));
    let verdict = stalled(&[(Wait::Read, 6.0)]);
    assert_eq!(
        (verdict.cause, verdict.culprit.as_deref()),
        (Cause::NotWriteback, Some("/noisy"))
    );
    assert_eq!(
        verdict.because,
        "its tasks wait for reads from a disk, behind what /noisy writes"
    );
    assert_eq!(commands(&verdict), both("160K", 5, 32));
    let alone = stalled_beside(0, &[(Wait::Read, 6.0)]);
    assert_eq!(
        alone.because,
        "its tasks wait for reads from a disk, which is not writeback"
    );
    assert!(alone.remedies.is_empty());
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
        kind: StallKind::Reclaim(Reclaimed {
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
        kind: StallKind::Kswapd(Reason::Writeback),
        ..host.stalls[0].clone()
    });
    let verdict = victim(&host);
    assert_eq!(
        (verdict.cause, verdict.culprit.as_deref()),
        (Cause::Reclaim, Some("/noisy"))
    );
    let wanted = [
        (ReclaimPart::ScanningForOthers, 2),
        (ReclaimPart::ScanningForItsLimit, 0),
        (ReclaimPart::Noprogress, 3),
        (ReclaimPart::SwapOut, 6),
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
    assert_eq!(split.kswapd_seconds[&ReclaimPart::Writeback], 1.0);
    assert_eq!(split.taken[0].bytes, 900 * MIB);
    // 600 MiB, less an eighth of 1 GiB.
    assert_eq!(
        command(&verdict),
        "echo 472M > /sys/fs/cgroup/noisy/memory.high"
    );

    // What was evicted of it is read back: that counts, and can be kept from being evicted.
    host.cgroups[1].refaulted = 2 * MIB;
    let verdict = victim(&host);
    assert_eq!(
        *parts(&verdict).last().expect("some"),
        (ReclaimPart::SwapIn, 9)
    );
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
        [
            (ReclaimPart::ScanningForItsLimit, 10),
            (ReclaimPart::OverHigh, 20)
        ]
    );
    assert_eq!(
        command(&verdict),
        "echo 64M > /sys/fs/cgroup/victim/memory.high"
    );

    // Dirty pages of a neighbour: it is to hold fewer.
    let mut dirty = seen(vec![reclaim(false, &[(Reason::Writeback, 900)])], &[]);
    dirty.weir = Some("idle".into());
    assert_eq!(
        victim(&dirty).remedies[1].knob,
        "memory.high",
        "it takes memory, too"
    );
    dirty.cgroups[2].allocated = Some(0);
    let verdict = victim(&dirty);
    assert_eq!(verdict.culprit.as_deref(), Some("/noisy"));
    assert!(
        verdict.because.contains("meet dirty pages"),
        "{}",
        verdict.because
    );
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

    // Next to nothing can be reclaimed: who has the memory, not who took the little that was freed.
    alone.vmscan = Some(Vmscan {
        scanned_direct: 9000,
        scanned_kswapd: 1000,
        stolen_kswapd: 99,
        ..Vmscan::default()
    });
    let verdict = victim(&alone);
    assert_eq!(verdict.culprit.as_deref(), Some("/noisy"));
    assert!(
        verdict.because.ends_with("/noisy has 600.0 MiB"),
        "{}",
        verdict.because
    );
    assert!(verdict.remedies.is_empty() && verdict.next.contains("only more memory"));
    alone.vmscan.as_mut().expect("above").stolen_kswapd += 1;
    assert_eq!(victim(&alone).culprit.as_deref(), Some("/victim"));
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
    (seen.weir, seen.cgroups[2].ceilings) = (None, Vec::new());
    let command = &killed(&seen)[0].remedy.command;
    assert!(command.starts_with("weir load && echo 49152K"), "{command}");
    seen.weir = Some("off".into());
    assert_eq!(killed(&seen), [], "it is off");
}

#[test]
fn a_flusher_that_is_held_by_a_weight_is_no_task_of_the_cgroup() {
    let mut seen = observation(6144, 8000, HOST);
    seen.stalls.clear();
    seen.weir = Some("active".into());
    seen.cgroups[1].stat = Some(DirtyStat {
        weight_held: 30,
        weight_held_usec: 6_000_000,
        ..DirtyStat::default()
    });
    assert_eq!(victim(&seen).cause, Cause::Nothing);
}
