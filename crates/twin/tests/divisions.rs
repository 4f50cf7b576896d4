// SPDX-License-Identifier: GPL-2.0-only
//! A weight divides what its parent's children get, and nothing outside: six unlimited writers on a
//! disk of 6 MiB/s.

use scenario::model::Arm;

const WRITERS: [&str; 6] = ["sys/s1", "sys/s2", "sys/s3", "single/x", "pair/a", "pair/b"];

/// Percent of what reached the disk, in the order of [`WRITERS`], and how often each was held.
fn shares(weights: &[(&str, u32)]) -> ([f64; 6], [f64; 6]) {
    let mut text = "title = \"t\"\n[host]\nmemory = \"1G\"\ncpus = 2\n\
        sysctl = { \"vm.dirty_bytes\" = \"16M\", \"vm.dirty_background_bytes\" = \"8M\" }\n\
        [twin]\ncall = \"10us\"\npage = \"10us\"\n\
        [[disk]]\nname = \"d\"\nfilesystem = \"ext4\"\nwrite_bandwidth = \"6M/s\"\n"
        .to_string();
    for path in WRITERS.iter().chain(&["pair"]) {
        text += &format!("[cgroup.\"{path}\"]\n");
        for (_, weight) in weights.iter().filter(|(of, _)| of == path) {
            text += &format!("\"memory.dirty_weight\" = {weight}\n");
        }
    }
    for path in WRITERS {
        text += &format!(
            "[[job]]\nname = \"{}\"\ncgroup = \"{path}\"\nfio = {{ rw = \"write\", bs = \"64k\", size = \"40m\", invalidate = 0 }}\n",
            path.replace('/', "_")
        );
    }
    let jobs = WRITERS.map(|path| format!("\"{}\"", path.replace('/', "_")));
    for (phase, seconds) in [("begin", 30), ("p", 120)] {
        text += &format!(
            "[[phase]]\nname = \"{phase}\"\njobs = [{}]\nduration = \"{seconds}s\"\n",
            jobs.join(", ")
        );
    }
    let scenario =
        scenario::parse("t", "t.toml", &text).unwrap_or_else(|problems| panic!("{problems}"));
    let outcome =
        twin::run(&scenario, Arm::Weir, 1).unwrap_or_else(|refusals| panic!("{refusals:?}"));
    let of = |path: &str, metric: &str| {
        let name = format!("weir.p.cgroup/{path}.{metric}");
        let found = outcome.metrics.get(&name);
        found.map_or_else(
            || panic!("{name} of {:?}", outcome.metrics.keys()),
            |m| m.value,
        )
    };
    let bytes = WRITERS.map(|path| of(path, "disk_bw_bytes"));
    let all: f64 = bytes.iter().sum();
    let held = WRITERS.map(|path| of(path, "nr_weight_held"));
    (bytes.map(|bytes| 100.0 * bytes / all), held)
}

fn mean(shares: &[f64]) -> f64 {
    shares.iter().sum::<f64>() / shares.len() as f64
}

/// A knob that is set shifts which task comes first, so shares differ by some points.
#[test]
fn a_weight_of_an_only_child_changes_nothing() {
    let (before, _) = shares(&[]);
    let (after, held) = shares(&[("single/x", 101)]);
    assert!(
        (mean(&before[..3]) - mean(&after[..3])).abs() <= 4.0,
        "{before:?} {after:?}"
    );
    assert!((before[3] - after[3]).abs() <= 4.0, "{before:?} {after:?}");
    assert_eq!(held, [0.0; 6]);
}

#[test]
fn a_tenant_divides_what_it_gets_and_takes_nothing() {
    let (before, _) = shares(&[]);
    let (after, held) = shares(&[("pair/b", 400)]);
    assert!((3.2..4.8).contains(&(after[5] / after[4])), "{after:?}");
    assert!(held[4] > 0.0 && held[..4] == [0.0; 4], "{held:?}");
    assert!(mean(&after[..4]) >= mean(&before[..4]) - 2.0);
    // A flusher's part, and a quarter of that.
    let pair = after[4] + after[5];
    assert!((19.0..35.3).contains(&pair), "{after:?}");
}

#[test]
fn a_weight_at_the_top_makes_the_root_the_scope() {
    let (after, held) = shares(&[("pair/b", 400), ("pair", 200)]);
    // Of 100 : 100 : 200 the pair has half, and 1 : 4 of that.
    for (share, due) in after.iter().zip([8.3, 8.3, 8.3, 25.0, 10.0, 40.0]) {
        assert!((0.7..1.5).contains(&(share / due)), "{after:?}");
    }
    assert!(held.iter().all(|held| *held > 0.0), "{held:?}");
}
