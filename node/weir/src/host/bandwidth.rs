// SPDX-License-Identifier: GPL-2.0-only
//! `weir bandwidth`: how fast a systemd unit may dirty pages, now and after a restart.
//!
//! The unit's cgroup gets the value at once. A drop-in has it as `X-Weir-DirtyBandwidth=`, which
//! systemd skips and the agent keeps when the unit, or the host, starts again.

use super::system::System;
use crate::output;
use agent::requests::units;
use agent::tree::Hierarchy;
use anyhow::{Context, Result, bail};
use knobs::{Knob, PageSize};
use observe::read::cgroup;
use serde_json::json;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

const KNOB: Knob = Knob::DirtyBandwidth;
const KEY: &str = "X-Weir-DirtyBandwidth";
/// Name of the drop-in, which no other program writes.
const FILE: &str = "50-weir-bandwidth.conf";

/// Bound how fast a systemd unit writes, on any device, or show the bound
///
/// Counts what it writes through the page cache. Takes effect at once, and lasts: a drop-in has it, which `weir agent` keeps. Reads and direct I/O
/// are not bounded. Exit status: 0 done, 1 refused (there is no such unit, or no module), 2 it could
/// not be tried.
#[derive(clap::Args, Debug)]
pub struct BandwidthArgs {
    /// The unit, as in `backup.service`; `.service` may be left out
    unit: String,
    /// Bytes per second with K, M, G or T, as in `8M`; `max` takes the bound away
    #[arg(value_parser = parse_rate)]
    rate: Option<String>,
    /// One JSON object instead of text
    #[arg(long)]
    json: bool,
}

fn parse_rate(text: &str) -> Result<String, String> {
    let parsed = KNOB.parse_on(PageSize::running(), text);
    parsed
        .map(|_| text.to_owned())
        .map_err(|_| format!("expected {}", KNOB.accepted_values()))
}

/// Runs the subcommand.
pub fn run(args: &BandwidthArgs) -> Result<ExitCode> {
    let system = System::this_machine()?;
    if args.rate.is_some() && !system.is_root {
        bail!("setting a unit's bandwidth takes root: sudo weir bandwidth");
    }
    let tree = Hierarchy::open(&cgroup::mounted_directory(&system.full_path(""))?)?;
    let root = system.full_path("");
    let outcome = BoundUnit::find_bound_unit(&root, &tree, &args.unit).and_then(|unit| match &args.rate {
        None => Ok(unit.describe_bandwidth()),
        Some(rate) => {
            let mut message = unit.set_bandwidth(rate)?;
            if let Some(why) = reload_units().err() {
                message += &format!("\n{why:#}");
            }
            if !KNOB.is_default(rate) && !is_agent_active() {
                message += "\nweir-agent is not active: the bound ends with the unit's cgroup until you \
                            `systemctl enable --now weir-agent`";
            }
            Ok(message)
        }
    });
    let done = outcome.is_ok();
    let message = outcome.unwrap_or_else(|why| format!("{why:#}"));
    match (args.json, done) {
        (true, _) => output::print_json(&json!({"done": done, "message": message}))?,
        (false, true) => output::print_line(message)?,
        (false, false) => output::print_note(format_args!("weir: {message}")),
    }
    Ok(ExitCode::from(u8::from(!done)))
}

/// Has systemd, and by that the agent, read units again.
fn reload_units() -> Result<()> {
    let status = Command::new("systemctl")
        .arg("daemon-reload")
        .stdin(Stdio::null())
        .status()
        .context("cannot run systemctl: the drop-in counts once systemd reads its units again")?;
    if !status.success() {
        bail!("`systemctl daemon-reload` failed: the drop-in counts once that is done");
    }
    Ok(())
}

fn is_agent_active() -> bool {
    let asked = Command::new("systemctl")
        .args(["is-active", "--quiet", "weir-agent.service"])
        .status();
    asked.is_ok_and(|status| status.success())
}

/// A unit that has a file, or a cgroup, or both.
struct BoundUnit<'a> {
    root: &'a Path,
    name: String,
    /// Directory of the unit's cgroup, if the unit is active.
    cgroup: Option<PathBuf>,
}

