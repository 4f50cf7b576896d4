// SPDX-License-Identifier: GPL-2.0-only
//! Work that arrives after the boot.
//!
//! A guest whose initramfs has no [`CONFIG_PATH`] says [`Event::Booted`] and waits. The lab saves
//! the machine as it is then, and continues it as often as it likes, each time with other devices
//! (`lab::qemu::snapshot`). One of them holds what the initramfs of a guest booted for one run has
//! besides: cpio archives, one after the other.

use crate::protocol::{CONFIG_PATH, Event, WORK_SLOT};
use crate::serial;
use anyhow::{Context, Result, bail};
use cpio::newc::Reader;
use nix::libc::{S_IFDIR, S_IFLNK, S_IFMT, S_IFREG};
use nix::sys::mman::{MapFlags, ProtFlags, mmap};
use runner::Channel;
use std::fs::{self, File, Permissions};
use std::io::{ErrorKind, Read};
use std::num::NonZeroUsize;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

nix::ioctl_none!(reseed, b'R', 7);

/// Unpacks the work into the root directory, if it was not there from the start.
pub fn receive_work(channel: &Channel) -> Result<()> {
    if Path::new(CONFIG_PATH).exists() {
        return Ok(());
    }
    channel.send(&Event::Booted);
    let line = serial::read_line().context("waiting for work")?;
    let bytes = line
        .trim()
        .parse()
        .ok()
        .and_then(NonZeroUsize::new)
        .with_context(|| format!("`{line}` is not a number of bytes of work"))?;
    // All that continue from here have the same random numbers ahead; the CPU has others.
    let random = File::open("/dev/urandom").context("/dev/urandom")?;
    // SAFETY: RNDRESEEDCRNG takes no argument.
    unsafe { reseed(random.as_raw_fd()) }.context("seeding the kernel's random numbers")?;
    unpack_archives(map_attached_memory(bytes)?, Path::new("/"))
}

/// The memory of the device in [`WORK_SLOT`], which the kernel has yet to find.
fn map_attached_memory(bytes: NonZeroUsize) -> Result<&'static [u8]> {
    fs::write("/sys/bus/pci/rescan", "1").context("looking for devices")?;
    let device = format!("/sys/bus/pci/devices/0000:00:{WORK_SLOT:02x}.0");
    fs::write(format!("{device}/enable"), "1").with_context(|| format!("enabling {device}"))?;
    let memory = format!("{device}/resource2");
    let memory = File::open(&memory).with_context(|| memory.clone())?;
    // SAFETY: a new mapping, which is never removed, of memory that nothing writes to.
    let mapped = unsafe {
        let (read, shared) = (ProtFlags::PROT_READ, MapFlags::MAP_SHARED);
        mmap(None, bytes, read, shared, &memory, 0).context("mapping the work")?
    };
    // SAFETY: as above, and of this length.
    Ok(unsafe { std::slice::from_raw_parts(mapped.as_ptr().cast(), bytes.get()) })
}

/// Makes what is in the archives below `root`. Errors: they are damaged, or hold what a guest is
/// never given.
fn unpack_archives(mut archives: &[u8], root: &Path) -> Result<()> {
    while !archives.is_empty() {
        let reader = Reader::new(archives).context("reading the work")?;
        if reader.entry().is_trailer() {
            archives = reader.finish().context("reading the work")?;
            // What pads an archive.
            let pad = archives.iter().take_while(|byte| **byte == 0).count();
            archives = &archives[pad..];
            continue;
        }
        let name = reader.entry().name().to_owned();
        archives =
            unpack_entry(reader, &root.join(&name)).with_context(|| format!("unpacking {name}"))?;
    }
    Ok(())
}

/// Makes one file, directory or link, and returns what follows it.
fn unpack_entry<'a>(mut reader: Reader<&'a [u8]>, path: &Path) -> Result<&'a [u8]> {
    let (mode, size) = (reader.entry().mode(), reader.entry().file_size());
    match mode & S_IFMT {
        S_IFDIR => match fs::create_dir(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => made?,
        },
        S_IFREG => {
            let mut content = Vec::with_capacity(size as usize);
            reader.read_to_end(&mut content)?;
            remove_if_present(path)?;
            fs::write(path, content)?;
            fs::set_permissions(path, Permissions::from_mode(mode & 0o7777))?;
        }
        S_IFLNK => {
            let mut target = String::new();
            reader.read_to_string(&mut target)?;
            remove_if_present(path)?;
            symlink(target, path)?;
        }
        _ => bail!("neither a file nor a directory nor a link (mode {mode:o})"),
    }
    Ok(reader.finish()?)
}

/// Removes a file that there may be.
fn remove_if_present(path: &Path) -> std::io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cpio::newc::{Builder, ModeFileType, trailer};

    fn entry(name: &str, kind: ModeFileType, mode: u32, content: &[u8]) -> Vec<u8> {
        let builder = Builder::new(name).mode(mode).set_mode_file_type(kind);
        let mut writer = builder.write(Vec::new(), content.len() as u32);
        std::io::Write::write_all(&mut writer, content).unwrap();
        writer.finish().unwrap()
    }

    fn end() -> Vec<u8> {
        trailer(Vec::new()).unwrap()
    }

    #[test]
    fn archives_are_unpacked_one_over_the_other() {
        let root = tempfile::tempdir().unwrap();
        use ModeFileType::{Directory, Regular, Symlink};
        let archives = [
            entry("a", Directory, 0o755, b""),
            entry("a/run", Regular, 0o755, b"first"),
            entry("a/link", Symlink, 0o777, b"nowhere"),
            end(),
            vec![0; 512],
            entry("a", Directory, 0o755, b""),
            entry("a/run", Regular, 0o644, b"second, and longer"),
            entry("a/link", Symlink, 0o777, b"run"),
            entry("empty", Regular, 0o600, b""),
            end(),
        ];
        unpack_archives(&archives.concat(), root.path()).unwrap();
        let run = root.path().join("a/run");
        assert_eq!(
            fs::read(root.path().join("a/link")).unwrap(),
            b"second, and longer"
        );
        assert_eq!(
            fs::metadata(&run).unwrap().permissions().mode() & 0o7777,
            0o644
        );
        assert_eq!(fs::read(root.path().join("empty")).unwrap(), b"");
    }

    #[test]
    fn what_is_damaged_or_no_file_is_refused_by_name() {
        let root = tempfile::tempdir().unwrap();
        let whole = [entry("a", ModeFileType::Regular, 0o644, &[7; 99]), end()].concat();
        for length in [3, 50, 111, 150, whole.len() - 1] {
            assert!(
                unpack_archives(&whole[..length], root.path()).is_err(),
                "{length}"
            );
        }
        let device = entry("null", ModeFileType::Char, 0o666, b"");
        let error = unpack_archives(&device, root.path()).unwrap_err();
        assert!(
            format!("{error:#}").starts_with("unpacking null: neither a file"),
            "{error:#}"
        );
    }
}
