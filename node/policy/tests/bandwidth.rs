// SPDX-License-Identifier: GPL-2.0-only
//! Bounds on what may be dirtied in a second hold for every subtree, whatever writes in it.
//!
//! A tree of cgroups, some with a bound, and writers in it that dirty as fast as each can. A writer
//! is looked at after as many pages as it was allowed, waits as the module does (in steps, on a
//! clock of 4 ms), and goes on. After two seconds, a bound is exceeded in no ten seconds by more
//! than 3 %; and where the writers of a subtree could do more and nothing above or below holds
//! them, they do not get less than 97 % of it.

use policy::bandwidth::{Hold, Level, Line, PART_LINGERS_MS};
use proptest::collection::vec;
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const PAGE: u64 = 4_096;
const MIB: u64 = 1 << 20;
/// What Linux lets a new task dirty before it looks, and any task at most here.
const FIRST_LOOK: u64 = 32;
const STOCK_POLL: u64 = 256;
const TICK_MS: u64 = 4;
const STEP_MS: u64 = 200;

struct Cgroup {
    /// Always of a lower index; none: below the root.
    parent: Option<usize>,
    bound: Option<u64>,
    level: Level,
    /// Its own tasks' part of that line, and its own of its parent's, with until when they count.
    own: (Level, u64),
    part: (Level, u64),
    /// By millisecond, what its subtree has dirtied so far, in bytes.
    dirtied: Vec<u64>,
}

struct Writer {
    cgroup: usize,
    /// Pages per second, if nothing holds it.
    speed: u64,
    /// Pages that it could have dirtied by now, in thousandths.
    due: u64,
    dirtied: u64,
    poll: u64,
    hold: Hold,
    asleep_until: Option<u64>,
}

struct Host {
    cgroups: Vec<Cgroup>,
    writers: Vec<Writer>,
    now_ms: u64,
}

impl Host {
    fn new(tree: &[(Option<usize>, Option<u64>)], writers: &[(usize, u64)]) -> Host {
        let cgroups = tree.iter().map(|&(parent, bound)| {
            let mut level = Level::default();
            level.start(0);
            Cgroup {
                parent,
                bound,
                level,
                own: (level, 0),
                part: (level, 0),
                dirtied: vec![0],
            }
        });
        let writers = writers.iter().map(|&(cgroup, speed)| Writer {
            cgroup,
            speed,
            due: 0,
            dirtied: 0,
            poll: FIRST_LOOK,
            hold: Hold::default(),
            asleep_until: None,
        });
        Host {
            cgroups: cgroups.collect(),
            writers: writers.collect(),
            now_ms: 0,
        }
    }

    fn path(&self, cgroup: usize) -> Vec<usize> {
        std::iter::successors(Some(cgroup), |at| self.cgroups[*at].parent).collect()
    }

    /// Sleeps for a step, or until the ticket is paid, rounded up to the clock's next tick.
    fn sleep(&mut self, writer: usize, wait_ms: u64) {
        let until = self.now_ms + wait_ms.min(STEP_MS);
        self.writers[writer].asleep_until = Some((until / TICK_MS + 1) * TICK_MS);
    }

    /// Calls `look` with the line of `at`, as a task finds it in `below`, its child or itself.
    fn at_line<T>(
        &mut self,
        at: usize,
        below: usize,
        look: impl FnOnce(&mut Line) -> T,
    ) -> Option<T> {
        let (now_ms, bound) = (self.now_ms, self.cgroups[at].bound?);
        let counts = |of: &(Level, u64)| of.1 >= now_ms;
        let children = (self.cgroups.iter())
            .filter(|cgroup| cgroup.parent == Some(at) && counts(&cgroup.part))
            .count();
        let parts = (children + usize::from(counts(&self.cgroups[at].own))) as u64;
        let (mut level, mut part) = match below == at {
            true => (self.cgroups[at].level, self.cgroups[at].own.0),
            false => (self.cgroups[at].level, self.cgroups[below].part.0),
        };
        let found = look(&mut Line {
            level: &mut level,
            part: &mut part,
            parts,
            bound,
        });
        self.cgroups[at].level = level;
        match below == at {
            true => self.cgroups[at].own.0 = part,
            false => self.cgroups[below].part.0 = part,
        }
        Some(found)
    }

