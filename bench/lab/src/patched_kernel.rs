// SPDX-License-Identifier: GPL-2.0-only
//! Kernels with patches, and the same kernels without: `--patches`, `--source`.
//!
//! Both are built of one tree with one small configuration, so they differ in the patches alone.
//! The tree stays, and make compiles what a change touches. What was built is kept by what it was
//! built of: source, configuration, compiler, patched files.
//!
//! ```text
//! kernels/patched-7.3/                  the tree (kernel_source.rs), and make.log
//! kernels/7.3.4-stock-KEY/boot/         the image
//! kernels/7.3.4-stock-KEY/lib/modules/  what modules are built against, as `make modules_install`
//! kernels/7.3.4-patched-KEY/            likewise
//! ```

mod trees;

use crate::cache::{Cache, remove_old};
use crate::kernel::{Kernel, open_kernel_at};
use crate::kernel_source::{SourceTree, make_logged};
use crate::kernel_spec::KernelSpec;
use crate::patch::{Blanks, Files, Patch, read_series};
use crate::tool::run_for_output;
use anyhow::{Context, Result, ensure};
use scenario::model::{Filesystem, Scenario};
use std::collections::BTreeSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;
use trees::Tree;

/// Needed to boot, and to load the module; without the name.
const COMMON: [&str; 3] = [
    include_str!("../data/refused.config"),
    include_str!("../data/refused-guest.config"),
    include_str!("../data/patched.config"),
];

/// Kernels kept in the cache besides those used in the last day, 60 MB each.
const KEPT_BUILDS: usize = 20;

/// The kernel to build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// A series: a directory, a file, or a mail.
    pub patches: Option<PathBuf>,
    /// A source tree to build instead of the distribution's.
    pub source: Option<PathBuf>,
    /// Treatment of mangled mail.
    pub blanks: Blanks,
    /// Build after each patch, not only after the last.
    pub each: bool,
    /// Further lines of configuration.
    pub config: Option<PathBuf>,
}

/// The two kernels to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The kernel without the patches.
    Stock,
    /// The kernel with the patches.
    Patched,
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Side::Stock => "stock",
            Side::Patched => "patched",
        }
    }
}

/// Trees and patches, ready to build.
pub struct Bench<'a> {
    cache: &'a Cache,
    /// The tree of each side.
    stock: Tree,
    patched: Option<Tree>,
    patches: Vec<Patch>,
    asked: &'a Asked,
    /// Lines of the configuration that filesystems and the user want.
    extra: String,
}

