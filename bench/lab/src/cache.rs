// SPDX-License-Identifier: GPL-2.0-only
//! Where the lab keeps what it downloads and builds.
//!
//! ```text
//! apt/            an apt root of its own: sources, lists, state; apt-backports/ for QEMU, and
//!                 apt-RELEASE/ for kernels that are in newer releases only
//! tools-KEY/      a newer release's compiler, and what else modules for its kernels are built with
//! qemu-KEY/       the emulator and its libraries
//! userland-KEY/   what guests run besides weir: the unpacked packages, and userland.cpio made of them
//! packages-KEY/   packages that scripts asked for, likewise: packages.cpio
//! drivers-KEY/    a kernel's own modules that guests want, decompressed: drivers.cpio
//! kernels/NAME/   an unpacked kernel with its modules and headers
//! snapshots/KEY/  a booted guest that counts instructions, saved
//! modules/KEY/    weir.ko, by kernel and by the sources it was built from
//! runs/           logs and results of runs that were not given a place with --out
//! ```
//!
//! Everything under it can be deleted at any time and is made again. A directory appears under its
//! name only when it is complete: one at a time makes it, aside, and renames it. The file `lock`
//! covers the package lists.

use anyhow::{Context, Result};
use nix::fcntl::{Flock, FlockArg};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// The cache directory.
#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
}

/// Held while something in the cache is being made; released on drop.
pub struct Lock(#[expect(dead_code, reason = "holds the lock")] Flock<File>);

impl Cache {
    /// The cache at `root`, which is created if it does not exist.
    pub fn open_at(root: impl Into<PathBuf>) -> Result<Cache> {
        let root = root.into();
        fs::create_dir_all(&root)
            .with_context(|| format!("{}: cannot make the cache directory", root.display()))?;
        let root = root
            .canonicalize()
            .with_context(|| format!("{}", root.display()))?;
        Ok(Cache { root })
    }

    /// `$WEIR_CACHE`; else `.cache/weir` in the source tree this runs from; else `~/.cache/weir`.
    pub fn discover() -> Result<Cache> {
        if let Some(root) = std::env::var_os("WEIR_CACHE").filter(|root| !root.is_empty()) {
            return Cache::open_at(root);
        }
        if let Some(tree) = source_tree() {
            return Cache::open_at(tree.join(".cache/weir"));
        }
        let home = std::env::var_os("HOME").context(
            "no place for the lab's cache: set WEIR_CACHE to a directory (neither HOME nor weir's source tree was found)",
        )?;
        Cache::open_at(Path::new(&home).join(".cache/weir"))
    }

    /// A path below the root.
    pub fn path_below(&self, below: &str) -> PathBuf {
        self.root.join(below)
    }

    /// Waits for others that have the package lists of this cache in use, and keeps them out.
    pub fn lock(&self) -> Result<Lock> {
        Self::lock_file(&self.path_below("lock"))
    }

    /// Waits for others that hold the lock in this file below the root.
    pub(crate) fn lock_below(&self, below: &str) -> Result<Lock> {
        let path = self.path_below(below);
        fs::create_dir_all(path.parent().unwrap_or(&self.root))
            .with_context(|| format!("making {}", path.display()))?;
        Self::lock_file(&path)
    }

    fn lock_file(path: &Path) -> Result<Lock> {
        let file = File::create(path).with_context(|| format!("{}", path.display()))?;
        Flock::lock(file, FlockArg::LockExclusive)
            .map(Lock)
            .map_err(|(_, errno)| {
                anyhow::Error::from(errno).context(format!("locking {}", path.display()))
            })
    }

    /// Returns the directory `below` the root, complete: made by `make` in a directory aside if it
    /// is not there yet.
    pub fn make_directory(
        &self,
        below: &str,
        make: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        let path = self.path_below(below);
        if path.is_dir() {
            return Ok(path);
        }
        let beside = |suffix: &str| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            path.with_file_name(format!("{name}.{suffix}"))
        };
        let (aside, lock) = (beside("partial"), beside("lock"));
        fs::create_dir_all(path.parent().unwrap_or(&self.root))
            .with_context(|| format!("making {}", path.display()))?;
        // Not the cache's lock: the arms of a run make what each needs at the same time, and some
        // callers hold it.
        let _alone = Self::lock_file(&lock)?;
        if path.is_dir() {
            return Ok(path);
        }
        if aside.exists() {
            fs::remove_dir_all(&aside).with_context(|| format!("removing {}", aside.display()))?;
        }
        fs::create_dir_all(&aside).with_context(|| format!("making {}", aside.display()))?;
        make(&aside)?;
        fs::rename(&aside, &path).with_context(|| format!("renaming {}", aside.display()))?;
        // A process that still waits for it finds the directory made.
        let _ = fs::remove_file(&lock);
        Ok(path)
    }

    /// A new directory for the logs of a run called `name`. The newest 50 are kept, and all of the
    /// last day: their guests may still be alive.
    pub fn run_directory(&self, name: &str) -> Result<PathBuf> {
        let runs = self.path_below("runs");
        fs::create_dir_all(&runs).with_context(|| format!("making {}", runs.display()))?;
        remove_old(&runs, 49, |_| true)?;
        let directory = tempfile::Builder::new()
            .prefix(&format!("{name}-"))
            .tempdir_in(&runs)
            .with_context(|| format!("making a directory in {}", runs.display()))?;
        Ok(directory.keep())
    }
}

