// SPDX-License-Identifier: GPL-2.0-only
//! What distributions' packages hold of a kernel.
//!
//! A Debian package is an `ar` archive with a compressed `tar` in it. An RPM package is a lead of 96
//! bytes, two headers of the same form, and a compressed `cpio`; nothing in the headers is needed
//! but their length:
//!
//! ```text
//! magic     8e ad e8 01, and four bytes that are reserved
//! entries   u32, big-endian: of 16 bytes each
//! data      u32, big-endian: bytes behind the entries; the first header is filled up to 8 bytes
//! ```

use crate::packed::open_reader;
use anyhow::{Context, Result, bail};
use object::read::archive::ArchiveFile;
use std::io::{ErrorKind, Read};

/// The first bytes of a Debian package.
pub(crate) const DEB: &[u8] = b"!<arch>\n";
/// The first bytes of an RPM package.
pub(crate) const RPM: &[u8] = b"\xed\xab\xee\xdb";
const RPM_LEAD: usize = 96;
const RPM_HEADER: &[u8] = b"\x8e\xad\xe8\x01";

/// Files of a kernel, as they are in a package.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub kernel: Option<Vec<u8>>,
    pub config: Option<Vec<u8>>,
    pub map: Option<Vec<u8>>,
}

impl Found {
    /// The field for a file of this name, unless another has been found before.
    fn field_for(&mut self, name: &str) -> Option<&mut Option<Vec<u8>>> {
        let is = |stem: &str| {
            let rest = name.strip_prefix(stem);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        let place = if ["vmlinuz", "vmlinux", "Image"].into_iter().any(is) {
            &mut self.kernel
        } else if is("config") || name == ".config" {
            &mut self.config
        } else if is("System.map") {
            &mut self.map
        } else {
            return None;
        };
        place.is_none().then_some(place)
    }

    /// Keeps the file if it is of use.
    fn keep_file(&mut self, path: &str, file: &mut impl Read) -> Result<()> {
        let name = path.rsplit('/').next().unwrap_or(path);
        if let Some(place) = self.field_for(name) {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)
                .with_context(|| path.to_owned())?;
            *place = Some(bytes);
        }
        Ok(())
    }

    /// Nothing behind the kernel is of use: an image has what the other two have. In packages of
    /// headers, `vmlinux` holds types alone, and the configuration may follow.
    fn is_complete(&self) -> bool {
        let has_image = |kernel: &Vec<u8>| !kernel.starts_with(b"\x7fELF");
        self.kernel.as_ref().is_some_and(has_image)
            || (self.kernel.is_some() && self.config.is_some() && self.map.is_some())
    }
}

/// The kernel's files in a Debian package.
pub(crate) fn of_deb(bytes: &[u8]) -> Result<Found> {
    let archive = ArchiveFile::parse(bytes).context("its ar archive")?;
    for member in archive.members() {
        let member = member.context("its ar archive")?;
        if member.name().starts_with(b"data.tar") {
            let data = member.data(bytes).context("its ar archive")?;
            return of_tar(open_reader(data)?);
        }
    }
    bail!("an ar archive without data.tar: not a Debian package")
}

fn of_tar(tar: impl Read) -> Result<Found> {
    let mut found = Found::default();
    let mut archive = tar::Archive::new(tar);
    for entry in archive.entries().context("its tar archive")? {
        let mut entry = match entry {
            Err(why) if why.kind() == ErrorKind::UnexpectedEof => break,
            entry => entry.context("its tar archive")?,
        };
        if entry.header().entry_type().is_file() {
            let path = entry.path().context("its tar archive")?.into_owned();
            found.keep_file(&path.to_string_lossy(), &mut entry)?;
        }
        if found.is_complete() {
            break;
        }
    }
    Ok(found)
}

/// The kernel's files in an RPM package.
pub(crate) fn of_rpm(bytes: &[u8]) -> Result<Found> {
    let payload = rpm_payload(bytes).context("its headers do not fit its length")?;
    let mut found = Found::default();
    let mut rest = open_reader(payload)?;
    loop {
        let mut file = cpio::NewcReader::new(rest).context("its cpio archive")?;
        if file.entry().is_trailer() {
            break;
        }
        // The type of a file, as in a mode of stat(2).
        let is_file = file.entry().mode() & 0o170_000 == 0o100_000;
        let path = file.entry().name().to_owned();
        if is_file {
            found.keep_file(&path, &mut file)?;
        }
        if found.is_complete() {
            break;
        }
        rest = file.finish().context("its cpio archive")?;
    }
    Ok(found)
}

fn rpm_payload(bytes: &[u8]) -> Option<&[u8]> {
    let signature = rpm_header_len(bytes.get(RPM_LEAD..)?)?;
    let header = RPM_LEAD + signature.next_multiple_of(8);
    bytes.get(header + rpm_header_len(bytes.get(header..)?)?..)
}

fn rpm_header_len(header: &[u8]) -> Option<usize> {
    let number = |at: usize| {
        let bytes = header.get(at..at + 4)?.try_into().ok()?;
        usize::try_from(u32::from_be_bytes(bytes)).ok()
    };
    let len = 16 + number(8)?.checked_mul(16)?.checked_add(number(12)?)?;
    header.starts_with(RPM_HEADER).then_some(len)
}
