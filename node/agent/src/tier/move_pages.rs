// SPDX-License-Identifier: GPL-2.0-only
//! Moving pages with move_pages(2), process by process. Works on every kernel; blind to heat.
//!
//! It finds pages through the processes that map them. So unmapped page cache is not seen, and what
//! several processes share is passed over: the kernel moves it only for a caller with CAP_SYS_NICE,
//! and it may be another cgroup's. Both are counted. A huge page is moved whole by its first page,
//! so a move may end up to 511 pages too far; what was really moved is read from `memory.tier_stat`
//! afterwards.
//!
//! Each process is searched from where the last search ended, once around at most. Of a move of
//! 8,000 pages in a cgroup of four processes each gives 2,000 first; what one has too few of, the
//! others give in a second round.

use crate::tier::address_space::{self, Area};
use crate::tier::engine::{Engine, Move, MoveOutcome, PATIENCE, Way, spread_pages};
use crate::tier::host::TierHost;
use crate::tier::sys;
use knobs::PageSize;
use nix::errno::Errno;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Pages of the kernel moved by one call, 32 MiB or more. Each call makes every CPU give back its pages in hand, so not
/// fewer.
const BATCH: usize = 8192;

const FULL: &str = "the node that pages go to has no memory left";

/// Least pages of the kernel asked of a process.
const SHARE: u64 = 512;

/// The engine that moves pages by move_pages(2).
pub struct MovePages {
    host: TierHost,
    /// Addresses at which the search in a process goes on.
    cursors: BTreeMap<(i32, Way), u64>,
}

/// A search for pages of one move, counted in the kernel's pages.
struct PageSearch<'a> {
    host: &'a TierHost,
    from: Vec<i32>,
    to: Vec<(u32, u64)>,
    until: Instant,
    stop: &'a AtomicBool,
    /// Pages that are there, but not for the call.
    hidden: u64,
    outcome: MoveOutcome,
}

impl MovePages {
    /// It needs nothing but the processes' files.
    pub fn new(host: &TierHost) -> MovePages {
        MovePages {
            host: host.clone(),
            cursors: BTreeMap::new(),
        }
    }

    fn carry_out(&mut self, wanted: &Move, stop: &AtomicBool) -> MoveOutcome {
        let host = self.host.clone();
        let page = PageSize::running();
        let to = spread_pages(&wanted.to, wanted.pages).into_iter();
        let pages = page.pages_of_units(wanted.pages);
        let mut search = PageSearch {
            host: &host,
            from: wanted.from.iter().map(|node| node.id as i32).collect(),
            to: to
                .map(|(node, pages)| (node, page.pages_of_units(pages)))
                .collect(),
            until: Instant::now() + PATIENCE,
            stop,
            hidden: 0,
            outcome: MoveOutcome::default(),
        };
        let pids = list_processes(&wanted.directory);
        let share = (pages / (pids.len() as u64).max(1)).max(SHARE);
        for most in [share, u64::MAX] {
            // The second round meets them all again.
            (search.outcome.shared, search.hidden) = (0, 0);
            for &pid in &pids {
                if search.pages_left() == 0 {
                    return search.outcome;
                }
                self.move_from_process(pid, wanted.way, most, &mut search);
            }
        }
        if search.pages_left() > 0 && search.outcome.why.is_none() {
            let balancing = self.host.read_text("proc/sys/kernel/numa_balancing");
            let why = explain_shortfall(search.hidden, balancing.is_some_and(|mode| mode != "0"));
            search.outcome.why = Some(why);
        }
        search.outcome
    }

