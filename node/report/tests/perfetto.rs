// SPDX-License-Identifier: GPL-2.0-only
//! A trace for Perfetto, taken apart again. `make report-pages` has it read by Perfetto's own
//! schema.

use observe::Observation;
use observe::diagnosis::Decider;
use observe::owed::Limit;
use observe::trace::Trace;
use report::timeline::{self, Loss, Timeline};
use std::collections::BTreeMap;

/// A stock 6.12, host's limit 32 MiB, one writer at 500 KiB/s beside one without limit.
const RECORDED: &str = include_str!("traces/host-limit.txt");

/// The fields of a message: numbers, and bytes of what has a length.
#[derive(Default)]
struct Fields {
    numbers: BTreeMap<u64, u64>,
    bytes: Vec<(u64, Vec<u8>)>,
}

impl Fields {
    fn read(mut bytes: &[u8]) -> Fields {
        let mut fields = Fields::default();
        while !bytes.is_empty() {
            let key = varint(&mut bytes);
            match key & 7 {
                0 => {
                    let value = varint(&mut bytes);
                    fields.numbers.insert(key >> 3, value);
                }
                1 => {
                    let (value, rest) = bytes.split_at(8);
                    let value = u64::from_le_bytes(value.try_into().expect("eight"));
                    fields.numbers.insert(key >> 3, value);
                    bytes = rest;
                }
                2 => {
                    let length = varint(&mut bytes) as usize;
                    let (value, rest) = bytes.split_at(length);
                    fields.bytes.push((key >> 3, value.to_vec()));
                    bytes = rest;
                }
                kind => panic!("kind {kind}"),
            }
        }
        fields
    }

    fn inner(&self, field: u64) -> Option<Fields> {
        let found = self.bytes.iter().find(|(number, _)| *number == field);
        found.map(|(_, bytes)| Fields::read(bytes))
    }
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let (byte, rest) = bytes.split_first().expect("an end");
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    value
}

#[test]
fn a_trace_has_every_pause_and_value() {
    let seen = Observation::from_trace(Trace::read(RECORDED.as_bytes()).expect("read"));
    let mut run = timeline::observation_timeline("host-limit.txt", &seen);
    run.phases = vec![(0.0, "one".into()), (0.05, "two".into())];
    let trace = Fields::read(&report::perfetto_trace(&run));
    let packets: Vec<Fields> = trace
        .bytes
        .iter()
        .map(|(_, bytes)| Fields::read(bytes))
        .collect();
    assert!(packets.iter().all(|packet| packet.numbers[&10] == 1));

    // Tracks are described before they are used, and each once.
    let mut tracks: BTreeMap<u64, Fields> = BTreeMap::new();
    let (mut depth, mut slices, mut values) = (BTreeMap::new(), 0, 0);
    let mut last = 0;
    for packet in &packets {
        if let Some(track) = packet.inner(60) {
            if let Some(parent) = track.numbers.get(&5) {
                assert!(tracks.contains_key(parent), "a parent comes first");
            }
            let before = tracks.insert(track.numbers[&1], track);
            assert!(before.is_none());
            continue;
        }
        let (ns, event) = (packet.numbers[&8], packet.inner(11).expect("an event"));
        assert!(ns >= last, "in order");
        last = ns;
        let track = event.numbers[&11];
        assert!(tracks.contains_key(&track));
        let depth: &mut i32 = depth.entry(track).or_default();
        match event.numbers[&9] {
            1 => {
                slices += 1;
                *depth += 1;
            }
            2 => *depth -= 1,
            4 => values += 1,
            kind => panic!("an event of kind {kind}"),
        }
        assert!((0..=1).contains(depth), "slices of a track do not overlap");
    }
    assert_eq!(slices, run.losses.len() + run.phases.len());
    assert!(depth.values().all(|depth| *depth == 0), "what begins ends");
    let levels = 6 * run.host.held.len();
    assert!(values > levels, "{values} values, {levels} of the host");
    let threads = tracks.values().filter_map(|track| track.inner(4));
    let ids: Vec<u64> = threads.map(|thread| thread.numbers[&2]).collect();
    assert_eq!(ids, [156, 166]);
}

/// Slices of a trace: name, begin and end in seconds, as a viewer stacks them.
fn slices(trace: &[u8]) -> Vec<(String, f64, f64)> {
    let (mut open, mut all) = (Vec::new(), Vec::new());
    for (_, packet) in &Fields::read(trace).bytes {
        let packet = Fields::read(packet);
        let Some(event) = packet.inner(11) else {
            continue;
        };
        let at = packet.numbers[&8] as f64 / 1e9;
        match event.numbers[&9] {
            1 => {
                let name = event.bytes.iter().find(|(field, _)| *field == 23);
                let name = String::from_utf8_lossy(&name.expect("has one").1).into_owned();
                open.push((name, at));
            }
            2 => {
                let (name, begin) = open.pop().expect("begun");
                all.push((name, begin, at));
            }
            _ => {}
        }
    }
    all
}

#[test]
fn what_lies_in_another_takes_nothing_from_it() {
    let loss = |at: f64, seconds: f64, limit: Limit| Loss {
        at,
        seconds,
        is_announced: false,
        task: 0,
        limit,
    };
    let run = Timeline {
        tasks: vec![timeline::Task::default()],
        losses: vec![
            loss(0.0, 10.0, Limit::Fsync),
            loss(1.0, 2.0, Limit::Memory),
            loss(4.0, 3.0, Limit::Throttle(Decider::Host)),
            loss(5.0, 4.0, Limit::Throttle(Decider::Host)),
            loss(12.0, 1.0, Limit::Throttle(Decider::Host)),
        ],
        ..Timeline::default()
    };
    let (pause, fsync) = (timeline::LOSS_NAMES[0].to_string(), "fsync".to_string());
    assert_eq!(
        slices(&report::perfetto_trace(&run)),
        [
            ("reclaim".to_string(), 1.0, 3.0),
            (pause.clone(), 4.0, 5.0),
            (pause.clone(), 5.0, 9.0),
            (fsync, 0.0, 10.0),
            (pause, 12.0, 13.0),
        ]
    );
}
