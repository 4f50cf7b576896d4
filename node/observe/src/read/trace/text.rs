// SPDX-License-Identifier: GPL-2.0-only
//! Events as text: what `cat trace`, `trace-cmd report`, `perf script` and `perf trace` print.
//!
//! ```text
//!      fio-412   [001] d..1.  81.203456: balance_dirty_pages: bdi 254:0: limit=8192 setpoint=7168 ...
//!      fio   412 [001]        81.203456: writeback:balance_dirty_pages: bdi 254:0: limit=8192 ...
//!      fio 410/412            81.203456: writeback:balance_dirty_pages: bdi 254:0: limit=8192 ...
//!    203.456 fio/412 writeback:balance_dirty_pages(bdi: "254:0", limit: 8192, setpoint: 7168, ...)
//! ```
//!
//! Common to the first three: a time with a colon, then the event's name and a colon. Before the
//! time are the task's name and id, joined by a dash or by spaces, and the CPU in brackets, if that
//! is there. Lines that a terminal or a mail program wrapped are joined again.

use super::decode::{self, Fields, Lacks};
use super::hint;
use crate::model::event::{Event, What};
use crate::model::trace::Trace;
use anyhow::{Result, bail};
use knobs::PageSize;
use std::collections::{BTreeMap, BTreeSet};

/// Events that are named where none is understood.
const MOST_NAMES: usize = 5;

/// Reads all lines. Those that are no events (comments, stack frames, other output) are skipped. Text
/// does not tell the size of the kernel's pages: 4 KiB are assumed.
///
/// # Errors
/// There is no event in it that is understood, or one lacks a field.
pub fn read(text: &str) -> Result<Trace> {
    let mut trace = Trace::default();
    let mut others: BTreeSet<String> = BTreeSet::new();
    let mut lines = text.lines().map(strip_pasted).enumerate().peekable();
    while let Some((number, line)) = lines.next() {
        if let Some(lost) = lost_events(line) {
            trace.lost = trace.lost.saturating_add(lost);
            continue;
        }
        if !Line::begins_record(line) {
            continue;
        }
        let mut record = line.trim_end().to_string();
        let mut read = parse_entries(&record);
        while let Some((_, next)) = lines.peek() {
            if !goes_on(&read, next) {
                break;
            }
            join_broken(&mut record, next);
            read = parse_entries(&record);
            lines.next();
        }
        match read {
            Entries::Understood {
                name,
                task,
                event,
                events,
            } => {
                trace.seen.insert(event);
                trace.names.entry(task).or_insert(name);
                trace.events.extend(events);
            }
            Entries::Other(event) => {
                others.insert(event);
            }
            Entries::Lacks(event, field) => bail!(
                "line {}: the event {event} has no field `{field}`",
                number + 1
            ),
            Entries::Nothing => {}
        }
    }
    if trace.events.is_empty() {
        let others: Vec<String> = others.into_iter().take(MOST_NAMES).collect();
        bail!(hint::explain_refusal(text, &others));
    }
    trace.clean_events();
    Ok(trace)
}

/// Strips what a mail program puts before a line, and the kernel's log, into which an oops dumps the
/// events: `> `, `Nov 27 10:11:02 node7 kernel: ` and `[ 1209.341002] `.
fn strip_pasted(line: &str) -> &str {
    let line = match line.starts_with('>') {
        true => line.trim_start_matches(['>', ' ']),
        false => line,
    };
    let line = line.split_once(" kernel: ").map_or(line, |(_, rest)| rest);
    let stamp = line
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("] "));
    match stamp {
        Some((stamp, rest)) if parse_seconds(stamp.trim_start()).is_some() => rest,
        _ => line,
    }
}

