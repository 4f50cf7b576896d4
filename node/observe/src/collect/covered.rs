// SPDX-License-Identifier: GPL-2.0-only
//! Which looks at sleeping tasks fall inside of what events report: the same sleep must not count
//! twice, and the event knows better what it is for.

use crate::model::event::{Event, What};
use std::collections::BTreeMap;

/// A kind of span; a task may be in one of each.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Span {
    Pause,
    Reclaim,
    Sync,
    Journal,
}

/// Spans of tasks that have not ended, and those that ended since the last looks.
#[derive(Default)]
pub struct Covered {
    open: BTreeMap<(u32, Span), u64>,
    closed: BTreeMap<u32, Vec<(u64, u64)>>,
}

impl Covered {
    /// Takes the events since the last time, in any order.
    pub fn note_events(&mut self, events: &[Event]) {
        self.closed.clear();
        let mut spans: Vec<&Event> = events
            .iter()
            .filter(|event| span_of_event(&event.what).is_some())
            .collect();
        // Each CPU has its own buffer.
        spans.sort_by_key(|event| event.ns);
        for event in spans {
            let Some((span, is_end)) = span_of_event(&event.what) else {
                continue;
            };
            if !is_end {
                self.open.insert((event.task, span), event.ns);
            } else if let Some(began) = self.open.remove(&(event.task, span)) {
                let closed = self.closed.entry(event.task).or_default();
                closed.push((began, event.ns));
            }
        }
    }

    /// Returns whether the task was in a span then.
    pub fn is_covered(&self, task: u32, ns: u64) -> bool {
        let open = self.open.range((task, Span::Pause)..=(task, Span::Journal));
        let mut open = open.map(|(_, began)| (*began, u64::MAX));
        let mut closed = self.closed.get(&task).into_iter().flatten().copied();
        let holds = |(began, ended): (u64, u64)| began <= ns && ns <= ended;
        open.any(holds) || closed.any(holds)
    }

    /// Forgets tasks that are gone.
    pub fn retain_tasks(&mut self, is_there: impl Fn(u32) -> bool) {
        self.open.retain(|(task, _), _| is_there(*task));
    }
}

/// The span that an event begins or, if so, ends.
fn span_of_event(what: &What) -> Option<(Span, bool)> {
    Some(match what {
        What::Pause(pause) if pause.pause_ms > 0 => (Span::Pause, false),
        What::Pause(_) | What::Woke => (Span::Pause, true),
        What::ReclaimBegan | What::LimitReclaimBegan => (Span::Reclaim, false),
        What::ReclaimEnded => (Span::Reclaim, true),
        What::SyncBegan => (Span::Sync, false),
        What::SyncEnded => (Span::Sync, true),
        What::JournalBegan => (Span::Journal, false),
        What::JournalEnded => (Span::Journal, true),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_inside_of_an_event_is_told_from_one_beside_it() {
        let event = |ns, task, what| Event { ns, task, what };
        let mut covered = Covered::default();
        covered.note_events(&[
            event(30, 1, What::SyncEnded),
            event(10, 1, What::SyncBegan),
            event(20, 2, What::SyncBegan),
            event(25, 2, What::ReclaimBegan),
            event(26, 2, What::ReclaimEnded),
        ]);
        let has =
            |covered: &Covered, task, times: [u64; 3]| times.map(|ns| covered.is_covered(task, ns));
        assert_eq!(has(&covered, 1, [9, 10, 31]), [false, true, false]);
        assert_eq!(has(&covered, 2, [19, 20, 99]), [false, true, true]);
        // What has not ended goes on, what has is forgotten.
        covered.note_events(&[event(120, 2, What::SyncEnded)]);
        assert_eq!(has(&covered, 1, [10, 20, 30]), [false, false, false]);
        assert_eq!(has(&covered, 2, [99, 120, 121]), [true, true, false]);
    }
}
