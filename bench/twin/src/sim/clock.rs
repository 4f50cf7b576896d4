// SPDX-License-Identifier: GPL-2.0-only
//! Time: nanoseconds for events, ticks for everything the kernel counts in ticks.
//!
//! Debian's kernels tick 250 times a second, and the throttle sees nothing finer: a pause is a
//! whole number of ticks, and a timer armed within a tick fires at the end of its last one, so a
//! pause of 50 ticks (the longest, 200 ms) takes 200 to 204 ms.

/// Simulated time in nanoseconds.
pub type Ns = u64;
/// Timer ticks, the kernel's jiffies.
pub type Ticks = u64;

/// Ticks per second.
pub const HZ: Ticks = 250;
/// One second in nanoseconds.
pub const SECOND: Ns = 1_000_000_000;
/// One millisecond in nanoseconds.
pub const MS: Ns = 1_000_000;
/// One tick in nanoseconds.
pub const TICK: Ns = SECOND / HZ;
/// `HZ` rounded up to a power of two, by which the kernel divides where it need not be exact.
pub const HZ_POW2: u64 = HZ.next_power_of_two();

/// The tick that `now` lies in.
pub fn to_ticks(now: Ns) -> Ticks {
    now / TICK
}

/// End of a sleep of `pause` ticks that begins at `now`.
pub fn timer_expiry(now: Ns, pause: Ticks) -> Ns {
    (to_ticks(now) + pause + 1) * TICK
}
