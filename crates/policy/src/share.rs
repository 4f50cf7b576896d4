// SPDX-License-Identifier: GPL-2.0-only
//! Divisions of the weight: who competes, and who is furthest behind. See `policy/share.c`.

mod c {
    use super::*;
    unsafe extern "C" {
        pub fn weir_share_competes(contender: *const Contender) -> i32;
        pub safe fn weir_share_smooth(was: u64, now: u64, elapsed_ms: u64) -> u64;
        pub fn weir_share_is_behind(one: *const Standing, other: *const Standing) -> i32;
    }
}

pub use crate::names::COMPETES_MS;

/// A member of a division, on one device, as a round finds it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct Contender {
    /// Whether the division is below the root.
    pub nested: u32,
    /// Since its last sleep in the throttle.
    pub slept_ago_ms: u64,
    /// Of a round, smoothed; of all its tasks, at most a round.
    pub asleep_us: u64,
}

impl Contender {
    /// Whether it competes for the device.
    pub fn competes(&self) -> bool {
        // SAFETY: the pointer is valid for the call.
        unsafe { c::weir_share_competes(self) != 0 }
    }
}

/// An amount in a round, smoothed: it was `was`, and came to `now` in the last `elapsed_ms`.
pub fn smooth(was: u64, now: u64, elapsed_ms: u64) -> u64 {
    c::weir_share_smooth(was, now, elapsed_ms)
}

/// What a member that competes got for its hweight.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct Standing {
    /// Pages in a round, smoothed.
    pub got: u64,
    /// The cgroup's hweight of the device.
    pub hweight: u32,
    /// Whether it was the furthest behind in the round before.
    pub behind: u32,
}

