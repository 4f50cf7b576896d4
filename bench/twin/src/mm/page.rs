// SPDX-License-Identifier: GPL-2.0-only
//! Pages one by one, and the lists that reclaim goes through (`struct lruvec`).
//!
//! A page that comes is put at the head of a list; reclaim looks at the tail. There are four:
//! anonymous pages and those of files, *inactive*, where reclaim takes from, and *active*. A list
//! is linked through its pages, so a page leaves it wherever it stands.
//!
//! The host has one set of lists: what protects a cgroup from reclaim is refused where pages are
//! kept one by one.

/// Number of a page; [`NONE`] is none.
pub type Pfn = u32;
/// Stands for no page.
pub const NONE: Pfn = u32::MAX;

/// Of [`Page::owner`]: it is of a mapping, not of a file.
pub const ANON: u32 = 1 << 31;

/// Lists by number: `LRU_INACTIVE_ANON` and so on.
pub const INACTIVE_ANON: usize = 0;
/// Anonymous pages that were used more than once.
pub const ACTIVE_ANON: usize = 1;
/// Pages of files that reclaim looks at.
pub const INACTIVE_FILE: usize = 2;
/// Pages of files that were used more than once.
pub const ACTIVE_FILE: usize = 3;
/// On no list: reclaim has isolated it, or it is being read.
const OFF: u8 = 4;

/// Flags of a page (`enum pageflags`, and the accessed bit of its page table entry).
pub mod flag {
    /// Its task has used it since it was last looked at.
    pub const YOUNG: u8 = 1;
    /// It was found used once, or written to (`PG_referenced`).
    pub const REFERENCED: u8 = 2;
    /// On its way to a disk (`PG_writeback`).
    pub const WRITEBACK: u8 = 4;
    /// To be taken as soon as it is written (`PG_reclaim`).
    pub const RECLAIM: u8 = 8;
    /// Its content is on the swap disk, too, or on its way there.
    pub const SWAPCACHE: u8 = 16;
    /// In no page table: its task would have to fault it in.
    pub const UNMAPPED: u8 = 32;
    /// Forgotten by its owner while it was in writeback or isolated.
    pub const ORPHAN: u8 = 64;
}

/// A page of memory (`struct folio`).
#[derive(Clone, Copy, Debug)]
pub struct Page {
    prev: Pfn,
    next: Pfn,
    /// Index of a file, or of a mapping with [`ANON`].
    pub owner: u32,
    /// Index of the page within its owner.
    pub index: u32,
    /// Bits of its state, of [`flag`].
    pub flags: u8,
    list: u8,
}

impl Page {
    /// `true` if all these flags are set.
    pub fn has_flags(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }

    /// `true` if it is of a mapping.
    pub fn is_anon(&self) -> bool {
        self.owner & ANON != 0
    }
}

#[derive(Clone, Copy, Debug)]
struct List {
    head: Pfn,
    tail: Pfn,
    length: u64,
}

/// All pages and their lists.
#[derive(Clone, Debug)]
pub struct Lruvec {
    pages: Vec<Page>,
    unused: Vec<Pfn>,
    lists: [List; 4],
}

impl Default for Lruvec {
    fn default() -> Lruvec {
        let empty = List {
            head: NONE,
            tail: NONE,
            length: 0,
        };
        Lruvec {
            pages: Vec::new(),
            unused: Vec::new(),
            lists: [empty; 4],
        }
    }
}

impl Lruvec {
    /// A new page of `owner`, on no list.
    pub fn alloc_page(&mut self, owner: u32, index: u64, flags: u8) -> Pfn {
        let page = Page {
            prev: NONE,
            next: NONE,
            owner,
            index: index as u32,
            flags,
            list: OFF,
        };
        if let Some(pfn) = self.unused.pop() {
            self.pages[pfn as usize] = page;
            return pfn;
        }
        self.pages.push(page);
        self.pages.len() as Pfn - 1
    }

    /// A page is no more; it is on no list.
    pub fn free_page(&mut self, pfn: Pfn) {
        debug_assert!(!self.is_listed(pfn), "freed while on a list");
        self.unused.push(pfn);
    }

    /// The page of a number.
    pub fn page(&self, pfn: Pfn) -> &Page {
        &self.pages[pfn as usize]
    }

    /// The page, to be changed.
    pub fn page_mut(&mut self, pfn: Pfn) -> &mut Page {
        &mut self.pages[pfn as usize]
    }

    /// Pages on a list.
    pub fn list_length(&self, list: usize) -> u64 {
        self.lists[list].length
    }

