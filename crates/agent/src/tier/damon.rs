// SPDX-License-Identifier: GPL-2.0-only
//! Moving pages with DAMON, the kernel's own watcher of memory, which tells cold pages from hot ones.
//!
//! A step begins with a pass over some physical addresses that forgets that their pages were touched. After `look` (2 s) it goes through
//! them slice by slice, and moves down what nobody has touched since, then moves up what somebody has, until there is enough. One kdamond for each tier
//! that pages leave; in it a scheme for each cgroup and range of addresses, with filters on address, cgroup and touch.
//!
//! Example: a cgroup is to give 34 MB of the fast tier. [`sweep`] has them looked for in 270 MB of its addresses. The first slice is 68 MB
//! and has 8 MB of cold pages in it; the next one is 52 MB, as 26 are wanting; and so on. No slice is more than twice what is wanting, so whatever
//! is in it, not more than twice of that is moved: the plan asks for half of a difference, so nothing overshoots.
//!
//! Why not let DAMON run by itself with its quotas? A quota counts what is looked at and not what is moved, in the first
//! period 6.12 forgets it, and whoever is killed leaves it running. A slice bounds what can be moved, killed or not.
//!
//! What it moves and move_pages(2) does not: page cache that nobody maps, and pages that several processes share, by who is
//! charged for them. A huge page is hot if any part of it is. When a cgroup has no cold page in a whole tier (or no hot one
//! below), what is there is moved all the same: its limit says so.

mod admin;
mod scheme;
mod sweep;

use crate::tier::engine::{Engine, Move, Outcome, PATIENCE, Way, spread};
use crate::tier::host::{Host, PAGE};
use admin::Admin;
use scheme::{Pace, Pass, Scheme};
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};
use sweep::Sweep;

/// Pages looked at for one cgroup in the first step, 4 GiB; then as many as take about a second.
const FIRST: u64 = 1 << 20;

/// Cgroups of one tier and step at most; those with most to move first.
const SEARCHES: usize = 16;

/// Slices end after this, and the next step goes on from there.
const SLICES: Duration = Duration::from_secs(15);

/// Passes that may be repeated are, until they are seen to be done.
const OFTEN: Pace = Pace {
    sample: 50_000,
    apply: 50_000,
};

/// A page that a pass has looked at would be cold for the next: it comes late enough to be seen to be done before a second one.
const ONCE: Pace = Pace {
    sample: 50_000,
    apply: 200_000,
};

/// The engine.
pub struct Damon {
    admin: Admin,
    host: Host,
    look: Duration,
    promotes: bool,
    sweeps: BTreeMap<Key, Sweep>,
    /// Pages to look at for one cgroup and step at most.
    most: u64,
    broken: Option<String>,
}

/// A search for pages of one move.
struct Search {
    /// The move's place in the step.
    at: usize,
    way: Way,
    pass: Pass,
    memcg: String,
    to: u32,
    /// Addresses that are left to go through.
    ranges: VecDeque<(u64, u64)>,
    /// Pages wanting.
    wanting: u64,
    /// Of pages looked at, this part is expected to be fit, but not less than half.
    share: f64,
    moved: u64,
    looked: u64,
}

impl Search {
    fn scheme(&self, range: (u64, u64), pass: Pass) -> Scheme {
        Scheme {
            memcg: self.memcg.clone(),
            to: self.to,
            way: self.way,
            range,
            pass,
        }
    }

    /// The next addresses to go through: at most twice the pages wanting.
    fn slice(&mut self) -> Option<(u64, u64)> {
        let pages = (self.wanting as f64 / self.share.max(0.5)) as u64;
        if pages == 0 {
            return None;
        }
        let (start, end) = self.ranges.pop_front()?;
        let middle = end.min(start + pages * PAGE);
        if middle < end {
            self.ranges.push_front((middle, end));
        }
        self.looked += (middle - start) / PAGE;
        Some((start, middle))
    }

    fn found(&mut self, pages: u64) {
        self.moved += pages;
        self.wanting = self.wanting.saturating_sub(pages);
    }
}

/// Whose sweep it is.
type Key = (PathBuf, usize, Way);

fn key(wanted: &Move) -> Key {
    (wanted.directory.clone(), wanted.tier, wanted.way)
}

impl Damon {
    /// Finds out what this kernel's DAMON can do.
    ///
    /// # Errors
    /// It cannot be used, and why.
    pub fn new(host: &Host, state: &Path, look: Duration) -> Result<Damon, String> {
        let admin = Admin::new(host, state)?;
        admin.claim(1)?;
        let promotes = abilities(&admin);
        admin.give_back(1)?;
        Ok(Damon {
            admin,
            host: host.clone(),
            look,
            promotes: promotes?,
            sweeps: BTreeMap::new(),
            most: FIRST,
            broken: None,
        })
    }

    /// Whether it can move hot pages up, too.
    pub fn promotes(&self) -> bool {
        self.promotes
    }

