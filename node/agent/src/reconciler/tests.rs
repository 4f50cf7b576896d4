// SPDX-License-Identifier: GPL-2.0-only
//! On a hierarchy of plain files, which take anything: that the agent writes nothing else is theirs
//! to show.

use super::*;
use crate::journal::Said;
use crate::knob_states::RETRIES;
use std::fs;

/// A hierarchy in a directory, a reconciler of it, and what it said.
struct Bench {
    dir: tempfile::TempDir,
    said: Said,
    reconciler: Reconciler,
}

const FLOOR: &str = "[[rule]]\ncgroup = \"/pods/*\"\nset = { \"memory.dirty_min\" = \"16M\" }\n";

fn rules(text: &str) -> Rules {
    Rules::parse("agent.toml", text).expect("valid")
}

impl Bench {
    fn new(policy: &str) -> Bench {
        let dir = tempfile::tempdir().expect("made");
        fs::create_dir(dir.path().join("cgroup")).expect("made");
        let said = Said::default();
        let reconciler = reconciler(&dir, policy, &said);
        Bench {
            dir,
            said,
            reconciler,
        }
    }

    /// The agent starts again.
    fn restart(&mut self, policy: &str) {
        self.reconciler = reconciler(&self.dir, policy, &self.said);
        self.reconciler.scan_all();
    }

    fn file(&self, cgroup: &str, knob: &str) -> PathBuf {
        self.dir.path().join("cgroup").join(cgroup).join(knob)
    }

    /// A cgroup as the module makes them.
    fn make(&self, cgroup: &str) {
        fs::create_dir_all(self.file(cgroup, "")).expect("made");
        for (knob, value) in [
            ("memory.dirty_min", "0"),
            ("memory.dirty_bytes", "max"),
            ("memory.dirty_ratio", "0"),
            ("memory.dirty_bandwidth", "max"),
            ("memory.dirty_weight", "100"),
        ] {
            self.write(cgroup, knob, value);
        }
    }

    fn write(&self, cgroup: &str, knob: &str, value: &str) {
        fs::write(self.file(cgroup, knob), format!("{value}\n")).expect("written");
    }

    fn floor(&self, cgroup: &str) -> String {
        let text = fs::read_to_string(self.file(cgroup, "memory.dirty_min")).expect("there");
        text.trim().into()
    }

    /// What was said since the last call.
    fn said(&self) -> String {
        self.said.take_text()
    }
}

fn reconciler(dir: &tempfile::TempDir, policy: &str, said: &Said) -> Reconciler {
    let tree = Hierarchy::open(&dir.path().join("cgroup")).expect("a hierarchy");
    let saved = SavedValues::open(&dir.path().join("run/agent.json")).expect("readable");
    let journal = Journal::new(said.clone(), false);
    let requests = Requests::new(dir.path(), rules(policy).requests, journal.clone());
    Reconciler::new(tree, rules(policy), requests, saved, journal)
}

#[test]
fn matching_cgroups_are_set_once_and_others_are_not() {
    let mut bench = Bench::new(FLOOR);
    bench.make("pods/a");
    bench.make("pods/a/below");
    bench.make("other");
    bench.reconciler.scan_all();
    assert_eq!(
        bench.said(),
        "/pods/a: memory.dirty_min = 16M, was 0 (rule at line 1)\n"
    );
    assert_eq!(bench.floor("pods/a"), "16M");
    assert_eq!(
        (bench.floor("pods/a/below"), bench.floor("other")),
        ("0".into(), "0".into())
    );
    // The kernel shows bytes.
    bench.write("pods/a", "memory.dirty_min", "16777216");
    bench.reconciler.scan_all();
    bench.restart(FLOOR);
    assert_eq!(bench.said(), "");
    let counts = bench.reconciler.counts();
    assert_eq!(
        (counts.set, counts.waiting, counts.failing, counts.cgroups),
        (1, 0, 0, 5)
    );
}

#[test]
fn a_cgroup_that_appears_is_heard_of_with_all_below_it() {
    let mut bench =
        Bench::new("[[rule]]\ncgroup = \"/pods/**\"\nset = { \"memory.dirty_min\" = \"16M\" }\n");
    fs::create_dir(bench.file("pods", "")).expect("made");
    bench.reconciler.scan_all();
    assert_eq!(bench.said(), "", "no knobs yet, and nobody has waited long");
    bench.make("pods/a/b/c");
    bench.make("pods/a/b");
    bench.reconciler.visit_new_cgroups();
    assert_eq!(
        (bench.floor("pods/a/b"), bench.floor("pods/a/b/c")),
        ("16M".into(), "16M".into())
    );
    bench.make("pods/a/b/c/d");
    bench.reconciler.visit_new_cgroups();
    assert_eq!(bench.floor("pods/a/b/c/d"), "16M");
}

