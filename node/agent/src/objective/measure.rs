// SPDX-License-Identifier: GPL-2.0-only
//! What an objective is about, measured over the time that counts.

use super::settings::{Bound, ObjectiveSettings};
use observe::syncs::Timed;
use policy::objective::spare_values;
use std::collections::VecDeque;
use std::fs;
use std::path::PathBuf;

/// Calls that are kept at most: a second of a thousand tasks that sync as fast as a disk can.
const MOST: usize = 100_000;
/// Time after which a call or stall does not count any more: the policy's window.
const WINDOW_NS: u64 = 10_000_000_000;

/// Measures for one objective.
#[derive(Debug, Default)]
pub struct Measure {
    /// Start and duration of each call that has ended; by their end.
    calls: VecDeque<(u64, u64)>,
    /// Times, and the microseconds that tasks of the cgroups had waited by then.
    stalls: VecDeque<(u64, u64)>,
}

impl Measure {
    /// A call of one of the objective's cgroups has ended.
    pub fn add_call(&mut self, call: &Timed) {
        self.calls.push_back((call.began_ns, call.took_ns));
        if self.calls.len() > MOST {
            self.calls.pop_front();
        }
    }

    /// Forgets what is too old to count.
    fn forget_old(&mut self, now_ns: u64) {
        let since = now_ns.saturating_sub(WINDOW_NS);
        while self
            .calls
            .front()
            .is_some_and(|(began, took)| began + took < since)
        {
            self.calls.pop_front();
        }
        // One from before the window remains, to measure the whole of it.
        while self.stalls.get(1).is_some_and(|(at, _)| *at <= since) {
            self.stalls.pop_front();
        }
    }

    /// The value since `since_ns`, nanoseconds or millionths of the time; none if nothing can be
    /// said. `under_way` are calls of the objective's cgroups that have not ended.
    pub fn measured_value(
        &mut self,
        settings: &ObjectiveSettings,
        since_ns: u64,
        now_ns: u64,
        under_way: &[Timed],
        directories: &[PathBuf],
    ) -> Option<u64> {
        self.forget_old(now_ns);
        match settings.bound {
            Bound::Calls { per_mille, ns, .. } => {
                // One that may still end in time says nothing yet.
                let late = under_way.iter().filter(|call| call.took_ns > ns);
                let late = late.map(|call| (call.began_ns, call.took_ns));
                let all = self.calls.iter().copied().chain(late);
                let counted = all.filter(|(began, _)| *began >= since_ns);
                let mut times: Vec<u64> = counted.map(|(_, took)| took).collect();
                times.sort_unstable_by(|a, b| b.cmp(a));
                let spared = spare_values(times.len() as u64, per_mille);
                times.get(usize::try_from(spared).ok()?).copied()
            }
            Bound::Pressure { file, .. } => {
                let stalled = directories.iter().filter_map(|directory| {
                    let text = fs::read_to_string(directory.join(file)).ok()?;
                    parse_total_us(&text)
                });
                self.stalls.push_back((now_ns, stalled.max()?));
                let from = self.stalls.iter().find(|(at, _)| *at >= since_ns);
                let ((begin, before), (end, after)) = (*from?, *self.stalls.back()?);
                let us = (end - begin) / 1_000;
                let ppm = after.saturating_sub(before).saturating_mul(1_000_000);
                (us > 0).then(|| ppm / us)
            }
        }
    }
}

/// Microseconds in which some task waited, of a file of pressure.
fn parse_total_us(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    line.rsplit_once("total=")?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Rules;

    fn settings(bound: &str) -> ObjectiveSettings {
        let text = format!("[[objective]]\ncgroup = \"/db\"\nlimit = \"/batch\"\n{bound}\n");
        let rules = Rules::parse("a.toml", &text).expect("valid");
        rules.objectives[0].clone()
    }

    const MS: u64 = 1_000_000;

    fn call(began_ms: u64, took_ms: u64) -> Timed {
        Timed {
            cgroup: "/db".into(),
            began_ns: began_ms * MS,
            took_ns: took_ms * MS,
        }
    }

    #[test]
    fn a_percentile_is_of_what_began_in_the_time_that_counts() {
        let of = settings("fsync_p99 = \"10ms\"");
        let mut measure = Measure::default();
        let value = |measure: &mut Measure, since_ms: u64, under_way: &[Timed]| {
            measure.measured_value(&of, since_ms * MS, 30_000 * MS, under_way, &[])
        };
        assert_eq!(value(&mut measure, 0, &[]), None);
        measure.add_call(&call(1_000, 900));
        measure.add_call(&call(21_000, 300));
        for at in 0..40 {
            measure.add_call(&call(22_000 + at * 50, 5));
        }
        assert_eq!(
            value(&mut measure, 20_000, &[]),
            Some(5 * MS),
            "one exception"
        );
        assert_eq!(measure.calls.len(), 41, "what is older is forgotten");
        // One under way counts if it is late already.
        let late = call(29_000, 1_000);
        assert_eq!(
            value(&mut measure, 20_000, std::slice::from_ref(&late)),
            Some(300 * MS)
        );
        assert_eq!(value(&mut measure, 29_000, &[call(29_995, 5)]), None);
        assert_eq!(value(&mut measure, 29_000, &[late]), Some(1_000 * MS));
    }

    #[test]
    fn pressure_is_the_part_of_the_time_that_counts() {
        let dir = tempfile::tempdir().expect("made");
        let of = settings("io_pressure = \"5%\"");
        let mut measure = Measure::default();
        let mut at = |second: u64, waited_us: u64, since: u64| {
            let text = format!(
                "some avg10=0.00 avg60=0.00 avg300=0.00 total={waited_us}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
            );
            fs::write(dir.path().join("io.pressure"), text).expect("written");
            let directories = [dir.path().to_path_buf()];
            measure.measured_value(
                &of,
                since * 1_000 * MS,
                second * 1_000 * MS,
                &[],
                &directories,
            )
        };
        assert_eq!(at(1, 0, 0), None, "one look is none");
        assert_eq!(at(2, 500_000, 0), Some(500_000));
        assert_eq!(at(3, 500_000, 0), Some(250_000));
        assert_eq!(at(4, 600_000, 3), Some(100_000));
        assert_eq!(at(5, 600_000, 5), None);
    }
}