    /// What is to be looked for, by the tier that pages leave.
    fn plan(&mut self, moves: &[Move]) -> Result<BTreeMap<usize, Tier>, String> {
        let mut tiers: BTreeMap<usize, Tier> = BTreeMap::new();
        for (at, wanted) in moves.iter().enumerate() {
            let Some((to, room)) = spread(&wanted.to, wanted.pages).first().copied() else {
                continue;
            };
            let tier = match tiers.entry(wanted.tier) {
                std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
                std::collections::btree_map::Entry::Vacant(entry) => {
                    entry.insert(Tier::of(&self.host, wanted)?)
                }
            };
            let sweep = self
                .sweeps
                .entry(key(wanted))
                .or_insert_with(|| Sweep::new(wanted.held, tier.capacity));
            let pass = match wanted.way {
                _ if sweep.is_fruitless() => Pass::All,
                Way::Up => Pass::Hot,
                Way::Down => Pass::Cold,
            };
            let ranges = sweep.next(&tier.ranges, room, self.most);
            tier.searches.push(Search {
                at,
                way: wanted.way,
                pass,
                memcg: wanted.cgroup.to_string(),
                to,
                ranges: ranges.into(),
                wanting: room,
                share: sweep.share(),
                moved: 0,
                looked: 0,
            });
        }
        for tier in tiers.values_mut() {
            tier.searches
                .sort_by_key(|search| std::cmp::Reverse(search.wanting));
            tier.searches.truncate(SEARCHES);
        }
        Ok(tiers)
    }

    fn carry(
        &mut self,
        moves: &[Move],
        outcomes: &mut [Outcome],
        stop: &AtomicBool,
    ) -> Result<(), String> {
        let mut tiers: Vec<Tier> = self.plan(moves)?.into_values().collect();
        // One kdamond each; in 6.12 a context has one target.
        self.admin.claim(tiers.len())?;
        let done = self.passes(moves, &mut tiers, stop);
        let given = self.admin.give_back(tiers.len());
        for tier in &tiers {
            for search in &tier.searches {
                outcomes[search.at].moved = search.moved;
                let wanted = &moves[search.at];
                if let Some(sweep) = self.sweeps.get_mut(&key(wanted)) {
                    sweep.learn(search.looked, search.moved, wanted.pages, tier.capacity);
                }
            }
        }
        for (wanted, outcome) in moves.iter().zip(outcomes) {
            let sweep = self.sweeps.get(&key(wanted));
            outcome.searching = sweep.is_some_and(|sweep| !sweep.is_fruitless());
        }
        done.and(given)
    }

