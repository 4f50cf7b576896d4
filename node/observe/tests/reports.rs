// SPDX-License-Identifier: GPL-2.0-only
//! Traces as people send them, each with the right answer.

use observe::diagnosis::{Cause, Decider, Verdict, Why, diagnose};
use observe::{Observation, Target};
use std::path::{Path, PathBuf};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/reports")
        .join(name)
}

fn read(name: &str) -> Observation {
    Observation::open(&file(name)).expect("read")
}

fn verdict(name: &str) -> (f64, Verdict) {
    let diagnosis = diagnose(&read(name), &Target::Host);
    assert_eq!(diagnosis.verdicts.len(), 1, "{name}");
    let verdict = diagnosis.verdicts.into_iter().next().expect("one");
    assert!(verdict.lost.share <= 1.0, "{name}: {:?}", verdict.lost);
    let most = diagnosis.seconds * verdict.lost.tasks as f64 + 1e-9;
    assert!(verdict.lost.seconds <= most, "{name}: {:?}", verdict.lost);
    (diagnosis.seconds, verdict)
}

fn refused(name: &str) -> String {
    format!("{:#}", Observation::open(&file(name)).expect_err("refused"))
}

#[test]
fn a_cgroup_with_one_page_in_two_hundred_is_not_blamed() {
    let (_, verdict) = verdict("one-page-of-eight-thousand.txt");
    assert_eq!(
        (verdict.cause, verdict.culprit),
        (Cause::Throttle(Decider::Host), None)
    );
    let because = &verdict.because;
    assert!(
        because.contains("which cgroup holds them is not shown"),
        "{because}"
    );
    assert!(because.contains("164.0 KiB of 32.0 MiB"), "{because}");
    assert_eq!(
        verdict.remedies[0].command,
        "echo 16M > \"$(find /sys/fs/cgroup -inum 310)\"/memory.dirty_min"
    );
    // The flood itself, had it been throttled, holds more than half.
    let mut seen = read("one-page-of-eight-thousand.txt");
    for stall in &mut seen.stalls {
        if let observe::stall::StallKind::Throttle(throttled) = &mut stall.kind {
            throttled.pause.bdi_dirty = 4200;
        }
    }
    let diagnosis = diagnose(&seen, &Target::Host);
    assert_eq!(diagnosis.verdicts[0].culprit.as_deref(), Some("inode:310"));
}

#[test]
fn a_fuse_filesystem_gets_its_share() {
    let (seconds, verdict) = verdict("fuse-share.txt");
    assert_eq!(verdict.cause, Cause::Throttle(Decider::Device));
    assert_eq!(
        verdict.remedies[0].command,
        "echo 100 > /sys/class/bdi/0:42/max_ratio"
    );
    // To the end of the last pause.
    assert!((seconds - 0.098).abs() < 1e-9, "{seconds}");
    assert!(
        (verdict.lost.seconds - 0.096).abs() < 1e-9,
        "{:?}",
        verdict.lost
    );
}

#[test]
fn reclaim_for_a_limit_is_not_the_hosts() {
    let (_, verdict) = verdict("limit-reclaim.txt");
    assert_eq!((verdict.cause, verdict.culprit), (Cause::Reclaim, None));
    assert_eq!(verdict.cgroup, "unknown");
    let because = &verdict.because;
    assert!(because.contains("memory.max or memory.high"), "{because}");
    let unchanged = verdict.unchanged.expect("told");
    assert_eq!(unchanged.why, Why::NotShown);
    assert!(
        unchanged.command.contains("/proc/71/cgroup"),
        "{}",
        unchanged.command
    );
}

#[test]
fn events_that_show_no_wait_are_refused_with_what_to_record() {
    let said = refused("graph.txt");
    assert!(
        said.contains("tasks were in balance_dirty_pages()"),
        "{said}"
    );
    assert!(said.contains("-e balance_dirty_pages"), "{said}");
    let said = refused("flushers.txt");
    assert!(
        said.contains("writeback_start, writeback_written"),
        "{said}"
    );
    assert!(said.contains("-e balance_dirty_pages"), "{said}");
}

#[test]
fn a_sleep_that_is_told_at_its_end_began_before_it() {
    let (seconds, verdict) = verdict("reclaim-asleep.txt");
    assert!((seconds - 0.108).abs() < 1e-9, "{seconds}");
    assert!(
        (verdict.lost.seconds - 0.3).abs() < 1e-9,
        "{:?}",
        verdict.lost
    );
    assert_eq!(verdict.cause, Cause::Reclaim);
    assert!(
        verdict.because.contains("meet dirty pages"),
        "{}",
        verdict.because
    );
    assert!(
        verdict.because.contains("a ceiling for that one"),
        "{}",
        verdict.because
    );
    assert_eq!(verdict.unchanged.expect("told").why, Why::NotShown);
}

#[test]
fn a_wrapped_line_is_one_pause() {
    let (seconds, verdict) = verdict("wrapped.txt");
    assert_eq!((verdict.lost.count, verdict.lost.max_ms), (Some(1), 200.0));
    assert!((seconds - 0.2).abs() < 1e-9, "{seconds}");
    assert_eq!(verdict.tasks[0].name, "cp");
}

#[test]
fn one_of_a_file_can_be_asked_for() {
    let mut seen = read("reclaim-asleep.txt");
    let target = seen.find_target("12").expect("there");
    seen.keep_target(&target);
    let diagnosis = diagnose(&seen, &target);
    assert_eq!(diagnosis.verdicts[0].lost.count, Some(1));
    let seen = read("one-page-of-eight-thousand.txt");
    assert_eq!(
        seen.find_target("inode:310").expect("there"),
        Target::Cgroup("inode:310".into())
    );
    let said = seen.find_target("/db").expect_err("none").to_string();
    assert!(
        said.contains("there is no cgroup /db") && said.contains("it has inode:310"),
        "{said}"
    );
}
