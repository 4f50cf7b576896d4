// SPDX-License-Identifier: GPL-2.0-only
//! What people read of a diagnosis, word by word, from a trace that trace-cmd recorded.

use observe::Observation;
use observe::Target;
use observe::diagnosis::diagnose;
use observe::trace::Trace;

/// A stock 6.12, host's limit 32 MiB, one writer at 500 KiB/s beside one without limit.
const RECORDED: &str = include_str!("traces/host-limit.txt");

#[test]
fn a_recorded_trace_is_explained() {
    let seen = Observation::from_trace(Trace::read(RECORDED.as_bytes()).expect("read"));
    let text = report::explain_diagnosis(&diagnose(&seen, &Target::Host));
    let wanted = include_str!("traces/host-limit.explained");
    assert_eq!(text, wanted, "\n{text}");
}

#[test]
fn names_do_not_steer_the_terminal() {
    let mut seen = Observation::from_trace(Trace::read(RECORDED.as_bytes()).expect("read"));
    let hostile = "a\u{1b}]0;x\u{7}b\u{202e}c";
    seen.homes = seen
        .stalls
        .iter()
        .map(|stall| (stall.task, hostile.into()))
        .collect();
    seen.blind.push(hostile.into());
    let diagnosis = diagnose(&seen, &Target::Host);
    for text in [
        report::explain_diagnosis(&diagnosis),
        report::losses_by_cgroup(&diagnosis),
    ] {
        let steering = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
        assert!(!text.contains(steering), "{text:?}");
        assert!(text.contains(r"/a\u{1b}]0;x\u{7}b\u{202e}c"), "{text}");
    }
}
