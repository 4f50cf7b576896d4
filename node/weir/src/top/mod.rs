// SPDX-License-Identifier: GPL-2.0-only
//! `weir top`: dirty pages and who stalls whom, as it happens.
//!
//! ```text
//! observe::watch ──► observe::interval ──► view: sorted, filtered ──► screen: lines ──┬─► live: a terminal
//!   reads               figures              what the keys say          of text      └─► batch: plain text
//! ```
//!
//! Lines are plain ASCII and carry all there is to know; a terminal adds emphasis, and colour if it
//! may.
//!
//! The price of a look grows with the number of cgroups, so looks keep their distance: ten times
//! what the last one took, at least. Example: 5,000 cgroups take 0.4 s to read, so they are read
//! every 4 s, whatever was asked for, and the first line says so.

mod batch;
mod columns;
mod live;
mod screen;
mod table;
mod view;

#[cfg(test)]
mod tests;

use crate::explain::stop_on_signals;
use crate::output::wants_colour;
use anyhow::Result;
use columns::Column;
use observe::interval::Interval;
use observe::watch::IntervalWatch;
use std::io::{IsTerminal, stdin, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use view::View;

/// Show dirty pages, and which cgroup stalls which, as it happens
///
/// Prints a row for each cgroup, with its descendants, and one for each device: pages dirty and
/// being written, floor, ceiling, limit, rates in and out, time lost to the throttle, fsync and
/// reclaim, and by which cgroup. `?` shows the keys. Time lost needs root; weir's module is not needed.
/// Exit status: 0, 2 if there is nothing to look at.
#[derive(clap::Args, Debug)]
pub struct TopArgs {
    /// Time between two looks; the kernel adds up cgroups' counters every 2 s by itself
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = parse_interval)]
    every: Duration,
    /// Plain text, one table after the other, as `top -b`; also where there is no terminal
    #[arg(long, short)]
    batch: bool,
    /// End after N looks
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    number: Option<u64>,
    /// One JSON object for each look, a line each
    #[arg(long)]
    json: bool,
    /// Column to sort by
    #[arg(
        long,
        value_name = "COLUMN",
        default_value = "lost",
        hide_possible_values = false
    )]
    sort: Column,
    /// Only cgroups whose path has TEXT in it
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    filter: String,
    /// Show idle cgroups and devices, too
    #[arg(long)]
    all: bool,
    /// Look at a machine that is laid out in this directory
    #[arg(long, hide = true, default_value = "/")]
    root: PathBuf,
}

/// Looking takes at most one part in this many of the time.
const PART_SPENT: u32 = 10;
/// Between two times that events are taken and keys looked at.
const ROUND: Duration = Duration::from_millis(100);

fn parse_interval(text: &str) -> Result<Duration, String> {
    let ms = config::units::parse_milliseconds(text)?;
    if !(100..=3_600_000).contains(&ms) {
        return Err(format!("{text} is not in 100ms..1h"));
    }
    Ok(Duration::from_millis(ms))
}

/// Runs the subcommand.
pub fn run(args: &TopArgs) -> Result<ExitCode> {
    let stop = stop_on_signals()?;
    let looks = Looks {
        watch: IntervalWatch::start(&args.root)?,
        due: Instant::now() + args.every,
    };
    let view = View::new(args.every, args.sort, args.filter.clone(), args.all);
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    let is_terminal = stdin().is_terminal() && stdout().is_terminal() && !is_dumb;
    if args.batch || args.json || !is_terminal {
        batch::run(looks, &view, args.json, args.number, &stop)?;
    } else {
        live::run(looks, view, args.number, wants_colour(), &stop)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Looks at the machine, one after the other.
struct Looks {
    watch: IntervalWatch,
    due: Instant,
}

impl Looks {
    /// The next interval, once its time has come; to be called several times a second.
    fn next(&mut self, every: Duration) -> Result<Option<Interval>> {
        if Instant::now() < self.due {
            self.watch.take_events()?;
            return Ok(None);
        }
        let mut interval = Interval::from_observation(&self.watch.end_slice()?);
        let distance = affordable_interval(every, self.watch.cost);
        if distance > every {
            let note = format!(
                "a look every {:.1} s: {} cgroups take {:.2} s to read",
                distance.as_secs_f64(),
                interval.cgroups.len(),
                self.watch.cost.as_secs_f64()
            );
            interval.notes.insert(0, note);
        }
        self.due = Instant::now() + distance;
        Ok(Some(interval))
    }

    /// For how long nothing has to be done.
    fn time_left(&self) -> Duration {
        ROUND.min(self.due.saturating_duration_since(Instant::now()))
    }

    /// Waits for the next one; nothing if weir is asked to end.
    fn wait_for_interval(
        &mut self,
        every: Duration,
        stop: &AtomicBool,
    ) -> Result<Option<Interval>> {
        while !stop.load(Ordering::Relaxed) {
            if let Some(interval) = self.next(every)? {
                return Ok(Some(interval));
            }
            std::thread::sleep(self.time_left());
        }
        Ok(None)
    }
}

/// Until the next look, if the last one took so long.
fn affordable_interval(every: Duration, cost: Duration) -> Duration {
    every.max(cost * PART_SPENT)
}
