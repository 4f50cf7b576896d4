// SPDX-License-Identifier: GPL-2.0-only
//! A trace: events by time, names of tasks, what was lost, and which events there could have been
//! at all. The last matters: a trace without an event may be one in which it did not happen, or one
//! that did not record it.

use super::bounds::Plausible;
use super::event::{Event, Limits, What};
use std::collections::{BTreeMap, BTreeSet};

/// Events of a stretch of time.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// Events, ordered by time.
    pub events: Vec<Event>,
    /// Names of tasks, by id, where they are known.
    pub names: BTreeMap<u32, String>,
    /// Events that are in it or, in a live trace, were asked for; without their system.
    pub seen: BTreeSet<String>,
    /// Records the buffer had no room for.
    pub lost: u64,
    /// Parts that could not be read, for people.
    pub damage: Vec<String>,
}

impl Trace {
    /// Leaves out what came after. What has not ended by then counts up to the last event: these
    /// limits.
    pub(crate) fn cut_after(&mut self, (ns, limits): (u64, Limits)) {
        self.events.retain(|event| event.ns <= ns);
        self.events.push(Event {
            ns,
            task: 0,
            what: What::Limits(limits),
        });
        self.clean_events();
    }

    /// Leaves out events that cannot be, and brings the others in order of time; those of one time
    /// keep theirs.
    pub(crate) fn clean_events(&mut self) {
        let read = self.events.len();
        self.events.retain(Plausible::is_plausible);
        if self.events.len() < read {
            let lost = read - self.events.len();
            self.damage.push(format!(
                "{lost} events have numbers that cannot be and were left out"
            ));
        }
        self.events.sort_by_key(|event| event.ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::event::{Pause, WOKE};
    use crate::model::stall;

    #[test]
    fn what_counts_is_what_was_slept_between_beginning_and_end() {
        let pause = |pause_ms| {
            What::Pause(Pause {
                pause_ms,
                ..Pause::default()
            })
        };
        let event = |ms: u64, task, what| Event {
            ns: ms * 1_000_000,
            task,
            what,
        };
        let mut trace = Trace {
            // As CPUs hand them out: one after the other.
            events: vec![
                event(0, 1, pause(50)),
                event(50, 1, What::Woke),
                event(60, 1, pause(100)),
                event(20, 2, pause(10)),
                event(30, 2, What::Woke),
                event(103, 2, pause(20)),
                event(0, 3, What::ReclaimBegan),
            ],
            seen: [WOKE.to_string()].into(),
            ..Trace::default()
        };
        trace.cut_before(100_000_000);
        trace.events.extend([
            event(123, 2, What::Woke),
            event(165, 1, What::Woke),
            event(250, 1, pause(100)),
            event(301, 2, pause(10)),
            event(350, 1, What::Woke),
        ]);
        trace.cut_after((300_000_000, Limits::default()));
        let mut slept: BTreeMap<u32, u64> = BTreeMap::new();
        for stall in stall::find_stalls(&trace) {
            *slept.entry(stall.task).or_default() += stall.length_ns() / 1_000_000;
        }
        assert_eq!(slept, [(1, 65 + 50), (2, 20), (3, 200)].into());
    }
}
