// SPDX-License-Identifier: GPL-2.0-only
//! Moving pages with DAMON, the kernel's own watcher of memory, which tells cold pages from hot
//! ones.
//!
//! A page untouched for `look` (2 s) is cold; one touched within a quarter of that is hot; what is
//! neither stays. So a page that is read twice a second is taken for hot seven times as often as
//! one that is read every five seconds, and for cold some forty times less often; a single bound
//! would take a third of the second kind for hot.
//!
//! A step begins with a pass over some physical addresses that forgets that their pages were
//! touched. After `look` it goes through them slice by slice, and moves down what has not been
//! touched since, until there is enough; then the same upwards. One kdamond for each tier that
//! pages leave; in it a scheme for each cgroup and range of addresses, with filters on address,
//! cgroup and touch.
//!
//! Example: a cgroup is to give 34 MB of the fast tier. [`sweep`] finds 68 MB of its pages,
//! whatever lies between them. They are the first slice, and 26 MB of them are cold; the next one
//! has 16 MB, as 8 are wanting; and so on. No slice has more than twice what is wanting, so not
//! more than twice of that is moved: the plan asks for half of a difference, so nothing overshoots.
//! Nor has it more than took about a second last time, or 1 GiB: the kernel isolates and moves it
//! in one go, and cannot be told to stop meanwhile.
//!
//! Where a cgroup's cold pages change places with its hot ones, a slice has no more than is
//! wanting, and no more go up than went down: else that would take it off its budget, the way back
//! would be another move, and so on for ever.
//!
//! Why not let DAMON run by itself with its quotas? A quota counts what is looked at and not what
//! is moved, in the first period 6.12 forgets it, and a killed agent leaves it running. A slice
//! bounds what can be moved, killed or not.
//!
//! What it moves and move_pages(2) does not: unmapped page cache, and pages that several processes
//! share, by who is charged for them. A huge page is hot if any part of it is. When a cgroup has no
//! cold page in a whole tier (or no hot one below), what is there is moved all the same: its limit
//! says so.

mod admin;
mod owners;
mod pass;
mod sample;
mod scheme;
mod search;
mod sweep;

use crate::tier::engine::{Engine, Heat, Move, MoveOutcome, Watched, Way, limit_exchanges};
use crate::tier::host::{PAGE, Tier, TierHost};
use admin::Admin;
use owners::PageOwners;
use pass::{Dose, Fault, KdamondJob, OFTEN, run, run_again, set_up, single_pace};
use sample::Sample;
use scheme::Pace;
use search::{Searches, address_ranges};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};
use sweep::Sweep;

/// Pages walked over for one cgroup: 4 GiB in the first step.
const WALK: Dose = Dose::new(1 << 20, 1 << 14, 1 << 28);

/// Pages of cgroups in the slices of a pass: 256 MiB in the first one.
const SLICE: Dose = Dose::new(1 << 16, 1 << 10, 1 << 18);

/// Slices end after this, and the next step goes on from there.
const SLICES: Duration = Duration::from_secs(15);

/// The engine that moves pages by DAMON.
pub struct Damon {
    admin: Admin,
    host: TierHost,
    owners: PageOwners,
    look: Duration,
    promotes: bool,
    sweeps: BTreeMap<Key, Sweep>,
    walk: Dose,
    slice: Dose,
    /// Number of samples taken.
    round: u64,
    broken: Option<String>,
}

/// Cgroup, tier and direction of a sweep.
type Key = (PathBuf, usize, Way);

fn sweep_key(wanted: &Move) -> Key {
    (wanted.directory.clone(), wanted.tier, wanted.way)
}

impl Damon {
    /// Finds out what this kernel's DAMON can do.
    ///
    /// # Errors
    /// It cannot be used, and why.
    pub fn new(host: &TierHost, state: &Path, look: Duration) -> Result<Damon, String> {
        let admin = Admin::new(host, state)?;
        admin.claim_kdamonds(1)?;
        let promotes = scheme::check_abilities(&admin);
        admin.release_kdamonds(1)?;
        Ok(Damon {
            admin,
            host: host.clone(),
            owners: PageOwners::new(host)?,
            look,
            promotes: promotes?,
            sweeps: BTreeMap::new(),
            walk: WALK,
            slice: SLICE,
            round: 0,
            broken: None,
        })
    }

    /// Returns whether it can move hot pages up, too.
    pub fn can_promote(&self) -> bool {
        self.promotes
    }

