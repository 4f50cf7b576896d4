// SPDX-License-Identifier: GPL-2.0-only
//! Whose pages lie where: /proc/kpagecgroup has, for each page of memory, the inode of the cgroup
//! that it is charged to.
//!
//! DAMON tells how much of what it looked at it has moved, and not how much of it was the cgroup's.
//! Knowing that, a search leaves out addresses where a cgroup has nothing, and takes just as many
//! as may be moved at once.

use crate::tier::host::TierHost;
use knobs::PageSize;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// Bytes of physical addresses: from, and up to but not with.
pub type Range = (u64, u64);

/// Bytes that are counted together.
pub const BLOCK: u64 = 2 << 20;

/// Addresses, and how many pages of a cgroup there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    pub range: Range,
    pub pages: u64,
}

/// The kernel's word for it.
pub struct PageOwners(File);

impl PageOwners {
    /// Opens the file.
    ///
    /// # Errors
    /// There is none.
    pub fn new(host: &TierHost) -> Result<PageOwners, String> {
        let path = host.full_path("proc/kpagecgroup");
        let file = File::open(&path);
        file.map(PageOwners).map_err(|why| {
            format!("this kernel does not report the owners of pages (/proc/kpagecgroup, CONFIG_PROC_PAGE_MONITOR): {why}")
        })
    }

    /// Owner of each of the kernel's pages of a range, by the inode of the cgroup's directory; 0 is none.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read_range(&self, (start, end): Range) -> Result<Vec<u64>, String> {
        let page = PageSize::running().bytes();
        let mut words = vec![0; ((end - start) / page * 8) as usize];
        let mut length = 0;
        while length < words.len() {
            let at = start / page * 8 + length as u64;
            let read = self.0.read_at(&mut words[length..], at);
            match read.map_err(|why| format!("/proc/kpagecgroup: {why}"))? {
                // The file ends where memory does.
                0 => break,
                bytes => length += bytes,
            }
        }
        let words = words[..length].chunks_exact(8);
        Ok(words
            .map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()))
            .collect())
    }
}

/// Pages of 4 KiB of each cgroup, by its inode.
pub fn count_pages(owners: &[u64], inode: u64) -> u64 {
    let own = owners.iter().filter(|owner| **owner == inode && inode != 0);
    PageSize::running().units_of_pages(own.count() as u64)
}

/// A cgroup's inode; 0, no owner, if it is gone.
pub fn inode_of(directory: &Path) -> u64 {
    directory.metadata().map_or(0, |found| found.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_owners() {
        let dir = tempfile::tempdir().expect("made");
        assert!(
            PageOwners::new(&TierHost::at_root(dir.path())).is_err(),
            "no such file"
        );
        std::fs::create_dir(dir.path().join("proc")).expect("made");
        let of_pages: [u64; 6] = [7, 0, 9, 7, 7, 9];
        let words: Vec<u8> = of_pages.iter().flat_map(|at| at.to_ne_bytes()).collect();
        std::fs::write(dir.path().join("proc/kpagecgroup"), words).expect("written");
        let owners = PageOwners::new(&TierHost::at_root(dir.path())).expect("there");
        let page = PageSize::running();
        let of = |first: u64, last: u64| {
            owners
                .read_range((first * page.bytes(), last * page.bytes()))
                .expect("read")
        };
        assert_eq!(
            [7, 9, 5, 0].map(|inode| count_pages(&of(0, 4), inode)),
            [page.units_of_pages(2), page.units_of_pages(1), 0, 0]
        );
        assert_eq!(of(4, 600), [7, 9], "where memory ends");
    }
}