impl<'a> Bench<'a> {
    /// Reads the patches, fetches the source of `spec`'s series, and has the hunks fit. `scenario`
    /// may need more of the kernel than others.
    ///
    /// # Errors
    /// No such source; a patch that cannot be read; a hunk that does not fit.
    pub fn open(
        cache: &'a Cache,
        spec: &KernelSpec,
        asked: &'a Asked,
        scenario: Option<&Scenario>,
    ) -> Result<Bench<'a>> {
        let patches = match &asked.patches {
            Some(path) => read_series(path, asked.blanks)?,
            None => Vec::new(),
        };
        let mut extra = scenario.map_or_else(String::new, config_for_scenario);
        if let Some(path) = &asked.config {
            extra += &fs::read_to_string(path)
                .with_context(|| format!("reading the configuration {}", path.display()))?;
        }
        let own = asked
            .source
            .as_deref()
            .map(|path| trees::open_own(cache, path));
        let own = own.transpose()?;
        let (stock, patched) = match own {
            // The tree with the patches against the tree.
            Some(own) if !patches.is_empty() => (own, None),
            own => (trees::open_series(cache, spec)?, own),
        };
        let bench = Bench {
            cache,
            stock,
            patched,
            patches,
            asked,
            extra,
        };
        bench.patched_files(bench.patches.len())?;
        Ok(bench)
    }

    /// The kernel of a side, built if that was not done before; `say` is told what takes time.
    ///
    /// # Errors
    /// The compiler's first error, and after which patch.
    pub fn get_kernel(&self, side: Side, say: &dyn Fn(&str)) -> Result<Kernel> {
        if side == Side::Patched && self.asked.each {
            for (count, patch) in self
                .patches
                .iter()
                .enumerate()
                .take(self.patches.len().saturating_sub(1))
            {
                let why = || format!("with the patches up to `{}`", patch.name);
                self.build_side(side, count + 1, say).with_context(why)?;
            }
        }
        let count = match side {
            Side::Stock => 0,
            Side::Patched => self.patches.len(),
        };
        self.build_side(side, count, say)
    }

    fn tree_of(&self, side: Side) -> &Tree {
        match (&self.patched, side) {
            (Some(tree), Side::Patched) => tree,
            _ => &self.stock,
        }
    }

    /// The files that the first patches change, as they are afterwards.
    fn patched_files(&self, count: usize) -> Result<Files> {
        let source = &self.tree_of(Side::Patched).source;
        let read = |path: &str| source.stock_text(path);
        let mut files = Files::new();
        for patch in &self.patches[..count] {
            patch.apply_patch(&mut files, &read, self.asked.blanks)?;
        }
        Ok(files)
    }

    /// Builds a side with the first patches.
    fn build_side(&self, side: Side, count: usize, say: &dyn Fn(&str)) -> Result<Kernel> {
        let Tree { source, key, .. } = self.tree_of(side);
        let files = self.patched_files(count)?;
        let fragment = common_config(&source.source) + &self.extra;
        let version = read_version(&source.source)?;
        let key = hash_build_inputs(&version, *key, &fragment, &files, &compiler_version()?);
        let local = format!("-{}-{key}", side.name());
        let release = format!("{version}{local}");
        let kept = self.cache.make_directory(&format!("kernels/{release}"), |into| {
            say(&format!(
                "the kernel {release}, which is built (its first build takes up to an hour; {})",
                source.root.join("make.log").display()
            ));
            source.edit_files(&files)?;
            let fragment = format!("{fragment}CONFIG_LOCALVERSION=\"{local}\"\n");
            source.configure(&["tinyconfig"], &fragment)?;
            let jobs = std::thread::available_parallelism().map_or(1, usize::from);
            make_logged(source, &[&format!("-j{jobs}"), "bzImage", "modules"])?;
            keep_build(source, into)
        })?;
        // A kernel's age counts from its last use.
        fs::File::open(&kept)?.set_modified(SystemTime::now())?;
        remove_old(&self.cache.path_below("kernels"), KEPT_BUILDS, is_build)?;
        open_kernel_at(&kept)
    }
}

/// Is this the name of a kernel that was built here, complete?
fn is_build(name: &str) -> bool {
    [Side::Stock, Side::Patched].iter().any(|side| {
        let key = name.split_once(&format!("-{}-", side.name()));
        key.is_some_and(|(version, key)| {
            version.starts_with(|first: char| first.is_ascii_digit())
                && key.len() == 8
                && key.chars().all(|digit| digit.is_ascii_hexdigit())
        })
    })
}

