// SPDX-License-Identifier: GPL-2.0-only
//! Dirty pages of a cgroup, and what disks write of them.

use crate::flat_keyed::find_value;
use knobs::PAGE;
use observe::read::cgroup;
use observe::stack::Stack;
use std::fs;
use std::path::Path;

/// Pages of a cgroup and those below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirtyPages {
    /// Dirty pages, without those in writeback.
    pub dirty: u64,
    /// Pages in writeback.
    pub writeback: u64,
}

impl DirtyPages {
    /// Reads the dirty pages of a cgroup; nothing if they cannot be read. The module counts exactly
    /// for one that has a ceiling (`is_counted`); of others `memory.stat` has what the kernel adds
    /// up when it is read.
    pub fn read(directory: &Path, is_counted: bool) -> Option<DirtyPages> {
        let (file, [dirty, writeback]) = match is_counted {
            true => (knobs::stat_file(), ["subtree_dirty", "subtree_writeback"]),
            false => ("memory.stat", ["file_dirty", "file_writeback"]),
        };
        let text = fs::read_to_string(directory.join(file)).ok()?;
        let pages = |key| find_value(&text, key).unwrap_or(0) / PAGE;
        Some(DirtyPages {
            dirty: pages(dirty),
            writeback: pages(writeback),
        })
    }

    /// Dirty pages and those in writeback.
    pub fn total_pages(&self) -> u64 {
        self.dirty + self.writeback
    }
}

/// Pages that disks have written for a cgroup and those below it, since it was made; nothing if it
/// has no `io.stat`.
pub fn read_written_pages(directory: &Path, stack: &Stack) -> Option<u64> {
    let text = fs::read_to_string(directory.join("io.stat")).ok()?;
    Some(cgroup::written_bytes(&text, stack) / PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_comes_from_the_file_that_has_it() {
        let dir = tempfile::tempdir().expect("made");
        let write = |file: &str, text: &str| fs::write(dir.path().join(file), text).expect(file);
        let stack = Stack::default();
        assert_eq!(DirtyPages::read(dir.path(), false), None);
        assert_eq!(read_written_pages(dir.path(), &stack), None);
        write("memory.stat", "file_dirty 40960\nfile_writeback 4096\n");
        write(
            knobs::stat_file(),
            "dirty 0\nsubtree_dirty 8192\nsubtree_writeback 4096\n",
        );
        write(
            "io.stat",
            "254:0 rbytes=1 wbytes=8192 rios=1\n254:16 wbytes=4096\n",
        );
        let pages =
            |is_counted| DirtyPages::read(dir.path(), is_counted).map(|held| held.total_pages());
        assert_eq!((pages(false), pages(true)), (Some(11), Some(3)));
        assert_eq!(read_written_pages(dir.path(), &stack), Some(3));
    }
}
