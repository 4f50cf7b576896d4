// SPDX-License-Identifier: GPL-2.0-only
//! The names and addresses of a kernel's functions, read from its image.
//!
//! Distributions strip the ELF symbols off the images they ship, and Debian's `System.map` is a
//! placeholder. What `/proc/kallsyms` prints is in the image all the same, compressed by the build
//! (`scripts/kallsyms.c` in the kernel's sources):
//!
//! ```text
//! count    u32   how many symbols
//! names    for each its length (one byte, or two from 128 on), then as many token numbers
//! markers  u32   where in `names` each 256th symbol begins
//! tokens         256 strings, each with its NUL; what a symbol's tokens expand to is its type,
//!                a letter, and its name
//! index    u16   where in `tokens` each one begins
//! offsets  i32   for each symbol, relative to the base, or to where the offset itself is
//! base     u64
//! ```
//!
//! Offsets and base come before the count up to 6.8, after the index since 6.9; 7.3 has no base, and
//! aligns to 4 bytes what was aligned to 8. Nothing says where a part is, but parts check each
//! other: an index that fits tokens, markers that fit names. What does not fit is not found, never
//! guessed.

use std::collections::BTreeMap;

/// Characters that identifiers are made of are tokens of themselves, the digits in a row.
const DIGITS: &[u8] = b"0\x001\x002\x003\x004\x005\x006\x007\x008\x009\x00";
const TOKENS: usize = 256;
/// Symbols between two markers.
const STEP: usize = 256;
/// Parts are aligned to one of these, in bytes.
const ALIGNED: [usize; 2] = [4, 8];
/// Kernels have some 100,000 to 200,000 symbols.
const COUNTS: std::ops::Range<u32> = 1_000..4_000_000;

/// Symbols by name; their addresses, if those were found too.
pub(crate) type Symbols = BTreeMap<String, Option<u64>>;

/// A part of the image as it is loaded.
pub(crate) struct Segment {
    /// Its begin in the file.
    pub offset: usize,
    /// Its begin in memory.
    pub address: u64,
    /// Its bytes in the file.
    pub len: usize,
}

/// The symbols in the image; `None` if nothing fits, as in a kernel without CONFIG_KALLSYMS.
pub(crate) fn find_symbols(image: &[u8], segments: &[Segment]) -> Option<Symbols> {
    let mut places = memchr::memmem::find_iter(image, DIGITS);
    let tokens = places.find_map(|digits| Tokens::around_digits(image, digits))?;
    read(image, &tokens, segments)
}

struct Tokens<'a> {
    texts: Vec<&'a [u8]>,
    begin: usize,
    /// Offset behind the index.
    end: usize,
}

impl Tokens<'_> {
    /// The tokens that have the digits' at `digits`, if an index confirms them.
    fn around_digits(image: &[u8], digits: usize) -> Option<Tokens<'_>> {
        let mut second = digits;
        for _ in 1..b'0' {
            let before = image.get(..second.checked_sub(1)?)?;
            second = before.iter().rposition(|byte| *byte == 0)? + 1;
        }
        // What lies before the first need not end with a NUL.
        let last = second.checked_sub(1)? / 4;
        (last.saturating_sub(16)..=last)
            .rev()
            .find_map(|word| Tokens::tokens_at(image, word * 4))
    }

    fn tokens_at(image: &[u8], begin: usize) -> Option<Tokens<'_>> {
        let (mut texts, mut starts, mut at) = (Vec::new(), Vec::new(), begin);
        for _ in 0..TOKENS {
            let len = image.get(at..)?.iter().position(|byte| *byte == 0)?;
            starts.push(u16::try_from(at - begin).ok()?);
            texts.push(&image[at..at + len]);
            at += len + 1;
        }
        let fits =
            |index: &usize| (0..TOKENS).all(|i| u16_at(image, index + 2 * i) == Some(starts[i]));
        let index = ALIGNED
            .map(|aligned| at.next_multiple_of(aligned))
            .into_iter()
            .find(fits)?;
        Some(Tokens {
            texts,
            begin,
            end: index + 2 * TOKENS,
        })
    }
}

fn read(image: &[u8], tokens: &Tokens, segments: &[Segment]) -> Option<Symbols> {
    let names = (0..tokens.begin / 4)
        .rev()
        .find_map(|word| Names::names_at(image, word * 4, tokens.begin))?;
    let texts: Vec<String> = names
        .records
        .iter()
        .map(|(at, len)| {
            let bytes = image[*at..at + len].iter();
            let text: Vec<u8> = bytes
                .flat_map(|token| tokens.texts[usize::from(*token)])
                .skip(1)
                .copied()
                .collect();
            String::from_utf8_lossy(&text).into_owned()
        })
        .collect();
    // The symbol at which kernels begin; what it is at tells which form offsets have.
    let text = texts.iter().position(|text| text == "_text");
    let forms = possible_forms(&names, tokens.end).into_iter();
    let addresses = text.and_then(|text| {
        forms
            .filter_map(|form| form.read_addresses(image, names.records.len(), segments))
            .find(|all| segments.iter().any(|segment| segment.address == all[text]))
    });
    let address = |i: usize| addresses.as_ref().map(|all| all[i]);
    Some(
        texts
            .into_iter()
            .enumerate()
            .map(|(i, text)| (text, address(i)))
            .collect(),
    )
}

