// SPDX-License-Identifier: GPL-2.0-only
//! A kernel's own loadable modules: which go into a guest, and in what order they load.
//!
//! Distribution packages come without `modules.dep` (the host's depmod makes it at installation),
//! so dependencies are read from each module's `.modinfo`, as depmod does. Files are decompressed
//! here, because a guest's busybox cannot, and would be slow at it.

use crate::cache::Cache;
use crate::initramfs::Archive;
use crate::tool::read;
use anyhow::{Context, Result};
use kernel_image::unpacked_module;
use object::{Object, ObjectSection};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Modules a guest may want: its disks, filesystems and what those look up by alias at run time,
/// and devices that scripts like to have. What a kernel has built in, or not at all, is left out.
const WANTED: &[&str] = &[
    "virtio_pci",
    "virtio_blk",
    "ext4",
    "xfs",
    "btrfs",
    "vfat",
    "fuse",
    "nls_ascii",
    "nls_cp437",
    "nls_iso8859_1",
    "nls_utf8",
    "crc32c_generic",
    "crc32c_intel",
    "libcrc32c",
    "xxhash_generic",
    "blake2b_generic",
    "sha256_generic",
    "loop",
    "null_blk",
    "brd",
    "dm_mod",
    "overlay",
];

/// Modules that are loaded before anything else, if they are modules in this kernel.
pub const FIRST: &[&str] = &["virtio_pci", "virtio_blk", "crc32c_generic"];

/// The modules of one kernel, as files of the host.
pub struct KernelModules {
    /// Module name (with `_`) to its possibly compressed file.
    files: BTreeMap<String, PathBuf>,
    /// Names of modules that are part of the image.
    builtin: BTreeSet<String>,
    release: String,
}

impl KernelModules {
    /// Looks through `lib/modules/<release>`.
    pub fn find(directory: &Path, release: &str) -> Result<KernelModules> {
        let mut files = BTreeMap::new();
        let mut directories = vec![directory.join("kernel")];
        while let Some(directory) = directories.pop() {
            for entry in
                fs::read_dir(&directory).with_context(|| format!("{}", directory.display()))?
            {
                let entry = entry.with_context(|| format!("{}", directory.display()))?;
                if entry.file_type()?.is_dir() {
                    directories.push(entry.path());
                } else if let Some((name, _)) =
                    entry.file_name().to_string_lossy().split_once(".ko")
                {
                    files.insert(name.replace('-', "_"), entry.path());
                }
            }
        }
        let list = directory.join("modules.builtin");
        let list = match list.exists() {
            true => read(&list)?,
            // A tree made by hand need not have it.
            false => Vec::new(),
        };
        let builtin = String::from_utf8_lossy(&list)
            .lines()
            .filter_map(|line| line.rsplit('/').next()?.strip_suffix(".ko"))
            .map(|name| name.replace('-', "_"))
            .collect();
        Ok(KernelModules {
            files,
            builtin,
            release: release.to_owned(),
        })
    }

    /// Is this a module here (and not built in, or missing)?
    pub fn has_module(&self, name: &str) -> bool {
        self.files.contains_key(name)
    }

    /// The path of a cpio archive with the wanted modules and `more`, made first if necessary: most
    /// are compressed, and each guest wants them.
    pub fn make_archive(&self, cache: &Cache, more: &[String]) -> Result<PathBuf> {
        let more: BTreeSet<&String> = more.iter().collect();
        let mut hasher = DefaultHasher::new();
        (WANTED, "softdep", &more, &self.release).hash(&mut hasher);
        // A kernel of one's own may be built again under its old name.
        for path in self.files.values() {
            let metadata = fs::metadata(path).with_context(|| format!("{}", path.display()))?;
            (path, metadata.len(), metadata.modified()?).hash(&mut hasher);
        }
        let directory =
            cache.make_directory(&format!("drivers-{:08x}", hasher.finish() as u32), |into| {
                let path = into.join("drivers.cpio");
                let out = File::create(&path).with_context(|| format!("{}", path.display()))?;
                let mut archive = Archive::new(BufWriter::new(out));
                self.add_modules_to(&mut archive, &more)?;
                archive
                    .finish()?
                    .flush()
                    .with_context(|| format!("{}", path.display()))
            })?;
        Ok(directory.join("drivers.cpio"))
    }

