// SPDX-License-Identifier: GPL-2.0-only
//! The emulator that guests run in: QEMU, the same version on every host.
//!
//! It comes from Debian's archive, not from the host: Debian 12's own QEMU 7.2 translates a page of
//! code without locking it, so a CPU may keep a translation of the breakpoint that the kernel sets
//! for a moment while it changes an instruction on the other CPU (a static key, a tracepoint, a
//! probe), and trips over it later as `Oops: int3`. With two CPUs under load and trace events
//! switched on and off, 7.2 did so after 12 and 21 seconds; the 10.0 of the backports had not in 2
//! x 270 seconds.
//!
//! QEMU runs with its own libraries by its own dynamic linker, so nothing of the host's is used but
//! the kernel.

use crate::apt::{Apt, BACKPORTS};
use crate::arch::Arch;
use crate::cache::Cache;
use anyhow::{Context, Result};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::process::Command;

/// QEMU, its firmware for PCs and what it loads kernels with.
const PACKAGES: &[&str] = &[
    "qemu-system-x86",
    "qemu-system-common",
    "qemu-system-data",
    "seabios",
];
/// The same for Arm, where it is the loader itself.
const PACKAGES_FOR_ARM64: &[&str] = &["qemu-system-arm", "qemu-system-common", "qemu-system-data"];

/// An unpacked QEMU.
pub struct Emulator {
    root: PathBuf,
    /// Architecture of its guests.
    pub arch: Arch,
}

impl Emulator {
    /// The emulator that is unpacked at `root`.
    #[cfg(test)]
    pub fn at_root(root: PathBuf, arch: Arch) -> Emulator {
        Emulator { root, arch }
    }

    /// The emulator of such guests in the cache, fetched first if it is not there.
    pub fn get(cache: &Cache, arch: Arch) -> Result<Emulator> {
        let packages = match arch {
            Arch::Amd64 => PACKAGES,
            Arch::Arm64 => PACKAGES_FOR_ARM64,
        };
        let mut hasher = DefaultHasher::new();
        (packages, BACKPORTS).hash(&mut hasher);
        let name = format!("qemu-{:08x}", hasher.finish() as u32);
        let root = cache.make_directory(&name, |into| {
            let apt = Apt::open_with_backports(cache)?;
            let named: Vec<String> = packages
                .iter()
                .map(|package| format!("{package}/{BACKPORTS}"))
                .collect();
            let named: Vec<&str> = named.iter().map(String::as_str).collect();
            let all = apt
                .resolve_with_libraries(&named)
                .context("finding the packages of QEMU")?;
            apt.unpack_packages(all.iter().map(String::as_str), into)
                .context("the packages of QEMU")
        })?;
        Ok(Emulator { root, arch })
    }

    /// `qemu-system-x86_64`, or of another architecture.
    pub fn program_path(&self) -> PathBuf {
        self.root.join(match self.arch {
            Arch::Amd64 => "usr/bin/qemu-system-x86_64",
            Arch::Arm64 => "usr/bin/qemu-system-aarch64",
        })
    }

    /// The program, yet without any argument.
    pub fn base_command(&self) -> Command {
        let path = |below: &str| self.root.join(below);
        let core = path("lib").join(Arch::HERE.gnu_triplet());
        let more = path("usr/lib").join(Arch::HERE.gnu_triplet());
        let mut libraries = more.clone().into_os_string();
        libraries.push(":");
        libraries.push(&core);
        // Not the one by its usual path: on amd64 that is a link to the host's.
        let mut command = Command::new(core.join(Arch::HERE.linker_name()));
        command
            .env("QEMU_MODULE_DIR", more.join("qemu"))
            .arg("--library-path")
            .arg(libraries)
            .arg(self.program_path())
            .arg("-L")
            .arg(path("usr/share/qemu"))
            .arg("-L")
            .arg(path("usr/share/seabios"));
        command
    }
}
