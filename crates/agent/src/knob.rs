// SPDX-License-Identifier: GPL-2.0-only
//! The files a rule may set, and what each of them takes, as the module itself parses it.

use policy::parse::{self, Error};
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::{fs, path::Path};

/// A file of weir's in every cgroup but the root. No other file can be set: `memory.max`, `io.weight` and
/// the like belong to systemd or the container runtime, which would write them again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Knob {
    /// The floor.
    #[serde(rename = "memory.dirty_min")]
    DirtyMin,
    /// The ceiling in bytes.
    #[serde(rename = "memory.dirty_bytes")]
    DirtyBytes,
    /// The ceiling in percent.
    #[serde(rename = "memory.dirty_ratio")]
    DirtyRatio,
    /// The weight.
    #[serde(rename = "memory.dirty_weight")]
    DirtyWeight,
}

impl Knob {
    /// All of them.
    pub const ALL: [Knob; 4] = [
        Knob::DirtyMin,
        Knob::DirtyBytes,
        Knob::DirtyRatio,
        Knob::DirtyWeight,
    ];

    /// Its file's name.
    pub fn file(self) -> &'static str {
        match self {
            Knob::DirtyMin => "memory.dirty_min",
            Knob::DirtyBytes => "memory.dirty_bytes",
            Knob::DirtyRatio => "memory.dirty_ratio",
            Knob::DirtyWeight => "memory.dirty_weight",
        }
    }

    /// The knob with this file.
    pub fn by_file(name: &str) -> Option<Knob> {
        Knob::ALL.into_iter().find(|knob| knob.file() == name)
    }

    /// The number that `text` stands for in this file.
    ///
    /// # Errors
    /// What is wrong with it and what the file takes.
    pub fn parse(self, text: &str) -> Result<u64, String> {
        let bytes = text.as_bytes();
        let parsed = match self {
            Knob::DirtyMin => parse::bytes(bytes),
            Knob::DirtyBytes => parse::bytes(bytes).and_then(parse::ceiling_bytes),
            Knob::DirtyRatio => parse::percent(bytes).map(u64::from),
            Knob::DirtyWeight => parse::weight(bytes).map(u64::from),
        };
        parsed.map_err(|why| {
            let kind = match why {
                Error::Invalid => "is nothing that",
                Error::OutOfRange => "is out of the range that",
            };
            format!(
                "`{}` {kind} {} takes: {}",
                text.escape_debug(),
                self.file(),
                self.takes()
            )
        })
    }

    /// What its file in a cgroup's directory says.
    ///
    /// # Errors
    /// It is not there or cannot be read.
    pub fn read(self, directory: &Path) -> io::Result<String> {
        let text = fs::read_to_string(directory.join(self.file()))?;
        Ok(text.trim().to_string())
    }

    /// Writes its file in a cgroup's directory. It is never made: a directory that is no cgroup's would
    /// get one.
    ///
    /// # Errors
    /// It is not there, or the module refuses.
    pub fn write(self, directory: &Path, text: &str) -> io::Result<()> {
        let mut file = fs::OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(directory.join(self.file()))?;
        file.write_all(format!("{text}\n").as_bytes())
    }

    /// An error of its file, and what the module means by it.
    pub fn explain(self, why: &io::Error) -> String {
        let means = match why.raw_os_error() {
            Some(nix::libc::EPERM) if self == Knob::DirtyMin => {
                ": raising a floor takes CAP_SYS_RESOURCE in the initial user namespace"
            }
            Some(nix::libc::EBUSY) => ": a livepatch has replaced a function that weir probes",
            Some(nix::libc::EACCES) => {
                ": the file belongs to somebody else, which takes CAP_DAC_OVERRIDE"
            }
            Some(nix::libc::EROFS) => ": cgroups are mounted read-only here",
            _ => "",
        };
        format!("{why}{means}")
    }

    fn takes(self) -> &'static str {
        match self {
            Knob::DirtyMin => "bytes with K, M, G or T, or `max`",
            Knob::DirtyBytes => "bytes with K, M, G or T, at least 8192, or `max`",
            Knob::DirtyRatio => "0 to 100",
            Knob::DirtyWeight => "1 to 10000",
        }
    }
}

/// A value as a rule says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// What is written.
    pub text: String,
    /// What that stands for.
    pub value: u64,
    /// The line of the rule it comes from.
    pub line: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_knob_is_found_by_its_file() {
        for knob in Knob::ALL {
            assert_eq!(Knob::by_file(knob.file()), Some(knob));
            let json = serde_json::to_string(&knob).expect("JSON");
            assert_eq!(json, format!("\"{}\"", knob.file()));
        }
        assert_eq!(Knob::by_file("memory.max"), None);
    }

    #[test]
    fn what_the_module_would_refuse_is_refused_here() {
        assert_eq!(Knob::DirtyMin.parse("16M"), Ok(16 << 20));
        assert_eq!(Knob::DirtyBytes.parse("max"), Ok(policy::UNLIMITED));
        assert_eq!(Knob::DirtyRatio.parse("20"), Ok(20));
        assert_eq!(Knob::DirtyWeight.parse("10000"), Ok(10_000));
        let refused = [
            (
                Knob::DirtyMin,
                "16MB",
                "`16MB` is nothing that memory.dirty_min takes: bytes with K, M, G or T, or `max`",
            ),
            (
                Knob::DirtyBytes,
                "4K",
                "`4K` is out of the range that memory.dirty_bytes takes: bytes with K, M, G or T, at least 8192, or `max`",
            ),
            (
                Knob::DirtyRatio,
                "101",
                "`101` is nothing that memory.dirty_ratio takes: 0 to 100",
            ),
            (
                Knob::DirtyWeight,
                "0",
                "`0` is out of the range that memory.dirty_weight takes: 1 to 10000",
            ),
        ];
        for (knob, text, why) in refused {
            assert_eq!(knob.parse(text), Err(why.to_string()));
        }
    }

    #[test]
    fn what_an_error_means_is_said() {
        let permission = io::Error::from_raw_os_error(nix::libc::EPERM);
        assert!(
            Knob::DirtyMin
                .explain(&permission)
                .contains("CAP_SYS_RESOURCE")
        );
        assert!(
            !Knob::DirtyBytes
                .explain(&permission)
                .contains("CAP_SYS_RESOURCE")
        );
        let busy = io::Error::from_raw_os_error(nix::libc::EBUSY);
        assert!(Knob::DirtyMin.explain(&busy).contains("livepatch"));
    }
}
