// SPDX-License-Identifier: GPL-2.0-only
//! Observations from files of any kind.

use super::recording;
use crate::diagnosis::home_of;
use crate::model::cgroup::{ROOT, UNKNOWN, display_path};
use crate::model::observation::Observation;
use crate::model::target::Target;
use crate::model::text::format_size;
use crate::model::trace::Trace;
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// A file larger than this is refused: it is not read piece by piece.
pub(crate) const LARGEST: u64 = 2 << 30;

/// Cgroups that are named where another was asked for.
const MOST_TOLD: usize = 8;

impl Observation {
    /// Reads a file: a recording, `trace.dat`, or text of ftrace, trace-cmd or perf.
    ///
    /// # Errors
    /// It cannot be read, or is none of these.
    pub fn open(path: &Path) -> Result<Observation> {
        let bytes = read_content(path)?;
        let seen = if recording::is_recording(&bytes) {
            recording::read(&bytes)
        } else {
            Trace::read(&bytes).map(Observation::from_trace)
        };
        seen.with_context(|| format!("{} cannot be used", path.display()))
    }

    /// Finds the target that a cgroup's path, `inode:N` or a task's id names, of those that a file
    /// has.
    ///
    /// # Errors
    /// It has none such; the message names those it has.
    pub fn find_target(&self, text: &str) -> Result<Target> {
        if let Ok(task) = text.parse() {
            ensure!(
                self.stalls.iter().any(|stall| stall.task == task)
                    || self.names.contains_key(&task),
                "there is no task {task}"
            );
            let mut own = self.stalls.iter().filter(|stall| stall.task == task);
            let known = self.homes.get(&task).cloned();
            let home = known.or_else(|| own.next().map(|stall| home_of(self, stall)));
            return Ok(Target::Process(
                task,
                home.unwrap_or_else(|| UNKNOWN.into()),
            ));
        }
        let path = text.strip_prefix(ROOT).unwrap_or(text).trim_matches('/');
        let stalls = self.stalls.iter().map(|stall| home_of(self, stall));
        let cgroups = self.cgroups.iter().map(|cgroup| cgroup.path.clone());
        let has: BTreeSet<String> = stalls.chain(cgroups).collect();
        let is_below =
            |of: &String| path.is_empty() || of == path || of.starts_with(&format!("{path}/"));
        if !has.iter().any(is_below) {
            let shown: Vec<String> = has
                .iter()
                .take(MOST_TOLD)
                .map(|path| display_path(path))
                .collect();
            bail!(
                "there is no cgroup /{path}; traces have cgroups by inode (`ls -di {ROOT}/{path}`, then `inode:NUMBER`); \
                 it has {}",
                shown.join(", ")
            );
        }
        Ok(Target::Cgroup(path.into()))
    }

    /// Leaves out stalls of tasks other than the one that is asked for.
    pub fn keep_target(&mut self, target: &Target) {
        if let Target::Process(task, home) = target {
            self.stalls.retain(|stall| stall.task == *task);
            self.homes.insert(*task, home.clone());
        }
    }
}

/// Reads all of a file or a pipe.
///
/// # Errors
/// It cannot be read, or has more than is held in memory.
pub fn read_content(path: &Path) -> Result<Vec<u8>> {
    read_limited(LARGEST, path)
}

fn read_limited(largest: u64, path: &Path) -> Result<Vec<u8>> {
    let name = path.display();
    let file = File::open(path).with_context(|| format!("cannot read {name}"))?;
    let metadata = file
        .metadata()
        .with_context(|| format!("cannot read {name}"))?;
    let kind = metadata.file_type();
    if kind.is_char_device() || kind.is_block_device() {
        bail!("{name} is a device, not a file");
    }
    // A pipe does not say how much there is.
    let mut bytes = Vec::new();
    if metadata.len() <= largest {
        file.take(largest + 1)
            .read_to_end(&mut bytes)
            .with_context(|| format!("cannot read {name}"))?;
    }
    if metadata.len().max(bytes.len() as u64) > largest {
        bail!(
            "{name} has more than {}: cut it first, with `trace-cmd split`, or with `head` if it is text",
            format_size(largest)
        );
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::stat::Mode;
    use std::io::Write;

    #[test]
    fn what_is_too_large_is_refused_whether_it_says_so_or_not() {
        let directory = tempfile::tempdir().expect("made");
        let (file, pipe) = (directory.path().join("file"), directory.path().join("pipe"));
        std::fs::write(&file, "twelve bytes").expect("written");
        nix::unistd::mkfifo(&pipe, Mode::S_IRWXU).expect("made");
        for largest in [12, 11] {
            let path = pipe.clone();
            let writer = std::thread::spawn(move || {
                let mut pipe = File::options().write(true).open(path).expect("opened");
                pipe.write_all(b"twelve bytes").expect("written");
            });
            for path in [&file, &pipe] {
                let got = read_limited(largest, path).map_err(|why| why.to_string());
                match largest {
                    12 => assert_eq!(got.as_deref(), Ok(&b"twelve bytes"[..])),
                    _ => assert!(got.expect_err("refused").contains("more than 11 B: cut it")),
                }
            }
            writer.join().expect("ended");
        }
    }
}