/// Content of a record.
enum Entries {
    Understood {
        name: String,
        task: u32,
        event: String,
        events: Vec<Event>,
    },
    /// An event of this name, of which nothing is known.
    Other(String),
    /// An event that is known, without a field that it has to have.
    Lacks(String, &'static str),
    /// The line has no event.
    Nothing,
}

fn parse_entries(record: &str) -> Entries {
    let Some(line) = Line::parse(record) else {
        return Entries::Nothing;
    };
    let mut events = Vec::new();
    let decoded = if line.is_syscall {
        line.decode_syscall(&mut events);
        Ok(())
    } else {
        let fields = parse_fields(line.rest, line.is_perf_trace);
        let (event, ns, task) = (line.event, line.ns, line.task);
        decode::decode_event(event, ns, task, &fields, PageSize::default(), &mut events)
    };
    match decoded {
        Err(Lacks(field)) => Entries::Lacks(line.event.into(), field),
        Ok(()) if events.is_empty() => Entries::Other(line.event.into()),
        Ok(()) => Entries::Understood {
            name: line.name.into(),
            task: line.task,
            event: line.event.into(),
            events,
        },
    }
}

/// Returns whether a record goes on in the next line, which a program broke.
fn goes_on(read: &Entries, next: &str) -> bool {
    let next = next.trim();
    let is_text = !next.is_empty() && !next.starts_with(['#', '<']) && !next.starts_with("=>");
    if !is_text || Line::begins_record(next) || lost_events(next).is_some() {
        return false;
    }
    match read {
        Entries::Nothing => next.contains(':'),
        Entries::Lacks(..) => next.contains(['=', ':']),
        _ => {
            let is_field = |word: &str| word.find('=').is_some_and(|at| at > 0);
            let mut words = next.split_whitespace();
            // A number may be broken as well.
            let is_rest = |word: &str| {
                word.trim_start_matches('=')
                    .bytes()
                    .all(|byte| byte.is_ascii_digit())
            };
            words
                .next()
                .is_some_and(|word| is_field(word) || is_rest(word))
                && words.all(is_field)
        }
    }
}

/// A line that was broken between two words is joined by a space, one that was broken in a word by
/// nothing.
fn join_broken(record: &mut String, next: &str) {
    let next = next.trim();
    let is_whole = |word: &str| {
        let has_value = word
            .split_once('=')
            .is_some_and(|(_, value)| !value.is_empty());
        has_value || word.ends_with(':')
    };
    let last = record.split_whitespace().next_back().unwrap_or("");
    let first = next.split_whitespace().next().unwrap_or("");
    let is_name = first.ends_with(':') && first.starts_with(|c: char| c.is_ascii_alphabetic());
    let begins_a_field = first.find('=').is_some_and(|at| at > 0) || is_name;
    // The device's name comes first, after a word of its own.
    let is_before_device = record.ends_with(": bdi");
    if is_before_device || is_whole(last) && (begins_a_field || first == "bdi") {
        record.push(' ');
    }
    record.push_str(next);
}

struct Line<'a> {
    name: &'a str,
    task: u32,
    ns: u64,
    event: &'a str,
    rest: &'a str,
    /// `perf trace` prints fields as `name: value`, and none that is zero.
    is_perf_trace: bool,
    /// A system call, as `perf trace` prints it.
    is_syscall: bool,
}

/// System calls that write back and wait.
const SYNCING: [&str; 6] = [
    "fsync",
    "fdatasync",
    "msync",
    "sync",
    "syncfs",
    "sync_file_range",
];

