// SPDX-License-Identifier: GPL-2.0-only
//! Cgroups whose pages will not move, and how long they are left alone.

use crate::tier::engine::{Move, MoveOutcome, Way};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// After so many steps in a row that moved next to nothing.
const STEPS: u32 = 3;

/// Left alone so long at first, twice as long each further time.
const FIRST: Duration = Duration::from_secs(4);

/// Left alone no longer than this.
const LONGEST: Duration = Duration::from_secs(64);

#[derive(Debug)]
struct StuckEntry {
    steps: u32,
    until: Option<Instant>,
    last: MoveOutcome,
}

/// Cgroups whose pages do not move.
#[derive(Debug, Default)]
pub struct Stuck(BTreeMap<(PathBuf, usize, Way), StuckEntry>);

fn move_key(wanted: &Move) -> (PathBuf, usize, Way) {
    (wanted.directory.clone(), wanted.tier, wanted.way)
}

impl Stuck {
    /// Takes what a step came to.
    pub fn note_outcome(&mut self, wanted: &Move, outcome: &MoveOutcome) {
        let enough = outcome.moved >= wanted.pages / 8 || outcome.searching;
        if enough && outcome.why.is_none() {
            self.0.remove(&move_key(wanted));
            return;
        }
        let entry = self.0.entry(move_key(wanted)).or_insert(StuckEntry {
            steps: 0,
            until: None,
            last: MoveOutcome::default(),
        });
        entry.steps += 1;
        entry.last = outcome.clone();
        entry.until = entry.steps.checked_sub(STEPS).map(|times| {
            let alone = FIRST.saturating_mul(1 << times.min(8)).min(LONGEST);
            Instant::now() + alone
        });
    }

    /// Returns whether it is to be left alone now.
    pub fn is_stuck(&self, wanted: &Move) -> bool {
        let entry = self.0.get(&move_key(wanted));
        entry
            .and_then(|entry| entry.until)
            .is_some_and(|until| Instant::now() < until)
    }

    /// The outcome of a cgroup's last step without success.
    pub fn last_failure(&self, directory: &PathBuf) -> Option<&MoveOutcome> {
        let mut all = self.0.iter().filter(|((at, _, _), _)| at == directory);
        all.next().map(|(_, entry)| &entry.last)
    }

    /// Forgets cgroups that are gone.
    pub fn forget_gone(&mut self) {
        self.0.retain(|(directory, _, _), _| directory.is_dir());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_three_steps_in_vain_it_is_left_alone() {
        let wanted = Move {
            cgroup: "/a".into(),
            directory: "/".into(),
            tier: 0,
            way: Way::Down,
            from: Vec::new(),
            held: 100,
            to: Vec::new(),
            pages: 80,
            fit: false,
        };
        let moved = |moved| MoveOutcome {
            moved,
            ..MoveOutcome::default()
        };
        let mut stuck = Stuck::default();
        for _ in 0..2 {
            stuck.note_outcome(&wanted, &moved(9));
            assert!(!stuck.is_stuck(&wanted));
        }
        stuck.note_outcome(&wanted, &moved(10));
        for _ in 0..3 {
            assert!(!stuck.is_stuck(&wanted));
            stuck.note_outcome(&wanted, &moved(9));
        }
        assert!(stuck.is_stuck(&wanted));
        let up = Move {
            way: Way::Up,
            ..wanted.clone()
        };
        assert!(!stuck.is_stuck(&up), "the other way is another matter");
        assert_eq!(stuck.last_failure(&"/".into()), Some(&moved(9)));
        stuck.forget_gone();
        assert!(stuck.is_stuck(&wanted), "it is there");
    }
}
