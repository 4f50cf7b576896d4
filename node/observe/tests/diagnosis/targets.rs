// SPDX-License-Identifier: GPL-2.0-only
//! Who is judged, and what cannot be told.

use super::*;

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
        if let StallKind::Throttle(throttled) = &mut stall.kind {
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
    assert_eq!(
        diagnosis.verdicts[0].cause,
        Cause::Throttle(Decider::Unknown)
    );
    let notes = diagnosis.notes.join("\n");
    assert!(notes.contains("7 records were lost"), "{notes}");
    assert!(
        notes.contains("has no global_dirty_state events"),
        "{notes}"
    );
}
