// SPDX-License-Identifier: GPL-2.0-only
//! What a kernel in a file says of itself, without booting it: its BTF, and with an image its
//! functions and where ftrace can hook.
//!
//! A file is one inside another: a package holds an archive, that a bootable image, and that a
//! compressed ELF file (`Documentation/arch/x86/boot.rst` in the kernel's sources), or on arm64 the
//! kernel as it lies in memory (`arch/arm64/booting.rst`). The first bytes say which. An image
//! tells more than the configuration and `System.map` beside it, and BTF alone less: there these
//! two are asked.

use crate::archive::{self, Found};
use crate::config::Config;
use crate::kallsyms::{self, Segment, Symbols, u64_at};
use crate::packed::Format;
use crate::system_map;
use anyhow::{Context, Result, bail};
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol};
use std::collections::BTreeMap;
use std::path::Path;

const ELF: &[u8] = b"\x7fELF";
const BTF: &[u8] = b"\x9f\xeb";
/// x86's boot protocol: where its fields are.
const BOOT_MAGIC: (usize, &[u8]) = (0x202, b"HdrS");
const SETUP_SECTORS: usize = 0x1f1;
const VERSION: usize = 0x20e;
const PAYLOAD_OFFSET: usize = 0x248;
const PAYLOAD_LEN: usize = 0x24c;
/// An image that unpacks itself under EFI, arm64's in Fedora: magic, where its payload begins, and
/// how long it is (`drivers/firmware/efi/libstub/zboot-header.S`).
const ZBOOT_MAGIC: (usize, &[u8]) = (4, b"zimg");
const ZBOOT_OFFSET: usize = 8;
const ZBOOT_LEN: usize = 12;
/// The place at which an image of arm64 says that it is one, and the words.
const ARM64_MAGIC: (usize, &[u8]) = (0x38, b"ARM\x64");
/// A file in a file in a file, and one more.
const MOST_DEEP: u32 = 4;

/// A kernel as a file shows it.
#[derive(Debug, Default)]
pub struct KernelFile {
    /// The release, as `uname -r` prints it, if the file tells.
    pub release: Option<String>,
    /// Its BTF, as in `/sys/kernel/btf/vmlinux`.
    pub btf: Option<Vec<u8>>,
    /// Its image, unpacked; `None` if the file is BTF alone.
    pub image: Option<Image>,
    /// Its configuration, if the file or one beside it tells.
    pub config: Option<Config>,
    /// Its `System.map`, if there is one.
    map: Option<Symbols>,
}

/// An unpacked kernel.
#[derive(Debug)]
pub struct Image {
    bytes: Vec<u8>,
    symbols: Option<Symbols>,
    /// Addresses that ftrace can hook, in order.
    sites: Option<Vec<u64>>,
}

impl KernelFile {
    /// Reads a vmlinux, a bootable image, a Debian or RPM package with one of them, or BTF alone;
    /// compressed or not.
    pub fn open(path: &Path) -> Result<KernelFile> {
        KernelFile::open_all(&[path])
    }

    /// Reads files of one kernel, such as its BTF, `config-RELEASE` and `System.map`.
    pub fn open_all<P: AsRef<Path>>(paths: &[P]) -> Result<KernelFile> {
        let mut whole = KernelFile::default();
        for path in paths.iter().map(AsRef::as_ref) {
            if path.is_dir() {
                bail!("{}: a directory; name the kernel in it", path.display());
            }
            let shown = || path.display().to_string();
            let bytes = std::fs::read(path).with_context(|| format!("reading {}", shown()))?;
            let mut file = unpack_kernel(bytes, None, MOST_DEEP).with_context(shown)?;
            file.release = release_in_name(path).or(file.release);
            whole.join_file(file).with_context(shown)?;
        }
        Ok(whole)
    }

