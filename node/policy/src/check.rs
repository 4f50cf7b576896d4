// SPDX-License-Identifier: GPL-2.0-only
//! What holds for every input, hostile ones included.
//!
//! A [`Case`] is one set of arguments for one group of functions, and [`Case::check`] panics if the
//! answers break a promise. Two sources of cases share it: the property tests below, which know
//! where the edges are, and the fuzzer, which has no idea and finds others. What the fuzzer keeps
//! in `fuzz/corpus` is replayed by `cargo test`, with no fuzzer needed.

use crate::ceiling::{self, CEILING_MIN, Ceiling, Counts, Limits, Memory};
use crate::credit::Credit;
use crate::division::{self, Budget, HWEIGHT_ONE, WEIGHT_MAX, WEIGHT_MIN};
use crate::drain::{self, Beat, Drain, PERCENT_OF_DIRTYABLE};
use crate::floor::{Caps, Cover, FLOORS_PERCENT_OF_LIMIT, FloorPass, Pool, Verdict};
use crate::parse::{self, BYTES_MAX, Error};
use crate::pass::{Facts, Pass};
use crate::pause::{self, Decider};
use crate::reserve::{self, Reservation};
use crate::subtree::{Subtree, Tally};
use crate::tier::{BY_CAPACITY, Group, Room, Settings, Tiers};
use crate::{PAGES_MAX, UNLIMITED, arith, window};
use arbitrary::{Arbitrary, Unstructured};
use floors::*;
use limits::*;
use tiers::*;
use weights::*;

mod floors;
mod limits;
mod tiers;
mod weights;

/// One set of arguments; each variant has a `check_` function of its name.
#[derive(Clone, Debug, Arbitrary)]
#[allow(missing_docs)] // the members are the arguments of the functions they are handed to
pub enum Case {
    Arith {
        a: u64,
        b: u64,
        c: u64,
    },
    Pass(Facts),
    Floors {
        cgroups: Vec<Caps>,
        host_thresh: u64,
    },
    StalePool {
        own: u64,
        pool: Pool,
    },
    FloorPass {
        pass: FloorPass,
        more: u64,
    },
    FloorCover {
        pass: FloorPass,
        floors: Vec<Cover>,
    },
    Subtrees {
        levels: Vec<(u8, u32)>,
        tellings: Vec<(u8, u32, u32)>,
    },
    CreditOfWriters {
        passes: Vec<(u16, u16)>,
        most: u64,
    },
    CreditOfAnything {
        credit: Credit,
        most: u64,
        own: u64,
        recorded: u64,
        admitted: bool,
    },
    Text(Vec<u8>),
    CeilingPages {
        knobs: Ceiling,
        avail: u64,
    },
    Headroom(Vec<(u64, u64)>),
    Avail(Memory),
    Amend {
        limits: Limits,
        ceiling: u64,
        counts: Counts,
        kind: u8,
    },
    Path {
        stock: Limits,
        path: Vec<(u64, Counts)>,
        kind: u8,
    },
    Pause(pause::Facts),
    Poll {
        ceiling: u64,
        freerun: u64,
        counts: Counts,
        stock_poll: u64,
    },
    HostAmend {
        limits: Limits,
        host: Reservation,
        kind: u8,
    },
    Drain {
        drain: Drain,
        beat: Beat,
    },
    DrainAmend {
        limits: Limits,
        limit: u64,
        stock: u64,
    },
    Hweights {
        weights: Vec<u16>,
        parent: u32,
    },
    Order {
        vtime: u64,
        least: u64,
        pages: u64,
        hweight: u32,
        budget: u64,
    },
    Budget {
        budget: Budget,
        notes: Vec<(u64, u64, u64)>,
        in_flight: u64,
    },
    Fairness {
        weights: [u8; 2],
        pages_per_ms: u16,
        turns: u64,
    },
    Budgets {
        tiers: Tiers,
        ratio: u32,
        limit: u64,
    },
    Plan {
        tiers: Tiers,
        room: Room,
        settings: Settings,
        groups: Vec<Group>,
    },
}

impl Case {
    /// The case a fuzzer's `bytes` stand for; `None` if there are too few of them.
    pub fn from_bytes(bytes: &[u8]) -> Option<Case> {
        Case::arbitrary_take_rest(Unstructured::new(bytes)).ok()
    }