impl Standing {
    /// Whether it is further behind its hweight than the other.
    pub fn is_behind(&self, other: &Standing) -> bool {
        // SAFETY: the pointers are valid for the call.
        unsafe { c::weir_share_is_behind(self, other) != 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weight::{HWEIGHT_ONE, ROUND_MS, Turn, WEIGHT_DEFAULT, hweight};

    #[test]
    fn sleeping_a_quarter_of_the_time_is_to_compete() {
        let at = |nested, slept_ago_ms, asleep_us| {
            Contender {
                nested,
                slept_ago_ms,
                asleep_us,
            }
            .competes()
        };
        assert!(at(0, 1_999, 0) && !at(0, 2_000, 200_000) && !at(0, u64::MAX, 200_000));
        assert!(at(1, 0, 50_000) && !at(1, 0, 49_999) && !at(1, 2_000, 200_000));
    }

    #[test]
    fn a_member_that_stops_leaves_within_some_rounds() {
        let mut asleep = smooth(0, 200_000, ROUND_MS);
        assert_eq!(asleep, 200_000);
        let mut rounds = 0;
        while asleep >= 50_000 {
            asleep = smooth(asleep, 0, ROUND_MS);
            rounds += 1;
        }
        assert_eq!(rounds, 22);
        assert_eq!(smooth(1, 0, ROUND_MS), 0, "and comes to nothing");
    }

    #[test]
    fn who_got_least_for_its_hweight_is_behind() {
        let is_behind = |one: (u64, u32, u32), other: (u64, u32, u32)| {
            let standing = |(got, hweight, behind)| Standing {
                got,
                hweight,
                behind,
            };
            standing(one).is_behind(&standing(other))
        };
        assert!(is_behind((300, 400, 0), (100, 100, 0)));
        assert!(!is_behind((100, 100, 0), (300, 400, 0)));
        assert!(!is_behind((400, 400, 0), (100, 100, 0)), "level");
        assert!(is_behind((0, 1, 0), (1, HWEIGHT_ONE, 0)));
        assert!(!is_behind((u64::MAX, u32::MAX, 0), (u64::MAX, u32::MAX, 0)));
        assert!(
            is_behind((500, 400, 1), (100, 100, 0)),
            "stays it for a while"
        );
        assert!(!is_behind((600, 400, 1), (100, 100, 0)), "and no longer");
    }

    /// Members below the root by (weight, most pages in a round, asleep otherwise), and as many
    /// flushers outside: the kernel gives each flusher at most an equal part of 1,000 pages in a
    /// round, and what one leaves to the others. Returns what members get in a round at last.
    fn division(members: &[(u32, u64, bool)], outside: u64) -> Vec<u64> {
        let sum: u64 = members.iter().map(|member| u64::from(member.0)).sum();
        let mut got: Vec<u64> = vec![1_000 * 256 / (outside + members.len() as u64); members.len()];
        let mut asleep = vec![200_000; members.len()];
        let mut last = got.clone();
        let mut marked = None;
        for _ in 0..500 {
            let competes: Vec<bool> = (0..members.len())
                .map(|i| {
                    Contender {
                        nested: 1,
                        slept_ago_ms: 0,
                        asleep_us: asleep[i],
                    }
                    .competes()
                })
                .collect();
            let runners = competes.iter().filter(|competes| **competes).count();
            let wb_rate = (0..members.len())
                .filter(|i| competes[*i])
                .map(|i| got[i])
                .sum::<u64>()
                / 256;
            let part =
                |i: usize| hweight(HWEIGHT_ONE, members[i].0, sum.max(WEIGHT_DEFAULT.into()));
            let standing = |i: usize| Standing {
                got: got[i],
                hweight: part(i),
                behind: u32::from(marked == Some(i)),
            };
            let behind = (0..members.len()).filter(|i| competes[*i]).reduce(|a, b| {
                if standing(b).is_behind(&standing(a)) {
                    b
                } else {
                    a
                }
            });
            marked = behind;
            let mut wants: Vec<u64> = (0..members.len())
                .map(|i| {
                    let turn = Turn {
                        hweight: part(i),
                        nested: 1,
                        behind: u32::from(behind == Some(i)),
                        wb_rate,
                        ..Turn::default()
                    };
                    let price = turn.cost_ns();
                    let held = runners > 1 && competes[i] && price > 0;
                    let may = if held { 200_000_000 / price } else { u64::MAX };
                    may.min(members[i].1)
                })
                .collect();
            wants.extend(std::iter::repeat_n(u64::MAX, outside as usize));
            let gives = water(&wants, 1_000);
            for (i, member) in members.iter().enumerate() {
                last[i] = gives[i];
                got[i] = smooth(got[i], gives[i] * 256, ROUND_MS);
                let idle = gives[i] == member.1 && !member.2;
                asleep[i] = smooth(asleep[i], if idle { 0 } else { 200_000 }, ROUND_MS);
            }
        }
        last
    }

    /// Equal parts of `all`, and what one does not want to the others.
    fn water(wants: &[u64], all: u64) -> Vec<u64> {
        let mut gives = vec![0; wants.len()];
        let mut order: Vec<usize> = (0..wants.len()).collect();
        order.sort_by_key(|i| wants[*i]);
        let mut left = all;
        for (nth, i) in order.iter().enumerate() {
            gives[*i] = wants[*i].min(left / (wants.len() - nth) as u64);
            left -= gives[*i];
        }
        gives
    }

    #[test]
    fn worked_example() {
        let got = division(&[(100, u64::MAX, true), (400, u64::MAX, true)], 4);
        let ratio = got[1] as f64 / got[0] as f64;
        assert!((3.7..4.3).contains(&ratio), "{got:?}");
        assert!(got[1] >= 1_000 / 6, "no less than without: {got:?}");
    }

    #[test]
    fn who_does_not_use_its_hweight_slows_nobody() {
        let got = division(&[(100, u64::MAX, true), (400, 5, false)], 4);
        assert!(got[0] >= 190, "{got:?}");
    }

    #[test]
    fn alone_with_its_division_a_tenant_has_the_device() {
        let got = division(&[(100, u64::MAX, true), (400, u64::MAX, true)], 0);
        assert!(got.iter().sum::<u64>() >= 990, "{got:?}");
        let ratio = got[1] as f64 / got[0] as f64;
        assert!((3.7..4.3).contains(&ratio), "{got:?}");
    }
}
