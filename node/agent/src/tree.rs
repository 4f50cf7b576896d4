// SPDX-License-Identifier: GPL-2.0-only
//! The cgroup hierarchy as directories. They come and go while one looks: what is gone is left out.

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A cgroup hierarchy below a directory.
#[derive(Clone, Debug)]
pub struct Hierarchy {
    root: PathBuf,
    /// User who may name cgroups without being asked: the owner of the root, which is root.
    owner: u32,
}

/// A cgroup found in a hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupDir {
    /// The cgroup's directory.
    pub directory: PathBuf,
    /// The cgroup's path from the root of the hierarchy, `/system.slice/a.service`.
    pub path: String,
    /// Inode of the directory. Kernels never give the number again, so it tells a cgroup from its
    /// successor.
    pub inode: u64,
    /// `true` if it is in a directory that is not root's, so that another user chose its name.
    pub delegated: bool,
}

impl Hierarchy {
    /// The hierarchy mounted at `root`.
    ///
    /// # Errors
    /// There is none.
    pub fn open(root: &Path) -> std::io::Result<Hierarchy> {
        let metadata = fs::metadata(root)?;
        Ok(Hierarchy {
            root: root.into(),
            owner: metadata.uid(),
        })
    }

    /// Directory of the root cgroup.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The cgroup with this directory and all below it, parents first. `found` says whether to go
    /// below it.
    pub fn walk(&self, directory: &Path, mut found: impl FnMut(&CgroupDir) -> bool) {
        let Some(first) = self.find_cgroup(directory) else {
            return;
        };
        let mut todo = vec![first];
        while let Some(place) = todo.pop() {
            if !found(&place) {
                continue;
            }
            let Ok(metadata) = fs::symlink_metadata(&place.directory) else {
                continue;
            };
            // Two links are its own: it has no directories, and listing its files takes longer than
            // the rest.
            if metadata.nlink() == 2 {
                continue;
            }
            let entries = fs::read_dir(&place.directory).into_iter().flatten();
            let delegated = place.delegated || metadata.uid() != self.owner;
            let mut below: Vec<CgroupDir> = entries
                .flatten()
                .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
                .filter_map(|entry| {
                    let inode = entry.metadata().ok()?.ino();
                    Some(place.child_cgroup(&entry.file_name(), inode, delegated))
                })
                .collect();
            // Popped from the end.
            below.sort_by(|a, b| b.path.cmp(&a.path));
            todo.append(&mut below);
        }
    }

    /// Bytes that the cgroup with this directory may hold, by its own `memory.max` and those above
    /// it; none without a bound.
    pub fn memory_max(&self, directory: &Path) -> Option<u64> {
        let path = directory.ancestors();
        let path = path.take_while(|directory| *directory != self.root);
        let limits = path.filter_map(|directory| {
            let text = fs::read_to_string(directory.join("memory.max")).ok()?;
            text.trim().parse().ok()
        });
        limits.min()
    }

    /// The cgroup with this directory, if it is one of this hierarchy.
    fn find_cgroup(&self, directory: &Path) -> Option<CgroupDir> {
        let below = directory.strip_prefix(&self.root).ok()?;
        let directory_of = |path: &Path| -> Option<Metadata> {
            fs::symlink_metadata(path).ok().filter(Metadata::is_dir)
        };
        let mut metadata = directory_of(&self.root)?;
        let mut place = CgroupDir {
            directory: self.root.clone(),
            path: "/".into(),
            inode: metadata.ino(),
            delegated: false,
        };
        for name in below {
            let delegated = place.delegated || metadata.uid() != self.owner;
            metadata = directory_of(&place.directory.join(name))?;
            place = place.child_cgroup(name, metadata.ino(), delegated);
        }
        Some(place)
    }
}

impl CgroupDir {
    fn child_cgroup(&self, name: &OsStr, inode: u64, delegated: bool) -> CgroupDir {
        let parent = self.path.trim_end_matches('/');
        CgroupDir {
            directory: self.directory.join(name),
            path: format!("{parent}/{}", name.to_string_lossy()),
            inode,
            delegated,
        }
    }

    /// Returns whether it is the root, which has none of weir's files.
    pub fn is_root(&self) -> bool {
        self.path == "/"
    }

    /// Returns whether its directory is still there, and still its own.
    pub fn is_there(&self) -> bool {
        fs::symlink_metadata(&self.directory).is_ok_and(|metadata| metadata.ino() == self.inode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn paths(tree: &Hierarchy, from: &str) -> Vec<String> {
        let mut paths = Vec::new();
        tree.walk(&tree.root().join(from), |place| {
            paths.push(place.path.clone());
            place.path != "/b"
        });
        paths
    }

    #[test]
    fn parents_come_first_and_links_are_not_followed() {
        let dir = tempfile::tempdir().expect("made");
        for path in ["a/x/y", "a/z", "b/hidden"] {
            fs::create_dir_all(dir.path().join(path)).expect("made");
        }
        symlink(dir.path(), dir.path().join("a/loop")).expect("made");
        let tree = Hierarchy::open(dir.path()).expect("a hierarchy");
        assert_eq!(
            paths(&tree, ""),
            ["/", "/a", "/a/x", "/a/x/y", "/a/z", "/b"]
        );
        assert_eq!(paths(&tree, "a/x"), ["/a/x", "/a/x/y"]);
        assert_eq!(paths(&tree, "gone").len(), 0);
        assert_eq!(paths(&tree, "a/loop").len(), 0);
        assert_eq!(paths(&tree, "../other").len(), 0);
    }

    #[test]
    fn below_somebody_elses_directory_is_delegated() {
        let dir = tempfile::tempdir().expect("made");
        fs::create_dir_all(dir.path().join("user/mine")).expect("made");
        let mut tree = Hierarchy::open(dir.path()).expect("a hierarchy");
        // As if another user owned all of it.
        tree.owner = tree.owner.wrapping_add(1);
        let mut delegated = Vec::new();
        tree.walk(tree.root(), |place| {
            delegated.push((place.path.clone(), place.delegated));
            true
        });
        assert_eq!(
            delegated,
            [
                ("/".to_string(), false),
                ("/user".to_string(), true),
                ("/user/mine".to_string(), true)
            ]
        );
        let place = tree
            .find_cgroup(&dir.path().join("user/mine"))
            .expect("there");
        assert!(place.delegated && place.is_there());
        fs::remove_dir(&place.directory).expect("removed");
        assert!(!place.is_there());
    }
}
