// SPDX-License-Identifier: GPL-2.0-only
//! How much of what cgroups have in each tier is hot, by a sample.
//!
//! 256 areas of 256 KiB are spread evenly over each tier's addresses, elsewhere each time. A pass
//! counts the pages in them that were touched, and forgets that they were; so a second one, soon,
//! counts those that were touched meanwhile, and a third one, later, once more. How many there are
//! of each cgroup's the kernel tells. One kdamond goes over all of them, so that all have the same
//! time.
//!
//! Example: four cgroups have 16,384 sampled pages among them, one 4,000, of which 1,400 were
//! touched: 35 % of what it has there is hot. If in truth 34.2 to 35.8 % are, two of three samples
//! say so.
//!
//! DAMON looks by itself, too: in each of its intervals it forgets that some page of each area was
//! touched. So of [`OWN`] of 64 pages it is known only for the last 0.05 to 0.15 s, and the counts
//! are raised by what that misses.

use crate::tier::damon::owners::{PageOwners, Range, count_pages, inode_of};
use crate::tier::damon::pass::SchemeResult;
use crate::tier::damon::scheme::{Pace, Pass, Scheme};
use crate::tier::engine::{Heat, Watched, Way};
use crate::tier::host::PAGE;
use knobs::PageSize;
use std::time::Duration;

/// Areas of a tier.
const AREAS: u64 = 256;

/// Pages of each.
const AREA: u64 = 64;

/// DAMON's own looks at an area before a pass.
const OWN: u64 = 3;

/// The pass comes late enough to be seen to be done before a second one: that would find pages that
/// the first has looked at.
pub const PACE: Pace = Pace {
    sample: 50_000,
    apply: 50_000 * OWN,
};

/// Areas of one tier that follow each other.
struct Run {
    tier: usize,
    areas: u64,
    range: Range,
    /// Pages in this area, by cgroup.
    pages: Vec<u64>,
}

/// A sample of all tiers.
pub struct Sample {
    /// Areas that are looked at, in order.
    pub areas: Vec<Range>,
    runs: Vec<Run>,
}

impl Sample {
    /// Chooses what to look at among each tier's addresses, the `round`th time.
    ///
    /// # Errors
    /// The kernel does not tell whose pages are there.
    pub fn new(
        tiers: &[Vec<Range>],
        round: u64,
        watched: &[Watched],
        owners: &PageOwners,
    ) -> Result<Sample, String> {
        let of_tier = |(tier, ranges): (usize, &Vec<Range>)| {
            let areas = spread_areas(ranges, round).into_iter();
            areas.map(move |area| (area, tier)).collect::<Vec<_>>()
        };
        let mut all: Vec<(Range, usize)> = tiers.iter().enumerate().flat_map(of_tier).collect();
        all.sort_unstable();
        let inodes: Vec<u64> = watched.iter().map(|one| inode_of(&one.directory)).collect();
        let mut runs: Vec<Run> = Vec::new();
        for (area, tier) in &all {
            if runs.last().is_none_or(|run| run.tier != *tier) {
                runs.push(Run {
                    tier: *tier,
                    areas: 0,
                    range: *area,
                    pages: vec![0; watched.len()],
                });
            }
            let Some(run) = runs.last_mut() else { continue };
            (run.areas, run.range.1) = (run.areas + 1, area.1);
            let owners = owners.read_range(*area)?;
            for (pages, inode) in run.pages.iter_mut().zip(&inodes) {
                *pages += count_pages(&owners, *inode);
            }
        }
        Ok(Sample {
            areas: all.into_iter().map(|(area, _)| area).collect(),
            runs,
        })
    }

    /// In each run, each cgroup that has pages there, by its place among those watched.
    fn watched_runs(&self) -> impl Iterator<Item = (&Run, usize)> {
        let of_run = |run: &'_ Run| {
            let having = run
                .pages
                .iter()
                .enumerate()
                .filter(|(_, pages)| **pages > 0);
            having.map(|(at, _)| at).collect::<Vec<_>>()
        };
        let runs = self.runs.iter();
        runs.flat_map(move |run| of_run(run).into_iter().map(move |at| (run, at)))
    }

    /// Schemes that count the pages of each cgroup that has any.
    pub fn counting_schemes(&self, watched: &[Watched]) -> Vec<Scheme> {
        let scheme = |(run, at): (&Run, usize)| Scheme {
            memcg: watched[at].cgroup.to_string(),
            to: 0,
            way: Way::Up,
            range: run.range,
            pass: Pass::Count,
        };
        self.watched_runs().map(scheme).collect()
    }

    /// Returns whether each area was gone over once and no more.
    pub fn covered_once(&self, applied: &[SchemeResult]) -> bool {
        let mut all = self.watched_runs().zip(applied);
        all.all(|((run, _), applied)| applied.tried <= run.areas)
    }

    /// Adds what was counted soon and later, of pages that had so much time each, to what is known
    /// of each cgroup.
    pub fn add(
        &self,
        soon: (&[SchemeResult], Duration),
        later: (&[SchemeResult], Duration),
        heat: &mut [Heat],
    ) {
        for heat in &mut *heat {
            (heat.soon, heat.later) = (soon.1, later.1);
        }
        for (((run, at), soon), later) in self.watched_runs().zip(soon.0).zip(later.0) {
            let (heat, pages) = (&mut heat[at], run.pages[at]);
            let (soon, later) =
                corrected_touched(pages, soon.bytes / PAGE, later.bytes / PAGE, heat.soon);
            heat.looked[run.tier] += pages;
            heat.hot[run.tier] += soon;
            heat.warm[run.tier] += later;
        }
    }
}
/// Pages touched of so many, from those that were seen to be touched soon and later, with so much
/// time for the first.
fn corrected_touched(pages: u64, soon: u64, later: u64, time: Duration) -> (u64, u64) {
    let own = OWN as f64 / AREA as f64;
    let left = Duration::from_micros(PACE.sample * (OWN + 1) / 2);
    let seen = (left.as_secs_f64() / time.as_secs_f64()).min(1.0);
    let (soon, later) = (soon as f64 / (1.0 - own * (1.0 - seen)), later as f64);
    let later = (later - own * seen * soon).max(0.0) / (1.0 - own);
    ((soon as u64).min(pages), (later as u64).min(pages))
}