    /// Carries out all moves of one direction, each tier's with a kdamond.
    fn carry_out(
        &mut self,
        way: Way,
        moves: &[Move],
        outcomes: &mut [MoveOutcome],
        stop: &AtomicBool,
    ) -> Result<(), Fault> {
        let began = Instant::now();
        let mut tiers: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, wanted) in moves.iter().enumerate().filter(|(_, one)| one.way == way) {
            self.sweeps.entry(sweep_key(wanted)).or_default();
            tiers.entry(wanted.tier).or_default().push(at);
        }
        let mut searches = Vec::new();
        for places in tiers.into_values() {
            let with_sweep = |at: usize| (at, &moves[at], &self.sweeps[&sweep_key(&moves[at])]);
            let wanted = places.into_iter().map(with_sweep).collect();
            searches.push(Searches::new(
                &self.host,
                &self.owners,
                wanted,
                self.walk.pages(),
            )?);
        }
        searches.retain(|tier| !tier.all.is_empty());
        if searches.is_empty() {
            return Ok(());
        }
        // One kdamond each; in 6.12 a context has one target.
        self.admin.claim_kdamonds(searches.len())?;
        let done = self.run_passes(way, moves, &mut searches, began, stop);
        let given = self.admin.release_kdamonds(searches.len());
        for search in searches.iter().flat_map(|tier| &tier.all) {
            let wanted = &moves[search.at];
            let sweep = self.sweeps.entry(sweep_key(wanted)).or_default();
            // What was not looked at in time teaches nothing.
            if done.is_ok() {
                search.teach_sweep(wanted, sweep);
            }
            outcomes[search.at].moved = search.moved;
            outcomes[search.at].searching = !sweep.is_fruitless();
        }
        given.map_err(Fault::from).and(done)
    }

    fn run_passes(
        &mut self,
        way: Way,
        moves: &[Move],
        tiers: &mut [Searches],
        began: Instant,
        stop: &AtomicBool,
    ) -> Result<(), Fault> {
        let jobs = tiers.iter_mut().enumerate().map(|(kdamond, tier)| {
            tier.drop_gone(moves);
            KdamondJob {
                kdamond,
                ranges: &tier.ranges,
                schemes: tier
                    .all
                    .iter()
                    .flat_map(|search| search.marking_schemes())
                    .collect(),
            }
        });
        let marked = run(&self.admin, &jobs.collect::<Vec<_>>(), &OFTEN, stop);
        self.walk.adapt_to(self.walk.pages(), began.elapsed());
        marked?;
        let (time, pace) = match way {
            Way::Down => (self.look, single_pace(tiers.len())),
            Way::Up => (self.look / 4, OFTEN),
        };
        pause_until_stop(time, stop);
        let until = Instant::now() + SLICES;
        while Instant::now() < until && self.run_slices(moves, tiers, &pace, stop)? {}
        Ok(())
    }

    /// Goes through the next slice of each search; whether there was any.
    fn run_slices(
        &mut self,
        moves: &[Move],
        tiers: &mut [Searches],
        pace: &Pace,
        stop: &AtomicBool,
    ) -> Result<bool, Fault> {
        let began = Instant::now();
        let (mut jobs, mut searches, mut pages) = (Vec::new(), Vec::new(), 0);
        let all: usize = tiers.iter().map(|tier| tier.all.len()).sum();
        let most = self.slice.pages() / all.max(1) as u64;
        for (kdamond, tier) in tiers.iter_mut().enumerate() {
            tier.drop_gone(moves);
            let slices = tier.all.iter_mut().filter_map(|search| {
                let (scheme, own) = search.next_slice(most)?;
                pages += own;
                Some((search, scheme))
            });
            let (of_tier, schemes): (Vec<_>, Vec<_>) = slices.unzip();
            searches.push(of_tier);
            jobs.push(KdamondJob {
                kdamond,
                ranges: &tier.ranges,
                schemes,
            });
        }
        let mut any = false;
        let moved = run(&self.admin, &jobs, pace, stop);
        if pages > 0 {
            self.slice.adapt_to(pages, began.elapsed());
        }
        for (searches, applied) in searches.into_iter().zip(moved?) {
            for (search, applied) in searches.into_iter().zip(applied) {
                search.note_moved(applied.bytes / PAGE);
                any = true;
            }
        }
        Ok(any)
    }

    fn take_sample(
        &mut self,
        tiers: &[Tier],
        watched: &[Watched],
        stop: &AtomicBool,
    ) -> Result<Vec<Heat>, Fault> {
        self.round += 1;
        let mut heat: Vec<Heat> = watched
            .iter()
            .map(|one| Heat::for_cgroup(one, tiers.len()))
            .collect();
        let ranges = |tier: &Tier| address_ranges(&self.host, &tier.nodes);
        let ranges: Vec<_> = tiers.iter().map(ranges).collect::<Result<_, _>>()?;
        let sample = Sample::new(&ranges, self.round, watched, &self.owners)?;
        let job = [KdamondJob {
            kdamond: 0,
            ranges: &sample.areas,
            schemes: sample.counting_schemes(watched),
        }];
        if job[0].schemes.is_empty() {
            return Ok(heat);
        }
        let count = || -> Result<_, Fault> {
            let began = Instant::now();
            let mut counted = run_again(&self.admin, &job, stop)?;
            Ok((began, counted.swap_remove(0)))
        };
        let count_after = |since: Instant, time: Duration| {
            pause_until_stop(time.saturating_sub(since.elapsed()), stop);
            count()
        };
        self.admin.claim_kdamonds(1)?;
        // The first pass counts what was touched since an unknown time.
        let counted = set_up(&self.admin, &job, &sample::PACE).and_then(|()| {
            let first = count()?;
            let soon = count_after(first.0, self.look / 4)?;
            // A pass takes a quarter of a second: a short `look` would make both times alike.
            let longer = self.look.max(4 * (soon.0 - first.0));
            let later = count_after(soon.0, longer)?;
            Ok([first, soon, later])
        });
        self.admin.release_kdamonds(1)?;
        let [first, soon, later] = counted?;
        if ![&first, &soon, &later]
            .iter()
            .all(|one| sample.covered_once(&one.1))
        {
            return Err(Fault::Late(
                "DAMON went over a sample twice: the agent gets too little CPU time to stop it"
                    .into(),
            ));
        }
        let soon_time = soon.0 - first.0;
        let later_time = later.0 - soon.0;
        sample.add((&soon.1, soon_time), (&later.1, later_time), &mut heat);
        Ok(heat)
    }

    /// The moves, with what is free now where they go.
    fn with_free_pages(&self, mut moves: Vec<Move>) -> Vec<Move> {
        let free = self.host.free_by_node();
        for node in moves.iter_mut().flat_map(|wanted| &mut wanted.to) {
            node.free = free.get(&node.id).copied().unwrap_or(node.free);
        }
        moves
    }

    /// Says why a step failed, and decides on the next one. A step that was late is tried again
    /// with less. Where a cgroup went between two looks, the next step goes without it; otherwise
    /// that was the last one.
    fn judge_fault<'a>(
        &mut self,
        fault: Fault,
        mut directories: impl Iterator<Item = &'a PathBuf>,
    ) -> String {
        let (why, again) = match fault {
            Fault::Late(why) => (why, true),
            Fault::Refused(why) => (why, directories.any(|one| !one.is_dir())),
        };
        if !again {
            self.broken = Some(why.clone());
        }
        why
    }
}

