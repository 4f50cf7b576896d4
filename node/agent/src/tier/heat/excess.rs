// SPDX-License-Identifier: GPL-2.0-only
//! How many of a tier's pages are hotter than those that would go down in their place.
//!
//! That a page was touched in a short time does not say that it is hot: of pages that are each read
//! every five seconds one in ten is touched in any half second, and changing its place with one
//! that was not is in vain. Whether there are others shows in a second, longer look: if all pages
//! are alike and 9.5 % are touched in a time, then in four times that 33 % are (1 - 0.905^4). If it
//! is 19 and 40 %, some are always touched, the others seldom.
//!
//! Model: of the pages in a tier a part A is touched in any such time, the others in one with the
//! chance `a`, each time anew. Untouched are, in one time and in k times that (as it came out,
//! about four),
//!
//!   r = (1 - A) (1 - a)        s = (1 - A) (1 - a)^k        so        1 - a = q = (s / r)^(1 / (k - 1))
//!
//! and touched in both of two times are `again` = 1 - 2 r + r q of them. Were those that are
//! touched in one time (1 - r of all) no hotter than the cold ones, of which a part `b` is touched
//! (the lesser `a` of this tier and the one above), `b` (1 - r) would be touched again. The part
//! that is hot beyond that:
//!
//!   excess = (again - b (1 - r)) / (1 - b)
//!
//! It is A where the others are alike in both tiers, 0 where all pages are, and also tells of pages
//! that are alike down there and colder above.
//!
//! Example: below, 19 % are touched in half a second, 40 % in two: r = 0.81, s = 0.6, q = 0.905, a
//! = 0.095, A = 1 - 0.81 / 0.905 = 0.105. Above, the others are read as often: b = 0.095. again =
//! 0.113, excess = (0.113 - 0.018) / 0.905 = 0.105.

/// Looks of a sample at a cgroup's pages in one tier.
#[derive(Clone, Copy, Debug)]
pub struct TierSample {
    /// The part that was not touched in a time, and its variance.
    r: f64,
    r_doubt: f64,
    /// The same in a longer time.
    s: f64,
    s_doubt: f64,
    /// 1 / (k - 1), if that was k times as long.
    m: f64,
}

/// A part of pages, from 0 to 1, by a sample.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The part, from 0 to 1.
    pub of: f64,
    /// Variance of the part.
    pub doubt: f64,
}

impl TierSample {
    /// Makes a sample of `looked` pages, of which `soon` were touched in a time, `later` in `ratio`
    /// times that. Nothing if none was looked at, or the second time was not clearly the longer
    /// one.
    pub fn new(looked: u64, soon: u64, later: u64, ratio: f64) -> Option<TierSample> {
        let part = |touched: u64| {
            // Half a page more each way: a sample in which all are touched does not say that all
            // pages are.
            let part = (looked.saturating_sub(touched) as f64 + 0.5) / (looked as f64 + 1.0);
            (part, part * (1.0 - part) / looked as f64)
        };
        let ((r, r_doubt), (s, s_doubt)) = (part(soon), part(later));
        (looked > 0 && ratio >= 2.0).then_some(TierSample {
            r,
            r_doubt,
            s,
            s_doubt,
            m: 1.0 / (ratio - 1.0),
        })
    }

    /// The part that was touched in a time.
    pub fn touched_part(self) -> f64 {
        1.0 - self.r
    }

    /// Of the others, those that are not touched in a time.
    fn q(self) -> f64 {
        (self.s / self.r).powf(self.m).min(1.0)
    }

    /// The variance of that.
    fn q_doubt(self) -> f64 {
        let relative = self.s_doubt / self.s.powi(2) + self.r_doubt / self.r.powi(2);
        (self.m * self.q()).powi(2) * relative
    }

