// SPDX-License-Identifier: GPL-2.0-only
//! How fast a cgroup and all below it may dirty pages, `memory.dirty_bandwidth`; see
//! `policy/bandwidth.c`.

use crate::ffi as c;

/// The least bound, in bytes per second.
pub const BANDWIDTH_MIN: u64 = c::WEIR_BANDWIDTH_MIN as u64;
/// The most that a cgroup owes, as the time in milliseconds that its bound takes to pay it.
pub const OWED_MOST_MS: u64 = c::WEIR_BANDWIDTH_OWED_MOST_MS as u64;
/// For how long a part of a line counts after all that it owed was paid, in milliseconds.
pub const PART_LINGERS_MS: u64 = c::WEIR_BANDWIDTH_PART_LINGERS_MS as u64;

/// Bytes that a cgroup with a bound has been charged and has paid.
pub use c::weir_bandwidth as Level;

/// The debt that a pass waits for, on the path of its task.
pub use c::weir_bandwidth_hold as Hold;

impl Level {
    /// Nothing is owed and nothing saved from `now_ns` on.
    pub fn start(&mut self, now_ns: u64) {
        // SAFETY: the pointer is valid for the call, exclusively.
        unsafe { c::weir_bandwidth_start(self, now_ns) }
    }

    /// Time has gone by with `bound`, in bytes per second.
    pub fn advance_to(&mut self, bound: u64, now_ns: u64) {
        // SAFETY: the pointer is valid for the call, exclusively.
        unsafe { c::weir_bandwidth_advance(self, bound, now_ns) }
    }
}

impl Level {
    /// Tasks of one of `parts` of a line with `bound` ended, and did not wait for `pages`.
    pub fn leave_debt(&mut self, parts: u64, bound: u64, now_ns: u64, pages: u64) {
        // SAFETY: the pointer is valid for the call, exclusively.
        unsafe { c::weir_bandwidth_leave(self, parts, bound, now_ns, pages) }
    }

    /// Milliseconds until what was left up to now is paid.
    pub fn left_debt_ms(&mut self, parts: u64, bound: u64, now_ns: u64) -> u64 {
        let ticket = self.charged;
        // SAFETY: the pointer is valid for the call, exclusively.
        unsafe { c::weir_bandwidth_left_ms(self, parts, bound, now_ns, ticket) }
    }
}

/// The line of a level, as a task finds it that dirties pages below it.
pub struct Line<'a> {
    /// All that is dirtied below the level.
    pub level: &'a mut Level,
    /// That of the child the task is in, or of the level's own tasks.
    pub part: &'a mut Level,
    /// Number of parts whose tasks dirty something.
    pub parts: u64,
    /// Bytes per second.
    pub bound: u64,
}

impl Line<'_> {
    /// Milliseconds until the tickets of `hold` are paid.
    pub fn due_ms(&mut self, now_ns: u64, hold: &Hold) -> u64 {
        let (level, part) = (&mut *self.level, &mut *self.part);
        // SAFETY: the pointers are valid for the call, the first two exclusively.
        unsafe { c::weir_bandwidth_due_ms(level, part, self.parts, self.bound, now_ns, hold) }
    }

    /// Charges the pages of `hold` to this level, the caller's `number`.
    pub fn charge_pages(&mut self, now_ns: u64, number: u64, hold: &mut Hold) {
        let (level, part) = (&mut *self.level, &mut *self.part);
        // SAFETY: the pointers are valid for the call, exclusively.
        unsafe {
            c::weir_bandwidth_charge(level, part, self.parts, self.bound, now_ns, number, hold);
        }
    }
}

impl Hold {
    /// A pass that reports `pages`.
    pub fn for_pages(pages: u64) -> Hold {
        Hold {
            pages,
            ..Hold::default()
        }
    }

    /// `true` if it is to be waited for, `false` if it is left to add up.
    pub fn must_wait(&self) -> bool {
        // SAFETY: the pointer is valid for the call.
        unsafe { c::weir_bandwidth_holds(self) != 0 }
    }

