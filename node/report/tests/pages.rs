// SPDX-License-Identifier: GPL-2.0-only
//! What a page must be whatever it shows: well-formed, self-contained, true to its numbers, unmoved
//! by hostile names.

use observe::Observation;
use observe::diagnosis::Decider;
use observe::owed::Limit;
use observe::trace::Trace;
use report::timeline::{self, CgroupSeries, Loss, Task, Timeline};
use roxmltree::{Document, Node, ParsingOptions};

/// A stock 6.12, host's limit 32 MiB, one writer at 500 KiB/s beside one without limit.
const RECORDED: &str = include_str!("traces/host-limit.txt");

fn recorded() -> Timeline {
    let seen = Observation::from_trace(Trace::read(RECORDED.as_bytes()).expect("read"));
    timeline::observation_timeline("host-limit.txt", &seen)
}

fn parsed(page: &str) -> Document<'_> {
    let options = ParsingOptions {
        allow_dtd: true,
        ..ParsingOptions::default()
    };
    Document::parse_with_options(page, options).expect("a page is well-formed XML too")
}

fn is(node: &Node, name: &str, class: &str) -> bool {
    node.tag_name().name() == name
        && node
            .attribute("class")
            .is_some_and(|classes| classes.split(' ').any(|one| one == class))
}

/// The text of the cells of each row that begins with `first`.
fn rows(page: &str, first: &str) -> Vec<Vec<String>> {
    let text = |node: Node| node.text().unwrap_or_default().to_string();
    let document = parsed(page);
    let rows = document
        .descendants()
        .filter(|node| node.has_tag_name(("http://www.w3.org/1999/xhtml", "tr")))
        .map(|row| row.children().filter(Node::is_element).map(text).collect());
    rows.filter(|row: &Vec<String>| row.first().is_some_and(|cell| cell == first))
        .collect()
}

#[test]
fn a_page_is_whole_and_asks_nobody() {
    let page = report::html_page(&[&recorded(), &recorded()]);
    let document = parsed(&page);
    for node in document.descendants() {
        for attribute in node.attributes() {
            assert!(
                !["src", "href", "srcset", "action", "poster", "data"].contains(&attribute.name()),
                "{attribute:?}"
            );
            assert!(!attribute.name().starts_with("on"), "{attribute:?}");
        }
    }
    assert!(
        !page.contains("@import") && !page.contains("url(h"),
        "style"
    );
    assert!(page.contains("default-src 'none'"));
    let charts: Vec<Node> = document
        .descendants()
        .filter(|node| is(node, "svg", "chart"))
        .collect();
    assert!(charts.len() >= 10, "{}", charts.len());
    let mut ids = std::collections::BTreeSet::new();
    for node in document.descendants() {
        if let Some(id) = node.attribute("id") {
            assert!(ids.insert(id.to_string()), "{id} is there twice");
        }
    }
    for chart in charts {
        let names = chart.attribute("aria-labelledby").expect("named");
        assert!(names.split(' ').all(|id| ids.contains(id)), "{names}");
    }
}

#[test]
fn a_page_has_the_numbers_of_its_trace() {
    let page = report::html_page(&[&recorded()]);
    // 8192 pages of 4 KiB, at all times.
    let limit = &rows(&page, "limit")[0];
    assert_eq!(
        limit[1..],
        ["20", "32.0 MiB", "32.0 MiB", "32.0 MiB", "32.0 MiB"]
    );
    // (2 * 7168 - 8192) pages.
    assert_eq!(rows(&page, "freerun")[1][2], "24.0 MiB");
    // It dirtied one page, and looked again after each of its 19 pauses of 4 ms.
    let task = &rows(&page, "fio 166")[1];
    assert_eq!(task[1..], ["-", "4.00 KiB", "19", "76.0 ms", "4.00 ms"]);
    let lines: Vec<_> = recorded().tasks.iter().map(|task| task.id).collect();
    assert_eq!(lines, [156, 166]);
}

#[test]
fn hostile_names_stay_text() {
    let hostile = "</svg></title><script>alert(1)</script>\"'&\u{1b}]0;x\u{7}\u{202e}";
    let mut run = recorded();
    run.name = hostile.into();
    run.source = hostile.into();
    run.facts.push((hostile.into(), hostile.into()));
    run.missing.push(hostile.into());
    run.verdict = hostile.into();
    run.phases = vec![(0.0, hostile.into()), (0.1, hostile.into())];
    run.domains[0].name = hostile.into();
    run.tasks[0].name = hostile.into();
    run.tasks[0].cgroup = Some(hostile.into());
    run.cgroups.push(CgroupSeries {
        path: hostile.into(),
        held: vec![(0.0, 1.0), (0.1, 2.0)],
    });
    let page = report::html_page(&[&run, &run]);
    let document = parsed(&page);
    let scripts = document
        .descendants()
        .filter(|node| node.tag_name().name() == "script");
    assert_eq!(scripts.count(), 1);
    assert!(!page.contains('\u{1b}') && !page.contains('\u{202e}'));
}

