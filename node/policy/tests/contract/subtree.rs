// SPDX-License-Identifier: GPL-2.0-only
//! Floors over subtrees, floors inside floors: the host stays within its limit.
//!
//! A tree of cgroups, each perhaps with a floor, beside writers without one. A writer that finds
//! room under a floor on its path writes; all others write while the host holds less than its
//! limit, less what is reserved and unused. Flushers clean what they like. Every count is exact and
//! every look is for one page, so what is left is the rule by which pages fill floors, and with it
//! the limit is never passed, by not a single page.

use policy::ceiling::Counts;
use policy::floor::{Cover, FloorPass, Pool, Verdict};
use policy::reserve::unused_pages;
use policy::subtree::{Subtree, Tally};
use proptest::collection::vec;
use proptest::prelude::*;

const HOST_THRESH: u64 = 500;
const CGROUPS: usize = 6;

#[derive(Clone, Debug)]
struct Tree {
    /// Always of a lower index; none: below the root.
    parents: Vec<Option<usize>>,
    floors: Vec<u64>,
    own: Vec<u64>,
    others: u64,
}

impl Tree {
    fn host(&self) -> u64 {
        self.own.iter().sum::<u64>() + self.others
    }

    /// What claims each floor: own pages, and what the floors further down have no room for.
    fn claims(&self) -> Vec<u64> {
        let mut sums = [Subtree::default(); CGROUPS];
        for (cgroup, &dirty) in self.own.iter().enumerate() {
            let own = Counts {
                dirty,
                writeback: 0,
            };
            let mut change = Tally::between(&Counts::default(), &own);
            for at in self.path(cgroup) {
                sums[at].add(&mut change, self.floors[at], 0);
            }
        }
        sums.iter().map(Subtree::claimed_pages).collect()
    }

    /// The rule that suggests itself: every floor is filled by all that its subtree holds.
    fn subtrees(&self) -> Vec<u64> {
        let mut sums = self.own.clone();
        for cgroup in (0..CGROUPS).rev() {
            if let Some(parent) = self.parents[cgroup] {
                sums[parent] += sums[cgroup];
            }
        }
        sums
    }

    fn path(&self, cgroup: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(cgroup), |&at| self.parents[at])
    }

    fn limit(&self, claims: &[u64]) -> u64 {
        let unused = self
            .floors
            .iter()
            .zip(claims)
            .map(|(&floor, &claimed)| unused_pages(floor, claimed));
        HOST_THRESH - unused.sum::<u64>()
    }

    /// Whether a floor on the path admits the writer; the one that has most room decides.
    fn admits(&self, cgroup: usize, claims: &[u64]) -> bool {
        let mut pass = FloorPass {
            host_dirty: self.host(),
            host_thresh: HOST_THRESH,
            floors_total: self.floors.iter().sum(),
            left: policy::UNLIMITED,
            cgroup_domain: 1,
            ..FloorPass::default()
        };
        for at in self.path(cgroup) {
            pass.consider_floor(&Cover {
                floor: self.floors[at],
                claim: claims[at],
                ..Cover::default()
            });
        }
        pass.decide() == Verdict::Admit
    }

    /// Writes up to `pages`, one at a time; cgroup [`CGROUPS`] stands for the others.
    fn write(&mut self, cgroup: usize, pages: u64, count: fn(&Tree) -> Vec<u64>) {
        for _ in 0..pages {
            let claims = count(self);
            let admitted = cgroup < CGROUPS && self.admits(cgroup, &claims);
            if !admitted && self.host() >= self.limit(&claims) {
                return;
            }
            *self.own.get_mut(cgroup).unwrap_or(&mut self.others) += 1;
        }
    }

    fn clean(&mut self, cgroup: usize, pages: u64) {
        let held = self.own.get_mut(cgroup).unwrap_or(&mut self.others);
        *held -= pages.min(*held);
    }
}

prop_compose! {
    fn tree()(
        parents in (0..CGROUPS).map(|cgroup| prop::option::of(0..cgroup.max(1))).collect::<Vec<_>>(),
        floors in vec(prop_oneof![Just(0), 0..HOST_THRESH], CGROUPS),
    ) -> Tree {
        let pool = Pool { wanted_total: floors.iter().sum(), host_thresh: HOST_THRESH };
        let mut parents = parents;
        parents[0] = None;
        Tree {
            parents,
            floors: floors.into_iter().map(|floor| pool.scaled_floor(floor)).collect(),
            own: vec![0; CGROUPS],
            others: 0,
        }
    }
}

proptest! {
    #[test]
    fn the_host_stays_within_its_limit(
        mut tree in tree(),
        turns in vec((0..=CGROUPS, any::<bool>(), 0..HOST_THRESH), 1..60),
    ) {
        for (cgroup, writes, pages) in turns {
            if writes {
                tree.write(cgroup, pages, Tree::claims);
            } else {
                tree.clean(cgroup, pages);
            }
            prop_assert!(tree.host() <= HOST_THRESH, "{} of {}", tree.host(), HOST_THRESH);
        }
    }

    /// A subtree that holds less than a floor on the path is not held up, whatever holds the rest.
    #[test]
    fn below_a_floor_everybody_is_admitted(
        mut tree in tree(), own in vec(0..HOST_THRESH / CGROUPS as u64, CGROUPS),
    ) {
        tree.own = own;
        tree.others = HOST_THRESH - tree.host();
        let (claims, subtrees) = (tree.claims(), tree.subtrees());
        for cgroup in 0..CGROUPS {
            let below = tree.path(cgroup).any(|at| subtrees[at] < tree.floors[at]);
            let room: u64 = tree.path(cgroup).map(|at| unused_pages(tree.floors[at], claims[at])).sum();
            prop_assert_eq!(tree.admits(cgroup, &claims), room > 0);
            prop_assert!(room > 0 || !below);
            // and each page it dirties uses up one that is reserved
            if room > 0 {
                let before = tree.limit(&claims);
                tree.own[cgroup] += 1;
                prop_assert_eq!(tree.limit(&tree.claims()), before + 1);
                tree.own[cgroup] -= 1;
            }
        }
    }
}

/// Two floors of 40 % of the limit, one inside the other. The inner cgroup fills both at once,
/// others take all the rest, its pages are cleaned, and both floors may be filled anew, one by
/// each.
#[test]
fn a_page_that_counts_against_two_floors_breaks_the_limit() {
    let run = |count: fn(&Tree) -> Vec<u64>| {
        let mut tree = Tree {
            parents: vec![None, Some(0), None, None, None, None],
            floors: vec![200, 200, 0, 0, 0, 0],
            own: vec![0; CGROUPS],
            others: 0,
        };
        tree.write(1, 200, count);
        tree.write(CGROUPS, HOST_THRESH, count);
        tree.clean(1, 200);
        tree.write(0, 200, count);
        tree.write(1, 200, count);
        tree.host()
    };
    assert_eq!(run(Tree::subtrees), 700);
    assert_eq!(run(Tree::claims), 500);
}
