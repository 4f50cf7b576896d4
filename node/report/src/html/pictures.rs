// SPDX-License-Identifier: GPL-2.0-only
//! The pictures of a page, in the order in which they are read: what the host holds against its
//! limits, what each task got, what it lost, and the controller behind that. A picture has a panel
//! for each run, all with the same axes; one that no run has anything for is left out.

use super::axis::AxisUnit;
use crate::timeline::{
    Domain, LOSS_NAMES, Loss, Series, Task, Timeline, cgroup_shares, wait_percentiles,
};
use observe::owed::Limit;

/// Ways to draw values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MarkKind {
    Line,
    Dots,
    /// Down to the axis; those that follow cover it, so the first is the sum of all.
    Area,
}

/// One series of a panel.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    pub(super) name: String,
    pub(super) kind: MarkKind,
    /// Classes of page.css: a colour, and for lines a dash.
    pub(super) style: String,
    pub(super) points: Series,
}

/// Summary of a series.
pub(super) struct Sums {
    pub(super) count: usize,
    pub(super) least: f64,
    pub(super) median: f64,
    pub(super) most: f64,
    pub(super) last: f64,
}

impl Mark {
    pub(super) fn summarize_points(&self) -> Option<Sums> {
        let mut values: Vec<f64> = self.points.iter().map(|(_, value)| *value).collect();
        values.retain(|value| !value.is_nan());
        let last = *values.last()?;
        values.sort_unstable_by(f64::total_cmp);
        Some(Sums {
            count: values.len(),
            least: values[0],
            median: values[values.len() / 2],
            most: values[values.len() - 1],
            last,
        })
    }
}

/// One run's part of a picture.
#[derive(Clone, Debug)]
pub(super) struct Panel {
    /// Part of the title that differs from run to run; else empty.
    pub(super) subtitle: String,
    pub(super) unit: AxisUnit,
    pub(super) marks: Vec<Mark>,
}

/// A picture: its axes, marks and description.
#[derive(Clone, Debug)]
pub(super) struct Picture {
    pub(super) title: String,
    /// Hint on reading the picture.
    pub(super) note: String,
    pub(super) panels: Vec<Panel>,
}

/// Cgroups and devices with pictures of their own, the busiest.
const DOMAINS: usize = 3;
/// Tasks with a line of their own.
const TASKS: usize = 30;
/// Cgroups with a line of their own.
const CGROUPS: usize = 8;

/// A wait whose percentiles are drawn: its title, a line about it, and whether a loss is one.
type Latency = (&'static str, &'static str, fn(&Loss) -> bool);

const LATENCIES: [Latency; 2] = [
    (
        "How long fsync took, by cgroup",
        "Calls of fsync and the like, and waits for the journal,",
        |loss| loss.limit == Limit::Fsync,
    ),
    (
        "How long writes were held, by cgroup",
        "Pauses of writers in the throttle",
        |loss| matches!(loss.limit, Limit::Throttle(_)),
    ),
];