    /// Panics, saying what was promised, if the policy breaks a promise on this case.
    pub fn check(&self) {
        match self {
            &Case::Arith { a, b, c } => check_arith(a, b, c),
            Case::Pass(facts) => check_pass(facts),
            Case::Floors {
                cgroups,
                host_thresh,
            } => check_floors(cgroups, *host_thresh),
            Case::StalePool { own, pool } => {
                assert!(
                    pool.scaled_floor(*own) <= floors_cap(pool.host_thresh),
                    "one floor: 80 %"
                );
                assert!(
                    pool.scaled_floor(*own) <= arith::saturate_pages(*own),
                    "never more than asked"
                );
            }
            Case::FloorPass { pass, more } => check_floor_pass(pass, *more),
            Case::FloorCover { pass, floors } => check_floor_cover(pass, floors),
            Case::Subtrees { levels, tellings } => check_subtrees(levels, tellings),
            Case::CreditOfWriters { passes, most } => check_credit_of_writers(passes, *most),
            Case::CreditOfAnything {
                credit,
                most,
                own,
                recorded,
                admitted,
            } => {
                let mut credit = *credit;
                // the module's is bounded by a floor
                credit.balance %= PAGES_MAX as i64;
                let before = credit.foreign_pages();
                credit.charge_pass(*most, *own, *recorded, *admitted);
                assert!(credit.balance <= (*most).min(PAGES_MAX) as i64, "bounded");
                assert!(
                    *admitted || credit.foreign_pages() <= before,
                    "nothing is added"
                );
                let before = credit.foreign_pages();
                credit.forgive_part(*most);
                assert!(credit.foreign_pages() < before || before == 0, "forgiven");
            }
            Case::Text(text) => check_text(text),
            Case::CeilingPages { knobs, avail } => check_ceiling_pages(knobs, *avail),
            Case::Headroom(path) => {
                let least = path.iter().fold(UNLIMITED, |least, &(limit, used)| {
                    ceiling::memory_headroom(least, limit, used)
                });
                let left = path.iter().map(|(limit, used)| limit.saturating_sub(*used));
                assert_eq!(least, left.min().unwrap_or(UNLIMITED));
            }
            Case::Avail(memory) => {
                let avail = memory.dirtyable_pages();
                assert!(avail >= memory.file, "its own page cache");
                assert!(
                    avail <= memory.file.max(arith::add(memory.host_avail, memory.dirty)),
                    "no more than there is"
                );
                assert!(avail - memory.file <= memory.headroom, "within its limits");
            }
            Case::Amend {
                limits,
                ceiling,
                counts,
                kind,
            } => {
                let kind = [Pass::Writer, Pass::Flusher, Pass::Reader][usize::from(kind % 3)];
                check_amend(limits, *ceiling, counts, kind);
            }
            Case::HostAmend { limits, host, kind } => {
                let kind = [Pass::Writer, Pass::Flusher, Pass::Reader][usize::from(kind % 3)];
                check_host_amend(limits, host, kind);
            }
            Case::Drain { drain, beat } => check_drain(*drain, beat),
            &Case::DrainAmend {
                limits,
                limit,
                stock,
            } => check_drain_amend(limits, limit, stock),
            Case::Path { stock, path, kind } => {
                let kind = [Pass::Writer, Pass::Flusher, Pass::Reader][usize::from(kind % 3)];
                check_path(stock, path, kind);
            }
            Case::Pause(facts) => check_pause(facts),
            Case::Poll {
                ceiling,
                freerun,
                counts,
                stock_poll,
            } => {
                let poll = ceiling::poll_pages(*ceiling, *freerun, counts, *stock_poll);
                assert!(
                    poll >= 1 && poll <= (*stock_poll).max(1),
                    "within the kernel's own"
                );
                let held = arith::add(counts.dirty, counts.writeback);
                assert!(
                    poll == 1 || poll <= ceiling.saturating_sub(held),
                    "within the room"
                );
            }
            Case::Hweights { weights, parent } => check_hweights(weights, *parent),
            &Case::Order {
                vtime,
                least,
                pages,
                hweight,
                budget,
            } => check_order(vtime, least, pages, hweight, budget),
            Case::Budget {
                budget,
                notes,
                in_flight,
            } => check_budget(*budget, notes, *in_flight),
            &Case::Fairness {
                weights,
                pages_per_ms,
                turns,
            } => check_fairness(weights, pages_per_ms, turns),
            Case::Budgets {
                tiers,
                ratio,
                limit,
            } => check_budgets(tiers, *ratio, *limit),
            Case::Plan {
                tiers,
                room,
                settings,
                groups,
            } => check_plan(tiers, room, settings, groups),
        }
    }
}

/// `pages * num / den`, with nothing lost on the way.
fn exact_share(pages: u64, num: u64, den: u64) -> u64 {
    if num >= den {
        pages
    } else {
        (u128::from(pages) * u128::from(num) / u128::from(den)) as u64
    }
}

fn floors_cap(host_thresh: u64) -> u64 {
    exact_share(host_thresh.min(PAGES_MAX), FLOORS_PERCENT_OF_LIMIT, 100)
}

