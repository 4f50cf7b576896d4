// SPDX-License-Identifier: GPL-2.0-only
//! The trees that kernels are built in: the distribution's source, or a copy of the user's own,
//! which is not built in.

use crate::arch::Arch;
use crate::cache::{Cache, Lock};
use crate::debian;
use crate::kernel_source::{SourceTree, tree_root};
use crate::kernel_spec::KernelSpec;
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

/// Directories that hold no source.
const NO_SOURCE: [&str; 4] = [
    ".git",
    "include/config",
    "include/generated",
    "Documentation/output",
];
/// Ends of names of what a build leaves.
const BUILT: [&str; 9] = ["o", "a", "ko", "cmd", "d", "mod", "order", "symvers", "dwo"];

/// A tree, locked: one process at a time builds in it.
pub(super) struct Tree {
    pub source: SourceTree,
    /// The source's sum, as far as its release does not tell one from another.
    pub key: u64,
    _alone: Lock,
}

/// The tree with the source package of `spec`'s series.
pub(super) fn open_series(cache: &Cache, spec: &KernelSpec) -> Result<Tree> {
    let series = match spec {
        KernelSpec::Debian { series, arch, .. } if *arch == Arch::HERE => series.clone(),
        KernelSpec::Exact { release, arch } if *arch == Arch::HERE => {
            let parts = debian::release_parts(release);
            parts.map(|(series, ..)| series).context("a release")?
        }
        _ => bail!(
            "kernels are built of the distribution's source for this machine's architecture: name it by \
             --kernel debian:6.12 or another series, or give --source a tree"
        ),
    };
    let name = format!("patched-{series}");
    let alone = cache.lock_below(&format!("kernels/{name}.lock"))?;
    Ok(Tree {
        source: SourceTree::fetch_if_missing(cache, &name, &series)?,
        key: 0,
        _alone: alone,
    })
}

/// The copy of a tree, brought up to date: what has changed is copied, what has gone is removed.
pub(super) fn open_own(cache: &Cache, from: &Path) -> Result<Tree> {
    let from = from
        .canonicalize()
        .with_context(|| format!("the source {}", from.display()))?;
    ensure!(
        from.join("Kconfig").is_file() && from.join("mm").is_dir(),
        "{}: no kernel's source: no Kconfig or no mm/ in it",
        from.display()
    );
    let mut hasher = DefaultHasher::new();
    from.hash(&mut hasher);
    let name = format!("patched-own-{:08x}", hasher.finish() as u32);
    let alone = cache.lock_below(&format!("kernels/{name}.lock"))?;
    let root = tree_root(cache, &name);
    let source = SourceTree {
        source: root.join("source"),
        root,
    };
    fs::create_dir_all(&source.source).with_context(|| source.source.display().to_string())?;
    let key = copy_changed(&from, &source)?;
    Ok(Tree {
        source,
        key,
        _alone: alone,
    })
}

/// Copies what differs; the sum of all names and texts' lengths and times.
fn copy_changed(from: &Path, tree: &SourceTree) -> Result<u64> {
    // Patches of the run before would be taken for the copy of this tree.
    tree.edit_files(&Default::default())?;
    for kept in ["stock", "absent"] {
        let path = tree.root.join(kept);
        if path.exists() {
            fs::remove_dir_all(&path).with_context(|| path.display().to_string())?;
        }
    }
    let list = tree.root.join("copied.list");
    let old = fs::read_to_string(&list).unwrap_or_default();
    let mut gone: BTreeSet<&str> = old.lines().collect();
    let mut copied = Vec::new();
    let mut hasher = DefaultHasher::new();
    let mut directories = vec![String::new()];
    while let Some(directory) = directories.pop() {
        let path = from.join(&directory);
        let entries = fs::read_dir(&path).with_context(|| path.display().to_string())?;
        let mut names: Vec<_> = entries.collect::<Result<_, _>>()?;
        names.sort_by_key(fs::DirEntry::file_name);
        for entry in names {
            let name = entry.file_name().to_string_lossy().into_owned();
            let below = match directory.is_empty() {
                true => name,
                false => format!("{directory}/{name}"),
            };
            let kind = entry.file_type()?;
            if kind.is_dir() && !is_built(&below) {
                fs::create_dir_all(tree.source.join(&below))?;
                directories.push(below);
                continue;
            }
            if kind.is_dir() || is_built(&below) {
                continue;
            }
            let metadata = entry.metadata()?;
            (&below, metadata.len(), metadata.modified()?).hash(&mut hasher);
            copy_if_changed(&entry.path(), &tree.source.join(&below), &metadata)
                .with_context(|| format!("copying {}", entry.path().display()))?;
            gone.remove(below.as_str());
            copied.push(below);
        }
    }
    for file in gone {
        let _ = fs::remove_file(tree.source.join(file));
    }
    fs::write(&list, copied.join("\n")).with_context(|| list.display().to_string())?;
    Ok(hasher.finish())
}

