// SPDX-License-Identifier: GPL-2.0-only
//! Every scenario in the repository is valid, and says at its top which published result it
//! answers.

use std::path::Path;

#[test]
fn every_shipped_scenario_is_valid() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut seen = 0;
    let entries = |dir| std::fs::read_dir(dir).expect("scenarios/ is there");
    let dirs = [dir.clone(), dir.join("twin"), dir.join("fsync")];
    for entry in dirs.into_iter().flat_map(entries) {
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
