// SPDX-License-Identifier: GPL-2.0-only
//! What is known of cgroups' heat, and whether it is worth it to change their cold pages for hot ones.
//!
//! A sample tells how many pages were touched of late, not whether they will be again: of memory that is read at random as many are
//! in one tier as in the other, and changing their places changes nothing. So it is tried: pages change places until it
//! should show: until a quarter as many came up as were hot further down, and so many that a quarter of them is more than two samples
//! differ by chance. Unless then at least a quarter as many as came up are fewer down
//! there, that was in vain, and is not tried again for 16 s, then for 32, up to 17 minutes, or until twice as many are hot down there.
//!
//! Example: 20,000 pages are in the slow tier, 8,000 of them hot. 4,000 change places. If 5,000 are hot down there then, 3,000 of the 4,000 were
//! worth it, and it goes on. If there are still 7,800, it is left at that. That is seldom chance: of 1,500 pages looked at 40 % were hot, which is
//! 8,000 give or take 250, and the difference of two such samples give or take 360.
//!
//! Why chance counts: a page that is read every five seconds is taken for hot one time in ten. Where a hot set is in the fast tier, a tenth of the
//! others look hot in the slow one and go on to, whatever changes places; a sample now and then has fewer, and that is no success.

use crate::tier::engine::{Heat, Move, Outcome, Watched, Way};
use crate::tier::groups::Reading;
use policy::tier::{Group, HEAT_GUESSED, TIERS_MAX};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Cgroups whose heat is looked at in one step, at most.
const MOST: usize = 16;

/// While nothing of a cgroup's moves its heat is looked at so often at most, and while nothing moves at all there is one look in that time,
/// however many cgroups there are: at rest little is to be spent.
const REST: Duration = Duration::from_secs(60);

/// What was in vain is tried again after this, and after twice as long each further time.
const FIRST: Duration = Duration::from_secs(16);

/// At most so many times.
const DOUBLED: u32 = 6;

/// A cgroup with fewer pages in a tier, 2 MiB, has nothing there that is worth changing.
const FEW: u64 = 512;

#[derive(Debug)]
struct Entry {
    at: Instant,
    /// Hot pages among those of each tier.
    part: Vec<Option<Part>>,
    /// Hot pages further down, each counted once for each tier that it is below the first.
    below: f64,
    /// The variance of that.
    doubt: f64,
    trial: Option<Trial>,
    /// Trials in vain in a row, hot pages below after the last one, and until when there is to be no other.
    vain: u32,
    left: f64,
    until: Option<Instant>,
}

/// The hot ones among some pages, from 0 to 1, by a sample.
#[derive(Clone, Copy, Debug)]
struct Part {
    hot: f64,
    /// The variance of that: of `n` pages looked at.
    doubt: f64,
}

impl Part {
    fn new(hot: u64, looked: u64) -> Option<Part> {
        let (hot, looked) = (hot as f64, looked as f64);
        let part = hot / looked;
        (looked > 0.0).then(|| Part {
            hot: part,
            doubt: part * (1.0 - part) / looked,
        })
    }
}

/// Pages are changing places.
#[derive(Clone, Copy, Debug)]
struct Trial {
    /// Hot pages below when it began, and the variance of that.
    before: f64,
    doubt: f64,
    /// Pages that came up since.
    moved: u64,
}

impl Trial {
    /// What must be fewer hot below for it to have been worth it.
    fn worth(self) -> f64 {
        self.moved as f64 / 4.0
    }

    /// Whether it should show by now, in a sample with so much variance: it differs from another by more than twice the standard
    /// deviation one time in forty, upwards.
    fn shows(self, doubt: f64) -> bool {
        self.worth() >= self.before / 16.0 && self.worth() >= 2.0 * (self.doubt + doubt).sqrt()
    }
}

/// All of them.
#[derive(Debug, Default)]
pub struct Heats(BTreeMap<PathBuf, Entry>);