/// Configuration of every such kernel, as far as this source knows it.
fn common_config(source: &Path) -> String {
    let known = fs::read_to_string(source.join("fs/proc/Kconfig")).unwrap_or_default();
    // Part of CONFIG_SYSCTL since 7.x.
    let has_proc = known.contains("config PROC_SYSCTL");
    let lines = COMMON.iter().flat_map(|text| text.lines());
    let lines = lines.filter(|line| has_proc || *line != "CONFIG_PROC_SYSCTL=y");
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// Configuration that a scenario needs besides.
fn config_for_scenario(scenario: &Scenario) -> String {
    let mut lines = BTreeSet::new();
    for disk in &scenario.disks {
        lines.extend::<&[&str]>(match disk.filesystem {
            Filesystem::Xfs => &["CONFIG_XFS_FS=y"],
            Filesystem::Btrfs => &["CONFIG_BTRFS_FS=y"],
            Filesystem::Vfat => &[
                "CONFIG_VFAT_FS=y",
                "CONFIG_NLS_CODEPAGE_437=y",
                "CONFIG_NLS_ISO8859_1=y",
            ],
            _ => &[],
        });
        if disk.encrypted {
            lines.extend([
                "CONFIG_DM_CRYPT=y",
                "CONFIG_CRYPTO_AES=y",
                "CONFIG_CRYPTO_XTS=y",
            ]);
        }
    }
    if !scenario.tiers.is_empty() {
        lines.extend(["CONFIG_NUMA=y", "CONFIG_MIGRATION=y"]);
    }
    lines.into_iter().flat_map(|line| [line, "\n"]).collect()
}

/// The short name of what is built of these.
fn hash_build_inputs(
    version: &str,
    source: u64,
    fragment: &str,
    files: &Files,
    compiler: &str,
) -> String {
    let mut hasher = DefaultHasher::new();
    (version, source, fragment, files, compiler).hash(&mut hasher);
    format!("{:08x}", hasher.finish() as u32)
}

/// The source's version, as in `7.3.4`.
fn read_version(source: &Path) -> Result<String> {
    let path = source.join("Makefile");
    let text = fs::read_to_string(&path)
        .with_context(|| format!("{} is no kernel's source", source.display()))?;
    let value = |name: &str| {
        text.lines()
            .find_map(|line| {
                Some(
                    line.strip_prefix(name)?
                        .trim_start()
                        .strip_prefix('=')?
                        .trim(),
                )
            })
            .with_context(|| format!("{}: no {name} in it: no kernel's", path.display()))
    };
    let (version, patch, sub) = (value("VERSION")?, value("PATCHLEVEL")?, value("SUBLEVEL")?);
    Ok(format!("{version}.{patch}.{sub}{}", value("EXTRAVERSION")?))
}

fn compiler_version() -> Result<String> {
    run_for_output(Command::new("gcc").arg("-dumpfullversion"))
}

/// The script that copies what modules are built against.
const HEADERS: &str = "scripts/package/install-extmod-build";

/// Puts image and headers of the kernel just built into a directory, as packages have them.
fn keep_build(tree: &SourceTree, into: &Path) -> Result<()> {
    let source = &tree.source;
    ensure!(
        source.join(HEADERS).is_file(),
        "{} has no {HEADERS}, which came with Linux 6.6: no headers can be kept of an older kernel",
        source.display()
    );
    let release = fs::read_to_string(source.join("include/config/kernel.release"))
        .context("the release of the kernel just built")?;
    let release = release.trim();
    let modules = into.join(format!("lib/modules/{release}"));
    fs::create_dir_all(modules.join("kernel"))?;
    fs::create_dir_all(into.join("boot"))?;
    for (from, to) in [
        ("modules.builtin", modules.join("modules.builtin")),
        (
            "arch/x86/boot/bzImage",
            into.join(format!("boot/vmlinuz-{release}")),
        ),
        (
            "System.map",
            into.join(format!("boot/System.map-{release}")),
        ),
        (".config", into.join(format!("boot/config-{release}"))),
    ] {
        fs::copy(source.join(from), &to).with_context(|| format!("keeping {from}"))?;
    }
    let build = modules.join("build");
    let command = format!("${{srctree}}/{HEADERS} '{}'", build.display());
    make_logged(
        tree,
        &[
            "-s",
            "run-command",
            &format!("KBUILD_RUN_COMMAND={command}"),
        ],
    )
    .context("keeping what modules are built against")?;
    // Makefiles of modules look at it; it is small, and says how the kernel was built.
    fs::copy(source.join(".config"), build.join(".config")).context("keeping .config")?;
    Ok(())
}

#[cfg(test)]
mod tests;