    /// The part that is hotter than the cold pages of the tier above, if that was looked at, or
    /// than untouched pages.
    pub fn excess_above(self, above: Option<TierSample>) -> Part {
        let q = self.q();
        let (b, b_doubt) = above.map_or((0.0, 0.0), |above| {
            // Hot ones that are not touched each time make the others seem warmer than they are.
            let least = if above.q() > q { above } else { self };
            (1.0 - least.q(), least.q_doubt())
        });
        let again = 1.0 - 2.0 * self.r + self.r * q;
        let of = (again - b * (1.0 - self.r)) / (1.0 - b);
        // How it changes with r, s and b.
        let by_r = (q * (1.0 - self.m) - 2.0 + b) / (1.0 - b);
        let by_s = self.r * self.m * q / self.s / (1.0 - b);
        let by_b = (of - (1.0 - self.r)) / (1.0 - b);
        let doubts = [(by_r, self.r_doubt), (by_s, self.s_doubt), (by_b, b_doubt)];
        Part {
            of: of.clamp(0.0, 1.0),
            doubt: doubts.iter().map(|(by, doubt)| by.powi(2) * doubt).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A million pages of which `always` (of a thousand) are touched always, the others in a time
    /// with a chance of `chance` thousandths.
    fn look(always: u64, chance: u64) -> TierSample {
        let missed = 1.0 - chance as f64 / 1000.0;
        let others = (1000 - always) as f64 * 1000.0;
        let touched = |missed: f64| 1_000_000 - (others * missed) as u64;
        TierSample::new(1_000_000, touched(missed), touched(missed.powi(4)), 4.0)
            .expect("some pages")
    }

    fn excess(below: TierSample, above: TierSample) -> f64 {
        (below.excess_above(Some(above)).of * 1000.0).round()
    }

    #[test]
    fn where_all_are_alike_none_is_hotter() {
        for chance in [0, 1, 95, 243, 500, 900] {
            let alike = look(0, chance);
            assert_eq!(excess(alike, alike), 0.0, "{chance}");
        }
        assert_eq!(excess(look(0, 100), look(0, 200)), 0.0, "and colder below");
    }

    #[test]
    fn a_hot_part_is_told_from_the_others() {
        for chance in [0, 95, 243, 500] {
            let above = look(700, chance);
            assert_eq!(excess(look(105, chance), above), 105.0, "{chance}");
            assert_eq!(excess(look(0, chance), above), 0.0, "{chance}");
        }
        // Alike down there, but none above is as hot.
        assert_eq!(excess(look(0, 400), look(0, 0)), 160.0);
        // All are touched at once, and above half are never.
        assert!(excess(look(1000, 0), look(500, 0)) > 999.0);
    }

    #[test]
    fn how_much_longer_the_second_time_was_counts() {
        // Every 1.8 seconds, in 0.6 and 1.7 seconds.
        let touched = |time: f64| 1_000_000 - (1e6 * (-time / 1.8).exp()) as u64;
        let look =
            |ratio| TierSample::new(1_000_000, touched(0.6), touched(1.7), ratio).expect("pages");
        assert_eq!(excess(look(1.7 / 0.6), look(1.7 / 0.6)), 0.0);
        assert!(look(4.0).excess_above(None).of > look(1.7 / 0.6).excess_above(None).of + 0.05);
    }

    #[test]
    fn what_is_always_touched_above_leaves_nothing_to_give() {
        let in_turn = TierSample::new(1000, 280, 1000, 4.0).expect("some pages");
        assert!(in_turn.excess_above(Some(in_turn)).of < 0.01);
        let all = TierSample::new(1000, 1000, 1000, 4.0).expect("some pages");
        assert!(all.excess_above(Some(all)).of <= 1.0);
        assert!(TierSample::new(0, 0, 0, 4.0).is_none());
        assert!(TierSample::new(9, 1, 1, 1.5).is_none(), "hardly longer");
        assert!(
            TierSample::new(9, 1, 1, f64::NAN).is_none(),
            "no time at all"
        );
    }

    #[test]
    fn the_variance_is_what_samples_scatter_by() {
        let mut random = 1_u64;
        // xorshift
        let mut below = |part: f64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            part > (random >> 11) as f64 / (1_u64 << 53) as f64
        };
        let mut sample = |touched: f64, warm: f64| {
            let mut count = |part: f64| (0..1500).filter(|_| below(part)).count() as u64;
            TierSample::new(1500, count(touched), count(warm), 4.0).expect("some pages")
        };
        // 10 % always, the others every five seconds; above, 70 %.
        let mut all = Vec::new();
        for _ in 0..2000 {
            let above = sample(1.0 - 0.3 * 0.905, 1.0 - 0.3 * 0.6708);
            let part = sample(1.0 - 0.9 * 0.905, 1.0 - 0.9 * 0.6708).excess_above(Some(above));
            all.push((part.of, part.doubt));
        }
        let mean = |of: &dyn Fn(&(f64, f64)) -> f64| all.iter().map(of).sum::<f64>() / 2000.0;
        let middle = mean(&|(of, _)| *of);
        let seen = mean(&|(of, _)| (of - middle).powi(2)).sqrt();
        let said = mean(&|(_, doubt)| *doubt).sqrt();
        assert!((middle - 0.1).abs() < 0.005, "{middle}");
        assert!((seen / said - 1.0).abs() < 0.1, "{seen} for {said}");
    }
}