#[test]
fn runs_share_their_axes() {
    let small = recorded();
    let mut large = recorded();
    large.seconds *= 2.0;
    large
        .host
        .held
        .iter_mut()
        .for_each(|(_, bytes)| *bytes *= 10.0);
    let page = report::html_page(&[&small, &large]);
    let document = parsed(&page);
    let axes: Vec<_> = document
        .descendants()
        .filter(|node| is(node, "svg", "chart"))
        .take(2)
        .map(|chart| ["data-seconds", "data-low", "data-high"].map(|name| chart.attribute(name)))
        .collect();
    assert_eq!(axes[0], axes[1]);
}

#[test]
fn what_is_left_out_is_said() {
    let mut run = Timeline {
        seconds: 100.0,
        progress_is: "counted",
        ..Timeline::default()
    };
    run.host.held = (0..200_000)
        .map(|n| (n as f64 / 2000.0, (n * 7919 % 1000) as f64))
        .collect();
    for id in 0..500 {
        run.tasks.push(Task {
            id,
            name: "dd".into(),
            cgroup: None,
            progress: vec![(0.0, 0.0), (100.0, f64::from(id))],
        });
        run.losses.push(Loss {
            at: 1.0,
            seconds: 0.1,
            is_announced: false,
            task: id as usize,
            limit: Limit::Throttle(Decider::Host),
        });
    }
    let page = report::html_page(&[&run]);
    assert!(page.len() < 150_000, "{}", page.len());
    assert!(page.contains("of 200000 points are drawn"));
    assert!(page.contains("1 of 500 points are drawn"));
    assert!(page.contains("30 of 500 tasks"), "tasks without a line");
    assert!(page.contains("The 100 that lost most, of 500"));
}

#[test]
fn nothing_seen_is_a_page_too() {
    let page = report::html_page(&[&Timeline::default()]);
    parsed(&page);
    assert!(page.contains("Nothing is known of single tasks"));
}

#[test]
fn fairness_is_one_if_all_get_the_same() {
    let with = |bytes: &[f64]| Timeline {
        tasks: bytes
            .iter()
            .map(|bytes| Task {
                progress: vec![(1.0, *bytes)],
                ..Task::default()
            })
            .collect(),
        ..Timeline::default()
    };
    assert_eq!(with(&[5.0, 5.0, 5.0]).fairness_index(), Some(1.0));
    assert_eq!(with(&[5.0, 0.0]).fairness_index(), Some(0.5));
    assert_eq!(with(&[5.0]).fairness_index(), None);
}

#[test]
fn a_phase_follows_a_phase_with_a_gap() {
    let mut run = Timeline::default();
    run.append_phase("one", recorded());
    let (length, tasks) = (run.seconds, run.tasks.len());
    run.append_phase("two", recorded());
    assert_eq!(run.seconds, 2.0 * length);
    assert_eq!(run.tasks.len(), 2 * tasks);
    assert_eq!(run.phases[1], (length, "two".into()));
    let gaps = run.host.held.iter().filter(|(_, value)| value.is_nan());
    assert_eq!((gaps.count(), run.host.held.len()), (1, 41));
    assert!(run.losses.last().expect("lost").task >= tasks);
    assert!(run.verdict.contains("Phase two:"));
}

/// Ten fio on an 8 MiB/s disk, stock 6.12: four seconds out of the phase `steady` of
/// scenarios/rate-based-10dd.toml.
#[test]
fn a_recording_of_ten_writers_is_drawn() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/traces/ten-dd.weir");
    let seen = Observation::open(std::path::Path::new(file)).expect("read");
    let run = timeline::observation_timeline("ten-dd.weir", &seen);
    // Counted in the file's lines, by another program: 244 pauses that ended, of 37.90512055 s. Ten
    // had not, one of which began last.
    assert_eq!((run.tasks.len(), run.losses.len()), (10, 244 + 9));
    let mut lost: Vec<f64> = run.losses.iter().map(|loss| loss.seconds).collect();
    assert!(lost.iter().sum::<f64>() > 37.905);
    lost.sort_by(f64::total_cmp);
    assert!((lost[lost.len() - 1] - 0.207622451).abs() < 1e-9);
    assert!((run.fairness_index().expect("ten") - 0.9996168).abs() < 1e-6);
    let page = report::html_page(&[&run]);
    let held = &rows(&page, "dirty + writeback")[0];
    assert_eq!(held[1..5], ["31", "55.5 MiB", "59.0 MiB", "61.4 MiB"]);
    assert_eq!(rows(&page, "/writers fio 191").len(), 1, "its line");
    let task = &rows(&page, "fio 191")[0];
    assert_eq!(task[1..3], ["/writers", "2.96 MiB"]);
    assert!(rows(&page, "io some")[0][3].ends_with(" %"));
    assert!(page.contains("Position ratio: /writers on /mnt/slow"));
    assert!(!page.contains("Not in this run"));
}
