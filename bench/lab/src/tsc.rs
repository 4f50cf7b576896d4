// SPDX-License-Identifier: GPL-2.0-only
//! Frequency of the host's time stamp counter, which is that of the guests' too.
//!
//! An emulated CPU's `rdtsc` reads the host's counter. Left to itself, a guest's kernel compares it
//! with an emulated timer for some milliseconds. If the host takes the CPU away meanwhile, the
//! result is wrong: of 15 boots on a busy host two found 471 and 808 MHz where 2,596 were right
//! (`docs/experiments/0002-boots-under-load.md`). All of such a guest's seconds are too short, and
//! it sees lockups and stalls that are none. So the lab measures, and tells the kernel.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Long enough for the error of a reading, some microseconds on a busy host, not to matter.
const INTERVAL: Duration = Duration::from_millis(50);
/// Of how many readings the best is taken.
const READINGS: u32 = 20;
/// Number of measurements until two results agree, at most.
const ATTEMPTS: u32 = 6;
/// Results agree if they differ by less than one in so many. Linux itself bears one in 100.
const AGREEMENT: u64 = 1000;

/// In kHz; nothing if it cannot be measured here, or there is none.
pub fn frequency_khz() -> Option<u64> {
    static KHZ: OnceLock<Option<u64>> = OnceLock::new();
    *KHZ.get_or_init(|| first_agreed((0..ATTEMPTS).map(|_| measure_khz())))
}

/// The first of the results that agrees with the one before it.
fn first_agreed(mut results: impl Iterator<Item = u64>) -> Option<u64> {
    let mut last = results.next()?;
    for result in results {
        if last > 0 && result.abs_diff(last) < last / AGREEMENT {
            return Some(result);
        }
        last = result;
    }
    None
}

fn measure_khz() -> u64 {
    let (began, at_first) = best_reading();
    std::thread::sleep(INTERVAL);
    let (ended, at_last) = best_reading();
    let nanoseconds = (ended - began).as_nanos();
    let ticks = u128::from(at_last.saturating_sub(at_first));
    u64::try_from(ticks * 1_000_000 / nanoseconds.max(1)).unwrap_or(0)
}

/// The counter and the clock, read at nearly the same time: of several readings the quickest.
fn best_reading() -> (Instant, u64) {
    let one = || {
        let before = ticks();
        let now = Instant::now();
        let after = ticks();
        (after.saturating_sub(before), now, before)
    };
    let mut best = one();
    for _ in 1..READINGS {
        let next = one();
        if next.0 < best.0 {
            best = next;
        }
    }
    (best.1, best.2 + best.0 / 2)
}

#[cfg(not(target_arch = "x86_64"))]
fn ticks() -> u64 {
    0
}

#[cfg(target_arch = "x86_64")]
fn ticks() -> u64 {
    // SAFETY: every x86-64 CPU has the instruction, and Linux lets processes use it.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_results_in_a_row_must_agree() {
        let agreed = |results: &[u64]| first_agreed(results.iter().copied());
        assert_eq!(agreed(&[2_596_118, 2_596_119]), Some(2_596_119));
        assert_eq!(agreed(&[471_525, 2_596_118, 2_596_119]), Some(2_596_119));
        assert_eq!(agreed(&[471_525, 2_596_118, 808_095]), None);
        assert_eq!(agreed(&[0, 0, 0]), None);
        assert_eq!(agreed(&[]), None);
    }

    #[test]
    fn this_host_has_a_frequency_that_stays() {
        let khz = frequency_khz().expect("a frequency");
        assert!((100_000..10_000_000).contains(&khz), "{khz} kHz");
        let again = first_agreed((0..ATTEMPTS).map(|_| measure_khz())).expect("a frequency");
        assert!(khz.abs_diff(again) < khz / 100, "{khz} and {again} kHz");
    }
}
