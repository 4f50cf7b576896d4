// SPDX-License-Identifier: GPL-2.0-only
//! Finding pages of a process: its mappings, and which pages of them are there.

use knobs::PageSize;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// A page is in memory.
const PRESENT: u64 = 1 << 63;

/// No other process maps it.
const EXCLUSIVE: u64 = 1 << 56;

/// Bytes of addresses that are looked up at once.
pub const WINDOW: u64 = 16 << 20;

/// A range of addresses that may have pages to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// First address of the range.
    pub start: u64,
    /// First address behind the last page.
    pub end: u64,
}

/// A page that is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PresentPage {
    /// Address at which the process sees it.
    pub address: u64,
    /// `true` if others map it too.
    pub shared: bool,
}

/// Mappings of `/proc/PID/maps` that may have pages to move. Left out are those without access
/// rights, which are large and empty, the kernel's own, devices', and those of huge pages that are
/// set aside (hugetlb).
pub fn movable_areas(maps: &str) -> Vec<Area> {
    maps.lines().filter_map(parse_area).collect()
}

fn parse_area(line: &str) -> Option<Area> {
    let mut words = line.split_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let access = words.next()?;
    let name = words.nth(3).unwrap_or("");
    let movable = match name {
        "[vdso]" | "[vvar]" | "[vsyscall]" | "[uprobes]" => false,
        _ if name.starts_with("/anon_hugepage") => false,
        _ if name.starts_with("/dev/") => {
            name.starts_with("/dev/shm/") || name.starts_with("/dev/zero")
        }
        _ => true,
    };
    let number = |text| u64::from_str_radix(text, 16).ok();
    (movable && !access.starts_with("---")).then_some(Area {
        start: number(start)?,
        end: number(end)?,
    })
}

/// The areas cut into windows, beginning at an address and ending before it: once around.
pub fn windows_from(areas: &[Area], from: u64) -> Vec<Area> {
    let mut windows = Vec::new();
    let parts = |low: u64, high: u64| {
        areas.iter().filter_map(move |area| {
            let (start, end) = (area.start.max(low), area.end.min(high));
            (start < end).then_some(Area { start, end })
        })
    };
    for mut area in parts(from, u64::MAX).chain(parts(0, from)) {
        while area.start < area.end {
            let end = area.end.min(area.start + WINDOW);
            windows.push(Area { end, ..area });
            area.start = end;
        }
    }
    windows
}

/// Pages of a window that are in memory.
///
/// # Errors
/// The process is gone.
pub fn present_pages(pagemap: &File, window: Area) -> std::io::Result<Vec<PresentPage>> {
    let page = PageSize::running().bytes();
    let pages = (window.end - window.start) / page;
    let mut entries = vec![0; pages as usize * 8];
    let length = pagemap.read_at(&mut entries, window.start / page * 8)?;
    let entries = entries[..length].chunks_exact(8);
    let found = entries.enumerate().filter_map(|(at, entry)| {
        let entry = u64::from_ne_bytes(entry.try_into().ok()?);
        (entry & PRESENT != 0).then_some(PresentPage {
            address: window.start + at as u64 * page,
            shared: entry & EXCLUSIVE == 0,
        })
    });
    Ok(found.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use knobs::PAGE;

    #[test]
    fn what_cannot_have_pages_to_move_is_left_out() {
        let maps = "\
1000-3000 rw-p 00000000 00:00 0
4000-5000 ---p 00000000 00:00 0
6000-7000 r-xp 00000000 fe:00 77      /usr/bin/a program
8000-9000 rw-s 00000000 00:05 12      /dev/nvidia0
a000-b000 rw-s 00000000 00:05 13      /dev/shm/segment
c000-d000 r-xp 00000000 00:00 0       [vdso]
e000-f000 rw-s 00000000 00:0e 9       /anon_hugepage (deleted)
garbage
";
        let found: Vec<u64> = movable_areas(maps).iter().map(|area| area.start).collect();
        assert_eq!(found, [0x1000, 0x6000, 0xa000]);
    }

    #[test]
    fn windows_go_once_around() {
        let areas = [
            Area {
                start: 0,
                end: WINDOW + 2 * PAGE,
            },
            Area {
                start: 1 << 30,
                end: (1 << 30) + PAGE,
            },
        ];
        let starts = |from| -> Vec<u64> {
            windows_from(&areas, from)
                .iter()
                .map(|window| window.start)
                .collect()
        };
        assert_eq!(starts(0), [0, WINDOW, 1 << 30]);
        assert_eq!(starts(PAGE), [PAGE, WINDOW + PAGE, 1 << 30, 0]);
        let pages: u64 = windows_from(&areas, 5 * PAGE)
            .iter()
            .map(|window| (window.end - window.start) / PAGE)
            .sum();
        assert_eq!(pages, WINDOW / PAGE + 3);
    }

    #[test]
    fn this_process_has_pages() {
        let page = PageSize::running().bytes();
        let memory = vec![7_u8; 8 * page as usize];
        let start = (memory.as_ptr() as u64).next_multiple_of(page);
        let pagemap = File::open("/proc/self/pagemap").expect("its own");
        let window = Area {
            start,
            end: start + 4 * page,
        };
        let found = present_pages(&pagemap, window).expect("read");
        assert_eq!(found.len(), 4, "all were written");
        assert!(found.iter().all(|page| !page.shared), "{found:?}");
    }
}