/// All pictures of these runs.
pub(super) fn all_pictures(runs: &[&Timeline]) -> Vec<Picture> {
    let mut all = vec![
        Picture {
            title: "Dirty pages of the host".into(),
            note: "Dirty and in writeback, against the levels of the throttle: below freerun no writer is held, around the setpoint \
                   writers are slowed to the disk's speed, at the limit they stop. Freerun is half way from background to \
                   limit, the setpoint half way from freerun to limit."
                .into(),
            panels: panel_per_run(runs, AxisUnit::Bytes, host_levels),
        },
        Picture {
            title: "Progress of the tasks".into(),
            note: format!(
                "A line is a task: {}. Lines on top of each other are tasks that got the same.{}",
                progress_is(runs),
                tasks_left_out(runs)
            ),
            panels: panel_per_run(runs, AxisUnit::Bytes, |run| progress_lines(&run.tasks)),
        },
        Picture {
            title: "Pauses".into(),
            note: "A dot is a time in which a task was put to sleep: when it began, and how long it lasted.".into(),
            panels: panel_per_run(runs, AxisUnit::Seconds, pause_dots),
        },
    ];
    for (title, what, is_of) in LATENCIES {
        all.push(Picture {
            title: title.into(),
            note: format!(
                "{what} that began in each of thirty windows of equal length: half took no longer than p50, 99 of 100 no \
                 longer than p99. A window without any has no point."
            ),
            panels: panel_per_run(runs, AxisUnit::Seconds, |run| latency_lines(run, is_of)),
        });
    }
    for (of, domains) in pair_domains(runs).into_iter().take(DOMAINS) {
        all.extend(domain_pictures(&of, &domains));
    }
    all.push(Picture {
        title: "Shares of the cgroups".into(),
        note:
            "Of what was dirtied by tasks whose cgroup is known, in thirty windows of equal length."
                .into(),
        panels: panel_per_run(runs, AxisUnit::Percent, stacked_shares),
    });
    all.push(Picture {
        title: "Dirty pages of the cgroups".into(),
        note: "Dirty and in writeback. Without weir's module the kernel's own counts are read every two seconds only: reading \
               them changes how it throttles."
            .into(),
        panels: panel_per_run(runs, AxisUnit::Bytes, cgroup_lines),
    });
    all.push(Picture {
        title: "Pressure of the host".into(),
        note: "Part of the time in which some, or all, tasks that were not idle waited (/proc/pressure).".into(),
        panels: panel_per_run(runs, AxisUnit::Percent, pressure_lines),
    });
    all.retain(|picture| picture.panels.iter().any(|panel| !panel.marks.is_empty()));
    all
}

fn panel_per_run(
    runs: &[&Timeline],
    unit: AxisUnit,
    marks: impl Fn(&Timeline) -> Vec<Mark>,
) -> Vec<Panel> {
    runs.iter()
        .map(|run| Panel {
            subtitle: String::new(),
            unit,
            marks: marks(run),
        })
        .collect()
}

fn new_mark(name: &str, kind: MarkKind, style: &str, points: &Series) -> Option<Mark> {
    (!points.is_empty()).then(|| Mark {
        name: name.into(),
        kind,
        style: style.into(),
        points: points.clone(),
    })
}

fn line_marks(all: &[(&str, &str, &Series)]) -> Vec<Mark> {
    all.iter()
        .filter_map(|(name, style, points)| new_mark(name, MarkKind::Line, style, points))
        .collect()
}

fn host_levels(run: &Timeline) -> Vec<Mark> {
    let levels = &run.host;
    line_marks(&[
        ("limit", "c1 d1", &levels.limit),
        ("setpoint", "c2 d2", &levels.setpoint),
        ("freerun", "c3 d3", &levels.freerun),
        ("background", "c6 d4", &levels.background),
        ("in writeback", "c5", &levels.writeback),
        ("dirty + writeback", "c0 bold", &levels.held),
    ])
}

fn progress_is(runs: &[&Timeline]) -> &'static str {
    let known = runs.iter().find(|run| !run.progress_is.is_empty());
    known.map_or("what it dirtied", |run| run.progress_is)
}

/// Note for a picture where not every task has a line.
fn tasks_left_out(runs: &[&Timeline]) -> String {
    let wrote = |run: &Timeline| {
        let tasks = run.tasks.iter();
        tasks.filter(|task| !task.progress.is_empty()).count()
    };
    let most = runs.iter().map(|run| wrote(run)).max().unwrap_or(0);
    if most <= TASKS {
        return String::new();
    }
    format!(" Drawn are {TASKS} of {most} tasks, evenly from the slowest to the fastest.")
}

/// A task by its cgroup first: `/db.slice postgres 412`.
fn line_name(task: &Task) -> String {
    let task_name = format!("{} {}", task.name, task.id);
    match &task.cgroup {
        Some(cgroup) => format!("{cgroup} {task_name}"),
        None => task_name,
    }
}

