// SPDX-License-Identifier: GPL-2.0-only
//! Packages that one script wants in its guest, besides the userland that every guest has.
//!
//! Of a package that is named, everything goes in but what is there to be read. Of the packages it
//! depends on, only the shared libraries that are needed: a guest has no init system and no
//! database of packages, and a script that wants mount.nfs and rpcbind beside nfsd says so. No
//! script of the package's own (postinst and the like) is run. For example `nfs-kernel-server`,
//! `nfs-common`, `libtirpc-common` and `rpcbind` are 60 files and 20 libraries, in an archive of
//! its own in the cache.

use crate::apt::Apt;
use crate::arch::Arch;
use crate::cache::Cache;
use crate::initramfs::Archive;
use crate::libraries;
use crate::tool::read;
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Files that are not read in a guest.
const TO_BE_READ: &[&str] = &[
    "usr/share/doc",
    "usr/share/doc-base",
    "usr/share/info",
    "usr/share/lintian",
    "usr/share/locale",
    "usr/share/man",
    "usr/share/bash-completion",
];

/// The path of a cpio archive with these packages, made first if necessary.
pub fn make_archive(cache: &Cache, arch: Arch, packages: &[String]) -> Result<PathBuf> {
    let packages: BTreeSet<&str> = packages.iter().map(String::as_str).collect();
    let mut hasher = DefaultHasher::new();
    (&packages, TO_BE_READ).hash(&mut hasher);
    let directory = cache.make_directory(
        &format!(
            "packages-{:08x}{}",
            hasher.finish() as u32,
            arch.cache_suffix()
        ),
        |into| {
            let names: Vec<&str> = packages.iter().copied().collect();
            let list = names.join(" ");
            let apt = Apt::open(cache, arch)?;
            let all = apt
                .resolve_with_libraries(&names)
                .with_context(|| format!("finding the packages {list}"))?;
            let (named, libraries) = (into.join("named"), into.join("libraries"));
            apt.unpack_packages(names, &named).context(list.clone())?;
            apt.unpack_packages(all.iter().map(String::as_str), &libraries)
                .with_context(|| format!("the libraries of {list}"))?;
            write_archive(arch, &named, &libraries, &into.join("packages.cpio"))?;
            for root in [named, libraries] {
                fs::remove_dir_all(&root)
                    .with_context(|| format!("removing {}", root.display()))?;
            }
            Ok(())
        },
    )?;
    Ok(directory.join("packages.cpio"))
}

fn write_archive(arch: Arch, named: &Path, libraries: &Path, to: &Path) -> Result<()> {
    let out = File::create(to).with_context(|| format!("{}", to.display()))?;
    let mut archive = Archive::new(BufWriter::new(out));
    let mut wanted = BTreeSet::new();
    add_tree(&mut archive, named, "", &mut wanted)?;
    libraries::add(&mut archive, arch, libraries, wanted)?;
    archive.finish()?.flush()?;
    Ok(())
}

/// Adds what is in `root`/`below`, and notes the libraries its programs need.
fn add_tree<W: Write>(
    archive: &mut Archive<W>,
    root: &Path,
    below: &str,
    wanted: &mut BTreeSet<String>,
) -> Result<()> {
    let directory = root.join(below);
    let mut names = Vec::new();
    for entry in fs::read_dir(&directory).with_context(|| format!("{}", directory.display()))? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    for name in names {
        let below = match below {
            "" => name,
            _ => format!("{below}/{name}"),
        };
        if TO_BE_READ.contains(&below.as_str()) {
            continue;
        }
        let path = root.join(&below);
        let shown = path.display().to_string();
        let metadata = fs::symlink_metadata(&path).with_context(|| shown.clone())?;
        let inside = guest_path(&below);
        if metadata.is_dir() {
            archive.add_directory(&inside)?;
            add_tree(archive, root, &below, wanted)?;
        } else if metadata.is_symlink() {
            let target = fs::read_link(&path).with_context(|| shown)?;
            archive.add_link(&inside, &target.to_string_lossy())?;
        } else {
            let bytes = read(&path)?;
            if bytes.starts_with(b"\x7fELF\x02") {
                let needed = libraries::needed_libraries(&bytes);
                wanted.extend(needed.with_context(|| format!("{shown}: its ELF headers"))?);
            }
            archive.add_file(&inside, metadata.permissions().mode() & 0o7777, &bytes)?;
        }
    }
    Ok(())
}

/// A guest has /bin, /sbin and /lib as links into /usr; a directory of that name would replace the
/// link.
fn guest_path(path: &str) -> String {
    match path.split('/').next() {
        Some("bin" | "sbin" | "lib" | "lib64") => format!("usr/{path}"),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(bytes: &[u8]) -> Vec<String> {
        let mut rest = bytes;
        let mut names = Vec::new();
        loop {
            let reader = cpio::newc::Reader::new(rest).unwrap();
            if reader.entry().is_trailer() {
                return names;
            }
            names.push(reader.entry().name().to_owned());
            rest = reader.finish().unwrap();
        }
    }

    #[test]
    fn all_goes_in_but_documentation_and_links_of_the_guest_stay_links() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        };
        write("sbin/mount.nfs");
        write("usr/share/doc/nfs-common/README");
        write("usr/share/nfs/conf");
        std::os::unix::fs::symlink("mount.nfs", root.path().join("sbin/mount.nfs4")).unwrap();
        let mut archive = Archive::new(Vec::new());
        add_tree(&mut archive, root.path(), "", &mut BTreeSet::new()).unwrap();
        let names = names(&archive.finish().unwrap());
        for name in [
            "usr/sbin/mount.nfs",
            "usr/sbin/mount.nfs4",
            "usr/share/nfs/conf",
        ] {
            assert!(names.iter().any(|other| other == name), "{name}: {names:?}");
        }
        assert!(
            !names
                .iter()
                .any(|name| name == "sbin" || name.contains("README")),
            "{names:?}"
        );
    }
}
