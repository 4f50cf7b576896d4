// SPDX-License-Identifier: GPL-2.0-only
//! What guests run besides weir: busybox, the real fio, mkfs.
//!
//! The packages are unpacked into the cache; of each program the shared libraries it needs go into
//! the image with it (see `libraries.rs`). Nothing is taken from the host. What single scripts want
//! besides is in `packages.rs`.

use crate::apt::Apt;
use crate::cache::Cache;
use crate::initramfs::Archive;
use crate::libraries::{self, LIBRARIES};
use crate::tool::{output, read};
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Debian packages whose programs guests get.
const PACKAGES: &[&str] = &[
    "busybox-static",
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

/// The dynamic linker's name, which programs refer to by the path under /lib64.
const LINKER: &str = "ld-linux-x86-64.so.2";

/// The path of the userland's cpio archive, made first if necessary.
pub fn archive(cache: &Cache) -> Result<PathBuf> {
    // Named after what is asked of it, so that another version of weir makes its own.
    let mut hasher = DefaultHasher::new();
    (PACKAGES, PROGRAMS, LINKS).hash(&mut hasher);
    let directory = cache.directory(
        &format!("userland-{:08x}", hasher.finish() as u32),
        |into| {
            let apt = Apt::open(cache)?;
            let packages = apt
                .with_libraries(PACKAGES)
                .context("finding the guest's packages")?;
            let root = into.join("root");
            apt.unpack(packages.iter().map(String::as_str), &root)
                .context("the guest's packages")?;
            write_archive(&root, &into.join("userland.cpio"))?;
            fs::remove_dir_all(&root).with_context(|| format!("removing {}", root.display()))
        },
    )?;
    Ok(directory.join("userland.cpio"))
}

fn write_archive(root: &Path, to: &Path) -> Result<()> {
    let out = File::create(to).with_context(|| format!("{}", to.display()))?;
    let mut archive = Archive::new(BufWriter::new(out));
    for directory in [
        "usr/bin",
        "usr/sbin",
        "usr/lib64",
        LIBRARIES,
        "proc",
        "sys",
        "dev",
        "run",
        "tmp",
        "mnt",
        "root",
    ] {
        archive.directory(directory)?;
    }
    for (path, target) in LINKS {
        archive.link(path, target)?;
    }
    archive.file(
        "etc/passwd",
        0o644,
        b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
    )?;
    archive.file("etc/group", 0o644, b"root:x:0:\nnogroup:x:65534:\n")?;
    archive.copy("etc/mke2fs.conf", 0o644, &root.join("etc/mke2fs.conf"))?;

    let busybox = root.join("bin/busybox");
    archive.copy("usr/bin/busybox", 0o755, &busybox)?;
    let own: BTreeSet<_> = PROGRAMS
        .iter()
        .map(|path| file_name(path))
        .chain(LINKS.iter().map(|(path, _)| file_name(path)))
        .collect();
    for applet in output(Command::new(&busybox).arg("--list"))?.lines() {
        if applet != "busybox" && !own.contains(applet) {
            archive.link(&format!("usr/bin/{applet}"), "busybox")?;
        }
    }

    let mut wanted = BTreeSet::from([LINKER.to_owned()]);
    for program in PROGRAMS {
        let bytes = read(&root.join(program))?;
        wanted.extend(
            libraries::needed(&bytes)
                .with_context(|| format!("{program}: reading its ELF headers"))?,
        );
        let path = if program.starts_with("usr/") {
            (*program).to_owned()
        } else {
            format!("usr/{program}")
        };
        archive.file(&path, 0o755, &bytes)?;
    }
    libraries::add(&mut archive, root, wanted)?;
    archive.link(
        &format!("usr/lib64/{LINKER}"),
        &format!("/{LIBRARIES}/{LINKER}"),
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
