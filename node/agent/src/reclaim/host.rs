// SPDX-License-Identifier: GPL-2.0-only
//! What the kernel says of the whole host's memory, and the trigger that it fires.

use anyhow::{Context, Result};
use knobs::{PAGE, PageSize};
use nix::libc;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Some tasks were stalled for 10 ms of half a second, the shortest window there is.
const TRIGGER: &[u8] = b"some 10000 500000\0";

/// A host below its root directory.
#[derive(Clone, Debug)]
pub struct HostMemory {
    root: PathBuf,
}

/// Memory of all zones, in pages of 4 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneMemory {
    /// Pages that the kernel gives out.
    pub managed: u64,
    /// Free pages, CPUs' own lists included, beyond the high watermarks and what zones keep for
    /// allocations that can use no other.
    pub free: u64,
}

impl HostMemory {
    /// The host whose root directory is there.
    pub fn at_root(root: &Path) -> HostMemory {
        HostMemory { root: root.into() }
    }

    /// Sets a trigger: the file is in an exceptional condition (`POLLPRI`) once when it fires.
    ///
    /// # Errors
    /// The kernel has no PSI, or it is switched off, or the agent lacks CAP_SYS_RESOURCE.
    pub fn set_trigger(&self) -> Result<File> {
        let path = self.root.join("proc/pressure/memory");
        let set = || {
            let mut file = OpenOptions::new()
                .read(true)
                .write(true)
                .custom_flags(libc::O_NONBLOCK)
                .open(&path)?;
            file.write_all(TRIGGER)?;
            Ok::<_, std::io::Error>(file)
        };
        set().with_context(|| {
            format!(
                "no trigger on {}: [reclaim] needs psi=1 and CAP_SYS_RESOURCE",
                path.display()
            )
        })
    }

    /// Memory of all zones now.
    ///
    /// # Errors
    /// `/proc/zoneinfo` cannot be read.
    pub fn read_zones(&self) -> Result<ZoneMemory> {
        let memory = sum_zones(&self.read_text("proc/zoneinfo")?);
        let page = PageSize::running();
        Ok(ZoneMemory {
            managed: page.units_of_pages(memory.managed),
            free: page.units_of_pages(memory.free),
        })
    }

    /// Pages of swap that are free now; none where there is no swap.
    ///
    /// # Errors
    /// `/proc/meminfo` cannot be read.
    pub fn free_swap(&self) -> Result<u64> {
        Ok(parse_free_swap(&self.read_text("proc/meminfo")?))
    }

    /// Number of allocations that had to reclaim first, since the host was started.
    ///
    /// # Errors
    /// `/proc/vmstat` cannot be read.
    pub fn allocation_stalls(&self) -> Result<u64> {
        Ok(sum_stalls(&self.read_text("proc/vmstat")?))
    }

    fn read_text(&self, name: &str) -> Result<String> {
        let path = self.root.join(name);
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    }
}

fn parse_free_swap(meminfo: &str) -> u64 {
    let kib = |line: &str| {
        line.strip_prefix("SwapFree:")?
            .trim()
            .strip_suffix(" kB")?
            .parse()
            .ok()
    };
    meminfo
        .lines()
        .find_map(kib)
        .map_or(0, |kib: u64| (kib << 10) / PAGE)
}

/// `allocstall` of each zone.
fn sum_stalls(vmstat: &str) -> u64 {
    let counters = vmstat
        .lines()
        .filter(|line| line.starts_with("allocstall"))
        .filter_map(|line| line.split_once(' ')?.1.trim().parse::<u64>().ok());
    counters.sum()
}

