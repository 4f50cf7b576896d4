// SPDX-License-Identifier: GPL-2.0-only
//! How much of what cgroups have in each tier is hot, by a sample.
//!
//! 256 areas of 128 KiB are spread evenly over a tier's addresses, elsewhere each time. A pass forgets that the pages in them were touched,
//! a second one counts those that were touched again. How many there are of each cgroup's the kernel tells.
//!
//! Example: four cgroups have 8,192 sampled pages among them, one 2,000, of which 700 were touched: 35 % of what it has there is
//! hot. If in truth 34 to 36 % are, two of three samples say so.

use crate::tier::damon::owners::{Owners, Range, count, inode};
use crate::tier::damon::scheme::{Pass, Scheme};
use crate::tier::engine::{Heat, Watched, Way};
use crate::tier::host::PAGE;

/// Areas of a tier.
const AREAS: u64 = 256;

/// Pages of each.
const AREA: u64 = 32;

/// One tier's sample.
pub struct Sample {
    /// What is looked at.
    pub areas: Vec<Range>,
    /// Of each cgroup, pages there.
    pages: Vec<u64>,
}

impl Sample {
    /// Chooses what to look at, the `round`th time.
    ///
    /// # Errors
    /// The kernel does not tell whose pages are there.
    pub fn new(
        ranges: &[Range],
        round: u64,
        watched: &[Watched],
        owners: &Owners,
    ) -> Result<Sample, String> {
        let areas = areas(ranges, round);
        let inodes: Vec<u64> = watched.iter().map(|one| inode(&one.directory)).collect();
        let mut pages = vec![0; watched.len()];
        for area in &areas {
            let owners = owners.of(*area)?;
            for (pages, inode) in pages.iter_mut().zip(&inodes) {
                *pages += count(&owners, *inode);
            }
        }
        Ok(Sample { areas, pages })
    }

    /// What is to be done with the pages of each cgroup that has any.
    pub fn schemes(&self, watched: &[Watched], pass: Pass) -> Vec<Scheme> {
        let (Some(first), Some(last)) = (self.areas.first(), self.areas.last()) else {
            return Vec::new();
        };
        let having = watched
            .iter()
            .zip(&self.pages)
            .filter(|(_, pages)| **pages > 0);
        let scheme = |(one, _): (&Watched, &u64)| Scheme {
            memcg: one.cgroup.to_string(),
            to: 0,
            way: Way::Up,
            range: (first.0, last.1),
            pass,
        };
        having.map(scheme).collect()
    }

    /// Adds what the schemes have counted to what is known of each cgroup in this tier.
    pub fn add(&self, bytes: &[u64], tier: usize, heat: &mut [Heat]) {
        let mut counted = bytes.iter();
        for (heat, pages) in heat
            .iter_mut()
            .zip(&self.pages)
            .filter(|(_, pages)| **pages > 0)
        {
            if let Some(bytes) = counted.next() {
                heat.hot[tier] = (bytes / PAGE).min(*pages);
                heat.looked[tier] = *pages;
            }
        }
    }
}

/// Areas spread evenly over ranges.
fn areas(ranges: &[Range], round: u64) -> Vec<Range> {
    let pages: u64 = ranges.iter().map(|(start, end)| (end - start) / PAGE).sum();
    let apart = pages.div_ceil(AREAS).max(AREA);
    // An odd factor goes through all remainders before it comes back to one.
    let mut next = round.wrapping_mul(7919) % (apart - AREA + 1);
    let mut before = 0;
    let mut areas = Vec::new();
    for (start, end) in ranges {
        let pages = (end - start) / PAGE;
        while next + AREA <= before + pages {
            let first = start + (next - before) * PAGE;
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
    fn areas_lie_evenly_and_within() {
        let ranges = [(0, 3000 * PAGE), (10_000 * PAGE, 100_000 * PAGE)];
        for round in 0..50 {
            let areas = areas(&ranges, round);
            assert!((250..=256).contains(&areas.len()), "{}", areas.len());
            assert!(areas.iter().all(|(start, end)| end - start == AREA * PAGE));
            assert!(areas.windows(2).all(|pair| pair[0].1 <= pair[1].0));
            let inside = |area: &Range| ranges.iter().any(|(a, b)| *a <= area.0 && area.1 <= *b);
            assert!(areas.iter().all(inside));
        }
        assert_ne!(areas(&ranges, 0), areas(&ranges, 1));
        assert_eq!(
            areas(&[(0, 70 * PAGE)], 3).len(),
            2,
            "a small one, all of it"
        );
        assert_eq!(areas(&[], 3), []);
    }
}