fn check_arith(a: u64, b: u64, c: u64) {
    assert_eq!(arith::saturate_pages(a), a.min(PAGES_MAX));
    assert_eq!(arith::add(a, b), a.saturating_add(b));
    assert_eq!(arith::bytes_to_pages(a), a / 4096);
    assert_eq!(
        arith::freerun_level(a, b),
        (a.min(PAGES_MAX) + b.min(PAGES_MAX)) / 2
    );

    let (pages, share) = (a.min(PAGES_MAX), arith::scale_pages(a, b, c));
    let exact = exact_share(pages, b, c);
    if c <= PAGES_MAX {
        assert_eq!(share, exact, "exact for 32 bits");
    } else {
        // Numerator and denominator keep their top 32 bits, so each is off by 1 in 2^31 at most.
        assert!(share <= exact, "errs downwards");
        assert!(exact - share <= 4, "errs by {} pages", exact - share);
    }
    assert!(
        arith::scale_pages(a, b.saturating_add(1), c) >= share,
        "monotonic in the numerator"
    );
    assert!(
        arith::scale_pages(a.saturating_add(1), b, c) >= share,
        "monotonic in the pages"
    );
}

fn check_pass(facts: &Facts) {
    let kind = facts.pass_kind();
    if facts.has_wb == 0 || facts.has_gdtc != 0 && facts.gdtc_has_wb == 0 {
        assert_eq!(kind, Pass::Reader, "a reader without a wb of its own");
    }
    if facts.may_cap() {
        assert_ne!(kind, Pass::Reader, "readers see stock");
        assert_ne!(facts.has_gdtc, 0, "a ceiling is for the cgroup's domain");
        assert_eq!(facts.strictlimit, 0, "no ceiling on strictlimit devices");
    }
    if kind != Pass::Reader {
        let other = Facts {
            in_flusher: u32::from(facts.in_flusher == 0),
            ..*facts
        };
        assert_ne!(other.pass_kind(), kind);
        assert_eq!(
            other.may_cap(),
            facts.may_cap(),
            "writer and flusher see one truth"
        );
    }
}

/// Another way to say what `policy/parse.c` says: with the standard library, in 128 bits.
fn check_text(text: &[u8]) {
    let space = |byte: &u8| b" \n\t\r".contains(byte);
    let start = text
        .iter()
        .position(|byte| !space(byte))
        .unwrap_or(text.len());
    let end = text
        .iter()
        .rposition(|byte| !space(byte))
        .map_or(start, |last| last + 1);
    let trimmed = &text[start..end];
    let digits = |text: &[u8]| -> Option<u128> {
        if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
            return None;
        }
        // More digits than 128 bits hold are out of every range.
        Some(std::str::from_utf8(text).ok()?.parse().unwrap_or(u128::MAX))
    };

    let (number, unit) = match trimmed.split_last() {
        Some((b'k' | b'K', number)) => (number, 1u128 << 10),
        Some((b'm' | b'M', number)) => (number, 1 << 20),
        Some((b'g' | b'G', number)) => (number, 1 << 30),
        Some((b't' | b'T', number)) => (number, 1 << 40),
        _ => (trimmed, 1),
    };
    let bytes = match digits(number).map(|number| number.saturating_mul(unit)) {
        _ if trimmed == b"max" => Ok(UNLIMITED),
        None => Err(Error::Invalid),
        Some(bytes) if bytes > u128::from(BYTES_MAX) => Err(Error::OutOfRange),
        Some(bytes) => Ok(bytes as u64),
    };
    assert_eq!(
        parse::parse_bytes(text),
        bytes,
        "{:?}",
        text.escape_ascii().to_string()
    );

    let weights = WEIGHT_MIN.into()..=WEIGHT_MAX.into();
    let weight = match digits(trimmed) {
        None => Err(Error::Invalid),
        Some(weight) if weights.contains(&weight) => Ok(weight as u32),
        Some(_) => Err(Error::OutOfRange),
    };
    assert_eq!(
        parse::parse_weight(text),
        weight,
        "{:?}",
        text.escape_ascii().to_string()
    );

    let percent = match digits(trimmed) {
        Some(percent) if percent <= 100 => Ok(percent as u32),
        _ => Err(Error::Invalid),
    };
    assert_eq!(
        parse::parse_percent(text),
        percent,
        "{:?}",
        text.escape_ascii().to_string()
    );

    let ratio = match percent {
        _ if trimmed == b"default" => Ok(BY_CAPACITY),
        percent => percent,
    };
    assert_eq!(
        parse::parse_ratio(text),
        ratio,
        "{:?}",
        text.escape_ascii().to_string()
    );
}

#[cfg(test)]
mod tests;
