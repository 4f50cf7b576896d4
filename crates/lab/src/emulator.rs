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

const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";

/// An unpacked QEMU.
pub struct Emulator {
    root: PathBuf,
}

impl Emulator {
    /// The emulator that is unpacked at `root`.
    #[cfg(test)]
    pub fn at(root: PathBuf) -> Emulator {
        Emulator { root }
    }

    /// The emulator in the cache, fetched first if it is not there.
    pub fn get(cache: &Cache) -> Result<Emulator> {
        let mut hasher = DefaultHasher::new();
        (PACKAGES, BACKPORTS).hash(&mut hasher);
        let name = format!("qemu-{:08x}", hasher.finish() as u32);
        let root = cache.directory(&name, |into| {
            let apt = Apt::open_with_backports(cache)?;
            let named: Vec<String> = PACKAGES
                .iter()
                .map(|package| format!("{package}/{BACKPORTS}"))
                .collect();
            let named: Vec<&str> = named.iter().map(String::as_str).collect();
            let all = apt
                .with_libraries(&named)
                .context("finding the packages of QEMU")?;
            apt.unpack(all.iter().map(String::as_str), into)
                .context("the packages of QEMU")
        })?;
        Ok(Emulator { root })
    }

    /// `qemu-system-x86_64`, yet without any argument.
    pub fn command(&self) -> Command {
        let path = |below: &str| self.root.join(below);
        let mut libraries = path(LIBRARIES).into_os_string();
        libraries.push(":");
        libraries.push(path("lib/x86_64-linux-gnu"));
        // Not the one in lib64: that is a link to the host's.
        let mut command = Command::new(path("lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"));
        command
            .env("QEMU_MODULE_DIR", path(LIBRARIES).join("qemu"))
            .arg("--library-path")
            .arg(libraries)
            .arg(path("usr/bin/qemu-system-x86_64"))
            .arg("-L")
            .arg(path("usr/share/qemu"))
            .arg("-L")
            .arg(path("usr/share/seabios"));
        command
    }
}
