// SPDX-License-Identifier: GPL-2.0-only
//! Making a disk of a block device: its queue, encryption, its filesystem.

use crate::system::run;
use anyhow::{Context, Result};
use nix::mount::MsFlags;
use scenario::model::Filesystem;
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Modules that an encrypted disk takes.
pub const ENCRYPTION: [&str; 2] = ["dm_crypt", "xts"];

/// Puts dm-crypt on the device and returns what is on top. A write is encrypted where it is
/// submitted (`no_write_workqueue`), which for buffered writes is the flusher; by default another
/// worker would.
///
/// # Errors
/// The kernel has no dm-crypt, or there is no `dmsetup`.
pub fn encrypt_device(device: &Path, name: &str) -> Result<PathBuf> {
    for module in ENCRYPTION {
        run(Command::new("modprobe").arg(module))?;
    }
    // A key for a disk that is thrown away.
    let target = format!(
        "crypt aes-xts-plain64 {} 0 {} 0 1 no_write_workqueue",
        "5a".repeat(64),
        device.display()
    );
    map_device(device, name, &target)
}

/// Puts a target of the device mapper on all of a device, as in dmsetup(8), and returns what is on
/// top.
///
/// # Errors
/// The kernel has no such target, or there is no `dmsetup`.
pub fn map_device(device: &Path, name: &str, target: &str) -> Result<PathBuf> {
    let size = Path::new("/sys/block")
        .join(device.file_name().unwrap_or_default())
        .join("size");
    let sectors = std::fs::read_to_string(&size).with_context(|| format!("{}", size.display()))?;
    let table = format!("0 {} {target}", sectors.trim());
    run(Command::new("dmsetup")
        .args(["--noudevrules", "--noudevsync", "create", name, "--table"])
        .arg(table))?;
    for entry in std::fs::read_dir("/sys/block").context("/sys/block")? {
        let entry = entry.context("/sys/block")?;
        let mapped = std::fs::read_to_string(entry.path().join("dm/name")).unwrap_or_default();
        if mapped.trim() == name {
            return Ok(Path::new("/dev").join(entry.file_name()));
        }
    }
    anyhow::bail!("dmsetup made no device")
}

/// Gives a slow disk the small queue that slow disks have. With a fast one's, a single merged
/// request takes 256 KB/s five seconds, and a queue of them minutes, all of it in front of the
/// filesystem's journal: writers then stall for half a minute on ext4's commits, not on dirty
/// limits. Here one request holds at most 1/64 of a second's bandwidth and the queue half a
/// second's.
///
/// # Errors
/// The queue takes no such settings.
pub fn shape_queue(device: &Path, bandwidth: u64) -> Result<()> {
    let name = device.file_name().unwrap_or_default();
    let queue = Path::new("/sys/block").join(name).join("queue");
    for (name, value) in [
        ("max_sectors_kb", largest_request_kib(bandwidth)),
        ("nr_requests", REQUESTS),
    ] {
        let file = queue.join(name);
        std::fs::write(&file, value.to_string())
            .with_context(|| format!("writing {value} to {}", file.display()))?;
    }
    Ok(())
}

/// Enough for the kernel's own writeback throttling to keep some for the journal.
const REQUESTS: u64 = 32;

/// At least a page, at most what a virtio disk has by itself.
fn largest_request_kib(bandwidth: u64) -> u64 {
    (bandwidth / 64 / 1024).clamp(4, 1280)
}

/// The kernel's name of a filesystem: in mount(2), `/proc/filesystems`, and its module.
pub fn kernel_name(filesystem: Filesystem) -> &'static str {
    match filesystem {
        Filesystem::Ext4 => "ext4",
        Filesystem::Xfs => "xfs",
        Filesystem::Btrfs => "btrfs",
        Filesystem::Vfat => "vfat",
        Filesystem::Nfs => "nfs",
        Filesystem::Fuse => "fuse",
        Filesystem::Swap => "swap",
    }
}

/// The program that makes a filesystem, and its options for a device that is all zeroes; none for one
/// that is not on a device.
pub fn mkfs_command(filesystem: Filesystem) -> Option<(&'static str, &'static [&'static str])> {
    Some(match filesystem {
        // Writing the zeroes again takes minutes on a slow disk, and doing it lazily would write in
        // the background while phases are measured.
        Filesystem::Ext4 => (
            "mkfs.ext4",
            &["-q", "-F", "-E", "assume_storage_prezeroed=1,nodiscard"],
        ),
        Filesystem::Xfs => ("mkfs.xfs", &["-q", "-f", "-K"]),
        Filesystem::Btrfs => ("mkfs.btrfs", &["-q", "-f", "-K"]),
        Filesystem::Vfat => ("mkfs.fat", &["-F", "32"]),
        Filesystem::Swap => ("mkswap", &[]),
        Filesystem::Nfs | Filesystem::Fuse => return None,
    })
}

/// Makes a filesystem with its own defaults on a device that is all zeroes.
///
/// # Errors
/// mkfs's own words.
pub fn format_device(device: &Path, filesystem: Filesystem) -> Result<()> {
    let (program, args) = mkfs_command(filesystem)
        .with_context(|| format!("{} is on no device", kernel_name(filesystem)))?;
    run(Command::new(program).args(args).arg(device))
}

/// Mounts a device at a directory, which is made; `options` as after `mount -o`. Swap space is
/// switched on instead.
///
/// # Errors
/// The kernel's.
pub fn mount_disk(
    device: &Path,
    at: &Path,
    filesystem: Filesystem,
    options: Option<&str>,
) -> Result<()> {
    if filesystem == Filesystem::Swap {
        return swap_on(device);
    }
    std::fs::create_dir_all(at).with_context(|| format!("making {}", at.display()))?;
    let kind = kernel_name(filesystem);
    nix::mount::mount(Some(device), at, Some(kind), MsFlags::empty(), options)
        .with_context(|| format!("mounting {kind} on {}", at.display()))
}

fn swap_on(device: &Path) -> Result<()> {
    let path = CString::new(device.as_os_str().as_encoded_bytes())?;
    // SAFETY: a string that ends, and no flags.
    let done = unsafe { nix::libc::swapon(path.as_ptr(), 0) };
    nix::errno::Errno::result(done).with_context(|| format!("swapping to {}", device.display()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::largest_request_kib;

    #[test]
    fn requests_are_small_on_slow_disks() {
        assert_eq!(largest_request_kib(256 << 10), 4);
        assert_eq!(largest_request_kib(20 << 20), 320);
        assert_eq!(largest_request_kib(1 << 10), 4);
        assert_eq!(largest_request_kib(1 << 40), 1280);
    }
}