impl<'a> BoundUnit<'a> {
    fn find_bound_unit(root: &'a Path, tree: &Hierarchy, named: &str) -> Result<BoundUnit<'a>> {
        let full_name = match named.contains('.') {
            true => named.to_owned(),
            false => format!("{named}.service"),
        };
        if full_name.contains('/') || units::section_of(&full_name).is_none() {
            bail!(
                "`{named}` is no unit that has a cgroup: expected a service, slice, scope, socket, mount or swap"
            );
        }
        let on_disk = units::find_unit(root, &full_name);
        let is_known = on_disk.is_some();
        let name = on_disk.unwrap_or(full_name);
        let mut cgroup = None;
        tree.walk(tree.root(), |place| {
            if units::unit_of(&place.path) == Some(&name) {
                cgroup = Some(place.directory.clone());
            }
            place.path == "/" || place.path.ends_with(".slice")
        });
        if cgroup.is_none() && !is_known {
            bail!("there is no unit {name}: `systemctl list-units` shows those there are");
        }
        Ok(BoundUnit { root, name, cgroup })
    }

    fn drop_in_path(&self) -> PathBuf {
        let directory = format!("{}/{}.d", units::WRITTEN, self.name);
        self.root.join(directory).join(FILE)
    }

    /// Sets the bound now and for later; returns what was done.
    fn set_bandwidth(&self, rate: &str) -> Result<String> {
        let is_cleared = KNOB.is_default(rate);
        let name = &self.name;
        if !is_cleared && !self.root.join("sys/module/weir").exists() {
            bail!(
                "weir's module is not loaded: `weir load`. Where it cannot be, the agent's [stock] mode keeps {KEY}= \
                 (`systemctl edit {name}`) by io.max"
            );
        }
        if let Some(directory) = &self.cgroup {
            let file = directory.join(KNOB.file_name());
            match write_knob(&file, rate) {
                Err(why) if why.kind() == ErrorKind::NotFound && is_cleared => {}
                Err(why) if why.kind() == ErrorKind::NotFound => bail!(
                    "{name} has no {}: the memory controller is off there, set MemoryAccounting=yes",
                    KNOB.file_name()
                ),
                written => written.with_context(|| format!("cannot write {}", file.display()))?,
            }
        }
        let drop_in = self.drop_in_path();
        if is_cleared {
            match fs::remove_file(&drop_in) {
                Err(why) if why.kind() == ErrorKind::NotFound => {}
                removed => {
                    removed.with_context(|| format!("cannot remove {}", drop_in.display()))?
                }
            }
            return Ok(match self.requested_rate() {
                Some((rate, file)) => format!("{} still asks for {rate}", file.display()),
                None => format!("{name}: no bound"),
            });
        }
        write_drop_in(&drop_in, &self.name, rate)
            .with_context(|| format!("cannot write {}", drop_in.display()))?;
        let when = match self.cgroup {
            Some(_) => "from now on",
            None => "once it runs",
        };
        Ok(format!(
            "{name}: {rate} a second {when}, kept by {}",
            drop_in.display()
        ))
    }

    /// The rate that the unit's files ask for, and the file that counts.
    fn requested_rate(&self) -> Option<(String, PathBuf)> {
        units::read(self.root, &self.name).remove(KEY)
    }

    fn describe_bandwidth(&self) -> String {
        let file = self
            .cgroup
            .as_ref()
            .map(|cgroup| cgroup.join(KNOB.file_name()));
        let now = file.and_then(|file| fs::read_to_string(file).ok());
        let now = now.map_or("not in effect".into(), |text| text.trim().to_owned());
        match self.requested_rate() {
            Some((rate, file)) => {
                format!("{}: {now}; {} asks for {rate}", self.name, file.display())
            }
            None => format!("{}: {now}", self.name),
        }
    }
}

/// Writes a cgroup's file. Not made: it would be a file that the kernel does not read.
fn write_knob(file: &Path, rate: &str) -> std::io::Result<()> {
    let mut file = fs::OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(file)?;
    file.write_all(format!("{rate}\n").as_bytes())
}

/// Writes the drop-in whole, or not at all.
fn write_drop_in(drop_in: &Path, unit: &str, rate: &str) -> Result<()> {
    let section = units::section_of(unit).unwrap_or("Service");
    let directory = drop_in.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(directory)?;
    let aside = directory.join(format!(".{FILE}"));
    let text = format!(
        "# Written by `weir bandwidth`; `weir bandwidth {unit} max` removes it.\n[{section}]\n{KEY}={rate}\n"
    );
    fs::write(&aside, text)?;
    fs::rename(&aside, drop_in)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A host with one service that is active and one that is not.
    fn example_host() -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("made");
        for directory in [
            "sys/module/weir",
            "sys/fs/cgroup/system.slice/backup.service",
            "usr/lib/systemd/system",
        ] {
            fs::create_dir_all(dir.path().join(directory)).expect("made");
        }
        for file in [
            "usr/lib/systemd/system/backup.service",
            "usr/lib/systemd/system/idle.service",
        ] {
            fs::write(dir.path().join(file), "[Service]\n").expect("written");
        }
        let knob = "sys/fs/cgroup/system.slice/backup.service/memory.dirty_bandwidth";
        fs::write(dir.path().join(knob), "max\n").expect("written");
        dir
    }

