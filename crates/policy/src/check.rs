// SPDX-License-Identifier: GPL-2.0-only
//! What holds for every input, whoever chose it.
//!
//! A [`Case`] is one set of arguments for one group of functions, and [`Case::check`] panics if the
//! answers break a promise. Two sources of cases share it: the property tests below, which know
//! where the edges are, and the fuzzer, which has no idea and finds others. What the fuzzer keeps in
//! `fuzz/corpus` is replayed by `cargo test`, with no fuzzer needed.

use crate::ceiling::{self, CEILING_MIN, Ceiling, Counts, Limits, Memory};
use crate::credit::{CREDIT_WINDOW_MS, Credit};
use crate::drain::{self, Beat, Drain, PERCENT_OF_DIRTYABLE};
use crate::floor::{Caps, FLOORS_PERCENT_OF_LIMIT, FloorPass, Pool, Verdict};
use crate::parse::{self, BYTES_MAX, Error};
use crate::pass::{Facts, Pass};
use crate::pause::{self, By, JudgedBy};
use crate::reserve::Host;
use crate::weight::{self, PORTION_ONE, ROUND_MS, Turn, WEIGHT_MAX};
use crate::{PAGES_MAX, UNLIMITED, arith};
use arbitrary::{Arbitrary, Unstructured};

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
    CreditInOneWindow {
        passes: Vec<(u16, u16)>,
        most_ahead: u64,
    },
    CreditOfForeigners(Vec<(u16, u16)>),
    CreditOfAnything {
        credit: Credit,
        now_ms: u64,
        by_task: u64,
        in_wb: u64,
    },
    Text(Vec<u8>),
    CeilingPages {
        knobs: Ceiling,
        avail: u64,
    },
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
        counts: Counts,
        stock_poll: u64,
    },
    HostAmend {
        limits: Limits,
        host: Host,
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
    Portions {
        weights: Vec<u16>,
        parent: u32,
    },
    Pace {
        pace: u64,
        written: u64,
        elapsed_ms: u64,
    },
    Turn {
        turn: Turn,
        due_ns: u64,
        now_ns: u64,
        pages: u64,
        stock_poll: u64,
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
                    pool.effective(*own) <= floors_cap(pool.host_thresh),
                    "one floor: 80 %"
                );
                assert!(
                    pool.effective(*own) <= arith::saturate(*own),
                    "never more than asked"
                );
            }
            Case::FloorPass { pass, more } => check_floor_pass(pass, *more),
            Case::CreditInOneWindow { passes, most_ahead } => {
                check_credit_in_one_window(passes, *most_ahead);
            }
            Case::CreditOfForeigners(passes) => check_credit_of_foreigners(passes),
            Case::CreditOfAnything {
                credit,
                now_ms,
                by_task,
                in_wb,
            } => {
                let (before, mut credit) = (credit.now_pages, *credit);
                credit.charge(*now_ms, *by_task, *in_wb);
                assert!(credit.ahead <= credit.most_ahead, "bounded");
                assert!(credit.now_pages <= before.max(PAGES_MAX), "saturated");
            }
            Case::Text(text) => check_text(text),
            Case::CeilingPages { knobs, avail } => check_ceiling_pages(knobs, *avail),
            Case::Avail(memory) => {
                let avail = memory.avail();
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
                counts,
                stock_poll,
            } => {
                let poll = ceiling::poll(*ceiling, counts, *stock_poll);
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
            Case::Portions { weights, parent } => check_portions(weights, *parent),
            &Case::Pace {
                pace,
                written,
                elapsed_ms,
            } => {
                let next = weight::pace(pace, written, elapsed_ms);
                assert!(next <= PAGES_MAX, "saturated");
                assert!(
                    written == 0 || elapsed_ms > ROUND_MS || next > 0,
                    "work begun is seen"
                );
            }
            Case::Turn {
                turn,
                due_ns,
                now_ns,
                pages,
                stock_poll,
            } => check_turn(turn, *due_ns, *now_ns, *pages, *stock_poll),
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
    assert_eq!(arith::saturate(a), a.min(PAGES_MAX));
    assert_eq!(arith::add(a, b), a.saturating_add(b));
    assert_eq!(arith::bytes_to_pages(a), a / 4096);
    assert_eq!(
        arith::freerun(a, b),
        (a.min(PAGES_MAX) + b.min(PAGES_MAX)) / 2
    );

    let (pages, share) = (a.min(PAGES_MAX), arith::share(a, b, c));
    let exact = exact_share(pages, b, c);
    if c <= PAGES_MAX {
        assert_eq!(share, exact, "exact for 32 bits");
    } else {
        // Numerator and denominator keep their top 32 bits, so each is off by 1 in 2^31 at most.
        assert!(share <= exact, "errs downwards");
        assert!(exact - share <= 4, "errs by {} pages", exact - share);
    }
    assert!(
        arith::share(a, b.saturating_add(1), c) >= share,
        "monotonic in the numerator"
    );
    assert!(
        arith::share(a.saturating_add(1), b, c) >= share,
        "monotonic in the pages"
    );
}

