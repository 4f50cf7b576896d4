// SPDX-License-Identifier: GPL-2.0-only
//! Building weir.ko for a kernel.
//!
//! The sources are copied into the cache and built there against the kernel's headers, so that the
//! source tree stays clean and several kernels can be built for at once. The directory is named
//! after what went into it; nothing is built twice.

use crate::cache::Cache;
use crate::kernel::Kernel;
use crate::tool::{read, succeed};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folders of the source tree that the module is built from.
const FOLDERS: &[&str] = &["kmod", "policy"];

/// The path of weir.ko for `kernel`, built from the source tree at `tree` if that was not done before;
/// `variables` (`NAME=VALUE`) are given to make, such as `WEIR_FAULTS=y` for a build that injects faults.
///
/// Errors: the tree holds no module, the kernel has no headers, the compiler's own messages.
pub fn module_for(
    cache: &Cache,
    kernel: &Kernel,
    tree: &Path,
    variables: &[String],
) -> Result<PathBuf> {
    ensure!(
        has_module(tree),
        "{}: no kmod/Kbuild there, so no module to build",
        tree.display()
    );
    let headers = kernel.headers.as_ref().with_context(|| {
        format!(
            "kernel {}: no headers beside it, so weir.ko cannot be built for it",
            kernel.release
        )
    })?;
    let sources = sources(tree)?;
    let mut hasher = DefaultHasher::new();
    (&kernel.release, headers, variables).hash(&mut hasher);
    for source in &sources {
        // A link to a directory stands for itself; the files behind it are in the list.
        let content = if tree.join(source).is_dir() {
            Vec::new()
        } else {
            read(&tree.join(source))?
        };
        (source, content).hash(&mut hasher);
    }
    let below = format!("modules/{}-{:016x}", kernel.release, hasher.finish());
    let directory = cache.directory(&below, |into| {
        for source in &sources {
            let to = into.join(source);
            fs::create_dir_all(to.parent().unwrap_or(into))?;
            let from = tree.join(source);
            match fs::read_link(&from) {
                Ok(target) => std::os::unix::fs::symlink(target, &to),
                Err(_) => fs::copy(&from, &to).map(drop),
            }
            .with_context(|| format!("copying {}", source.display()))?;
        }
        succeed(
            Command::new("make")
                .arg("-s")
                .arg("-C")
                .arg(headers)
                .arg(format!("M={}", into.join("kmod").display()))
                .arg(format!(
                    "-j{}",
                    std::thread::available_parallelism().map_or(1, usize::from)
                ))
                .args(variables)
                .arg("modules")
                // Set when weir itself runs under make.
                .env_remove("MAKEFLAGS")
                .env_remove("MFLAGS"),
        )
        .with_context(|| format!("building weir.ko for {}", kernel.release))?;
        let built = into.join("kmod/weir.ko");
        fs::rename(&built, into.join("weir.ko"))
            .with_context(|| format!("{} was not made", built.display()))
    })?;
    Ok(directory.join("weir.ko"))
}

/// Is there a module to build in this source tree?
pub fn has_module(tree: &Path) -> bool {
    tree.join("kmod/Kbuild").is_file()
}

/// All source files of the module, relative to the tree, in a fixed order.
fn sources(tree: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut directories: Vec<PathBuf> = FOLDERS.iter().map(PathBuf::from).collect();
    while let Some(directory) = directories.pop() {
        let path = tree.join(&directory);
        for entry in fs::read_dir(&path).with_context(|| format!("{}", path.display()))? {
            let entry = entry.with_context(|| format!("{}", path.display()))?;
            let below = directory.join(entry.file_name());
            let extension = below.extension().and_then(|extension| extension.to_str());
            let kind = entry.file_type()?;
            if kind.is_dir() {
                directories.push(below);
            } else if kind.is_symlink()
                || matches!(extension, Some("c" | "h" | "S"))
                || entry.file_name() == "Kbuild"
                || entry.file_name() == "Makefile"
            {
                found.push(below);
            }
        }
    }
    found.sort();
    Ok(found)
}
