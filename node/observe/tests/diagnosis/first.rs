// SPDX-License-Identifier: GPL-2.0-only
//! What is said at first contact: without the module, of umount, of FUSE, of culprits, of nothing that
//! helps.

use super::*;
use observe::diagnosis::Why;

/// A task of /victim that looks found waiting for this, of 10 s; /noisy writes nearly all that is
/// written, and holds 30 of 31 MiB.
fn waiting(waits: &[(Wait, f64)]) -> Observation {
    let mut seen = observation(6144, 400, EASY);
    seen.stalls.clear();
    seen.waits
        .insert("victim".into(), waits.iter().copied().collect());
    seen.within = Some(BTreeMap::new());
    seen.cgroups[2].io.insert(
        "254:0".into(),
        Io {
            written: 72 * MIB,
            ..Io::default()
        },
    );
    seen.devices[0].disk = Some("vda".into());
    seen.devices[0].written = 80 * MIB;
    seen.devices[0].queue = Some(QueueBound {
        requests: 32,
        kib: 256,
    });
    seen
}

fn commands(verdict: &Verdict) -> Vec<&str> {
    let remedies = verdict.remedies.iter();
    remedies.map(|remedy| remedy.command.as_str()).collect()
}

#[test]
fn fsync_without_the_module_has_the_kernels_own_knob_and_weirs() {
    let mut seen = waiting(&[(Wait::Sync, 9.0)]);
    let stock = "echo 4 > /sys/block/vda/queue/nr_requests && echo 20 > /sys/block/vda/queue/max_sectors_kb";
    let weirs = "weir load && echo 80K > /sys/fs/cgroup/noisy/memory.writeback_bytes";
    // Not installed: what is there comes first.
    let verdict = victim(&seen);
    assert_eq!(commands(&verdict), [stock, weirs]);
    assert!(verdict.remedies[1].effect.contains("is not installed"));
    seen.weir_is_installed = true;
    assert_eq!(commands(&victim(&seen)), [weirs, stock]);
    // A window that is as narrow already is halved, never widened.
    seen.weir = Some("active".into());
    seen.cgroups[2].window = Some(160 << 10);
    assert_eq!(
        commands(&victim(&seen))[0],
        "echo 80K > /sys/fs/cgroup/noisy/memory.writeback_bytes"
    );
    seen.cgroups[2].window = Some(64 << 10);
    assert_eq!(commands(&victim(&seen)).len(), 1, "no narrower window");
}

#[test]
fn umount_waits_for_all_that_is_dirty() {
    let seen = waiting(&[(Wait::Flush, 9.0)]);
    let verdict = victim(&seen);
    assert_eq!(
        (verdict.cause, verdict.culprit.as_deref()),
        (Cause::FsyncOrJournal, Some("/noisy"))
    );
    assert!(
        verdict.because.contains("umount") && verdict.because.ends_with("most of them /noisy's"),
        "{}",
        verdict.because
    );
    // 8 MiB a second are written, and 32 of 977 MiB may be dirty.
    assert_eq!(
        commands(&verdict),
        [
            "sysctl -w vm.dirty_bytes=4194304",
            "echo 123M > /sys/fs/cgroup/noisy/memory.high",
            "weir load && echo 4M > /sys/fs/cgroup/noisy/memory.dirty_bytes"
        ]
    );
    // A ceiling that is lower already is not raised.
    let mut seen = seen;
    seen.weir = Some("active".into());
    seen.cgroups[2].ceilings = vec!["memory.dirty_bytes = 2097152".into()];
    assert_eq!(
        commands(&victim(&seen)),
        ["sysctl -w vm.dirty_bytes=4194304"]
    );
}

#[test]
fn an_fsync_counts_once_however_it_is_seen() {
    let mut seen = waiting(&[(Wait::Other, 0.5)]);
    seen.stalls.push(Stall {
        ns: 0,
        task: 9,
        kind: StallKind::Sync,
        slept_ns: Some(8_000_000_000),
    });
    // Looks inside of it said something else, and more.
    let looked = BTreeMap::from([("victim".to_string(), [(Wait::Other, 8.1)].into())]);
    seen.within = Some(looked);
    let verdict = victim(&seen);
    assert_eq!(verdict.cause, Cause::FsyncOrJournal);
    assert_eq!(
        (verdict.lost.seconds, verdict.lost.count, verdict.lost.some),
        (8.0, Some(1), 0.8)
    );
}

#[test]
fn an_fsync_behind_anothers_io_max_is_told_and_mended() {
    let mut seen = waiting(&[(Wait::Journal, 9.0)]);
    seen.devices[0].busy_ms = 1_200;
    let limits = IoMax {
        wbps: Some(8 * MIB),
        ..IoMax::default()
    };
    seen.cgroups[2].io_max.insert("254:0".into(), limits);
    let verdict = victim(&seen);
    assert_eq!(
        (verdict.cause, verdict.culprit.as_deref()),
        (Cause::IoMax, Some("/noisy"))
    );
    // Lifted without a bound in its place it would make a flood of the cgroup.
    assert_eq!(
        commands(&verdict),
        [
            "echo 4 > /sys/block/vda/queue/nr_requests && echo 20 > /sys/block/vda/queue/max_sectors_kb",
            "weir load && echo 8192K > /sys/fs/cgroup/noisy/memory.dirty_bandwidth && echo '254:0 wbps=max' > \
             /sys/fs/cgroup/noisy/io.max"
        ]
    );
    // A disk that is busy is what they wait for.
    seen.devices[0].busy_ms = 9_900;
    assert_eq!(victim(&seen).cause, Cause::FsyncOrJournal);
}

