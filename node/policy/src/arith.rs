// SPDX-License-Identifier: GPL-2.0-only
//! The few sums everything else is made of; see `policy/arith.h`.

use crate::ffi as c;

/// `pages`, at most [`crate::PAGES_MAX`].
pub fn saturate_pages(pages: u64) -> u64 {
    c::weir_saturate(pages)
}

/// `a + b`, held at the top instead of wrapping.
pub fn add(a: u64, b: u64) -> u64 {
    c::weir_add(a, b)
}

/// Whole pages in `bytes`, rounded down.
pub fn bytes_to_pages(bytes: u64) -> u64 {
    c::weir_bytes_to_pages(bytes)
}

/// `pages * num / den` for `num <= den`, rounded down; `pages` if `num >= den`. Exact for a `den`
/// of 32 bits, else never too large.
pub fn scale_pages(pages: u64, num: u64, den: u64) -> u64 {
    c::weir_share(pages, num, den)
}

/// The level below which no task in a domain with these limits is throttled.
pub fn freerun_level(thresh: u64, bg_thresh: u64) -> u64 {
    c::weir_freerun_level(thresh, bg_thresh)
}

/// The level that the throttle aims at in a domain with this freerun level and hard limit.
pub fn setpoint_level(freerun: u64, limit: u64) -> u64 {
    c::weir_setpoint_level(freerun, limit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PAGES_MAX, UNLIMITED};

    #[test]
    fn edges() {
        assert_eq!(saturate_pages(PAGES_MAX + 1), PAGES_MAX);
        assert_eq!(add(UNLIMITED, 1), UNLIMITED);
        assert_eq!(add(UNLIMITED, UNLIMITED), UNLIMITED);
        assert_eq!(bytes_to_pages(4095), 0);
        assert_eq!(bytes_to_pages(4096), 1);
        assert_eq!(scale_pages(10, 1, 3), 3);
        assert_eq!(
            scale_pages(PAGES_MAX, PAGES_MAX - 1, PAGES_MAX),
            PAGES_MAX - 1
        );
        assert_eq!(
            scale_pages(10, 0, 0),
            10,
            "a share of nothing takes nothing away"
        );
        assert_eq!(scale_pages(100, 1 << 40, 1 << 41), 50);
        assert_eq!(freerun_level(1, 0), 0);
        assert_eq!(freerun_level(UNLIMITED, UNLIMITED), PAGES_MAX);
        assert_eq!(setpoint_level(6_144, 8_192), 7_168);
    }
}