    /// Pages the task may dirty before it is looked at again.
    pub fn poll_pages(&self, stock_poll: u64) -> u64 {
        // SAFETY: the pointer is valid for the call.
        unsafe { c::weir_bandwidth_poll(self, stock_poll) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const MIB: u64 = 1 << 20;
    const START: u64 = 1 << 40;

    fn started() -> Level {
        let mut level = Level::default();
        level.start(START);
        level
    }

    /// Charges a level that has one part.
    fn charge(level: &mut Level, bound: u64, now_ns: u64, number: u64, hold: &mut Hold) {
        let mut part = *level;
        let (part, parts) = (&mut part, 1);
        Line {
            level,
            part,
            parts,
            bound,
        }
        .charge_pages(now_ns, number, hold);
    }

    fn due_ms(level: &mut Level, bound: u64, now_ns: u64, hold: &Hold) -> u64 {
        let mut part = *level;
        let (part, parts) = (&mut part, 1);
        Line {
            level,
            part,
            parts,
            bound,
        }
        .due_ms(now_ns, hold)
    }

    /// The example at the top of `policy/bandwidth.c`.
    #[test]
    fn worked_example() {
        let (mut level, mut parent) = (started(), started());
        let mut first = Hold::for_pages(32);
        charge(&mut level, MIB, START, 1, &mut first);
        charge(&mut parent, 2 * MIB, START, 2, &mut first);
        assert_eq!(
            (first.due_ms, first.number, first.poll_pages(1_000)),
            (125, 1, 25)
        );
        let woken = START + 125 * MS;
        assert_eq!(due_ms(&mut level, MIB, woken, &first), 0);

        let mut second = Hold::for_pages(25);
        charge(&mut level, MIB, woken, 1, &mut second);
        assert_eq!(second.due_ms, 98);
        let mut joined = Hold::for_pages(32);
        charge(&mut level, MIB, woken, 1, &mut joined);
        assert_eq!((joined.due_ms, joined.poll_pages(1_000)), (223, 13));

        let later = woken + 48 * MS;
        level.advance_to(MIB, later);
        assert_eq!(due_ms(&mut level, 10 * MIB, later, &second), 5);
    }

    #[test]
    fn what_ended_tasks_left_is_paid_at_the_rate_of_their_part() {
        let mut left = started();
        left.leave_debt(2, 2 * MIB, START, 1_024);
        assert_eq!(left.left_debt_ms(2, 2 * MIB, START), 4_000);
        assert_eq!(left.left_debt_ms(2, 2 * MIB, START + 3_000 * MS), 1_000);
        assert_eq!(left.left_debt_ms(1, 2 * MIB, START + 3_000 * MS), 500);
        assert_eq!(left.left_debt_ms(2, 2 * MIB, START + 5_000 * MS), 0);
        left.leave_debt(2, 2 * MIB, START + 5_000 * MS, 1 << 30);
        assert_eq!(
            left.left_debt_ms(2, 2 * MIB, START + 5_000 * MS),
            OWED_MOST_MS
        );
    }

    #[test]
    fn nobody_saves_up_and_nobody_owes_for_hours() {
        let mut level = started();
        let much = START + 3_600_000 * MS;
        let mut hold = Hold::for_pages(256);
        charge(&mut level, MIB, much, 1, &mut hold);
        assert_eq!(hold.due_ms, 901, "100 ms were saved in an hour");
        let mut hold = Hold::for_pages(1 << 30);
        charge(&mut level, MIB, much, 1, &mut hold);
        assert_eq!(hold.due_ms, OWED_MOST_MS);
        let mut hold = Hold::for_pages(0);
        charge(&mut level, 64 << 10, much, 1, &mut hold);
        assert_eq!(hold.due_ms, OWED_MOST_MS, "nor after the bound is lowered");
        level.advance_to(64 << 10, much + OWED_MOST_MS * MS);
        let mut hold = Hold::for_pages(1);
        charge(&mut level, 64 << 10, much + OWED_MOST_MS * MS, 1, &mut hold);
        assert_eq!(hold.due_ms, 63);
    }

    #[test]
    fn a_siblings_debt_is_not_waited_for() {
        let (mut level, mut debtor, mut sibling) = (started(), started(), started());
        let mut charge = |part: &mut Level, now_ns, pages| {
            let mut hold = Hold::for_pages(pages);
            Line {
                level: &mut level,
                part,
                parts: 2,
                bound: 2 * MIB,
            }
            .charge_pages(now_ns, 1, &mut hold);
            hold.due_ms
        };
        // As killed writers leave it, or a call of 1 GiB: the line is full.
        assert_eq!(charge(&mut debtor, START, 1 << 18), OWED_MOST_MS);
        for second in 0..60 {
            let now_ns = START + second * 1_000 * MS;
            assert_eq!(charge(&mut sibling, now_ns, 256), 1_000);
        }
        let behind = charge(&mut debtor, START + 60_000 * MS, 1);
        assert!(behind >= 60_000, "{behind}");
    }

    #[test]
    fn looks_every_nanosecond_lose_nothing() {
        let (mut seldom, mut often) = (started(), started());
        for level in [&mut seldom, &mut often] {
            charge(level, 100_001, START, 1, &mut Hold::for_pages(1_000));
        }
        for ns in 0..5_000_000 {
            often.advance_to(100_001, START + ns);
        }
        seldom.advance_to(100_001, START + 4_999_999);
        assert_eq!(seldom, often);
        seldom.advance_to(100_001, START);
        assert_eq!(seldom, often, "a late look finds nothing new");
    }

    #[test]
    fn short_waits_add_up() {
        let mut level = started();
        let mut hold = Hold::for_pages(2);
        charge(&mut level, MIB, START, 1, &mut hold);
        assert!(!hold.must_wait(), "{hold:?}");
        let mut hold = Hold::for_pages(1);
        charge(&mut level, MIB, START, 1, &mut hold);
        assert!(hold.must_wait(), "{hold:?}");
        assert_eq!(
            Hold::for_pages(7).poll_pages(99),
            99,
            "no level, no shorter look"
        );
    }
}
