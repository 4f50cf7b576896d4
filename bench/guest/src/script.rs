// SPDX-License-Identifier: GPL-2.0-only
//! Script plans: the guest's shell runs a file, its output travels line by line.

use crate::protocol::{Event, SCRIPT_PATH};
use anyhow::{Context, Result};
use runner::Channel;
use scenario::rundir::encode_part;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Bytes of a file in one event.
const PART: usize = 32 << 10;

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

/// Sends all files in `folder` and below. Links are not followed, devices and pipes left out.
pub fn send_files(folder: &Path, channel: &Channel) -> Result<()> {
    for (path, name) in collect_files(folder, "")? {
        let mut file = File::open(&path).with_context(|| format!("{}", path.display()))?;
        let mut part = vec![0; PART];
        loop {
            let read = file
                .read(&mut part)
                .with_context(|| format!("{}", path.display()))?;
            channel.send(&Event::File {
                path: name.clone(),
                base64: encode_part(&part[..read]),
            });
            if read == 0 {
                break;
            }
        }
    }
    Ok(())
}

/// The files in `folder` and below, each with its path below `name`.
fn collect_files(folder: &Path, name: &str) -> Result<Vec<(std::path::PathBuf, String)>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("{}", folder.display()))? {
        let entry = entry?;
        let below = format!("{name}{}", entry.file_name().to_string_lossy());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            all.extend(collect_files(&entry.path(), &format!("{below}/"))?);
        } else if kind.is_file() {
            all.push((entry.path(), below));
        }
    }
    all.sort();
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_below_folders_and_links_are_not_followed() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("a/b")).unwrap();
        fs::write(root.path().join("a/b/deep"), "x").unwrap();
        fs::write(root.path().join("top"), "").unwrap();
        std::os::unix::fs::symlink("/etc", root.path().join("link")).unwrap();
        let names: Vec<String> = collect_files(root.path(), "")
            .unwrap()
            .into_iter()
            .map(|(_, name)| name)
            .collect();
        assert_eq!(names, ["a/b/deep", "top"]);
    }
}