    /// The names that `/proc/kallsyms` has; `None` if they cannot be told.
    pub fn symbol_names(&self) -> Option<impl Iterator<Item = &str>> {
        let of_image = self.image.as_ref().and_then(|image| image.symbols.as_ref());
        let symbols = of_image.or(self.map.as_ref())?;
        Some(symbols.keys().map(String::as_str))
    }

    /// Adds what another file tells of the same kernel.
    fn join_file(&mut self, other: KernelFile) -> Result<()> {
        if let (Some(one), Some(another)) = (&self.release, &other.release) {
            // A configuration has the version alone, without what the distribution appends.
            if !one.starts_with(another.as_str()) && !another.starts_with(one.as_str()) {
                bail!("of Linux {another}, and the file before it is of {one}");
            }
        }
        let longer = |release: &String| release.len();
        self.release = self
            .release
            .take()
            .into_iter()
            .chain(other.release)
            .max_by_key(longer);
        self.btf = self.btf.take().or(other.btf);
        self.image = self.image.take().or(other.image);
        self.config = self.config.take().or(other.config);
        self.map = self.map.take().or(other.map);
        Ok(())
    }
}

/// The release in `config-6.12.57-x` and `System.map-6.12.57-x`.
fn release_in_name(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let release = ["config-", "System.map-"]
        .iter()
        .find_map(|stem| name.strip_prefix(stem))?;
    let is_release = release.starts_with(|c: char| c.is_ascii_digit());
    is_release.then(|| release.to_owned())
}

impl Image {
    /// Can ftrace hook this function? `None` if that cannot be told.
    pub fn has_ftrace_site(&self, function: &str) -> Option<bool> {
        /// The site comes first, or after an instruction that marks a branch's target.
        const WITHIN_BYTES: u64 = 16;
        /// On arm64 since 6.3 two instructions before the function belong to its site. Functions
        /// are aligned, so that no other's site is there.
        const BEFORE_BYTES: u64 = 8;
        let begin = (*self.symbols.as_ref()?.get(function)?)?;
        let sites = self.sites.as_ref()?;
        let next = sites.partition_point(|site| *site < begin.saturating_sub(BEFORE_BYTES));
        Some(
            sites
                .get(next)
                .is_some_and(|site| *site < begin + WITHIN_BYTES),
        )
    }

    /// Is it a kernel for arm64?
    pub fn is_arm64(&self) -> bool {
        let (at, magic) = ARM64_MAGIC;
        self.bytes.get(at..at + magic.len()) == Some(magic)
    }

    /// May this kernel have a cgroup file of this name, after its controller's? If not, it has
    /// none: `struct cftype` holds the name, with NULs up to a fixed length.
    pub fn may_have_cgroup_file(&self, name: &str) -> bool {
        const NAME_BYTES: usize = 64;
        let mut field = name.as_bytes().to_vec();
        field.resize(NAME_BYTES, 0);
        memchr::memmem::find(&self.bytes, &field).is_some()
    }
}

