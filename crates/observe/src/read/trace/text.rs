// SPDX-License-Identifier: GPL-2.0-only
//! Events as text: what `cat trace`, `trace-cmd report` and `perf script` print.
//!
//! ```text
//!      fio-412   [001] d..1.  81.203456: balance_dirty_pages: bdi 254:0: limit=8192 setpoint=7168 ...
//!      fio   412 [001]        81.203456: writeback:balance_dirty_pages: bdi 254:0: limit=8192 ...
//! ```
//!
//! Common to all: the CPU in brackets, then the time and a colon, then the event's name and a
//! colon. What is before the bracket is the task's name and id, joined by a dash or by spaces.

use super::decode::{self, Lacks};
use crate::model::trace::Trace;
use anyhow::{Result, bail};
use knobs::PageSize;
use std::collections::BTreeMap;

/// Reads all lines. Those that are no events (comments, stack frames, other output) are skipped. Text
/// does not tell the size of the kernel's pages: 4 KiB are assumed.
///
/// # Errors
/// There is no event in it, or one that is understood lacks a field.
pub fn read(text: &str) -> Result<Trace> {
    let mut trace = Trace::default();
    let mut lines = 0;
    for (number, line) in text.lines().enumerate() {
        if let Some(lost) = lost(line) {
            trace.lost = trace.lost.saturating_add(lost);
            continue;
        }
        let Some(line) = Line::parse(line) else {
            continue;
        };
        lines += 1;
        let fields = fields(line.rest);
        let before = trace.events.len();
        let decoded = decode::decode(
            line.event,
            line.ns,
            line.task,
            &fields,
            PageSize::default(),
            &mut trace.events,
        );
        match decoded {
            Ok(()) => {}
            Err(Lacks(field)) => bail!(
                "line {}: the event {} has no field `{field}`",
                number + 1,
                line.event
            ),
        }
        if trace.events.len() > before {
            trace.seen.insert(line.event.into());
            trace
                .names
                .entry(line.task)
                .or_insert_with(|| line.name.into());
        }
    }
    if lines == 0 {
        bail!(
            "no event in it: wanted is text as `cat trace`, `trace-cmd report` or `perf script` print it"
        );
    }
    trace.settle();
    Ok(trace)
}

struct Line<'a> {
    name: &'a str,
    task: u32,
    ns: u64,
    event: &'a str,
    rest: &'a str,
}

impl Line<'_> {
    fn parse(line: &str) -> Option<Line<'_>> {
        if line.starts_with('#') {
            return None;
        }
        let (task, rest) = line.split_once(" [")?;
        let (cpu, rest) = rest.split_once(']')?;
        cpu.parse::<u32>().ok()?;
        // `cat trace` may put the thread group between the task and the CPU: `fio-412   (   410)
        // [001]`.
        let task = task.split('(').next()?.trim();
        let (name, id) = task.rsplit_once(['-', ' '])?;
        // Up to four flags or none, then the time; the name of the event is the word after it.
        let (ns, rest) = rest.split_once(": ").and_then(|(before, rest)| {
            Some((seconds(before.split_whitespace().next_back()?)?, rest))
        })?;
        let (event, rest) = rest.trim_start().split_once(':')?;
        // `perf script` names the system first, and another colon follows.
        let (event, rest) = match rest.split_once(':') {
            Some((after, tail)) if !after.is_empty() && !after.contains([' ', '=']) => {
                (after, tail)
            }
            _ => (event, rest),
        };
        Some(Line {
            name: name.trim(),
            task: id.parse().ok()?,
            ns,
            event: event.trim(),
            rest,
        })
    }
}

/// Nanoseconds from `81.203456`.
fn seconds(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.')?;
    if part.is_empty() || part.len() > 9 {
        return None;
    }
    let scale = 10u64.pow(9 - u32::try_from(part.len()).ok()?);
    whole
        .parse::<u64>()
        .ok()?
        .checked_mul(1_000_000_000)?
        .checked_add(part.parse::<u64>().ok()? * scale)
}