    fn pass(&mut self, writer: usize) {
        let (cgroup, now_ms) = (self.writers[writer].cgroup, self.now_ms);
        let mut hold = Hold::for_pages(std::mem::take(&mut self.writers[writer].dirtied));
        let mut below = cgroup;
        for at in self.path(cgroup) {
            if self.cgroups[at].bound.is_some() {
                let until = |host: &mut Host, ms| match below == at {
                    true => host.cgroups[at].own.1 = ms,
                    false => host.cgroups[below].part.1 = ms,
                };
                until(self, now_ms);
                self.at_line(at, below, |line| {
                    line.charge_pages(now_ms * MS, at as u64 + 1, &mut hold);
                });
                until(self, now_ms + hold.due_ms + PART_LINGERS_MS);
            }
            below = at;
        }
        self.writers[writer].poll = hold.poll_pages(STOCK_POLL);
        self.writers[writer].hold = hold;
        if hold.must_wait() {
            self.sleep(writer, hold.due_ms);
        }
    }

    fn wakes(&mut self, writer: usize) {
        self.writers[writer].asleep_until = None;
        let (hold, now_ns) = (self.writers[writer].hold, self.now_ms * MS);
        let at = hold.number as usize - 1;
        let path = self.path(self.writers[writer].cgroup);
        let place = path.iter().position(|of| *of == at).expect("on its path");
        let below = path[place.saturating_sub(1)];
        let due_ms = self
            .at_line(at, below, |line| line.due_ms(now_ns, &hold))
            .unwrap_or(0);
        if due_ms > 0 {
            self.sleep(writer, due_ms);
        }
    }

    fn writes(&mut self, writer: usize) {
        let path = self.path(self.writers[writer].cgroup);
        while self.writers[writer].due >= 1_000 && self.writers[writer].asleep_until.is_none() {
            self.writers[writer].due -= 1_000;
            self.writers[writer].dirtied += 1;
            for at in &path {
                *self.cgroups[*at].dirtied.last_mut().expect("a count") += PAGE;
            }
            if self.writers[writer].dirtied >= self.writers[writer].poll {
                self.pass(writer);
            }
        }
    }

    fn runs(&mut self, ms: u64) {
        for _ in 0..ms {
            self.now_ms += 1;
            for cgroup in &mut self.cgroups {
                cgroup.dirtied.extend(cgroup.dirtied.last().copied());
            }
            for writer in 0..self.writers.len() {
                if (self.writers[writer].asleep_until).is_some_and(|until| until <= self.now_ms) {
                    self.wakes(writer);
                    self.writers[writer].due = 0;
                }
                if self.writers[writer].asleep_until.is_none() {
                    self.writers[writer].due += self.writers[writer].speed;
                    self.writes(writer);
                }
            }
        }
    }

    /// The most and the least that a subtree dirtied in any ten seconds from `since` on, in
    /// thousandths of `bound`.
    fn extremes(&self, cgroup: usize, since: usize, bound: u64) -> (u64, u64) {
        let dirtied = &self.cgroups[cgroup].dirtied[since..];
        let windows = dirtied
            .windows(10_001)
            .map(|window| window[10_000] - window[0]);
        let of = |bytes: u64| bytes * 100 / bound;
        let (most, least) = windows.fold((0, u64::MAX), |(most, least), bytes| {
            (most.max(bytes), least.min(bytes))
        });
        (of(most), of(least))
    }

    /// Every bound is kept.
    fn assert_kept(&self, since: usize) {
        for (at, cgroup) in self.cgroups.iter().enumerate() {
            let Some(bound) = cgroup.bound else { continue };
            let (most, _) = self.extremes(at, since, bound);
            assert!(most <= 1_030, "{at}: {most} thousandths of {bound}");
        }
    }

