// SPDX-License-Identifier: GPL-2.0-only
//! The weight, `memory.dirty_weight`: what a page costs, among those who compete for a device. See
//! `policy/weight.c`.

mod c {
    use super::*;
    unsafe extern "C" {
        pub safe fn weir_weight_shown(hweight: u32) -> u32;
        pub safe fn weir_hweight(hweight: u32, weight: u32, siblings: u64) -> u32;
        pub safe fn weir_wb_rate(wb_rate: u64, written: u64, elapsed_ms: u64) -> u64;
        pub fn weir_turn_pay(turn: *const Turn, due_ns: u64, now_ns: u64, pages: u64) -> Payment;
        pub fn weir_turn_holds(turn: *const Turn) -> i32;
        pub fn weir_turn_wait_ms(turn: *const Turn, due_ns: u64, now_ns: u64) -> u64;
        pub safe fn weir_turn_poll(cost_ns: u64, stock_poll: u64) -> u64;
    }
}

/// The least weight.
pub const WEIGHT_MIN: u32 = 1;
/// The greatest weight.
pub const WEIGHT_MAX: u32 = 10_000;
/// The weight of a cgroup that was given none.
pub const WEIGHT_DEFAULT: u32 = 100;
/// The whole device, as a hweight.
pub const HWEIGHT_ONE: u32 = 1 << 20;
/// The whole device, as [`shown`] has it.
pub const HWEIGHT_SHOWN: u32 = 10_000;

/// A hweight as people read it, rounded to the nearest of [`HWEIGHT_SHOWN`] parts.
pub fn shown(hweight: u32) -> u32 {
    c::weir_weight_shown(hweight)
}
pub use crate::names::ROUND_MS;
/// The shortest wait.
pub const WAIT_MIN_MS: u64 = 10;
/// How many rounds a cgroup may owe, or have saved.
pub const DEBT_ROUNDS: u64 = 25;
/// The longest wait in one pass.
pub const WAIT_MOST_MS: u64 = 1_000;

/// Of a parent's `hweight`, the part of a child with `weight` where the weights of all children
/// that compete add up to `siblings`; at least 1.
pub fn hweight(hweight: u32, weight: u32, siblings: u64) -> u32 {
    c::weir_hweight(hweight, weight, siblings)
}

/// Pages a device cleans in a round, smoothed: it was `wb_rate`, and `written` in the last
/// `elapsed_ms`.
pub fn wb_rate(wb_rate: u64, written: u64, elapsed_ms: u64) -> u64 {
    c::weir_wb_rate(wb_rate, written, elapsed_ms)
}

/// A look at a writer of one cgroup, on one device; counts in pages.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct Turn {
    /// The cgroup's, of [`HWEIGHT_ONE`]; 0 if it does not compete.
    pub hweight: u32,
    /// Whether it is in a division below the root.
    pub nested: u32,
    /// Whether it is there the furthest behind its hweight.
    pub behind: u32,
    /// Pages that the division's members get in a round.
    pub wb_rate: u64,
    /// Dirty + writeback on the device, of all who compete.
    pub queued: u64,
    /// The host's dirty + writeback.
    pub host_dirty: u64,
    /// The global dirty limit.
    pub host_thresh: u64,
    /// The global background level.
    pub host_bg_thresh: u64,
}

/// What came of paying for some pages.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payment {
    /// Until when the cgroup has paid now.
    pub due_ns: u64,
    /// What a page cost; 0 for a cgroup that is not held.
    pub cost_ns: u64,
    /// Of the pages, those that the most that can be owed leaves out.
    pub forgiven: u64,
}

impl Turn {
    /// Pays for `pages` more, where it was paid until `due_ns`.
    pub fn pay(&self, due_ns: u64, now_ns: u64, pages: u64) -> Payment {
        // SAFETY: the pointer is valid for the call.
        unsafe { c::weir_turn_pay(self, due_ns, now_ns, pages) }
    }

    /// What a page costs now; 0 for a cgroup that is not held.
    #[cfg(any(test, feature = "check"))]
    pub fn cost_ns(&self) -> u64 {
        self.pay(0, 0, 0).cost_ns
    }

    /// Whether writers of the cgroup may be held at all.
    pub fn holds(&self) -> bool {
        // SAFETY: the pointer is valid for the call.
        unsafe { c::weir_turn_holds(self) != 0 }
    }