    /// Moves `most` pages of a process, or as many as are left to move.
    fn move_from_process(&mut self, pid: i32, way: Way, most: u64, search: &mut PageSearch) {
        let proc = self.host.full_path(format!("proc/{pid}"));
        let (maps, pagemap) = match (
            fs::read_to_string(proc.join("maps")),
            File::open(proc.join("pagemap")),
        ) {
            (Ok(maps), Ok(pagemap)) => (maps, pagemap),
            // It is gone, or not ours to look at.
            (maps, pagemap) => {
                let why = maps.err().or(pagemap.err());
                search.note_refusal(pid, why.and_then(|why| why.raw_os_error()).unwrap_or(0));
                return;
            }
        };
        let cursor = self.cursors.entry((pid, way)).or_insert(0);
        let goal = search.outcome.moved.saturating_add(most);
        let mut batch = Vec::new();
        for window in address_space::windows_from(&address_space::movable_areas(&maps), *cursor) {
            let left = search
                .pages_left()
                .min(goal.saturating_sub(search.outcome.moved))
                .saturating_sub(batch.len() as u64);
            if left > 0 {
                match search.find_pages(pid, &pagemap, window, left) {
                    Ok(found) => batch.extend(found),
                    Err(why) => return search.note_refusal(pid, why as i32),
                }
                *cursor = window.end;
            }
            let full = batch.len() >= BATCH || left == 0 || batch.len() as u64 >= left;
            if full && !batch.is_empty() {
                let pages = std::mem::take(&mut batch);
                if let Err(why) = search.move_found(pid, &pages) {
                    return search.note_refusal(pid, why as i32);
                }
            }
            if search.pages_left() == 0 || search.outcome.moved >= goal {
                return;
            }
        }
        if !batch.is_empty() {
            if let Err(why) = search.move_found(pid, &batch) {
                search.note_refusal(pid, why as i32);
            }
        }
    }
}

impl PageSearch<'_> {
    /// Pages that are still to be moved; none when time is up.
    fn pages_left(&self) -> u64 {
        if self.stop.load(Ordering::Relaxed) || Instant::now() > self.until {
            return 0;
        }
        self.to.iter().map(|(_, pages)| pages).sum()
    }

    /// Up to `most` pages of a window that are on the nodes to leave.
    fn find_pages(
        &mut self,
        pid: i32,
        pagemap: &File,
        window: Area,
        most: u64,
    ) -> Result<Vec<u64>, Errno> {
        let found = address_space::present_pages(pagemap, window)
            .map_err(|why| Errno::from_raw(why.raw_os_error().unwrap_or(0)))?;
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let addresses: Vec<u64> = found.iter().map(|page| page.address).collect();
        let nodes = sys::nodes_of(pid, &addresses)?;
        let mut pages = Vec::new();
        for (page, node) in found.iter().zip(nodes) {
            if node == -(Errno::ENOENT as i32) {
                self.hidden += 1;
            }
            if !self.from.contains(&node) {
                continue;
            }
            if page.shared {
                self.outcome.shared += 1;
            } else if (pages.len() as u64) < most {
                pages.push(page.address);
            }
        }
        Ok(pages)
    }

    /// Moves pages to the node that is next to take some. What room it has is asked each time:
    /// another process may have filled it since the step began, or its memory is going offline, and
    /// the kernel complains in its log of a move to a full node.
    fn move_found(&mut self, pid: i32, pages: &[u64]) -> Result<(), Errno> {
        let mut rest = pages;
        while let (Some((node, takes)), false) = (self.to.first().copied(), rest.is_empty()) {
            let room = PageSize::running().pages_of_units(self.host.node_room(node));
            if room == 0 {
                self.outcome.why = Some(FULL.into());
                self.to.remove(0);
                continue;
            }
            let most = takes.min(room) as usize;
            let (now, later) = rest.split_at(rest.len().min(most));
            let called = sys::move_to(pid, now, node);
            // Some may have been moved before the call failed.
            let nodes = sys::nodes_of(pid, now)?;
            let moved = nodes.iter().filter(|at| **at == node as i32).count() as u64;
            self.outcome.moved += moved;
            self.outcome.failed += now.len() as u64 - moved;
            self.to[0].1 -= now.len() as u64;
            if self.to[0].1 == 0 {
                self.to.remove(0);
            }
            called?;
            rest = later;
        }
        Ok(())
    }

    /// Notes why pages of a process could not be moved. One that is gone has none.
    fn note_refusal(&mut self, pid: i32, error: i32) {
        let words = match Errno::from_raw(error) {
            Errno::ESRCH | Errno::ENOENT | Errno::EINVAL => return,
            Errno::UnknownErrno => return,
            Errno::EPERM => format!("process {pid} may not be touched: it takes CAP_SYS_PTRACE"),
            Errno::EACCES => format!(
                "process {pid} may not be touched, or its cpuset has no node of the tier pages go to"
            ),
            Errno::ENOMEM => FULL.into(),
            Errno::ENODEV => "the node that pages go to is gone".into(),
            other => format!("process {pid}: {}", other.desc()),
        };
        self.outcome.why = Some(words);
    }
}

