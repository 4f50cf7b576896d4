// SPDX-License-Identifier: GPL-2.0-only
//! Version 7 of trace.dat: a chain of options that say where the sections are, and sections that
//! may be compressed, those with pages in chunks.

use super::{
    Bytes, Pages, Trace, check_header, command_names, decode_pages, event_formats, part_of_file,
};
use crate::model::text::format_size;
use crate::read::file::LARGEST;
use anyhow::{Context, Result, bail};
use std::borrow::Cow;
use std::io::Read;

// Ids of options; those of the sections they point to are the same.
const DONE: u16 = 0;
const BUFFER: u16 = 3;
const HEADER_INFO: u16 = 16;
const EVENT_FORMATS: u16 = 18;
const COMMAND_LINES: u16 = 21;
const BUFFER_TEXT: u16 = 22;

#[derive(Default)]
struct Places<'a> {
    header: Option<u64>,
    formats: Option<u64>,
    names: Option<u64>,
    buffers: Vec<&'a [u8]>,
    has_text: bool,
}

struct File<'a> {
    bytes: &'a [u8],
    compression: &'a str,
}

/// Reads what follows the common head.
pub(super) fn read<'a>(
    file: &'a [u8],
    mut at: Bytes<'a>,
    page: usize,
    trace: &mut Trace,
) -> Result<()> {
    let compression = at.take_text()?;
    at.take_text()?;
    let file = File {
        bytes: file,
        compression,
    };
    let mut places = Places::default();
    let mut next = at.take_u64()?;
    let mut options = Vec::new();
    while next != 0 {
        if options.len() > 1000 {
            bail!("its sections of options form a loop");
        }
        options.push(file.read_section(next)?);
        next = next_section(options.last().context("its list of sections is empty")?)?;
    }
    for section in &options {
        collect_places(section, &mut places)?;
    }
    let section = |place: Option<u64>, what: &str| {
        file.read_section(place.with_context(|| format!("it has no {what}"))?)
    };
    check_header(&mut Bytes::new(
        &section(places.header, "description of pages")?,
        "the description of pages",
    ))?;
    let formats = section(places.formats, "event formats")?;
    let formats = event_formats(&mut Bytes::new(&formats, "the event formats"), page)?;
    if let Some(names) = places.names {
        let names = file.read_section(names)?;
        let mut at = Bytes::new(&names, "the tasks' names");
        let size = at.take_u64()?;
        command_names(at.take_bytes(size)?, trace);
    }
    if places.buffers.is_empty() {
        bail!(if places.has_text {
            "it holds a latency tracer's text, not events"
        } else {
            "it has no events"
        });
    }
    for buffer in places.buffers {
        let mut at = Bytes::new(buffer, "the list of its buffers");
        let start = at.take_u64()?;
        let (_name, _clock) = (at.take_text()?, at.take_text()?);
        at.skip_bytes(4)?;
        for _ in 0..at.take_u32()? {
            let (cpu, offset, size) = (at.take_u32()? as usize, at.take_u64()?, at.take_u64()?);
            if size == 0 {
                continue;
            }
            if file.is_compressed(start)? {
                let (bytes, is_cut) = file.read_chunks(offset)?;
                let whole = Pages {
                    bytes: &bytes,
                    is_cut,
                };
                decode_pages(&formats, &whole, page, cpu, trace)?;
            } else {
                decode_pages(
                    &formats,
                    &part_of_file(file.bytes, offset, size),
                    page,
                    cpu,
                    trace,
                )?;
            }
        }
    }
    Ok(())
}

/// Offset of the next section of options, 0 if this is the last.
fn next_section(section: &[u8]) -> Result<u64> {
    let mut at = Bytes::new(section, "its options");
    loop {
        let (option, size) = (at.take_u16()?, at.take_u32()?);
        let data = at.take_bytes(size.into())?;
        if option == DONE {
            return Bytes::new(data, "its options").take_u64();
        }
    }
}

fn collect_places<'a>(section: &'a [u8], places: &mut Places<'a>) -> Result<()> {
    let mut at = Bytes::new(section, "its options");
    loop {
        let (option, size) = (at.take_u16()?, at.take_u32()?);
        let data = at.take_bytes(size.into())?;
        let place = || Bytes::new(data, "its options").take_u64();
        match option {
            DONE => return Ok(()),
            BUFFER => places.buffers.push(data),
            HEADER_INFO => places.header = Some(place()?),
            EVENT_FORMATS => places.formats = Some(place()?),
            COMMAND_LINES => places.names = Some(place()?),
            BUFFER_TEXT => places.has_text = true,
            _ => {}
        }
    }
}