/// Removes what lies in `directory` under names that `is_of_kind`, but for the newest `keep` and
/// all of the last day: guests may still use it.
pub(crate) fn remove_old(
    directory: &Path,
    keep: usize,
    is_of_kind: impl Fn(&str) -> bool,
) -> Result<()> {
    let mut old: Vec<_> = fs::read_dir(directory)?
        .filter_map(|entry| {
            let entry = entry.ok()?;
            is_of_kind(&entry.file_name().to_string_lossy())
                .then_some((entry.metadata().ok()?.modified().ok()?, entry.path()))
        })
        .collect();
    old.sort();
    let day = std::time::Duration::from_secs(24 * 60 * 60);
    let over = |time: &std::time::SystemTime| time.elapsed().is_ok_and(|age| age > day);
    for (_, path) in old.iter().rev().skip(keep).filter(|(time, _)| over(time)) {
        // Two weirs may tidy up at once; what is gone is gone.
        let _ = fs::remove_dir_all(path);
    }
    Ok(())
}

/// The root of weir's source tree, looked for upwards from the working directory and from the
/// binary.
pub fn source_tree() -> Option<PathBuf> {
    let starts = [std::env::current_dir().ok(), std::env::current_exe().ok()];
    starts.into_iter().flatten().find_map(|start| {
        start
            .ancestors()
            .find(|path| path.join("Cargo.toml").is_file() && path.join("kmod/Kbuild").is_file())
            .map(Path::to_path_buf)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    #[test]
    fn a_directory_is_made_once_however_many_ask_for_it() {
        let root = tempfile::tempdir().expect("a directory");
        let cache = Cache::open_at(root.path()).expect("a cache");
        let made = AtomicU32::new(0);
        let ask = || {
            cache.make_directory("below/it", |into| {
                made.fetch_add(1, SeqCst);
                fs::write(into.join("first"), "1")?;
                std::thread::sleep(std::time::Duration::from_millis(50));
                Ok(fs::write(into.join("last"), "2")?)
            })
        };
        std::thread::scope(|scope| {
            for asker in [(); 8].map(|()| scope.spawn(ask)) {
                let path = asker.join().expect("no panic").expect("the directory");
                assert!(path.join("first").exists() && path.join("last").exists());
            }
        });
        assert_eq!(made.load(SeqCst), 1);
        let left: Vec<_> = fs::read_dir(root.path().join("below"))
            .expect("it")
            .collect();
        assert_eq!(left.len(), 1, "only the directory is left: {left:?}");
    }

    #[test]
    fn the_oldest_are_removed_but_not_those_of_the_last_day() {
        let root = tempfile::tempdir().expect("a directory");
        let days_ago = |days: u64| {
            std::time::SystemTime::now() - std::time::Duration::from_secs(days * 24 * 60 * 60 + 60)
        };
        for (name, days) in [
            ("now-x", 0),
            ("new-x", 1),
            ("old-x", 2),
            ("oldest-x", 3),
            ("other", 4),
        ] {
            let path = root.path().join(name);
            fs::create_dir(&path).expect("made");
            let directory = File::open(&path).expect("opened");
            directory.set_modified(days_ago(days)).expect("dated");
        }
        let left = |keep| {
            remove_old(root.path(), keep, |name| name.ends_with("-x")).expect("removed");
            let names = fs::read_dir(root.path()).expect("it");
            let mut names: Vec<_> = names.map(|name| name.expect("it").file_name()).collect();
            names.sort();
            names
        };
        assert_eq!(left(3), ["new-x", "now-x", "old-x", "other"]);
        assert_eq!(
            left(0),
            ["now-x", "other"],
            "what is younger than a day stays"
        );
    }

    #[test]
    fn what_could_not_be_made_is_made_again() {
        let root = tempfile::tempdir().expect("a directory");
        let cache = Cache::open_at(root.path()).expect("a cache");
        let failed = cache.make_directory("it", |_| anyhow::bail!("no"));
        assert!(failed.is_err());
        assert!(!root.path().join("it").exists());
        cache.make_directory("it", |_| Ok(())).expect("made now");
    }
}
