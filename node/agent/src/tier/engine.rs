// SPDX-License-Identifier: GPL-2.0-only
//! How pages are moved: engines behind one small trait. [`super::choice`] takes one.

use crate::tier::host::{Node, Tier};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Direction in which pages move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// To a slower tier.
    Down,
    /// To a faster one.
    Up,
}

/// Pages of a cgroup that are to be moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// The cgroup's path from the root of the hierarchy.
    pub cgroup: Arc<str>,
    /// The cgroup's directory.
    pub directory: PathBuf,
    /// The tier they leave, from 0, the fastest.
    pub tier: usize,
    /// Direction in which the pages move.
    pub way: Way,
    /// Nodes they leave.
    pub from: Vec<Node>,
    /// Pages it has on them.
    pub held: u64,
    /// Nodes they go to.
    pub to: Vec<Node>,
    /// Pages to move at most, as nearly as the engine can.
    pub pages: u64,
    /// Only cold ones down and hot ones up: an engine that can tell them apart moves no others for
    /// want of them.
    pub fit: bool,
}

/// A cgroup whose heat is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    /// The cgroup's path from the root of the hierarchy.
    pub cgroup: Arc<str>,
    /// The cgroup's directory.
    pub directory: PathBuf,
}

/// Heat of a cgroup's pages, by a sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heat {
    /// The cgroup's directory.
    pub directory: PathBuf,
    /// Pages of the cgroup that were looked at, in each tier.
    pub looked: Vec<u64>,
    /// Pages of these that were touched within `soon`.
    pub hot: Vec<u64>,
    /// Pages of these that were touched within `later`, after that.
    pub warm: Vec<u64>,
    /// About a quarter of `look`, as it came out.
    pub soon: Duration,
    /// About `look`, four times `soon` at least.
    pub later: Duration,
}

impl Heat {
    /// Heat of a cgroup of which nothing was looked at yet.
    pub fn for_cgroup(watched: &Watched, tiers: usize) -> Heat {
        Heat {
            directory: watched.directory.clone(),
            looked: vec![0; tiers],
            hot: vec![0; tiers],
            warm: vec![0; tiers],
            soon: Duration::ZERO,
            later: Duration::ZERO,
        }
    }
}

/// Result of a [`Move`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MoveOutcome {
    /// Pages that are where they should be.
    pub moved: u64,
    /// Pages that were passed over because several processes share them.
    pub shared: u64,
    /// Pages that could not be moved.
    pub failed: u64,
    /// `true` if there are places left to look for more.
    pub searching: bool,
    /// Why, the most recent reason.
    pub why: Option<String>,
}

/// Moves pages. It works on a thread of its own, so it may take its time; when `stop` is set it
/// comes to an end soon. Between steps it has nothing set up in the kernel.
pub trait Engine: Send {
    /// The engine's name in a policy file.
    fn name(&self) -> &'static str;

    /// Carries out a step, one outcome for each move.
    fn carry_out_moves(&mut self, moves: &[Move], stop: &AtomicBool) -> Vec<MoveOutcome>;

    /// Returns whether it can tell how hot pages are.
    fn tells_heat(&self) -> bool {
        false
    }

    /// Looks how hot cgroups' pages are, if it can tell. Nothing is moved by that.
    ///
    /// # Errors
    /// Why it cannot tell this time.
    fn sample_heat(
        &mut self,
        _tiers: &[Tier],
        _of: &[Watched],
        _stop: &AtomicBool,
    ) -> Result<Vec<Heat>, String> {
        Ok(Vec::new())
    }

    /// The reason why it cannot go on; none if it can.
    fn why_broken(&self) -> Option<String> {
        None
    }
}

/// The moves, but where pages change places no more going up than went down.
pub fn limit_exchanges(moves: &[Move], outcomes: &[MoveOutcome]) -> Vec<Move> {
    let ids = |nodes: &[Node]| -> Vec<u32> { nodes.iter().map(|node| node.id).collect() };
    let places = |one: &Move, other: &Move| ids(&one.from) == ids(&other.to);
    let went_down = |up: &Move| -> u64 {
        let down = moves.iter().zip(outcomes).filter(|(down, _)| {
            let back = places(down, up) && places(up, down);
            back && down.way == Way::Down && down.directory == up.directory
        });
        down.map(|(_, outcome)| outcome.moved).sum()
    };
    let mut limited = moves.to_vec();
    for wanted in &mut limited {
        if wanted.fit && wanted.way == Way::Up {
            wanted.pages = wanted.pages.min(went_down(wanted));
        }
    }
    limited
}

/// Divides a number of pages among nodes that take them, the one with most room first. What there
/// is no room for is left out.
pub fn spread_pages(to: &[Node], pages: u64) -> Vec<(u32, u64)> {
    let mut nodes: Vec<&Node> = to.iter().collect();
    nodes.sort_by_key(|node| std::cmp::Reverse(node.room_pages()));
    let mut left = pages;
    nodes
        .into_iter()
        .map(|node| {
            let takes = left.min(node.room_pages());
            left -= takes;
            (node.id, takes)
        })
        .filter(|(_, takes)| *takes > 0)
        .collect()
}

/// Time that an engine waits for anything before it gives up the step.
pub const PATIENCE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_places_are_changed_no_more_comes_up_than_went_down() {
        let change = |directory: &str, way, fit| Move {
            cgroup: directory.into(),
            directory: directory.into(),
            tier: if way == Way::Up { 1 } else { 0 },
            way,
            from: Vec::new(),
            held: 1000,
            to: Vec::new(),
            pages: 100,
            fit,
        };
        let moves = [
            change("/a", Way::Down, true),
            change("/b", Way::Down, true),
            change("/a", Way::Up, true),
            change("/b", Way::Up, true),
            change("/c", Way::Up, true),
            change("/d", Way::Up, false),
        ];
        let outcomes = [60, 120, 0, 0, 0, 0].map(|moved| MoveOutcome {
            moved,
            ..MoveOutcome::default()
        });
        let pages = limit_exchanges(&moves, &outcomes).into_iter();
        let pages: Vec<u64> = pages.map(|wanted| wanted.pages).collect();
        assert_eq!(pages, [100, 100, 60, 100, 0, 100]);
    }

    #[test]
    fn pages_go_where_most_room_is_and_no_further() {
        let node = |id, free| Node {
            id,
            present: 10_000,
            free,
            high: 100,
        };
        let to = [node(2, 300), node(3, 1200), node(4, 150)];
        assert_eq!(spread_pages(&to, 500), [(3, 500)]);
        assert_eq!(spread_pages(&to, 5000), [(3, 1000), (2, 100)]);
        assert_eq!(spread_pages(&to, 0), []);
    }
}
