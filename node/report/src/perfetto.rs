// SPDX-License-Identifier: GPL-2.0-only
//! A run in the trace format of Perfetto, for the viewer that kernel people know (ui.perfetto.dev,
//! or `trace_processor_shell`).
//!
//! A trace is a row of packets. Some describe a track (of a thread, of a counter), with an id that
//! others then name: a slice that begins or ends on it, or a counter's value. Tracks here:
//!
//! ```text
//! weir: FILE                    the run; counters of the host, pressure, phases
//! ├─ CGROUP on DEVICE           counters of what writers were held by
//! thread fio 412                slices: pauses, reclaim, fsync; its progress as a counter
//! ```
//!
//! Field numbers are those of perfetto's protos/perfetto/trace: trace_packet.proto,
//! track_event/*.proto.

mod proto;

use crate::timeline::{Loss, Series, Timeline};
use proto::Message;

/// Number of the field `Trace.packet`.
const PACKET: u32 = 1;
/// All packets are one writer's.
const SEQUENCE: u64 = 1;
/// Values of `TrackEvent.Type`.
const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
const COUNTER: u64 = 4;

/// Quantity that a counter counts, as `CounterDescriptor` has it.
#[derive(Clone, Copy)]
enum CounterUnit {
    /// Bytes, as `UNIT_SIZE_BYTES`.
    Bytes,
    /// A name of one's own.
    Named(&'static str),
}

/// A run as a trace for Perfetto.
pub fn perfetto_trace(run: &Timeline) -> Vec<u8> {
    let mut trace = Trace::default();
    let top = trace.add_track(Track::Group(&format!("weir: {}", run.name)), None);
    add_phases(run, &mut trace, top);
    let host = &run.host;
    for (name, series) in [
        ("dirty + writeback", &host.held),
        ("writeback", &host.writeback),
        ("limit", &host.limit),
        ("setpoint", &host.setpoint),
        ("freerun", &host.freerun),
        ("background", &host.background),
    ] {
        trace.add_counter(top, name, CounterUnit::Bytes, series);
    }
    for (name, series) in &run.pressure {
        let name = format!("pressure {name}");
        trace.add_counter(top, &name, CounterUnit::Named("% of the time"), series);
    }
    for cgroup in &run.cgroups {
        let name = format!("dirty + writeback {}", cgroup.path);
        trace.add_counter(top, &name, CounterUnit::Bytes, &cgroup.held);
    }
    for domain in &run.domains {
        let group = trace.add_track(Track::Group(&domain.name), Some(top));
        let rate = CounterUnit::Named("bytes/s");
        for (name, unit, series) in [
            ("dirty of the domain", CounterUnit::Bytes, &domain.dirty),
            ("setpoint", CounterUnit::Bytes, &domain.setpoint),
            ("on the device", CounterUnit::Bytes, &domain.device_dirty),
            (
                "device's setpoint",
                CounterUnit::Bytes,
                &domain.device_setpoint,
            ),
            ("base rate", rate, &domain.base_rate),
            ("held to", rate, &domain.task_rate),
            ("written", rate, &domain.written),
            ("dirtied", rate, &domain.dirtied),
            (
                "position ratio",
                CounterUnit::Named("ratio"),
                &domain.pos_ratio,
            ),
        ] {
            trace.add_counter(group, name, unit, series);
        }
    }
    add_tasks(run, &mut trace);
    trace.into_bytes()
}

fn add_phases(run: &Timeline, trace: &mut Trace, top: u64) {
    if run.phases.is_empty() {
        return;
    }
    let track = trace.add_track(Track::Group("phases"), Some(top));
    let ends = run.phases.iter().skip(1).map(|(at, _)| *at);
    for ((begin, name), end) in run.phases.iter().zip(ends.chain([run.seconds])) {
        trace.add_slice(track, *begin, end, name, &[]);
    }
}

fn add_tasks(run: &Timeline, trace: &mut Trace) {
    let mut losses = vec![Vec::new(); run.tasks.len()];
    for loss in &run.losses {
        losses[loss.task].push(loss);
    }
    for (task, losses) in run.tasks.iter().zip(losses) {
        let track = trace.add_track(Track::Thread(task.id, &task.name), None);
        for (loss, end) in losses.iter().zip(slice_ends(&losses)) {
            let notes = [
                ("cgroup", task.cgroup.as_deref().unwrap_or("not known")),
                (
                    "length",
                    if loss.is_announced {
                        "announced"
                    } else {
                        "slept"
                    },
                ),
            ];
            trace.add_slice(track, loss.at, end, loss.name(), &notes);
        }
        trace.add_counter(track, "dirtied", CounterUnit::Bytes, &task.progress);
    }
}

/// End of each of a task's slices. One may lie in another, reclaim in an fsync; one that the next
/// would reach out of was an announced pause that was not slept, and ends where the next begins.
fn slice_ends(losses: &[&Loss]) -> Vec<f64> {
    let mut ends: Vec<f64> = losses.iter().map(|loss| loss.at + loss.seconds).collect();
    let mut open: Vec<usize> = Vec::new();
    for (index, loss) in losses.iter().enumerate() {
        while let Some(last) = open
            .last()
            .copied()
            .filter(|last| ends[*last] < ends[index])
        {
            ends[last] = ends[last].min(loss.at);
            open.pop();
        }
        open.push(index);
    }
    ends
}

enum Track<'a> {
    Group(&'a str),
    Thread(u32, &'a str),
}

/// Packets with their times.
#[derive(Default)]
struct Trace {
    tracks: u64,
    described: Vec<Message>,
    events: Vec<(u64, Message)>,
}

impl Trace {
    /// A new track, below another; returns its id.
    fn add_track(&mut self, track: Track, parent: Option<u64>) -> u64 {
        let descriptor = match track {
            Track::Group(name) => Message::default().add_text(2, name),
            // ThreadDescriptor: pid, tid, thread_name. The process is not known; its first thread
            // has its number.
            Track::Thread(id, name) => Message::default().add_message(
                4,
                Message::default()
                    .add_number(1, u64::from(id))
                    .add_number(2, u64::from(id))
                    .add_text(5, name),
            ),
        };
        self.describe_track(descriptor, parent)
    }

    fn describe_track(&mut self, descriptor: Message, parent: Option<u64>) -> u64 {
        self.tracks += 1;
        let mut descriptor = descriptor.add_number(1, self.tracks);
        if let Some(parent) = parent {
            descriptor = descriptor.add_number(5, parent);
        }
        self.described
            .push(Message::default().add_message(60, descriptor));
        self.tracks
    }

    fn add_counter(&mut self, parent: u64, name: &str, unit: CounterUnit, series: &Series) {
        if series.is_empty() {
            return;
        }
        let counter = match unit {
            CounterUnit::Bytes => Message::default().add_number(3, 3),
            CounterUnit::Named(name) => Message::default().add_text(6, name),
        };
        let descriptor = Message::default().add_text(2, name).add_message(8, counter);
        let track = self.describe_track(descriptor, Some(parent));
        for (at, value) in series.iter().filter(|(_, value)| !value.is_nan()) {
            let event = Message::default()
                .add_number(9, COUNTER)
                .add_number(11, track)
                .add_double(44, *value);
            self.events.push((to_ns(*at), event));
        }
    }

    fn add_slice(&mut self, track: u64, begin: f64, end: f64, name: &str, notes: &[(&str, &str)]) {
        let mut event = Message::default()
            .add_number(9, SLICE_BEGIN)
            .add_number(11, track)
            .add_text(23, name);
        for (name, value) in notes {
            let note = Message::default().add_text(10, name).add_text(6, value);
            event = event.add_message(4, note);
        }
        self.events.push((to_ns(begin), event));
        let event = Message::default()
            .add_number(9, SLICE_END)
            .add_number(11, track);
        self.events.push((to_ns(end), event));
    }

    fn into_bytes(mut self) -> Vec<u8> {
        // Stable: what ends and what begins at one time stay in their order.
        self.events.sort_by_key(|(ns, _)| *ns);
        let timed = self
            .events
            .into_iter()
            .map(|(ns, event)| Message::default().add_number(8, ns).add_message(11, event));
        let packets = self.described.into_iter().chain(timed);
        let trace = packets
            .enumerate()
            .fold(Message::default(), |trace, (index, packet)| {
                // SEQ_INCREMENTAL_STATE_CLEARED: nothing before the first packet is needed.
                let packet = match index {
                    0 => packet.add_number(13, 1),
                    _ => packet,
                };
                trace.add_message(PACKET, packet.add_number(10, SEQUENCE))
            });
        trace.into_bytes()
    }
}

fn to_ns(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}