fn check_pass(facts: &Facts) {
    let kind = facts.kind();
    if facts.has_wb == 0 || facts.has_gdtc != 0 && facts.gdtc_has_wb == 0 {
        assert_eq!(
            kind,
            Pass::Reader,
            "somebody without a wb of their own reads"
        );
    }
    if facts.may_cap() {
        assert_ne!(kind, Pass::Reader, "readers see stock");
        assert_ne!(facts.has_gdtc, 0, "a ceiling is for the cgroup's domain");
        assert!(!facts.may_reserve(), "one amendment per domain");
        assert_eq!(facts.strictlimit, 0, "no ceiling on strictlimit devices");
    }
    if facts.may_reserve() {
        assert_ne!(kind, Pass::Reader, "readers see stock");
        assert_eq!(facts.has_gdtc, 0, "a reservation is in the host's domain");
    }
    if kind != Pass::Reader {
        let other = Facts {
            in_flusher: u32::from(facts.in_flusher == 0),
            ..*facts
        };
        assert_ne!(other.kind(), kind);
        assert_eq!(
            other.may_cap(),
            facts.may_cap(),
            "writer and flusher see one truth"
        );
        assert_eq!(other.may_reserve(), facts.may_reserve(), "here too");
    }
}

fn check_floors(cgroups: &[Caps], host_thresh: u64) {
    let own: Vec<u64> = cgroups.iter().map(Caps::own).collect();
    for (caps, &own) in cgroups.iter().zip(&own) {
        assert!(own <= caps.wanted, "never more than asked for");
        if caps.memory_max != UNLIMITED {
            assert!(own <= caps.memory_max.saturating_sub(caps.memory_min));
            assert!(
                own <= caps.memory_max / 2,
                "half of memory.max stays reclaimable"
            );
        }
        let roomier = Caps {
            memory_max: caps.memory_max.saturating_add(1),
            ..*caps
        };
        assert!(roomier.own() >= own, "monotonic in memory.max");
        let protected = Caps {
            memory_min: caps.memory_min.saturating_add(1),
            ..*caps
        };
        assert!(protected.own() <= own, "anti-monotonic in memory.min");
    }
    let wanted_total = own.iter().fold(0, |sum: u64, &own| sum.saturating_add(own));
    let pool = Pool {
        wanted_total,
        host_thresh,
    };
    let effective: Vec<u64> = own.iter().map(|&own| pool.effective(own)).collect();
    let sum: u128 = effective.iter().copied().map(u128::from).sum();
    assert!(
        sum <= u128::from(floors_cap(host_thresh)),
        "all floors: 80 % of the limit"
    );
    assert!(
        sum <= u128::from(pool.total()),
        "the total is an upper bound"
    );
    for (&own, &effective) in own.iter().zip(&effective) {
        assert!(effective <= own, "scaling never widens");
        if wanted_total <= floors_cap(host_thresh) {
            assert_eq!(effective, own, "unscaled while they fit");
        }
    }
}

