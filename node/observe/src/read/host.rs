// SPDX-License-Identifier: GPL-2.0-only
//! The host's limits and dirty pages, from /proc and /sys.

pub use super::device::{read_devices, read_stack};

use super::values::{flat_value, pressure_total, read_number, read_text};
use crate::model::event::Limits;
use crate::model::host::{HostSettings, PressureTotals};
use crate::model::reclaim::Vmscan;
use knobs::PageSize;
use std::path::Path;

/// `/proc/vmstat`: limits as the kernel computes them now.
pub fn read_limits(root: &Path) -> Limits {
    limits_in(PageSize::running(), &read_text(&root.join("proc/vmstat")))
}

fn limits_in(pages: PageSize, vmstat: &str) -> Limits {
    let mut limits = Limits::default();
    for (key, value) in vmstat.lines().filter_map(|line| line.split_once(' ')) {
        let slot = match key {
            "nr_dirty" => &mut limits.dirty,
            "nr_writeback" => &mut limits.writeback,
            "nr_dirty_threshold" => &mut limits.thresh,
            "nr_dirty_background_threshold" => &mut limits.background,
            _ => continue,
        };
        *slot = pages.units_of_pages(value.parse().unwrap_or(0));
    }
    limits
}

/// Parameter `drain_seconds` of weir's module; 0 without it.
pub fn drain_seconds(root: &Path) -> u64 {
    let file = root.join("sys/module/weir/parameters/drain_seconds");
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

/// `/proc/vmstat`: what reclaim did so far.
pub fn read_vmscan(root: &Path) -> Vmscan {
    let text = read_text(&root.join("proc/vmstat"));
    let mut vmscan = Vmscan::default();
    for (name, number) in vmscan.named_counters() {
        *number = PageSize::running().units_of_pages(flat_value(&text, name));
    }
    vmscan
}

/// `/proc/pressure`: what tasks lost so far, nothing where the kernel does not count it.
pub fn read_pressure(root: &Path) -> PressureTotals {
    let read = |file: &str| read_text(&root.join("proc/pressure").join(file));
    let (io, memory) = (read("io"), read("memory"));
    PressureTotals {
        io_some: pressure_total(&io, "some"),
        io_full: pressure_total(&io, "full"),
        memory_some: pressure_total(&memory, "some"),
        memory_full: pressure_total(&memory, "full"),
    }
}

impl HostSettings {
    /// Reads the settings and memory of the machine with this root directory, as they are now.
    pub fn read(root: &Path) -> HostSettings {
        let setting = |name: &str| read_number(&root.join("proc/sys/vm").join(name));
        let memory = read_text(&root.join("proc/meminfo"));
        let bytes = |key: &str| {
            let line = memory.lines().find_map(|line| line.strip_prefix(key))?;
            let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
            Some(kib << 10)
        };
        HostSettings {
            dirty_bytes: setting("dirty_bytes"),
            dirty_ratio: setting("dirty_ratio"),
            background_bytes: setting("dirty_background_bytes"),
            background_ratio: setting("dirty_background_ratio"),
            dirtyable: PageSize::running()
                .units_of_pages(dirtyable_pages(&read_text(&root.join("proc/zoneinfo")))),
            memory: bytes("MemTotal:").unwrap_or(0),
            free: bytes("MemFree:").unwrap_or(0),
            available: bytes("MemAvailable:"),
            swap: bytes("SwapTotal:"),
        }
    }
}

/// Free pages and page cache, less what the kernel holds in reserve in each zone: its high
/// watermark and the most it protects from other zones' users. In pages of that kernel.
fn dirtyable_pages(zoneinfo: &str) -> u64 {
    let (mut free, mut cache, mut reserve) = (0u64, 0u64, 0u64);
    let (mut high, mut managed, mut protected) = (0, 0, 0);
    let mut zone_over = |high: &mut u64, managed: &mut u64, protected: &mut u64| {
        reserve += (*high + *protected).min(*managed);
        (*high, *managed, *protected) = (0, 0, 0);
    };
    for line in zoneinfo.lines() {
        let mut words = line.split_whitespace();
        let value = |words: &mut std::str::SplitWhitespace| {
            words
                .next()
                .and_then(|word| word.parse::<u64>().ok())
                .unwrap_or(0)
        };
        match words.next() {
            Some("Node") => zone_over(&mut high, &mut managed, &mut protected),
            Some("pages") if words.next() == Some("free") => free += value(&mut words),
            Some("high") => high = value(&mut words),
            Some("managed") => managed = value(&mut words),
            Some("protection:") => {
                let numbers = line
                    .split(|c: char| !c.is_ascii_digit())
                    .filter_map(|word| word.parse().ok());
                protected = numbers.max().unwrap_or(0);
            }
            // Counted for a node, printed with its first zone.
            Some("nr_inactive_file" | "nr_active_file") => cache += value(&mut words),
            _ => {}
        }
    }
    zone_over(&mut high, &mut managed, &mut protected);
    free.saturating_sub(reserve) + cache
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dirtyable_memory_is_free_and_cache_less_reserves() {
        let zones = "Node 0, zone      DMA\n  per-node stats\n      nr_inactive_file 100\n      nr_active_file 50\n  \
            pages free     1000\n        boost    0\n        min      5\n        low      7\n        high     9\n        managed  3000\n        \
            protection: (0, 400, 400)\nNode 0, zone    DMA32\n  pages free     5000\n        high     91\n        managed  9000\n        \
            protection: (0, 0, 0)\n      nr_free_pages 5000\n";
        assert_eq!(dirtyable_pages(zones), 6000 - 409 - 91 + 150);
    }

    #[test]
    fn limits_are_found_in_vmstat() {
        let text = "nr_dirty 5\nnr_writeback 6\nnr_writeback_temp 9\nnr_dirty_threshold 7\nnr_dirty_background_threshold 8\n";
        let limits = Limits {
            dirty: 5,
            writeback: 6,
            background: 8,
            thresh: 7,
        };
        assert_eq!(limits_in(PageSize::default(), text), limits);
        let large = PageSize::of_bytes(16 << 10).expect("a size");
        let limits = Limits {
            dirty: 20,
            writeback: 24,
            background: 32,
            thresh: 28,
        };
        assert_eq!(limits_in(large, text), limits, "in units of 4 KiB");
    }
}
