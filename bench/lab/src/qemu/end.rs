// SPDX-License-Identifier: GPL-2.0-only
//! How a guest ended.

use super::BOOTS;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// The way in which a guest ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It said everything it had to say.
    Complete,
    /// QEMU ended before that.
    Died(String),
    /// Before its disks were ready, its kernel said that a CPU's timer interrupts do not come.
    TimerLost,
    /// Nothing was heard for so long.
    Silent(Duration),
    /// It was still busy when its time was up.
    Deadline,
    /// It said something that is not an event.
    Garbled(String),
}

impl fmt::Display for End {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Complete => write!(out, "it ended"),
            End::Died(status) => write!(out, "QEMU ended: {status}"),
            End::TimerLost => write!(out, "a CPU's timer is silent"),
            End::Silent(silence) => write!(out, "nothing heard for {} s", silence.as_secs()),
            End::Deadline => write!(out, "its time was up"),
            End::Garbled(text) => write!(out, "it said something unreadable ({text})"),
        }
    }
}

/// A boot that failed before script or scenario began, and after which the guest is booted again.
#[derive(Clone, Debug)]
pub struct FailedBoot {
    /// Counted from 1.
    pub number: u32,
    /// The way in which it ended.
    pub end: End,
    /// The file of its console's output.
    pub log: PathBuf,
}

impl fmt::Display for FailedBoot {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "boot {} of {BOOTS} failed before anything was run ({}; see {}), booting again",
            self.number,
            self.end,
            self.log.display()
        )
    }
}
