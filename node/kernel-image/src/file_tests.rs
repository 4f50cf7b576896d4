// SPDX-License-Identifier: GPL-2.0-only
//! Files within files. Real kernels are read in `bench/weir-bench/tests/guest/oracle.rs`.

use super::*;
use std::process::Command;

const TYPES: &[u8] = b"\x9f\xeb\x01\x00 and so on";

fn filter(tool: &str, bytes: &[u8]) -> Vec<u8> {
    filter_with(tool, &[], bytes)
}

fn filter_with(tool: &str, options: &[&str], bytes: &[u8]) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, bytes).unwrap();
    let output = Command::new(tool)
        .args(options)
        .arg("-c")
        .arg(&file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{tool}");
    output.stdout
}

/// A bootable image with this payload.
fn boot_image(payload: &[u8]) -> Vec<u8> {
    let mut image = vec![0; 1024 + 512];
    image[SETUP_SECTORS] = 2;
    image[0x202..0x206].copy_from_slice(b"HdrS");
    image[VERSION..VERSION + 2].copy_from_slice(&0x100_u16.to_le_bytes());
    image[0x300..0x30b].copy_from_slice(b"6.12.9-x (b");
    image[PAYLOAD_OFFSET..PAYLOAD_OFFSET + 4].copy_from_slice(&7_u32.to_le_bytes());
    let len = payload.len() as u32;
    image[PAYLOAD_LEN..PAYLOAD_LEN + 4].copy_from_slice(&len.to_le_bytes());
    image.extend([0; 7]);
    image.extend(payload);
    image.extend(b"behind it");
    image
}

fn package(files: &[(&str, &[u8])]) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let control = "Package: linux-image-x\nVersion: 1\nArchitecture: all\n\
                   Maintainer: x <x@example.org>\nDescription: x\n";
    for (path, bytes) in [("DEBIAN/control", control.as_bytes())].iter().chain(files) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    let to = dir.path().join("x.deb");
    let output = Command::new("dpkg-deb")
        .arg("-b")
        .arg(&root)
        .arg(&to)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    std::fs::read(to).unwrap()
}

fn open(bytes: &[u8]) -> Result<KernelFile> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    KernelFile::open(file.path())
}

#[test]
fn btf_is_found_however_it_is_packed() {
    let image = |tool: &str| {
        let mut payload = match tool {
            "lz4" => filter_with("lz4", &["-l"], TYPES),
            tool => filter(tool, TYPES),
        };
        if tool != "gzip" {
            payload.extend((TYPES.len() as u32).to_le_bytes());
        }
        boot_image(&payload)
    };
    let kernel = image("zstd");
    let packed = package(&[
        ("boot/config-6.12.9-x", b"x"),
        ("boot/vmlinuz-6.12.9-x", &kernel),
    ]);
    for (bytes, release) in [
        (TYPES.to_vec(), None),
        (filter("gzip", TYPES), None),
        (filter("xz", TYPES), None),
        (image("gzip"), Some("6.12.9-x")),
        (image("xz"), Some("6.12.9-x")),
        (image("lz4"), Some("6.12.9-x")),
        (kernel, Some("6.12.9-x")),
        (packed, Some("6.12.9-x")),
    ] {
        let file = open(&bytes).expect("read");
        assert_eq!(file.btf.as_deref(), Some(TYPES));
        assert_eq!(file.release.as_deref(), release);
        assert!(file.image.is_none());
    }
}

#[test]
fn btf_is_found_in_an_image_without_headers() {
    let header = |types: u32, strings: u32, strings_len: u32| {
        let numbers = [0x0001_eb9f, 24, 0, types, strings, strings_len];
        numbers.map(u32::to_le_bytes).concat()
    };
    let mut image = vec![0; 0x38];
    image.extend(b"ARM\x64");
    image.extend(b"Linux version 6.12.9-x (b");
    // Its strings do not follow its types.
    image.extend(header(8, 12, 4));
    image.extend([7; 40]);
    let types = [header(8, 8, 4), vec![1; 8], b"\0ab\0".to_vec()].concat();
    image.extend(&types);
    image.extend([7; 40]);
    for bytes in [image.clone(), filter("gzip", &image)] {
        let file = open(&bytes).expect("read");
        assert_eq!(file.btf.as_deref(), Some(&types[..]));
        assert_eq!(file.release.as_deref(), Some("6.12.9-x"));
        let image = file.image.expect("an image");
        assert!(image.symbols.is_none() && image.has_ftrace_site("any").is_none());
    }
    let cut = open(&image[..image.len() - 50]).expect("read");
    assert!(cut.btf.is_none(), "its end is missing");
}

