// SPDX-License-Identifier: GPL-2.0-only
//! Choice of the engine that moves pages, or of one for each way.

use crate::tier::damon::Damon;
use crate::tier::engine::{Engine, Heat, Move, MoveOutcome, Watched, Way, limit_exchanges};
use crate::tier::host::{Tier, TierHost};
use crate::tier::move_pages::MovePages;
use crate::tier::reclaim::ReclaimEngine;
use crate::tier::settings::{Choice, TierSettings};
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// A pair of engines: one for each way.
struct Pair {
    name: &'static str,
    down: Box<dyn Engine>,
    up: Box<dyn Engine>,
}

impl Engine for Pair {
    fn name(&self) -> &'static str {
        self.name
    }

    fn carry_out_moves(&mut self, moves: &[Move], stop: &AtomicBool) -> Vec<MoveOutcome> {
        let is_down = |wanted: &&Move| wanted.way == Way::Down;
        let down: Vec<Move> = moves.iter().filter(is_down).cloned().collect();
        // Down first: it makes the room.
        let mut went = self.down.carry_out_moves(&down, stop).into_iter();
        let outcome = |wanted: &Move| match wanted.way {
            Way::Down => went.next().unwrap_or_default(),
            Way::Up => MoveOutcome::default(),
        };
        let mut outcomes: Vec<MoveOutcome> = moves.iter().map(outcome).collect();
        let mut up = limit_exchanges(moves, &outcomes);
        up.retain(|wanted| wanted.way == Way::Up);
        let mut came = self.up.carry_out_moves(&up, stop).into_iter();
        for (wanted, outcome) in moves.iter().zip(&mut outcomes) {
            if wanted.way == Way::Up {
                *outcome = came.next().unwrap_or_default();
            }
        }
        outcomes
    }

    fn tells_heat(&self) -> bool {
        self.down.tells_heat()
    }

    fn sample_heat(
        &mut self,
        tiers: &[Tier],
        of: &[Watched],
        stop: &AtomicBool,
    ) -> Result<Vec<Heat>, String> {
        self.down.sample_heat(tiers, of, stop)
    }

    fn why_broken(&self) -> Option<String> {
        self.down.why_broken().or_else(|| self.up.why_broken())
    }
}

/// An engine and why it is that one.
pub struct Chosen {
    /// The engine in use.
    pub engine: Box<dyn Engine>,
    /// The reason, for `weir tier status`.
    pub why: String,
}

/// Takes the engine that the settings name, or the best there is. `without_damon` is why DAMON is
/// not to be tried again.
///
/// # Errors
/// The named one cannot be had, and why.
pub fn choose_engine(
    host: &TierHost,
    settings: &TierSettings,
    state: &Path,
    without_damon: Option<&str>,
) -> Result<Chosen, String> {
    let damon = || match without_damon {
        Some(why) => Err(why.to_string()),
        None => Damon::new(host, state, settings.look),
    };
    let pages = || -> Box<dyn Engine> { Box::new(MovePages::new(host)) };
    let named = |engine: Box<dyn Engine>| Chosen {
        engine,
        why: "the policy names it".into(),
    };
    let pair = |name, down: Box<dyn Engine>| -> Box<dyn Engine> {
        Box::new(Pair {
            name,
            down,
            up: pages(),
        })
    };
    match settings.engine {
        Choice::MovePages => Ok(named(pages())),
        Choice::Damon => {
            let damon = damon()?;
            if !damon.can_promote() {
                return Err(
                    "this kernel's DAMON has no action migrate_hot (6.11 and later have)".into(),
                );
            }
            Ok(named(Box::new(damon)))
        }
        Choice::DamonAndMovePages => Ok(named(pair("damon+move_pages", Box::new(damon()?)))),
        Choice::Reclaim => Ok(named(pair("reclaim", Box::new(ReclaimEngine::new(host)?)))),
        Choice::Auto => Ok(match damon() {
            Ok(damon) if damon.can_promote() => Chosen {
                engine: Box::new(damon),
                why: "DAMON tells cold pages from hot ones, and moves both".into(),
            },
            Ok(damon) => Chosen {
                engine: pair("damon+move_pages", Box::new(damon)),
                why:
                    "DAMON tells cold pages from hot ones; this kernel's has no action migrate_hot"
                        .into(),
            },
            Err(why) => Chosen {
                engine: pages(),
                why: format!("works on every kernel, blind to heat; no DAMON: {why}"),
            },
        }),
    }
}
