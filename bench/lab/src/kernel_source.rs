// SPDX-License-Identifier: GPL-2.0-only
//! Kernels built from the distribution's own source package.
//!
//! ```text
//! kernels/linux-source-6.12/                the source package, unpacked: a tar file
//! kernels/NAME/linux-source-6.12/           source and build tree
//! kernels/NAME/asked.config                 the fragments it was configured with
//! kernels/NAME/boot/vmlinuz-RELEASE         put in place last
//! kernels/NAME/lib/modules/RELEASE/kernel/  empty: all is built in
//! kernels/NAME/lib/modules/RELEASE/build    a link to the tree, for `--kernel PATH`
//! ```
//!
//! The tree stays: modules are built against it, and an interrupted build goes on where it was.

use crate::apt::Apt;
use crate::arch::Arch;
use crate::cache::Cache;
use crate::kernel::{Kernel, at_path};
use crate::tool::{missing_program, run_to_success};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const PACKAGE: &str = "linux-source-6.12";

/// A source tree of its own, and the kernel that is built of it.
pub(crate) struct SourceTree {
    root: PathBuf,
    /// The source, in which it is built, too.
    pub source: PathBuf,
}

/// The directory of the kernel of this name, with its tree.
pub(crate) fn tree_root(cache: &Cache, name: &str) -> PathBuf {
    cache.path_below(&format!("kernels/{name}"))
}

/// The kernel that was built last of the tree at this root.
pub(crate) fn installed_kernel(root: &Path) -> Result<Kernel> {
    Ok(Kernel {
        headers: Some(root.join(PACKAGE)),
        ..at_path(root)?
    })
}

impl SourceTree {
    /// The tree of this name, fetched and unpacked if it is not there yet.
    pub fn fetch_if_missing(cache: &Cache, name: &str) -> Result<SourceTree> {
        let root = tree_root(cache, name);
        fs::create_dir_all(&root).with_context(|| format!("making {}", root.display()))?;
        let source = cache.make_directory(&format!("kernels/{name}/{PACKAGE}"), |into| {
            let tar = fetch_tarball(cache)?;
            run_to_success(
                Command::new("tar")
                    .args(["--strip-components=1", "-C"])
                    .arg(into)
                    .arg("-xf")
                    .arg(tar),
            )
            .context("unpacking the kernel's source")
        })?;
        Ok(SourceTree { root, source })
    }

    /// Configures it with what make's targets `base` say and the fragment's lines, if that has
    /// changed.
    pub fn configure(&self, base: &[&str], fragment: &str) -> Result<()> {
        let asked = self.root.join("asked.config");
        if fs::read_to_string(&asked).unwrap_or_default() == fragment {
            return Ok(());
        }
        write_config(&self.source, base, fragment)?;
        fs::write(&asked, fragment).with_context(|| format!("{}", asked.display()))
    }

    /// Builds the kernel and puts it in place of the last one; make's output goes to this process's
    /// own.
    pub fn build(&self) -> Result<Kernel> {
        let Self { root, source } = self;
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        run_make(source, &[&format!("-j{jobs}"), "bzImage", "modules"])?;
        let release = fs::read_to_string(source.join("include/config/kernel.release"))
            .context("the release of the kernel just built")?;
        let release = release.trim();
        for old in ["boot", "lib"] {
            if root.join(old).exists() {
                fs::remove_dir_all(root.join(old))?;
            }
        }
        let modules = root.join(format!("lib/modules/{release}"));
        fs::create_dir_all(modules.join("kernel"))?;
        fs::copy(
            source.join("modules.builtin"),
            modules.join("modules.builtin"),
        )
        .context("the list of what is built in")?;
        let build = modules.join("build");
        std::os::unix::fs::symlink(format!("../../../{PACKAGE}"), &build)
            .with_context(|| format!("{}", build.display()))?;
        fs::create_dir_all(root.join("boot"))?;
        let image = root.join(format!("boot/vmlinuz-{release}"));
        fs::copy(source.join("arch/x86/boot/bzImage"), &image)
            .with_context(|| format!("{}", image.display()))?;
        installed_kernel(root)
    }
}

/// The source package's tar file, fetched once for all trees.
fn fetch_tarball(cache: &Cache) -> Result<PathBuf> {
    // Others may use the cache during the build, but not while the package lists change.
    let lock = cache.lock()?;
    let package = cache.make_directory(&format!("kernels/{PACKAGE}"), |into| {
        Apt::open(cache, Arch::HERE)?.unpack_packages([PACKAGE], into)
    })?;
    drop(lock);
    Ok(package.join(format!("usr/src/{PACKAGE}.tar.xz")))
}

/// Later lines of a configuration override earlier ones; what the kernel still changes is an error.
fn write_config(source: &Path, base: &[&str], fragment: &str) -> Result<()> {
    run_make(source, &[&["-s"], base].concat())?;
    let path = source.join(".config");
    let base = fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
    fs::write(&path, base + fragment).with_context(|| format!("{}", path.display()))?;
    run_make(source, &["-s", "olddefconfig"])?;
    let config = fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
    let lost = lost_options(fragment, &config);
    ensure!(
        lost.is_empty(),
        "the kernel's source does not take these lines of its fragment in bench/lab/data: {}",
        lost.join(", ")
    );
    Ok(())
}

/// Lines that were asked for and are not there. An option that does not exist is as good as one not
/// set.
fn lost_options<'a>(asked: &'a str, config: &str) -> Vec<&'a str> {
    let unset = |line: &str| {
        let name = line.strip_prefix("# ")?.strip_suffix(" is not set")?;
        Some(
            !config
                .lines()
                .any(|have| have.starts_with(&format!("{name}="))),
        )
    };
    let is_met =
        |line: &str| unset(line).unwrap_or_else(|| config.lines().any(|have| have == line));
    asked
        .lines()
        .filter(|line| line.contains("CONFIG_") && !is_met(line))
        .collect()
}

fn run_make(source: &Path, arguments: &[&str]) -> Result<()> {
    let status = Command::new("make")
        .arg("-C")
        .arg(source)
        .args(arguments)
        .env_remove("MAKEFLAGS")
        .env_remove("MFLAGS")
        .status()
        .map_err(|error| missing_program("make", error))?;
    if !status.success() {
        bail!(
            "make {} in {}: {status}; its messages are above",
            arguments.join(" "),
            source.display()
        );
    }
    Ok(())
}

/// Options that a fragment asks for twice: the first value would be hidden.
#[cfg(test)]
pub(crate) fn asked_twice(fragment: &str) -> Vec<&str> {
    let mut seen = std::collections::BTreeSet::new();
    fragment
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| word.starts_with("CONFIG_") && !seen.insert(*word))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::lost_options;

    #[test]
    fn what_the_kernel_does_not_take_is_named() {
        let asked =
            "# A comment.\nCONFIG_A=y\n# CONFIG_B is not set\n# CONFIG_C is not set\nCONFIG_D=17\n";
        let config = "CONFIG_A=y\nCONFIG_B=m\nCONFIG_D=16\n";
        assert_eq!(
            lost_options(asked, config),
            ["# CONFIG_B is not set", "CONFIG_D=17"]
        );
        assert!(lost_options(asked, "CONFIG_A=y\nCONFIG_D=17\n").is_empty());
    }
}
