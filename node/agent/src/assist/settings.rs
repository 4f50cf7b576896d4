// SPDX-License-Identifier: GPL-2.0-only
//! The section `[assist]` of a policy file. Without it no writeback is started.
//!
//! ```toml
//! [assist]
//! cpus = 2                             # threads at most, each of which uses a CPU at most
//! exempt = ["/system.slice/db.service"]
//! ```

use crate::globs::{self, matches_path};
use config::reader::Table;
use glob::Pattern;
use policy::assist::THREADS_MAX;

/// Keys of the section.
pub const KEYS: &[&str] = &["cpus", "exempt"];
/// Threads without another number.
const CPUS: u64 = 1;

/// The section, checked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AssistSettings {
    /// Threads that may start writeback at a time; 0 for none.
    pub cpus: u64,
    /// Cgroups whose files are left to the kernel.
    exempt: Vec<Pattern>,
}

impl AssistSettings {
    /// Reads the section; what is wrong is noted with the table.
    pub fn read(table: &Table) -> AssistSettings {
        let cpus = table.optional("cpus").and_then(|value| {
            let cpus = value.as_unsigned("a number of CPUs, as in `2`")?;
            if cpus > THREADS_MAX {
                value.complain(format!("`{cpus}`: expected 0 to {THREADS_MAX}"));
            }
            Some(cpus)
        });
        let exempt = table.optional("exempt");
        AssistSettings {
            cpus: cpus.unwrap_or(CPUS),
            exempt: exempt.map_or_else(Vec::new, |value| globs::read_patterns(&value)),
        }
    }

    /// True if the files of the cgroup at `path` are left to the kernel.
    pub fn is_exempt(&self, path: &str) -> bool {
        self.exempt.iter().any(|glob| matches_path(glob, path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Rules;

    fn read(text: &str) -> Result<AssistSettings, String> {
        let rules = Rules::parse("agent.toml", text);
        rules
            .map(|rules| rules.assist)
            .map_err(|problems| problems.to_string())
    }

    #[test]
    fn it_is_off_until_the_section_is_there() {
        assert_eq!(read("").expect("valid").cpus, 0);
        assert_eq!(read("[assist]\n").expect("valid").cpus, 1);
        let settings = read("[assist]\ncpus = 3\nexempt = [\"/db/*\"]\n").expect("valid");
        assert_eq!(settings.cpus, 3);
        assert!(settings.is_exempt("/db/x") && !settings.is_exempt("/x"));
    }

    #[test]
    fn mistakes_are_named() {
        for (line, words) in [
            ("cpus = 100", "expected 0 to 64"),
            ("cpus = \"all\"", "a number of CPUs"),
            ("cpu = 1", "did you mean `cpus`"),
            ("exempt = []", "no glob"),
        ] {
            let why = read(&format!("[assist]\n{line}\n")).expect_err(line);
            assert!(why.contains(words), "{why}");
        }
    }
}
