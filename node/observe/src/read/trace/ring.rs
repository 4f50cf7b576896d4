// SPDX-License-Identifier: GPL-2.0-only
//! Pages of the kernel's ring buffer, as `trace_pipe_raw` hands them out and trace.dat keeps them.
//!
//! A page begins with the time of its first record (8 bytes) and its length (8 bytes; bit 31 set if
//! records were lost before it, bit 30 if their number follows the data). Then records, each with a
//! header of 4 bytes: 5 bits of type or length, 27 bits of time since the record before. Length
//! 1..28 counts words of 4 bytes; 0 says that the length is in the next word; 29 is padding, 30
//! carries the upper bits of a longer time step, 31 those of an absolute time. Example:
//! `0x00000c86` is 6 words of data, 0xc86 >> 5 = 100 ns after its predecessor.

/// A record and its time.
pub struct Raw<'a> {
    /// On the trace's clock.
    pub ns: u64,
    /// Begins with the event's id.
    pub bytes: &'a [u8],
}

/// Losses and damage of one ring-buffer page.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PageOutcome {
    /// Records lost before the page, as far as it says.
    pub lost: u64,
    /// `true` if the page is not what the kernel writes from some point on.
    pub damaged: bool,
}

const HEADER: usize = 16;
const LOST: u64 = 1 << 31;
const LOST_COUNTED: u64 = 1 << 30;
const LENGTH: u64 = LOST_COUNTED - 1;

/// Hands every record of a page to `each`.
pub fn read_page<'a>(page: &'a [u8], each: &mut dyn FnMut(Raw<'a>)) -> PageOutcome {
    let damaged = PageOutcome {
        lost: 0,
        damaged: true,
    };
    let (Some(mut ns), Some(commit)) = (read_u64(page, 0), read_u64(page, 8)) else {
        return damaged;
    };
    let Some(data) = usize::try_from(commit & LENGTH)
        .ok()
        .and_then(|length| page.get(HEADER..HEADER + length))
    else {
        return damaged;
    };
    let lost = match commit & (LOST | LOST_COUNTED) {
        0 => 0,
        LOST => 1,
        _ => read_u64(page, HEADER + data.len()).unwrap_or(1).max(1),
    };
    let mut at = 0;
    while at < data.len() {
        match read_record(data, at, &mut ns) {
            Some((bytes, next)) => {
                if let Some(bytes) = bytes {
                    each(Raw { ns, bytes });
                }
                at = next;
            }
            None => {
                return PageOutcome {
                    lost,
                    damaged: true,
                };
            }
        }
    }
    PageOutcome {
        lost,
        damaged: false,
    }
}

/// The data of the record at `at`, if it has any, and where the next one begins.
fn read_record<'a>(data: &'a [u8], at: usize, ns: &mut u64) -> Option<(Option<&'a [u8]>, usize)> {
    let header = read_u32(data, at)?;
    let (kind, step) = (header & 31, u64::from(header >> 5));
    let extended = || Some((u64::from(read_u32(data, at + 4)?) << 27) | step);
    let data_at = match kind {
        29 if step == 0 => return Some((None, data.len())),
        29 => {
            *ns = ns.wrapping_add(step);
            let length = read_u32(data, at + 4)? as usize;
            return Some((None, at.checked_add(4)?.checked_add(length.max(4))?));
        }
        30 => {
            *ns = ns.wrapping_add(extended()?);
            return Some((None, at + 8));
        }
        31 => {
            // 59 bits; what is above them has not changed.
            *ns = *ns & !((1 << 59) - 1) | extended()?;
            return Some((None, at + 8));
        }
        0 => {
            let length = read_u32(data, at + 4)? as usize;
            at + 8..at.checked_add(4)?.checked_add(length)?
        }
        words => at + 4..at + 4 + 4 * words as usize,
    };
    *ns = ns.wrapping_add(step);
    // Records begin at multiples of 4.
    let next = data_at.end.checked_next_multiple_of(4)?;
    Some((Some(data.get(data_at)?), next))
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(
        bytes.get(at..at.checked_add(4)?)?.try_into().ok()?,
    ))
}

fn read_u64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(
        bytes.get(at..at.checked_add(8)?)?.try_into().ok()?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn made(commit: u64, words: &[u32]) -> Vec<u8> {
        let mut page = 1_000u64.to_le_bytes().to_vec();
        page.extend(commit.to_le_bytes());
        page.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        page
    }

    fn read(bytes: &[u8]) -> (Vec<(u64, Vec<u8>)>, PageOutcome) {
        let mut records = Vec::new();
        let read = read_page(bytes, &mut |raw| records.push((raw.ns, raw.bytes.to_vec())));
        (records, read)
    }

    #[test]
    fn records_of_every_kind() {
        let words = [
            (100 << 5) | 1,
            7, // a word of data, 100 ns later
            30 | (5 << 5),
            1, // 2^27 + 5 ns pass
            2 << 5,
            8,
            9, // 4 bytes of data, their length said apart
            29 | (1 << 5),
            4, // a discarded record of a word
            (1 << 5) | 1,
            11,
            29, // the rest is padding
        ];
        let (records, how) = read(&made(words.len() as u64 * 4, &words));
        let later = 1_105 + (1 << 27);
        assert_eq!(
            records,
            [
                (1_100, 7u32.to_le_bytes().to_vec()),
                (later + 2, 9u32.to_le_bytes().to_vec()),
                (later + 4, 11u32.to_le_bytes().to_vec())
            ]
        );
        assert_eq!(how, PageOutcome::default());
    }

    #[test]
    fn losses_are_said() {
        let words = [1, 7, 3, 0];
        assert_eq!(read(&made(8 | LOST, &words)).1.lost, 1);
        assert_eq!(read(&made(8 | LOST | LOST_COUNTED, &words)).1.lost, 3);
    }

    #[test]
    fn a_page_cut_short_is_damaged() {
        assert!(read(&[0; 15]).1.damaged);
        assert!(read(&made(80, &[1, 7])).1.damaged);
        let (records, how) = read(&made(12, &[1, 7, 2]));
        assert_eq!((records.len(), how.damaged), (1, true));
    }

    proptest! {
        #[test]
        fn no_page_is_too_strange(commit in 0u64..600, bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let mut strange = 5u64.to_le_bytes().to_vec();
            strange.extend(commit.to_le_bytes());
            strange.extend(bytes);
            read(&strange);
        }
    }
}
