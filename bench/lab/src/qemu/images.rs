// SPDX-License-Identifier: GPL-2.0-only
//! Disks of a guest: images without a name.

use anyhow::{Context, Result, bail};
use runner::system::read_meminfo;
use std::fs::File;
use std::path::Path;

/// A disk of the machine, a sparse image of its size.
pub struct Drive {
    /// Size in bytes.
    pub size: u64,
    /// Bytes per second, or as fast as it goes.
    pub write_bandwidth: Option<u64>,
    /// Bytes per second, or as fast as it goes.
    pub read_bandwidth: Option<u64>,
}

/// Sparse images without a name: in memory if that has room for all of them, full, beside the
/// guest; else on disk.
pub(super) fn open_images(drives: &[Drive], memory: u64, scratch: &Path) -> Result<Vec<File>> {
    let total: u64 = drives.iter().map(|drive| drive.size).sum();
    let tmpfs = Path::new("/dev/shm");
    let fits = free_bytes(tmpfs).is_ok_and(|room| room > total)
        && read_meminfo("MemAvailable:").is_some_and(|room| room > total + memory);
    let place = if fits { tmpfs } else { scratch };
    if !fits {
        let room = free_bytes(place)?;
        if room < total {
            bail!(
                "the guest's disks may grow to {} MiB, but {} has {} MiB left: free some space, or make the disks smaller",
                total >> 20,
                place.display(),
                room >> 20
            );
        }
    }
    drives
        .iter()
        .map(|drive| {
            let image = tempfile::tempfile_in(place)?;
            image.set_len(drive.size)?;
            Ok(image)
        })
        .collect::<std::io::Result<_>>()
        .with_context(|| format!("making disk images in {}", place.display()))
}

/// Free space of a filesystem, in bytes.
pub(super) fn free_bytes(path: &Path) -> Result<u64> {
    let stat = nix::sys::statvfs::statvfs(path).with_context(|| format!("{}", path.display()))?;
    Ok(stat.blocks_available() * stat.fragment_size())
}
