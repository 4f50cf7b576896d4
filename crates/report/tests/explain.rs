// SPDX-License-Identifier: GPL-2.0-only
//! What people read of a diagnosis, word by word, from a trace that trace-cmd recorded.

use observe::Observation;
use observe::diagnosis::diagnose;
use observe::live::Target;
use observe::trace::Trace;

/// A stock 6.12, host's limit 32 MiB, one writer at 500 KiB/s beside one without limit.
const RECORDED: &str = include_str!("traces/host-limit.txt");

#[test]
fn a_recorded_trace_is_explained() {
    let seen = Observation::of(Trace::read(RECORDED.as_bytes()).expect("read"));
    let text = report::explanation(&diagnose(&seen, &Target::Host));
    let wanted = include_str!("traces/host-limit.explained");
    assert_eq!(text, wanted, "\n{text}");
}
