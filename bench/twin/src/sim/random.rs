// SPDX-License-Identifier: GPL-2.0-only
//! Randomness that is the same everywhere and for good.
//!
//! Written out here, because a crate may change what its generator gives from one version to the
//! next, and a result must not depend on which one was built with.

/// A generator (SplitMix64, which is public domain).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Random numbers from a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix_bits(self.0)
    }
}

fn mix_bits(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// An order of 0..n in which each number comes once: fio visits the blocks of a random job so, and
/// only then begins a new round. A Feistel network over the next larger square of a power of two;
/// what it leads to beyond n is sent through it again.
#[derive(Clone, Debug)]
pub struct Shuffle {
    n: u64,
    half: u32,
    key: u64,
}

impl Shuffle {
    /// Of 0..n, in an order of `key`'s.
    pub fn new(n: u64, key: u64) -> Shuffle {
        let bits = 64 - n.saturating_sub(1).leading_zeros();
        Shuffle {
            n,
            half: bits.div_ceil(2).max(1),
            key,
        }
    }

    /// The number in place `index` of round `round`.
    pub fn number_at(&self, round: u64, index: u64) -> u64 {
        let mut x = index;
        loop {
            x = self.permute_bits(round, x);
            if x < self.n {
                return x;
            }
        }
    }

    fn permute_bits(&self, round: u64, x: u64) -> u64 {
        let mask = (1 << self.half) - 1;
        let (mut left, mut right) = (x >> self.half, x & mask);
        for step in 0..4 {
            let key = self.key ^ round.rotate_left(32) ^ step;
            let turned = mix_bits(right.wrapping_add(key.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
            (left, right) = (right, left ^ (turned & mask));
        }
        (left << self.half) | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_visits_each_number_once() {
        for n in [1, 2, 3, 1_000, 65_536] {
            let shuffle = Shuffle::new(n, 42);
            let mut seen = vec![false; n as usize];
            for index in 0..n {
                let at = shuffle.number_at(0, index) as usize;
                assert!(!std::mem::replace(&mut seen[at], true), "{at} of {n} twice");
            }
        }
    }

    #[test]
    fn rounds_and_keys_differ() {
        let order = |key, round| {
            (0..50)
                .map(|i| Shuffle::new(50, key).number_at(round, i))
                .collect::<Vec<_>>()
        };
        assert_ne!(order(1, 0), order(2, 0));
        assert_ne!(order(1, 0), order(1, 1));
    }
}
