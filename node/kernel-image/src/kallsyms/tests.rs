// SPDX-License-Identifier: GPL-2.0-only
//! A table as the kernel's build makes it, with both places of the offsets. Real images are read in
//! `bench/weir-bench/tests/guest/oracle.rs`.

use super::*;

const BASE: u64 = 0xffff_ffff_8100_0000;
const NAMES: usize = 1_500;

fn pad(image: &mut Vec<u8>) {
    image.resize(image.len().next_multiple_of(8), 0);
}

/// Where the offsets are, and what they are relative to.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Offsets {
    First { absolute_percpu: bool },
    Last { absolute_percpu: bool },
    ToThemselves,
}
use Offsets::*;

/// A `_text` at the base, then functions 16 bytes apart. Token 1 is `fun`.
fn image(form: Offsets) -> Vec<u8> {
    let (before, percpu) = match form {
        First { absolute_percpu } => (true, absolute_percpu),
        Last { absolute_percpu } => (false, absolute_percpu),
        ToThemselves => (false, false),
    };
    let mut names: Vec<Vec<u8>> = vec![b"T_text".to_vec()];
    names.extend((1..NAMES).map(|i| [&b"t\x01"[..], i.to_string().as_bytes()].concat()));
    // A name of more than 127 tokens.
    names[300].extend([b'x'; 200]);
    let mut offsets = Vec::new();
    for i in 0..NAMES as u32 {
        let offset = if percpu { !(i * 16) } else { i * 16 };
        offsets.extend(offset.to_le_bytes());
    }
    let mut image = b"something before\xff".to_vec();
    pad(&mut image);
    let append = |image: &mut Vec<u8>| {
        image.extend(&offsets);
        pad(image);
        image.extend(BASE.to_le_bytes());
    };
    if before {
        append(&mut image);
    }
    image.extend((NAMES as u32).to_le_bytes());
    if form != ToThemselves {
        pad(&mut image);
    }
    let (begin, mut markers) = (image.len(), Vec::new());
    for (i, name) in names.iter().enumerate() {
        if i % STEP == 0 {
            markers.extend(((image.len() - begin) as u32).to_le_bytes());
        }
        match name.len() {
            len @ ..128 => image.push(len as u8),
            len => image.extend([(len & 0x7f | 0x80) as u8, (len >> 7) as u8]),
        }
        image.extend(name);
    }
    pad(&mut image);
    image.extend(&markers);
    pad(&mut image);
    image.extend([0xee; 8]);
    let (begin, mut index) = (image.len(), Vec::new());
    for token in 0..=255_u8 {
        index.extend(((image.len() - begin) as u16).to_le_bytes());
        match token {
            1 => image.extend(b"fun"),
            0 | 2..b'0' => image.extend(b"ab"),
            _ => image.push(token),
        }
        image.push(0);
    }
    pad(&mut image);
    image.extend(&index);
    pad(&mut image);
    if form == ToThemselves {
        let begin = image.len() as u32;
        for i in 0..NAMES as u32 {
            image.extend((i * 16).wrapping_sub(begin + i * 4).to_le_bytes());
        }
    } else if !before {
        append(&mut image);
    }
    image
}

fn whole(image: &[u8]) -> Vec<Segment> {
    vec![Segment {
        offset: 0,
        address: BASE,
        len: image.len(),
    }]
}

#[test]
fn names_and_addresses_are_found_in_all_forms() {
    for form in [
        First {
            absolute_percpu: true,
        },
        First {
            absolute_percpu: false,
        },
        Last {
            absolute_percpu: true,
        },
        Last {
            absolute_percpu: false,
        },
        ToThemselves,
    ] {
        let image = image(form);
        let found = find_symbols(&image, &whole(&image)).expect("found");
        assert_eq!(found.len(), NAMES);
        assert_eq!(found["_text"], Some(BASE), "{form:?}");
        assert_eq!(found["fun1499"], Some(BASE + 1499 * 16), "{form:?}");
        let long = format!("fun300{}", "x".repeat(200));
        assert_eq!(found[&long], Some(BASE + 300 * 16));
    }
}

/// As in a kernel without BTF, which has little before its names.
#[test]
fn zeros_before_the_names_are_no_offsets() {
    let zeros = vec![0; (4 * NAMES + 8).next_multiple_of(4096)];
    let table = image(Last {
        absolute_percpu: true,
    });
    // Without what is before them there.
    let image = [&zeros, &table[24..]].concat();
    let percpu = Segment {
        offset: 0,
        address: 0,
        len: 8,
    };
    let segments: Vec<Segment> = [percpu].into_iter().chain(whole(&image)).collect();
    let found = find_symbols(&image, &segments).expect("found");
    assert_eq!(found["fun1"], Some(BASE + 16));
}

#[test]
fn what_does_not_fit_is_not_found() {
    let image = image(Last {
        absolute_percpu: true,
    });
    let found = find_symbols(&image, &[]).expect("names");
    assert!(found.values().all(Option::is_none));
    let begin = 24 + 8;
    for at in [begin, image.len() - 8 - 6_000 - 512] {
        let mut broken = image.clone();
        broken[at] ^= 1;
        assert!(
            find_symbols(&broken, &whole(&broken)).is_none(),
            "byte {at} changed"
        );
    }
    for len in (0..image.len()).step_by(97) {
        let found = find_symbols(&image[..len], &whole(&image));
        assert!(
            found.is_none_or(|found| found.len() == NAMES),
            "{len} bytes"
        );
    }
    assert!(find_symbols(&[0; 4096], &[]).is_none());
}