fn check_floor_pass(pass: &FloorPass, more: u64) {
    let held = pass
        .memcg_dirty
        .max(pass.wb_dirty)
        .saturating_add(pass.foreign);
    let poll = pass.poll();
    assert!(
        (1..=1 << 32).contains(&poll),
        "at least one page, at most the square root"
    );
    if pass.decide() == Verdict::Admit {
        assert!(held < pass.floor, "admitted only below the floor");
        assert!(
            poll <= pass.floor - held,
            "and looked at again before it is full"
        );
        assert!(pass.host_dirty < pass.host_thresh.saturating_add(pass.floors_total));
        assert!(pass.strictlimit == 0 && pass.cgroup_domain != 0);
        return;
    }
    // More held never admits what less held did not.
    for worse in [
        FloorPass {
            memcg_dirty: pass.memcg_dirty.saturating_add(more),
            ..*pass
        },
        FloorPass {
            wb_dirty: pass.wb_dirty.saturating_add(more),
            ..*pass
        },
        FloorPass {
            foreign: pass.foreign.saturating_add(more),
            ..*pass
        },
        FloorPass {
            host_dirty: pass.host_dirty.saturating_add(more),
            ..*pass
        },
        FloorPass {
            floor: pass.floor.saturating_sub(more),
            ..*pass
        },
        FloorPass {
            strictlimit: 1,
            ..*pass
        },
        FloorPass {
            cgroup_domain: 0,
            ..*pass
        },
    ] {
        assert_ne!(worse.decide(), Verdict::Admit, "{worse:?}");
    }
}

/// Within a window, in whatever order wbs and tasks tell of the same pages, the foreign ones are
/// exactly the furthest that tasks ever got ahead of the wbs; zero if they never did. A bound on how
/// far the wbs may be ahead can only add to them.
fn check_credit_in_one_window(passes: &[(u16, u16)], most_ahead: u64) {
    const NOW: u64 = 10 * CREDIT_WINDOW_MS;
    let (mut unbounded, mut bounded) = (Credit::new(UNLIMITED), Credit::new(most_ahead));
    let (mut furthest, mut tasks_ahead) = (0, 0i64);
    for &(by_task, in_wb) in passes {
        unbounded.charge(NOW, by_task.into(), in_wb.into());
        bounded.charge(NOW, by_task.into(), in_wb.into());
        tasks_ahead += i64::from(by_task) - i64::from(in_wb);
        furthest = furthest.max(tasks_ahead);
        assert_eq!(unbounded.pages(NOW), furthest as u64);
        assert!(
            bounded.pages(NOW) >= unbounded.pages(NOW),
            "no bound excuses anybody"
        );
    }
}

