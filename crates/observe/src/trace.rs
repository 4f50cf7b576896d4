// SPDX-License-Identifier: GPL-2.0-only
//! Traces: the kernel's events of a stretch of time, from a live kernel or from another program's
//! file.
//!
//! Whatever the source, the result is one [`Trace`]: events by time, names of tasks, what was lost,
//! and which events there could have been at all. The last matters: a trace without an event may be
//! one in which it did not happen, or one that did not record it.

pub(crate) mod dat;
pub mod event;
pub(crate) mod format;
pub(crate) mod ring;
pub(crate) mod text;

use crate::plausible::Plausible;
use crate::stall;
use anyhow::{Result, bail};
use event::{Event, Lacks, Limits, What};
use format::Format;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Events of a stretch of time.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// All events, ordered by time.
    pub events: Vec<Event>,
    /// Of tasks, by id, where they are known.
    pub names: BTreeMap<u32, String>,
    /// Events that are in it or, in a live trace, were asked for; without their system.
    pub seen: BTreeSet<String>,
    /// Records the buffer had no room for.
    pub lost: u64,
    /// Parts that could not be read, for people.
    pub damage: Vec<String>,
}

impl Trace {
    /// From a file's content: `trace.dat`, or text of ftrace, trace-cmd or perf.
    ///
    /// # Errors
    /// It is none of the kinds that are understood.
    pub fn read(bytes: &[u8]) -> Result<Trace> {
        if bytes.is_empty() {
            bail!("it is empty");
        }
        if dat::is_dat(bytes) {
            return dat::read(bytes);
        }
        if bytes.starts_with(b"PERFILE2") {
            bail!("it is a perf.data file: make text of it, with `perf script -i FILE`");
        }
        match std::str::from_utf8(bytes) {
            Ok(text) if !text.contains('\0') => text::read(text),
            _ => bail!("it is neither a trace.dat file nor text"),
        }
    }

    /// Leaves out what came before, but for what goes on at that time, which begins then.
    pub(crate) fn begin(&mut self, ns: u64) {
        self.settle();
        let after = self.events.partition_point(|event| event.ns <= ns);
        let after = self.events.split_off(after);
        self.events = stall::carried(self, ns);
        self.events.extend(after);
    }

    /// Leaves out what came after. What has not ended by then counts up to the last event: these
    /// limits.
    pub(crate) fn end(&mut self, (ns, limits): (u64, Limits)) {
        self.events.retain(|event| event.ns <= ns);
        self.events.push(Event {
            ns,
            task: 0,
            what: What::Limits(limits),
        });
        self.settle();
    }

    /// Leaves out events that cannot be, and brings the others in order of time; those of one time
    /// keep theirs.
    pub(crate) fn settle(&mut self) {
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

/// Formats of the events that are understood, by id.
#[derive(Default)]
pub(crate) struct Formats(HashMap<u16, Format>);

impl Formats {
    /// Keeps the format in `text` if its event is understood.
    pub fn add(&mut self, text: &str) -> Result<()> {
        let format = Format::parse(text)?;
        if event::is_known(&format.name) {
            self.0.insert(format.id, format);
        }
        Ok(())
    }

    /// Decodes a page of the ring buffer into `trace`; true if all of it was fine.
    pub fn page(&self, bytes: &[u8], trace: &mut Trace) -> Result<bool> {
        let mut lacks = None;
        let read = ring::page(bytes, &mut |raw| {
            let [low, high, ..] = *raw.bytes else { return };
            let Some(format) = self.0.get(&u16::from_le_bytes([low, high])) else {
                return;
            };
            let record = format.record(raw.bytes);
            let task = event::Fields::number(&record, "common_pid");
            let task = task.and_then(|task| u32::try_from(task).ok()).unwrap_or(0);
            if let Err(Lacks(field)) =
                event::decode(&format.name, raw.ns, task, &record, &mut trace.events)
            {
                lacks = Some((format.name.clone(), field));
            }
            if !trace.seen.contains(&format.name) {
                trace.seen.insert(format.name.clone());
            }
        });
        trace.lost = trace.lost.saturating_add(read.lost);
        match lacks {
            Some((event, field)) => bail!("its event {event} has no field `{field}`"),
            None => Ok(!read.damaged),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_trace_is_refused() {
        for (bytes, why) in [
            (&b""[..], "it is empty"),
            (b"PERFILE2\0\0", "make text of it, with `perf script"),
            (b"\x7fELF\0\0", "neither a trace.dat file nor text"),
            (b"<html>", "no event in it"),
        ] {
            let error = format!("{:#}", Trace::read(bytes).expect_err("refused"));
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn what_counts_is_what_was_slept_between_beginning_and_end() {
        let pause = |pause_ms| {
            What::Pause(event::Pause {
                pause_ms,
                ..event::Pause::default()
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
            seen: [event::WOKE.to_string()].into(),
            ..Trace::default()
        };
        trace.begin(100_000_000);
        trace.events.extend([
            event(123, 2, What::Woke),
            event(165, 1, What::Woke),
            event(250, 1, pause(100)),
            event(301, 2, pause(10)),
            event(350, 1, What::Woke),
        ]);
        trace.end((300_000_000, Limits::default()));
        let mut slept: BTreeMap<u32, u64> = BTreeMap::new();
        for stall in stall::all(&trace) {
            *slept.entry(stall.task).or_default() += stall.length_ns() / 1_000_000;
        }
        assert_eq!(slept, [(1, 65 + 50), (2, 20), (3, 200)].into());
    }

    proptest! {
        #[test]
        fn no_input_is_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Trace::read(&bytes);
            let mut dat = b"\x17\x08\x44tracing".to_vec();
            dat.extend(&bytes);
            let _ = Trace::read(&dat);
        }

        #[test]
        fn no_text_is_too_strange(text in "[a-z0-9 .:=\\-\\[\\]()]{0,80}\n[ -~]{0,80}") {
            let _ = Trace::read(text.as_bytes());
        }
    }
}
