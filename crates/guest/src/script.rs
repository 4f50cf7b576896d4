// SPDX-License-Identifier: GPL-2.0-only
//! Script plans: the guest's shell runs a file, its output travels line by line.

use crate::protocol::{Event, SCRIPT_PATH};
use anyhow::{Context, Result};
use runner::Channel;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

/// Runs the script; stdout and stderr share one pipe, so that their lines keep their order.
pub fn run(args: &[String], env: &BTreeMap<String, String>, channel: &Channel) -> Result<()> {
    let (reader, writer) = nix::unistd::pipe().context("making a pipe for the script's output")?;
    let errors = writer
        .try_clone()
        .context("making a pipe for the script's output")?;
    let mut child = Command::new("sh")
        .arg(SCRIPT_PATH)
        .args(args)
        .envs(env)
        .stdin(Stdio::null())
        .stdout(writer)
        .stderr(errors)
        .spawn()
        .with_context(|| format!("cannot start sh {SCRIPT_PATH}"))?;
    // What the script leaves running keeps the pipe open; the script's own end is what counts.
    let forward = channel.clone();
    let lines = std::thread::spawn(move || {
        for line in BufReader::new(std::fs::File::from(reader)).split(b'\n') {
            match line {
                Ok(line) => {
                    let text = String::from_utf8_lossy(&line)
                        .trim_end_matches('\r')
                        .to_owned();
                    forward.send(&Event::Line { text });
                }
                Err(error) => return eprintln!("weir guest: reading the script's output: {error}"),
            }
        }
    });
    let status = child.wait().context("waiting for the script")?;
    for _ in 0..20 {
        if lines.is_finished() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let status = status
        .code()
        .or(status.signal().map(|signal| 128 + signal))
        .unwrap_or(255);
    channel.send(&Event::Exit { status });
    Ok(())
}