/// Areas spread evenly over ranges.
fn spread_areas(ranges: &[Range], round: u64) -> Vec<Range> {
    let pages: u64 = ranges.iter().map(|(start, end)| (end - start) / PAGE).sum();
    let page = PageSize::running().bytes();
    let apart = pages.div_ceil(AREAS).max(AREA);
    // An odd factor goes through all remainders before it comes back to one.
    let mut next = round.wrapping_mul(7919) % (apart - AREA + 1);
    let mut before = 0;
    let mut areas = Vec::new();
    for (start, end) in ranges {
        let pages = (end - start) / PAGE;
        while next + AREA <= before + pages {
            // The start of a page of the kernel.
            let first = start + (next - before) * PAGE / page * page;
            areas.push((first, first + AREA * PAGE));
            next += apart;
        }
        before += pages;
        next = next.max(before);
    }
    areas
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_damon_made_forget_is_made_up_for() {
        // Each page every 1.8 seconds, of a million.
        let part = |time: f64| 1e6 * (1.0 - (-time / 1.8).exp());
        let own = OWN as f64 / AREA as f64;
        let seen = |time| ((1.0 - own) * part(time) + own * part(0.1)) as u64;
        let time = Duration::from_millis(500);
        let (soon, later) = corrected_touched(1_000_000, seen(0.5), seen(2.0), time);
        assert!((soon as f64 / part(0.5) - 1.0).abs() < 0.002, "{soon}");
        assert!((later as f64 / part(2.0) - 1.0).abs() < 0.002, "{later}");
        assert!((seen(0.5) as f64 / part(0.5) - 1.0).abs() > 0.03);
        assert_eq!(corrected_touched(100, 100, 100, time), (100, 100));
        assert_eq!(corrected_touched(100, 0, 0, Duration::ZERO), (0, 0));
    }

    fn applied(tried: u64, pages: u64) -> SchemeResult {
        SchemeResult {
            tried,
            bytes: pages * PAGE,
        }
    }

    #[test]
    fn each_tier_has_its_own_counts() {
        let run = |tier, first, pages: [u64; 2]| Run {
            tier,
            areas: 10,
            range: (first, first + 9),
            pages: pages.into(),
        };
        // The second tier lies within the first.
        let sample = Sample {
            areas: Vec::new(),
            runs: vec![
                run(0, 0, [100, 0]),
                run(1, 10, [50, 60]),
                run(0, 20, [0, 70]),
            ],
        };
        let watched = ["/a", "/b"].map(|path| Watched {
            cgroup: path.into(),
            directory: path.into(),
        });
        let schemes = sample.counting_schemes(&watched);
        let of: Vec<(&str, u64)> = schemes
            .iter()
            .map(|one| (&*one.memcg, one.range.0))
            .collect();
        assert_eq!(of, [("/a", 0), ("/a", 10), ("/b", 10), ("/b", 20)]);
        let soon = [
            applied(10, 0),
            applied(10, 48),
            applied(10, 0),
            applied(10, 48),
        ];
        let later = [
            applied(10, 0),
            applied(10, 60),
            applied(10, 0),
            applied(10, 60),
        ];
        let mut heat = watched.each_ref().map(|one| Heat::for_cgroup(one, 2));
        let time = Duration::from_millis(500);
        assert!(sample.covered_once(&soon) && sample.covered_once(&later));
        sample.add((&soon, time), (&later, 4 * time), &mut heat);
        assert_eq!(
            (&heat[0].looked[..], &heat[0].hot[..], &heat[0].warm[..]),
            (&[100, 50][..], &[0, 49][..], &[0, 50][..])
        );
        assert_eq!(
            (&heat[1].looked[..], &heat[1].hot[..]),
            (&[70, 60][..], &[49, 0][..])
        );
        assert_eq!((heat[1].soon, heat[1].later), (time, 4 * time));
        let twice = [applied(10, 0), applied(20, 48)];
        assert!(!sample.covered_once(&twice));
    }

    #[test]
    fn areas_lie_evenly_and_within() {
        let ranges = [(0, 3000 * PAGE), (10_000 * PAGE, 100_000 * PAGE)];
        for round in 0..50 {
            let areas = spread_areas(&ranges, round);
            assert!((250..=256).contains(&areas.len()), "{}", areas.len());
            assert!(areas.iter().all(|(start, end)| end - start == AREA * PAGE));
            assert!(areas.windows(2).all(|pair| pair[0].1 <= pair[1].0));
            let inside = |area: &Range| ranges.iter().any(|(a, b)| *a <= area.0 && area.1 <= *b);
            assert!(areas.iter().all(inside));
        }
        assert_ne!(spread_areas(&ranges, 0), spread_areas(&ranges, 1));
        assert_eq!(
            spread_areas(&[(0, 140 * PAGE)], 3).len(),
            2,
            "a small one, all of it"
        );
        assert_eq!(spread_areas(&[], 3), []);
    }
}
