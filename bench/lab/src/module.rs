// SPDX-License-Identifier: GPL-2.0-only
//! Building weir.ko, and what tests need besides, for a kernel.
//!
//! The sources are copied into the cache and built there against the kernel's headers, so that the
//! source tree stays clean and several kernels can be built for at once. The directory is named
//! after what went into it; nothing is built twice.

use crate::arch::Arch;
use crate::cache::Cache;
use crate::kernel::Kernel;
use crate::tool::{is_on_path, read, run_to_success};
use crate::toolchain;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folders of the source tree that weir.ko is built from, the one with the Kbuild first.
const FOLDERS: &[&str] = &["kmod", "policy"];

/// The path of weir.ko for `kernel`, built from the source tree at `tree` if that was not done
/// before; `variables` (`NAME=VALUE`) are given to make, such as `WEIR_FAULTS=y` for a build that
/// injects faults.
///
/// Errors: the tree holds no module, the kernel has no headers, the compiler's own messages.
pub fn build_weir_module(
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
    let built = build(cache, kernel, tree, FOLDERS, variables)?;
    let module = built.join("weir.ko");
    ensure!(module.is_file(), "{} was not made", module.display());
    Ok(module)
}

/// The modules that the Kbuild in `folder` makes, for tests that need one besides weir's.
pub fn build_modules_in(cache: &Cache, kernel: &Kernel, folder: &Path) -> Result<Vec<PathBuf>> {
    let folder = folder
        .canonicalize()
        .with_context(|| format!("{}", folder.display()))?;
    ensure!(
        folder.join("Kbuild").is_file(),
        "{}: no Kbuild there, so no module to build",
        folder.display()
    );
    let built = build(cache, kernel, &folder, &["."], &[])?;
    list_modules_in(&built)
}

/// Builds the first of `folders` of `tree`; the directory in the cache with what was made.
fn build(
    cache: &Cache,
    kernel: &Kernel,
    tree: &Path,
    folders: &[&str],
    variables: &[String],
) -> Result<PathBuf> {
    let headers = kernel.headers.as_ref().with_context(|| {
        format!(
            "kernel {}: no headers beside it, so no module can be built for it",
            kernel.release
        )
    })?;
    let sources = source_files(tree, folders)?;
    let mut hasher = DefaultHasher::new();
    let compiler = match kernel.tools {
        Some(_) => None,
        None => override_compiler(headers),
    };
    (&kernel.release, headers, variables, compiler).hash(&mut hasher);
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
    cache.make_directory(&below, |into| {
        for source in &sources {
            let to = into.join("source").join(source);
            fs::create_dir_all(to.parent().unwrap_or(into))?;
            let from = tree.join(source);
            match fs::read_link(&from) {
                Ok(target) => std::os::unix::fs::symlink(target, &to),
                Err(_) => fs::copy(&from, &to).map(drop),
            }
            .with_context(|| format!("copying {}", source.display()))?;
        }
        let kbuild = into.join("source").join(folders[0]);
        let mut make = Command::new("make");
        if let Some(tools) = &kernel.tools {
            tools.put_tools_in_path(&mut make)?;
        }
        run_to_success(
            make.arg("-s")
                .arg("-C")
                .arg(headers)
                .arg(format!("M={}", kbuild.display()))
                .arg(format!(
                    "-j{}",
                    std::thread::available_parallelism().map_or(1, usize::from)
                ))
                .args(variables)
                .args(compiler)
                .arg("modules")
                // By these the headers of older kernels tell a cross compiler; newer ones name it.
                .env("DEB_BUILD_ARCH", Arch::HERE.debian_name())
                .env("DEB_HOST_ARCH", kernel.arch.debian_name())
                .env("DEB_HOST_GNU_TYPE", kernel.arch.gnu_triplet())
                // Set when weir itself runs under make.
                .env_remove("MAKEFLAGS")
                .env_remove("MFLAGS"),
        )
        .with_context(|| format!("building {} for {}", tree.display(), kernel.release))?;
        for module in list_modules_in(&kbuild)? {
            fs::rename(&module, into.join(module.file_name().unwrap_or_default()))
                .with_context(|| format!("keeping {}", module.display()))?;
        }
        Ok(())
    })
}

/// The host's compiler, for make, if it lacks the one that Debian's headers ask for by version: a
/// newer Debian than the kernel's has a newer one only, and builds modules as well with it.
fn override_compiler(headers: &Path) -> Option<&'static str> {
    let wanted = toolchain::compiler_of_headers(headers).ok()?;
    (!is_on_path(&format!("x86_64-linux-gnu-{wanted}"))).then_some("CC=gcc")
}

/// The `.ko` files right in a folder, in a fixed order.
fn list_modules_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("{}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "ko") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Is there a module to build in this source tree?
pub fn has_module(tree: &Path) -> bool {
    tree.join("kmod/Kbuild").is_file()
}

/// All source files below the folders, relative to the tree, in a fixed order.
fn source_files(tree: &Path, folders: &[&str]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut directories: Vec<PathBuf> = folders.iter().map(PathBuf::from).collect();
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
