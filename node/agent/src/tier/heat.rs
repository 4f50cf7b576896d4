// SPDX-License-Identifier: GPL-2.0-only
//! What is known of cgroups' heat, and whether it is worth it to change their cold pages for hot
//! ones.
//!
//! A sample tells how many pages further down are hotter than what would go down in their place
//! ([`excess`]). Unless they are more than samples differ by chance, nothing changes places: of
//! memory that is read evenly none are.
//!
//! A sample does not tell whether they will be as hot again: who goes through its memory once
//! touches each part of it many times, and then no more. So it is tried: pages change places until
//! it should show: until a quarter as many came up as were hot further down, and so many that an
//! eighth of them is more than two samples differ by chance. Unless then at least an eighth as many
//! as came up are fewer down there, that was in vain, and is not tried again for 16 s, then for 32,
//! up to 17 minutes, or until twice as many are hot down there.
//!
//! Why an eighth: those that come up are those that were touched just now, which most of them may
//! have been by chance; where 5 % of the pages are hot and a tenth of the others is always touched
//! just now, every third one is worth it.
//!
//! Example: 20,000 pages are in the slow tier, 8,000 of them hot. 6,000 change places. If 5,000 are
//! hot down there then, 3,000 of the 6,000 were worth it, and it goes on. If there are still 7,800,
//! it is left at that. That is seldom chance: of 5,000 pages looked at 40 % were hot, which is
//! 8,000 give or take 190, and the difference of two such samples give or take 270.

mod excess;

use crate::tier::engine::{Heat, Move, MoveOutcome, Watched, Way};
use crate::tier::groups::Reading;
use excess::TierSample;
use policy::tier::{Group, HEAT_GUESSED, TIERS_MAX};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Cgroups whose heat is looked at in one step, at most.
const MOST: usize = 16;

/// While nothing of a cgroup's moves its heat is looked at so often at most, and while nothing
/// moves at all there is one look in that time, however many cgroups there are: at rest little is
/// to be spent.
const REST: Duration = Duration::from_secs(60);

/// Pause after a trial in vain, and twice as long each further time.
const FIRST: Duration = Duration::from_secs(16);

/// Times that a span is doubled at most.
const DOUBLED: u32 = 6;

/// A cgroup with fewer pages in a tier, 2 MiB, has nothing there that is worth changing.
const FEW: u64 = 512;

#[derive(Debug)]
struct CgroupHeat {
    at: Instant,
    /// The sample of each tier.
    looks: Vec<Option<TierSample>>,
    /// Pages further down that are hotter than those above, each counted once for each tier that it
    /// is below the first.
    below: f64,
    /// The variance of that.
    doubt: f64,
    trial: Option<Trial>,
    /// Trials in vain in a row, hot pages below after the last one, and until when there is to be
    /// no other.
    vain: u32,
    left: f64,
    until: Option<Instant>,
}

/// Pages are changing places.
#[derive(Clone, Copy, Debug)]
struct Trial {
    /// Hot pages below when it began, and the variance of that.
    before: f64,
    doubt: f64,
    /// Pages that came up since.
    moved: u64,
    /// Pages that went down since for other reasons.
    lost: u64,
}

impl Trial {
    /// Hot pages that must be fewer below for it to have been worth it.
    fn worthwhile_drop(self) -> f64 {
        self.moved as f64 / 8.0
    }

    /// Returns whether it should show by now, in a sample with so much variance: it differs from
    /// another by more than twice the standard deviation one time in forty, upwards.
    fn should_show(self, doubt: f64) -> bool {
        self.moved as f64 >= self.before / 4.0
            && self.worthwhile_drop() >= 2.0 * (self.doubt + doubt).sqrt()
    }
}

/// The heat of all cgroups.
#[derive(Debug, Default)]
pub struct Heats(BTreeMap<PathBuf, CgroupHeat>);

impl Heats {
    /// Takes a sample.
    pub fn add_sample(&mut self, heat: Vec<Heat>) {
        for heat in heat {
            let ratio = heat.later.as_secs_f64() / heat.soon.as_secs_f64();
            let counts = heat.looked.iter().zip(&heat.hot).zip(&heat.warm);
            let look = |((looked, hot), warm): ((&u64, &u64), &u64)| {
                TierSample::new(*looked, *hot, *warm, ratio)
            };
            let looks = counts.map(look).collect();
            let entry = self.0.entry(heat.directory).or_insert(CgroupHeat {
                at: Instant::now(),
                looks: Vec::new(),
                below: 0.0,
                doubt: 0.0,
                trial: None,
                vain: 0,
                left: 0.0,
                until: None,
            });
            (entry.at, entry.looks) = (Instant::now(), looks);
        }
    }

