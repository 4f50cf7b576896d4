// SPDX-License-Identifier: GPL-2.0-only
//! `memory.dirty_stat` on the twin: all its keys, and whose limit held whom.

use scenario::metric::Figures;
use scenario::model::Arm;
use std::path::Path;

fn run(name: &str) -> Figures {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../scenarios/{name}.toml"));
    let text = std::fs::read_to_string(path).expect("a scenario");
    let scenario = scenario::parse(name, name, &text).unwrap_or_else(|why| panic!("{why}"));
    let outcome = twin::run(&scenario, Arm::Weir, 1).unwrap_or_else(|why| panic!("{why:?}"));
    outcome.metrics
}

/// Of a cgroup in a phase, and 0 of what is not there.
fn of(figures: &Figures, phase: &str, cgroup: &str, key: &str) -> f64 {
    let name = format!("weir.{phase}.cgroup/{cgroup}.{key}");
    figures.get(&name).map_or(0.0, |figure| figure.value)
}

#[test]
fn all_keys_are_figures() {
    let figures = run("dirty-knobs");
    for key in knobs::stat_keys() {
        let name = format!("weir.contended.cgroup/victim.{}", key.name);
        // It has no ceiling, so that is `max`.
        assert_eq!(figures.contains_key(&name), key.name != "ceiling", "{name}");
    }
    let victim = |key| of(&figures, "contended", "victim", key);
    assert_eq!(victim("in_effect"), 1.0);
    assert_eq!(victim("floor"), f64::from(16 << 20));
    assert_eq!(
        victim("floor_unused") + victim("subtree_dirty") + victim("subtree_writeback"),
        victim("floor")
    );
}

#[test]
fn pauses_are_told_by_who_decided_them() {
    let figures = run("ceiling");
    let mut by_ceiling = 0.0;
    for name in figures
        .keys()
        .filter(|name| name.ends_with(".nr_throttled"))
    {
        let (before, _) = name.rsplit_once('.').expect("a name");
        let value = |key: &str| figures[&format!("{before}.{key}")].value;
        let deciders = knobs::decider_names();
        let sum: f64 = deciders
            .map(|by| value(&format!("nr_throttled_by_{by}")))
            .sum();
        // A pass that goes on has not counted its pauses yet.
        assert!((sum - value("nr_throttled")).abs() <= 8.0, "{name}: {sum}");
        assert_eq!(
            value("nr_throttled_by_unknown") + value("nr_throttled_by_device"),
            0.0
        );
        by_ceiling += value("nr_throttled_by_ceiling");
    }
    assert!(by_ceiling > 0.0, "nobody was held by a ceiling");
}