/// The address that an arm64 kernel is linked to in these tests.
const LINKED_AT: u64 = 0xffff_8000_8000_0000;

/// An image whose table of two sites is at 64: addresses in place, or in entries by which the kernel
/// relocates itself.
fn arm64_image(in_place: bool) -> Vec<u8> {
    let sites = [LINKED_AT + 0x100, LINKED_AT + 0x200];
    let mut image = vec![0; 0x400];
    if in_place {
        for (i, site) in sites.iter().enumerate() {
            image[64 + 8 * i..72 + 8 * i].copy_from_slice(&site.to_le_bytes());
        }
        return image;
    }
    for (i, site) in sites.iter().enumerate() {
        let entry = [LINKED_AT + 64 + 8 * i as u64, 0x403, *site];
        image.extend(entry.iter().flat_map(|word| word.to_le_bytes()));
    }
    // That of another pointer, and one of another kind.
    for entry in [
        [LINKED_AT + 0x80, 0x403, LINKED_AT + 0x300],
        [LINKED_AT + 72, 0x401, LINKED_AT + 0x380],
    ] {
        image.extend(entry.iter().flat_map(|word| word.to_le_bytes()));
    }
    image
}

#[test]
fn sites_of_arm64_are_found_in_place_and_in_relocations() {
    let symbols: BTreeMap<String, Option<u64>> = [
        ("__start_mcount_loc", 64),
        ("__stop_mcount_loc", 80),
        ("plain", 0x100),
        ("with_two_before", 0x208),
        ("neither", 0x300),
    ]
    .map(|(name, at)| (name.to_owned(), Some(at)))
    .into();
    for in_place in [true, false] {
        let bytes = arm64_image(in_place);
        assert_eq!(linked_at(&bytes), Some(LINKED_AT));
        let sites = relocated_sites(&bytes, &symbols, LINKED_AT);
        assert_eq!(sites.as_deref(), Some(&[0x100, 0x200][..]), "{in_place}");
        let image = Image {
            symbols: Some(symbols.clone()),
            sites,
            bytes,
        };
        for (function, has_one) in [
            ("plain", true),
            ("with_two_before", true),
            ("neither", false),
        ] {
            assert_eq!(image.has_ftrace_site(function), Some(has_one), "{function}");
        }
    }
}

#[test]
fn what_is_no_kernel_is_refused_with_words() {
    let why = |bytes: &[u8]| format!("{:#}", open(bytes).expect_err("refused"));
    assert!(why(b"GIF89a").contains("neither a vmlinux, a vmlinuz"));
    assert!(why(&package(&[("usr/share/doc/x", b"x")])).contains("a package without a kernel"));
    assert!(why(&boot_image(TYPES)[..1100]).contains("its header does not fit its length"));
    assert!(why(b"\x7fELF and nothing else").contains("its ELF headers"));
    for tool in ["gzip", "xz", "zstd"] {
        let cut = &filter(tool, TYPES)[..18];
        assert!(why(cut).contains(&format!("{tool}: ")), "{}", why(cut));
    }
    let placeholder =
        b"ffffffffffffffff B The real System.map is in the linux-image-x-dbg package\n";
    assert!(why(placeholder).contains("a placeholder, as Debian ships it"));
    assert!(why(b"ffffffff81000000 T _text\n").contains("a placeholder"));
    let often = (0..5).fold(TYPES.to_vec(), |bytes, _| filter("gzip", &bytes));
    assert!(why(&often).contains("compressed more than 4 times over"));
    let error = KernelFile::open(Path::new("/"))
        .expect_err("refused")
        .to_string();
    assert_eq!(error, "/: a directory; name the kernel in it");
}

