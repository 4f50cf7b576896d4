// SPDX-License-Identifier: GPL-2.0-only
//! Whatever numbers a file has, it is refused or explained, drawn and exported: nothing overflows,
//! which tests would notice.

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use observe::Observation;
use observe::Target;
use observe::bounds::{MOST_BYTES, MOST_NS};
use observe::diagnosis::diagnose;
use observe::interval::Interval;
use observe::recording::{Recording, Samples};
use proptest::prelude::*;
use proptest::sample::Index;
use report::timeline;
use std::io::{Read, Write};
use std::ops::Range;
use std::path::Path;

const TRACES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/traces");
/// So many are enough for each kind of line.
const EVENTS: usize = 60;

/// A recording of a stock kernel, unpacked, as it is written now.
fn recording() -> String {
    let mut seen = Observation::open(&Path::new(TRACES).join("ten-dd.weir")).expect("read");
    let dir = tempfile::tempdir().expect("made");
    let path = dir.path().join("r");
    let mut file = Recording::create(&path, "6.12").expect("made");
    seen.events.truncate(EVENTS);
    let mut samples = Samples {
        limits: seen.limits.split_off(seen.limits.len() - 5),
        pressure: seen.pressure.split_off(seen.pressure.len() - 12),
        progress: seen.progress.split_off(seen.progress.len() - 5),
        ..Samples::default()
    };
    file.write_round(&mut seen.events, &mut samples)
        .expect("written");
    file.finish(seen).expect("written");
    let mut text = String::new();
    MultiGzDecoder::new(&std::fs::read(&path).expect("read")[..])
        .read_to_string(&mut text)
        .expect("packed");
    text
}

fn packed(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).expect("packed");
    encoder.finish().expect("packed")
}

/// Where numbers are, and what could be one.
fn numbers(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        let length = match rest.iter().take_while(|byte| byte.is_ascii_digit()).count() {
            0 if rest.starts_with(b"null") => 4,
            digits => digits,
        };
        if length > 0 {
            found.push(at..at + length);
        }
        at += length.max(1);
    }
    found
}

/// One number of a line, or all of them, and what is there instead.
#[derive(Clone, Debug)]
struct Damage {
    line: Index,
    number: Option<Index>,
    to: String,
}

fn damage() -> impl Strategy<Value = Damage> {
    // What can just be is what overflows first.
    let (bytes, ns) = (MOST_BYTES, MOST_NS);
    let edges = vec![
        0,
        1,
        100,
        10_000,
        bytes >> 12,
        bytes >> 10,
        bytes,
        ns / 1_000_000,
        ns / 1000,
        ns,
    ];
    let number = prop_oneof![
        4 => proptest::sample::select(edges.clone()),
        1 => proptest::sample::select(edges).prop_map(|edge| edge + 1),
        1 => Just(u64::MAX),
        1 => any::<u64>(),
        2 => (0..64u32, any::<u64>()).prop_map(|(shift, number)| number >> shift),
    ];
    let to = prop_oneof![
        8 => number.prop_map(|number| number.to_string()),
        1 => any::<i64>().prop_map(|number| number.to_string()),
        1 => Just("1e300".to_string()),
    ];
    (any::<Index>(), proptest::option::of(any::<Index>()), to)
        .prop_map(|(line, number, to)| Damage { line, number, to })
}

/// Every other damage is in the last line, which has the most kinds of numbers.
fn damaged(text: &str, all: &[Damage]) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
    for (nth, damage) in all.iter().enumerate() {
        // The first says what it is.
        let at = match nth % 2 {
            0 => lines.len() - 1,
            _ => 1 + damage.line.index(lines.len() - 1),
        };
        let mut places = numbers(&lines[at]);
        if let Some(one) = damage.number.filter(|_| !places.is_empty()) {
            places = vec![one.get(&places).clone()];
        }
        for place in places.into_iter().rev() {
            lines[at].replace_range(place, &damage.to);
        }
    }
    lines.join("\n") + "\n"
}

/// All that is made of a file.
fn is_used(bytes: &[u8]) {
    let file = tempfile::NamedTempFile::new().expect("made");
    std::fs::write(file.path(), bytes).expect("written");
    let Ok(seen) = Observation::open(file.path()) else {
        return;
    };
    let cgroup = Target::Cgroup("writers".into());
    for target in [Target::Host, cgroup] {
        let diagnosis = diagnose(&seen, &target);
        serde_json::to_string(&diagnosis).expect("encoded");
        report::losses_by_cgroup(&diagnosis);
        report::explain_diagnosis(&diagnosis);
    }
    serde_json::to_string(&Interval::from_observation(&seen)).expect("encoded");
    let run = timeline::observation_timeline("x", &seen);
    report::html_page(&[&run, &run]);
    report::perfetto_trace(&run);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn no_recording_is_too_strange(all in proptest::collection::vec(damage(), 0..12)) {
        is_used(&packed(&damaged(&recording(), &all)));
    }

    #[test]
    fn no_text_is_too_strange(all in proptest::collection::vec(damage(), 0..12)) {
        let text = std::fs::read_to_string(format!("{TRACES}/host-limit.txt")).expect("read");
        is_used(damaged(&text, &all).as_bytes());
    }
}

#[test]
fn what_cannot_be_is_left_out_and_told() {
    let blind = |text: String| {
        let file = tempfile::NamedTempFile::new().expect("made");
        std::fs::write(file.path(), packed(&text)).expect("written");
        Observation::open(file.path()).expect("read").blind
    };
    let text = recording();
    assert!(blind(text.clone()).is_empty());
    let (before, limits) = text.split_once("{\"limits\":[").expect("one");
    // The second does not fit at all.
    for digits in ["9999999", "9999999999"] {
        assert_eq!(
            blind(format!("{before}{{\"limits\":[{digits}{limits}")),
            ["1 lines of the recording are damaged and were left out"]
        );
    }
    let end = text.replace("\"dirtyable\":", "\"dirtyable\":99999999999");
    assert_eq!(blind(end).len(), 2, "and it has no end");
}
