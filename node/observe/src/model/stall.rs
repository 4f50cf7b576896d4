// SPDX-License-Identifier: GPL-2.0-only
//! From events to stalls: what began with one event and ended with another.
//!
//! A pause that the throttle announces is slept only if the task goes to sleep: an asynchronous
//! writer (io_uring) is told to come back instead. So its length is taken from what shows the end:
//! weir's own probe, or a recorded `sched_switch`. Example: announced 100 ms at 7.000 s, woke at
//! 7.113 s: 113 ms, of which 13 were waiting for a CPU.

use super::event::{Event, Limits, Pause, WOKE, What};
use super::reclaim::{Reason, Reclaimed};
use super::trace::Trace;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Time a task lost.
#[derive(Clone, Debug, PartialEq)]
pub struct Stall {
    /// The time at which it began, on the trace's clock.
    pub ns: u64,
    /// Id of the stalled task.
    pub task: u32,
    /// The limit or event that the task waited for.
    pub kind: StallKind,
    /// The length, if the end was seen.
    pub slept_ns: Option<u64>,
}

/// Why a task lost time.
#[derive(Clone, Debug, PartialEq)]
pub enum StallKind {
    /// A pause in the throttle.
    Throttle(Box<Throttled>),
    /// Direct reclaim, or that of a cgroup.
    Reclaim(Reclaimed),
    /// kswapd's sleep, which frees memory for others: no time of theirs.
    Kswapd(Reason),
    /// A call of fsync, or a wait for the journal.
    Sync,
}

/// A pause in the throttle.
#[derive(Clone, Debug, PartialEq)]
pub struct Throttled {
    /// The pause as the event announced it.
    pub pause: Pause,
    /// The domain that decided, where weir's module said so.
    pub by: Option<String>,
    /// The host's limits in the same pass, where the trace has them.
    pub host: Option<Limits>,
}

impl Stall {
    /// The length; the announced one where the end was not seen.
    pub fn length_ns(&self) -> u64 {
        self.slept_ns.unwrap_or(match &self.kind {
            StallKind::Throttle(throttled) => {
                u64::try_from(throttled.pause.pause_ms).unwrap_or(0) * 1_000_000
            }
            StallKind::Reclaim(_) | StallKind::Kswapd(_) | StallKind::Sync => 0,
        })
    }
}

/// Two events of one pass are not further apart.
const SAME_PASS_NS: u64 = 1_000_000;
/// Time from the throttle's event to the switch that begins its sleep, on a slow machine.
const FALLS_ASLEEP_NS: u64 = 5_000_000;

/// A task between events.
#[derive(Default)]
struct Task {
    /// Index of its pause that has not ended.
    paused: Option<usize>,
    /// `true` if it was switched out to sleep since.
    is_out: bool,
    /// `weir:dirty_pause` came before the kernel's own event; they come in either order.
    decided: Option<(u64, String)>,
    limits: Option<(u64, Limits)>,
    reclaims: Option<(u64, Reclaimed)>,
    syncs_since: Option<u64>,
    /// Outside of fsync.
    journal_since: Option<u64>,
}

