// SPDX-License-Identifier: GPL-2.0-only
//! `weir record`: keep a look, to read it elsewhere.

use crate::explain::{installed_module, stop_on_signals};
use crate::output;
use anyhow::Result;
use observe::live::{self, Target};
use observe::recording::Recording;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Record what the kernel's throttle does, for weir report
///
/// The file is written as it goes, and is of use up to its last second if the machine dies. Ctrl-C ends
/// the recording early. Exit status: 0 recorded, 2 it could not be.
#[derive(clap::Args, Debug)]
pub struct RecordArgs {
    /// A new file
    file: PathBuf,
    /// How long to record
    #[arg(long = "for", value_name = "DURATION", default_value = "30s", value_parser = scenario::units::milliseconds)]
    time: u64,
    /// One JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub fn record(args: &RecordArgs) -> Result<ExitCode> {
    let stop = stop_on_signals()?;
    let kernel = nix::sys::utsname::uname()?;
    let mut recording = Recording::create(&args.file, &kernel.release().to_string_lossy())?;
    let time = Duration::from_millis(args.time);
    let look = live::look(&Target::Host, time, &stop, Some(&mut recording));
    if look.is_err() {
        // An empty recording helps nobody.
        let _ = std::fs::remove_file(&args.file);
    }
    let mut seen = look?;
    seen.weir_is_installed = installed_module()?;
    let (seconds, lost) = (seen.seconds, seen.lost);
    let events = recording.events();
    let bytes = recording.finish(seen)?;
    if args.json {
        let summary = serde_json::json!({
            "file": args.file, "seconds": seconds, "events": events, "bytes": bytes, "lost_events": lost,
        });
        output::json(&summary)?;
    } else {
        output::line(format_args!(
            "{}: {seconds:.1} s, {events} events, {bytes} bytes, {lost} events lost",
            args.file.display()
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}
