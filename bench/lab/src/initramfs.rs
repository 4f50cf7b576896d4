// SPDX-License-Identifier: GPL-2.0-only
//! Writing initramfs images.
//!
//! The kernel unpacks several cpio archives put one after the other as one image. The lab uses
//! that: the userland is an archive made once, what differs between runs (kernel modules, the weir
//! binary, config, files) is a second one, written per run. Archives are not compressed: unpacking
//! under TCG would cost more than reading.

use anyhow::{Context, Result, ensure};
use cpio::newc::{Builder, ModeFileType, trailer};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

/// A cpio archive being written.
pub struct Archive<W: Write> {
    out: Option<W>,
    directories: BTreeSet<String>,
    inode: u32,
}

impl<W: Write> Archive<W> {
    /// An empty archive.
    pub fn new(out: W) -> Archive<W> {
        Archive {
            out: Some(out),
            directories: BTreeSet::new(),
            inode: 0,
        }
    }

    /// Adds a file at an absolute guest path, with the directories above it.
    pub fn add_file(&mut self, path: &str, mode: u32, content: &[u8]) -> Result<()> {
        self.add_entry(path, ModeFileType::Regular, mode, content)
    }

    /// Adds a copy of a file of the host.
    pub fn add_copy(&mut self, path: &str, mode: u32, from: &Path) -> Result<()> {
        self.add_file(path, mode, &crate::tool::read(from)?)
    }

    /// Adds a symbolic link.
    pub fn add_link(&mut self, path: &str, target: &str) -> Result<()> {
        self.add_entry(path, ModeFileType::Symlink, 0o777, target.as_bytes())
    }

    /// Adds a directory and those above it, once.
    pub fn add_directory(&mut self, path: &str) -> Result<()> {
        let path = path.trim_matches('/');
        if path.is_empty() || !self.directories.insert(path.to_owned()) {
            return Ok(());
        }
        self.add_entry(path, ModeFileType::Directory, 0o755, &[])
    }

    fn add_entry(
        &mut self,
        path: &str,
        kind: ModeFileType,
        mode: u32,
        content: &[u8],
    ) -> Result<()> {
        let path = path.trim_matches('/');
        if let Some((above, _)) = path.rsplit_once('/') {
            self.add_directory(above)?;
        }
        let size = u32::try_from(content.len())
            .ok()
            .filter(|size| *size < u32::MAX / 2);
        ensure!(
            size.is_some(),
            "{path}: too large for an initramfs ({} bytes)",
            content.len()
        );
        self.inode += 1;
        let out = self
            .out
            .take()
            .context("the archive is closed after an error")?;
        let mut writer = Builder::new(path)
            .ino(self.inode)
            .nlink(1)
            .mode(mode)
            .set_mode_file_type(kind)
            .write(out, size.unwrap_or_default());
        writer
            .write_all(content)
            .with_context(|| format!("writing {path} into the initramfs"))?;
        self.out = Some(
            writer
                .finish()
                .with_context(|| format!("writing {path} into the initramfs"))?,
        );
        Ok(())
    }

    /// Ends the archive and returns what it was written to.
    pub fn finish(mut self) -> Result<W> {
        let out = self
            .out
            .take()
            .context("the archive is closed after an error")?;
        trailer(out).context("ending the initramfs")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_come_before_what_is_in_them_and_once() {
        let mut archive = Archive::new(Vec::new());
        archive.add_file("/usr/bin/a", 0o755, b"A").unwrap();
        archive.add_file("/usr/bin/b", 0o644, b"").unwrap();
        archive.add_link("/init", "usr/bin/a").unwrap();
        let bytes = archive.finish().unwrap();
        let mut rest = &bytes[..];
        let mut names = Vec::new();
        loop {
            let reader = cpio::newc::Reader::new(rest).unwrap();
            if reader.entry().is_trailer() {
                break;
            }
            names.push((reader.entry().name().to_owned(), reader.entry().mode()));
            rest = reader.finish().unwrap();
        }
        assert_eq!(
            names,
            [
                ("usr".to_owned(), 0o040_755),
                ("usr/bin".to_owned(), 0o040_755),
                ("usr/bin/a".to_owned(), 0o100_755),
                ("usr/bin/b".to_owned(), 0o100_644),
                ("init".to_owned(), 0o120_777),
            ]
        );
    }
}
