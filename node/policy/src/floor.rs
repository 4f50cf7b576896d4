// SPDX-License-Identifier: GPL-2.0-only
//! The floor, `memory.dirty_min`: may this writer go on without being looked at by the throttle?
//! See `policy/floor.c`.

use crate::ffi as c;

/// The most all floors together may reserve, in percent of the global dirty limit.
pub const FLOORS_PERCENT_OF_LIMIT: u64 = c::WEIR_FLOORS_PERCENT_OF_LIMIT as u64;
/// The most one floor may reserve, in percent of the cgroup's `memory.max`.
pub const FLOOR_PERCENT_OF_MEMORY: u64 = c::WEIR_FLOOR_PERCENT_OF_MEMORY as u64;

/// The floor a cgroup asks for and its own memory limits, in pages.
pub use c::weir_floor_caps as Caps;

impl Caps {
    /// The part of the floor the cgroup asks for that its own memory limits leave.
    pub fn capped_floor(&self) -> u64 {
        // SAFETY: the pointer is valid for the call.
        unsafe { c::weir_floor_own(self) }
    }
}

/// Pages until all memory of a subtree that holds `held` is dirty, where floors fill `room` of it,
/// at most half ([`Caps::capped_floor`]); 0 once they have.
pub fn pages_left(room: u64, held: u64) -> u64 {
    c::weir_floor_left(room, held)
}

/// The pool that all floors of the host compete for, in pages.
pub use c::weir_floor_pool as Pool;

impl Pool {
    /// One cgroup's floor after the pool's scale; `own` is its [`Caps::capped_floor`].
    pub fn scaled_floor(&self, own: u64) -> u64 {
        // SAFETY: the pointer is valid for the call.
        unsafe { c::weir_floor_effective(own, self) }
    }

    /// Upper bound of the sum of all effective floors.
    pub fn total_floors(&self) -> u64 {
        // SAFETY: the pointer is valid for the call.
        unsafe { c::weir_floors_total(self) }
    }
}

/// Everything one writer's pass is judged by, in pages; the last two are C truth values.
pub use c::weir_floor_pass as FloorPass;

/// One floor on the writer's path, as a pass finds it, in pages.
pub use c::weir_floor_cover as Cover;

/// The fate of one writer's pass.
pub use c::weir_floor_verdict as Verdict;

impl FloorPass {
    /// Lets a floor on the writer's path decide the pass, if none does yet or if it has more room
    /// than the one that does.
    pub fn consider_floor(&mut self, cover: &Cover) {
        // SAFETY: the pointers are valid for the call, `self` exclusively.
        unsafe { c::weir_floor_cover(self, cover) }
    }

    /// Decides the pass.
    pub fn decide(&self) -> Verdict {
        // SAFETY: the pointer is valid for the call, and the C function returns enumerators only.
        unsafe { c::weir_floor_decide(self) }
    }

    /// Pages an admitted task may dirty before it is looked at again; at least 1.
    pub fn poll_pages(&self) -> u64 {
        // SAFETY: the pointer is valid for the call.
        unsafe { c::weir_floor_poll(self) }
    }