impl Line<'_> {
    /// Returns whether a record begins in this line: it has the head of one, if not more.
    fn begins_record(line: &str) -> bool {
        Line::parse_head(line).is_some() || Line::perf_trace(line).is_some()
    }

    fn parse(line: &str) -> Option<Line<'_>> {
        Line::perf_trace(line).or_else(|| Line::parse_ftrace(line))
    }

    /// The task's name and id, the time, and what comes after the time.
    fn parse_head(line: &str) -> Option<(&str, u32, u64, &str)> {
        if line.starts_with('#') {
            return None;
        }
        // The first word that is a time and has a colon; the name of the event is the word after it.
        let mut words = line.split_inclusive(' ').scan(0, |at, word| {
            let begin = *at;
            *at += word.len();
            Some((begin, word))
        });
        let (begin, word) = words.find(|(_, word)| {
            let time = word.trim_end().strip_suffix(':');
            time.is_some_and(|time| parse_seconds(time).is_some())
        })?;
        let ns = parse_seconds(word.trim_end().strip_suffix(':')?)?;
        let (before, rest) = (&line[..begin], &line[begin + word.len()..]);
        // Up to five flags or none are between the CPU and the time.
        let task = match before.rsplit_once(" [") {
            Some((task, cpu)) => {
                let (cpu, _) = cpu.split_once(']')?;
                cpu.parse::<u32>().ok()?;
                task
            }
            None => before,
        };
        let mut task = task.trim();
        // `cat trace` may put the thread group between the task and the CPU: `fio-412   (   410)
        // [001]`. Names may have parentheses as well: `(udev-worker)-412`.
        if let Some((before, group)) = task.rsplit_once('(') {
            let group = group.strip_suffix(')').map(str::trim);
            let is_group = |group: &str| group.bytes().all(|b| b.is_ascii_digit() || b == b'-');
            if group.is_some_and(is_group) {
                task = before.trim_end();
            }
        }
        let (name, id) = task.rsplit_once(['-', ' '])?;
        // With the process before the thread, as in `410/412`.
        let id = id.rsplit('/').next()?;
        Some((name.trim(), id.parse().ok()?, ns, rest))
    }

    fn parse_ftrace(line: &str) -> Option<Line<'_>> {
        let (name, task, ns, rest) = Line::parse_head(line)?;
        let (event, rest) = rest.trim_start().split_once(':')?;
        // `perf script` names the system first, and another colon follows.
        let (event, rest) = match rest.split_once(':') {
            Some((after, tail)) if !after.is_empty() && !after.contains([' ', '=']) => {
                (after, tail)
            }
            _ => (event, rest),
        };
        let event = event.trim();
        if event.is_empty() || event.contains(char::is_whitespace) {
            return None;
        }
        Some(Line {
            name,
            task,
            ns,
            event,
            rest,
            is_perf_trace: false,
            is_syscall: false,
        })
    }

    /// `   203.456 (         ): fio/412 writeback:balance_dirty_pages(bdi: "254:0", ...)`, or
    /// `   203.456 (12.345 ms): fio/412 fsync(fd: 3) = 0`: milliseconds; what is in parentheses,
    /// the name and the id may be missing.
    fn perf_trace(line: &str) -> Option<Line<'_>> {
        let line = line.trim();
        let (time, rest) = line.split_once(' ')?;
        let (whole, part) = time.split_once('.')?;
        if part.len() != 3 {
            return None;
        }
        let us = whole.parse::<u64>().ok()?.checked_mul(1000)?;
        let ns = us.checked_add(part.parse().ok()?)?.checked_mul(1000)?;
        let rest = rest.trim_start();
        let (duration, rest) = match rest
            .strip_prefix('(')
            .and_then(|rest| rest.split_once("):"))
        {
            Some((duration, rest)) => (Some(duration.trim()), rest.trim_start()),
            None => (None, rest),
        };
        let (before, rest) = rest.split_once('(')?;
        let (task, event) = before.rsplit_once(' ').unwrap_or(("", before));
        let (name, id) = task.rsplit_once('/').unwrap_or(("", task));
        let task = if id.is_empty() {
            0
        } else {
            id.trim().parse().ok()?
        };
        let is_name = |name: &str| {
            let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
            !name.is_empty() && name.chars().all(is_part)
        };
        if let Some((system, event)) = event.split_once(':') {
            let rest = rest.strip_suffix(')').unwrap_or(rest);
            let is_event = is_name(system) && is_name(event);
            return is_event.then_some(Line {
                name: name.trim(),
                task,
                ns,
                event,
                rest,
                is_perf_trace: true,
                is_syscall: false,
            });
        }
        let duration = duration.filter(|_| is_name(event))?;
        Some(Line {
            name: name.trim(),
            task,
            ns,
            event,
            rest: duration,
            is_perf_trace: true,
            is_syscall: true,
        })
    }

    /// The beginning and the end of a system call that writes back; its time is when it began.
    fn decode_syscall(&self, out: &mut Vec<Event>) {
        let ms = self
            .rest
            .strip_suffix("ms")
            .and_then(|ms| ms.trim().parse::<f64>().ok());
        let Some(ms) = ms.filter(|ms| SYNCING.contains(&self.event) && *ms >= 0.0) else {
            return;
        };
        let event = |ns, what| Event {
            ns,
            task: self.task,
            what,
        };
        out.push(event(self.ns, What::SyncBegan));
        out.push(event(
            self.ns.saturating_add((ms * 1e6) as u64),
            What::SyncEnded,
        ));
    }
}

