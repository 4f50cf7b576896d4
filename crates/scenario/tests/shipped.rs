// SPDX-License-Identifier: GPL-2.0-only
//! Every scenario in the repository is valid, and says at its top which published result it
//! answers.

use std::path::Path;

#[test]
fn every_shipped_scenario_is_valid() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut seen = 0;
    let entries = |dir| std::fs::read_dir(dir).expect("scenarios/ is there");
    for entry in entries(dir.clone()).chain(entries(dir.join("twin"))) {
        let path = entry.expect("readable").path();
        if path.extension().is_none_or(|e| e != "toml") {
            continue;
        }
        seen += 1;
        if let Err(problems) = scenario::load(&path) {
            panic!("{problems}");
        }
        let text = std::fs::read_to_string(&path).expect("readable");
        assert!(
            text.lines().take(6).any(|l| l.starts_with("# Answers ")),
            "{}: no `# Answers ...`",
            path.display()
        );
    }
    assert!(seen > 0, "no scenario found in {}", dir.display());
}

/// The counters an expectation may name and those the module prints must not drift apart.
#[test]
fn dirty_stat_counters_are_the_modules() {
    let kmod = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kmod");
    let sources: String = std::fs::read_dir(kmod)
        .expect("kmod/ is there")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|end| end == "c"))
        .map(|path| std::fs::read_to_string(path).expect("readable"))
        .collect();
    for counter in scenario::metric::DIRTY_STAT {
        assert!(
            sources.contains(&format!("\"{counter} %llu")),
            "kmod/ prints no {counter}"
        );
    }
}
