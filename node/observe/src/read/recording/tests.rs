// SPDX-License-Identifier: GPL-2.0-only
use super::read::read_up_to;
use super::*;
use crate::model::event::Pause;
use flate2::read::MultiGzDecoder;
use std::io::Read;

fn recorded() -> (tempfile::TempDir, Vec<u8>) {
    let dir = tempfile::tempdir().expect("made");
    let path = dir.path().join("r");
    let mut recording = Recording::create(&path, "6.12").expect("made");
    let pause = Pause {
        bdi: "8:0".into(),
        cgroup: 7,
        pause_ms: 90,
        ..Pause::default()
    };
    let event = |ns, what| Event { ns, task: 4, what };
    let mut events = vec![
        event(5_000_000, What::Pause(pause)),
        event(100_000_000, What::Woke),
    ];
    let limits = Limits {
        thresh: 9,
        ..Limits::default()
    };
    let mut samples = Samples {
        limits: vec![(1, limits)],
        pressure: vec![(1, PressureTotals::default())],
        progress: vec![(1, Progress::from([(4, 4096)]))],
        tasks: BTreeMap::from([(4, ("fio".into(), "db".into()))]),
    };
    recording.flushed = Instant::now() - FLUSH_EVERY;
    recording
        .write_round(&mut events, &mut samples)
        .expect("written");
    assert!(events.is_empty() && samples.progress.is_empty());
    let mut end = vec![event(110_000_000, What::Limits(limits))];
    recording
        .write_round(&mut end, &mut samples)
        .expect("written");
    assert_eq!(recording.event_count(), 2, "the end is none");
    let end = Observation {
        seconds: 3.0,
        seen: BTreeSet::from(["throttle_woke".to_string()]),
        homes: BTreeMap::from([(4, "db".to_string())]),
        lost: 2,
        ..Observation::default()
    };
    let size = recording.finish(end).expect("written");
    let bytes = std::fs::read(&path).expect("read");
    assert_eq!(bytes.len() as u64, size);
    assert!(
        Recording::create(&path, "6.12").is_err(),
        "what is there is kept"
    );
    (dir, bytes)
}

#[test]
fn what_is_written_is_read() {
    let seen = read(&recorded().1).expect("read");
    assert_eq!(seen.stalls[0].slept_ns, Some(95_000_000));
    assert_eq!((seen.seconds, seen.lost, seen.limits.len()), (3.0, 2, 1));
    assert_eq!(seen.homes[&4], "db");
    assert_eq!((seen.pressure.len(), seen.progress[0].1[&4]), (1, 4096));
}

#[test]
fn a_cut_one_is_used_up_to_its_last_block() {
    let bytes = recorded().1;
    let seen = read(&bytes[..bytes.len() - 60]).expect("read");
    assert_eq!(seen.stalls[0].slept_ns, Some(95_000_000));
    // From the only sample to the last event: no task slept longer than that.
    assert_eq!(seen.seconds, 0.109999999);
    assert!(seen.blind[0].contains("has no end"), "{:?}", seen.blind);
    // Names and cgroups came with the events.
    assert_eq!((seen.name_of(4), seen.homes[&4].as_str()), ("fio", "db"));
    for end in 0..bytes.len() {
        let _ = read(&bytes[..end]);
    }
}

#[test]
fn a_damaged_one_is_used_as_far_as_it_goes() {
    let bytes = recorded().1;
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x55;
        if read(&damaged).is_ok_and(|seen| seen.blind.is_empty()) {
            let read = MultiGzDecoder::new(&damaged[..]).read_to_end(&mut Vec::new());
            assert!(read.is_ok(), "byte {at} is wrong and nobody says so");
        }
    }
    let checksum = bytes.len() - 8;
    for damaged in [&bytes[..checksum], &[&bytes[..], b"more"].concat()] {
        let seen = read(damaged).expect("used");
        assert_eq!(seen.homes[&4], "db", "its end was read");
        assert!(
            seen.blind[0].contains("checksum is wrong or missing"),
            "{:?}",
            seen.blind
        );
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let head = "{\"weir_recording\":1,\"kernel\":\"x\"}";
    let newer = "{\"of_a_newer_kind\":[1]}";
    let limits = "[9,{\"dirty\":1,\"writeback\":1,\"background\":1,\"thresh\":1}]";
    let earlier = limits.replace('9', "3");
    write!(
        encoder,
        "{head}\n{newer}\n{{\"lim\n{{\"limits\":{limits}}}\n{{\"limits\":{earlier}}}\n"
    )
    .expect("packed");
    let seen = read(&encoder.finish().expect("packed")).expect("read");
    assert_eq!(
        seen.blind,
        [
            "1 lines of the recording are damaged and were left out",
            "the recording has no end: it was cut or is damaged, or the machine died"
        ]
    );
    assert_eq!((seen.limits.len(), seen.seconds), (2, 6e-9));
}

#[test]
fn more_than_fits_in_memory_is_neither_read_nor_written() {
    let (dir, bytes) = recorded();
    let mut unpacked = String::new();
    let mut decoder = MultiGzDecoder::new(&bytes[..]);
    decoder.read_to_string(&mut unpacked).expect("packed");
    let length = unpacked.len() as u64;
    assert!(read_up_to(length, &bytes).is_ok());
    let error = read_up_to(length - 1, &bytes).expect_err("refused");
    assert!(error.to_string().contains("unpacked: record for a shorter"));
    let mut recording = Recording::create(&dir.path().join("long"), "6.12").expect("made");
    assert!(!recording.is_full());
    recording.unpacked = LARGEST;
    assert!(recording.is_full());
}

#[test]
fn what_cannot_be_written_on_is_of_use_up_to_there() {
    let dir = tempfile::tempdir().expect("made");
    let path = dir.path().join("r");
    let mut recording = Recording::create(&path, "6.12").expect("made");
    let round = |recording: &mut Recording| {
        let limits = vec![(1, Limits::default())];
        let mut samples = Samples {
            limits,
            ..Samples::default()
        };
        recording.flushed = Instant::now() - FLUSH_EVERY;
        recording.write_round(&mut Vec::new(), &mut samples)
    };
    assert!(!recording.is_of_use());
    round(&mut recording).expect("written");
    assert!(recording.is_of_use());
    // A file that takes no more.
    *recording.out.get_mut() = File::open(&path).expect("there");
    let why = format!("{:#}", round(&mut recording).expect_err("refused"));
    assert!(why.starts_with("cannot write to "), "{why}");
    assert!(recording.finish(Observation::default()).is_err());
    let seen = read(&std::fs::read(&path).expect("there")).expect("used");
    assert_eq!(seen.limits.len(), 1);
}

#[test]
fn others_are_refused() {
    let packed = |text: &str| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text.as_bytes()).expect("packed");
        encoder.finish().expect("packed")
    };
    for (text, why) in [
        ("", "it is empty"),
        ("hello\n", "not a recording of weir"),
        (
            "{\"weir_recording\":9,\"kernel\":\"x\"}\n",
            "version 9; up to 2 is supported",
        ),
    ] {
        let error = format!("{:#}", read(&packed(text)).expect_err("refused"));
        assert!(error.contains(why), "{error}");
    }
}