#[test]
fn while_there_is_a_rule_it_holds() {
    let mut bench = Bench::new(FLOOR);
    bench.make("pods/a");
    bench.reconciler.scan_all();
    bench.write("pods/a", "memory.dirty_min", "4096");
    bench.said();
    bench.reconciler.scan_all();
    assert_eq!(
        bench.said(),
        "/pods/a: memory.dirty_min = 16M, was 4096 (rule at line 1)\n"
    );
}

#[test]
fn a_rule_that_goes_leaves_what_was_there_before() {
    let mut bench = Bench::new(FLOOR);
    for cgroup in ["a", "b", "c", "d"] {
        bench.make(&format!("pods/{cgroup}"));
    }
    bench.write("pods/a", "memory.dirty_min", "8388608");
    bench.write("pods/b", "memory.dirty_min", "16777216");
    bench.reconciler.scan_all();
    bench.write("pods/c", "memory.dirty_min", "1");
    bench.write("pods/d", "memory.dirty_min", "0");
    bench.said();
    bench.reconciler.follow_rules(Rules::default());
    assert_eq!(
        bench.said(),
        "/pods/c: memory.dirty_min stays 1 (its rule is gone, but another program changed it since)\n\
         /pods/a: memory.dirty_min = 8388608 as before, was 16M (nothing names it any more)\n"
    );
    assert_eq!(
        bench.floor("pods/b"),
        "16777216",
        "it was so before the agent came"
    );
    bench.reconciler.follow_rules(Rules::default());
    assert_eq!(bench.said(), "");
    assert_eq!(bench.reconciler.counts().set, 0);
}

#[test]
fn a_later_run_puts_back_what_an_earlier_one_wrote() {
    let mut bench = Bench::new(FLOOR);
    bench.make("pods/a");
    bench.make("pods/b");
    bench.write("pods/a", "memory.dirty_min", "8M");
    bench.reconciler.scan_all();
    bench.restart("[[rule]]\ncgroup = \"/pods/a\"\nset = { \"memory.dirty_min\" = \"32M\" }\n");
    assert_eq!(
        (bench.floor("pods/a"), bench.floor("pods/b")),
        ("32M".into(), "0".into())
    );
    bench.restart("");
    assert_eq!(bench.floor("pods/a"), "8M");
}

#[test]
fn a_successor_of_the_same_name_owes_nothing() {
    let mut bench = Bench::new(FLOOR);
    bench.make("pods/a");
    bench.reconciler.scan_all();
    // Moved away, not removed: its inode is not given again.
    fs::rename(bench.file("pods/a", ""), bench.dir.path().join("old")).expect("moved");
    bench.make("pods/a");
    bench.write("pods/a", "memory.dirty_min", "16777216");
    bench.reconciler.follow_rules(Rules::default());
    assert_eq!(bench.floor("pods/a"), "16777216");
}

#[test]
fn without_the_files_it_waits_and_says_so_once() {
    let mut bench = Bench::new(FLOOR);
    fs::create_dir_all(bench.file("pods/a", "")).expect("made");
    bench.reconciler.scan_all();
    let said = bench.said();
    assert!(
        said.starts_with("waiting for 1 files that are not there, as in /pods/a: "),
        "{said}"
    );
    bench.reconciler.retry_failed();
    bench.reconciler.scan_all();
    assert_eq!(bench.said(), "");
    assert_eq!(bench.reconciler.counts().waiting, 1);
    bench.make("pods/a");
    bench.reconciler.retry_failed();
    assert_eq!(bench.floor("pods/a"), "16M");
    assert_eq!(bench.reconciler.counts().waiting, 0);
}

#[test]
fn a_refused_write_is_said_once_and_tried_again() {
    let mut bench = Bench::new(FLOOR);
    bench.make("pods/a");
    let file = bench.file("pods/a", "memory.dirty_min");
    fs::remove_file(&file).expect("removed");
    // Not even root reads or writes a directory as a file.
    fs::create_dir(&file).expect("made");
    bench.reconciler.scan_all();
    let said = bench.said();
    assert!(
        said.starts_with("error: /pods/a: memory.dirty_min: Is a directory"),
        "{said}"
    );
    bench.reconciler.retry_failed();
    assert_eq!(bench.said(), "");
    let counts = bench.reconciler.counts();
    assert_eq!((counts.failing, counts.failed, counts.written), (1, 2, 0));
    fs::remove_dir(&file).expect("removed");
    bench.write("pods/a", "memory.dirty_min", "0");
    bench.reconciler.retry_failed();
    assert_eq!(
        bench.said(),
        "/pods/a: memory.dirty_min = 16M, was 0 (rule at line 1)\n"
    );
    assert_eq!(bench.reconciler.counts().failing, 0);
}