fn unpack_kernel(bytes: Vec<u8>, release: Option<String>, deep: u32) -> Result<KernelFile> {
    if deep == 0 {
        bail!("compressed more than {MOST_DEEP} times over: not a kernel");
    }
    if let Some(format) = Format::detect(&bytes) {
        return unpack_kernel(format.unpack(&bytes)?, release, deep - 1);
    }
    let (at, magic) = BOOT_MAGIC;
    if bytes.get(at..at + magic.len()) == Some(magic) {
        let payload = vmlinuz_payload(&bytes).context("its header does not fit its length")?;
        let release = boot_release(&bytes).or(release);
        return unpack_kernel(payload, release, deep - 1);
    }
    let (at, magic) = ARM64_MAGIC;
    if bytes.get(at..at + magic.len()) == Some(magic) {
        return Ok(in_memory(bytes, release));
    }
    let (at, magic) = ZBOOT_MAGIC;
    if bytes.get(at..at + magic.len()) == Some(magic) {
        let payload = zboot_payload(&bytes).context("its header does not fit its length")?;
        return unpack_kernel(payload.to_vec(), release, deep - 1);
    }
    if bytes.starts_with(archive::DEB) {
        return of_package(archive::of_deb(&bytes)?, release, deep - 1);
    }
    if bytes.starts_with(archive::RPM) {
        return of_package(archive::of_rpm(&bytes)?, release, deep - 1);
    }
    if bytes.starts_with(ELF) {
        return read_elf(bytes, release);
    }
    if bytes.starts_with(BTF) {
        return Ok(KernelFile {
            release,
            btf: Some(bytes),
            ..KernelFile::default()
        });
    }
    if system_map::is_one(&bytes) {
        let map = system_map::read(&String::from_utf8_lossy(&bytes)).context(
            "a placeholder, as Debian ships it; System.map is in linux-image-RELEASE-dbg, and as \
             root /proc/kallsyms of a running kernel serves as well",
        )?;
        return Ok(KernelFile {
            map: Some(map),
            ..KernelFile::default()
        });
    }
    if let Some(config) = read_configuration(&bytes) {
        return Ok(config);
    }
    bail!(
        "neither a vmlinux, a vmlinuz, a Debian or RPM package of a kernel, BTF of this byte \
         order, a kernel's configuration nor System.map"
    )
}

fn read_configuration(bytes: &[u8]) -> Option<KernelFile> {
    let text = std::str::from_utf8(bytes).ok()?;
    Some(KernelFile {
        config: Some(Config::read(text)?),
        release: Config::parse_version(text),
        ..KernelFile::default()
    })
}

/// A package's kernel, or what it has of one.
fn of_package(found: Found, release: Option<String>, deep: u32) -> Result<KernelFile> {
    let mut whole = KernelFile::default();
    if let Some(kernel) = found.kernel {
        whole = unpack_kernel(kernel, release, deep).context("its kernel")?;
    }
    if let Some(config) = found.config.and_then(|bytes| read_configuration(&bytes)) {
        whole.release = whole.release.or(config.release);
        whole.config = config.config;
    }
    let map = found.map.as_deref().map(String::from_utf8_lossy);
    whole.map = map.and_then(|text| system_map::read(&text));
    let is_of_use = whole.btf.is_some() || whole.image.is_some() || whole.map.is_some();
    if !is_of_use {
        bail!(
            "a package without a kernel; images are in linux-image-RELEASE, from 7.0 on in \
             linux-binary-RELEASE, and with -unsigned behind that; in kernel-core of distributions \
             with RPM packages"
        );
    }
    Ok(whole)
}

fn read_elf(bytes: Vec<u8>, release: Option<String>) -> Result<KernelFile> {
    let file = object::File::parse(&*bytes).context("its ELF headers")?;
    let btf = match file.section_by_name(".BTF") {
        Some(section) => Some(section.data().context("its section .BTF")?.to_vec()),
        None => None,
    };
    // In packages of headers, a file of this name holds the types alone.
    if btf.is_some() && file.section_by_name(".text").is_none() {
        return Ok(KernelFile {
            release,
            btf,
            ..KernelFile::default()
        });
    }
    let own: Symbols = file
        .symbols()
        .filter_map(|symbol| Some((symbol.name().ok()?.to_owned(), Some(symbol.address()))))
        .filter(|(name, _)| !name.is_empty())
        .collect();
    let symbols = match own.is_empty() {
        false => Some(own),
        true => kallsyms::find_symbols(&bytes, &read_segments(&file)),
    };
    let sites = symbols
        .as_ref()
        .and_then(|symbols| ftrace_sites(&file, symbols));
    Ok(KernelFile {
        release: release.or_else(|| release_in_banner(&bytes)),
        btf,
        image: Some(Image {
            symbols,
            sites,
            bytes,
        }),
        ..KernelFile::default()
    })
}

