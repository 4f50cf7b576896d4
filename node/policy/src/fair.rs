// SPDX-License-Identifier: GPL-2.0-only
//! The fair part: a floor for each cgroup that dirties pages, without a knob. See `policy/fair.c`.

use crate::ffi as c;
use crate::floor::Pool;

/// A cgroup counts as one that writes for so long after its last pass.
pub const LINGERS_MS: u64 = c::WEIR_FAIR_LINGERS_MS as u64;

/// The pages that fair parts are of: what the floors that are `set` leave of the pool.
pub fn pool_pages(set: &Pool) -> u64 {
    // SAFETY: the pointer is valid for the call.
    unsafe { c::weir_fair_pool(set) }
}

/// The part of a child with `weight` in its parent's, where weights of siblings that write add up to
/// `siblings`.
pub fn child_part(part: u64, weight: u32, siblings: u64) -> u64 {
    c::weir_fair_part(part, weight, siblings)
}

/// The floor of a cgroup that has `part` of `pool`; 0 if it writes alone.
pub fn part_floor(part: u64, pool: u64) -> u64 {
    c::weir_fair_floor(part, pool)
}

/// Pages that a writer's pass may fill of a fair `floor`: more while the host holds its limit.
pub fn claimable_pages(floor: u64, host_dirty: u64, host_thresh: u64) -> u64 {
    c::weir_fair_claimable(floor, host_dirty, host_thresh)
}

/// Pages of the `unused` ones of a fair `floor` that are kept from others.
pub fn kept_pages(floor: u64, unused: u64) -> u64 {
    c::weir_fair_kept(floor, unused)
}

/// `true` if the host holds pages enough, besides the `counted` ones of cgroups that write, to count
/// as one of them.
pub fn counts_others(host_dirty: u64, counted: u64, host_thresh: u64) -> bool {
    c::weir_fair_others(host_dirty, counted, host_thresh) != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reserve;

    const SET: Pool = Pool {
        wanted_total: 0,
        host_thresh: 8_192,
    };

    /// Parts of one parent's children with these weights.
    fn divide_part(part: u64, weights: &[u32]) -> Vec<u64> {
        let all = weights.iter().map(|weight| u64::from(*weight)).sum();
        let of = |weight: &u32| child_part(part, *weight, all);
        weights.iter().map(of).collect()
    }

    /// The example at the top of `policy/fair.c`.
    #[test]
    fn worked_example() {
        let pool = pool_pages(&SET);
        assert_eq!(pool, 6_553);
        assert_eq!(part_floor(divide_part(pool, &[100])[0], pool), 0);
        assert_eq!(divide_part(pool, &[100, 100]), [3_276, 3_276]);
        let kept = kept_pages(3_276, reserve::unused_pages(3_276, 1_000));
        assert_eq!(SET.host_thresh - kept, 7_192);
        let claimable = |host_dirty| claimable_pages(3_276, host_dirty, 8_192);
        assert_eq!([8_191, 8_192].map(claimable), [3_276, 4_095]);
        let three = divide_part(pool, &[100; 3]);
        assert_eq!(three, [2_184; 3]);
        assert_eq!(divide_part(three[2], &[100; 10]), [218; 10]);
    }

    #[test]
    fn a_hundred_children_have_one_part() {
        let pool = pool_pages(&SET);
        let tenant = divide_part(pool, &[100, 100])[0];
        let children = divide_part(tenant, &[100; 100]);
        assert!(children.iter().sum::<u64>() <= tenant);
        assert_eq!(children[0], 32);
    }

    #[test]
    fn weights_divide_and_floors_that_are_set_come_first() {
        let set = |wanted_total| Pool {
            wanted_total,
            ..SET
        };
        assert_eq!(divide_part(6_400, &[300, 100]), [4_800, 1_600]);
        assert_eq!(pool_pages(&set(2_553)), 4_000);
        assert_eq!(pool_pages(&set(u64::MAX)), 0);
        assert_eq!(part_floor(0, 0), 0, "nothing is left");
    }

    /// Kept: as much again as is held, and never more than is unused.
    #[test]
    fn what_is_not_used_is_lent() {
        let kept = |held| kept_pages(3_276, reserve::unused_pages(3_276, held));
        assert_eq!(
            [0, 10, 1_638, 3_000, 3_276, 9_999].map(kept),
            [0, 10, 1_638, 276, 0, 0]
        );
        assert_eq!(kept_pages(0, 0), 0);
        assert_eq!(kept_pages(10, 11), 0, "a floor that has just shrunk");
    }

    #[test]
    fn what_a_filesystem_holds_is_no_cgroup() {
        let others = |host, counted| counts_others(host, counted, 8_192);
        assert_eq!(
            [
                others(8_192, 8_000),
                others(8_192, 7_864),
                others(100, 8_000)
            ],
            [false, true, false]
        );
    }

    /// While the host holds its limit, a cgroup that may fill more shows that another has.
    #[test]
    fn claims_at_the_limit_add_up_to_no_more_than_it() {
        for weights in [&[100, 100][..], &[1, 10_000, 17], &[100; 100]] {
            let floors = divide_part(pool_pages(&SET), weights);
            let all: u64 = floors
                .iter()
                .map(|floor| claimable_pages(*floor, 8_192, 8_192))
                .sum();
            assert!(all <= SET.host_thresh, "{weights:?}");
        }
        assert_eq!(claimable_pages(0, 9_999, 8_192), 0);
    }

    /// All parts together are no more than the pool.
    #[test]
    fn parts_never_add_up_to_more_than_the_pool() {
        let weights: Vec<u32> = (1..=97).map(|n| n * n).collect();
        for pool in [1, 96, 6_553, crate::PAGES_MAX] {
            assert!(
                divide_part(pool, &weights).iter().sum::<u64>() <= pool,
                "{pool}"
            );
        }
    }
}