    fn assert_used(&self, cgroup: usize, since: usize) {
        let bound = self.cgroups[cgroup].bound.expect("a bound");
        let (_, least) = self.extremes(cgroup, since, bound);
        assert!(least >= 970, "{cgroup}: {least} thousandths of {bound}");
    }
}

/// Twenty times what any bound here allows.
const FAST: u64 = 20_000;

#[test]
fn one_to_three_hundred_writers_get_the_bound_together() {
    for (writers, bound) in [
        (1, 100_000),
        (1, 8 * MIB),
        (8, MIB),
        (64, 8 * MIB),
        (300, 8 * MIB),
    ] {
        let mut host = Host::new(&[(None, Some(bound))], &vec![(0, FAST); writers]);
        host.runs(20_000);
        host.assert_kept(6_000);
        host.assert_used(0, 6_000);
    }
}

#[test]
fn bounds_nest() {
    let tree = [
        (None, Some(4 * MIB)),
        (Some(0), Some(MIB)),
        (Some(0), None),
        (Some(1), Some(8 * MIB)),
    ];
    let writers = [(3, FAST), (3, FAST), (2, FAST), (1, FAST)];
    let mut host = Host::new(&tree, &writers);
    host.runs(15_000);
    host.assert_kept(2_000);
    host.assert_used(0, 2_000);
    host.assert_used(1, 2_000);
}

#[test]
fn a_bound_that_changes_holds_within_a_step() {
    let mut host = Host::new(&[(None, Some(MIB))], &[(0, FAST); 8]);
    host.runs(3_000);
    for bound in [8 * MIB, 512 << 10, 2 * MIB] {
        let (now_ns, cgroup) = (host.now_ms * MS, &mut host.cgroups[0]);
        cgroup
            .level
            .advance_to(cgroup.bound.expect("a bound"), now_ns);
        cgroup.bound = Some(bound);
        // What the former bound let them dirty is to be paid for by this one.
        let since = host.now_ms as usize + 4_000;
        host.runs(15_000);
        host.assert_kept(since);
        host.assert_used(0, since);
    }
    host.cgroups[0].bound = None;
    let (before, since) = (host.cgroups[0].dirtied.clone(), host.now_ms);
    host.runs(1_000);
    let pages = (host.cgroups[0].dirtied[since as usize + 1_000] - before[since as usize]) / PAGE;
    assert!(pages > 8 * FAST / 2, "{pages} in the second after it ended");
}

#[test]
fn after_idling_nobody_catches_up() {
    let mut host = Host::new(&[(None, Some(MIB))], &[(0, FAST); 4]);
    host.runs(3_000);
    for writer in &mut host.writers {
        writer.speed = 0;
    }
    host.runs(60_000);
    for writer in &mut host.writers {
        writer.speed = FAST;
    }
    let since = host.now_ms as usize;
    host.runs(11_000);
    let (most, _) = host.extremes(0, since, MIB);
    assert!(most <= 1_030, "{most}");
}

/// Whether the line is a tenth of a second at most when each writer takes a page.
fn is_fit(bound: u64, writers: usize) -> bool {
    bound / PAGE >= 10 * writers as u64
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(96) })]

    #[test]
    fn any_tree_keeps_its_bounds(
        bounds in vec(prop_oneof![1 => Just(None), 3 => (256 << 10..16 * MIB).prop_map(Some)], 5),
        parents in vec(0..8usize, 5),
        writers in vec((0..5usize, 100..FAST), 1..40),
    ) {
        let tree: Vec<(Option<usize>, Option<u64>)> = (0..5)
            .map(|at| {
                let parent = (at > 0 && parents[at] < 6).then(|| parents[at] % at.max(1));
                (parent, bounds[at].filter(|bound| is_fit(*bound, writers.len())))
            })
            .collect();
        let mut host = Host::new(&tree, &writers);
        host.runs(16_000);
        host.assert_kept(4_000);
    }
}