/// Finds all stalls of a trace, by their beginning.
pub fn find_stalls(trace: &Trace) -> Vec<Stall> {
    let ends_are_seen = trace.seen.contains(WOKE);
    let switches = trace.seen.contains("sched_switch") && !ends_are_seen;
    let mut tasks: HashMap<u32, Task> = HashMap::new();
    let mut stalls: Vec<Stall> = Vec::new();
    for event in &trace.events {
        let task = tasks.entry(event.task).or_default();
        match &event.what {
            What::Pause(pause) => {
                if let Some(before) = task.paused.take() {
                    if ends_are_seen || switches {
                        // It was back without having slept.
                        stalls[before].slept_ns = Some(0);
                    } else {
                        // It was back by now, whatever was announced.
                        let passed = event.ns.saturating_sub(stalls[before].ns);
                        shorten_pause(&mut stalls[before], passed);
                    }
                }
                let near = |ns: u64| event.ns.saturating_sub(ns) < SAME_PASS_NS;
                let by = task
                    .decided
                    .take()
                    .filter(|(ns, _)| near(*ns))
                    .map(|(_, by)| by);
                if pause.pause_ms <= 0 {
                    continue;
                }
                task.paused = Some(stalls.len());
                task.is_out = false;
                let host = task
                    .limits
                    .filter(|(ns, _)| near(*ns))
                    .map(|(_, limits)| limits);
                let kind = StallKind::Throttle(Box::new(Throttled {
                    pause: pause.clone(),
                    by,
                    host,
                }));
                stalls.push(Stall {
                    ns: event.ns,
                    task: event.task,
                    kind,
                    slept_ns: None,
                });
            }
            What::DecidedBy(by) => match task.paused.map(|at| &mut stalls[at]) {
                Some(Stall {
                    ns,
                    kind: StallKind::Throttle(throttled),
                    ..
                }) if throttled.by.is_none() && event.ns.saturating_sub(*ns) < SAME_PASS_NS => {
                    throttled.by = Some(by.clone());
                }
                _ => task.decided = Some((event.ns, by.clone())),
            },
            What::Woke => {
                if let Some(at) = task.paused.take() {
                    stalls[at].slept_ns = Some(event.ns - stalls[at].ns);
                }
            }
            What::SwitchedOut(true) if switches => {
                task.is_out = task
                    .paused
                    .is_some_and(|at| event.ns - stalls[at].ns < FALLS_ASLEEP_NS);
            }
            What::SwitchedIn if switches && task.is_out => {
                if let Some(at) = task.paused.take() {
                    stalls[at].slept_ns = Some(event.ns - stalls[at].ns);
                }
                task.is_out = false;
            }
            What::Limits(limits) => task.limits = Some((event.ns, *limits)),
            What::ReclaimBegan | What::LimitReclaimBegan => {
                let reclaimed = Reclaimed {
                    is_for_limit: event.what == What::LimitReclaimBegan,
                    ..Reclaimed::default()
                };
                task.reclaims = Some((event.ns, reclaimed));
            }
            What::ReclaimEnded => {
                if let Some((ns, reclaimed)) = task.reclaims.take() {
                    push_span(Some(ns), event, StallKind::Reclaim(reclaimed), &mut stalls);
                }
            }
            What::ReclaimSlept(slept) => {
                let begin = event.ns.saturating_sub(slept.us * 1000);
                if let Some((_, reclaimed)) = &mut task.reclaims {
                    reclaimed.add_sleep(*slept);
                } else if is_kswapd(&trace.names, &trace.seen, event.task) {
                    push_span(
                        Some(begin),
                        event,
                        StallKind::Kswapd(slept.reason),
                        &mut stalls,
                    );
                } else {
                    let mut reclaimed = Reclaimed::default();
                    reclaimed.add_sleep(*slept);
                    push_span(
                        Some(begin),
                        event,
                        StallKind::Reclaim(reclaimed),
                        &mut stalls,
                    );
                }
            }
            What::SyncBegan => task.syncs_since = Some(event.ns),
            What::SyncEnded => {
                push_span(task.syncs_since.take(), event, StallKind::Sync, &mut stalls)
            }
            // An fsync that waits for the journal counts as a whole.
            What::JournalBegan if task.syncs_since.is_none() => {
                task.journal_since = Some(event.ns);
            }
            What::JournalBegan => {}
            What::JournalEnded => push_span(
                task.journal_since.take(),
                event,
                StallKind::Sync,
                &mut stalls,
            ),
            What::SwitchedOut(_)
            | What::SwitchedIn
            | What::Rate(_)
            | What::Forked(_)
            | What::Moved(..)
            | What::ReadQueued(..)
            | What::ReadCompleted(..) => {}
        }
    }
    end_open_stalls(trace, &tasks, ends_are_seen || switches, &mut stalls);
    stalls.sort_by_key(|stall| stall.ns);
    stalls
}

