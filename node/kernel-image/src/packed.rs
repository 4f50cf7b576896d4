// SPDX-License-Identifier: GPL-2.0-only
//! Compressed data, told by its first bytes.

use anyhow::{Context, Result};
use std::io::Read;
use std::path::Path;

/// First bytes of compressed data, by format.
const MAGICS: &[(&[u8], Format)] = &[
    (b"\x1f\x8b\x08", Format::Gzip),
    (b"\xfd7zXZ\0", Format::Xz),
    (b"\x28\xb5\x2f\xfd", Format::Zstd),
    (b"\x02\x21\x4c\x18", Format::Lz4),
];

/// A format that kernels, modules and packages come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Gzip,
    Xz,
    Zstd,
    /// The legacy format, which `lz4 -l` writes.
    Lz4,
}

impl Format {
    /// The format of these bytes; `None` if they are not compressed.
    pub(crate) fn detect(bytes: &[u8]) -> Option<Format> {
        let (_, format) = MAGICS.iter().find(|(magic, _)| bytes.starts_with(magic))?;
        Some(*format)
    }

    fn name(self) -> &'static str {
        match self {
            Format::Gzip => "gzip",
            Format::Xz => "xz",
            Format::Zstd => "zstd",
            Format::Lz4 => "lz4",
        }
    }

    /// All that the bytes hold.
    pub(crate) fn unpack(self, bytes: &[u8]) -> Result<Vec<u8>> {
        let mut unpacked = Vec::new();
        open_reader(bytes)
            .and_then(|mut reader| Ok(reader.read_to_end(&mut unpacked)?))
            .with_context(|| format!("{}: damaged, or cut off", self.name()))?;
        Ok(unpacked)
    }
}

/// Reads bytes that may be compressed.
pub(crate) fn open_reader(bytes: &[u8]) -> Result<Box<dyn Read + '_>> {
    Ok(match Format::detect(bytes) {
        None => Box::new(bytes),
        Some(Format::Gzip) => Box::new(flate2::read::GzDecoder::new(bytes)),
        Some(Format::Xz) => Box::new(lzma_rust2::XzReader::new(bytes, false)),
        Some(Format::Zstd) => {
            let decoder = ruzstd::decoding::StreamingDecoder::new(bytes);
            Box::new(decoder.context("zstd: its first frame")?)
        }
        Some(Format::Lz4) => Box::new(lz4_flex::frame::FrameDecoder::new(bytes)),
    })
}

/// The bytes of a module's file, unpacked if it is compressed.
pub fn unpacked_module(path: &Path) -> Result<Vec<u8>> {
    let shown = || path.display().to_string();
    let bytes = std::fs::read(path).with_context(shown)?;
    match Format::detect(&bytes) {
        Some(format) => format.unpack(&bytes).with_context(shown),
        None => Ok(bytes),
    }
}
