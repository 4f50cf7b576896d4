// SPDX-License-Identifier: GPL-2.0-only
//! `memory.dirty_bandwidth` on the twin: by the module's own policy, so within 3 % of each bound, and
//! what is not bounded goes on as without it.

use scenario::model::Arm;
use std::collections::BTreeMap;

/// Runs 20 s of unlimited writers, (cgroup, how many), with these bounds; returns what each job
/// dirtied in a second, by its cgroup, and each cgroup's `nr_bandwidth_held`.
fn rates(
    writers: &[(&str, u32)],
    bounds: &[(&str, &str)],
    later: &[(&str, &str)],
) -> [BTreeMap<String, f64>; 2] {
    let mut text = "title = \"t\"\n[host]\nmemory = \"4G\"\ncpus = 4\n\
        sysctl = { \"vm.dirty_bytes\" = \"1G\", \"vm.dirty_background_bytes\" = \"512M\" }\n\
        [[disk]]\nname = \"d\"\nfilesystem = \"ext4\"\nwrite_bandwidth = \"100M/s\"\n"
        .to_string();
    for path in ["p", "p/a", "p/b", "q"] {
        text += &format!("[cgroup.\"{path}\"]\n");
        for (_, bound) in bounds.iter().filter(|(of, _)| of == &path) {
            text += &format!("\"memory.dirty_bandwidth\" = \"{bound}\"\n");
        }
    }
    for (path, number) in writers {
        text += &format!(
            "[[job]]\nname = \"{}\"\ncgroup = \"{path}\"\nfio = {{ rw = \"write\", bs = \"64k\", size = \"1g\", numjobs = {number} }}\n",
            path.replace('/', "_")
        );
    }
    let jobs: Vec<String> = (writers.iter())
        .map(|(path, _)| format!("\"{}\"", path.replace('/', "_")))
        .collect();
    for (phase, seconds) in [("begin", 5), ("p", 20)] {
        text += &format!(
            "[[phase]]\nname = \"{phase}\"\njobs = [{}]\nduration = \"{seconds}s\"\n",
            jobs.join(", ")
        );
    }
    for (path, bound) in later {
        text += &format!("[phase.set.\"{path}\"]\n\"memory.dirty_bandwidth\" = \"{bound}\"\n");
    }
    let scenario =
        scenario::parse("t", "t.toml", &text).unwrap_or_else(|problems| panic!("{problems}"));
    let outcome =
        twin::run(&scenario, Arm::Weir, 1).unwrap_or_else(|refusals| panic!("{refusals:?}"));
    let of = |name: String| {
        let found = outcome.metrics.get(&name);
        found.map_or_else(
            || panic!("{name} of {:?}", outcome.metrics.keys()),
            |metric| metric.value,
        )
    };
    let job = |path: &str| format!("weir.p.{}.bw_bytes", path.replace('/', "_"));
    let held = |path: &str| format!("weir.p.cgroup/{path}.nr_bandwidth_held");
    [
        (writers.iter())
            .map(|(path, _)| (path.to_string(), of(job(path))))
            .collect(),
        (writers.iter())
            .map(|(path, _)| (path.to_string(), of(held(path))))
            .collect(),
    ]
}

fn assert_near(rate: f64, bound: f64) {
    assert!((0.97..1.03).contains(&(rate / bound)), "{rate} of {bound}");
}

const M: f64 = 1_048_576.0;

#[test]
fn writers_get_their_bound_together_however_many_they_are() {
    for number in [1, 8, 64, 300] {
        let [rates, held] = rates(&[("q", number)], &[("q", "8M")], &[]);
        assert_near(rates["q"], 8.0 * M);
        assert!(held["q"] > 0.0);
    }
}

#[test]
fn bounds_nest_and_hold_nobody_else() {
    let bounds = [("p", "8M"), ("p/a", "2M")];
    let [nested, _] = rates(&[("p/a", 2), ("p/b", 2)], &bounds, &[]);
    assert_near(nested["p/a"], 2.0 * M);
    assert_near(nested["p/a"] + nested["p/b"], 8.0 * M);
    // Beside a flood the kernel throttles those below a bound as well.
    let writers = [("p/a", 2), ("p/b", 2), ("q", 1)];
    let [beside, held] = rates(&writers, &bounds, &[]);
    assert!(
        (0.9..1.03).contains(&(beside["p/a"] / 2.0 / M)),
        "{beside:?}"
    );
    assert!(beside["q"] > 50.0 * M, "{beside:?}");
    assert_eq!(held["q"], 0.0);
}

#[test]
fn a_bound_may_change_between_phases() {
    let [raised, _] = rates(&[("q", 4)], &[("q", "1M")], &[("q", "8M")]);
    assert_near(raised["q"], 8.0 * M);
    let [ended, held] = rates(&[("q", 4)], &[("q", "1M")], &[("q", "max")]);
    assert!(ended["q"] > 50.0 * M, "{ended:?}");
    assert_eq!(held["q"], 0.0);
}