/// Leaves of an announced pause what had passed when the task looked again.
fn shorten_pause(stall: &mut Stall, passed_ns: u64) {
    if let StallKind::Throttle(throttled) = &mut stall.kind {
        let passed = i64::try_from(passed_ns.div_ceil(1_000_000)).unwrap_or(i64::MAX);
        throttled.pause.pause_ms = throttled.pause.pause_ms.min(passed);
    }
}

/// Returns whether a task that sleeps in reclaim that has no beginning is kswapd. A live look does
/// not know kernel threads' names, but what begins.
pub fn is_kswapd(names: &BTreeMap<u32, String>, seen: &BTreeSet<String>, task: u32) -> bool {
    match names.get(&task) {
        Some(name) => name.starts_with("kswapd"),
        None => seen.iter().any(|event| event.ends_with("reclaim_begin")),
    }
}

fn push_span(since: Option<u64>, end: &Event, kind: StallKind, stalls: &mut Vec<Stall>) {
    if let Some(ns) = since {
        stalls.push(Stall {
            ns,
            task: end.task,
            kind,
            slept_ns: Some(end.ns - ns),
        });
    }
}

/// Ends stalls that had not ended when the trace did: they count up to there.
fn end_open_stalls(
    trace: &Trace,
    tasks: &HashMap<u32, Task>,
    ends_are_seen: bool,
    stalls: &mut Vec<Stall>,
) {
    let Some(end) = trace.events.last().map(|event| event.ns) else {
        return;
    };
    for (id, task) in tasks {
        if let Some(at) = task.paused.filter(|_| ends_are_seen) {
            let stall = &mut stalls[at];
            stall.slept_ns = Some(stall.length_ns().min(end - stall.ns));
        }
        let reclaims = task.reclaims.iter();
        let reclaims = reclaims.map(|(ns, of)| (*ns, StallKind::Reclaim(of.clone())));
        let syncs = task.syncs_since.iter().chain(&task.journal_since);
        let syncs = syncs.map(|ns| (*ns, StallKind::Sync));
        for (ns, kind) in reclaims.chain(syncs) {
            stalls.push(Stall {
                ns,
                task: *id,
                kind,
                slept_ns: Some(end - ns),
            });
        }
    }
}

impl Trace {
    /// Leaves out what came before, but for what goes on at that time, which begins then.
    pub(crate) fn cut_before(&mut self, ns: u64) {
        self.clean_events();
        let after = self.events.partition_point(|event| event.ns <= ns);
        let after = self.events.split_off(after);
        self.events = carried_events(self, ns);
        self.events.extend(after);
    }
}

/// Events of stalls that have begun and not ended at `ns`, as if they began there: for readers of a
/// trace in slices. Of a pause what was announced and not slept yet is left. Example: 100 ms
/// announced at 7.000 s, cut at 7.060 s: the slice before has 60 ms, the next begins with a pause
/// of 40 ms, and its real end counts.
pub(crate) fn carried_events(trace: &Trace, ns: u64) -> Vec<Event> {
    let ends_are_seen = trace.seen.contains(WOKE);
    let mut pauses: BTreeMap<u32, Vec<&Event>> = BTreeMap::new();
    let mut spans: BTreeMap<(u32, u8), &Event> = BTreeMap::new();
    for event in &trace.events {
        match &event.what {
            What::Pause(pause) if pause.pause_ms > 0 && ends_are_seen => {
                let kept = pauses.entry(event.task).or_default();
                kept.retain(|before| {
                    matches!(before.what, What::DecidedBy(_))
                        && event.ns.saturating_sub(before.ns) < SAME_PASS_NS
                });
                kept.push(event);
            }
            What::Pause(_) | What::Woke => {
                pauses.remove(&event.task);
            }
            What::DecidedBy(_) => pauses.entry(event.task).or_default().push(event),
            What::ReclaimBegan | What::LimitReclaimBegan => {
                spans.insert((event.task, 0), event);
            }
            What::ReclaimEnded => {
                spans.remove(&(event.task, 0));
            }
            What::SyncBegan => {
                spans.insert((event.task, 1), event);
            }
            What::SyncEnded => {
                spans.remove(&(event.task, 1));
            }
            What::JournalBegan => {
                spans.insert((event.task, 2), event);
            }
            What::JournalEnded => {
                spans.remove(&(event.task, 2));
            }
            _ => {}
        }
    }
    // In the order of kinds: an fsync under way hides a wait for the journal in it.
    let mut spans: Vec<((u32, u8), &Event)> = spans.into_iter().collect();
    spans.sort_by_key(|((_, kind), _)| *kind);
    let mut carried: Vec<Event> = spans.into_iter().map(|(_, event)| event.clone()).collect();
    for events in pauses.into_values() {
        let left = events.iter().find_map(|event| match &event.what {
            What::Pause(pause) => {
                let passed = i64::try_from(ns.saturating_sub(event.ns) / 1_000_000).ok()?;
                Some(pause.pause_ms - passed).filter(|left| *left > 0)
            }
            _ => None,
        });
        let Some(left) = left else { continue };
        carried.extend(events.into_iter().cloned().map(|mut event| {
            if let What::Pause(pause) = &mut event.what {
                pause.pause_ms = left;
            }
            event
        }));
    }
    for event in &mut carried {
        event.ns = ns;
    }
    carried
}