impl Heats {
    /// Takes a sample.
    pub fn learn(&mut self, heat: Vec<Heat>) {
        for heat in heat {
            let part = |(hot, looked): (&u64, &u64)| Part::new(*hot, *looked);
            let part = heat.hot.iter().zip(&heat.looked).map(part).collect();
            let entry = self.0.entry(heat.directory).or_insert(Entry {
                at: Instant::now(),
                part: Vec::new(),
                below: 0.0,
                doubt: 0.0,
                trial: None,
                vain: 0,
                left: 0.0,
                until: None,
            });
            (entry.at, entry.part) = (Instant::now(), part);
        }
    }

    /// Tells the plan, of each cgroup whose heat is known and of use, and forgets cgroups that are gone.
    pub fn tell(&mut self, readings: &[Reading], groups: &mut [Group]) {
        let mut known = std::mem::take(&mut self.0);
        for (reading, group) in readings.iter().zip(groups) {
            let Some((directory, mut entry)) = known.remove_entry(&reading.directory) else {
                continue;
            };
            (entry.below, entry.doubt) = (0.0, 0.0);
            for (tier, part) in entry.part.iter().enumerate().take(TIERS_MAX) {
                let Some(part) = part else { continue };
                let held = group.held[tier] as f64;
                group.hot[tier] = (part.hot * held) as u64;
                entry.below += part.hot * held * tier as f64;
                entry.doubt += part.doubt * (held * tier as f64).powi(2);
            }
            entry.judge();
            if entry.until.is_none_or(|until| until <= Instant::now()) {
                group.heat_known = HEAT_GUESSED;
            }
            self.0.insert(directory, entry);
        }
    }

    /// A cgroup's pages are to change places.
    pub fn begin(&mut self, directory: &Path) {
        if let Some(entry) = self.0.get_mut(directory) {
            entry.trial.get_or_insert(Trial {
                before: entry.below,
                doubt: entry.doubt,
                moved: 0,
            });
        }
    }

    /// Takes what became of a move.
    pub fn note(&mut self, wanted: &Move, outcome: &Outcome) {
        let Some(entry) = self.0.get_mut(&wanted.directory) else {
            return;
        };
        match &mut entry.trial {
            // What comes up, for whatever reason, counts. Where others go down, too, there is nothing to be compared.
            Some(trial) if wanted.way == Way::Up => trial.moved += outcome.moved,
            trial if !wanted.fit => *trial = None,
            _ => {}
        }
    }

    /// Whose heat is wanted after these moves: of those that have pages in two tiers at least, the longest not looked at.
    pub fn wanted(&self, readings: &[Reading], moves: &[Move]) -> Vec<Watched> {
        let divided = |reading: &&Reading| {
            let held = reading.group.held.iter();
            reading.leaf && held.filter(|pages| **pages >= FEW).count() > 1
        };
        let mut due: Vec<(Option<Instant>, &Reading)> = Vec::new();
        for reading in readings.iter().filter(divided) {
            let entry = self.0.get(&reading.directory);
            let moves = moves.iter().any(|one| one.directory == reading.directory);
            if moves || entry.is_none_or(|entry| entry.at.elapsed() >= REST) {
                due.push((entry.map(|entry| entry.at), reading));
            }
        }
        // Nobody is looked at for the sake of rest alone before the last look is old.
        let last = self.0.values().map(|entry| entry.at).max();
        if moves.is_empty() && last.is_some_and(|last| last.elapsed() < REST) {
            return Vec::new();
        }
        due.sort_by_key(|(at, _)| *at);
        let watched = |(_, reading): &(_, &Reading)| Watched {
            cgroup: reading.path.clone(),
            directory: reading.directory.clone(),
        };
        due.iter().take(MOST).map(watched).collect()
    }
}

impl Entry {
    /// Whether what is being tried was worth it so far.
    fn judge(&mut self) {
        if self.below > 2.0 * self.left + FEW as f64 {
            (self.vain, self.until) = (0, None);
        }
        let Some(trial) = self.trial.filter(|trial| trial.shows(self.doubt)) else {
            return;
        };
        self.trial = None;
        if trial.before - self.below >= trial.worth() {
            self.vain = 0;
            return;
        }
        self.until = Some(Instant::now() + FIRST * (1 << self.vain));
        self.vain = (self.vain + 1).min(DOUBLED);
        self.left = self.below;
    }
}

#[cfg(test)]
mod tests;
