// SPDX-License-Identifier: GPL-2.0-only
//! Kernels that look for defects while they run.
//!
//! `--kernel debug` has KASAN, lockdep, atomic-sleep checks and kmemleak; `--kernel debug-kcsan`
//! has KCSAN, which excludes KASAN. No distribution ships either, so each is built, once, from the
//! distribution's own source package with `data/debug.config` and its kind's fragment on top of the
//! kernel's `x86_64_defconfig` and `kvm_guest.config`. That takes half an hour, so only `make
//! debug-kernel` does it; `--kernel` uses what is there. The source tree stays: the module is built
//! against it, and an interrupted build goes on where it was.
//!
//! ```text
//! kernels/linux-source-6.12/                 the source package, unpacked: a tar file
//! kernels/debug/linux-source-6.12/           source and build tree; kernels/debug-kcsan/ has its own
//! kernels/debug/asked.config                 the fragments it was configured with
//! kernels/debug/boot/vmlinuz-RELEASE         put in place last
//! kernels/debug/lib/modules/RELEASE/kernel/  empty: all is built in
//! ```

use crate::apt::Apt;
use crate::arch::Arch;
use crate::cache::Cache;
use crate::kernel::{Kernel, at_path};
use crate::tool::{missing, succeed};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

const PACKAGE: &str = "linux-source-6.12";
/// What every kind is configured with; the kind's own lines come after it.
const COMMON: &str = include_str!("../data/debug.config");

/// What a debug kernel looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Uses of freed memory, with lockdep and kmemleak.
    Kasan,
    /// Data races, by KCSAN.
    Kcsan,
}

impl Kind {
    /// Both kinds of debug kernel.
    pub const ALL: [Kind; 2] = [Kind::Kasan, Kind::Kcsan];

    /// Its name for `make debug-kernel KIND=`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Kasan => "kasan",
            Kind::Kcsan => "kcsan",
        }
    }

    /// Its name for `--kernel`, and that of its directory in the cache.
    pub fn kernel(self) -> &'static str {
        match self {
            Kind::Kasan => "debug",
            Kind::Kcsan => "debug-kcsan",
        }
    }

    /// What its release ends with, as its fragment says.
    pub(crate) fn localversion(self) -> &'static str {
        match self {
            Kind::Kasan => "-weir-debug",
            Kind::Kcsan => "-weir-kcsan",
        }
    }

    fn fragment(self) -> String {
        let own = match self {
            Kind::Kasan => include_str!("../data/debug-kasan.config"),
            Kind::Kcsan => include_str!("../data/debug-kcsan.config"),
        };
        format!("{COMMON}{own}")
    }

    fn root(self, cache: &Cache) -> PathBuf {
        cache.path(&format!("kernels/{}", self.kernel()))
    }
}

impl FromStr for Kind {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Kind> {
        let known = Kind::ALL.into_iter().find(|kind| kind.name() == text);
        known.with_context(|| format!("unknown kind of debug kernel `{text}`, known: kasan, kcsan"))
    }
}

/// The debug kernel of this kind, if `make debug-kernel` has built it.
pub(crate) fn built(cache: &Cache, kind: Kind) -> Result<Kernel> {
    let root = kind.root(cache);
    ensure!(
        root.join("boot").is_dir(),
        "the kernel `{}` is not built yet: run `make debug-kernel KIND={}` (about half an hour)",
        kind.kernel(),
        kind.name()
    );
    Ok(Kernel {
        headers: Some(root.join(PACKAGE)),
        ..at_path(&root)?
    })
}

/// Builds it, or brings it up to date with its fragment; make's output goes to this process's own.
pub fn build(cache: &Cache, kind: Kind) -> Result<Kernel> {
    let root = kind.root(cache);
    fs::create_dir_all(&root).with_context(|| format!("making {}", root.display()))?;
    let source = format!("kernels/{}/{PACKAGE}", kind.kernel());
    let source = cache.directory(&source, |into| {
        let tar = tarball(cache)?;
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
    let fragment = kind.fragment();
    if fs::read_to_string(&asked).unwrap_or_default() != fragment {
        configure(&source, &fragment)?;
        fs::write(&asked, &fragment).with_context(|| format!("{}", asked.display()))?;
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
    built(cache, kind)
}

/// The source package's tar file, fetched once for all kinds.
fn tarball(cache: &Cache) -> Result<PathBuf> {
    // Others may use the cache during the build, but not while the package lists change.
    let lock = cache.lock()?;
    let package = cache.directory(&format!("kernels/{PACKAGE}"), |into| {
        Apt::open(cache, Arch::HERE)?.unpack([PACKAGE], into)
    })?;
    drop(lock);
    Ok(package.join(format!("usr/src/{PACKAGE}.tar.xz")))
}

/// Later lines of a configuration override earlier ones; what the kernel still changes is an error.
fn configure(source: &Path, fragment: &str) -> Result<()> {
    make(source, &["-s", "x86_64_defconfig", "kvm_guest.config"])?;
    let path = source.join(".config");
    let base = fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
    fs::write(&path, base + fragment).with_context(|| format!("{}", path.display()))?;
    make(source, &["-s", "olddefconfig"])?;
    let config = fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
    let lost = lost(fragment, &config);
    ensure!(
        lost.is_empty(),
        "the kernel's source does not take these lines of data/debug*.config: {}",
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
    use super::{Kind, lost};

    #[test]
    fn a_fragment_names_the_release_as_it_is_recognised() {
        for kind in Kind::ALL {
            let line = format!("CONFIG_LOCALVERSION=\"{}\"\n", kind.localversion());
            assert!(kind.fragment().contains(&line), "{line}");
            assert_eq!(kind.name().parse::<Kind>().unwrap(), kind);
        }
        let error = "kmsan".parse::<Kind>().unwrap_err().to_string();
        assert_eq!(
            error,
            "unknown kind of debug kernel `kmsan`, known: kasan, kcsan"
        );
    }

    /// An option that is asked for twice would hide the first value.
    #[test]
    fn the_kinds_share_no_option() {
        for kind in Kind::ALL {
            let fragment = kind.fragment();
            let mut names: Vec<_> = fragment
                .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .filter(|word| word.starts_with("CONFIG_"))
                .collect();
            let all = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), all, "{}: an option twice", kind.name());
        }
        assert!(!Kind::Kcsan.fragment().contains("KASAN="));
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
