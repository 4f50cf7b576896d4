// SPDX-License-Identifier: GPL-2.0-only
//! Whose `memory.dirty_bandwidth` holds a cgroup's writers.
//!
//! Each bound on the path holds; the one that is told is the least. Example: `/batch` may dirty 8
//! MiB a second and `/batch/a` 2 MiB: writers of `/batch/a` wait for their own, those of `/batch/b`
//! for the one above.

use super::command::cgroup_file;
use super::group::Group;
use super::remedy::{Remedy, echo_command, whole_mib};
use super::verdict::{Cause, Verdict};
use crate::model::cgroup::{display_path, path_up};
use crate::model::observation::Observation;
use crate::model::text::format_size;
use knobs::Knob;

/// Fills in a verdict for writers that wait for what they may dirty a second.
pub fn judge_bandwidth(seen: &Observation, group: &Group, verdict: &mut Verdict) {
    let bounds =
        path_up(&group.path).filter_map(|path| Some((path, seen.cgroup_at(path)?.bandwidth?)));
    let least = bounds.min_by_key(|(_, bytes)| *bytes);
    let file = Knob::DirtyBandwidth.file_name();
    verdict.cause = Cause::Bandwidth;
    verdict.next = "each pass waits until what its cgroup dirtied is paid for, a second at most; the host's dirty pages do not matter".into();
    let Some((path, bytes)) = least else {
        // It was cleared meanwhile.
        verdict.because = format!("its writers waited for a {file} that is not there any more");
        return;
    };
    verdict.culprit = Some(display_path(path));
    verdict.because = format!("its writers wait for {file} of {}", display_path(path));
    verdict.limit = vec![format!(
        "{file} of {} is {}/s, for all that it and its descendants dirty",
        display_path(path),
        format_size(bytes)
    )];
    verdict.remedies = double_bandwidth(path, bytes).into_iter().collect();
}

/// Twice as much, unless there is no more.
fn double_bandwidth(path: &str, bytes: u64) -> Option<Remedy> {
    let twice = bytes.saturating_mul(2);
    let (_, most) = Knob::DirtyBandwidth.value_range();
    let value = match twice {
        _ if twice > most => return None,
        0..MIB => format!("{}K", twice.div_ceil(1 << 10)),
        _ => whole_mib(twice),
    };
    let effect = format!("{} may dirty twice as much a second", display_path(path));
    let file = Knob::DirtyBandwidth.file_name();
    Some(echo_command(file, &value, &cgroup_file(path, file), effect))
}

const MIB: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::diagnose;
    use crate::model::cgroup::Cgroup;
    use crate::model::dirty_stat::DirtyStat;
    use crate::model::target::Target;
    use crate::model::wait::Wait;
    use policy::pause::Decider;

    fn cgroup(path: &str, bandwidth: u64, held_usec: u64) -> Cgroup {
        Cgroup {
            path: path.into(),
            bandwidth: Some(bandwidth),
            stat: Some(DirtyStat {
                bandwidth_held: held_usec / 100_000,
                bandwidth_held_usec: held_usec,
                ..DirtyStat::default()
            }),
            ..Cgroup::default()
        }
    }

    fn verdict(seen: &Observation) -> Verdict {
        let diagnosis = diagnose(seen, &Target::Cgroup("batch/a".into()));
        diagnosis.verdicts.into_iter().next().expect("one")
    }

    #[test]
    fn the_least_on_the_path_is_told_and_doubled() {
        let mut seen = Observation {
            seconds: 10.0,
            cgroups: vec![
                cgroup("batch", 8 * MIB, 0),
                cgroup("batch/a", 96 << 10, 6_000_000),
            ],
            ..Observation::default()
        };
        let told = verdict(&seen);
        assert_eq!(
            (told.cause, told.culprit.as_deref()),
            (Cause::Bandwidth, Some("/batch/a"))
        );
        assert_eq!((told.lost.seconds, told.lost.count), (6.0, Some(60)));
        assert_eq!(
            told.limit,
            [
                "memory.dirty_bandwidth of /batch/a is 96.0 KiB/s, for all that it and its descendants dirty"
            ]
        );
        let command = |verdict: &Verdict| verdict.remedies[0].command.clone();
        assert_eq!(
            command(&told),
            "echo 192K > /sys/fs/cgroup/batch/a/memory.dirty_bandwidth"
        );
        seen.cgroups[1].bandwidth = None;
        let told = verdict(&seen);
        assert_eq!(told.culprit.as_deref(), Some("/batch"));
        assert_eq!(
            command(&told),
            "echo 16M > /sys/fs/cgroup/batch/memory.dirty_bandwidth"
        );
        // Waits that have not ended are not counted yet, but seen.
        seen.cgroups[1].stat = None;
        seen.waits
            .insert("batch/a".into(), [(Wait::Bandwidth, 8.0)].into());
        assert_eq!(
            (verdict(&seen).cause, verdict(&seen).lost.measured),
            (Cause::Bandwidth, "looks")
        );
    }

    #[test]
    fn a_full_ceiling_is_told_without_any_pause() {
        let mut seen = Observation {
            seconds: 10.0,
            cgroups: vec![Cgroup {
                path: "batch".into(),
                ceilings: vec!["memory.dirty_bytes = 8388608".into()],
                dirty: 8 * MIB,
                ..Cgroup::default()
            }],
            ..Observation::default()
        };
        seen.waits
            .insert("batch/a".into(), [(Wait::Ceiling, 5.0)].into());
        let told = verdict(&seen);
        assert_eq!(
            (told.cause, told.culprit.as_deref()),
            (Cause::Throttle(Decider::Ancestor), Some("/batch"))
        );
        assert!(
            told.limit[0].starts_with("/batch has memory.dirty_bytes = 8388608"),
            "{told:?}"
        );
        assert_eq!(told.lost.seconds, 5.0);
    }
}
