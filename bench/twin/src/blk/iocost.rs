// SPDX-License-Identifier: GPL-2.0-only
//! `io.weight`: whose request a disk does next.
//!
//! Each cgroup has a virtual clock. A request puts its cgroup's on by the time it takes on the
//! disk, divided by the cgroup's portion: its weight over the weights of those siblings that have
//! anything in line, and so on for each cgroup above. Requests are done in the order of the clocks.
//! A cgroup that had nothing in line begins where the disk is: no cgroup saves up. So cgroups that
//! always have something in line are served by weight, whatever the sizes, and what one does not
//! use the others get. That is what iocost and BFQ come near to; how near depends on the kernel,
//! and real ones divide buffered writes worse (`docs/experiments/0009-weights.md`). The root's own
//! requests, the journal's among them, are not held: they are next.
//!
//! Example. a has 100, b 400, each many requests of 10 ms in line: a's clock goes by 50 ms each,
//! b's by 12.5. b, b, b, b, a.

use crate::sim::clock::Ns;

/// Weights and clocks, by cgroup; the root is 0 and its own parent.
#[derive(Clone, Debug)]
pub struct Weights {
    cgroups: Vec<WeightedCgroup>,
    /// Virtual time of the disk.
    clock: u64,
}

#[derive(Clone, Copy, Debug)]
struct WeightedCgroup {
    parent: usize,
    weight: u64,
    /// Requests in line, its own and those below.
    queued: u32,
    /// The weights of those below that have any.
    active: u64,
    clock: u64,
}

impl Weights {
    /// Of cgroups given by parent and weight.
    pub fn new(cgroups: impl Iterator<Item = (usize, u64)>) -> Weights {
        let cgroup = |(parent, weight)| WeightedCgroup {
            parent,
            weight,
            queued: 0,
            active: 0,
            clock: 0,
        };
        Weights {
            cgroups: cgroups.map(cgroup).collect(),
            clock: 0,
        }
    }

    /// A request of a cgroup comes that takes `time`: the tag it stands by.
    pub fn queue_request(&mut self, cgroup: usize, time: Ns) -> u64 {
        let mut cost = u128::from(time);
        let mut at = cgroup;
        while at != 0 {
            let WeightedCgroup { parent, weight, .. } = self.cgroups[at];
            self.cgroups[at].queued += 1;
            if self.cgroups[at].queued == 1 {
                self.cgroups[parent].active += weight;
            }
            cost = cost * u128::from(self.cgroups[parent].active) / u128::from(weight);
            at = parent;
        }
        if cgroup == 0 {
            return self.clock;
        }
        let clock = &mut self.cgroups[cgroup].clock;
        *clock = (*clock)
            .max(self.clock)
            .saturating_add(u64::try_from(cost).unwrap_or(u64::MAX));
        *clock
    }

    /// A request with this tag is complete.
    pub fn complete_request(&mut self, cgroup: usize, tag: u64) {
        self.clock = self.clock.max(tag);
        let mut at = cgroup;
        while at != 0 {
            let WeightedCgroup { parent, weight, .. } = self.cgroups[at];
            self.cgroups[at].queued -= 1;
            if self.cgroups[at].queued == 0 {
                self.cgroups[parent].active -= weight;
            }
            at = parent;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first `count` that are served, of cgroups that always have three requests in line.
    fn served(mut weights: Weights, backlogged: &[usize], count: usize) -> Vec<usize> {
        let mut line: Vec<(u64, usize)> = Vec::new();
        for cgroup in backlogged.repeat(3) {
            line.push((weights.queue_request(cgroup, 10), cgroup));
        }
        let mut order = Vec::new();
        while order.len() < count {
            let first = (0..line.len())
                .min_by_key(|at| line[*at])
                .expect("never empty");
            let (tag, cgroup) = line.remove(first);
            line.push((weights.queue_request(cgroup, 10), cgroup));
            weights.complete_request(cgroup, tag);
            order.push(cgroup);
        }
        order
    }

    #[test]
    fn worked_example() {
        let weights = Weights::new([(0, 100), (0, 100), (0, 400)].into_iter());
        let order = served(weights, &[1, 2], 500);
        let light = order.iter().filter(|cgroup| **cgroup == 1).count();
        assert!((95..=105).contains(&light), "{light}");
    }

    /// a (100) with two below it, 100 and 300, beside b (100): an eighth, three eighths, half.
    #[test]
    fn portions_are_handed_down() {
        let weights = Weights::new([(0, 100), (0, 100), (0, 100), (1, 100), (1, 300)].into_iter());
        let order = served(weights, &[2, 3, 4], 800);
        let of = |cgroup| order.iter().filter(|other| **other == cgroup).count();
        assert!((390..=410).contains(&of(2)), "{}", of(2));
        assert!((95..=105).contains(&of(3)), "{}", of(3));
        assert!((290..=310).contains(&of(4)), "{}", of(4));
    }

    #[test]
    fn who_was_away_has_not_saved_up() {
        let mut weights = Weights::new([(0, 100), (0, 100), (0, 100)].into_iter());
        for _ in 0..100 {
            let tag = weights.queue_request(1, 10);
            weights.complete_request(1, tag);
        }
        let busy = weights.queue_request(1, 10);
        let back = weights.queue_request(2, 10);
        assert!(back > busy, "not before what waits already: {back} {busy}");
        assert_eq!(
            weights.queue_request(0, 10),
            weights.clock,
            "the root does not wait"
        );
    }
}
