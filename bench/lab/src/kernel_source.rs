// SPDX-License-Identifier: GPL-2.0-only
//! Kernels built from the distribution's own source package.
//!
//! ```text
//! kernels/linux-source-6.12/                the source package, unpacked: a tar file
//! kernels/NAME/linux-source-6.12/           source and build tree
//! kernels/NAME/asked.config                 the fragments it was configured with
//! kernels/NAME/stock/mm/page-writeback.c    a file as it is in the package, if it was edited
//! kernels/NAME/absent/mm/dirty_min.c        a file that the package does not have
//! kernels/NAME/boot/vmlinuz-RELEASE         put in place last
//! kernels/NAME/lib/modules/RELEASE/kernel/  empty: all is built in
//! kernels/NAME/lib/modules/RELEASE/build    a link to the tree, for `--kernel PATH`
//! ```
//!
//! The tree stays: modules are built against it, and an interrupted build goes on where it was.

use crate::arch::Arch;
use crate::cache::Cache;
use crate::debian;
use crate::kernel::{Kernel, open_kernel_at};
use crate::patch::Files;
use crate::tool::{last_lines, missing_program, run_to_success};
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The series that debug kernels and those to be refused are of.
pub(crate) const SERIES: &str = "6.12";

/// A source tree of its own, and the kernel that is built of it.
pub(crate) struct SourceTree {
    pub root: PathBuf,
    /// The source, in which it is built, too.
    pub source: PathBuf,
}

/// The directory of the kernel of this name, with its tree.
pub(crate) fn tree_root(cache: &Cache, name: &str) -> PathBuf {
    cache.path_below(&format!("kernels/{name}"))
}

fn source_package_name(series: &str) -> String {
    format!("linux-source-{series}")
}

/// The kernel that was built last of the tree at this root.
pub(crate) fn installed_kernel(root: &Path) -> Result<Kernel> {
    Ok(Kernel {
        headers: Some(root.join(source_package_name(SERIES))),
        ..open_kernel_at(root)?
    })
}

