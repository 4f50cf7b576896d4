// SPDX-License-Identifier: GPL-2.0-only
//! `trace.dat`, the file that `trace-cmd record` writes, versions 6 and 7, as its manual pages
//! trace-cmd.dat.v6(5) and trace-cmd.dat.v7(5) describe it.
//!
//! Version 6 is one run of formats and names, then options, then where each CPU's pages are.
//! Version 7 has the same in sections that options point to, and any section may be compressed. No
//! Rust library reads them. A file that ends too early yields what is there: it may come from a
//! machine that died. Its head has the size of that machine's pages, which its events count in.

use super::{Formats, Trace};
use crate::read::bytes::Bytes;
use anyhow::{Context, Result, bail};
use knobs::PageSize;

mod sections;

const MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// Returns whether these bytes claim to be a trace.dat.
pub fn is_dat(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// The pages of one CPU.
struct Pages<'a> {
    bytes: &'a [u8],
    /// The file says there is more.
    is_cut: bool,
}

/// Reads the whole file.
///
/// # Errors
/// It is cut before its events begin, or of a kind that is not supported.
pub fn read(bytes: &[u8]) -> Result<Trace> {
    let mut head = Bytes::new(&bytes[MAGIC.len()..], "its head");
    let version = head.take_text()?;
    if head.take_u8()? != 0 {
        bail!("it is of a big-endian machine, which is not supported");
    }
    let long = head.take_u8()?;
    if long != 8 {
        bail!("it is of a machine with {long} bytes to a long, 8 are supported");
    }
    let page = head.take_u32()? as usize;
    if !page.is_power_of_two() || !(4096..=1 << 20).contains(&page) {
        bail!("its page size is {page}: 4096 to 1048576 bytes are supported");
    }
    let mut trace = Trace::default();
    if PageSize::of_bytes(page as u64).is_none() {
        trace.damage.push(format!(
            "its page size is {page}, and no kernel's: its counts are taken for pages of 4096 bytes"
        ));
    }
    match version {
        "6" => read_version6(bytes, head, page, &mut trace)?,
        "7" => sections::read(bytes, head, page, &mut trace)?,
        other => bail!("it is a trace.dat of version {other}; 6 and 7 are supported"),
    }
    trace.clean_events();
    Ok(trace)
}

fn read_version6(file: &[u8], mut at: Bytes, page: usize, trace: &mut Trace) -> Result<()> {
    check_header(&mut at)?;
    ftrace_formats(&mut at)?;
    let formats = event_formats(&mut at, page)?;
    let symbols = at.take_u32()?;
    at.skip_bytes(symbols.into())?;
    let printk = at.take_u32()?;
    at.skip_bytes(printk.into())?;
    let names = at.take_u64()?;
    command_names(at.take_bytes(names)?, trace);
    let cpus = at.take_u32()?;
    let mut kind = at.take_bytes(10)?;
    if kind == b"options  \0" {
        loop {
            let option = at.take_u16()?;
            if option == 0 {
                break;
            }
            let size = at.take_u32()?;
            at.skip_bytes(size.into())?;
        }
        kind = at.take_bytes(10)?;
    }
    match kind {
        b"flyrecord\0" => {}
        b"latency  \0" => bail!("it holds a latency tracer's text, not events"),
        _ => bail!("unknown data section: expected `flyrecord`"),
    }
    let mut places = Vec::new();
    for _ in 0..cpus {
        places.push((at.take_u64()?, at.take_u64()?));
    }
    for (cpu, (offset, size)) in places.into_iter().enumerate() {
        decode_pages(
            &formats,
            &part_of_file(file, offset, size),
            page,
            cpu,
            trace,
        )?;
    }
    Ok(())
}

/// Part of the file, or what is left of it.
fn part_of_file(file: &[u8], offset: u64, size: u64) -> Pages<'_> {
    let start = usize::try_from(offset).map_or(file.len(), |start| start.min(file.len()));
    let wanted = usize::try_from(size).unwrap_or(usize::MAX);
    let end = start.saturating_add(wanted).min(file.len());
    Pages {
        bytes: &file[start..end],
        is_cut: end - start < wanted,
    }
}

fn decode_pages(
    formats: &Formats,
    pages: &Pages,
    page: usize,
    cpu: usize,
    trace: &mut Trace,
) -> Result<()> {
    let mut damaged = 0;
    for bytes in pages.bytes.chunks(page) {
        damaged += usize::from(!formats.decode_page(bytes, trace)?);
    }
    if pages.is_cut {
        trace
            .damage
            .push(format!("the file ends before the data of CPU {cpu} do"));
    } else if damaged > 0 {
        trace
            .damage
            .push(format!("{damaged} pages of CPU {cpu} are damaged"));
    }
    Ok(())
}

/// `header_page` and `header_event`, which say how pages are made.
fn check_header(at: &mut Bytes) -> Result<()> {
    if at.take_text()? != "header_page" {
        bail!("its description of pages is missing");
    }
    let size = at.take_u64()?;
    let page = String::from_utf8_lossy(at.take_bytes(size)?).into_owned();
    // The one thing that differs: a 32-bit kernel's pages have a shorter header.
    let commit = page.lines().find(|line| line.contains(" commit;"));
    if !commit.is_some_and(|line| line.contains("size:8;")) {
        bail!("it is of a 32-bit kernel, which is not supported");
    }
    if at.take_text()? != "header_event" {
        bail!("its description of records is missing");
    }
    let size = at.take_u64()?;
    at.skip_bytes(size)
}

fn ftrace_formats(at: &mut Bytes) -> Result<()> {
    for _ in 0..at.take_u32()? {
        let size = at.take_u64()?;
        at.skip_bytes(size)?;
    }
    Ok(())
}

fn event_formats(at: &mut Bytes, page: usize) -> Result<Formats> {
    let pages = PageSize::of_bytes(page as u64).unwrap_or_default();
    let mut formats = Formats::new(pages);
    for _ in 0..at.take_u32()? {
        at.take_text()?;
        for _ in 0..at.take_u32()? {
            let size = at.take_u64()?;
            let text = String::from_utf8_lossy(at.take_bytes(size)?);
            formats.add(&text).context("its formats cannot be read")?;
        }
    }
    Ok(formats)
}

/// Lines of a task's id and name.
fn command_names(text: &[u8], trace: &mut Trace) {
    let text = String::from_utf8_lossy(text);
    let names = text.lines().filter_map(|line| line.trim().split_once(' '));
    trace
        .names
        .extend(names.filter_map(|(id, name)| Some((id.parse().ok()?, name.to_string()))));
}
