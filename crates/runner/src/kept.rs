// SPDX-License-Identifier: GPL-2.0-only
//! What is kept of a run: `results.jsonl` with its events, `PHASE.csv` with samples, `PHASE.weir`
//! with recordings.

use crate::event::Event;
use crate::result::PhaseResult;
use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The files of one run.
pub struct Kept {
    directory: PathBuf,
    results: File,
}

impl Kept {
    /// Begins, in a directory that is there.
    ///
    /// # Errors
    /// Files cannot be written there.
    pub fn create(directory: &Path) -> Result<Kept> {
        let path = directory.join("results.jsonl");
        let results = File::create(&path).with_context(|| format!("{}", path.display()))?;
        // Recordings are written part by part: those of an earlier run in this directory would
        // grow.
        for entry in fs::read_dir(directory)?.flatten() {
            if entry.path().extension().is_some_and(|kind| kind == "weir") {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(Kept {
            directory: directory.to_path_buf(),
            results,
        })
    }

    /// Keeps what is worth it of an event.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn keep(&mut self, event: &Event) -> Result<()> {
        if matches!(event, Event::Beat) {
            return Ok(());
        }
        if let Event::Recording { phase, base64 } = event {
            let part = STANDARD.decode(base64).context("a part of a recording")?;
            let path = self.directory.join(format!("{phase}.weir"));
            let mut file = OpenOptions::new().create(true).append(true).open(path)?;
            return Ok(file.write_all(&part)?);
        }
        writeln!(self.results, "{}", serde_json::to_string(event)?)?;
        if let Event::PhaseEnd(result) = event {
            fs::write(
                self.directory.join(format!("{}.csv", result.phase)),
                csv(result)?,
            )?;
        }
        Ok(())
    }
}

/// All samples of a phase, one line each.
fn csv(result: &PhaseResult) -> Result<String> {
    let mut text = String::from("ms,subject,dirty_bytes\n");
    for (subject, series) in &result.samples {
        for (ms, kib) in series.at_ms.iter().zip(&series.dirty_kib) {
            writeln!(text, "{ms},{subject},{}", kib * 1024)?;
        }
    }
    Ok(text)
}
