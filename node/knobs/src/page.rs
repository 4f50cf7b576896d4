// SPDX-License-Identifier: GPL-2.0-only
//! Pages: the unit that weir counts in, and the size of a kernel's own.
//!
//! Linux on arm64 has pages of 4, 16 or 64 KiB. weir's commands count in units of 4 KiB on each of
//! them: the policy's constants are made for it, and a recording means the same on a host with other
//! pages. So a count that a kernel gives in its own pages (`/proc/vmstat`, `/proc/zoneinfo`, events)
//! is converted where it is read. Bytes that a kernel keeps as pages (`memory.high`) are written as
//! whole pages of it, or they would read back as another number.
//!
//! Example. With pages of 16 KiB `nr_dirty 100` is 400 units, 1,638,400 bytes. A limit of 250 units is
//! written as 62 pages, 1,015,808 bytes.

use policy::ceiling::CEILING_MIN;
use std::sync::LazyLock;

/// Bytes of a unit.
pub const PAGE: u64 = 1 << policy::PAGE_SHIFT;

/// Size of a kernel's pages; by default one unit, as on x86-64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PageSize(u64);

impl Default for PageSize {
    fn default() -> PageSize {
        PageSize(PAGE)
    }
}

impl PageSize {
    /// As many bytes; `None` for a size that Linux does not have.
    pub fn of_bytes(bytes: u64) -> Option<PageSize> {
        [4 << 10, 16 << 10, 64 << 10]
            .contains(&bytes)
            .then_some(PageSize(bytes))
    }

    /// Size of the running kernel's pages.
    pub fn running() -> PageSize {
        static RUNNING: LazyLock<PageSize> = LazyLock::new(|| {
            use nix::unistd::{SysconfVar, sysconf};
            let bytes = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
            let bytes = bytes.and_then(|bytes| u64::try_from(bytes).ok());
            bytes.and_then(PageSize::of_bytes).unwrap_or_default()
        });
        *RUNNING
    }

    /// Size of one page in bytes.
    pub fn bytes(self) -> u64 {
        self.0
    }

    /// The units that `pages` of this size are.
    pub fn units_of_pages(self, pages: u64) -> u64 {
        pages.saturating_mul(self.0 / PAGE)
    }

    /// Whole pages of this size that as many units have room for.
    pub fn pages_of_units(self, units: u64) -> u64 {
        units / (self.0 / PAGE)
    }

    /// A limit of as many units, in bytes: whole pages of this size, and two at least, which is the
    /// least ceiling.
    pub fn ceiling_bytes_of_units(self, units: u64) -> u64 {
        let bytes = units.saturating_mul(PAGE);
        (bytes - bytes % self.0).max(CEILING_MIN * self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worked_example() {
        let large = PageSize::of_bytes(16 << 10).expect("a size");
        assert_eq!(large.units_of_pages(100) * PAGE, 1_638_400);
        assert_eq!(large.ceiling_bytes_of_units(250), 1_015_808);
        assert_eq!(large.pages_of_units(250), 62);
        assert_eq!(large.ceiling_bytes_of_units(5), 32_768);
        assert_eq!(PageSize::default().ceiling_bytes_of_units(250), 250 * PAGE);
        assert_eq!(PageSize::of_bytes(32 << 10), None);
    }

    #[test]
    fn the_running_kernels_size_is_asked_for() {
        let smaps = std::fs::read_to_string("/proc/self/smaps").expect("its own");
        let line = smaps
            .lines()
            .find_map(|line| line.strip_prefix("KernelPageSize:"));
        let kib = line.and_then(|kib| kib.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        assert_eq!(Some(PageSize::running().bytes() >> 10), kib);
    }
}