/// Why there was less to be moved than wanted. In 6.1 the call does not see pages that NUMA
/// balancing has marked to learn who touches them, and untouched pages stay marked.
fn explain_shortfall(hidden: u64, balancing: bool) -> String {
    match balancing && hidden > 0 {
        true => format!(
            "NUMA balancing hides {hidden} pages from move_pages until they are touched: `sysctl kernel.numa_balancing=0`"
        ),
        false => "all that one process alone maps is moved: page cache that none maps stays (DAMON would move it)".into(),
    }
}

/// Results for pages of the kernel, in pages of 4 KiB as all else is.
fn to_4kib_pages(outcome: MoveOutcome) -> MoveOutcome {
    let page = PageSize::running();
    MoveOutcome {
        moved: page.units_of_pages(outcome.moved),
        failed: page.units_of_pages(outcome.failed),
        shared: page.units_of_pages(outcome.shared),
        ..outcome
    }
}

/// Processes of a cgroup. Those of cgroups below it are charged to it where the memory controller
/// ends with it.
fn list_processes(directory: &Path) -> Vec<i32> {
    let list = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
    // A process of another PID namespace shows as 0, which the call takes for oneself.
    let numbers = list.lines().filter_map(|line| line.parse().ok());
    let mut pids: Vec<i32> = numbers.filter(|pid| *pid > 0).collect();
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        if !entry.path().join("memory.numa_stat").exists() {
            pids.extend(list_processes(&entry.path()));
        }
    }
    pids
}

impl Engine for MovePages {
    fn name(&self) -> &'static str {
        "move_pages"
    }

    fn carry_out_moves(&mut self, moves: &[Move], stop: &AtomicBool) -> Vec<MoveOutcome> {
        let outcomes = moves
            .iter()
            .map(|wanted| to_4kib_pages(self.carry_out(wanted, stop)))
            .collect();
        let proc = self.host.full_path("proc");
        self.cursors
            .retain(|(pid, _), _| proc.join(pid.to_string()).exists());
        outcomes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_filled_up_meanwhile_takes_nothing() {
        let dir = tempfile::tempdir().expect("made");
        fs::create_dir(dir.path().join("proc")).expect("made");
        let full = "Node 1, zone Normal\n  pages free 5\n  high 5\n  present 100\n";
        fs::write(dir.path().join("proc/zoneinfo"), full).expect("written");
        let mut search = PageSearch {
            host: &TierHost::at_root(dir.path()),
            from: vec![0],
            to: vec![(1, 50), (2, 50)],
            until: Instant::now() + PATIENCE,
            stop: &AtomicBool::new(false),
            hidden: 0,
            outcome: MoveOutcome::default(),
        };
        // Of a process that is not there: it is not asked for.
        assert_eq!(search.move_found(-1, &[4096]), Ok(()));
        assert_eq!(search.pages_left(), 0, "neither that, nor one that is gone");
        assert_eq!(search.outcome.why.as_deref(), Some(FULL));
        assert_eq!((search.outcome.moved, search.outcome.failed), (0, 0));
    }

    #[test]
    fn what_stays_has_a_reason() {
        assert!(explain_shortfall(0, true).contains("page cache"));
        assert!(
            explain_shortfall(9, false).contains("page cache"),
            "some went meanwhile"
        );
        let why = explain_shortfall(9, true);
        assert!(
            why.contains("hides 9 pages") && why.contains("numa_balancing=0"),
            "{why}"
        );
    }
}