/// Foreign pages stay charged for one window and are gone after two, however passes fall.
fn check_credit_of_foreigners(passes: &[(u16, u16)]) {
    let mut credit = Credit::new(UNLIMITED);
    let mut now = 10 * CREDIT_WINDOW_MS;
    let mut charged: Vec<(u64, u64)> = Vec::new();
    for &(pause_ms, pages) in passes {
        now += u64::from(pause_ms);
        credit.charge(now, pages.into(), 0);
        charged.push((now, pages.into()));
        let younger_than = |age: u64| -> u64 {
            charged
                .iter()
                .filter(|(at, _)| now - at < age)
                .map(|(_, pages)| pages)
                .sum()
        };
        let held = credit.pages(now);
        assert!(
            held >= younger_than(CREDIT_WINDOW_MS),
            "charged for one window at least"
        );
        assert!(
            held <= younger_than(2 * CREDIT_WINDOW_MS),
            "for two at most"
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
        parse::bytes(text),
        bytes,
        "{:?}",
        text.escape_ascii().to_string()
    );

    let weight = match digits(trimmed) {
        None => Err(Error::Invalid),
        Some(weight) if (1..=10_000).contains(&weight) => Ok(weight as u32),
        Some(_) => Err(Error::OutOfRange),
    };
    assert_eq!(
        parse::weight(text),
        weight,
        "{:?}",
        text.escape_ascii().to_string()
    );

    let percent = match digits(trimmed) {
        Some(percent) if percent <= 100 => Ok(percent as u32),
        _ => Err(Error::Invalid),
    };
    assert_eq!(
        parse::percent(text),
        percent,
        "{:?}",
        text.escape_ascii().to_string()
    );
}

fn check_ceiling_pages(knobs: &Ceiling, avail: u64) {
    let pages = knobs.pages(avail);
    assert!(pages >= CEILING_MIN);
    assert_eq!(
        pages == UNLIMITED,
        knobs.bytes == UNLIMITED && knobs.ratio_percent == 0
    );
    let alone = |knobs: Ceiling| knobs.pages(avail);
    let by_bytes = alone(Ceiling {
        ratio_percent: 0,
        ..*knobs
    });
    let by_ratio = alone(Ceiling {
        bytes: UNLIMITED,
        ..*knobs
    });
    assert_eq!(pages, by_bytes.min(by_ratio), "the stricter one wins");
    if (1..=100).contains(&knobs.ratio_percent) {
        let share = exact_share(avail.min(PAGES_MAX), knobs.ratio_percent.into(), 100);
        assert_eq!(by_ratio, share.max(CEILING_MIN));
    }
}

fn check_amend(stock: &Limits, ceiling: u64, counts: &Counts, kind: Pass) {
    // What the kernel and weir_ceiling_pages() hand in: limits of 32 bits, bg below thresh.
    let stock = Limits {
        thresh: stock.thresh.min(PAGES_MAX),
        bg_thresh: stock
            .bg_thresh
            .min(stock.thresh.min(PAGES_MAX).saturating_sub(1)),
        ..*stock
    };
    let ceiling = ceiling.max(CEILING_MIN);
    let mut limits = stock;
    let decides = limits.amend(ceiling, counts, kind);
    if kind == Pass::Reader || ceiling == UNLIMITED {
        assert!(!decides && limits == stock, "left alone");
        return;
    }
    assert_eq!(limits.thresh, ceiling.min(stock.thresh));
    assert!(
        limits.bg_thresh < limits.thresh || stock.thresh == 0,
        "background below the limit"
    );
    assert!(
        limits.bg_thresh <= stock.bg_thresh && limits.dom_limit <= stock.dom_limit,
        "a ceiling never widens"
    );
    if limits != stock {
        assert!(limits.dom_limit <= limits.thresh, "nor does the smoothing");
    }
    let counted = match kind {
        Pass::Writer => counts.dirty.saturating_add(counts.writeback),
        _ => counts.dirty,
    };
    if counted > ceiling {
        assert!(limits.dirty > limits.thresh || limits.thresh == 0, "full");
    }
    if ceiling <= stock.thresh {
        assert!(limits.dirty >= counted, "the exact count counts");
    }

    // Whoever stock would hold or keep writing is held or kept writing.
    let freerun = |limits: &Limits| arith::freerun(limits.thresh, limits.bg_thresh);
    if stock.dirty > freerun(&stock) {
        assert!(
            limits.dirty > freerun(&limits),
            "no freerun that stock denies"
        );
    }
    if stock.dirty > stock.bg_thresh {
        assert!(
            limits.dirty > limits.bg_thresh,
            "no flusher stops that stock keeps going"
        );
    }
    if stock.dirty > stock.thresh {
        assert!(
            limits.dirty > limits.thresh,
            "over the limit stays over the limit"
        );
    }
    let level = ceiling::freerun(ceiling, &stock);
    if kind == Pass::Writer && ceiling <= PAGES_MAX && counted > level.saturating_add(2) {
        assert!(limits.brake(), "above the freerun level of its ceiling");
    }
    let mut again = limits;
    assert!(
        !again.amend(ceiling, counts, kind) && again == limits,
        "idempotent"
    );
}

fn check_host_amend(stock: &Limits, host: &Host, kind: Pass) {
    let mut limits = *stock;
    if !host.amend(&mut limits, kind) {
        assert_eq!(limits, *stock, "untouched");
        let share = exact_share(stock.thresh.min(PAGES_MAX), FLOORS_PERCENT_OF_LIMIT, 100);
        assert!(
            kind == Pass::Reader || host.unused.min(share) == 0,
            "what is unused is held back"
        );
        return;
    }
    assert!(limits.thresh < stock.thresh && limits.bg_thresh <= stock.bg_thresh);
    assert!(limits.dom_limit <= stock.dom_limit, "only ever lowered");
    assert!(
        limits.bg_thresh < limits.thresh,
        "background below the limit"
    );
    assert_eq!(limits.dirty, stock.dirty);
    let held_back = stock.thresh - limits.thresh;
    assert!(held_back <= host.unused && held_back <= floors_cap(stock.thresh));
    if kind == Pass::Writer {
        let slack = limits.dirty.min(PAGES_MAX) / 256 + 1;
        assert!(
            limits.dom_limit <= limits.thresh.max(limits.dirty.min(PAGES_MAX) + slack),
            "the smoothed limit follows what is dirty down"
        );
    }
    let mut more = *stock;
    let unused = host.unused.saturating_add(1);
    assert!(Host { unused }.amend(&mut more, kind));
    assert!(more.thresh <= limits.thresh, "monotonic in what is unused");
}

/// Bounded, and nobody finds himself far above a limit that was higher before.
fn check_drain(mut drain: Drain, beat: &Beat) {
    let thresh = arith::saturate(beat.thresh);
    let in_force = |drain: &Drain| {
        if drain.limit == 0 {
            thresh
        } else {
            drain.limit
        }
    };
    let old = in_force(&drain);
    drain.step(beat);
    let new = in_force(&drain);
    let held = arith::saturate(arith::saturate(beat.dirty) + arith::saturate(beat.writeback));
    let withdrawn = old.min(arith::saturate(held + held / 32 + 1));
    assert!(new >= withdrawn, "stays above what is held on its way down");
    let bound = arith::share(beat.dirtyable, PERCENT_OF_DIRTYABLE, 100);
    assert!(
        new <= thresh.max(bound).max(withdrawn),
        "bounded by dirtyable memory, or on its way down"
    );
    if beat.tighten == 0 {
        assert!(new >= thresh, "never below the kernel's own");
    }
    let scarce = beat.direct_scanned > 0 || beat.memory_stall_percent >= 5;
    if beat.seconds == 0 || scarce {
        assert!(new <= thresh.max(withdrawn), "withdrawn");
    }
    assert!(new <= PAGES_MAX, "within what Linux can express");
}

fn check_drain_amend(before: Limits, limit: u64, stock: u64) {
    let mut after = before;
    drain::amend(&mut after, limit, stock);
    if limit == 0 {
        assert_eq!(after, before, "off");
    } else if limit >= stock {
        assert_eq!(after.thresh, before.thresh.max(limit), "lifted");
        assert_eq!(after.bg_thresh, before.bg_thresh, "as raising the sysctl");
    } else {
        assert!(after.thresh <= before.thresh, "tightened");
        assert!(
            after.bg_thresh < after.thresh || after.thresh == 0,
            "in order"
        );
    }
    assert_eq!(
        (after.dirty, after.dom_limit),
        (before.dirty, before.dom_limit),
        "the rest is the kernel's"
    );
}

/// Whoever is named decided by numbers that are his.
fn check_pause(facts: &pause::Facts) {
    let cgroups = (facts.thresh, facts.dirty) == (facts.cgroup_thresh, facts.cgroup_dirty);
    let judged_by = match facts.by() {
        By::Device => return assert!(facts.strictlimit != 0),
        By::Unknown => return assert!(facts.cgroup_seen == 0),
        By::Host => return assert!(facts.cgroup_seen != 0 && !cgroups),
        By::Cgroup => JudgedBy::Kernel,
        By::Ceiling => JudgedBy::Ceiling,
        By::Ancestor => JudgedBy::Ancestor,
    };
    assert!(facts.cgroup_seen != 0 && facts.strictlimit == 0 && cgroups);
    assert_eq!(judged_by, facts.judged_by);
}

/// Several ceilings on one path: whatever the order, none is looser than alone.
fn check_path(stock: &Limits, path: &[(u64, Counts)], kind: Pass) {
    let held = |path: &mut dyn Iterator<Item = &(u64, Counts)>| {
        let mut limits = Limits {
            thresh: stock.thresh.min(PAGES_MAX),
            ..*stock
        };
        let decided = path
            .filter(|(ceiling, counts)| limits.amend((*ceiling).max(CEILING_MIN), counts, kind))
            .count();
        (limits, decided)
    };
    let (up, decided) = held(&mut path.iter());
    let (down, _) = held(&mut path.iter().rev());
    assert_eq!(up.thresh, down.thresh);
    assert!(decided <= path.len());
    // positions are rounded up once per step
    let steps = path.len() as u64 + 1;
    if up.dirty.max(down.dirty) <= up.thresh {
        assert!(up.dirty.abs_diff(down.dirty) <= steps, "the order is free");
    }
    for one in path {
        let (alone, _) = held(&mut std::iter::once(one));
        assert!(up.thresh <= alone.thresh);
        if alone.dirty > alone.thresh {
            assert!(up.dirty > up.thresh || up.thresh == 0, "full alone is full");
        }
    }
}

/// Siblings share what their parent has, in proportion and no more; whoever has much to say.
fn check_portions(weights: &[u16], parent: u32) {
    let (parent, weights) = (
        parent.clamp(1, PORTION_ONE),
        weights.iter().map(|w| u32::from(*w).clamp(1, WEIGHT_MAX)),
    );
    let siblings: u64 = weights.clone().map(u64::from).sum();
    let parts: Vec<_> = weights
        .clone()
        .map(|weight| weight::portion(parent, weight, siblings))
        .collect();
    let total: u64 = parts.iter().copied().map(u64::from).sum();
    assert!(
        total <= u64::from(parent) + parts.len() as u64,
        "a portion below the smallest is rounded up"
    );
    for (weight, part) in weights.zip(parts) {
        let exact = u64::from(parent) * u64::from(weight) / siblings;
        assert_eq!(u64::from(part), exact.max(1));
    }
}

fn check_turn(turn: &Turn, due_ns: u64, now_ns: u64, pages: u64, stock_poll: u64) {
    // boot time: what an uptime of centuries does not reach
    let (due_ns, now_ns) = (due_ns >> 1, now_ns >> 1);
    let price = turn.price_ns();
    assert_eq!(price > 0, turn.portion > 0 && turn.pace > 0, "who competes");
    let dearer = Turn {
        portion: turn.portion / 2,
        ..*turn
    };
    assert!(
        dearer.portion == 0 || dearer.price_ns() >= price,
        "less weight, no cheaper"
    );
    let fuller = Turn {
        host_dirty: turn.host_dirty.saturating_add(1),
        ..*turn
    };
    assert!(fuller.price_ns() >= price, "a fuller host is no cheaper");

    let paid = turn.pay(due_ns, now_ns, pages);
    let round = 1_000_000 * ROUND_MS;
    assert!(
        paid <= now_ns + weight::DEBT_ROUNDS * round,
        "nobody is stopped"
    );
    assert!(
        paid.saturating_add(weight::DEBT_ROUNDS * round) >= now_ns,
        "nobody saves up"
    );
    let more = turn.pay(due_ns, now_ns, pages.saturating_add(1));
    assert!(more >= paid, "more dirtied, longer to wait");

    let wait = turn.wait_ms(paid, now_ns);
    assert!(wait <= ROUND_MS, "no longer at a time than Linux");
    if wait > 0 {
        assert!(
            turn.host_dirty > turn.host_bg_thresh,
            "free where flushers rest"
        );
        assert!(turn.portion > 0, "who competes");
        assert!(turn.wait_ms(paid, now_ns + 1) <= wait, "time only helps");
    }
    let poll = weight::poll(price, stock_poll);
    assert!(poll >= 1 && poll <= stock_poll.max(1));
}

#[cfg(test)]
mod tests;