/// As rpmbuild of Debian 12 made them of a kernel in miniature, `vmlinuz` and `config` below
/// `/lib/modules/6.12.9-x`, with `_binary_payload` w19.zstdio and w9.xzdio.
#[test]
fn a_kernel_is_found_in_rpm_packages() {
    for package in [
        include_bytes!("../data/kernel-core-zstd.rpm").as_slice(),
        include_bytes!("../data/kernel-core-xz.rpm"),
    ] {
        let file = open(package).expect("read");
        assert_eq!(file.btf.as_deref(), Some(TYPES));
        assert_eq!(file.release.as_deref(), Some("6.12.9-x"));
        assert!(
            file.config
                .expect("a configuration")
                .has_option("CONFIG_MEMCG")
        );
        for len in [100, 300, 2000, package.len() - 600] {
            open(&package[..len]).expect_err("cut off");
        }
    }
}

/// Fedora's for arm64: `drivers/firmware/efi/libstub/zboot-header.S`.
#[test]
fn an_image_that_unpacks_itself_under_efi_is_unpacked() {
    let payload = filter("gzip", TYPES);
    let mut image = b"MZ\0\0zimg".to_vec();
    image.extend(64_u32.to_le_bytes());
    image.extend((payload.len() as u32).to_le_bytes());
    image.resize(64, 0);
    image.extend(&payload);
    image.extend(b"behind it");
    assert_eq!(open(&image).expect("read").btf.as_deref(), Some(TYPES));
    let why = format!("{:#}", open(&image[..70]).expect_err("refused"));
    assert!(why.contains("its header does not fit its length"), "{why}");
}

/// Files of these names and texts.
fn together(files: &[(&str, &[u8])]) -> Result<KernelFile> {
    let dir = tempfile::tempdir().unwrap();
    let paths = files.iter().map(|(name, bytes)| {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    });
    KernelFile::open_all(&paths.collect::<Vec<_>>())
}

const CONFIG: &[u8] = b"#\n# Automatically generated file; DO NOT EDIT.\n\
    # Linux/x86 6.12.9 Kernel Configuration\n#\nCONFIG_MEMCG=y\nCONFIG_XFS_FS=m\n\
    # CONFIG_KPROBES is not set\nCONFIG_HZ=250\n";

#[test]
fn files_of_one_kernel_are_read_together() {
    let lines = (0..1000).map(|i| format!("ffffffff8100{i:04x} T function_{i}\n"));
    let map: String = lines.collect();
    let files: &[(&str, &[u8])] = &[
        ("vmlinux", TYPES),
        ("config-6.12.9-x", CONFIG),
        ("System.map-6.12.9-x", map.as_bytes()),
    ];
    let file = together(files).expect("read");
    assert_eq!(file.release.as_deref(), Some("6.12.9-x"));
    assert_eq!(file.btf.as_deref(), Some(TYPES));
    let symbols: Vec<&str> = file.symbol_names().expect("symbols").collect();
    assert!(symbols.len() == 1000 && symbols.contains(&"function_999"));
    let config = file.config.expect("a configuration");
    let has = |option| config.has_option(option);
    assert!(has("CONFIG_MEMCG") && has("CONFIG_XFS_FS"));
    assert!(!has("CONFIG_KPROBES") && !has("CONFIG_HZ"));
    // Of the text alone, the version without what the distribution appends.
    let file = together(&[("x", CONFIG), ("y", TYPES)]).expect("read");
    assert_eq!(file.release.as_deref(), Some("6.12.9"));
    let other = [("config-6.12.9-x", CONFIG), ("config-6.1.0-y", CONFIG)];
    let why = format!("{:#}", together(&other).expect_err("refused"));
    assert!(
        why.ends_with("config-6.1.0-y: of Linux 6.1.0-y, and the file before it is of 6.12.9-x"),
        "{why}"
    );
}

#[test]
fn a_package_of_headers_has_configuration_and_types() {
    let elf_of_types = b"\x7fELF";
    assert!(open(&package(&[("usr/src/x/vmlinux", elf_of_types)])).is_err());
    let map: String = (0..1000)
        .map(|i| format!("ffffffff81000000 T f{i}\n"))
        .collect();
    let file = open(&package(&[
        ("usr/src/linux-headers-x/.config", CONFIG),
        ("usr/src/linux-headers-x/System.map", map.as_bytes()),
    ]));
    let file = file.expect("read");
    assert!(file.btf.is_none() && file.image.is_none());
    assert_eq!(file.symbol_names().expect("symbols").count(), 1000);
    assert!(file.config.is_some());
}