    /// The room that the pass finds under the floor.
    pub fn unused_pages(&self) -> u64 {
        // SAFETY: the pointer is valid for the call.
        unsafe { c::weir_floor_unused(self) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PAGES_MAX, UNLIMITED};

    fn caps(wanted: u64, memory_max: u64, memory_min: u64) -> u64 {
        Caps {
            wanted,
            memory_max,
            memory_min,
        }
        .capped_floor()
    }

    /// The example at the top of `policy/floor.c`.
    fn example() -> FloorPass {
        let pool = Pool {
            wanted_total: 4_096,
            host_thresh: 8_192,
        };
        assert_eq!(
            pool.scaled_floor(caps(4_096, UNLIMITED, 0)),
            4_096,
            "50 % of the limit: unscaled"
        );
        FloorPass {
            floor: 4_096,
            memcg_dirty: 1_536,
            wb_dirty: 1_536,
            host_dirty: 8_192,
            host_thresh: 8_192,
            floors_total: pool.total_floors(),
            left: UNLIMITED,
            cgroup_domain: 1,
            ..FloorPass::default()
        }
    }

    #[test]
    fn worked_example() {
        assert_eq!(example().decide(), Verdict::Admit);
        assert_eq!(example().poll_pages(), 32);
    }

    /// The second example there: a container in a pod.
    #[test]
    fn the_floor_with_most_room_decides() {
        let container = Cover {
            floor: 2_048,
            claim: 2_500,
            by_folio: 2_500,
            in_wb: 2_500,
            foreign: 0,
        };
        let pod = Cover {
            floor: 4_096,
            claim: 1_000 + 452,
            by_folio: 3_500,
            ..container
        };
        for path in [[container, pod], [pod, container]] {
            let mut pass = FloorPass {
                floor: 0,
                ..example()
            };
            path.iter().for_each(|floor| pass.consider_floor(floor));
            assert_eq!(
                (pass.unused_pages(), pass.decide()),
                (2_644, Verdict::Admit)
            );
            assert_eq!(pass.poll_pages(), 32);
        }
    }

    #[test]
    fn what_the_wb_holds_beyond_the_subtree_claims_the_floor_too() {
        let cover = |in_wb| {
            let mut pass = example();
            pass.floor = 0;
            pass.consider_floor(&Cover {
                floor: 4_096,
                claim: 1_000,
                by_folio: 3_000,
                in_wb,
                foreign: 0,
            });
            pass.unused_pages()
        };
        assert_eq!((cover(2_999), cover(3_000)), (3_096, 3_096));
        assert_eq!(cover(3_500), 2_596);
    }

    #[test]
    fn the_larger_count_and_foreign_pages_fill_the_floor() {
        let by_folio = FloorPass {
            memcg_dirty: 4_096,
            ..example()
        };
        let by_inode = FloorPass {
            wb_dirty: 4_096,
            ..example()
        };
        let foreign = FloorPass {
            foreign: 2_560,
            ..example()
        };
        for pass in [by_folio, by_inode, foreign] {
            assert_eq!(pass.decide(), Verdict::Full, "{pass:?}");
            assert_eq!(pass.poll_pages(), 1, "{pass:?}");
        }
        assert_eq!(
            FloorPass {
                foreign: 2_559,
                ..example()
            }
            .decide(),
            Verdict::Admit
        );
    }

    #[test]
    fn no_floor_where_none_is_set_or_none_can_hold() {
        for pass in [
            FloorPass {
                floor: 0,
                ..example()
            },
            FloorPass {
                strictlimit: 1,
                ..example()
            },
            FloorPass {
                cgroup_domain: 0,
                ..example()
            },
        ] {
            assert_eq!(pass.decide(), Verdict::None, "{pass:?}");
        }
    }

    #[test]
    fn a_limit_on_the_way_up_wins_over_a_floor() {
        let pass = |left| FloorPass { left, ..example() };
        assert_eq!(pass(0).decide(), Verdict::Capped);
        assert_eq!(pass(0).unused_pages(), example().unused_pages());
        // A 512th of what it leaves, where that is less than the floor's square root.
        let polls = [1, 8_191, 16_384, UNLIMITED].map(|left| pass(left).poll_pages());
        assert_eq!(polls, [1, 15, 32, 32]);
    }

    #[test]
    fn memory_is_left_until_floors_have_filled_their_half() {
        assert_eq!(
            [0, 1_023, 1_024].map(|held| pages_left(1_024, held)),
            [2_048, 1_025, 0]
        );
        assert_eq!(pages_left(PAGES_MAX, 1), 2 * PAGES_MAX - 1);
    }

    #[test]
    fn no_floor_once_the_host_holds_its_limit_and_all_floors() {
        assert_eq!(
            FloorPass {
                host_dirty: 12_287,
                ..example()
            }
            .decide(),
            Verdict::Admit
        );
        assert_eq!(
            FloorPass {
                host_dirty: 12_288,
                ..example()
            }
            .decide(),
            Verdict::HostFull
        );
    }

    #[test]
    fn a_tight_memory_max_caps_the_floor() {
        assert_eq!(caps(1_000, UNLIMITED, 500), 1_000);
        assert_eq!(caps(1_000, 1_000, 0), 500, "half of memory.max");
        assert_eq!(caps(1_000, 1_000, 800), 200, "memory.max - memory.min");
        assert_eq!(caps(1_000, 1_000, 2_000), 0, "memory.min above memory.max");
        assert_eq!(caps(1_000, 0, 0), 0);
        assert_eq!(caps(1_000, 1, 0), 0);
        assert_eq!(caps(1_000, 3, 0), 1);
        assert_eq!(caps(UNLIMITED, UNLIMITED, 0), PAGES_MAX);
    }

    #[test]
    fn the_pool_scales_in_proportion() {
        let pool = Pool {
            wanted_total: 16_000,
            host_thresh: 10_000,
        };
        assert_eq!(pool.total_floors(), 8_000);
        assert_eq!(pool.scaled_floor(12_000), 6_000);
        assert_eq!(pool.scaled_floor(4_000), 2_000);
        let lagging = Pool {
            wanted_total: 0,
            host_thresh: 10_000,
        };
        assert_eq!(
            lagging.scaled_floor(12_000),
            8_000,
            "a stale total does not lift the cap"
        );
    }
}
