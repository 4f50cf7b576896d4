// SPDX-License-Identifier: GPL-2.0-only
//! trace.dat in both versions, made here byte by byte, whole and cut at every place.

use observe::event::What;
use observe::trace::Trace;
use proptest::prelude::*;
use std::io::Write;

const PAGE: usize = 4096;
const HEADER_PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n";

fn format() -> String {
    let mut text = "name: global_dirty_state\nID: 9\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
        .to_string();
    for (at, name) in [
        "nr_dirty",
        "nr_writeback",
        "background_thresh",
        "dirty_thresh",
    ]
    .iter()
    .enumerate()
    {
        text += &format!(
            "\tfield:unsigned long {name};\toffset:{};\tsize:8;\tsigned:0;\n",
            8 + 8 * at
        );
    }
    text
}

/// A page with one record of each of these values of `nr_dirty`.
fn page(values: &[u64]) -> Vec<u8> {
    let mut data = Vec::new();
    for value in values {
        data.extend(((1_000u32 << 5) | 10).to_le_bytes());
        data.extend([9, 0, 0, 0, 42, 0, 0, 0]);
        for number in [*value, 2, 3, 4] {
            data.extend(number.to_le_bytes());
        }
    }
    let mut page = 5_000u64.to_le_bytes().to_vec();
    page.extend((data.len() as u64).to_le_bytes());
    page.extend(data);
    page.resize(PAGE, 0);
    page
}

