// SPDX-License-Identifier: GPL-2.0-only
//! `weir compare`: how far is the twin from the lab?

use crate::counted;
use crate::run::{clock_name, locate_error, run_in_lab};
use crate::twin::Twin;
use anyhow::{Context, Result, anyhow, bail};
use comfy_table::{CellAlignment, Table};
use scenario::executor::{Executor, Request};
use scenario::metric::{Unit, unit_of_metric};
use scenario::model::{Arm, Expect, Scenario};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use verdict::Report;
use weir::output;

/// Run a scenario in the lab and on the twin, and print the differences
///
/// A figure of the twin is near if it is within 10 % of the lab's median or within the lab's own
/// range. A latency is near within a factor of 1.5, a percentage within 5 points. Exit status: 0 all
/// near, 1 some not, 2 the scenario could not be run.
#[derive(clap::Args, Debug)]
pub struct CompareArgs {
    /// Take the lab's figures from the report.json of an earlier `weir run --out DIR`, in the lab or
    /// on a host; one of another scenario, kernel or clock is refused
    #[arg(long, value_name = "FILE", conflicts_with_all = ["repeat", "out"])]
    lab: Option<PathBuf>,
    /// As for `weir run`; figures of --lab must be of its series
    #[arg(long, default_value = "debian:6.12")]
    kernel: String,
    /// Guests per arm; the twin runs once
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Let guests' clocks count instructions, as `weir run` does; figures of --lab must be of such
    /// guests
    #[arg(long)]
    count_instructions: bool,
    /// Seed of the twin's random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Keep the guests' logs and results here
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// One JSON object instead of a table
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// The table as Markdown
    #[arg(long)]
    markdown: bool,
    /// A scenario file
    scenario: PathBuf,
}

/// Metrics that are compared, of jobs and of the host.
const JOB: &[&str] = &[
    "iops",
    "clat_p50_ns",
    "clat_p99_ns",
    "sync_p50_ns",
    "sync_p99_ns",
];
const HOST: &[&str] = &[
    "dirty_median_bytes",
    "dirty_max_bytes",
    "disk_bw_bytes",
    "io_full_pct",
];

/// A figure of the lab.
struct Lab {
    median: f64,
    min: f64,
    max: f64,
    n: u64,
}

/// A figure of the lab and of the twin.
struct Pair {
    name: String,
    lab: Lab,
    twin: f64,
}

impl Pair {
    /// Near enough, by the rule for what it counts.
    fn is_near(&self) -> bool {
        let (lab, twin) = (self.lab.median, self.twin);
        let in_range = (self.lab.min..=self.lab.max).contains(&twin);
        in_range
            || match unit_of_metric(&self.name) {
                Unit::Percent => (twin - lab).abs() <= 5.0,
                Unit::Nanoseconds => twin <= lab * 1.5 && lab <= twin * 1.5,
                _ => (twin - lab).abs() <= 0.1 * lab.abs(),
            }
    }

    fn format_difference(&self) -> String {
        let (lab, twin) = (self.lab.median, self.twin);
        match unit_of_metric(&self.name) {
            Unit::Percent => format!("{:+.1} points", twin - lab),
            _ if lab == 0.0 => "-".into(),
            _ => format!("{:+.0} %", (twin / lab - 1.0) * 100.0),
        }
    }
}

/// Runs the subcommand.
pub fn run(args: &CompareArgs) -> Result<ExitCode> {
    let mut scenario = scenario::load(&args.scenario)?;
    if args.count_instructions {
        counted::set_counted_machine(&mut scenario);
    }
    // Figures are compared, not judged: what only the twin measures is no reason to refuse.
    let expects = std::mem::take(&mut scenario.expects);
    // First, because it refuses at once what it cannot run.
    let request = Request {
        scenario: &scenario,
        arms: &Arm::ALL,
        repeat: 1,
        record: false,
        out: None,
    };
    let twin = Twin { seed: args.seed }.run(&request, &());
    let twin = twin.map_err(|error| locate_error(error, &args.scenario))?;
    let twin = Report::new(&scenario, &Arm::ALL, &twin);
    let lab = match &args.lab {
        Some(path) => read_report(path, args, &scenario)?,
        None => measure_in_lab(args, &request)?,
    };
    let pairs = pair_figures(&scenario, &expects, lab, &twin);
    if pairs.is_empty() {
        bail!(
            "no figure of the lab's has a name that the twin's figures have: give --lab a report of the same scenario"
        );
    }
    let near = pairs.iter().filter(|pair| pair.is_near()).count();
    if args.json {
        output::print_json(&figures_as_json(&pairs))?;
    } else {
        output::print_line(format_args!("{}\n", figure_table(&pairs, args.markdown)))?;
        output::print_line(format_args!("{near} of {} figures are near", pairs.len()))?;
        if let Some((error, figures)) = mean_error(&pairs) {
            output::print_line(format_args!(
                "mean absolute relative error {:.1} % (N={figures}, those that are not 0 in the lab)",
                error * 100.0
            ))?;
        }
    }
    Ok(ExitCode::from(u8::from(near < pairs.len())))
}