/// A file that is not touched is not compiled again.
fn copy_if_changed(from: &Path, to: &Path, metadata: &fs::Metadata) -> Result<()> {
    if metadata.is_symlink() {
        let target = fs::read_link(from)?;
        if fs::read_link(to).is_ok_and(|has| has == target) {
            return Ok(());
        }
        let _ = fs::remove_file(to);
        return Ok(std::os::unix::fs::symlink(target, to)?);
    }
    if let Ok(has) = fs::metadata(to) {
        let is_newer = has.modified()? >= metadata.modified()?;
        let is_as_long = has.len() == metadata.len();
        if is_as_long && (is_newer || fs::read(from)? == fs::read(to)?) {
            return Ok(());
        }
        fs::remove_file(to)?;
    }
    // Its time is now's: make goes by it.
    fs::copy(from, to)?;
    Ok(())
}

/// Is it made by a build?
fn is_built(below: &str) -> bool {
    let path = Path::new(below);
    let end = path.extension().and_then(|end| end.to_str());
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or(below);
    NO_SOURCE.contains(&below)
        || below.starts_with("arch/") && below.ends_with("/include/generated")
        || end.is_some_and(|end| BUILT.contains(&end))
        || matches!(
            name,
            ".config" | ".config.old" | "vmlinux" | "System.map" | ".version"
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_follows_its_tree_and_touches_nothing_else() {
        let root = tempfile::tempdir().expect("a directory");
        let from = root.path().join("from");
        let write = |file: &str, text: &str| {
            let path = from.join(file);
            fs::create_dir_all(path.parent().expect("below")).expect("made");
            fs::write(path, text).expect("written");
        };
        for file in [
            "Kconfig",
            "mm/a.c",
            "mm/b.c",
            "mm/a.o",
            ".git/config",
            "include/generated/x.h",
        ] {
            write(file, file);
        }
        let tree = SourceTree {
            root: root.path().join("tree"),
            source: root.path().join("tree/source"),
        };
        fs::create_dir_all(&tree.source).expect("made");
        let first = copy_changed(&from, &tree).expect("copied");
        let text = |file: &str| fs::read_to_string(tree.source.join(file)).ok();
        assert_eq!(text("mm/a.c").as_deref(), Some("mm/a.c"));
        for file in ["mm/a.o", ".git/config", "include/generated/x.h"] {
            assert_eq!(text(file), None, "{file}");
        }
        assert_eq!(copy_changed(&from, &tree).expect("copied"), first);
        // Objects that the copy's own build made stay; patches of the run before go.
        fs::write(tree.source.join("mm/b.o"), "made").expect("written");
        let patched = [("mm/a.c".to_owned(), Some("patched".to_owned()))];
        tree.edit_files(&patched.into_iter().collect())
            .expect("edited");
        write("mm/c.c", "new");
        fs::remove_file(from.join("mm/b.c")).expect("removed");
        assert_ne!(copy_changed(&from, &tree).expect("copied"), first);
        assert_eq!(text("mm/a.c").as_deref(), Some("mm/a.c"));
        assert_eq!(text("mm/c.c").as_deref(), Some("new"));
        assert_eq!(
            (text("mm/b.c"), text("mm/b.o").as_deref()),
            (None, Some("made"))
        );
    }

    #[test]
    fn a_directory_without_a_kernel_is_named() {
        let root = tempfile::tempdir().expect("a directory");
        let cache = Cache::open_at(root.path().join("cache")).expect("a cache");
        let error = open_own(&cache, root.path())
            .err()
            .expect("an error")
            .to_string();
        assert!(error.contains("no kernel's source"), "{error}");
    }
}
