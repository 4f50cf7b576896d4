// SPDX-License-Identifier: GPL-2.0-only
//! The record of what the oracle said: a line for each kernel, its fields separated by tabs.
//!
//! ```text
//! release            architecture  package                          version  suites            verdict  why  asked
//! 7.3.4+deb13-amd64  amd64         linux-binary-7.3.4+deb13-amd64  7.3.4-1  trixie-backports  loads         1f2e3d4c
//! ```
//!
//! The last field stands for what weir needs of a kernel. When that changes, what was said is not
//! true any more, and the kernel is asked about again.

use anyhow::{Context, Result, ensure};
use lab::catalogue::InArchive;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use weir::host::doctor::worst_verdict;
use weir::host::requirements::{Check, CheckVerdict};
use weir::output;

const HEAD: &str = "release\tarchitecture\tpackage\tversion\tsuites\tverdict\twhy\tasked";
const FIELDS: usize = 8;

/// Sources of the policy that say what weir needs.
const NEEDS: [&str; 2] = [
    include_str!("../../../../policy/needs.c"),
    include_str!("../../../../policy/needs.h"),
];

/// A line of the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KernelVerdict {
    release: String,
    architecture: String,
    package: String,
    version: String,
    suites: String,
    verdict: String,
    why: String,
    asked: String,
}

/// The oracle's opinion of a kernel in few words, for a list of kernels.
pub struct Opinion {
    /// `loads`, `refused`, or `untold`: nothing is in the way, but not all can be seen.
    verdict: &'static str,
    /// The requirements that are not met, or that cannot be seen.
    why: String,
}

impl Opinion {
    /// Sums up what the oracle found.
    pub fn from_checks(checks: &[Check]) -> Opinion {
        let verdict = worst_verdict(checks);
        let of_it = checks
            .iter()
            .filter(|check| check.verdict == verdict && verdict != CheckVerdict::Ok);
        let why: Vec<String> = of_it
            .map(|check| format!("{}: {}", check.name, check.seen))
            .collect();
        Opinion {
            verdict: match verdict {
                CheckVerdict::Ok => "loads",
                CheckVerdict::Fail => "refused",
                CheckVerdict::Unknown => "untold",
            },
            why: why.join("; "),
        }
    }
}

impl KernelVerdict {
    /// A line for the opinion of a kernel, as of now.
    pub fn new(one: &InArchive, opinion: Opinion) -> KernelVerdict {
        KernelVerdict {
            release: one.release.clone(),
            architecture: one.arch.debian_name().to_owned(),
            package: one.package.clone(),
            version: one.version.clone(),
            suites: one.suites.join(" "),
            verdict: opinion.verdict.to_owned(),
            why: opinion.why.replace(['\t', '\n'], " "),
            asked: needs_hash(),
        }
    }

    /// Would the module refuse this kernel?
    pub fn is_refused(&self) -> bool {
        self.verdict == "refused"
    }

    /// A line for people: release, suites, verdict and what is in the way.
    pub fn to_text(&self) -> String {
        let line = format!("{}  ({})  {}", self.release, self.suites, self.verdict);
        match self.why.is_empty() {
            true => line,
            false => format!("{line}: {}", self.why),
        }
    }

    fn row_fields(&self) -> [&str; FIELDS] {
        [
            &self.release,
            &self.architecture,
            &self.package,
            &self.version,
            &self.suites,
            &self.verdict,
            &self.why,
            &self.asked,
        ]
    }
}

/// FNV-1a of what weir needs: the same on every machine and with every compiler.
fn needs_hash() -> String {
    let bytes = NEEDS.iter().flat_map(|text| text.bytes());
    let hash = bytes.fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    format!("{hash:08x}")
}

/// The record and where it is kept.
#[derive(Debug)]
pub struct VerdictRecord {
    path: PathBuf,
    rows: BTreeMap<String, KernelVerdict>,
}