    /// Puts them, all they depend on and the index files of modprobe into an image.
    fn add_modules_to<W: Write>(
        &self,
        archive: &mut Archive<W>,
        more: &BTreeSet<&String>,
    ) -> Result<()> {
        let directory = format!("usr/lib/modules/{}", self.release);
        let mut infos = BTreeMap::new();
        let mut wanted: BTreeSet<String> = WANTED
            .iter()
            .filter(|name| self.has_module(name))
            .map(|name| (*name).to_owned())
            .collect();
        for name in more.iter().map(|name| name.replace('-', "_")) {
            if !self.builtin.contains(&name) {
                wanted.insert(name);
            }
        }
        while let Some(name) = wanted.pop_first() {
            if infos.contains_key(&name) {
                continue;
            }
            let path = self
                .files
                .get(&name)
                .with_context(|| format!("the kernel {} has no module {name}", self.release))?;
            let bytes = unpacked_module(path)?;
            let mut info =
                Info::from_module(&bytes).with_context(|| format!("{}", path.display()))?;
            // xts asks the crypto API for ecb as it is used, which `depends` does not say.
            let before = info.before.drain(..).filter(|name| self.has_module(name));
            info.depends.extend(before);
            archive.add_file(&format!("{directory}/{name}.ko"), 0o644, &bytes)?;
            wanted.extend(info.depends.iter().cloned());
            infos.insert(name, info);
        }
        let (mut dep, mut alias) = (String::new(), String::new());
        for (name, info) in &infos {
            // modprobe wants all dependencies, the nearest first; it loads them from the end.
            let names: Vec<_> = dependencies_nearest_first(name, &infos)
                .iter()
                .map(|name| format!("{name}.ko"))
                .collect();
            dep += &format!("{name}.ko: {}\n", names.join(" "));
            for other in &info.aliases {
                alias += &format!("alias {other} {name}\n");
            }
        }
        archive.add_file(&format!("{directory}/modules.dep"), 0o644, dep.as_bytes())?;
        archive.add_file(
            &format!("{directory}/modules.alias"),
            0o644,
            alias.as_bytes(),
        )?;
        archive.add_file(&format!("{directory}/modules.symbols"), 0o644, b"")
    }
}

/// A module's words about itself.
#[derive(Debug, Default, PartialEq)]
struct Info {
    depends: Vec<String>,
    /// Names that `softdep` wants loaded first: modules, or names that are an alias or built in.
    before: Vec<String>,
    aliases: Vec<String>,
}

impl Info {
    fn from_module(module: &[u8]) -> Result<Info> {
        let file = object::File::parse(module).context("not a kernel module")?;
        let section = file
            .section_by_name(".modinfo")
            .context("no .modinfo section")?;
        Ok(Info::parse(section.data()?))
    }

    /// `.modinfo` is a list of `key=value` strings, each ended by a zero byte.
    fn parse(modinfo: &[u8]) -> Info {
        let mut info = Info::default();
        for entry in modinfo.split(|byte| *byte == 0) {
            match String::from_utf8_lossy(entry).split_once('=') {
                Some(("depends", names)) => {
                    info.depends = names
                        .split(',')
                        .filter(|name| !name.is_empty())
                        .map(|name| name.replace('-', "_"))
                        .collect();
                }
                Some(("softdep", words)) => {
                    let before = words.split("post:").next().unwrap_or(words);
                    let names = before.split_whitespace().filter(|word| *word != "pre:");
                    info.before.extend(names.map(|name| name.replace('-', "_")));
                }
                Some(("alias", name)) => info.aliases.push(name.to_owned()),
                _ => {}
            }
        }
        info
    }
}

/// Everything `name` depends on, such that each comes before what it depends on itself.
fn dependencies_nearest_first(name: &str, infos: &BTreeMap<String, Info>) -> Vec<String> {
    fn visit_dependencies(
        name: &str,
        infos: &BTreeMap<String, Info>,
        seen: &mut BTreeSet<String>,
        order: &mut Vec<String>,
    ) {
        for other in infos
            .get(name)
            .map(|info| info.depends.as_slice())
            .unwrap_or_default()
        {
            if seen.insert(other.clone()) {
                visit_dependencies(other, infos, seen, order);
                order.push(other.clone());
            }
        }
    }
    let mut order = Vec::new();
    visit_dependencies(name, infos, &mut BTreeSet::new(), &mut order);
    order.reverse();
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(depends: &[&str]) -> Info {
        Info {
            depends: depends.iter().map(|name| (*name).to_owned()).collect(),
            ..Info::default()
        }
    }

    #[test]
    fn modinfo_is_read() {
        let parsed = Info::parse(b"license=GPL\0depends=raid6_pq,lib-crc32c\0softdep=pre: crc32c pre: blake2b-256 post: dm-mod\0alias=fs-btrfs\0\0alias=devname:btrfs-control\0");
        assert_eq!(parsed.depends, ["raid6_pq", "lib_crc32c"]);
        assert_eq!(parsed.before, ["crc32c", "blake2b_256"]);
        assert_eq!(parsed.aliases, ["fs-btrfs", "devname:btrfs-control"]);
    }

    #[test]
    fn dependencies_are_complete_and_ordered() {
        let infos = BTreeMap::from([
            ("a".to_owned(), info(&["b", "c"])),
            ("b".to_owned(), info(&["c"])),
            ("c".to_owned(), info(&["d"])),
            ("d".to_owned(), info(&[])),
        ]);
        assert_eq!(dependencies_nearest_first("a", &infos), ["b", "c", "d"]);
    }
}
