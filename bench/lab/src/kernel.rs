// SPDX-License-Identifier: GPL-2.0-only
//! A kernel that is there: its image, its modules and what modules are built with.

use crate::arch::Arch;
use crate::toolchain::Toolchain;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};

/// A kernel that is there, ready to boot.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Release of the kernel (`uname -r`).
    pub release: String,
    /// The architecture it runs on.
    pub arch: Arch,
    /// The bootable image.
    pub image: PathBuf,
    /// The folder `lib/modules/<release>`.
    pub modules: PathBuf,
    /// A tree that out-of-tree modules are built against, if there is one.
    pub headers: Option<PathBuf>,
    /// Tools to build with, where the host's own will not do.
    pub tools: Option<Toolchain>,
}

pub(crate) fn open_kernel_at(path: &Path) -> Result<Kernel> {
    let path = path
        .canonicalize()
        .with_context(|| format!("kernel {}", path.display()))?;
    let (image, root) = if path.is_dir() {
        let image = fs::read_dir(path.join("boot"))
            .with_context(|| {
                format!(
                    "kernel {}: a directory must hold boot/vmlinuz-*",
                    path.display()
                )
            })?
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .find(|file| {
                file.file_name()
                    .is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz-"))
            })
            .with_context(|| format!("kernel {}: no boot/vmlinuz-* in it", path.display()))?;
        (image, path.clone())
    } else {
        let beside = path.parent().unwrap_or(Path::new("/")).to_path_buf();
        let root = if beside.join("lib/modules").is_dir() {
            beside
        } else {
            beside.join("..")
        };
        (path.clone(), root)
    };
    let all = root.join("lib/modules");
    let name = image
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let release = match name
        .strip_prefix("vmlinuz-")
        .filter(|release| all.join(release).is_dir())
    {
        Some(release) => release.to_owned(),
        None => only_entry(&all).with_context(|| {
            format!(
                "kernel {}: its modules are not known: put lib/modules/RELEASE beside it",
                path.display()
            )
        })?,
    };
    let modules = all.join(&release);
    let build = [
        modules.join("build"),
        root.join("usr/src")
            .join(format!("linux-headers-{release}")),
    ];
    Ok(Kernel {
        headers: build
            .into_iter()
            .find(|path| path.join("Makefile").is_file()),
        tools: None,
        arch: Arch::HERE,
        release,
        image,
        modules,
    })
}

fn only_entry(directory: &Path) -> Result<String> {
    let names: Vec<_> = fs::read_dir(directory)
        .with_context(|| format!("{}", directory.display()))?
        .filter_map(|entry| {
            entry
                .ok()
                .map(|entry| entry.file_name().to_string_lossy().into_owned())
        })
        .collect();
    match names.as_slice() {
        [name] => Ok(name.clone()),
        _ => bail!("{}: {} entries, not one", directory.display(), names.len()),
    }
}