#[test]
fn clients_of_fuse_wait_for_what_their_daemon_waits_for() {
    let mut seen = observation(6144, 8000, HOST);
    seen.waits
        .insert("victim".into(), [(Wait::Fuse, 9.5)].into());
    seen.within = Some(BTreeMap::new());
    // The daemon is in the root cgroup, which holds the pages.
    seen.fuse_daemons.insert(9);
    seen.homes.insert(9, String::new());
    seen.names.insert(9, "fuse-overlayfs".into());
    // A bound on a flood alone leaves the daemon too little.
    let flood = victim(&seen);
    assert_eq!(flood.culprit.as_deref(), Some("/noisy"));
    let both = command(&flood);
    assert!(
        both.starts_with("echo 367M > /sys/fs/cgroup/noisy/memory.high && "),
        "{both}"
    );
    assert!(
        both.ends_with("sysctl -w vm.dirty_bytes=67108864"),
        "{both}"
    );
    assert!(!flood.remedies[1].command.contains("&&"));
    seen.cgroups[2].dirty = 52 << 10;
    let verdict = victim(&seen);
    assert_eq!(
        (verdict.cause, verdict.culprit.as_deref()),
        (Cause::Throttle(Decider::Host), Some("/"))
    );
    assert_eq!(verdict.cgroup, "/victim");
    assert!(
        verdict
            .because
            .contains("FUSE filesystem, fuse-overlayfs (9)")
            && verdict.because.ends_with("/ has most of them"),
        "{}",
        verdict.because
    );
    assert_eq!(verdict.lost.seconds, 9.5);
    // A daemon that is not held explains nothing.
    seen.fuse_daemons.clear();
    let verdict = victim(&seen);
    assert_eq!(verdict.cause, Cause::NotWriteback);
    assert_eq!(verdict.unchanged.expect("told").why, Why::NotShown);
}

#[test]
fn a_culprit_is_held_on_purpose_and_comes_last() {
    let mut seen = observation(6144, 8000, HOST);
    // The flood is throttled longer than its victim.
    for stall in seen.stalls.iter_mut().take(60) {
        stall.task = 10;
    }
    seen.homes.insert(10, "noisy".into());
    let verdicts = diagnose(&seen, &Target::Host).verdicts;
    let paths: Vec<&str> = verdicts
        .iter()
        .map(|verdict| verdict.cgroup.as_str())
        .collect();
    assert_eq!(paths, ["/victim", "/noisy"]);
    let culprit = &verdicts[1];
    assert!(culprit.is_on_purpose && culprit.remedies.is_empty());
    assert!(
        culprit
            .because
            .ends_with("/victim waits for it, so it is held on purpose"),
        "{}",
        culprit.because
    );
    let unchanged = culprit.unchanged.as_ref().expect("told");
    assert_eq!(
        (unchanged.why, unchanged.command.as_str()),
        (Why::NothingHelps, "weir explain /victim")
    );
    // One that is asked for alone is told what changes it.
    let alone = diagnose(&seen, &Target::Cgroup("noisy".into()));
    assert!(!alone.verdicts[0].remedies.is_empty());
}

#[test]
fn no_cgroup_is_blamed_that_holds_less_than_half() {
    let mut seen = observation(6144, 8000, HOST);
    seen.cgroups[2].dirty = 12 * MIB;
    seen.cgroups.push(cgroup("other", 72, 11 * MIB));
    let verdict = victim(&seen);
    assert_eq!(
        (verdict.cause, &verdict.culprit),
        (Cause::Throttle(Decider::Host), &None)
    );
    assert!(
        verdict
            .because
            .contains("no cgroup holds half of them: /noisy holds most, 12.0 MiB of 31.2 MiB"),
        "{}",
        verdict.because
    );
}

#[test]
fn what_does_not_help_is_told_from_what_is_not_shown() {
    let unchanged = |seen: &Observation| victim(seen).unchanged.expect("told");
    let mut alone = waiting(&[(Wait::Sync, 9.0)]);
    alone.cgroups[2].io.clear();
    let told = unchanged(&alone);
    assert_eq!(told.why, Why::NothingHelps);
    assert!(
        told.to_sentence().starts_with("known: nothing helps: "),
        "{}",
        told.to_sentence()
    );
    let told = unchanged(&waiting(&[(Wait::Lock, 9.0)]));
    assert_eq!(told.why, Why::NotShown);
    assert!(
        told.command
            .contains("/sys/fs/cgroup/victim/cgroup.threads"),
        "{}",
        told.command
    );
}

#[test]
fn anonymous_memory_over_memory_high_is_not_helped_by_twice_as_much() {
    let mut seen = waiting(&[(Wait::OverHigh, 9.0)]);
    seen.vmscan = Some(Vmscan::default());
    let group = &mut seen.cgroups[1];
    (group.high, group.current, group.file) = (Some(64 * MIB), 64 * MIB, MIB);
    assert_eq!(
        command(&victim(&seen)),
        "echo 128M > /sys/fs/cgroup/victim/memory.high"
    );
    seen.host.as_mut().expect("there").swap = Some(0);
    let verdict = victim(&seen);
    assert_eq!(
        command(&verdict),
        "echo max > /sys/fs/cgroup/victim/memory.high"
    );
    assert!(
        verdict.remedies[0].effect.contains("63.0 MiB"),
        "{}",
        verdict.remedies[0].effect
    );
}
