// SPDX-License-Identifier: GPL-2.0-only
//! Messages of a scenario's run while it goes on: [`Event`]s, one JSON line each, so that a run
//! that dies in the middle leaves everything it said before readable, and a transcript can be kept
//! and read by people.

use super::PhaseResult;
use crate::executor::Request;
use crate::model::{Arm, Filesystem};
use crate::place::Place;
use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

/// A run says [`Event::Beat`] this often, in milliseconds.
pub const BEAT_MS: u64 = 5_000;

/// Folder of a guest whose files `weir exec --out` keeps.
pub const OUT: &str = "/out";

/// Bytes as events hold them, which are lines of text.
pub fn encode_part(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// The bytes that [`encode_part`] was given.
///
/// # Errors
/// The text is no such encoding.
pub fn decode_part(base64: &str) -> Result<Vec<u8>> {
    STANDARD.decode(base64).context("a part of a file")
}

/// Scenario, arm and repeat of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// The scenario's name.
    pub scenario: String,
    /// The scenario's title.
    pub title: String,
    /// With the module or without.
    pub arm: Arm,
    /// Counted from 0.
    pub repeat: u32,
    /// Place where the scenario was run.
    pub place: Place,
    /// Start of the run, in seconds since 1970.
    pub begun: u64,
    /// Version of weir that ran it; empty if an older one did.
    #[serde(default)]
    pub version: String,
    /// Memory and CPUs of the scenario's host, in bytes.
    #[serde(default)]
    pub host: Option<(u64, u32)>,
    /// Disks of the scenario: name, filesystem, bytes written per second.
    #[serde(default)]
    pub disks: Vec<(String, Filesystem, Option<u64>)>,
}

impl About {
    /// A run of `request` that begins now.
    pub fn started_now(request: &Request, arm: Arm, repeat: u32, place: Place) -> About {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        About {
            scenario: request.scenario.name.clone(),
            title: request.scenario.title.clone(),
            arm,
            repeat,
            place,
            begun: since.map_or(0, |since| since.as_secs()),
            version: env!("CARGO_PKG_VERSION").into(),
            host: Some((
                request.scenario.host.memory_bytes,
                request.scenario.host.cpus,
            )),
            disks: request
                .scenario
                .disks
                .iter()
                .map(|disk| (disk.name.clone(), disk.filesystem, disk.write_bandwidth))
                .collect(),
        }
    }
}

/// One line of what a run says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// Identity of the run: the first line of what is kept.
    About(About),
    /// Process 1 is there, and its work is not: it waits for a line that says how many bytes of it
    /// the lab has attached. Never kept.
    Booted,
    /// First of all that is said by what works; says which kernel this really is.
    Boot {
        /// Release of the kernel (`uname -r`).
        release: String,
    },
    /// Nothing new, still alive.
    Beat,
    /// The disks are formatted and files laid out. A lab now throttles the disks and answers with a
    /// line.
    Prepared,
    /// Work that is done now, for people who wait.
    Stage {
        /// E.g. `mkfs slow`.
        text: String,
    },
    /// A line of a script's output.
    Line {
        /// The line without its newline.
        text: String,
    },
    /// A script ended.
    Exit {
        /// Its exit status; 128 + n when signal n killed it.
        status: i32,
    },
    /// A phase begins.
    PhaseStart {
        /// Name of the phase.
        phase: String,
    },
    /// A phase has ended.
    PhaseEnd(Box<PhaseResult>),
    /// Figures of a model, by full name: it has no raw results to compute them from.
    Figures {
        /// Figures of all phases.
        figures: BTreeMap<String, f64>,
    },
    /// A part of a phase's recording; they come in their order, before the phase's end.
    Recording {
        /// The phase's name.
        phase: String,
        /// Bytes of the file.
        base64: String,
    },
    /// A part of a file that a script has left in [`OUT`]; they come in their order. A first one,
    /// which may be empty, makes the file.
    File {
        /// Its path below that folder.
        path: String,
        /// Bytes of the file.
        base64: String,
    },
    /// Kernel log lines that count against this run.
    Kernel {
        /// Value of `/proc/sys/kernel/tainted`.
        taint: u64,
        /// The lines that name a warning, an oops, a stall, ...
        lines: Vec<String>,
    },
    /// The plan could not be carried out, or not to its end.
    Problem {
        /// The problem in words.
        text: String,
        /// True if this proves a fault; false if the run merely says nothing (inconclusive).
        failed: bool,
    },
    /// Last of all: everything was said.
    End,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_out_as_they_went_in() {
        for event in [
            Event::Beat,
            Event::Line {
                text: "ok 1 - a line\twith \u{1b}[1mnoise".into(),
            },
            Event::Exit { status: 137 },
            Event::Problem {
                text: "why".into(),
                failed: true,
            },
            Event::Kernel {
                taint: u64::MAX,
                lines: vec!["WARNING: x".into()],
            },
            Event::End,
        ] {
            let text = serde_json::to_string(&event).expect("JSON");
            assert!(!text.contains('\n'), "one event is one line: {text}");
            assert_eq!(
                serde_json::from_str::<Event>(&text).expect("an event"),
                event
            );
        }
    }
}