/// Nanoseconds from `81.203456`.
fn parse_seconds(text: &str) -> Option<u64> {
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

/// The fields of an event.
struct Named<'a> {
    by_name: BTreeMap<&'a str, &'a str>,
    /// `true` if a field that is missing is zero.
    is_zero_left_out: bool,
}

impl Fields for Named<'_> {
    fn number_of(&self, name: &str) -> Option<i64> {
        match self.by_name.get(name) {
            Some(text) => text.parse().ok(),
            None => self.is_zero_left_out.then_some(0),
        }
    }

    fn text_of(&self, name: &str) -> Option<String> {
        self.by_name.get(name).map(|text| text.to_string())
    }
}

/// `name=value` pairs, and the device from `bdi 254:0:`; of `perf trace`, `name: value` pairs.
fn parse_fields(text: &str, is_perf_trace: bool) -> Named<'_> {
    let mut fields: BTreeMap<&str, &str> = text
        .split_whitespace()
        .filter_map(|word| word.split_once('='))
        .collect();
    // `perf trace --libtraceevent_print` prints them as others do.
    let is_zero_left_out = is_perf_trace && fields.is_empty();
    let bdi = text
        .trim_start()
        .strip_prefix("bdi ")
        .and_then(|rest| rest.split_once(": "));
    if let Some((bdi, _)) = bdi {
        fields.insert("bdi", bdi);
    }
    if is_zero_left_out {
        let pairs = text.split(", ").filter_map(|pair| pair.split_once(": "));
        fields.extend(pairs.map(|(name, value)| (name.trim(), value.trim().trim_matches('"'))));
    }
    Named {
        by_name: fields,
        is_zero_left_out,
    }
}

