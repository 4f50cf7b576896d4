// SPDX-License-Identifier: GPL-2.0-only
//! What a kernel in a file says of itself, without booting it: its BTF, and with an image its
//! functions and where ftrace can hook.
//!
//! A file is one inside another: a Debian package holds a tar archive, that a bootable image, and
//! that a compressed ELF file (`Documentation/arch/x86/boot.rst` in the kernel's sources), or on
//! arm64 the kernel as it lies in memory (`arch/arm64/booting.rst`). What it is, its first bytes say. The configuration in a package is not asked: what a kernel has, its
//! functions tell better.

use crate::kallsyms::{self, Segment, Symbols, u64_at};
use crate::tool::{missing, read};
use anyhow::{Context, Result, bail};
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// How compressed data begins, and what decompresses it.
const COMPRESSED: &[(&[u8], &str)] = &[
    (b"\x1f\x8b\x08", "gzip"),
    (b"\xfd7zXZ\0", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\x02\x21\x4c\x18", "lz4"),
];
const ELF: &[u8] = b"\x7fELF";
const PACKAGE: &[u8] = b"!<arch>\n";
const BTF: &[u8] = b"\x9f\xeb";
/// x86's boot protocol: where its fields are.
const BOOT_MAGIC: (usize, &[u8]) = (0x202, b"HdrS");
const SETUP_SECTORS: usize = 0x1f1;
const VERSION: usize = 0x20e;
const PAYLOAD_OFFSET: usize = 0x248;
const PAYLOAD_LEN: usize = 0x24c;
/// Where arm64's image says what it is.
const ARM64_MAGIC: (usize, &[u8]) = (0x38, b"ARM\x64");
/// A file in a file in a file, and one more.
const MOST_DEEP: u32 = 4;

/// A kernel as a file shows it.
#[derive(Debug, Default)]
pub struct KernelFile {
    /// What `uname -r` says in it, if the file tells.
    pub release: Option<String>,
    /// Its BTF, as in `/sys/kernel/btf/vmlinux`.
    pub btf: Option<Vec<u8>>,
    /// Its image, unpacked; `None` if the file is BTF alone.
    pub image: Option<Image>,
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
    /// Reads a vmlinux, a bootable image, a Debian package with one of them, or BTF alone;
    /// compressed or not.
    pub fn open(path: &Path) -> Result<KernelFile> {
        let shown = || path.display().to_string();
        if path.is_dir() {
            bail!("{}: a directory; name the kernel in it", path.display());
        }
        unpack(read(path)?, None, MOST_DEEP).with_context(shown)
    }
}

impl Image {
    /// The names that `/proc/kallsyms` has; `None` if they cannot be told.
    pub fn symbols(&self) -> Option<impl Iterator<Item = &str>> {
        Some(self.symbols.as_ref()?.keys().map(String::as_str))
    }

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

fn unpack(bytes: Vec<u8>, release: Option<String>, deep: u32) -> Result<KernelFile> {
    if deep == 0 {
        bail!("compressed more than {MOST_DEEP} times over: not a kernel");
    }
    if let Some((_, tool)) = COMPRESSED
        .iter()
        .find(|(magic, _)| bytes.starts_with(magic))
    {
        return unpack(decompress(&bytes, tool)?, release, deep - 1);
    }
    let (at, magic) = BOOT_MAGIC;
    if bytes.get(at..at + magic.len()) == Some(magic) {
        let payload = payload(&bytes).context("its header does not fit its length")?;
        let release = boot_release(&bytes).or(release);
        return unpack(payload, release, deep - 1);
    }
    let (at, magic) = ARM64_MAGIC;
    if bytes.get(at..at + magic.len()) == Some(magic) {
        return Ok(in_memory(bytes, release));
    }
    if bytes.starts_with(PACKAGE) {
        return unpack(from_package(bytes)?, release, deep - 1);
    }
    if bytes.starts_with(ELF) {
        return elf(bytes, release);
    }
    if bytes.starts_with(BTF) {
        return Ok(KernelFile {
            release,
            btf: Some(bytes),
            image: None,
        });
    }
    bail!("neither a vmlinux, a vmlinuz, a Debian package of a kernel, nor BTF of this byte order")
}

fn elf(bytes: Vec<u8>, release: Option<String>) -> Result<KernelFile> {
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
            image: None,
        });
    }
    let own: Symbols = file
        .symbols()
        .filter_map(|symbol| Some((symbol.name().ok()?.to_owned(), Some(symbol.address()))))
        .filter(|(name, _)| !name.is_empty())
        .collect();
    let symbols = match own.is_empty() {
        false => Some(own),
        true => kallsyms::find(&bytes, &segments(&file)),
    };
    let sites = symbols.as_ref().and_then(|symbols| sites(&file, symbols));
    Ok(KernelFile {
        release: release.or_else(|| banner(&bytes)),
        btf,
        image: Some(Image {
            symbols,
            sites,
            bytes,
        }),
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
    let mut symbols = kallsyms::find(&bytes, &[segment(0), segment(linked_at)]);
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
        release: release.or_else(|| banner(&bytes)),
        btf: btf_within(&bytes).map(<[u8]>::to_vec),
        image: Some(Image {
            symbols,
            sites,
            bytes,
        }),
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

fn segments(file: &object::File) -> Vec<Segment> {
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

/// What the linker put between the two symbols that ftrace reads its sites from. `None` as well if
/// they are filled in at boot only.
fn sites(file: &object::File, symbols: &BTreeMap<String, Option<u64>>) -> Option<Vec<u64>> {
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
fn banner(image: &[u8]) -> Option<String> {
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

/// What the boot code of a vmlinuz decompresses.
fn payload(image: &[u8]) -> Option<Vec<u8>> {
    let setup = match image.get(SETUP_SECTORS)? {
        0 => 4,
        sectors => usize::from(*sectors),
    };
    let begin = (setup + 1) * 512 + number_at(image, PAYLOAD_OFFSET)?;
    let end = begin.checked_add(number_at(image, PAYLOAD_LEN)?)?;
    let payload = image.get(begin..end)?;
    // All but gzip, which does so itself, are followed by the length of what they hold.
    match payload.starts_with(COMPRESSED[0].0) {
        true => Some(payload.to_vec()),
        false => Some(payload[..payload.len().checked_sub(4)?].to_vec()),
    }
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

fn decompress(bytes: &[u8], tool: &str) -> Result<Vec<u8>> {
    let mut child = Command::new(tool)
        .arg("-dc")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| missing(tool, error))?;
    let mut stdin = child.stdin.take().context("a pipe")?;
    let output = std::thread::scope(|scope| {
        // Its end is told by the output: it may stop reading before all is written.
        scope.spawn(move || drop(stdin.write_all(bytes)));
        child.wait_with_output()
    })
    .with_context(|| format!("running {tool}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{tool}: {}", said.trim());
    }
    Ok(output.stdout)
}

/// The first kernel in a Debian package.
fn from_package(bytes: Vec<u8>) -> Result<Vec<u8>> {
    const TOOL: &str = "dpkg-deb";
    let mut package = tempfile::NamedTempFile::new().context("a place for the package")?;
    package
        .write_all(&bytes)
        .context("a place for the package")?;
    drop(bytes);
    let mut child = Command::new(TOOL)
        .arg("--fsys-tarfile")
        .arg(package.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| missing(TOOL, error))?;
    let kernel = first_kernel(child.stdout.take().context("a pipe")?);
    // It is stopped by the pipe that is closed.
    child.wait().with_context(|| format!("running {TOOL}"))?;
    kernel?.context(
        "a package without a kernel; images are in linux-image-RELEASE, from 7.0 on in \
         linux-binary-RELEASE, and with -unsigned behind that",
    )
}

fn first_kernel(archive: impl Read) -> Result<Option<Vec<u8>>> {
    let mut archive = tar::Archive::new(archive);
    for entry in archive.entries().context("its archive")? {
        let mut entry = match entry {
            Err(why) if why.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            entry => entry.context("its archive")?,
        };
        let path = entry.path().context("its archive")?.into_owned();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_kernel = name == "vmlinux"
            || ["vmlinuz", "vmlinux-"]
                .iter()
                .any(|begin| name.starts_with(begin));
        if is_kernel && entry.header().entry_type().is_file() {
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).context("its kernel")?;
            return Ok(Some(bytes));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
