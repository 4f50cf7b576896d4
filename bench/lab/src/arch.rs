// SPDX-License-Identifier: GPL-2.0-only
//! Architectures of guests, and what each is called where.
//!
//! A guest's kernel, its programs and its process 1 are of its own architecture. What works for it
//! here (the emulator, a cross compiler, the programs that come with a kernel's headers) is of this
//! machine's.

use crate::cache::source_tree;
use anyhow::{Context, Result, ensure};
use std::path::PathBuf;

/// An architecture that guests may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arch {
    /// Intel and AMD: x86-64.
    Amd64,
    /// Arm with 64 bits: AArch64.
    Arm64,
}

impl Arch {
    /// Architecture of this machine.
    pub const HERE: Arch = match cfg!(target_arch = "aarch64") {
        true => Arch::Arm64,
        false => Arch::Amd64,
    };
    /// Those that are not this machine's.
    pub const OTHERS: [Arch; 1] = match Arch::HERE {
        Arch::Amd64 => [Arch::Arm64],
        Arch::Arm64 => [Arch::Amd64],
    };

    /// In Debian's archive, and in `--kernel`.
    pub fn debian_name(self) -> &'static str {
        match self {
            Arch::Amd64 => "amd64",
            Arch::Arm64 => "arm64",
        }
    }

    /// Behind the name of what the cache holds for it.
    pub fn cache_suffix(self) -> &'static str {
        match (self == Arch::HERE, self) {
            (true, _) => "",
            (false, Arch::Amd64) => "-amd64",
            (false, Arch::Arm64) => "-arm64",
        }
    }

    /// In names of compilers and of directories of libraries.
    pub fn gnu_triplet(self) -> &'static str {
        match self {
            Arch::Amd64 => "x86_64-linux-gnu",
            Arch::Arm64 => "aarch64-linux-gnu",
        }
    }

    /// The path at which programs expect their dynamic linker, without the first slash.
    pub fn linker_path(self) -> &'static str {
        match self {
            Arch::Amd64 => "lib64/ld-linux-x86-64.so.2",
            Arch::Arm64 => "lib/ld-linux-aarch64.so.1",
        }
    }

    /// Its file's name.
    pub fn linker_name(self) -> &'static str {
        let path = self.linker_path();
        path.rsplit('/').next().unwrap_or(path)
    }

    fn rust_target(self) -> &'static str {
        match self {
            Arch::Amd64 => "x86_64-unknown-linux-gnu",
            Arch::Arm64 => "aarch64-unknown-linux-gnu",
        }
    }

    /// The command that becomes process 1 of a guest: the running binary, or what `make arm64`
    /// built of the source tree.
    pub fn init(self) -> Result<PathBuf> {
        if self == Arch::HERE {
            return std::env::current_exe().context("finding weir's own binary");
        }
        let target = match std::env::var_os("CARGO_TARGET_DIR") {
            Some(target) => PathBuf::from(target),
            None => source_tree()
                .context(
                    "finding the weir command for the guest: run from inside weir's source tree",
                )?
                .join("target"),
        };
        let path = target.join(self.rust_target()).join("quick/weir-bench");
        ensure!(
            path.is_file(),
            "{}: no weir command for a guest of this architecture: run `make {}`",
            path.display(),
            self.debian_name()
        );
        Ok(path)
    }
}
