// SPDX-License-Identifier: GPL-2.0-only
//! A job's memory: mapped, filled, looked for, checked.

use anyhow::{Context, Result, ensure};
use nix::libc;
use nix::sys::signal::Signal;
use nix::unistd::ForkResult;
use scenario::model::{Backing, JobMemory, Pattern};
use std::fs::OpenOptions;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Step in which memory is filled and checked; of larger pages a kernel has several steps in each.
pub const PAGE: usize = knobs::PAGE as usize;
/// Bytes that pages are copied in at least. Of each such line one word is used: enough to notice
/// any that was lost, and an emulated CPU writes and checks an eighth.
const LINE: usize = 64;
/// Words of a page that are used.
pub const WORDS: usize = PAGE / LINE;
/// Pages of a piece: what a huge page holds.
pub const PIECE: usize = 512;

/// Mapped for as long as the process lives.
pub struct Region {
    base: *mut u8,
    /// Number of pages.
    pub pages: usize,
    /// Numbers of the pieces that are hot; of all if all are read alike.
    pub hot: Vec<usize>,
    /// Numbers of the others.
    pub cold: Vec<usize>,
}

// SAFETY: the mapping is never taken away, and its words are only used as atomics.
unsafe impl Sync for Region {}

impl Region {
    /// Maps it; `file` is where the memory of a job with a file lies.
    pub fn map_memory(memory: &JobMemory, file: Option<&Path>) -> Result<Region> {
        use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap, mmap_anonymous};
        let pages = usize::try_from(memory.size_bytes)? / PAGE;
        let length =
            NonZeroUsize::new(pages * PAGE).context("expected a size of at least one page")?;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping, wherever the kernel puts it.
        let base = match (memory.backing, file) {
            (Backing::File, file) => {
                let path = file.context("memory of a file needs the file's name")?;
                let file = OpenOptions::new()
                    .read(true)
                    .write(true)
                    .create(true)
                    .truncate(true)
                    .open(path)
                    .with_context(|| format!("{}", path.display()))?;
                file.set_len(length.get() as u64)?;
                unsafe { mmap(None, length, access, MapFlags::MAP_SHARED, &file, 0) }
            }
            (Backing::Anonymous, _) => unsafe {
                mmap_anonymous(None, length, access, MapFlags::MAP_PRIVATE)
            },
            (Backing::Shared, _) => unsafe {
                mmap_anonymous(None, length, access, MapFlags::MAP_SHARED)
            },
        }
        .context("mapping memory")?;
        let advice = match memory.huge_pages {
            true => MmapAdvise::MADV_HUGEPAGE,
            false => MmapAdvise::MADV_NOHUGEPAGE,
        };
        // SAFETY: our own mapping, and the advice changes no content.
        unsafe { madvise(base, length.get(), advice) }.context("advising on huge pages")?;
        let (hot, cold) = split_pieces(pages.div_ceil(PIECE), memory);
        Ok(Region {
            base: base.as_ptr().cast(),
            pages,
            hot,
            cold,
        })
    }

    /// A word of the memory.
    pub fn word_at(&self, page: usize, word: usize) -> &AtomicU64 {
        assert!(page < self.pages && word < WORDS);
        // SAFETY: within the mapping, aligned, and used as atomics only.
        unsafe { AtomicU64::from_ptr(self.base.add(page * PAGE + word * LINE).cast()) }
    }

    /// Writes every word that is used; a file's are written to its disk, too.
    pub fn fill_pages(&self, backing: Backing) -> Result<()> {
        for page in 0..self.pages {
            for word in 0..WORDS {
                self.word_at(page, word)
                    .store(unwritten_word(page, word), Ordering::Relaxed);
            }
        }
        if backing == Backing::File {
            // SAFETY: our own mapping.
            let done = unsafe { libc::msync(self.base.cast(), self.pages * PAGE, libc::MS_SYNC) };
            nix::errno::Errno::result(done).context("writing the file back")?;
        }
        Ok(())
    }

    /// Reads a word of every page, which maps it.
    pub fn touch_pages(&self) {
        for page in 0..self.pages {
            self.word_at(page, 0).load(Ordering::Relaxed);
        }
    }

    /// `true` if a page holds what it should, having been written to so often.
    pub fn is_intact(&self, page: usize, writes: u64) -> bool {
        let counter = unwritten_word(page, 0).wrapping_add(writes);
        self.word_at(page, 0).load(Ordering::Relaxed) == counter
            && (1..WORDS).all(|word| {
                self.word_at(page, word).load(Ordering::Relaxed) == unwritten_word(page, word)
            })
    }

    /// On which node each page of some pieces lies: how many on each, and how many on none.
    pub fn locate_pages(&self, pieces: &[usize]) -> Result<(Vec<u64>, u64)> {
        let (mut nodes, mut nowhere) = (Vec::new(), 0);
        for piece in pieces {
            let pages = piece * PIECE..self.pages.min((piece + 1) * PIECE);
            let addresses: Vec<*const u64> = pages
                .map(|page| self.word_at(page, 0).as_ptr().cast_const())
                .collect();
            let mut status = vec![0i32; addresses.len()];
            // SAFETY: both arrays are as long as is said; without target nodes nothing is moved.
            let done = unsafe {
                libc::syscall(
                    libc::SYS_move_pages,
                    0,
                    addresses.len(),
                    addresses.as_ptr(),
                    std::ptr::null::<i32>(),
                    status.as_mut_ptr(),
                    0,
                )
            };
            nix::errno::Errno::result(done).context("asking where pages are")?;
            for node in status {
                let Ok(node) = usize::try_from(node) else {
                    nowhere += 1;
                    continue;
                };
                if nodes.len() <= node {
                    nodes.resize(node + 1, 0);
                }
                nodes[node] += 1;
            }
        }
        Ok((nodes, nowhere))
    }

    /// Starts a process that has all of the memory mapped, too, and sleeps for as long as this one
    /// lives.
    ///
    /// # Safety
    /// Only before any thread is started.
    pub unsafe fn fork_sharer(&self) -> Result<()> {
        let (ready, mapped) = nix::unistd::pipe().context("a pipe")?;
        // SAFETY: promised by the caller.
        match unsafe { nix::unistd::fork() }.context("a second process")? {
            ForkResult::Child => {
                self.touch_pages();
                let told = nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)
                    .and_then(|()| nix::unistd::write(&mapped, b"!"));
                while told.is_ok() {
                    nix::unistd::pause();
                }
                std::process::exit(1)
            }
            ForkResult::Parent { .. } => {
                drop(mapped);
                let mut byte = [0];
                let read = nix::unistd::read(&ready, &mut byte).context("the second process")?;
                ensure!(
                    read == 1,
                    "the second process ended before it had mapped the memory"
                );
                Ok(())
            }
        }
    }
}