    fn set_rate(root: &Path, unit: &str, rate: &str) -> Result<String> {
        let tree = Hierarchy::open(&root.join("sys/fs/cgroup")).expect("a hierarchy");
        BoundUnit::find_bound_unit(root, &tree, unit)?.set_bandwidth(rate)
    }

    fn text_of(root: &Path, file: &str) -> String {
        fs::read_to_string(root.join(file)).unwrap_or_default()
    }

    const CGROUP: &str = "sys/fs/cgroup/system.slice/backup.service/memory.dirty_bandwidth";
    const DROP_IN: &str = "etc/systemd/system/backup.service.d/50-weir-bandwidth.conf";

    #[test]
    fn it_is_set_now_and_kept_and_taken_away() {
        let dir = example_host();
        let root = dir.path();
        let said = set_rate(root, "backup", "8M").expect("set");
        assert!(
            said.contains("backup.service: 8M a second from now on"),
            "{said}"
        );
        assert_eq!(text_of(root, CGROUP), "8M\n");
        assert!(text_of(root, DROP_IN).ends_with("[Service]\nX-Weir-DirtyBandwidth=8M\n"));
        let asked = units::read(root, "backup.service");
        assert_eq!(asked[KEY].0, "8M", "the agent reads it");

        let said = set_rate(root, "backup.service", "max").expect("cleared");
        assert_eq!(said, "backup.service: no bound");
        assert_eq!(text_of(root, CGROUP), "max\n");
        assert!(!root.join(DROP_IN).exists());
    }

    #[test]
    fn a_unit_that_does_not_run_gets_it_when_it_does() {
        let dir = example_host();
        let said = set_rate(dir.path(), "idle", "1M").expect("set");
        assert!(said.contains("once it runs"), "{said}");
        assert!(
            dir.path()
                .join("etc/systemd/system/idle.service.d")
                .exists()
        );
    }

    #[test]
    fn another_file_that_asks_is_named() {
        let dir = example_host();
        let other = "etc/systemd/system/backup.service.d/10-own.conf";
        set_rate(dir.path(), "backup", "8M").expect("set");
        fs::write(dir.path().join(other), format!("[Service]\n{KEY}=4M\n")).expect("written");
        let said = set_rate(dir.path(), "backup", "max").expect("cleared");
        assert!(said.ends_with("10-own.conf still asks for 4M"), "{said}");
    }

    #[test]
    fn mistakes_change_nothing_and_say_what_helps() {
        let dir = example_host();
        let root = dir.path();
        let why = |unit: &str| format!("{:#}", set_rate(root, unit, "8M").expect_err(unit));
        assert!(why("bakcup").contains("there is no unit bakcup.service"));
        assert!(why("../x.service").contains("is no unit that has a cgroup"));
        assert!(why("a.timer").contains("expected a service, slice"));
        fs::remove_file(root.join(CGROUP)).expect("removed");
        assert!(why("backup").contains("MemoryAccounting=yes"));
        assert!(
            !root.join(CGROUP).exists(),
            "no file where the kernel has none"
        );
        fs::remove_dir(root.join("sys/module/weir")).expect("removed");
        assert!(why("backup").contains("module is not loaded: `weir load`"));
        assert!(!root.join(DROP_IN).exists());
        assert!(parse_rate("8MB").is_err() && parse_rate("1K").is_err());
        assert!(parse_rate("8M").is_ok() && parse_rate("max").is_ok());
    }
}