    /// On which list a page is.
    pub fn list_of(&self, pfn: Pfn) -> usize {
        usize::from(self.page(pfn).list)
    }

    /// `true` if it is on any list.
    pub fn is_listed(&self, pfn: Pfn) -> bool {
        self.page(pfn).list != OFF
    }

    /// The page that reclaim takes next from a list.
    pub fn list_tail(&self, list: usize) -> Option<Pfn> {
        Some(self.lists[list].tail).filter(|tail| *tail != NONE)
    }

    /// Puts a page that is on no list at the head of one.
    pub fn add_to_head(&mut self, pfn: Pfn, list: usize) {
        debug_assert!(!self.is_listed(pfn), "on two lists");
        let head = std::mem::replace(&mut self.lists[list].head, pfn);
        let page = self.page_mut(pfn);
        (page.prev, page.next, page.list) = (NONE, head, list as u8);
        match head {
            NONE => self.lists[list].tail = pfn,
            head => self.page_mut(head).prev = pfn,
        }
        self.lists[list].length += 1;
    }

    /// Puts it at the tail.
    pub fn add_to_tail(&mut self, pfn: Pfn, list: usize) {
        debug_assert!(!self.is_listed(pfn), "on two lists");
        let tail = std::mem::replace(&mut self.lists[list].tail, pfn);
        let page = self.page_mut(pfn);
        (page.prev, page.next, page.list) = (tail, NONE, list as u8);
        match tail {
            NONE => self.lists[list].head = pfn,
            tail => self.page_mut(tail).next = pfn,
        }
        self.lists[list].length += 1;
    }

    /// Takes a page off the list it is on.
    pub fn remove_page(&mut self, pfn: Pfn) {
        let Page {
            prev, next, list, ..
        } = *self.page(pfn);
        let list = usize::from(list);
        match prev {
            NONE => self.lists[list].head = next,
            prev => self.page_mut(prev).next = next,
        }
        match next {
            NONE => self.lists[list].tail = prev,
            next => self.page_mut(next).prev = prev,
        }
        self.page_mut(pfn).list = OFF;
        self.lists[list].length -= 1;
    }

    /// `true` if an inactive list is to be filled from its active one: the larger memory is, the
    /// smaller a part of it is inactive, 1 : √(10 × GiB) (`inactive_is_low`).
    pub fn inactive_is_low(&self, inactive: usize) -> bool {
        let (cold, hot) = (self.list_length(inactive), self.list_length(inactive + 1));
        let gib = (cold + hot) >> 18;
        let ratio = if gib > 0 { (10 * gib).isqrt() } else { 1 };
        cold * ratio < hot
    }

    /// Each list holds as many pages as it says.
    #[cfg(any(test, debug_assertions))]
    pub fn check_lists(&self) {
        for (number, list) in self.lists.iter().enumerate() {
            let (mut at, mut length) = (list.head, 0);
            while at != NONE {
                assert_eq!(self.list_of(at), number);
                at = self.page(at).next;
                length += 1;
            }
            assert_eq!(length, list.length, "list {number}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_leaves_a_list_wherever_it_stands() {
        let mut lru = Lruvec::default();
        let pages: Vec<Pfn> = (0..5).map(|index| lru.alloc_page(ANON, index, 0)).collect();
        for pfn in &pages[..4] {
            lru.add_to_head(*pfn, INACTIVE_ANON);
        }
        lru.add_to_tail(pages[4], INACTIVE_ANON);
        for gone in [2, 4, 3] {
            lru.remove_page(pages[gone]);
            lru.check_lists();
        }
        assert_eq!(lru.list_tail(INACTIVE_ANON), Some(pages[0]));
        lru.remove_page(pages[0]);
        lru.remove_page(pages[1]);
        assert_eq!(
            (lru.list_tail(INACTIVE_ANON), lru.list_length(INACTIVE_ANON)),
            (None, 0)
        );
        lru.free_page(pages[1]);
        assert_eq!(lru.alloc_page(0, 7, 0), pages[1], "used again");
    }

    #[test]
    fn of_more_memory_a_smaller_part_is_inactive() {
        let mut lru = Lruvec::default();
        for index in 0..9 {
            let pfn = lru.alloc_page(0, index, 0);
            lru.add_to_head(
                pfn,
                if index < 4 {
                    INACTIVE_FILE
                } else {
                    ACTIVE_FILE
                },
            );
        }
        assert!(lru.inactive_is_low(INACTIVE_FILE));
        assert!(!lru.inactive_is_low(INACTIVE_ANON), "as much as none");
    }
}
