// SPDX-License-Identifier: GPL-2.0-only
//! The shared libraries that a guest's programs need, found by reading ELF headers.
//!
//! Of the unpacked packages exactly those go into the image. A library that is in no package is an
//! error here and not in the guest.

use crate::arch::Arch;
use crate::initramfs::Archive;
use crate::tool::read;
use anyhow::{Context, Result};
use object::read::elf::{Dyn, ElfFile64, FileHeader};
use object::{Endianness, elf};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The directory of all shared libraries in the guest: the first place Debian's dynamic linker
/// looks.
pub fn library_directory(arch: Arch) -> String {
    format!("usr/lib/{}", arch.gnu_triplet())
}

/// Adds the libraries `wanted` and all they need in turn, from the packages unpacked at `root`.
pub fn add<W: Write>(
    archive: &mut Archive<W>,
    arch: Arch,
    root: &Path,
    mut wanted: BTreeSet<String>,
) -> Result<()> {
    let files = index_libraries(root)?;
    let directory = library_directory(arch);
    let mut done = BTreeSet::new();
    while let Some(name) = wanted.pop_first() {
        if !done.insert(name.clone()) {
            continue;
        }
        let path = files.get(&name).with_context(|| {
            format!("the shared library {name} is in none of the downloaded packages")
        })?;
        let bytes = read(path)?;
        wanted.extend(
            needed_libraries(&bytes).with_context(|| format!("{name}: reading its ELF headers"))?,
        );
        archive.add_file(&format!("{directory}/{name}"), 0o755, &bytes)?;
    }
    Ok(())
}

/// Every file and link below `root` whose name looks like a shared library's.
fn index_libraries(root: &Path) -> Result<BTreeMap<String, PathBuf>> {
    let mut found = BTreeMap::new();
    let mut directories = vec![root.to_path_buf()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).with_context(|| format!("{}", directory.display()))? {
            let entry = entry.with_context(|| format!("{}", directory.display()))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.file_type()?.is_dir() {
                directories.push(entry.path());
            } else if name.contains(".so") && entry.path().is_file() {
                // Links into the guest's own absolute paths dangle here, hence is_file().
                found.insert(name, entry.path());
            }
        }
    }
    Ok(found)
}

/// The `DT_NEEDED` names of an ELF file.
pub fn needed_libraries(bytes: &[u8]) -> Result<Vec<String>> {
    let file = ElfFile64::<Endianness>::parse(bytes)?;
    let endian = file.endian();
    let sections = file.elf_header().sections(endian, bytes)?;
    let Some((entries, strings)) = sections.dynamic(endian, bytes)? else {
        return Ok(Vec::new());
    };
    let strings = sections.strings(endian, bytes, strings)?;
    entries
        .iter()
        .filter(|entry| entry.tag32(endian) == Some(elf::DT_NEEDED))
        .map(|entry| Ok(String::from_utf8_lossy(entry.string(endian, strings)?).into_owned()))
        .collect()
}