/// The places of offsets, and their base: the number at `base`, or their own places.
struct Form {
    offsets: usize,
    base: Option<usize>,
}

fn possible_forms(names: &Names, end: usize) -> Vec<Form> {
    let len = 4 * names.records.len();
    let room = len.next_multiple_of(8);
    let before = names.count.checked_sub(8 + room).map(|offsets| Form {
        offsets,
        base: Some(offsets + room),
    });
    let after = end.next_multiple_of(8);
    let after = Form {
        offsets: after,
        base: Some(after + room),
    };
    let alone = Form {
        offsets: end.next_multiple_of(4),
        base: None,
    };
    before.into_iter().chain([after, alone]).collect()
}

impl Form {
    fn read_addresses(&self, image: &[u8], count: usize, segments: &[Segment]) -> Option<Vec<u64>> {
        // Zeros where no base is would make sense of zeros: x86's per-CPU data has a segment at 0.
        let base = match self.base {
            Some(at) => Some(u64_at(image, at).filter(|base| *base != 0)?),
            None => None,
        };
        let places = (0..count).map(|i| self.offsets + 4 * i);
        places
            .map(|at| {
                let offset = u32_at(image, at)?;
                Some(match base {
                    Some(base) => from_base(base, offset),
                    None => address_of(segments, at)?.wrapping_add_signed(i64::from(offset as i32)),
                })
            })
            .collect()
    }
}

/// The address in memory of a byte of the file.
fn address_of(segments: &[Segment], at: usize) -> Option<u64> {
    let segment = segments
        .iter()
        .find(|segment| (segment.offset..segment.offset + segment.len).contains(&at))?;
    Some(segment.address + (at - segment.offset) as u64)
}

/// With CONFIG_KALLSYMS_ABSOLUTE_PERCPU all but per-CPU variables have negative offsets.
fn from_base(base: u64, offset: u32) -> u64 {
    match offset as i32 {
        negative if negative < 0 => base.wrapping_add(u64::from(!offset)),
        _ => base.wrapping_add(u64::from(offset)),
    }
}

struct Names {
    /// The place of their count.
    count: usize,
    /// The place of each one's tokens, and their number.
    records: Vec<(usize, usize)>,
}

impl Names {
    /// The names that follow a count at `at`, if markers confirm them.
    fn names_at(image: &[u8], at: usize, end: usize) -> Option<Names> {
        let count = u32_at(image, at).filter(|count| COUNTS.contains(count))?;
        ALIGNED
            .map(|aligned| (at + 4).next_multiple_of(aligned))
            .into_iter()
            .find_map(|begin| Names::from(image, at, count as usize, begin, end))
    }

    fn from(image: &[u8], place: usize, count: usize, begin: usize, end: usize) -> Option<Names> {
        let (mut records, mut markers, mut at) = (Vec::new(), Vec::new(), begin);
        for i in 0..count {
            if i % STEP == 0 {
                markers.push(u32::try_from(at - begin).ok()?);
            }
            let mut len = usize::from(*image.get(at)?);
            at += 1;
            if len & 0x80 != 0 {
                len = len & 0x7f | (usize::from(*image.get(at)?) << 7);
                at += 1;
            }
            if len == 0 || at + len > end {
                return None;
            }
            records.push((at, len));
            at += len;
        }
        let fits = |at: usize| {
            let mut all = markers.iter().enumerate();
            all.all(|(i, marker)| u32_at(image, at + 4 * i) == Some(*marker))
        };
        ALIGNED
            .iter()
            .any(|aligned| fits(at.next_multiple_of(*aligned)))
            .then_some(Names {
                count: place,
                records,
            })
    }
}

fn bytes_at<const N: usize>(image: &[u8], at: usize) -> Option<[u8; N]> {
    image.get(at..at + N)?.try_into().ok()
}

fn u16_at(image: &[u8], at: usize) -> Option<u16> {
    bytes_at(image, at).map(u16::from_le_bytes)
}

fn u32_at(image: &[u8], at: usize) -> Option<u32> {
    bytes_at(image, at).map(u32::from_le_bytes)
}

/// A little-endian number.
pub(crate) fn u64_at(image: &[u8], at: usize) -> Option<u64> {
    bytes_at(image, at).map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests;
