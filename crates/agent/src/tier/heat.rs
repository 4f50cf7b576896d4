// SPDX-License-Identifier: GPL-2.0-only
//! What is known of cgroups' heat, and whether it is worth it to change their cold pages for hot ones.
//!
//! A sample tells how many pages were touched of late, not whether they will be again: of memory that is read at random as many are
//! in one tier as in the other, and changing their places changes nothing. So it is tried: pages change places until it
//! should show, that is, until a quarter as many came up as were hot further down. Unless then at least a quarter as many as came up are fewer down
//! there, that was in vain, and is not tried again for 16 s, then for 32, up to 17 minutes, or until twice as many are hot down there.
//!
//! Example: 20,000 pages are in the slow tier, 8,000 of them hot. 4,000 change places. If 5,000 are hot down there then, 3,000 of the 4,000 were
//! worth it, and it goes on. If there are still 7,800, it is left at that.

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
    part: Vec<Option<f64>>,
    /// Hot pages further down, each counted once for each tier that it is below the first.
    below: f64,
    trial: Option<Trial>,
    /// Trials in vain in a row, hot pages below after the last one, and until when there is to be no other.
    vain: u32,
    left: f64,
    until: Option<Instant>,
}

/// Pages are changing places.
#[derive(Clone, Copy, Debug)]
struct Trial {
    /// Hot pages below when it began.
    before: f64,
    /// Pages that came up since.
    moved: u64,
}

/// All of them.
#[derive(Debug, Default)]
pub struct Heats(BTreeMap<PathBuf, Entry>);

impl Heats {
    /// Takes a sample.
    pub fn learn(&mut self, heat: Vec<Heat>) {
        for heat in heat {
            let part =
                |(hot, looked): (&u64, &u64)| (*looked > 0).then(|| *hot as f64 / *looked as f64);
            let part = heat.hot.iter().zip(&heat.looked).map(part).collect();
            let entry = self.0.entry(heat.directory).or_insert(Entry {
                at: Instant::now(),
                part: Vec::new(),
                below: 0.0,
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
            entry.below = 0.0;
            for (tier, part) in entry.part.iter().enumerate().take(TIERS_MAX) {
                let hot = part.unwrap_or(0.0) * group.held[tier] as f64;
                group.hot[tier] = hot as u64;
                entry.below += hot * tier as f64;
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
            // Where other pages move, too, there is nothing to be compared.
            trial if !wanted.fit => *trial = None,
            Some(trial) if wanted.way == Way::Up => trial.moved += outcome.moved,
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
        let Some(trial) = self
            .trial
            .filter(|trial| trial.moved as f64 >= trial.before / 4.0)
        else {
            return;
        };
        self.trial = None;
        if trial.before - self.below >= trial.moved as f64 / 4.0 {
            self.vain = 0;
            return;
        }
        self.until = Some(Instant::now() + FIRST * (1 << self.vain));
        self.vain = (self.vain + 1).min(DOUBLED);
        self.left = self.below;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(held: [u64; 2]) -> Reading {
        let mut group = Group::default();
        group.held[..2].copy_from_slice(&held);
        Reading {
            path: "/a".into(),
            directory: "/".into(),
            group,
            leaf: true,
            file: None,
        }
    }

    fn heat(hot: [u64; 2]) -> Heat {
        Heat {
            directory: "/".into(),
            looked: vec![100, 100],
            hot: hot.into(),
        }
    }

    fn change(way: Way, fit: bool) -> Move {
        Move {
            cgroup: "/a".into(),
            directory: "/".into(),
            tier: 0,
            way,
            from: Vec::new(),
            held: 0,
            to: Vec::new(),
            pages: 0,
            fit,
        }
    }

    fn moved(moved: u64) -> Outcome {
        Outcome {
            moved,
            ..Outcome::default()
        }
    }

    /// What the plan is told of it.
    fn told(heats: &mut Heats, reading: &Reading) -> Group {
        let mut groups = [reading.group];
        heats.tell(std::slice::from_ref(reading), &mut groups);
        groups[0]
    }

    /// Of 20,000 pages below, 40 % hot, 4,000 change places; then so many percent are hot. Whether it goes on.
    fn goes_on(heats: &mut Heats, after: u64) -> bool {
        let read = reading([80_000, 20_000]);
        heats.learn(vec![heat([50, 40])]);
        assert_eq!(told(heats, &read).hot[..2], [40_000, 8_000]);
        heats.begin(&read.directory);
        heats.note(&change(Way::Down, true), &moved(4_000));
        heats.note(&change(Way::Up, true), &moved(4_000));
        heats.learn(vec![heat([50, after])]);
        told(heats, &read).heat_known == HEAT_GUESSED
    }

    #[test]
    fn what_changes_nothing_is_not_tried_for_ever() {
        assert!(goes_on(&mut Heats::default(), 25));
        let mut heats = Heats::default();
        assert!(!goes_on(&mut heats, 39));
        // Much more is hot down there than there was.
        let read = reading([80_000, 20_000]);
        heats.learn(vec![heat([50, 90])]);
        assert_eq!(told(&mut heats, &read).heat_known, HEAT_GUESSED);
    }

    #[test]
    fn while_other_pages_move_nothing_is_judged() {
        let mut heats = Heats::default();
        let read = reading([80_000, 20_000]);
        heats.learn(vec![heat([50, 40])]);
        told(&mut heats, &read);
        heats.begin(&read.directory);
        heats.note(&change(Way::Up, true), &moved(4_000));
        heats.note(&change(Way::Down, false), &moved(1));
        assert_eq!(told(&mut heats, &read).heat_known, HEAT_GUESSED);
    }

    #[test]
    fn heat_is_wanted_of_who_has_pages_in_two_tiers() {
        let mut heats = Heats::default();
        let one = reading([80_000, 20]);
        let two = reading([80_000, 20_000]);
        assert_eq!(heats.wanted(&[one], &[]), []);
        assert_eq!(heats.wanted(std::slice::from_ref(&two), &[]).len(), 1);
        heats.learn(vec![heat([50, 40])]);
        assert_eq!(
            heats.wanted(std::slice::from_ref(&two), &[]),
            [],
            "just told"
        );
        let other = Reading {
            directory: "/proc".into(),
            ..reading([80_000, 20_000])
        };
        assert_eq!(heats.wanted(&[other], &[]), [], "nothing moves");
        let moves = [change(Way::Up, true)];
        assert_eq!(heats.wanted(&[two], &moves).len(), 1);
    }
}
