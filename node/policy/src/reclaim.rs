// SPDX-License-Identifier: GPL-2.0-only
//! Which cgroups reclaim for themselves, and how much: see `policy/reclaim.c`.

use crate::ffi as c;

/// Weight of a cgroup by default, and of all that is in no listed cgroup together.
pub const WEIGHT: u32 = c::WEIR_RECLAIM_WEIGHT;

/// The host's memory, in pages.
pub use c::weir_reclaim_host as HostMemory;

/// A cgroup, in pages and pages per second.
pub use c::weir_reclaim_group as Group;

/// A rate in pages per second that was `was`, of `pages` in the last `elapsed_ms`.
pub fn update_rate(was: u64, pages: u64, elapsed_ms: u64) -> u64 {
    c::weir_reclaim_rate(was, pages, elapsed_ms)
}

/// Pages that should stay free after `headroom` should, of which `free` were there; `stalled` says
/// that allocations had to reclaim since.
pub fn next_headroom(memory: u64, headroom: u64, free: u64, stalled: bool) -> u64 {
    c::weir_reclaim_headroom(memory, headroom, free, stalled.into())
}

/// Pages of a host with so many that the kernel is asked to reclaim at a time, wherever they are,
/// while a group is limited.
pub fn idle_pages(memory: u64) -> u64 {
    c::weir_reclaim_idle(memory)
}

/// Milliseconds until the next such request, of which the last came `was_ms` after the one before it and
/// asked for `asked` pages. Since then `stolen` were reclaimed outside of limited groups, of which
/// `refaulted` are needed again.
pub fn idle_wait(was_ms: u64, asked: u64, stolen: u64, refaulted: u64) -> u64 {
    c::weir_reclaim_idle_wait(was_ms, asked, stolen, refaulted)
}

/// Weights of all groups, and of what is in none.
pub fn total_weight(groups: &[Group]) -> u64 {
    // SAFETY: as many groups as are said.
    unsafe { c::weir_reclaim_weights(groups.as_ptr(), groups.len() as u64) }
}

/// The limit that each group is to have now, [`crate::UNLIMITED`] for none.
pub fn next_limits(host: &HostMemory, groups: &[Group]) -> Vec<u64> {
    let mut limits = vec![0; groups.len()];
    // SAFETY: as many groups, and as much room for limits, as are said.
    unsafe {
        c::weir_reclaim_limits(
            host,
            groups.as_ptr(),
            groups.len() as u64,
            limits.as_mut_ptr(),
        );
    }
    limits
}

