// SPDX-License-Identifier: GPL-2.0-only
//! Files that people write for weir: TOML in which every value knows its line, the problems found
//! in it, and sizes, bandwidths and durations.
//!
//! Scenarios and the agent's policy are read with it. A reader complains and goes on, so all
//! problems of a file are reported at once, each with its place and what is accepted:
//!
//! ```text
//! agent.toml:4: key `rule[0].set."memory.dirty_min"`: invalid value `16MB`: expected bytes ...
//! ```

pub mod problem;
pub mod reader;
mod unit;
pub mod units;

pub use unit::Unit;

use problem::{Problem, Problems};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The largest file that is read, in bytes: people write these files by hand.
const LARGEST: u64 = 16 << 20;

/// The text of the file at `path`. `kind` names what it is in errors, as in `scenario`.
///
/// # Errors
/// One problem: the file cannot be read, or it has more than 16 MiB.
pub fn read_text(path: &Path, kind: &str) -> Result<String, Problems> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(LARGEST + 1).read_to_string(&mut text));
    let why = match read {
        Ok(length) if length as u64 > LARGEST => {
            format!("it has more than {} MiB", LARGEST >> 20)
        }
        Ok(_) => return Ok(text),
        Err(why) => why.to_string(),
    };
    Err(Problems(vec![Problem {
        file: path.display().to_string(),
        line: 0,
        key: String::new(),
        what: format!("cannot read the {kind}: {why}"),
    }]))
}
