// SPDX-License-Identifier: GPL-2.0-only
//! `weir record`: keep a look, to read it elsewhere.

use crate::explain::{is_module_installed, parse_watch_time, stop_on_signals};
use crate::output;
use anyhow::Result;
use observe::Observation;
use observe::Target;
use observe::live::{self, LookOptions};
use observe::recording::Recording;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Record what the kernel's throttle does, for weir report
///
/// The file grows while weir records. If the machine dies, it is usable to its last second. Ctrl-C
/// ends the recording early. Exit status: 0 recorded, 2 could not be recorded.
#[derive(clap::Args, Debug)]
pub struct RecordArgs {
    /// A new file
    file: PathBuf,
    /// How long to record
    #[arg(long = "for", value_name = "DURATION", default_value = "30s", value_parser = parse_watch_time)]
    time: u64,
    /// The kernel's buffer for each CPU; events that it has no room for are lost and counted
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = parse_buffer_size)]
    buffer: u64,
    /// One JSON object instead of text
    #[arg(long)]
    json: bool,
}

fn parse_buffer_size(text: &str) -> Result<u64, String> {
    let bytes = config::units::parse_size(text)?;
    if !(4 << 10..=1 << 30).contains(&bytes) {
        return Err(format!("`{text}`: expected 4K to 1G"));
    }
    Ok(bytes)
}

/// Runs the subcommand.
pub fn run(args: &RecordArgs) -> Result<ExitCode> {
    let stop = stop_on_signals()?;
    let kernel = nix::sys::utsname::uname()?;
    let weir_is_installed = is_module_installed()?;
    let mut recording = Recording::create_on(
        &args.file,
        &kernel.release().to_string_lossy(),
        &kernel.nodename().to_string_lossy(),
    )?;
    let look = LookOptions {
        time: Duration::from_millis(args.time),
        buffer: args.buffer,
    };
    let looked = live::observe_target(&Target::Host, look, &stop, Some(&mut recording));
    let (events, is_of_use) = (recording.event_count(), recording.is_of_use());
    let written = looked.and_then(|seen| {
        for what in &seen.blind {
            output::print_note(format_args!("note: {what}"));
        }
        let (seconds, lost) = (seen.seconds, seen.lost);
        let bytes = recording.finish(Observation {
            weir_is_installed,
            ..seen
        })?;
        Ok((seconds, lost, bytes))
    });
    let file = args.file.display();
    let (seconds, lost, bytes) = match written {
        Ok(written) => written,
        Err(why) if is_of_use => {
            return Err(why.context(format!(
                "{file} ends early; what it holds until then can be used"
            )));
        }
        Err(why) => {
            // An empty recording is of no use.
            let _ = std::fs::remove_file(&args.file);
            return Err(why);
        }
    };
    if args.json {
        let summary = serde_json::json!({
            "file": args.file, "seconds": seconds, "events": events, "bytes": bytes, "lost_events": lost,
        });
        output::print_json(&summary)?;
    } else {
        output::print_line(format_args!(
            "{file}: {seconds:.1} s, {events} events, {bytes} bytes, {lost} events lost"
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}