/// The kernel boosts a zone's watermarks for one round of kswapd, which then only drops clean page
/// cache. Where nothing has kswapd run, a boost of up to one and a half high watermarks stays: to
/// keep that free as well would take it from cgroups for nothing.
///
/// Free pages on CPUs' lists are in no zone's number of free pages. While that is above the high
/// watermark, Linux 6.7 and later let the lists grow to as much as the low watermark; below it they
/// are emptied first. So they count. In pages of that kernel.
fn sum_zones(zoneinfo: &str) -> ZoneMemory {
    let mut all = ZoneMemory::default();
    // Of the zone at hand: free pages, the high watermark and what of it is a boost.
    let (mut free, mut high, mut boost) = (0, 0, 0);
    // What it lacks of what it needs: pages of CPUs' lists make up for that first.
    let mut lacks = 0;
    for line in zoneinfo.lines().map(str::trim) {
        let number = |key: &str| line.strip_prefix(key)?.trim().parse::<u64>().ok();
        if let Some(pages) = number("pages free ") {
            (free, boost) = (pages, 0);
        } else if let Some(pages) = number("boost ") {
            boost = pages;
        } else if let Some(pages) = number("high ") {
            high = pages;
        } else if let Some(pages) = number("managed ") {
            all.managed += pages;
        } else if let Some(list) = line.strip_prefix("protection: (") {
            let pages = list.trim_end_matches(')').split(", ");
            let kept = pages.filter_map(|pages| pages.parse::<u64>().ok()).max();
            let needed = high.saturating_sub(boost) + kept.unwrap_or(0);
            all.free += free.saturating_sub(needed);
            lacks = needed.saturating_sub(free);
        } else if let Some(pages) = number("count: ") {
            all.free += pages.saturating_sub(lacks);
            lacks = lacks.saturating_sub(pages);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZONEINFO: &str = "\
Node 0, zone      DMA
  per-node stats
      nr_inactive_anon 5
  pages free     3000
        boost    0
        min      66
        low      82
        high     98
        spanned  4095
        present  3998
        managed  3840
        cma      0
        protection: (0, 540, 540, 540, 540)
      nr_free_pages 3000
  pagesets
    cpu: 0
              count: 0
              high:  63
Node 0, zone    DMA32
  pages free     10000
        boost    0
        min      900
        low      1125
        high     1350
        managed  138000
        protection: (0, 0, 0, 0, 0)
";

    #[test]
    fn what_zones_keep_is_not_free() {
        let memory = sum_zones(ZONEINFO);
        assert_eq!(memory.managed, 141_840);
        assert_eq!(memory.free, (3000 - 98 - 540) + (10_000 - 1350));
    }

    #[test]
    fn pages_on_lists_of_cpus_are_free() {
        let lists = "  pagesets\n    cpu: 0\n              count:    700\n              high:     900\n\
                     \x20   cpu: 1\n              count:    60\n";
        let memory = |free: &str| {
            let text = format!("{ZONEINFO}{lists}").replace("pages free     10000", free);
            sum_zones(&text).free - (3000 - 98 - 540)
        };
        assert_eq!(memory("pages free 10000"), 10_000 - 1350 + 760);
        // What the zone lacks comes off them.
        assert_eq!(memory("pages free 1000"), 760 - 350);
        assert_eq!(memory("pages free 500"), 0);
    }

    #[test]
    fn a_boost_of_watermarks_is_not_kept_free() {
        // Marks are printed with the boost in them, in the second zone as in each.
        let boosted = ZONEINFO
            .replacen("min      900", "min      1924", 1)
            .replacen("high     1350", "high     2374", 1);
        let (first, second) = boosted.split_at(boosted.rfind("  pages free").expect("zones"));
        let boosted = format!(
            "{first}{}",
            second.replacen("boost    0", "boost    1024", 1)
        );
        assert_ne!(boosted, ZONEINFO);
        assert_eq!(sum_zones(&boosted), sum_zones(ZONEINFO));
    }

    #[test]
    fn swap_is_in_pages() {
        assert_eq!(
            parse_free_swap("MemFree: 100 kB\nSwapTotal: 80 kB\nSwapFree:        44 kB\n"),
            11
        );
        assert_eq!(parse_free_swap("MemFree: 100 kB\n"), 0);
    }

    #[test]
    fn stalls_of_all_zones_count() {
        let text = "allocstall_dma32 3\nallocstall_normal 4\npgscan_direct 100\n";
        assert_eq!(sum_stalls(text), 7);
    }
}