/// Content of an unwritten word.
pub fn unwritten_word(page: usize, word: usize) -> u64 {
    let at = (page * WORDS + word) as u64;
    (at + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (at << 32)
}

/// Pieces that are hot, and those that are not.
fn split_pieces(pieces: usize, memory: &JobMemory) -> (Vec<usize>, Vec<usize>) {
    let Pattern::HotCold { hot_bytes, .. } = memory.pattern else {
        return ((0..pieces).collect(), Vec::new());
    };
    let wanted = pieces as u64 * hot_bytes / memory.size_bytes.max(1);
    let hot = (wanted as usize).clamp(1, pieces);
    (0..pieces).partition(|piece| (piece * hot) % pieces < hot)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(pattern: Pattern) -> JobMemory {
        JobMemory {
            size_bytes: 9 << 20,
            backing: Backing::Anonymous,
            pattern,
            threads: 1,
            rate: None,
            writes_pct: 0,
            huge_pages: false,
        }
    }

    #[test]
    fn hot_pieces_are_spread_evenly() {
        let hot = Pattern::HotCold {
            hot_bytes: 156 << 20,
            hot_reads_pct: 90,
        };
        let large = JobMemory {
            size_bytes: 340 << 20,
            ..memory(hot)
        };
        let (hot, cold) = split_pieces(170, &large);
        assert_eq!((hot.len(), cold.len()), (78, 92));
        assert_eq!(hot[..7], [0, 3, 5, 7, 9, 11, 14]);
        assert!(hot.windows(2).all(|pair| pair[1] - pair[0] <= 3));
        assert_eq!(
            split_pieces(3, &memory(Pattern::Random)),
            (vec![0, 1, 2], vec![])
        );
    }

    #[test]
    fn a_page_that_lost_a_word_or_a_write_is_found() {
        let region = Region::map_memory(&memory(Pattern::Random), None).expect("mapped");
        assert_eq!((region.pages, region.hot.len()), (2304, 5));
        region.fill_pages(Backing::Anonymous).expect("filled");
        assert!((0..region.pages).all(|page| region.is_intact(page, 0)));
        assert!(!region.is_intact(7, 1), "a write that is missing");
        region.word_at(7, 0).fetch_add(1, Ordering::Relaxed);
        assert!(region.is_intact(7, 1) && !region.is_intact(7, 0));
        region.word_at(2303, WORDS - 1).store(0, Ordering::Relaxed);
        assert!(!region.is_intact(2303, 0));
    }

    #[test]
    fn every_page_is_somewhere_once_it_is_filled() {
        let region = Region::map_memory(&memory(Pattern::Random), None).expect("mapped");
        region.fill_pages(Backing::Anonymous).expect("filled");
        let (nodes, nowhere) = region.locate_pages(&region.hot).expect("asked");
        assert_eq!(nodes.iter().sum::<u64>() + nowhere, 2304);
    }
}
