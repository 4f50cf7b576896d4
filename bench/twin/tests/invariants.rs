// SPDX-License-Identifier: GPL-2.0-only
//! What holds for every scenario: pages are neither lost nor made up, time goes on, and the same
//! scenario comes to the same.
//!
//! The first two are asserted by the model itself, in test builds, at every event. `make
//! twin-random` tries many more.

use observe::event::What;
use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};
use scenario::model::{Arm, Scenario};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

fn load(text: &str) -> Scenario {
    scenario::parse("random", "random.toml", text)
        .unwrap_or_else(|problems| panic!("{problems}\n{text}"))
}

/// One job of a random scenario.
fn job() -> impl Strategy<Value = String> {
    (
        any::<bool>(),
        prop::sample::select(vec!["4k", "16k", "64k", "1m"]),
        prop::option::of(1u32..2_000),
        1u32..40,
        1u32..6,
        prop::option::of((1u32..500, 1u32..50)),
        any::<bool>(),
        prop::sample::select(vec![
            "",
            "",
            "grows",
            "network",
            "read",
            "fsync",
            "fdatasync",
            "null",
        ]),
    )
        .prop_map(|(random, bs, rate, mib, processes, think, unlink, kind)| {
            if kind == "null" {
                // On small hosts that is more than there is.
                return format!(
                    "fio = {{ ioengine = \"null\", rw = \"write\", bs = \"{mib}m\", iodepth = {processes}, size = \"{mib}m\", thinktime = \"100ms\", runtime = 1 }}"
                );
            }
            let mut fio = format!(
                "fio = {{ rw = \"{}{}\", bs = \"{bs}\", size = \"{mib}m\", numjobs = {processes}",
                if random { "rand" } else { "" },
                if kind == "read" { "read" } else { "write" }
            );
            if kind.ends_with("sync") {
                write!(fio, ", {kind} = {}", 1 + mib % 7).expect("a string");
            }
            if let Some(rate) = rate {
                write!(fio, ", rate = \"{rate}k\"").expect("a string");
            }
            if let Some((time, blocks)) = think {
                write!(
                    fio,
                    ", thinktime = \"{time}ms\", thinktime_blocks = {blocks}"
                )
                .expect("a string");
            }
            if unlink {
                fio.push_str(", unlink = 1");
            }
            if kind == "grows" {
                fio.push_str(", overwrite = 0, fallocate = \"none\"");
            }
            fio.push_str(" }");
            if kind == "network" {
                write!(
                    fio,
                    "\nnetwork = {{ bandwidth = \"{}K/s\", buffer = \"1M\" }}",
                    100 * mib
                )
                .expect("a string");
            }
            fio
        })
}

prop_compose! {
    fn scenario()(
        (cpus, anonymous) in (1u32..5, prop::sample::select(vec![0, 700, 860])),
        limit in 1u32..64,
        background in 1u32..64,
        jobs in prop::collection::vec((job(), 0usize..4, 0usize..2), 1..5),
        disks in prop::collection::vec((16u32..40_000, prop::sample::select(vec!["ext4", "xfs", "vfat"]), 0u32..3), 2),
        knobs in prop::collection::vec(prop::option::of((1u32..40, 0usize..8)), 3),
        options in prop::sample::select(vec!["", "commit=1", "commit=1,nodelalloc"]),
        trouble in prop::sample::select(vec!["", "", "stall = \"200ms\"\nstall_every = \"700ms\"", "fails = 7", "vary = 50"]),
        inner in any::<bool>(),
        drain in prop::option::of(1u32..30),
        burst in prop::option::of(10u32..2_000),
        clean in any::<bool>(),
    ) -> String {
        let mut text = format!(
            "title = \"t\"\n[host]\nmemory = \"1G\"\ncpus = {cpus}\n\
             sysctl = {{ \"vm.dirty_bytes\" = \"{limit}M\", \"vm.dirty_background_bytes\" = \"{background}M\" }}\n"
        );
        if let Some(seconds) = drain {
            writeln!(text, "weir = {{ drain_seconds = {seconds} }}").expect("a string");
        }
        writeln!(text, "[twin]\ndisk = \"20M/s\"\nanonymous = \"{anonymous}M\"").expect("a string");
        writeln!(text, "{trouble}").expect("a string");
        if let Some(ms) = burst {
            writeln!(text, "burst = \"{ms}ms\"").expect("a string");
        }
        for (index, (kib, filesystem, bounds)) in disks.iter().enumerate() {
            writeln!(text, "[[disk]]\nname = \"d{index}\"\nfilesystem = \"{filesystem}\"").expect("a string");
            writeln!(text, "mount_options = \"{options}\"").expect("a string");
            // `io.weight` counts on disks whose speed is known.
            if *bounds > 1 {
                writeln!(text, "io_cost = true").expect("a string");
            }
            // Reads and writes share it; or writes are bounded; or each is.
            for name in ["write", "read"].iter().take(*bounds as usize) {
                writeln!(text, "{name}_bandwidth = \"{kib}K/s\"").expect("a string");
            }
        }
        let paths = if inner { ["a/x", "a/y", "b"] } else { ["a", "b", "c"] };
        for (path, knob) in paths.iter().zip(&knobs) {
            writeln!(text, "[cgroup.\"{path}\"]").expect("a string");
            let Some((size, kind)) = knob else { continue };
            let line = match kind {
                0 => format!("\"memory.dirty_min\" = \"{size}M\""),
                1 => format!("\"memory.dirty_bytes\" = \"{size}M\""),
                2 => format!("\"memory.max\" = \"{size}M\""),
                3 => format!("\"memory.dirty_weight\" = {size}0"),
                6 => format!("\"memory.min\" = \"{size}M\""),
                7 => format!("\"memory.writeback_bytes\" = \"{}K\"", 64 * size),
                4 => format!("\"io.max\" = \"d0 wbps={size}0K rbps={size}0K; d1 wiops={size}\""),
                _ if disks.iter().any(|disk| disk.2 > 1) => format!("\"io.weight\" = {size}0"),
                _ => continue,
            };
            writeln!(text, "{line}").expect("a string");
        }
        for (index, (fio, cgroup, disk)) in jobs.iter().enumerate() {
            writeln!(text, "[[job]]\nname = \"j{index}\"\ndisk = \"d{disk}\"\n{fio}").expect("a string");
            // A task with memory of its own must fit into its cgroup.
            let bounded = fio.contains("null") && knobs.iter().flatten().any(|knob| knob.1 == 2);
            if let Some(path) = paths.get(*cgroup).filter(|_| !bounded) {
                writeln!(text, "cgroup = \"{path}\"").expect("a string");
            }
        }
        let names: Vec<String> = (0..jobs.len()).map(|index| format!("\"j{index}\"")).collect();
        for phase in ["one", "two"] {
            writeln!(
                text,
                "[[phase]]\nname = \"{phase}\"\njobs = [{}]\nduration = \"2s\"\nclean = {clean}\ndelay = {{ j0 = \"300ms\" }}",
                names.join(", ")
            ).expect("a string");
        }
        text
    }
}