/// `name=value` pairs, and the device from `bdi 254:0:`.
fn fields(text: &str) -> BTreeMap<&str, &str> {
    let mut fields: BTreeMap<&str, &str> = text
        .split_whitespace()
        .filter_map(|word| word.split_once('='))
        .collect();
    let bdi = text
        .trim_start()
        .strip_prefix("bdi ")
        .and_then(|rest| rest.split_once(": "));
    if let Some((bdi, _)) = bdi {
        fields.insert("bdi", bdi);
    }
    fields
}

/// `CPU:1 [LOST 42 EVENTS]`, or as perf has it, `LOST 42 events`.
fn lost(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once("LOST ")?;
    let (number, rest) = rest.split_once(' ')?;
    rest.to_ascii_lowercase()
        .starts_with("events")
        .then(|| number.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::event::What;
    use crate::model::reclaim::{Reason, Slept};

    const REST: &str = "bdi 254:0: limit=8192 setpoint=7168 dirty=7300 bdi_setpoint=7100 bdi_dirty=7290 \
        dirty_ratelimit=400 task_ratelimit=300 dirtied=8 dirtied_pause=8 paused=0 pause=104 period=106 think=2 cgroup_ino=77";

    #[test]
    fn every_writer_of_text_is_understood() {
        for head in [
            "             fio-412     [001] d..1.    81.203456: balance_dirty_pages: ",
            "             fio-412     (    410) [001] d..1.    81.203456: balance_dirty_pages: ",
            "             fio-412   [001]    81.203456: balance_dirty_pages: ",
            "             fio-412   [001]    81.203456: balance_dirty_pages:  ",
            "fio   412 [001]    81.203456: writeback:balance_dirty_pages: ",
        ] {
            let trace = read(&format!("# tracer: nop\n\n{head}{REST}\n")).expect("read");
            assert_eq!(trace.events.len(), 1, "{head}");
            let event = &trace.events[0];
            assert_eq!((event.ns, event.task), (81_203_456_000, 412), "{head}");
            assert_eq!(trace.names[&412], "fio");
            let What::Pause(pause) = &event.what else {
                panic!("{event:?}")
            };
            assert_eq!(
                (
                    pause.bdi.as_str(),
                    pause.freerun(),
                    pause.pause_ms,
                    pause.cgroup
                ),
                ("254:0", 6144, 104, 77)
            );
        }
    }

    #[test]
    fn a_switch_is_two_events() {
        let text = "a b-1 [000] d..2. 1.5: sched_switch: prev_comm=a b prev_pid=1 prev_prio=120 prev_state=D ==> next_comm=x next_pid=2 next_prio=120\n";
        let trace = read(text).expect("read");
        let got: Vec<_> = trace
            .events
            .iter()
            .map(|e| (e.task, e.what.clone()))
            .collect();
        assert_eq!(got, [(1, What::SwitchedOut(true)), (2, What::SwitchedIn)]);
    }

    /// `TP_printk("nid=%d usec_timeout=%d usect_delayed=%d reason=%s")` of Linux, and what
    /// trace-cmd prints from the event's format.
    #[test]
    fn reclaim_that_slept_is_read_in_both_spellings() {
        for delayed in ["usect_delayed", "usec_delayed"] {
            let text = format!(
                "kswapd0-41 [000] ..... 9.250000: mm_vmscan_throttled: nid=0 usec_timeout=100000 \
                 {delayed}=104000 reason=VMSCAN_THROTTLE_WRITEBACK\n"
            );
            let trace = read(&text).expect(delayed);
            let slept = Slept {
                us: 104_000,
                timeout_us: 100_000,
                reason: Reason::Writeback,
            };
            assert_eq!(trace.events[0].what, What::ReclaimSlept(slept));
        }
    }

    #[test]
    fn losses_are_counted() {
        let text = format!(
            "CPU:1 [LOST 42 EVENTS]\nfio-1 [000] .... 1.000000: balance_dirty_pages: {REST}\n"
        );
        assert_eq!(read(&text).expect("read").lost, 42);
    }

    #[test]
    fn what_cannot_be_used_is_refused() {
        let error = |text: &str| format!("{:#}", read(text).expect_err("refused"));
        assert!(error("hello\n").contains("no event in it"));
        assert!(
            error("fio-1 [000] .... 1.000000: balance_dirty_pages: bdi 8:0: limit=3\n")
                .contains("line 1: the event balance_dirty_pages has no field `setpoint`")
        );
    }
}
