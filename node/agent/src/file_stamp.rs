// SPDX-License-Identifier: GPL-2.0-only
//! What a file or directory looks like from outside: it shows every change, however it was made.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Device, inode, size, time of the last change; nothing if it is not there.
pub type FileStamp = Option<(u64, u64, u64, i64, i64)>;

/// Reads the stamp of a file by `stat`.
pub fn read_stamp(path: &Path) -> FileStamp {
    let metadata = fs::metadata(path).ok()?;
    Some((
        metadata.dev(),
        metadata.ino(),
        metadata.size(),
        metadata.ctime(),
        metadata.ctime_nsec(),
    ))
}