#[cfg(test)]
mod tests {
    use super::super::reclaim::Slept;
    use super::*;

    fn trace(events: &[(u64, u32, What)], seen: &[&str]) -> Trace {
        Trace {
            events: events
                .iter()
                .map(|(ms, task, what)| Event {
                    ns: ms * 1_000_000,
                    task: *task,
                    what: what.clone(),
                })
                .collect(),
            seen: seen.iter().map(|name| name.to_string()).collect(),
            ..Trace::default()
        }
    }

    fn pause(ms: i64) -> What {
        What::Pause(Pause {
            pause_ms: ms,
            ..Pause::default()
        })
    }

    fn lengths(stalls: &[Stall]) -> Vec<Option<u64>> {
        stalls
            .iter()
            .map(|stall| stall.slept_ns.map(|ns| ns / 1_000_000))
            .collect()
    }

    #[test]
    fn a_pause_lasts_until_the_task_runs_again() {
        let events = [
            (0, 1, pause(100)),
            (5, 2, pause(10)),
            (113, 1, What::Woke),
            (120, 2, What::Woke),
            (130, 1, pause(-3)),
        ];
        assert_eq!(
            lengths(&find_stalls(&trace(&events, &[WOKE]))),
            [Some(113), Some(115)]
        );
    }

    #[test]
    fn an_announced_pause_may_not_be_slept() {
        let events = [(0, 1, pause(100)), (1, 1, pause(100)), (90, 1, What::Woke)];
        assert_eq!(
            lengths(&find_stalls(&trace(&events, &[WOKE]))),
            [Some(0), Some(89)]
        );
        // Without anything that shows the end, only the announcement is known.
        let stalls = find_stalls(&trace(&events[..2], &[]));
        assert_eq!(lengths(&stalls), [None, None]);
        assert_eq!(stalls[1].length_ns(), 100_000_000);
        assert_eq!(stalls[0].length_ns(), 1_000_000, "it was back by then");
    }

    #[test]
    fn switches_show_the_end_too() {
        let events = [
            (0, 1, pause(100)),
            (1, 1, What::SwitchedOut(true)),
            (50, 2, What::SwitchedIn),
            (104, 1, What::SwitchedIn),
            (200, 1, pause(100)),
            (260, 1, What::SwitchedOut(true)),
            (300, 1, What::SwitchedIn),
        ];
        let stalls = find_stalls(&trace(&events, &["sched_switch"]));
        assert_eq!(
            lengths(&stalls),
            [Some(104), Some(100)],
            "the second was not slept in the throttle"
        );
    }