impl<'a> File<'a> {
    /// Begins after a section's header; with it whether it is compressed and how long it is.
    fn open(&self, offset: u64) -> Result<(Bytes<'a>, bool, u64)> {
        let rest = usize::try_from(offset)
            .ok()
            .and_then(|offset| self.bytes.get(offset..));
        let mut at = Bytes::new(
            rest.context("it is cut: a section lies behind its end")?,
            "a section",
        );
        at.skip_bytes(2)?;
        let flags = at.take_u16()?;
        at.skip_bytes(4)?;
        let size = at.take_u64()?;
        Ok((at, flags & 1 != 0, size))
    }

    fn is_compressed(&self, offset: u64) -> Result<bool> {
        Ok(self.open(offset)?.1)
    }

    /// A whole section, uncompressed.
    fn read_section(&self, offset: u64) -> Result<Cow<'a, [u8]>> {
        let (mut at, compressed, size) = self.open(offset)?;
        if !compressed {
            return Ok(at.take_bytes(size)?.into());
        }
        let (packed, plain) = (at.take_u32()?, at.take_u32()?);
        Ok(self
            .unpack_bytes(at.take_bytes(packed.into())?, plain.into())?
            .into())
    }

    /// A CPU's pages, and whether some are missing. Their chunks begin at `offset` with their
    /// number; the size that the file gives is not theirs.
    fn read_chunks(&self, offset: u64) -> Result<(Vec<u8>, bool)> {
        let rest = part_of_file(self.bytes, offset, u64::MAX);
        let mut at = Bytes::new(rest.bytes, "a CPU's data");
        let mut all = Vec::new();
        let Ok(count) = at.take_u32() else {
            return Ok((all, true));
        };
        for _ in 0..count {
            let chunk = (|| {
                let (packed, plain) = (at.take_u32()?, at.take_u32()?);
                anyhow::Ok((at.take_bytes(packed.into())?, plain))
            })();
            let Ok((packed, plain)) = chunk else {
                return Ok((all, true));
            };
            check_size(all.len() as u64 + u64::from(plain))?;
            all.extend(self.unpack_bytes(packed, plain.into())?);
        }
        Ok((all, false))
    }

    fn unpack_bytes(&self, packed: &[u8], plain: u64) -> Result<Vec<u8>> {
        check_size(plain)?;
        let mut all = Vec::new();
        // One byte more than promised would show that the promise is false.
        let mut read = |from: &mut dyn Read| {
            from.take(plain + 1)
                .read_to_end(&mut all)
                .context("its compressed data are damaged")
        };
        match self.compression {
            "zstd" => {
                let decoder = ruzstd::decoding::StreamingDecoder::new(packed);
                read(
                    &mut decoder
                        .map_err(|why| anyhow::anyhow!("its compressed data are damaged: {why}"))?,
                )?
            }
            "zlib" => read(&mut flate2::read::ZlibDecoder::new(packed))?,
            other => bail!("it is compressed with {other}; zstd and zlib are supported"),
        };
        if all.len() as u64 > plain {
            bail!("its compressed data are damaged: they are longer than they say");
        }
        Ok(all)
    }
}

/// Refuses what is not held in memory.
fn check_size(plain: u64) -> Result<()> {
    if plain > LARGEST {
        bail!(
            "it is larger than {} unpacked: cut it with `trace-cmd split`",
            format_size(LARGEST)
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_claims_to_become_too_much_is_not_unpacked() {
        let chunks = |plain: u32| {
            let numbers = [1, 2, plain].map(u32::to_le_bytes);
            let bytes = [numbers.as_flattened(), b"??"].concat();
            let compression = "zlib";
            let file = File {
                bytes: &bytes,
                compression,
            };
            file.read_chunks(0).expect_err("refused").to_string()
        };
        assert!(chunks(1 << 31).contains("are damaged"));
        assert!(chunks((1 << 31) + 1).contains("larger than 2.0 GiB unpacked: cut it"));
    }
}