/// A kernel as it is loaded, without ELF headers: arm64's. Addresses are from its begin on, since it
/// chooses its place when it boots.
fn in_memory(bytes: Vec<u8>, release: Option<String>) -> KernelFile {
    let linked_at = linked_at(&bytes).unwrap_or_default();
    let segment = |address| Segment {
        offset: 0,
        address,
        len: bytes.len(),
    };
    let mut symbols = kallsyms::find_symbols(&bytes, &[segment(0), segment(linked_at)]);
    if let Some(symbols) = &mut symbols {
        let text = symbols.get("_text").copied().flatten().unwrap_or_default();
        for address in symbols.values_mut().flatten() {
            *address = address.wrapping_sub(text);
        }
    }
    let sites = symbols
        .as_ref()
        .and_then(|symbols| relocated_sites(&bytes, symbols, linked_at));
    KernelFile {
        release: release.or_else(|| release_in_banner(&bytes)),
        btf: btf_within(&bytes).map(<[u8]>::to_vec),
        image: Some(Image {
            symbols,
            sites,
            bytes,
        }),
        ..KernelFile::default()
    }
}

/// The address that an arm64 kernel was linked at, by what most of its pointers point to. It is a
/// multiple of 128 MiB, and no image is longer.
fn linked_at(image: &[u8]) -> Option<u64> {
    const ALIGNED: u64 = 128 << 20;
    /// Kernel addresses begin with so many ones.
    const ONES: u32 = 16;
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    for at in (0..image.len()).step_by(8) {
        let word = u64_at(image, at).unwrap_or_default();
        if word.leading_ones() >= ONES && word != u64::MAX {
            *counts.entry(word & !(ALIGNED - 1)).or_default() += 1;
        }
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count)?;
    Some(most.0)
}

/// The sites of an arm64 kernel. Their addresses are in place if the kernel was linked with
/// CONFIG_RELR, and else in the entries by which it relocates itself: place, kind, address.
fn relocated_sites(
    image: &[u8],
    symbols: &BTreeMap<String, Option<u64>>,
    linked_at: u64,
) -> Option<Vec<u64>> {
    /// The kind for an address in the image itself, R_AARCH64_RELATIVE.
    const RELATIVE: u64 = 0x403;
    let at = |name: &str| symbols.get(name).copied().flatten();
    let table = at("__start_mcount_loc")?..at("__stop_mcount_loc")?;
    let in_place = table
        .clone()
        .step_by(8)
        .filter_map(|place| u64_at(image, usize::try_from(place).ok()?));
    let entries = (0..image.len()).step_by(8).filter_map(|entry| {
        let is_one = u64_at(image, entry + 8)? == RELATIVE
            && table.contains(&u64_at(image, entry)?.wrapping_sub(linked_at));
        is_one.then(|| u64_at(image, entry + 16)).flatten()
    });
    let mut sites: Vec<u64> = in_place
        .chain(entries)
        .map(|address| address.wrapping_sub(linked_at))
        .filter(|site| usize::try_from(*site).is_ok_and(|site| site < image.len()))
        .collect();
    sites.sort_unstable();
    (!sites.is_empty()).then_some(sites)
}

/// The BTF in an image, found by its header: types, and behind them strings, the first of which is
/// empty.
fn btf_within(image: &[u8]) -> Option<&[u8]> {
    /// Magic, version, flags, the header's own length, and where behind it types begin.
    const HEADER: &[u8] = b"\x9f\xeb\x01\0\x18\0\0\0\0\0\0\0";
    const HEADER_LEN: usize = 24;
    memchr::memmem::find_iter(image, HEADER).find_map(|begin| {
        let types_len = number_at(image, begin + 12)?;
        let (strings, strings_len) = (number_at(image, begin + 16)?, number_at(image, begin + 20)?);
        let end = begin + HEADER_LEN + strings + strings_len;
        let fits = strings == types_len
            && image.get(begin + HEADER_LEN + strings) == Some(&0)
            && image.get(end.checked_sub(1)?) == Some(&0);
        image.get(begin..end).filter(|_| fits)
    })
}