/// Waits, but no longer than until told to stop.
fn pause_until_stop(time: Duration, stop: &AtomicBool) {
    let until = Instant::now() + time;
    while Instant::now() < until && !stop.load(Ordering::Relaxed) {
        sleep(Duration::from_millis(50).min(until - Instant::now()));
    }
}

/// Ends what an agent that was killed left behind, whatever the next one moves pages by.
pub fn take_over(host: &TierHost, state: &Path) {
    // Where there is no DAMON, or another program has it, nothing of an agent's is left.
    drop(Admin::new(host, state));
}

impl Engine for Damon {
    fn name(&self) -> &'static str {
        "damon"
    }

    fn carry_out_moves(&mut self, moves: &[Move], stop: &AtomicBool) -> Vec<MoveOutcome> {
        let mut outcomes = vec![MoveOutcome::default(); moves.len()];
        // Down first: it makes the room.
        for way in [Way::Down, Way::Up] {
            let moves = match way {
                Way::Down => moves.to_vec(),
                Way::Up => self.with_free_pages(limit_exchanges(moves, &outcomes)),
            };
            if let Err(fault) = self.carry_out(way, &moves, &mut outcomes, stop) {
                let why = self.judge_fault(fault, moves.iter().map(|wanted| &wanted.directory));
                let of_way = moves
                    .iter()
                    .zip(&mut outcomes)
                    .filter(|(one, _)| one.way == way);
                of_way.for_each(|(_, outcome)| outcome.why = Some(why.clone()));
            }
        }
        self.sweeps
            .retain(|(directory, _, _), _| directory.is_dir());
        outcomes
    }

    fn tells_heat(&self) -> bool {
        true
    }

    fn sample_heat(
        &mut self,
        tiers: &[Tier],
        watched: &[Watched],
        stop: &AtomicBool,
    ) -> Result<Vec<Heat>, String> {
        let sampled = self.take_sample(tiers, watched, stop);
        sampled.map_err(|fault| self.judge_fault(fault, watched.iter().map(|one| &one.directory)))
    }

    fn why_broken(&self) -> Option<String> {
        self.broken.clone()
    }
}