#[test]
fn trying_again_is_left_to_scans_after_a_while() {
    let mut bench = Bench::new(FLOOR);
    fs::create_dir_all(bench.file("pods/a", "")).expect("made");
    bench.reconciler.scan_all();
    for _ in 0..RETRIES {
        bench.reconciler.retry_failed();
    }
    bench.make("pods/a");
    bench.reconciler.retry_failed();
    assert_eq!(bench.floor("pods/a"), "0");
    bench.reconciler.scan_all();
    assert_eq!(bench.floor("pods/a"), "16M");
}

#[test]
fn what_cannot_be_remembered_is_said_and_set_all_the_same() {
    let mut bench = Bench::new(FLOOR);
    bench.make("pods/a");
    // A file where the saved values' directory is to be.
    fs::write(bench.dir.path().join("run"), "").expect("written");
    bench.reconciler.scan_all();
    let said = bench.said();
    assert!(
        said.contains("cannot be put back after a restart"),
        "{said}"
    );
    assert_eq!(bench.floor("pods/a"), "16M");
    fs::remove_file(bench.dir.path().join("run")).expect("removed");
    bench.reconciler.scan_all();
    bench.restart("");
    assert_eq!(bench.floor("pods/a"), "0");
}

#[test]
fn cgroups_that_vanish_meanwhile_are_no_error() {
    let mut bench =
        Bench::new("[[rule]]\ncgroup = \"/**\"\nset = { \"memory.dirty_min\" = \"16M\" }\n");
    let top = bench.file("pods", "");
    bench.make("pods");
    let churn = std::thread::spawn(move || {
        for round in 0..200 {
            let directory = top.join(format!("c{}", round % 7)).join("below");
            fs::create_dir_all(&directory).expect("made");
            fs::write(directory.join("memory.dirty_min"), "0\n").expect("written");
            // The agent writes without making files, so nothing comes back.
            fs::remove_dir_all(directory.parent().expect("has one")).expect("removed");
        }
    });
    while !churn.is_finished() {
        bench.reconciler.scan_all();
        bench.reconciler.visit_new_cgroups();
        bench.reconciler.retry_failed();
    }
    churn.join().expect("made and removed all");
    bench.reconciler.scan_all();
    let counts = bench.reconciler.counts();
    assert_eq!(
        (counts.cgroups, counts.set, counts.failing),
        (2, 1, 0),
        "{}",
        bench.said()
    );
}

#[test]
fn a_share_of_memory_follows_memory_max() {
    let mut bench =
        Bench::new("[[rule]]\ncgroup = \"/pods/*\"\nset = { \"memory.dirty_bytes\" = \"50%\" }\n");
    bench.make("pods/a");
    let ceiling = |bench: &mut Bench| {
        bench.reconciler.scan_all();
        let text = fs::read_to_string(bench.file("pods/a", "memory.dirty_bytes")).expect("there");
        text.trim().to_string()
    };
    bench.write("pods/a", "memory.max", "max");
    assert_eq!(ceiling(&mut bench), "max", "no bound, no share of it");
    bench.write("pods/a", "memory.max", "33554432");
    assert_eq!(ceiling(&mut bench), "16777216");
    bench.write("pods", "memory.max", "8388608");
    assert_eq!(ceiling(&mut bench), "4194304", "one above has less");
    for cgroup in ["pods", "pods/a"] {
        bench.write(cgroup, "memory.max", "max");
    }
    assert_eq!(ceiling(&mut bench), "max", "put back");
}

#[test]
fn a_unit_gets_what_it_asks_for_but_for_what_a_rule_says() {
    let mut bench = Bench::new("");
    bench.make("db.service");
    let drop_ins = bench.dir.path().join("etc/systemd/system/db.service.d");
    let (file, units) = (
        drop_ins.join("weir.conf"),
        bench.dir.path().join("run/systemd"),
    );
    fs::create_dir_all(&drop_ins).expect("made");
    fs::create_dir_all(&units).expect("made");
    fs::write(&file, "[Service]\nX-Weir-DirtyMin=16M\n").expect("written");
    assert!(bench.reconciler.is_overdue(), "systemd is there now");
    bench.reconciler.scan_all();
    assert_eq!(
        bench.said(),
        "/db.service: memory.dirty_min = 16M, was 0 \
         (X-Weir-DirtyMin in /etc/systemd/system/db.service.d/weir.conf)\n"
    );
    let rule = "[[rule]]\ncgroup = \"/*.service\"\nset = { \"memory.dirty_min\" = \"8M\" }\n";
    bench.reconciler.follow_rules(rules(rule));
    assert_eq!(bench.floor("db.service"), "8M");
    bench.reconciler.follow_rules(rules(""));
    assert_eq!(bench.floor("db.service"), "16M");
    fs::remove_file(&file).expect("removed");
    assert!(!bench.reconciler.is_overdue());
    fs::create_dir(units.join("generator")).expect("made");
    assert!(bench.reconciler.is_overdue());
    bench.said();
    bench.reconciler.scan_all();
    assert_eq!(
        bench.said(),
        "/db.service: memory.dirty_min = 0 as before, was 16M (nothing names it any more)\n"
    );
}