impl SourceTree {
    /// The tree of this name with the source of a series, fetched and unpacked if it is not there
    /// yet.
    pub fn fetch_if_missing(cache: &Cache, name: &str, series: &str) -> Result<SourceTree> {
        let root = tree_root(cache, name);
        fs::create_dir_all(&root).with_context(|| format!("making {}", root.display()))?;
        let package = source_package_name(series);
        let source = cache.make_directory(&format!("kernels/{name}/{package}"), |into| {
            let tar = fetch_tarball(cache, series)?;
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

    /// A file's text in the package; `None` if it has no such file.
    pub fn stock_text(&self, file: &str) -> Result<Option<String>> {
        if self.root.join("absent").join(file).exists() {
            return Ok(None);
        }
        let kept = self.root.join("stock").join(file);
        let path = if kept.exists() {
            kept
        } else {
            self.source.join(file)
        };
        if !path.exists() {
            return Ok(None);
        }
        let text = fs::read(&path).with_context(|| path.display().to_string())?;
        String::from_utf8(text)
            .map(Some)
            .with_context(|| format!("{file} in the kernel's source"))
    }

    /// Makes the source that of the package with these files, whatever it was. A file that is like
    /// that already is not touched, or make would compile it.
    pub fn edit_files(&self, files: &Files) -> Result<()> {
        let mut texts = Files::new();
        for kept in ["stock", "absent"] {
            for file in files_below(&self.root.join(kept))? {
                let text = self.stock_text(&file)?;
                texts.insert(file, text);
            }
        }
        for (file, text) in files {
            self.keep_stock_copy(file)?;
            texts.insert(file.clone(), text.clone());
        }
        for (file, text) in texts {
            let path = self.source.join(&file);
            let why = || path.display().to_string();
            match text {
                None if path.exists() => fs::remove_file(&path).with_context(why)?,
                None => {}
                Some(text) => {
                    if path.exists() && fs::read(&path).with_context(why)? == text.as_bytes() {
                        continue;
                    }
                    fs::create_dir_all(path.parent().unwrap_or(&self.source))?;
                    fs::write(&path, text).with_context(why)?;
                }
            }
        }
        Ok(())
    }

    /// Keeps a file as the package has it, before it is edited for the first time.
    fn keep_stock_copy(&self, file: &str) -> Result<()> {
        let (kept, absent) = (
            self.root.join("stock").join(file),
            self.root.join("absent").join(file),
        );
        if kept.exists() || absent.exists() {
            return Ok(());
        }
        let from = self.source.join(file);
        let to = if from.exists() { &kept } else { &absent };
        // Half a copy would stand for the package's file.
        let aside = self.root.join("stock.partial");
        fs::create_dir_all(to.parent().unwrap_or(&self.root))?;
        let copied = match from.exists() {
            true => fs::copy(&from, &aside).map(drop),
            false => fs::write(&aside, ""),
        };
        copied
            .and_then(|()| fs::rename(&aside, to))
            .with_context(|| format!("keeping the stock {file}"))
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
        let tree = source.file_name().unwrap_or_default().to_string_lossy();
        std::os::unix::fs::symlink(format!("../../../{tree}"), &build)
            .with_context(|| format!("{}", build.display()))?;
        fs::create_dir_all(root.join("boot"))?;
        let image = root.join(format!("boot/vmlinuz-{release}"));
        fs::copy(source.join("arch/x86/boot/bzImage"), &image)
            .with_context(|| format!("{}", image.display()))?;
        installed_kernel(root)
    }
}

/// The source package's tar file, fetched once for all trees.
fn fetch_tarball(cache: &Cache, series: &str) -> Result<PathBuf> {
    // Others may use the cache during the build, but not while the package lists change.
    let lock = cache.lock()?;
    let package = source_package_name(series);
    let unpacked = cache.make_directory(&format!("kernels/{package}"), |into| {
        debian::open_with_package(cache, &package, Arch::HERE)?.unpack_packages([&*package], into)
    })?;
    drop(lock);
    Ok(unpacked.join(format!("usr/src/{package}.tar.xz")))
}

/// The files below a directory that need not be there, by their paths in it.
fn files_below(root: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        if !directory.is_dir() {
            continue;
        }
        for entry in fs::read_dir(&directory).with_context(|| format!("{}", directory.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                directories.push(path);
            } else if let Ok(below) = path.strip_prefix(root) {
                found.push(below.to_string_lossy().into_owned());
            }
        }
    }
    Ok(found)
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
        "the kernel's source does not take these lines of its configuration (bench/lab/data, or --config): {}",
        lost.join(", ")
    );
    Ok(())
}

/// Lines that were asked for and are not there, the last of each option. An option that does not
/// exist is as good as one not set.
fn lost_options<'a>(asked: &'a str, config: &str) -> Vec<&'a str> {
    let has: BTreeMap<&str, &str> = option_lines(config).collect();
    let last: BTreeMap<&str, &str> = option_lines(asked).collect();
    let is_met = |name: &str, line: &str| match has.get(name) {
        Some(has) => *has == line,
        None => line.starts_with('#'),
    };
    option_lines(asked)
        .filter(|(name, line)| last.get(name) == Some(line) && !is_met(name, line))
        .map(|(_, line)| line)
        .collect()
}

/// Options of a configuration, with their lines: `CONFIG_A=y`, `# CONFIG_B is not set`.
fn option_lines(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| {
        let unset = line
            .strip_prefix("# ")
            .and_then(|line| line.strip_suffix(" is not set"));
        let name = unset.or_else(|| line.split_once('=').map(|(name, _)| name))?;
        name.starts_with("CONFIG_").then_some((name, line))
    })
}

/// Runs make with its output in the tree's make.log.
///
/// # Errors
/// The compiler's first error, and where the rest is.
pub(crate) fn make_logged(tree: &SourceTree, arguments: &[&str]) -> Result<()> {
    let path = tree.root.join("make.log");
    let why = || path.display().to_string();
    let log = fs::File::create(&path).with_context(why)?;
    let status = Command::new("make")
        .arg("-C")
        .arg(&tree.source)
        .args(arguments)
        // The kernel's Makefile takes LC_ALL away from the compiler.
        .env("LC_CTYPE", "C")
        .env_remove("MAKEFLAGS")
        .env_remove("MFLAGS")
        .stdout(log.try_clone().with_context(why)?)
        .stderr(log)
        .stdin(std::process::Stdio::null())
        .status()
        .map_err(|error| missing_program("make", error))?;
    if status.success() {
        return Ok(());
    }
    let said = fs::read(&path).with_context(why)?;
    let said = String::from_utf8_lossy(&said);
    bail!(
        "the kernel does not build:\n    {}\nAll that make said is in {}",
        first_error(&said).unwrap_or_else(|| last_lines(&said, 5)),
        path.display()
    )
}