/// `CPU:1 [LOST 42 EVENTS]`, or as perf has it, `LOST 42 events`.
fn lost_events(line: &str) -> Option<u64> {
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
                    pause.freerun_pages(),
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
    fn names_ids_and_missing_cpus_of_all_programs_are_read() {
        for (head, name, task) in [
            (
                "(udev-worker)-412 [001] d..1. 81.203456: balance_dirty_pages: ",
                "(udev-worker)",
                412,
            ),
            (
                "(sd-pam)-412 (-------) [001] d..1. 81.203456: balance_dirty_pages: ",
                "(sd-pam)",
                412,
            ),
            (
                "kworker/u8:1-fl-412 (    410) [001] 81.203456: balance_dirty_pages: ",
                "kworker/u8:1-fl",
                412,
            ),
            (
                "my fio 410/412 [001] 81.203456: writeback:balance_dirty_pages: ",
                "my fio",
                412,
            ),
            (
                "fio     412    81.203456: writeback:balance_dirty_pages: ",
                "fio",
                412,
            ),
        ] {
            let trace = read(&format!("{head}{REST}\n")).expect(head);
            let event = &trace.events[0];
            assert_eq!((event.ns, event.task), (81_203_456_000, task), "{head}");
            assert_eq!(trace.names[&task], name, "{head}");
        }
    }

    #[test]
    fn perf_trace_is_understood() {
        let fields = "bdi: \"254:0\", limit: 8192, setpoint: 7168, dirty: 7300, bdi_setpoint: 7100, bdi_dirty: 7290, \
            dirty_ratelimit: 400, dirtied: 8, dirtied_pause: 8, pause: 104, period: 106, think: 2, cgroup_ino: 77";
        for line in [
            format!("    81.203 (         ): fio/412 writeback:balance_dirty_pages({fields})"),
            format!("    81.203 fio/412 writeback:balance_dirty_pages({fields})"),
            format!("    81.203 fio/412 writeback:balance_dirty_pages({REST})"),
        ] {
            let trace = read(&line).expect("read");
            let (event, name) = (&trace.events[0], &trace.names[&412]);
            assert_eq!((event.ns, name.as_str()), (81_203_000, "fio"), "{line}");
            let What::Pause(pause) = &event.what else {
                panic!("{event:?}")
            };
            let got = (
                pause.bdi.as_str(),
                pause.freerun_pages(),
                pause.pause_ms,
                pause.cgroup,
            );
            assert_eq!(got, ("254:0", 6144, 104, 77), "{line}");
        }
        let trace = read("  10.500 (35.250 ms): db/7 fdatasync(fd: 3) = 0\n").expect("read");
        let times: Vec<_> = trace
            .events
            .iter()
            .map(|event| (event.ns, event.task))
            .collect();
        assert_eq!(times, [(10_500_000, 7), (45_750_000, 7)]);
    }

    #[test]
    fn lines_that_were_wrapped_are_joined_wherever_they_broke() {
        let line = format!("cp-500 [001] ..... 100.000000: balance_dirty_pages: {REST}");
        let whole = read(&line).expect("read").events;
        // In words, as a terminal does it, and between them, as mail programs do.
        for width in 45..line.len() {
            let cut: Vec<char> = line.chars().collect();
            let cut: Vec<String> = cut
                .chunks(width)
                .map(|part| part.iter().collect())
                .collect();
            let got = read(&cut.join("\n")).map(|trace| trace.events);
            assert_eq!(got.ok().as_ref(), Some(&whole), "{width}: {cut:?}");
            let mut words = vec![String::new()];
            for word in line.split(' ') {
                if words
                    .last()
                    .is_some_and(|last| last.len() + word.len() >= width)
                {
                    words.push(String::new());
                }
                let last = words.last_mut().expect("one");
                if !last.is_empty() {
                    last.push(' ');
                }
                last.push_str(word);
            }
            let got = read(&words.join("\n")).map(|trace| trace.events);
            assert_eq!(got.ok().as_ref(), Some(&whole), "{width}: {words:?}");
        }
    }

    #[test]
    fn what_mail_and_the_kernels_log_put_before_lines_is_no_part_of_them() {
        let line = format!("cp-500 [001] .....   100.000000: balance_dirty_pages: {REST}");
        let whole = read(&line).expect("read");
        let (head, tail) = line.split_at(line.find(" dirtied=").expect("there"));
        for pasted in [
            format!("> {line}\n"),
            format!(">> > {head}\n>> >{tail}\n"),
            format!("[ 1209.341002]   {line}\n"),
            format!("Nov 27 10:11:02 node7 kernel: [ 1209.341002] {line}\n"),
            format!("Nov 27 10:11:02 node7 kernel: {line}\n"),
        ] {
            let trace = read(&pasted).expect(&pasted);
            assert_eq!(
                (&trace.events, &trace.names),
                (&whole.events, &whole.names),
                "{pasted}"
            );
        }
    }

    #[test]
    fn what_follows_an_event_and_is_none_is_left_out() {
        let text = format!(
            "cp-5 [001] ..... 1.000000: balance_dirty_pages: {REST}\n => ext4_file_write\n<stack trace>\nhello: x\n\
             cp-5 [001] ..... 1.200000: balance_dirty_pages: {REST}\n"
        );
        assert_eq!(read(&text).expect("read").events.len(), 2);
    }

    #[test]
    fn what_cannot_be_used_is_refused() {
        let error = |text: &str| format!("{:#}", read(text).expect_err("refused"));
        assert!(error("hello\n").contains("no event in it"));
        assert!(
            error("fio-1 [000] .... 1.000000: balance_dirty_pages: bdi 8:0: limit=3\n")
                .contains("line 1: the event balance_dirty_pages has no field `setpoint`")
        );
        let said = error("kworker-1 [000] .... 1.0: writeback_start: bdi 8:0: reason=periodic\n");
        assert!(said.contains("its events are writeback_start"), "{said}");
        assert!(said.contains("-e balance_dirty_pages"), "{said}");
    }
}