impl Group {
    /// The least that a limit of it may be, with the [`total_weight`] of all groups.
    pub fn least_limit(&self, host: &HostMemory, weights: u64) -> u64 {
        // SAFETY: both pointers are valid for the call.
        unsafe { c::weir_reclaim_floor(host, self, weights) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PAGES_MAX, UNLIMITED};
    use proptest::prelude::*;

    fn group(usage: u64, limit: u64, rate: u64) -> Group {
        Group {
            usage,
            limit,
            rate,
            weight: WEIGHT,
            ..Group::default()
        }
    }

    const HOST: HostMemory = HostMemory {
        memory: 140_000,
        free: 400,
        headroom: 1_000,
    };

    #[test]
    fn worked_example() {
        let hogs = group(90_000, UNLIMITED, 12_000);
        let writers = group(25_000, UNLIMITED, 3_000);
        assert_eq!(total_weight(&[hogs, writers]), 300);
        assert_eq!(next_limits(&HOST, &[hogs, writers]), [89_400, UNLIMITED]);

        // At its limit, and what was missing is free: nothing changes.
        let hogs = Group {
            usage: 89_400,
            limit: 89_400,
            ..hogs
        };
        let host = HostMemory {
            free: 1_000,
            ..HOST
        };
        assert_eq!(next_limits(&host, &[hogs, writers]), [89_400, UNLIMITED]);
    }

    #[test]
    fn what_a_limited_group_may_still_take_is_not_free() {
        // It has unmapped 50,000 pages, which it may map again.
        let hogs = group(39_400, 89_400, 0);
        let host = HostMemory {
            free: 51_000,
            ..HOST
        };
        assert_eq!(next_limits(&host, &[hogs]), [89_400]);
        // With 8,000 pages more than twice the headroom, the limit rises by an eighth of them.
        let host = HostMemory {
            free: 60_000,
            ..HOST
        };
        assert_eq!(next_limits(&host, &[hogs]), [89_400 + 1_000]);
    }

    #[test]
    fn a_limit_is_not_below_what_is_protected_or_needed() {
        let protected = Group {
            protection: 89_900,
            ..group(90_000, UNLIMITED, 12_000)
        };
        assert_eq!(next_limits(&HOST, &[protected]), [89_900]);
        let needed = Group {
            stolen: 8_000,
            refaulted: 1_000,
            ..group(40_000, UNLIMITED, 12_000)
        };
        // Its share is half of memory, and it holds less.
        assert_eq!(needed.least_limit(&HOST, 200), 40_000);
        assert_eq!(next_limits(&HOST, &[needed]), [UNLIMITED]);
        let more = Group {
            usage: 90_000,
            ..needed
        };
        assert_eq!(more.least_limit(&HOST, 200), 70_000);
        let unused = Group {
            refaulted: 999,
            ..needed
        };
        assert_eq!(unused.least_limit(&HOST, 200), 0);
    }

    #[test]
    fn a_limit_is_not_below_what_cannot_be_reclaimed() {
        let pinned = Group {
            pinned: 78_700,
            ..group(90_000, 79_000, 12_000)
        };
        assert_eq!(next_limits(&HOST, &[pinned]), [78_700]);
        // Swap is full by now: hardly anything is to be had of it.
        let full = Group {
            pinned: 80_000,
            ..pinned
        };
        assert_eq!(next_limits(&HOST, &[full]), [UNLIMITED]);
        let never = Group {
            limit: UNLIMITED,
            ..full
        };
        assert_eq!(next_limits(&HOST, &[never]), [UNLIMITED]);
    }

    #[test]
    fn who_allocates_less_than_its_share_pays_nothing() {
        let light = group(2_000, UNLIMITED, 900);
        let all = next_limits(&HOST, &[group(60_000, UNLIMITED, 9_000), light]);
        assert_eq!(all, [59_400, UNLIMITED]);
        // The same with four times the weight of the other.
        let heavy = Group {
            weight: 400,
            ..group(2_000, UNLIMITED, 5_000)
        };
        let all = next_limits(&HOST, &[group(60_000, UNLIMITED, 5_000), heavy]);
        assert_eq!(all, [59_400, UNLIMITED]);
    }

    #[test]
    fn idle_memory_is_asked_for_while_there_is_some() {
        assert_eq!(
            [1 << 18, 1 << 20, 1 << 26].map(idle_pages),
            [1_024, 2_048, 16_384]
        );
        assert_eq!(idle_wait(8_000, 1_024, 512, 63), 250);
        // An eighth of it is needed again; too little was had; nothing was.
        assert_eq!(idle_wait(8_000, 1_024, 512, 64), 16_000);
        assert_eq!(idle_wait(250, 1_024, 127, 0), 500);
        assert_eq!(idle_wait(0, 0, 0, 0), 500);
        assert_eq!(idle_wait(u64::MAX, 1_024, 0, 0), 64_000);
    }

    #[test]
    fn who_holds_less_than_its_share_pays_last() {
        // A third of 120,000 pages is a share; writers get back what was taken of them.
        let host = HostMemory {
            memory: 120_000,
            ..HOST
        };
        let hogs = group(90_000, UNLIMITED, 6_000);
        let writers = group(20_000, UNLIMITED, 9_000);
        assert_eq!(next_limits(&host, &[hogs, writers]), [89_400, UNLIMITED]);
        // Nothing is to be had of the hogs: their memory has no swap to go to.
        let stuck = Group {
            pinned: 90_000,
            ..hogs
        };
        assert_eq!(next_limits(&host, &[stuck, writers]), [UNLIMITED, 19_400]);
        // Or they allocate no more than their share.
        let calm = Group { rate: 100, ..hogs };
        assert_eq!(next_limits(&host, &[calm, writers]), [UNLIMITED, 19_400]);
    }

    #[test]
    fn a_rate_is_forgotten_in_half_a_second() {
        assert_eq!(update_rate(0, 1_000, 100), 2_500);
        let mut smooth = 10_000;
        for _ in 0..5 {
            smooth = update_rate(smooth, 0, 100);
        }
        assert!(smooth < 2_500, "{smooth}");
    }

    #[test]
    fn headroom_grows_while_allocations_stall_and_shrinks_again() {
        let least = next_headroom(140_000, 0, 0, false);
        assert_eq!(least, 1_093);
        let mut now = least;
        for _ in 0..20 {
            now = next_headroom(140_000, now, now, true);
        }
        assert_eq!(now, 8_750);
        for _ in 0..2_000 {
            now = next_headroom(140_000, now, now, false);
        }
        assert!(now < least + 64, "{now}");
    }

    #[test]
    fn headroom_that_was_not_there_does_not_grow() {
        let least = next_headroom(140_000, 0, 0, false);
        assert_eq!(next_headroom(140_000, least, least / 2 - 1, true), least);
        assert_eq!(
            next_headroom(140_000, least, least / 2, true),
            least + least / 4 + 1
        );
        // Nor does it shrink while allocations reclaim.
        assert_eq!(next_headroom(140_000, 8_000, 0, true), 8_000);
    }

    proptest! {
        /// For any numbers: no fixed limit is touched, none falls by more than an eighth or below
        /// its floor, and no more is taken than is missing.
        #[test]
        fn any_host(host: [u64; 3], all in prop::collection::vec(any::<([u64; 7], [u32; 2])>(), 0..8)) {
            let [memory, free, headroom] = host;
            let host = HostMemory { memory, free, headroom };
            let groups: Vec<Group> = all.iter().map(|(pages, flags)| Group {
                usage: pages[0],
                limit: if flags[1] & 2 == 0 { UNLIMITED } else { pages[1] },
                protection: pages[2],
                rate: pages[3],
                stolen: pages[4],
                refaulted: pages[5],
                pinned: pages[6],
                weight: flags[0],
                fixed: flags[1] & 1,
            }).collect();
            let new = next_limits(&host, &groups);
            let weights = total_weight(&groups);
            let base = |group: &Group| match group.limit {
                UNLIMITED => group.usage.min(PAGES_MAX),
                limit => limit.min(PAGES_MAX),
            };
            for (group, new) in groups.iter().zip(&new) {
                if group.fixed != 0 {
                    prop_assert_eq!(*new, group.limit);
                } else if *new < base(group) {
                    prop_assert!(*new >= base(group) - base(group) / 8);
                    prop_assert!(*new >= group.least_limit(&host, weights));
                }
            }
        }

        /// Hogs that want more than there is, for 30 s of steps: limits turn at most
        /// three times, fall no more once stalls are over, and keep no more free than twice the
        /// headroom.
        #[test]
        fn limits_settle_and_keep_nothing_back(
            others in 5_000u64..40_000,
            drain in 500u64..4_000,
            wants in prop::collection::vec((30_000u64..120_000, 1_000u64..8_000), 2..6),
        ) {
            const STEPS: usize = 300;
            let room = HOST.memory - others;
            prop_assume!(wants.iter().map(|(want, _)| want).sum::<u64>() > room + 9_000);
            let mut groups: Vec<Group> = wants.iter().map(|_| group(0, UNLIMITED, 0)).collect();
            let mut now = next_headroom(HOST.memory, 0, 0, false);
            let mut was = 0;
            let mut past: Vec<Vec<u64>> = Vec::new();
            // Steps since the last stall.
            let mut since = 0;
            for _ in 0..STEPS {
                let held: u64 = groups.iter().map(|group| group.usage).sum();
                let mut free = room - held;
                let mut stalled = false;
                for (group, (want, speed)) in groups.iter_mut().zip(&wants) {
                    let before = group.usage;
                    // Over its limit it reclaims of itself, at the speed of the disk.
                    let stolen = group.usage.saturating_sub(group.limit).min(drain);
                    group.usage -= stolen;
                    free += stolen;
                    let may = want.min(&group.limit).saturating_sub(group.usage).min(*speed);
                    stalled |= may > free;
                    let grown = may.min(free);
                    group.usage += grown;
                    free -= grown;
                    // It takes at its speed in any case: what it takes beyond is swapped out.
                    group.rate = update_rate(group.rate, (*speed).max(group.usage.abs_diff(before)), 100);
                    group.stolen = update_rate(group.stolen, speed.saturating_sub(grown), 100);
                }
                since = if stalled { 0 } else { since + 1 };
                now = next_headroom(HOST.memory, now, was, stalled);
                was = free;
                let new = next_limits(&HostMemory { free, headroom: now, ..HOST }, &groups);
                for (group, limit) in groups.iter_mut().zip(&new) {
                    // As the agent: what changes by less than 256 KiB is not written.
                    if group.limit == UNLIMITED || group.limit.abs_diff(*limit) >= 64 {
                        group.limit = *limit;
                    }
                }
                past.push(groups.iter().map(|group| group.limit).collect());
            }
            // What a group that is below its limit may take counts as taken.
            let held: u64 = groups.iter()
                .map(|group| if group.limit == UNLIMITED { group.usage } else { group.usage.max(group.limit) }).sum();
            // A rise of an eighth that is not written is left as well.
            let kept = room.saturating_sub(held);
            let left = 8 * 64 * groups.len() as u64;
            prop_assert!(kept <= 2 * now + left, "{kept} free of {now}");
            for index in 0..groups.len() {
                let own: Vec<u64> = past.iter().map(|limits| limits[index]).collect();
                let moves: Vec<bool> = own.windows(2).filter(|pair| pair[0] != pair[1])
                    .map(|pair| pair[0] < pair[1]).collect();
                let turns = moves.windows(2).filter(|pair| pair[0] != pair[1]).count();
                prop_assert!(turns <= 3, "{turns} turns: {own:?}");
                // The headroom shrinks again, and limits rise with that.
                if since >= 100 {
                    prop_assert!(own[STEPS - 50..].windows(2).all(|pair| pair[0] <= pair[1]), "{own:?}");
                }
            }
        }

        /// On a host as there are: what is taken off limits is what is missing, or all that those
        /// who allocate beyond their shares can pay. One who holds more than its share of memory
        /// comes down to that first.
        #[test]
        fn what_is_taken_is_what_is_missing(
            free in 0u64..5_000,
            all in prop::collection::vec((0u64..50_000, 0u64..20_000), 1..6),
        ) {
            let host = HostMemory { free, ..HOST };
            let groups: Vec<Group> = all.iter().map(|(usage, rate)| group(*usage, UNLIMITED, *rate)).collect();
            let taken: u64 = next_limits(&host, &groups).iter().zip(&groups)
                .map(|(limit, group)| group.usage.saturating_sub(*limit)).sum();
            prop_assert!(taken <= HOST.headroom.saturating_sub(free));
            let total: u64 = groups.iter().map(|group| group.rate).sum();
            let share = total / (groups.len() as u64 + 1);
            let payers: Vec<&Group> = groups.iter().filter(|group| group.rate > share + 1).collect();
            if let [payer] = payers[..] {
                let missing = HOST.headroom.saturating_sub(free);
                let more = payer.usage.saturating_sub(HOST.memory / (groups.len() as u64 + 1));
                let first = if more > 0 { more } else { payer.usage };
                prop_assert!(taken + 1 >= missing.min(first).min(payer.usage / 8));
            }
        }
    }
}
