// SPDX-License-Identifier: GPL-2.0-only
//! The configuration that a kernel was built with: `config-RELEASE`, `.config`, `/proc/config.gz`.

use std::collections::BTreeSet;

/// Options that are built in or modules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    options: BTreeSet<String>,
}

impl Config {
    /// Reads the text of a configuration; `None` if it is something else.
    pub fn read(text: &str) -> Option<Config> {
        // At 64 KiB of text every configuration has named the options that all kernels have.
        if !text.contains("\nCONFIG_") {
            return None;
        }
        let options = text.lines().filter_map(|line| {
            let (option, value) = line.split_once('=')?;
            (option.starts_with("CONFIG_") && matches!(value.trim(), "y" | "m"))
                .then(|| option.to_owned())
        });
        Some(Config {
            options: options.collect(),
        })
    }

    /// Is the option, `CONFIG_MEMCG` for one, built in or a module?
    pub fn has_option(&self, option: &str) -> bool {
        self.options.contains(option)
    }

    /// The version in `# Linux/x86 6.12.57 Kernel Configuration`, which is the release without what
    /// a distribution appends.
    pub(crate) fn parse_version(text: &str) -> Option<String> {
        let title = text
            .lines()
            .take(5)
            .find(|line| line.starts_with("# Linux/"))?;
        title.split_whitespace().nth(2).map(str::to_owned)
    }
}
