// SPDX-License-Identifier: GPL-2.0-only
//! Kernels that look for defects while they run.
//!
//! `--kernel debug` has KASAN, lockdep, atomic-sleep checks and kmemleak; `--kernel debug-kcsan`
//! has KCSAN, which excludes KASAN. No distribution ships either, so each is built, once, from the
//! distribution's own source package with `data/debug.config` and its kind's fragment on top of the
//! kernel's `x86_64_defconfig` and `kvm_guest.config`. That takes half an hour, so only `make
//! debug-kernel` does it; `--kernel` uses what is there. In the cache they are `kernels/debug/` and
//! `kernels/debug-kcsan/` (`kernel_source.rs`).

use crate::cache::Cache;
use crate::kernel::Kernel;
use crate::kernel_source::{SERIES, SourceTree, installed_kernel, tree_root};
use anyhow::{Context, Result, ensure};
use std::str::FromStr;

/// The configuration that every kind has; the kind's own lines come after it.
const COMMON: &str = include_str!("../data/debug.config");

/// The errors that a debug kernel looks for.
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
    pub fn kernel_name(self) -> &'static str {
        match self {
            Kind::Kasan => "debug",
            Kind::Kcsan => "debug-kcsan",
        }
    }

    /// The end of its release, as its fragment has it.
    pub(crate) fn localversion(self) -> &'static str {
        match self {
            Kind::Kasan => "-weir-debug",
            Kind::Kcsan => "-weir-kcsan",
        }
    }

    fn config_fragment(self) -> String {
        let own = match self {
            Kind::Kasan => include_str!("../data/debug-kasan.config"),
            Kind::Kcsan => include_str!("../data/debug-kcsan.config"),
        };
        format!("{COMMON}{own}")
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
pub(crate) fn built_kernel(cache: &Cache, kind: Kind) -> Result<Kernel> {
    let root = tree_root(cache, kind.kernel_name());
    ensure!(
        root.join("boot").is_dir(),
        "the kernel `{}` is not built yet: run `make debug-kernel KIND={}` (about half an hour)",
        kind.kernel_name(),
        kind.name()
    );
    installed_kernel(&root)
}

/// Builds it, or brings it up to date with its fragment; make's output goes to this process's own.
pub fn build(cache: &Cache, kind: Kind) -> Result<Kernel> {
    let tree = SourceTree::fetch_if_missing(cache, kind.kernel_name(), SERIES)?;
    tree.configure(
        &["x86_64_defconfig", "kvm_guest.config"],
        &kind.config_fragment(),
    )?;
    tree.build()
}

#[cfg(test)]
mod tests {
    use super::Kind;
    use crate::kernel_source::asked_twice;

    #[test]
    fn a_fragment_names_the_release_as_it_is_recognised() {
        for kind in Kind::ALL {
            let line = format!("CONFIG_LOCALVERSION=\"{}\"\n", kind.localversion());
            assert!(kind.config_fragment().contains(&line), "{line}");
            assert_eq!(kind.name().parse::<Kind>().unwrap(), kind);
        }
        let error = "kmsan".parse::<Kind>().unwrap_err().to_string();
        assert_eq!(
            error,
            "unknown kind of debug kernel `kmsan`, known: kasan, kcsan"
        );
    }

    #[test]
    fn the_kinds_share_no_option() {
        for kind in Kind::ALL {
            assert_eq!(
                asked_twice(&kind.config_fragment()),
                [""; 0],
                "{}",
                kind.name()
            );
        }
        assert!(!Kind::Kcsan.config_fragment().contains("KASAN="));
    }
}