    fn passes(
        &mut self,
        moves: &[Move],
        tiers: &mut [Tier],
        stop: &AtomicBool,
    ) -> Result<(), String> {
        for (index, tier) in tiers.iter_mut().enumerate() {
            tier.drop_gone(moves);
            let of = |search: &Search| -> Vec<Scheme> {
                let ranges = search.ranges.iter();
                ranges
                    .map(|range| search.scheme(*range, Pass::Mark))
                    .collect()
            };
            let schemes: Vec<Scheme> = tier.searches.iter().flat_map(of).collect();
            let began = Instant::now();
            self.pass(index, &tier.ranges, &schemes, &OFTEN, stop)?;
            self.pace(began.elapsed());
        }
        let until = Instant::now() + self.look;
        while Instant::now() < until && !stop.load(Ordering::Relaxed) {
            sleep(Duration::from_millis(50));
        }
        for (way, pace) in [(Way::Down, ONCE), (Way::Up, OFTEN)] {
            for (index, tier) in tiers.iter_mut().enumerate() {
                let until = Instant::now() + SLICES;
                while Instant::now() < until {
                    tier.drop_gone(moves);
                    if !self.slice(index, tier, way, &pace, stop)? {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Goes through the next slice of each search; whether there was any.
    fn slice(
        &mut self,
        index: usize,
        tier: &mut Tier,
        way: Way,
        pace: &Pace,
        stop: &AtomicBool,
    ) -> Result<bool, String> {
        let searches = tier.searches.iter_mut().filter(|search| search.way == way);
        let (mut searches, schemes): (Vec<&mut Search>, Vec<Scheme>) = searches
            .filter_map(|search| {
                let range = search.slice()?;
                let scheme = search.scheme(range, search.pass);
                Some((search, scheme))
            })
            .unzip();
        let moved = self.pass(index, &tier.ranges, &schemes, pace, stop)?;
        for (search, bytes) in searches.iter_mut().zip(&moved) {
            search.found(bytes / PAGE);
        }
        Ok(!moved.is_empty())
    }

    /// One pass of these schemes; the bytes that each has moved.
    fn pass(
        &self,
        index: usize,
        ranges: &[(u64, u64)],
        schemes: &[Scheme],
        pace: &Pace,
        stop: &AtomicBool,
    ) -> Result<Vec<u64>, String> {
        if schemes.is_empty() || stop.load(Ordering::Relaxed) {
            return Ok(Vec::new());
        }
        scheme::set_up(&self.admin, index, ranges, schemes, pace)?;
        self.admin.on(index)?;
        let moved = self.wait(index, schemes.len(), stop);
        self.admin.off(index)?;
        moved
    }

    /// Waits until each scheme was applied; the bytes that each has moved.
    fn wait(&self, index: usize, schemes: usize, stop: &AtomicBool) -> Result<Vec<u64>, String> {
        let until = Instant::now() + PATIENCE;
        let stat = |at: usize, name: &str| -> Result<u64, String> {
            let file = format!("{index}/contexts/0/schemes/{at}/stats/{name}");
            let text = self.admin.read(&file)?;
            text.parse()
                .map_err(|_| format!("{file} is `{text}`, not a number"))
        };
        loop {
            self.admin
                .write(format!("{index}/state"), "update_schemes_stats")?;
            let mut waiting = false;
            for at in 0..schemes {
                waiting |= stat(at, "nr_tried")? == 0;
            }
            let late = Instant::now() > until || stop.load(Ordering::Relaxed);
            if !waiting || late {
                return (0..schemes).map(|at| stat(at, "sz_applied")).collect();
            }
            if !self.admin.is_on(index) {
                return Err("a kdamond ended by itself".into());
            }
            sleep(Duration::from_millis(20));
        }
    }

    /// Looks at fewer pages at a time if a pass took long, at more if it did not.
    fn pace(&mut self, took: Duration) {
        if took > Duration::from_secs(2) {
            self.most = (self.most / 2).max(1 << 14);
        } else if took < Duration::from_millis(500) {
            self.most = self.most.saturating_mul(2).min(1 << 28);
        }
    }
}

/// Ends what an agent that was killed left behind, whatever the next one moves pages by.
pub fn take_over(host: &Host, state: &Path) {
    // Where there is no DAMON, or somebody else's, nothing of an agent's is left.
    drop(Admin::new(host, state));
}

/// A tier that pages leave.
struct Tier {
    ranges: Vec<(u64, u64)>,
    capacity: u64,
    searches: Vec<Search>,
}

impl Tier {
    fn of(host: &Host, wanted: &Move) -> Result<Tier, String> {
        let mut ranges = Vec::new();
        for node in &wanted.from {
            ranges.extend(host.addresses(node.id).map_err(|why| format!("{why:#}"))?);
        }
        ranges.sort_unstable();
        Ok(Tier {
            capacity: ranges.iter().map(|(start, end)| (end - start) / PAGE).sum(),
            ranges,
            searches: Vec::new(),
        })
    }

    /// Leaves out cgroups that are gone meanwhile: the kernel would refuse the others with them.
    fn drop_gone(&mut self, moves: &[Move]) {
        self.searches
            .retain(|search| moves[search.at].directory.is_dir());
    }
}

/// Looks what one claimed kdamond takes; whether it promotes.
fn abilities(admin: &Admin) -> Result<bool, String> {
    admin.write("0/contexts/nr_contexts", 1)?;
    if admin.write("0/contexts/0/operations", "paddr").is_err() {
        return Err("this kernel's does not watch physical memory (CONFIG_DAMON_PADDR)".into());
    }
    let scheme = "0/contexts/0/schemes/0";
    admin.write("0/contexts/0/schemes/nr_schemes", 1)?;
    let takes = |file: &str, value: &str| admin.write(format!("{scheme}/{file}"), value).is_ok();
    if !takes("action", "migrate_cold") {
        return Err("this kernel's does not move pages (6.11 and later do)".into());
    }
    if !admin.has(format!("{scheme}/filters")) || !takes("filters/nr_filters", "1") {
        return Err("this kernel's has no filters (6.3 and later have)".into());
    }
    for filter in ["addr", "memcg", "young"] {
        if !takes("filters/0/type", filter) {
            return Err(format!("this kernel's has no filter `{filter}`"));
        }
    }
    Ok(takes("action", "migrate_hot"))
}

impl Engine for Damon {
    fn name(&self) -> &'static str {
        "damon"
    }

    fn step(&mut self, moves: &[Move], stop: &AtomicBool) -> Vec<Outcome> {
        let mut outcomes = vec![Outcome::default(); moves.len()];
        if moves.is_empty() {
            return outcomes;
        }
        if let Err(why) = self.carry(moves, &mut outcomes, stop) {
            // Where a cgroup went between two looks, the next step goes without it.
            if moves.iter().all(|wanted| wanted.directory.is_dir()) {
                self.broken = Some(why.clone());
            }
            outcomes
                .iter_mut()
                .for_each(|outcome| outcome.why = Some(why.clone()));
        }
        self.sweeps
            .retain(|(directory, _, _), _| directory.is_dir());
        outcomes
    }

    fn broken(&self) -> Option<String> {
        self.broken.clone()
    }
}