/// The lines of all tasks, or of some from the slowest to the fastest.
fn progress_lines(tasks: &[Task]) -> Vec<Mark> {
    let mut wrote: Vec<&Task> = tasks
        .iter()
        .filter(|task| !task.progress.is_empty())
        .collect();
    let end = |task: &Task| task.progress.last().map_or(0.0, |(_, bytes)| *bytes);
    if wrote.len() > TASKS {
        wrote.sort_by(|a, b| end(a).total_cmp(&end(b)));
        let last = wrote.len() - 1;
        let chosen = (0..TASKS).map(|n| wrote[n * last / (TASKS - 1)]);
        wrote = chosen.collect();
    }
    wrote
        .iter()
        .enumerate()
        .filter_map(|(index, task)| {
            let style = format!("c{} d{}", index % 8, index / 8 % 5);
            new_mark(&line_name(task), MarkKind::Line, &style, &task.progress)
        })
        .collect()
}

fn pause_dots(run: &Timeline) -> Vec<Mark> {
    let styles = ["c0", "c1", "c4", "c6", "c3", "c2"];
    LOSS_NAMES
        .into_iter()
        .zip(styles)
        .filter_map(|(name, style)| {
            let losses = run.losses.iter().filter(|loss| loss.name() == name);
            let dots = losses.map(|loss| (loss.at, loss.seconds)).collect();
            new_mark(name, MarkKind::Dots, style, &dots)
        })
        .collect()
}

/// Two lines for each cgroup: p99 in full, p50 dashed.
fn latency_lines(run: &Timeline, is_of: fn(&Loss) -> bool) -> Vec<Mark> {
    let all = wait_percentiles(run, is_of).into_iter().enumerate();
    all.flat_map(|(index, of)| {
        let name = |part: &str| format!("{} {part}", of.cgroup);
        [
            new_mark(
                &name("p99"),
                MarkKind::Line,
                &format!("c{index} bold round"),
                &of.p99,
            ),
            new_mark(
                &name("p50"),
                MarkKind::Line,
                &format!("c{index} d3 round"),
                &of.p50,
            ),
        ]
    })
    .flatten()
    .collect()
}

/// Domains of the runs that belong beside each other, and what to call them: those that all have by
/// name, then the busiest of the others.
fn pair_domains<'a>(runs: &[&'a Timeline]) -> Vec<(String, Vec<Option<&'a Domain>>)> {
    let named = |run: &&'a Timeline, name: &str| -> Option<&'a Domain> {
        run.domains.iter().find(|domain| domain.name == name)
    };
    let of_first = runs.first().map_or(&[][..], |run| &run.domains);
    let shared: Vec<&str> = of_first
        .iter()
        .map(|domain| domain.name.as_str())
        .filter(|name| runs.iter().all(|run| named(run, name).is_some()))
        .collect();
    let mut pairs: Vec<_> = shared
        .iter()
        .map(|name| {
            let domains = runs.iter().map(|run| named(run, name)).collect();
            ((*name).to_owned(), domains)
        })
        .collect();
    let others: Vec<Vec<&Domain>> = runs
        .iter()
        .map(|run| {
            let others = run.domains.iter();
            others
                .filter(|domain| !shared.contains(&domain.name.as_str()))
                .collect()
        })
        .collect();
    for index in 0..others.iter().map(Vec::len).max().unwrap_or(0) {
        let domains = others.iter().map(|of| of.get(index).copied()).collect();
        let number = pairs.len() + 1;
        pairs.push((format!("cgroup and device no. {number}"), domains));
    }
    pairs
}