fn sized(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

fn head(version: &str) -> Vec<u8> {
    let mut file = b"\x17\x08\x44tracing".to_vec();
    file.extend(version.as_bytes());
    file.extend([0, 0, 8]);
    file.extend((PAGE as u32).to_le_bytes());
    file
}

fn header_info() -> Vec<u8> {
    [
        &b"header_page\0"[..],
        &sized(HEADER_PAGE),
        b"header_event\0",
        &sized("x"),
    ]
    .concat()
}

fn event_formats() -> Vec<u8> {
    [
        &1u32.to_le_bytes()[..],
        b"writeback\0",
        &1u32.to_le_bytes(),
        &sized(&format()),
    ]
    .concat()
}

fn version6(cpus: &[Vec<u8>]) -> Vec<u8> {
    let mut file = head("6");
    file.extend(header_info());
    file.extend(0u32.to_le_bytes());
    file.extend(event_formats());
    file.extend(0u32.to_le_bytes());
    file.extend(0u32.to_le_bytes());
    file.extend(sized("42 fio\n"));
    file.extend((cpus.len() as u32).to_le_bytes());
    file.extend(b"options  \0");
    file.extend([5, 0, 3, 0, 0, 0, 1, 2, 3, 0, 0]);
    file.extend(b"flyrecord\0");
    let mut at = (file.len() + 16 * cpus.len()).next_multiple_of(PAGE);
    for cpu in cpus {
        file.extend((at as u64).to_le_bytes());
        file.extend((cpu.len() as u64).to_le_bytes());
        at += cpu.len();
    }
    file.resize(file.len().next_multiple_of(PAGE), 0);
    for cpu in cpus {
        file.extend(cpu);
    }
    file
}

fn section(id: u16, data: &[u8], is_packed: bool) -> Vec<u8> {
    let data = if is_packed { pack(data) } else { data.to_vec() };
    let mut section = id.to_le_bytes().to_vec();
    section.extend(u16::from(is_packed).to_le_bytes());
    section.extend(0u32.to_le_bytes());
    section.extend((data.len() as u64).to_le_bytes());
    section.extend(data);
    section
}

/// With the sizes, packed and not, before it.
fn pack(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(data).expect("packed");
    let packed = encoder.finish().expect("packed");
    [
        &(packed.len() as u32).to_le_bytes()[..],
        &(data.len() as u32).to_le_bytes(),
        &packed,
    ]
    .concat()
}

fn version7(cpu: &[u8], is_packed: bool) -> Vec<u8> {
    let mut file = head("7");
    file.extend(if is_packed {
        &b"zlib\x001\0"[..]
    } else {
        b"none\x001\0"
    });
    let options_at = file.len();
    file.extend([0; 8]);
    let mut places = Vec::new();
    for (id, data) in [
        (16, header_info()),
        (18, event_formats()),
        (21, sized("42 fio\n")),
    ] {
        places.push((id, file.len() as u64));
        file.extend(section(id, &data, is_packed));
    }
    let buffer = file.len() as u64;
    file.extend(section(3, &[], false));
    if is_packed {
        // the buffer's section says so, its data come in chunks
        let flags = buffer as usize + 2;
        file[flags] = 1;
    }
    file.resize(file.len().next_multiple_of(PAGE), 0);
    let data_at = file.len() as u64;
    let data = if is_packed {
        [&1u32.to_le_bytes()[..], &pack(cpu)].concat()
    } else {
        cpu.to_vec()
    };
    file.extend(&data);
    let mut options = Vec::new();
    for (id, at) in places {
        options.extend(
            [
                &u16::to_le_bytes(id)[..],
                &8u32.to_le_bytes(),
                &at.to_le_bytes(),
            ]
            .concat(),
        );
    }
    let mut list = [
        &buffer.to_le_bytes()[..],
        b"\0local\0",
        &(PAGE as u32).to_le_bytes(),
        &1u32.to_le_bytes(),
    ]
    .concat();
    list.extend(
        [
            &0u32.to_le_bytes()[..],
            &data_at.to_le_bytes(),
            &(data.len() as u64).to_le_bytes(),
        ]
        .concat(),
    );
    options.extend(
        [
            &3u16.to_le_bytes()[..],
            &(list.len() as u32).to_le_bytes(),
            &list,
        ]
        .concat(),
    );
    options.extend(
        [
            &0u16.to_le_bytes()[..],
            &8u32.to_le_bytes(),
            &0u64.to_le_bytes(),
        ]
        .concat(),
    );
    let at = (file.len() as u64).to_le_bytes();
    file[options_at..options_at + 8].copy_from_slice(&at);
    file.extend(section(0, &options, is_packed));
    file
}

fn dirty(trace: &Trace) -> Vec<u64> {
    let values = trace.events.iter().map(|event| match &event.what {
        What::Limits(limits) => limits.dirty,
        other => panic!("{other:?}"),
    });
    values.collect()
}

/// Its head has the size of the pages that events count in.
#[test]
fn counts_are_of_the_pages_of_the_machine_it_is_of() {
    for (bytes, factor, complaints) in [
        (4096, 1, 0),
        (16_384, 4, 0),
        (65_536, 16, 0),
        (32_768, 1, 1),
    ] {
        let mut file = version6(&[page(&[10])]);
        let at = head("6").len() - 4;
        file[at..at + 4].copy_from_slice(&u32::to_le_bytes(bytes));
        let trace = Trace::read(&file).expect("read");
        assert_eq!(dirty(&trace), [10 * factor], "pages of {bytes} bytes");
        assert_eq!(trace.damage.len(), complaints, "{:?}", trace.damage);
    }
}

#[test]
fn both_versions_are_read() {
    for file in [
        version6(&[page(&[7, 8])]),
        version7(&page(&[7, 8]), false),
        version7(&page(&[7, 8]), true),
    ] {
        let trace = Trace::read(&file).expect("read");
        assert_eq!(dirty(&trace), [7, 8]);
        assert_eq!((trace.events[0].ns, trace.events[0].task), (6_000, 42));
        assert_eq!(trace.names[&42], "fio");
        assert_eq!(trace.damage, Vec::<String>::new());
    }
}

#[test]
fn what_is_cut_is_refused_or_used_as_far_as_it_goes() {
    let file = version6(&[page(&[7]), page(&[8])]);
    let trace = Trace::read(&file[..file.len() - PAGE]).expect("read");
    assert_eq!(dirty(&trace), [7]);
    assert_eq!(trace.damage, ["the file ends before the data of CPU 1 do"]);
    let error = format!("{:#}", Trace::read(&file[..200]).expect_err("refused"));
    assert!(error.contains("it is cut"), "{error}");
    let file = version7(&page(&[7]), true);
    for end in 0..file.len() {
        let _ = Trace::read(&file[..end]);
    }
}

#[test]
fn other_machines_and_versions_are_named() {
    let changed = |at: usize, byte: u8| {
        let mut file = version6(&[page(&[7])]);
        file[at] = byte;
        format!("{:#}", Trace::read(&file).expect_err("refused"))
    };
    assert!(changed(10, b'5').contains("version 5; 6 and 7 are supported"));
    assert!(changed(12, 1).contains("big-endian"));
    assert!(changed(13, 4).contains("4 bytes to a long"));
    assert!(changed(14, 1).contains("page size is 4097"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn no_damage_is_too_strange(at in 10usize..1300, byte: u8, packed: bool, six: bool) {
        let mut file = if six { version6(&[page(&[7, 8])]) } else { version7(&page(&[7, 8]), packed) };
        let at = at % file.len();
        file[at] = byte;
        let _ = Trace::read(&file);
    }
}