/// The mean of |twin / lab - 1|, and over how many figures: those that the lab has something of.
fn mean_error(pairs: &[Pair]) -> Option<(f64, usize)> {
    let errors: Vec<f64> = pairs
        .iter()
        .filter(|pair| pair.lab.median != 0.0)
        .map(|pair| (pair.twin / pair.lab.median - 1.0).abs())
        .collect();
    let sum: f64 = errors.iter().sum();
    (!errors.is_empty()).then(|| (sum / errors.len() as f64, errors.len()))
}

fn measure_in_lab(args: &CompareArgs, request: &Request) -> Result<BTreeMap<String, Lab>> {
    let request = Request {
        repeat: args.repeat,
        out: args.out.as_deref(),
        ..*request
    };
    let runs = run_in_lab(&args.kernel, None, args.count_instructions, &request)
        .map_err(|error| locate_error(error, &args.scenario))?;
    let report = Report::new(request.scenario, &Arm::ALL, &runs);
    if let Some(trouble) = report.troubles.first() {
        bail!("{trouble}");
    }
    let figures = report.metrics.into_iter().map(|(name, s)| {
        let lab = Lab {
            median: s.median,
            min: s.min,
            max: s.max,
            n: s.n as u64,
        };
        (name, lab)
    });
    Ok(figures.collect())
}

/// Refuses a report of another scenario, kernel or clock; one without these, of an earlier weir, is
/// taken as it is.
fn check_same_run(run: &Value, args: &CompareArgs, scenario: &Scenario) -> Result<()> {
    let is_other = |key: &str, wanted: &str| {
        let of_report = run[key].as_str().filter(|has| *has != wanted);
        of_report.map(str::to_owned)
    };
    if let Some(name) = is_other("scenario", &scenario.name) {
        bail!("is of the scenario `{name}`, not of `{}`", scenario.name);
    }
    let wanted = clock_name(args.count_instructions);
    if let Some(other) = is_other("clock", wanted) {
        let how = match args.count_instructions {
            true => "leave out",
            false => "add",
        };
        bail!(
            "is of a clock that counts {other}, and the twin's would count {wanted}: {how} --count-instructions"
        );
    }
    // debian:6.12:cloud or debian:6.12.9+deb13-amd64; a path names no series.
    let Some(series) = args.kernel.strip_prefix("debian:") else {
        return Ok(());
    };
    let series: String = {
        let mut parts = series.split([':', '.', '+', '-']);
        [parts.next(), parts.next()]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(".")
    };
    let is_of = |kernel: &str| {
        let release = kernel.rsplit(' ').next().unwrap_or_default();
        let rest = release.strip_prefix(&series);
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let kernels = run["kernels"].as_array().into_iter().flatten();
    let other = kernels
        .filter_map(Value::as_str)
        .find(|kernel| !is_of(kernel));
    if let Some(other) = other {
        bail!("is of Linux {other}, not of {series}: give its series by --kernel");
    }
    Ok(())
}

/// Figures of a report.json.
fn read_report(
    path: &Path,
    args: &CompareArgs,
    scenario: &Scenario,
) -> Result<BTreeMap<String, Lab>> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the report {}", path.display()))?;
    let wrong = || {
        anyhow!(
            "{} is not the report of a run: it has no `metrics`",
            path.display()
        )
    };
    let value: Value =
        serde_json::from_str(&text).map_err(|why| anyhow!("{}: {why}", path.display()))?;
    check_same_run(&value["run"], args, scenario)
        .map_err(|why| anyhow!("{} {why}", path.display()))?;
    let metrics = value["metrics"].as_object().ok_or_else(wrong)?;
    // What never came is null.
    let number = |value: &Value| value.as_f64().or(value.is_null().then_some(f64::INFINITY));
    let figure = |value: &Value| {
        Some(Lab {
            median: number(value.get("median")?)?,
            min: number(value.get("min")?)?,
            max: number(value.get("max")?)?,
            n: value["n"].as_u64()?,
        })
    };
    metrics
        .iter()
        .map(|(name, value)| Ok((name.clone(), figure(value).ok_or_else(wrong)?)))
        .collect()
}