    #[test]
    fn who_decided_comes_before_or_after() {
        let by = |name: &str| What::DecidedBy(name.into());
        for events in [
            [(0, 1, pause(9)), (0, 1, by("host")), (9, 1, What::Woke)],
            [(0, 1, by("host")), (0, 1, pause(9)), (9, 1, What::Woke)],
        ] {
            let stalls = find_stalls(&trace(&events, &[WOKE]));
            let StallKind::Throttle(throttled) = &stalls[0].kind else {
                panic!()
            };
            assert_eq!(throttled.by.as_deref(), Some("host"));
        }
    }

    #[test]
    fn what_has_not_ended_counts_to_the_end() {
        let events = [
            (0, 1, pause(100)),
            (10, 2, What::ReclaimBegan),
            (40, 3, What::SyncBegan),
            (60, 3, What::SyncEnded),
        ];
        let stalls = find_stalls(&trace(&events, &[WOKE]));
        let kinds: Vec<_> = stalls
            .iter()
            .map(|stall| (stall.task, stall.length_ns() / 1_000_000))
            .collect();
        assert_eq!(kinds, [(1, 60), (2, 50), (3, 20)]);
    }

    #[test]
    fn sleeps_in_reclaim_are_the_tasks_or_kswapds() {
        let slept = |ms: u64| {
            What::ReclaimSlept(Slept {
                us: ms * 1000,
                timeout_us: 100_000,
                reason: Reason::Writeback,
            })
        };
        let events = [
            (0, 1, What::ReclaimBegan),
            (10, 2, What::LimitReclaimBegan),
            (30, 1, slept(20)),
            (40, 1, What::ReclaimEnded),
            (45, 2, What::ReclaimEnded),
            (50, 3, slept(8)),
        ];
        let stalls = find_stalls(&trace(&events, &["mm_vmscan_direct_reclaim_begin"]));
        let of = |is_for_limit, slept: &[(Reason, u64)]| {
            StallKind::Reclaim(Reclaimed {
                is_for_limit,
                slept: slept.iter().copied().collect(),
            })
        };
        let kinds: Vec<_> = stalls.iter().map(|stall| stall.kind.clone()).collect();
        let task = of(false, &[(Reason::Writeback, 20_000_000)]);
        let kswapd = StallKind::Kswapd(Reason::Writeback);
        assert_eq!(kinds, [task, of(true, &[]), kswapd]);
        // Without spans a task that is called otherwise is none of kswapd's.
        let mut alone = trace(&events[5..], &["mm_vmscan_throttled"]);
        alone.names.insert(3, "fio".into());
        let stalls = find_stalls(&alone);
        assert_eq!(stalls[0].kind, of(false, &[(Reason::Writeback, 8_000_000)]));
        assert_eq!(
            (stalls[0].ns, stalls[0].length_ns()),
            (42_000_000, 8_000_000)
        );
    }

    #[test]
    fn slices_add_up() {
        let by = What::DecidedBy("host".into());
        let mut first = trace(
            &[
                (0, 1, pause(100)),
                (10, 1, What::Woke),
                (20, 1, by),
                (20, 1, pause(100)),
                (25, 2, What::ReclaimBegan),
                (30, 3, pause(10)),
                // the end of the slice
                (60, 0, What::Limits(Limits::default())),
            ],
            &[WOKE],
        );
        let next = carried_events(&first, 60_000_000);
        let mut events: Vec<_> = next
            .iter()
            .map(|event| (event.task, event.what.clone()))
            .collect();
        events.sort_by_key(|event| event.0);
        assert_eq!(
            events,
            [
                (1, What::DecidedBy("host".into())),
                (1, pause(60)),
                (2, What::ReclaimBegan)
            ]
        );
        let total = |trace: &Trace| {
            find_stalls(trace)
                .iter()
                .filter(|stall| stall.task == 1)
                .map(|stall| stall.length_ns() / 1_000_000)
                .sum::<u64>()
        };
        assert_eq!(total(&first), 50);
        let mut second = trace(&[(115, 1, What::Woke)], &[WOKE]);
        second.events.splice(0..0, next);
        assert_eq!(total(&second), 55);
        // Without ends the announcement counts, whole and once.
        first.seen.clear();
        assert_eq!(carried_events(&first, 60_000_000).len(), 1);
    }
}
