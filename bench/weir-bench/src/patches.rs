// SPDX-License-Identifier: GPL-2.0-only
//! Options of commands that build a kernel.

use anyhow::{Result, bail};
use lab::patch::Blanks;
use lab::patched_kernel::Asked;
use std::path::PathBuf;

/// The kernel to build.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Kernels of one's own")]
pub struct PatchArgs {
    /// Lab: apply these patches to the source of --kernel and build it: a directory of `git
    /// format-patch`, one such file, or a mail or mbox. The kernel without them is built of the same
    /// source with the same, small configuration
    #[arg(long, value_name = "PATH")]
    patches: Option<PathBuf>,
    /// Lab: build this source tree, which is only read; with --patches, on top of it
    #[arg(long, value_name = "TREE")]
    source: Option<PathBuf>,
    /// Take patches whose white space or lines a mail program has changed
    #[arg(long, requires = "patches")]
    ignore_whitespace: bool,
    /// Build after each patch, not only after the last
    #[arg(long, requires = "patches")]
    build_each: bool,
    /// Lines to add to the configuration, as in CONFIG_XFS_FS=y
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl PatchArgs {
    /// The kernel to build, if one is.
    ///
    /// # Errors
    /// An option that would have no effect.
    pub fn to_build_request(&self) -> Result<Option<Asked>> {
        if self.patches.is_none() && self.source.is_none() {
            if self.config.is_some() {
                bail!("--config is for kernels that are built: add --patches or --source");
            }
            return Ok(None);
        }
        Ok(Some(Asked {
            patches: self.patches.clone(),
            source: self.source.clone(),
            blanks: match self.ignore_whitespace {
                true => Blanks::Ignored,
                false => Blanks::Exact,
            },
            each: self.build_each,
            config: self.config.clone(),
        }))
    }
}
