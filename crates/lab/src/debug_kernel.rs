// SPDX-License-Identifier: GPL-2.0-only
//! A kernel that looks for defects while it runs: KASAN, lockdep, atomic-sleep checks, kmemleak.
//!
//! No distribution ships one, so it is built, once, from the distribution's own source package with
//! `data/debug.config` on top of the kernel's `x86_64_defconfig` and `kvm_guest.config`. That takes half
//! an hour, so only `make debug-kernel` does it; `--kernel debug` uses what is there. The
//! source tree stays: the module is built against it, and an interrupted build goes on where it was.
//!
//! ```text
//! kernels/debug/linux-source-6.12/           source and build tree
//! kernels/debug/asked.config                 the fragment it was configured with
//! kernels/debug/boot/vmlinuz-RELEASE         put in place last
//! kernels/debug/lib/modules/RELEASE/kernel/  empty: all is built in
//! ```

use crate::apt::Apt;
use crate::cache::Cache;
use crate::kernel::{Kernel, at_path};
use crate::tool::{missing, succeed};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::Path;
use std::process::Command;

const PACKAGE: &str = "linux-source-6.12";
/// What its release ends with, as the fragment says.
pub(crate) const LOCALVERSION: &str = "-weir-debug";
const FRAGMENT: &str = include_str!("../data/debug.config");

/// The debug kernel, if `make debug-kernel` has built it.
pub(crate) fn built(cache: &Cache) -> Result<Kernel> {
    let root = cache.path("kernels/debug");
    ensure!(
        root.join("boot").is_dir(),
        "the debug kernel is not built yet: run `make debug-kernel` (about half an hour)"
    );
    Ok(Kernel {
        headers: Some(root.join(PACKAGE)),
        ..at_path(&root)?
    })
}

/// Builds it, or brings it up to date with the fragment; make's output goes to this process's own.
pub fn build(cache: &Cache) -> Result<Kernel> {
    let root = cache.path("kernels/debug");
    fs::create_dir_all(&root).with_context(|| format!("making {}", root.display()))?;
    let source = cache.directory(&format!("kernels/debug/{PACKAGE}"), |into| {
        // Others may use the cache during the build, but not while the package lists change.
        let lock = cache.lock()?;
        let package = tempfile::tempdir_in(&root).context("making a directory for the package")?;
        Apt::open(cache)?.unpack([PACKAGE], package.path())?;
        drop(lock);
        let tar = package.path().join(format!("usr/src/{PACKAGE}.tar.xz"));
        succeed(
            Command::new("tar")
                .args(["--strip-components=1", "-C"])
                .arg(into)
                .arg("-xf")
                .arg(tar),
        )
        .context("unpacking the kernel's source")
    })?;
    let asked = root.join("asked.config");
    if fs::read_to_string(&asked).unwrap_or_default() != FRAGMENT {
        configure(&source)?;
        fs::write(&asked, FRAGMENT).with_context(|| format!("{}", asked.display()))?;
    }
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    make(&source, &[&format!("-j{jobs}"), "bzImage", "modules"])?;
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
    fs::create_dir_all(root.join("boot"))?;
    let image = root.join(format!("boot/vmlinuz-{release}"));
    fs::copy(source.join("arch/x86/boot/bzImage"), &image)
        .with_context(|| format!("{}", image.display()))?;
    built(cache)
}

/// Later lines of a configuration override earlier ones; what the kernel still changes is an error.
fn configure(source: &Path) -> Result<()> {
    make(source, &["-s", "x86_64_defconfig", "kvm_guest.config"])?;
    let path = source.join(".config");
    let base = fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
    fs::write(&path, base + FRAGMENT).with_context(|| format!("{}", path.display()))?;
    make(source, &["-s", "olddefconfig"])?;
    let config = fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
    let lost = lost(FRAGMENT, &config);
    ensure!(
        lost.is_empty(),
        "the kernel's source does not take these lines of data/debug.config: {}",
        lost.join(", ")
    );
    Ok(())
}

/// What was asked for and is not there. An option that does not exist is as good as one not set.
fn lost<'a>(asked: &'a str, config: &str) -> Vec<&'a str> {
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

fn make(source: &Path, arguments: &[&str]) -> Result<()> {
    let status = Command::new("make")
        .arg("-C")
        .arg(source)
        .args(arguments)
        .env_remove("MAKEFLAGS")
        .env_remove("MFLAGS")
        .status()
        .map_err(|error| missing("make", error))?;
    if !status.success() {
        bail!(
            "make {} in {}: {status}; its messages are above",
            arguments.join(" "),
            source.display()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{FRAGMENT, LOCALVERSION, lost};

    #[test]
    fn the_fragment_names_the_release_as_it_is_recognised() {
        assert!(FRAGMENT.contains(&format!("CONFIG_LOCALVERSION=\"{LOCALVERSION}\"")));
    }

    #[test]
    fn what_the_kernel_does_not_take_is_named() {
        let asked =
            "# A comment.\nCONFIG_A=y\n# CONFIG_B is not set\n# CONFIG_C is not set\nCONFIG_D=17\n";
        let config = "CONFIG_A=y\nCONFIG_B=m\nCONFIG_D=16\n";
        assert_eq!(
            lost(asked, config),
            ["# CONFIG_B is not set", "CONFIG_D=17"]
        );
        assert!(lost(asked, "CONFIG_A=y\nCONFIG_D=17\n").is_empty());
    }
}