/// Figures that both have: of each job and the host, and what an expectation names.
fn pair_figures(
    scenario: &Scenario,
    expects: &[Expect],
    mut lab: BTreeMap<String, Lab>,
    twin: &Report,
) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for phase in &scenario.phases {
        let jobs = phase
            .jobs
            .iter()
            .flat_map(|job| JOB.iter().map(move |metric| format!("{job}.{metric}")));
        let names = jobs.chain(HOST.iter().map(|metric| format!("host.{metric}")));
        for name in names.collect::<Vec<_>>() {
            for arm in Arm::ALL {
                let name = format!("{}.{}.{name}", arm.name(), phase.name);
                if let (Some(lab), Some(twin)) = (lab.remove(&name), twin.metrics.get(&name)) {
                    let twin = twin.median;
                    pairs.push(Pair { name, lab, twin });
                }
            }
        }
    }
    for expect in expects {
        let of_bound = expect.bound.0.iter().flat_map(|term| &term.metrics);
        for name in [&expect.metric].into_iter().chain(of_bound) {
            if let (Some(lab), Some(twin)) = (lab.remove(name), twin.metrics.get(name)) {
                let (name, twin) = (name.clone(), twin.median);
                pairs.push(Pair { name, lab, twin });
            }
        }
    }
    pairs
}

fn figure_table(pairs: &[Pair], markdown: bool) -> Table {
    let mut table = report::plain_table(markdown);
    table.set_header(["figure", "lab", "N", "twin", "difference", ""]);
    for pair in pairs {
        let unit = unit_of_metric(&pair.name);
        let (lab, near) = (&pair.lab, if pair.is_near() { "near" } else { "off" });
        let range = match lab.n {
            1 => report::format_value(lab.median, unit),
            _ => format!(
                "{} ({}..{})",
                report::format_value(lab.median, unit),
                report::format_value(lab.min, unit),
                report::format_value(lab.max, unit)
            ),
        };
        let twin = report::format_value(pair.twin, unit);
        table.add_row([
            &pair.name,
            &range,
            &lab.n.to_string(),
            &twin,
            &pair.format_difference(),
            near,
        ]);
    }
    for column in table.column_iter_mut().skip(1).take(4) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn figures_as_json(pairs: &[Pair]) -> Value {
    let figures: serde_json::Map<String, Value> = pairs
        .iter()
        .map(|pair| {
            let lab = &pair.lab;
            let figure = serde_json::json!({
                "lab": {"median": lab.median, "min": lab.min, "max": lab.max, "n": lab.n},
                "twin": pair.twin,
                "near": pair.is_near(),
            });
            (pair.name.clone(), figure)
        })
        .collect();
    let error = mean_error(pairs).map(|(error, _)| error);
    serde_json::json!({ "figures": figures, "mean_absolute_relative_error": error })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(name: &str, (min, median, max): (f64, f64, f64), twin: f64) -> Pair {
        let lab = Lab {
            median,
            min,
            max,
            n: 3,
        };
        Pair {
            name: name.into(),
            lab,
            twin,
        }
    }

    fn near(name: &str, lab: (f64, f64, f64), twin: f64) -> bool {
        pair(name, lab, twin).is_near()
    }

    #[test]
    fn the_error_is_the_mean_of_what_the_lab_has() {
        let of = |lab: f64, twin: f64| pair("stock.p.a.iops", (lab, lab, lab), twin);
        let (error, figures) =
            mean_error(&[of(100.0, 90.0), of(10.0, 13.0), of(0.0, 5.0)]).expect("two");
        assert!(
            (error - 0.2).abs() < 1e-9 && figures == 2,
            "{error} {figures}"
        );
        assert_eq!(super::mean_error(&[of(0.0, 5.0)]), None);
    }

    #[test]
    fn what_is_near_depends_on_what_is_counted() {
        assert!(near("stock.p.a.iops", (100.0, 100.0, 100.0), 109.0));
        assert!(!near("stock.p.a.iops", (100.0, 100.0, 100.0), 111.0));
        assert!(
            near("stock.p.a.iops", (80.0, 100.0, 130.0), 129.0),
            "the lab's own range"
        );
        assert!(near("stock.p.a.clat_p99_ns", (2e6, 2e6, 2e6), 2.9e6));
        assert!(!near("stock.p.a.clat_p99_ns", (2e6, 2e6, 2e6), 1.3e6));
        assert!(near("stock.p.host.io_full_pct", (20.0, 20.0, 20.0), 24.9));
        assert!(!near("stock.p.host.io_full_pct", (20.0, 20.0, 20.0), 25.1));
    }
}