impl VerdictRecord {
    /// Reads it; empty if there is none yet.
    pub fn open(path: &Path) -> Result<VerdictRecord> {
        let text = match path.exists() {
            true => fs::read_to_string(path).with_context(|| path.display().to_string())?,
            false => String::new(),
        };
        let rows = read(&text).with_context(|| path.display().to_string())?;
        Ok(VerdictRecord {
            path: path.to_owned(),
            rows,
        })
    }

    /// Was this kernel asked about, in this version, by what weir needs now?
    pub fn has_verdict(&self, one: &InArchive) -> bool {
        let row = self.rows.get(&one.release);
        row.is_some_and(|row| row.version == one.version && row.asked == needs_hash())
    }

    /// Adds a line, in the place of what was said before, and writes the record.
    pub fn add(&mut self, asked: KernelVerdict) -> Result<()> {
        self.rows.insert(asked.release.clone(), asked);
        output::write_file(&self.path, self.to_text().as_bytes())
    }

    /// The lines, in the order of their series.
    pub fn sorted_rows(&self) -> impl Iterator<Item = &KernelVerdict> {
        let mut rows: Vec<&KernelVerdict> = self.rows.values().collect();
        rows.sort_by_key(|row| {
            let numbers = row.release.split(|c: char| !c.is_ascii_digit());
            let numbers: Vec<u64> = numbers.filter_map(|part| part.parse().ok()).collect();
            (numbers, &row.release)
        });
        rows.into_iter()
    }

    fn to_text(&self) -> String {
        let lines = self
            .sorted_rows()
            .map(|row| row.row_fields().join("\t") + "\n");
        format!("{HEAD}\n{}", lines.collect::<String>())
    }
}

fn read(text: &str) -> Result<BTreeMap<String, KernelVerdict>> {
    let mut lines = text.lines();
    ensure!(
        matches!(lines.next(), None | Some(HEAD)),
        "not a record of verdicts: its first line is not `{}`",
        HEAD.replace('\t', " ")
    );
    let row = |(index, line): (usize, &str)| {
        let fields: Vec<&str> = line.split('\t').collect();
        let [
            release,
            architecture,
            package,
            version,
            suites,
            verdict,
            why,
            asked,
        ] = fields[..]
        else {
            anyhow::bail!("line {}: {} fields, not {FIELDS}", index + 2, fields.len());
        };
        let row = KernelVerdict {
            release: release.into(),
            architecture: architecture.into(),
            package: package.into(),
            version: version.into(),
            suites: suites.into(),
            verdict: verdict.into(),
            why: why.into(),
            asked: asked.into(),
        };
        Ok((row.release.clone(), row))
    };
    lines.enumerate().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(release: &str, verdict: &str) -> KernelVerdict {
        KernelVerdict {
            release: release.into(),
            architecture: "amd64".into(),
            package: format!("linux-image-{release}"),
            version: "1".into(),
            suites: "trixie trixie-security".into(),
            verdict: verdict.into(),
            why: String::new(),
            asked: needs_hash(),
        }
    }

    #[test]
    fn what_was_said_is_read_again() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("kernels.tsv");
        let mut record = VerdictRecord::open(&path).expect("none yet");
        for release in [
            "6.12.99+deb13-amd64",
            "6.12.107+deb13-amd64",
            "6.1.0-9-amd64",
        ] {
            record.add(asked(release, "loads")).expect("written");
        }
        record
            .add(asked("6.1.0-9-amd64", "refused"))
            .expect("written");
        let read = VerdictRecord::open(&path).expect("the record");
        let rows: Vec<_> = read
            .sorted_rows()
            .map(|row| (row.release.as_str(), row.is_refused()))
            .collect();
        assert_eq!(
            rows,
            [
                ("6.1.0-9-amd64", true),
                ("6.12.99+deb13-amd64", false),
                ("6.12.107+deb13-amd64", false),
            ]
        );
    }

    #[test]
    fn another_file_is_not_overwritten() {
        let error = read("# my notes\n").unwrap_err().to_string();
        assert!(error.starts_with("not a record of verdicts"), "{error}");
        let error = read(&format!("{HEAD}\na\tb\n")).unwrap_err().to_string();
        assert_eq!(error, "line 2: 2 fields, not 8");
    }
}