/// The pictures of a domain, or of one of each run.
fn domain_pictures(of: &str, domains: &[Option<&Domain>]) -> Vec<Picture> {
    let panels = |unit, marks: fn(&Domain) -> Vec<Mark>| {
        domains
            .iter()
            .map(|domain| Panel {
                subtitle: match domain {
                    Some(domain) if domain.name != of => domain.name.clone(),
                    _ => String::new(),
                },
                unit,
                marks: domain.map(marks).unwrap_or_default(),
            })
            .collect()
    };
    vec![
        Picture {
            title: format!("Pages as the throttle saw them: {of}"),
            note: "In each pass of a writer: the pages of the domain that decided (the host's or the cgroup's), and the device's \
                   part of them."
                .into(),
            panels: panels(AxisUnit::Bytes, level_lines),
        },
        Picture {
            title: format!("Rates: {of}"),
            note: "The base rate is what one task would get if all were at the setpoint; the throttle multiplies it by the \
                   position ratio. Written and dirtied are of the whole device or cgroup."
                .into(),
            panels: panels(AxisUnit::Rate, rate_marks),
        },
        Picture {
            title: format!("Position ratio: {of}"),
            note: "What a task was held to, over the base rate: 1 at the setpoint, up to 2 below it, 0 at the limit.".into(),
            panels: panels(AxisUnit::Ratio, |domain| {
                let dots = new_mark("position ratio", MarkKind::Dots, "c0", &domain.pos_ratio);
                dots.into_iter().collect()
            }),
        },
    ]
}

fn level_lines(domain: &Domain) -> Vec<Mark> {
    line_marks(&[
        ("setpoint", "c2 d2", &domain.setpoint),
        ("freerun", "c3 d3", &domain.freerun),
        (
            "device's part of the setpoint",
            "c4 d1",
            &domain.device_setpoint,
        ),
        ("on the device", "c5", &domain.device_dirty),
        ("dirty + writeback", "c0 bold", &domain.dirty),
    ])
}

fn rate_marks(domain: &Domain) -> Vec<Mark> {
    let dots = new_mark("held to", MarkKind::Dots, "c5", &domain.task_rate);
    let others = line_marks(&[
        ("dirtied", "c3 d3", &domain.dirtied),
        ("written", "c2", &domain.written),
        ("base rate", "c1 bold", &domain.base_rate),
    ]);
    dots.into_iter().chain(others).collect()
}

/// Stacked: each is drawn up to the sum of itself and all after it.
fn stacked_shares(run: &Timeline) -> Vec<Mark> {
    let parts = cgroup_shares(run);
    if parts.len() < 2 {
        return Vec::new();
    }
    let sum_from = |first: usize| -> Series {
        let mut sum = parts[first].1.clone();
        for (_, series) in &parts[first + 1..] {
            sum.iter_mut()
                .zip(series)
                .for_each(|(sum, (_, part))| sum.1 += part);
        }
        sum
    };
    parts
        .iter()
        .enumerate()
        .filter_map(|(index, (name, _))| {
            let style = format!("c{index}");
            new_mark(name, MarkKind::Area, &style, &sum_from(index))
        })
        .collect()
}

fn cgroup_lines(run: &Timeline) -> Vec<Mark> {
    let mut all: Vec<_> = run.cgroups.iter().collect();
    let most = |series: &Series| series.iter().map(|(_, bytes)| *bytes).fold(0.0, f64::max);
    all.sort_by(|a, b| most(&b.held).total_cmp(&most(&a.held)));
    all.iter()
        .take(CGROUPS)
        .enumerate()
        .filter_map(|(index, cgroup)| {
            let style = format!("c{} d{}", index % 8, index % 5);
            new_mark(&cgroup.path, MarkKind::Line, &style, &cgroup.held)
        })
        .collect()
}

fn pressure_lines(run: &Timeline) -> Vec<Mark> {
    let styles = ["c0", "c1 bold", "c2 d2", "c3 d3"];
    run.pressure
        .iter()
        .zip(styles)
        .filter_map(|((name, series), style)| new_mark(name, MarkKind::Line, style, series))
        .collect()
}
