// SPDX-License-Identifier: GPL-2.0-only
//! What guests run besides weir: busybox, the real fio, mkfs.
//!
//! The packages are unpacked into the cache; of each program the shared libraries it needs go into
//! the image with it (see `libraries.rs`). Nothing is taken from the host. What single scripts want
//! besides is in `packages.rs`.

use crate::apt::Apt;
use crate::arch::Arch;
use crate::cache::Cache;
use crate::initramfs::Archive;
use crate::libraries;
use crate::tool::{read, run_for_output};
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::Command;

const BUSYBOX: &str = "busybox-static";

/// Debian packages whose programs guests get.
const PACKAGES: &[&str] = &[
    BUSYBOX,
    "fio",
    "e2fsprogs",
    "xfsprogs",
    "btrfs-progs",
    "dosfstools",
];

/// Their programs, by path in the packages; they keep it in the guest.
const PROGRAMS: &[&str] = &[
    "usr/bin/fio",
    "sbin/mke2fs",
    "sbin/tune2fs",
    "sbin/mkfs.xfs",
    "usr/sbin/xfs_io",
    "sbin/mkfs.btrfs",
    "bin/btrfs",
    "sbin/mkfs.fat",
];

/// Symbolic links, to their targets.
const LINKS: &[(&str, &str)] = &[
    ("bin", "usr/bin"),
    ("sbin", "usr/sbin"),
    ("lib", "usr/lib"),
    ("lib64", "usr/lib64"),
    ("usr/sbin/mkfs.ext4", "mke2fs"),
    ("usr/sbin/mkfs.vfat", "mkfs.fat"),
    // Where the kernel looks for it when it wants a module by itself.
    ("usr/sbin/modprobe", "../bin/busybox"),
    ("etc/mtab", "/proc/self/mounts"),
    ("init", "usr/bin/weir"),
];

/// The path of the userland's cpio archive, made first if necessary.
pub fn make_archive(cache: &Cache, arch: Arch) -> Result<PathBuf> {
    // Named after what is asked of it, so that another version of weir makes its own.
    let mut hasher = DefaultHasher::new();
    (PACKAGES, PROGRAMS, LINKS).hash(&mut hasher);
    let directory = cache.make_directory(
        &format!(
            "userland-{:08x}{}",
            hasher.finish() as u32,
            arch.cache_suffix()
        ),
        |into| {
            let apt = Apt::open(cache, arch)?;
            let packages = apt
                .resolve_with_libraries(PACKAGES)
                .context("finding the guest's packages")?;
            let root = into.join("root");
            apt.unpack_packages(packages.iter().map(String::as_str), &root)
                .context("the guest's packages")?;
            let applets = match arch == Arch::HERE {
                true => list_applets(&root)?,
                // That of this machine is of the same version, and can be asked.
                false => {
                    let here = into.join("here");
                    Apt::open(cache, Arch::HERE)?.unpack_packages([BUSYBOX], &here)?;
                    let applets = list_applets(&here)?;
                    fs::remove_dir_all(&here)
                        .with_context(|| format!("removing {}", here.display()))?;
                    applets
                }
            };
            write_archive(arch, &root, &applets, &into.join("userland.cpio"))?;
            fs::remove_dir_all(&root).with_context(|| format!("removing {}", root.display()))
        },
    )?;
    Ok(directory.join("userland.cpio"))
}

/// The names that busybox goes by.
fn list_applets(root: &Path) -> Result<String> {
    run_for_output(Command::new(root.join("bin/busybox")).arg("--list"))
}

fn write_archive(arch: Arch, root: &Path, applets: &str, to: &Path) -> Result<()> {
    let out = File::create(to).with_context(|| format!("{}", to.display()))?;
    let mut archive = Archive::new(BufWriter::new(out));
    for directory in [
        "usr/bin",
        "usr/sbin",
        "usr/lib64",
        &libraries::library_directory(arch),
        "proc",
        "sys",
        "dev",
        "run",
        "tmp",
        "mnt",
        "root",
    ] {
        archive.add_directory(directory)?;
    }
    for (path, target) in LINKS {
        archive.add_link(path, target)?;
    }
    archive.add_file(
        "etc/passwd",
        0o644,
        b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
    )?;
    archive.add_file("etc/group", 0o644, b"root:x:0:\nnogroup:x:65534:\n")?;
    archive.add_copy("etc/mke2fs.conf", 0o644, &root.join("etc/mke2fs.conf"))?;

    archive.add_copy("usr/bin/busybox", 0o755, &root.join("bin/busybox"))?;
    let own: BTreeSet<_> = PROGRAMS
        .iter()
        .map(|path| file_name(path))
        .chain(LINKS.iter().map(|(path, _)| file_name(path)))
        .collect();
    for applet in applets.lines() {
        if applet != "busybox" && !own.contains(applet) {
            archive.add_link(&format!("usr/bin/{applet}"), "busybox")?;
        }
    }

    let linker = arch.linker_name();
    let mut wanted = BTreeSet::from([linker.to_owned()]);
    for program in PROGRAMS {
        let bytes = read(&root.join(program))?;
        wanted.extend(
            libraries::needed_libraries(&bytes)
                .with_context(|| format!("{program}: reading its ELF headers"))?,
        );
        let path = if program.starts_with("usr/") {
            (*program).to_owned()
        } else {
            format!("usr/{program}")
        };
        archive.add_file(&path, 0o755, &bytes)?;
    }
    libraries::add(&mut archive, arch, root, wanted)?;
    archive.add_link(
        &format!("usr/{}", arch.linker_path()),
        &format!("/{}/{linker}", libraries::library_directory(arch)),
    )?;
    archive
        .finish()?
        .into_inner()
        .map_err(|error| error.into_error())
        .with_context(|| format!("{}", to.display()))?;
    Ok(())
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