fn holds((text, seed): (String, u64)) -> Result<(), TestCaseError> {
    let scenario = load(&text);
    for arm in Arm::ALL {
        let once = twin::run(&scenario, arm, seed).expect("modelled");
        // Also when it is watched.
        let again = twin::run_and_watch(
            &scenario,
            arm,
            seed,
            twin::WatchLevel::Passes,
            &mut |_, _| {},
        )
        .expect("modelled");
        prop_assert_eq!(
            (&once.metrics, once.events),
            (&again.metrics, again.events),
            "{}",
            text
        );
        for phase in &again.watched {
            let count =
                |of: fn(&What) -> bool| phase.events.iter().filter(|event| of(&event.what)).count();
            let asleep = count(|what| matches!(what, What::Pause(pass) if pass.pause_ms > 0));
            prop_assert!(count(|what| *what == What::Woke) <= asleep, "{}", text);
        }
        let mut figures = once.metrics.values();
        prop_assert!(figures.all(|metric| metric.value.is_finite() && metric.value >= 0.0));
    }
    Ok(())
}

/// Tries `cases` more, other ones each time.
fn try_some(cases: u32) {
    let config = ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let result = TestRunner::new(config).run(&(scenario(), any::<u64>()), holds);
    result.unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn pages_are_conserved_and_runs_repeat() {
    try_some(600);
}

/// `make twin-random`: RANDOM_SCENARIOS of them, on all CPUs.
#[test]
#[ignore = "takes minutes"]
fn pages_are_conserved_and_runs_repeat_many_times() {
    const AT_ONCE: u32 = 100;
    let wanted = std::env::var("RANDOM_SCENARIOS");
    let wanted: u32 = wanted.map_or(10_000, |text| text.parse().expect("a number"));
    let (start, taken, done) = (Instant::now(), AtomicU32::new(0), AtomicU32::new(0));
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(cases) = wanted
                    .checked_sub(taken.fetch_add(AT_ONCE, Ordering::Relaxed))
                    .filter(|left| *left > 0)
                {
                    let cases = cases.min(AT_ONCE);
                    try_some(cases);
                    let so_far = done.fetch_add(cases, Ordering::Relaxed) + cases;
                    println!(
                        "{so_far} of {wanted} random scenarios hold, {} s",
                        start.elapsed().as_secs()
                    );
                }
            });
        }
    });
    assert_eq!(done.into_inner(), wanted, "some were not tried");
}

#[test]
fn what_is_not_modelled_is_refused_by_key() {
    let text = "title = \"t\"\n[host]\nmemory = \"1G\"\ncpus = 2\n[[disk]]\nname = \"d\"\nwrite_bandwidth = \"1M/s\"\nfilesystem = \"xfs\"\n\
        [cgroup.a]\n\"memory.max\" = \"64M\"\n\
        [[job]]\nname = \"w\"\nfio = { rw = \"write\", size = \"1M\", direct = 1 }\n\
        [[job]]\nname = \"h\"\ncgroup = \"a\"\nfio = { ioengine = \"null\", rw = \"write\", bs = \"65m\", size = \"65m\" }\n\
        [[phase]]\nname = \"p\"\njobs = [\"w\", \"h\"]\nduration = \"1s\"\n";
    let refusals = twin::run(&load(text), Arm::Stock, 1).expect_err("refused");
    let keys: Vec<&str> = refusals.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["job[0].fio.direct", "job[1].fio.bs"]);
    assert_eq!(config::reader::line_of(text, "job[0].fio.direct"), 13);
}