    /// Tells the plan, of each cgroup whose heat is known and of use, and forgets cgroups that are
    /// gone.
    pub fn inform_plan(&mut self, readings: &[Reading], groups: &mut [Group]) {
        let mut known = std::mem::take(&mut self.0);
        for (reading, group) in readings.iter().zip(groups) {
            let Some((directory, mut entry)) = known.remove_entry(&reading.directory) else {
                continue;
            };
            (entry.below, entry.doubt) = (0.0, 0.0);
            let mut above = None;
            for (tier, look) in entry.looks.iter().enumerate().take(TIERS_MAX) {
                let Some(look) = look else { continue };
                let held = group.held[tier] as f64;
                // Those that would come up: there is no telling which of them are hot.
                group.hot[tier] = (look.touched_part() * held) as u64;
                if tier > 0 {
                    let part = look.excess_above(above);
                    entry.below += part.of * held * tier as f64;
                    entry.doubt += part.doubt * (held * tier as f64).powi(2);
                }
                above = Some(*look);
            }
            if !entry.looks.is_empty() {
                entry.judge_trial();
            }
            if entry.may_change() {
                group.heat_known = HEAT_GUESSED;
            }
            self.0.insert(directory, entry);
        }
    }

    /// A cgroup's pages are to change places.
    pub fn begin_trial(&mut self, directory: &Path) {
        if let Some(entry) = self.0.get_mut(directory) {
            entry.trial.get_or_insert(Trial {
                before: entry.below,
                doubt: entry.doubt,
                moved: 0,
                lost: 0,
            });
        }
    }

    /// Takes what became of a move.
    pub fn note_outcome(&mut self, wanted: &Move, outcome: &MoveOutcome) {
        let Some(entry) = self.0.get_mut(&wanted.directory) else {
            return;
        };
        match &mut entry.trial {
            // What comes up counts, for whatever reason.
            Some(trial) if wanted.way == Way::Up => trial.moved += outcome.moved,
            Some(trial) if !wanted.fit => trial.lost += outcome.moved,
            _ => {}
        }
        if !wanted.fit && outcome.moved > 0 {
            // It was a sample of other pages.
            entry.looks.clear();
        }
    }

    /// Cgroups whose heat is wanted after these moves: of those that have pages in two tiers at
    /// least, and no others to move than to change places, the longest not looked at.
    pub fn due_cgroups(&self, readings: &[Reading], moves: &[Move]) -> Vec<Watched> {
        let divided = |reading: &&Reading| {
            let held = reading.group.held.iter();
            reading.leaf && held.filter(|pages| **pages >= FEW).count() > 1
        };
        let mut due: Vec<(Option<Instant>, &Reading)> = Vec::new();
        for reading in readings.iter().filter(divided) {
            let known = self.0.get(&reading.directory);
            let known = known.filter(|entry| !entry.looks.is_empty());
            let mut own = moves
                .iter()
                .filter(|one| one.directory == reading.directory);
            let is_due = match own.next() {
                Some(one) => one.fit,
                None => known.is_none_or(|entry| entry.at.elapsed() >= REST),
            };
            if is_due {
                due.push((known.map(|entry| entry.at), reading));
            }
        }
        due.sort_by_key(|(at, _)| *at);
        // Whose heat is known is not looked at for the sake of rest alone before the last look is
        // old.
        let last = self.0.values().map(|entry| entry.at).max();
        if moves.is_empty() && last.is_some_and(|last| last.elapsed() < REST) {
            due.retain(|(at, _)| at.is_none());
        }
        let watched = |(_, reading): &(_, &Reading)| Watched {
            cgroup: reading.path.clone(),
            directory: reading.directory.clone(),
        };
        due.iter().take(MOST).map(watched).collect()
    }
}

impl CgroupHeat {
    /// Returns whether pages are hot down there beyond chance (more than twice the standard
    /// deviation), and it is not in vain to bring them up.
    fn may_change(&self) -> bool {
        self.below > 2.0 * self.doubt.sqrt()
            && self.until.is_none_or(|until| until <= Instant::now())
    }

    /// Ends the trial if it should show by now whether it was worth it.
    fn judge_trial(&mut self) {
        if self.below > 2.0 * self.left + FEW as f64 {
            (self.vain, self.until) = (0, None);
        }
        let Some(trial) = self.trial.filter(|trial| trial.should_show(self.doubt)) else {
            return;
        };
        self.trial = None;
        if trial.lost > trial.moved / 2 {
            // Hot ones among those, for want of cold ones, would be taken for a failure.
            return;
        }
        if trial.before - self.below >= trial.worthwhile_drop() {
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