/// The compiler's, linker's or make's first error.
fn first_error(said: &str) -> Option<String> {
    let signs = [
        "error: ",
        "undefined reference",
        "ERROR: ",
        " Error ",
        "*** ",
    ];
    let mut found = signs
        .iter()
        .filter_map(|sign| said.lines().find(|line| line.contains(sign)));
    found.next().map(|line| line.trim().to_owned())
}

fn run_make(source: &Path, arguments: &[&str]) -> Result<()> {
    let status = Command::new("make")
        .arg("-C")
        .arg(source)
        .args(arguments)
        .env_remove("MAKEFLAGS")
        .env_remove("MFLAGS")
        // A report on stdout is for programs to read.
        .stdout(std::io::stderr())
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
    use super::*;

    fn make_tree(root: &Path) -> SourceTree {
        let source = root.join("source");
        fs::create_dir_all(source.join("mm")).expect("made");
        for file in ["mm/a.c", "mm/b.c"] {
            fs::write(source.join(file), file).expect("written");
        }
        SourceTree {
            root: root.to_owned(),
            source,
        }
    }

    #[test]
    fn edits_begin_with_the_stock_source_each_time() {
        let root = tempfile::tempdir().expect("a directory");
        let tree = make_tree(root.path());
        let text = |file: &str| fs::read_to_string(tree.source.join(file)).ok();
        let time = |file: &str| {
            fs::metadata(tree.source.join(file))
                .and_then(|it| it.modified())
                .ok()
        };
        let edit = |files: &[(&str, Option<&str>)]| {
            let files = files
                .iter()
                .map(|(file, text)| ((*file).to_owned(), text.map(str::to_owned)));
            tree.edit_files(&files.collect()).expect("edited");
        };
        let untouched = time("mm/b.c");
        edit(&[("mm/a.c", Some("1")), ("new/c.c", Some("new"))]);
        assert_eq!(
            (text("mm/a.c"), text("new/c.c")),
            (Some("1".into()), Some("new".into()))
        );
        assert_eq!(time("mm/b.c"), untouched);
        let (first, third) = (time("mm/a.c"), tree.stock_text("new/c.c").expect("read"));
        assert_eq!(
            (tree.stock_text("mm/a.c").expect("read").as_deref(), third),
            (Some("mm/a.c"), None)
        );
        edit(&[("mm/a.c", Some("1")), ("mm/b.c", None)]);
        assert_eq!(time("mm/a.c"), first, "a file that stays is not written");
        assert_eq!((text("mm/b.c"), text("new/c.c")), (None, None));
        edit(&[]);
        assert_eq!(
            (text("mm/a.c"), text("mm/b.c")),
            (Some("mm/a.c".into()), Some("mm/b.c".into()))
        );
    }

    #[test]
    fn the_compilers_first_error_is_quoted() {
        let said = "  CC      mm/a.o\nmm/a.c:3:2: error: 'x' undeclared\nmm/a.c:9:1: error: more\nmake: *** [x] Error 1\n";
        assert_eq!(
            first_error(said).as_deref(),
            Some("mm/a.c:3:2: error: 'x' undeclared")
        );
        let linked = "ld: mm/a.o: undefined reference to `y'\nmake: *** [vmlinux] Error 1\n";
        assert!(first_error(linked).is_some_and(|line| line.contains("to `y'")));
        let root = tempfile::tempdir().expect("a directory");
        let tree = make_tree(root.path());
        let makefile = "all:\n\t@echo \"mm/b.c:1:1: error: none\" >&2; false\n";
        fs::write(tree.source.join("Makefile"), makefile).expect("written");
        let error = make_logged(&tree, &["all"]).expect_err("fails").to_string();
        assert!(
            error.contains("does not build:\n    mm/b.c:1:1: error: none\n"),
            "{error}"
        );
        assert!(error.contains("make.log"), "{error}");
    }

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
        // A user's lines come after those that every kernel has.
        let twice = "# CONFIG_NET is not set\nCONFIG_NET=y\n";
        assert!(lost_options(twice, "CONFIG_NET=y\n").is_empty());
        assert_eq!(
            lost_options(twice, "# CONFIG_NET is not set\n"),
            ["CONFIG_NET=y"]
        );
    }
}