    /// For how long a writer has to wait in this pass whose cgroup has paid until `due_ns`; 0 to go
    /// on.
    pub fn wait_ms(&self, due_ns: u64, now_ns: u64) -> u64 {
        // SAFETY: the pointer is valid for the call.
        unsafe { c::weir_turn_wait_ms(self, due_ns, now_ns) }
    }
}

/// Pages a task may dirty before it is looked at again.
pub fn poll(cost_ns: u64, stock_poll: u64) -> u64 {
    c::weir_turn_poll(cost_ns, stock_poll)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The host of the example at the top of `policy/weight.c`, where the ease is 1.
    const TURN: Turn = Turn {
        hweight: HWEIGHT_ONE / 5,
        nested: 0,
        behind: 0,
        wb_rate: 1_000,
        queued: 5_000,
        host_dirty: 5_632,
        host_thresh: 8_192,
        host_bg_thresh: 4_096,
    };
    const MS: u64 = 1_000_000;

    fn near(cost_ns: u64, wanted_ns: u64) -> bool {
        cost_ns.abs_diff(wanted_ns) <= wanted_ns / 50
    }

    /// Runs cgroups of (hweight in percent, most pages in a millisecond) for `seconds` against a
    /// disk that cleans 5 pages a millisecond, in chunks, evenly for all that have something to
    /// write. Others hold `others` pages for good. Returns what of each was cleaned in the second
    /// half.
    fn disk(cgroups: &[(u32, u64)], others: u64, seconds: u64) -> Vec<u64> {
        let mut dirty = vec![0u64; cgroups.len()];
        let mut cleaned = dirty.clone();
        let mut due = dirty.clone();
        let (mut turn, mut written) = (TURN, 0);
        for now in 1..=seconds * 1_000 {
            turn.host_dirty = others + dirty.iter().sum::<u64>();
            for (i, &(percent, most)) in cgroups.iter().enumerate() {
                turn.hweight = hweight(HWEIGHT_ONE, percent, 100);
                let free = now > 1_000 && turn.wait_ms(due[i], now * MS) == 0;
                if (free || now <= 1_000) && turn.host_dirty < turn.host_thresh {
                    dirty[i] += most;
                    due[i] = turn.pay(due[i], now * MS, most).due_ns;
                }
            }
            let busy = dirty.iter().filter(|pages| **pages >= 50).count() as u64;
            let flushers_work = others + dirty.iter().sum::<u64>() > turn.host_bg_thresh;
            if now % 10 == 0 && flushers_work {
                for (pages, cleaned) in dirty.iter_mut().zip(&mut cleaned) {
                    let part = (50 / busy.max(1)).min(*pages);
                    *pages -= part;
                    written += part;
                    *cleaned += if now > seconds * 500 { part } else { 0 };
                }
            }
            if now % ROUND_MS == 0 {
                turn.wb_rate = wb_rate(turn.wb_rate, written, ROUND_MS);
                turn.queued = dirty.iter().sum();
                written = 0;
            }
        }
        cleaned
    }

    #[test]
    fn worked_example() {
        assert!(near(TURN.cost_ns(), MS));
        let second = Turn {
            hweight: HWEIGHT_ONE * 4 / 5,
            ..TURN
        };
        assert!(near(second.cost_ns(), MS / 4));
        let sunk = Turn {
            host_dirty: 5_000,
            ..TURN
        };
        assert!((290..310).contains(&(ROUND_MS * MS / sunk.cost_ns())));
    }

    #[test]
    fn prices_follow_the_level() {
        let at = |host_dirty, queued| {
            Turn {
                host_dirty,
                queued,
                ..TURN
            }
            .cost_ns()
        };
        assert!(
            near(at(4_096, 5_000), MS * 2 / 5),
            "2.5 where flushers rest"
        );
        assert!(near(at(0, 5_000), MS * 2 / 5), "and no lower");
        assert!(near(at(6_656, 5_000), MS * 8), "an eighth above freerun");
        assert!(near(at(8_192, 5_000), MS * 8), "and no higher");
        assert!(near(at(8_192, 900), MS / 2), "unless others hold it");
    }

    #[test]
    fn shares_follow_weights_and_the_disk_stays_busy() {
        const MUCH: u64 = 50;
        for shares in [
            vec![(20, MUCH), (80, MUCH)],
            vec![(7, MUCH), (13, MUCH), (27, MUCH), (53, MUCH)],
            vec![(2, MUCH), (98, MUCH)],
            vec![(50, MUCH), (50, MUCH)],
        ] {
            let cleaned = disk(&shares, 0, 60);
            let total: u64 = cleaned.iter().sum();
            assert!(total >= 30 * 5_000 * 95 / 100, "{total}: {shares:?}");
            for ((share, _), cleaned) in shares.iter().zip(&cleaned) {
                let wanted = total * u64::from(*share) / 100;
                assert!(
                    cleaned.abs_diff(wanted) <= wanted / 10,
                    "{cleaned} of {wanted}: {shares:?}"
                );
            }
        }
    }

    #[test]
    fn what_one_does_not_use_the_other_gets() {
        // due 4 pages a millisecond, uses 1
        let cleaned = disk(&[(80, 1), (20, 50)], 0, 60);
        let total: u64 = cleaned.iter().sum();
        assert!(total >= 30 * 5_000 * 90 / 100, "{cleaned:?}");
        assert!(cleaned[0] >= 30 * 1_000 * 95 / 100, "{cleaned:?}");
    }

    #[test]
    fn who_does_not_pay_starves_nobody() {
        let cleaned = disk(&[(80, 50), (20, 50)], 7_500, 60);
        let total: u64 = cleaned.iter().sum();
        assert!(total >= 30 * 5_000 * 90 / 100, "{cleaned:?}");
    }

    #[test]
    fn debts_and_savings_end() {
        let now = 60_000 * MS;
        let round = ROUND_MS * MS;
        let price = TURN.cost_ns();
        let paid_until = |due, pages| TURN.pay(due, now, pages).due_ns;
        assert_eq!(paid_until(0, 0), now - round);
        assert_eq!(paid_until(0, 7), now - round + 7 * price);
        assert_eq!(paid_until(now, 7), now + 7 * price);
        assert_eq!(paid_until(now, u64::MAX), now + DEBT_ROUNDS * round);
        let owes_all = TURN.pay(now + DEBT_ROUNDS * round, now, 7);
        assert_eq!(
            (owes_all.due_ns, owes_all.forgiven),
            (now + DEBT_ROUNDS * round, 7)
        );
    }

    #[test]
    fn the_room_is_filled_by_weight() {
        let now = 60_000 * MS;
        for sunk in [1_000, 2_000, 3_000, 4_000] {
            let parts = [1, 4].map(|fifths| {
                let turn = Turn {
                    hweight: HWEIGHT_ONE * fifths / 5,
                    host_dirty: sunk,
                    wb_rate: 300,
                    ..TURN
                };
                (now - turn.pay(0, now, 0).due_ns) / turn.cost_ns()
            });
            let room = 5_632 - sunk;
            assert!(
                parts[0].abs_diff(room / 5) < room / 20,
                "{parts:?} of {room}"
            );
            assert!(
                parts[1].abs_diff(room * 4 / 5) < room / 20,
                "{parts:?} of {room}"
            );
        }
    }

    #[test]
    fn waits_only_while_flushers_have_work() {
        let now = 60_000 * MS;
        let wait = |turn: Turn, ahead_ms| turn.wait_ms(now + ahead_ms * MS, now);
        assert_eq!([wait(TURN, 50), wait(TURN, 5_000)], [50, WAIT_MOST_MS]);
        assert_eq!([wait(TURN, 9), wait(TURN, 0)], [0, 0]);
        let rests = Turn {
            host_dirty: 4_096,
            ..TURN
        };
        assert_eq!(wait(rests, 50), 0);
        let other = Turn { hweight: 0, ..TURN };
        assert_eq!([wait(other, 50), other.cost_ns()], [0, 0]);
    }

    #[test]
    fn below_the_root_the_hosts_level_sets_no_price() {
        let at = |host_dirty| Turn {
            nested: 1,
            host_dirty,
            ..TURN
        };
        for level in [0, 4_096, 6_145, 8_192] {
            assert!(near(at(level).cost_ns(), MS), "{level}");
        }
        let now = 60_000 * MS;
        let waits = |turn: Turn| turn.wait_ms(now + 50 * MS, now);
        assert_eq!([waits(at(4_097)), waits(at(4_096))], [50, 0]);
        let behind = Turn {
            behind: 1,
            ..at(8_192)
        };
        assert_eq!([waits(behind), behind.cost_ns()], [0, 0]);
    }

    #[test]
    fn looks_are_as_close_as_the_shortest_wait() {
        assert_eq!([poll(MS, 32), poll(MS, 4), poll(0, 32)], [10, 4, 32]);
        assert_eq!(poll(u64::MAX, 32), 1);
    }
}