fn read_segments(file: &object::File) -> Vec<Segment> {
    let all = file.segments().filter_map(|segment| {
        let (offset, len) = segment.file_range();
        Some(Segment {
            offset: usize::try_from(offset).ok()?,
            address: segment.address(),
            len: usize::try_from(len).ok()?,
        })
    });
    all.collect()
}

/// Addresses that the linker put between the two symbols that ftrace reads its sites from. `None`
/// as well if they are filled in at boot only.
fn ftrace_sites(file: &object::File, symbols: &BTreeMap<String, Option<u64>>) -> Option<Vec<u64>> {
    let at = |name: &str| symbols.get(name).copied().flatten();
    let (begin, end) = (at("__start_mcount_loc")?, at("__stop_mcount_loc")?);
    let bytes = file.segments().find_map(|segment| {
        let data = segment.data().ok()?;
        let from = usize::try_from(begin.checked_sub(segment.address())?).ok()?;
        data.get(from..from + usize::try_from(end.checked_sub(begin)?).ok()?)
    })?;
    let mut sites: Vec<u64> = (0..bytes.len() / 8)
        .filter_map(|i| u64_at(bytes, i * 8))
        .filter(|site| *site != 0)
        .collect();
    sites.sort_unstable();
    (!sites.is_empty()).then_some(sites)
}

/// The release in `Linux version 6.12.1-x (...`, which every kernel prints first.
fn release_in_banner(image: &[u8]) -> Option<String> {
    const BEGINS: &[u8] = b"Linux version ";
    memchr::memmem::find_iter(image, BEGINS).find_map(|at| {
        let text = image[at + BEGINS.len()..]
            .split(|byte| *byte == b' ')
            .next()?;
        let text = std::str::from_utf8(text).ok()?;
        let is_release = text.starts_with(|c: char| c.is_ascii_digit()) && text.len() < 65;
        is_release.then(|| text.to_owned())
    })
}

fn number_at(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..at + 4)?.try_into().ok()?;
    usize::try_from(u32::from_le_bytes(bytes)).ok()
}

/// The data that the boot code of a vmlinuz decompresses.
fn vmlinuz_payload(image: &[u8]) -> Option<Vec<u8>> {
    let setup = match image.get(SETUP_SECTORS)? {
        0 => 4,
        sectors => usize::from(*sectors),
    };
    let begin = (setup + 1) * 512 + number_at(image, PAYLOAD_OFFSET)?;
    let end = begin.checked_add(number_at(image, PAYLOAD_LEN)?)?;
    let payload = image.get(begin..end)?;
    // All but gzip, which does so itself, are followed by the length of what they hold.
    match Format::detect(payload) {
        Some(Format::Gzip) => Some(payload.to_vec()),
        _ => Some(payload[..payload.len().checked_sub(4)?].to_vec()),
    }
}

/// The kernel in an image that unpacks itself under EFI.
fn zboot_payload(image: &[u8]) -> Option<&[u8]> {
    let begin = number_at(image, ZBOOT_OFFSET)?;
    image.get(begin..begin.checked_add(number_at(image, ZBOOT_LEN)?)?)
}

fn boot_release(image: &[u8]) -> Option<String> {
    let at = usize::from(u16::from_le_bytes(
        image.get(VERSION..VERSION + 2)?.try_into().ok()?,
    ));
    let text = image
        .get(at + 0x200..)?
        .split(|byte| *byte == b' ')
        .next()?;
    let text = std::str::from_utf8(text.get(..text.len().min(64))?).ok()?;
    text.starts_with(|c: char| c.is_ascii_digit())
        .then(|| text.to_owned())
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
