// SPDX-License-Identifier: GPL-2.0-only
//! Scenarios on this machine: `weir run --on host`.

use crate::progress;
use anyhow::{Context, Result, bail};
use host::clean::LeftOver;
use host::{Interrupt, LocalHost};
use scenario::executor::{self, Executor, Refusal, Request, Run};
use scenario::model::Scenario;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::collections::BTreeMap;
use std::io::{IsTerminal, stdin};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use weir::host::System;
use weir::output;

/// Reads a disk, `NAME=DIRECTORY`.
pub fn parse_disk(text: &str) -> Result<(String, PathBuf)> {
    match text.split_once('=') {
        Some((name, directory)) if !name.is_empty() && !directory.is_empty() => {
            let directory = std::path::absolute(directory)?;
            // Mounts are known by their real paths.
            let directory = directory.canonicalize().unwrap_or(directory);
            Ok((name.to_owned(), directory))
        }
        _ => bail!("`{text}` is not a disk: write NAME=DIRECTORY, as in slow=/srv/test"),
    }
}

/// Runs `weir run --on host --clean-up`.
pub fn clean_up() -> Result<ExitCode> {
    match host::clean::clean_left_over()? {
        LeftOver::PutBack => output::print_line("what a killed run had left is put back")?,
        LeftOver::Nothing => output::print_line("no run has left anything")?,
        LeftOver::GoesOn => bail!("a run goes on here, or is being put back: nothing was touched"),
    }
    Ok(ExitCode::SUCCESS)
}

/// Puts back what an earlier run has left, checks, asks, runs.
pub fn run_on_host(
    disks: &[(String, PathBuf)],
    module: Option<&Path>,
    yes: bool,
    request: &Request,
) -> Result<Vec<Run>, executor::Error> {
    let interrupt = Arc::new(Interrupt::default());
    let host = LocalHost {
        disks: disks.iter().cloned().collect(),
        module: match module {
            Some(path) => Some(std::path::absolute(path).context("--module")?),
            None => System::this_machine()?.installed_module(),
        },
        interrupt: &interrupt,
        agree: &|changes| Ok(yes || ask_agreement(changes)?),
    };
    if nix::unistd::geteuid().is_root() && host::clean::clean_left_over()? == LeftOver::PutBack {
        output::print_note("weir: what a killed run had left is put back");
    }
    let stop = interrupt.clone();
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("watching for ctrl-c")?;
    std::thread::spawn(move || {
        for _ in signals.forever() {
            stop.stop();
        }
    });
    host.run(request, &*progress::show_runs(request))
}

/// Finds all that this machine cannot honour of `scenario`.
pub fn find_refusals(scenario: &Scenario) -> Vec<Refusal> {
    let host = LocalHost {
        disks: BTreeMap::new(),
        module: None,
        interrupt: &Interrupt::default(),
        agree: &|_| Ok(false),
    };
    host.find_refusals(scenario)
}

/// Shows what others on this machine will notice, and asks.
fn ask_agreement(changes: &[String]) -> Result<bool> {
    let list = changes.join("\n  ");
    output::print_note(format_args!(
        "weir: as long as the run takes, it changes this of the whole machine, and puts it back afterwards:\n  {list}"
    ));
    if !stdin().is_terminal() {
        bail!(
            "standard input is not a terminal, so weir cannot ask: give --yes to agree to these changes"
        );
    }
    output::print_note("weir: go on? [y/N]");
    let mut answer = String::new();
    stdin()
        .read_line(&mut answer)
        .context("reading the answer")?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_a_name_and_a_directory() {
        let (name, directory) = parse_disk("slow=/tmp/..").expect("a disk");
        assert_eq!(
            (name.as_str(), directory.as_path()),
            ("slow", Path::new("/"))
        );
        for text in ["slow", "=/tmp", "slow="] {
            let error = parse_disk(text).unwrap_err().to_string();
            assert!(error.contains("write NAME=DIRECTORY"), "{error}");
        }
    }
}
