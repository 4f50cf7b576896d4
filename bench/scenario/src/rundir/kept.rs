// SPDX-License-Identifier: GPL-2.0-only
//! Writes what is kept of a run.

use super::{About, Event, PhaseResult, RESULTS, decode_part};
use anyhow::{Context, Result};
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The files of one run.
pub struct RunFiles {
    directory: PathBuf,
    results: File,
}

impl RunFiles {
    /// Makes the directory and begins in it.
    ///
    /// # Errors
    /// Files cannot be written there.
    pub fn create(directory: &Path, about: About) -> Result<RunFiles> {
        fs::create_dir_all(directory).with_context(|| format!("making {}", directory.display()))?;
        let path = directory.join(RESULTS);
        let results = File::create(&path).with_context(|| format!("{}", path.display()))?;
        // Recordings are written part by part: those of an earlier run in this directory would
        // grow.
        for entry in fs::read_dir(directory)?.flatten() {
            if entry.path().extension().is_some_and(|kind| kind == "weir") {
                fs::remove_file(entry.path())?;
            }
        }
        let mut kept = RunFiles {
            directory: directory.to_path_buf(),
            results,
        };
        kept.write_event(&Event::About(about))?;
        Ok(kept)
    }

    /// Keeps what is worth it of an event.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write_event(&mut self, event: &Event) -> Result<()> {
        if matches!(event, Event::Beat | Event::File { .. }) {
            return Ok(());
        }
        if let Event::Recording { phase, base64 } = event {
            let part = decode_part(base64)?;
            let path = self.directory.join(format!("{phase}.weir"));
            let mut file = OpenOptions::new().create(true).append(true).open(path)?;
            return Ok(file.write_all(&part)?);
        }
        writeln!(self.results, "{}", serde_json::to_string(event)?)?;
        if let Event::PhaseEnd(result) = event {
            fs::write(
                self.directory.join(format!("{}.csv", result.phase)),
                format_csv(result)?,
            )?;
        }
        Ok(())
    }
}

/// All samples of a phase, one line each.
fn format_csv(result: &PhaseResult) -> Result<String> {
    let mut text = String::from("ns,subject,dirty_bytes\n");
    for (subject, series) in &result.samples {
        for (ns, bytes) in series.at_ns.iter().zip(&series.dirty_bytes) {
            writeln!(text, "{ns},{subject},{bytes}")?;
        }
    }
    Ok(text)
}
