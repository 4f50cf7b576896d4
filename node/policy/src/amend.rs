// SPDX-License-Identifier: GPL-2.0-only
//! The order of amendments in one pass over the limits of both domains. See `policy/amend.c`.

use crate::ceiling::Limits;
use crate::drain::DrainHost;
use crate::ffi as c;
use crate::floor::FloorPass;
use crate::pass::{Facts, Pass};
use std::ptr;

/// Amends the limits of the host's domain; `below` is what a writer's pass finds of the floors on
/// its path. Returns whether the writer is let go: then its cgroup's domain is to follow.
pub fn amend_global(
    limits: &mut Limits,
    kind: Pass,
    host: &DrainHost,
    below: Option<&FloorPass>,
) -> bool {
    // SAFETY: the pointers are valid for the call, `limits` exclusively; `None` is null.
    unsafe {
        c::weir_amend_global(limits, kind, host, below.map_or(ptr::null(), ptr::from_ref)) != 0
    }
}

/// Amends the limits of a cgroup's domain with `avail` dirtyable memory; `released` is what
/// [`amend_global`] returned in the same pass. Returns whether the ceilings on the path come next, each
/// by [`Limits::amend_by_ceiling`].
pub fn amend_memcg(
    limits: &mut Limits,
    facts: &Facts,
    host: &DrainHost,
    avail: u64,
    released: bool,
) -> bool {
    // SAFETY: the pointers are valid for the call, `limits` exclusively.
    unsafe { c::weir_amend_memcg(limits, facts, host, avail, released.into()) != 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arith;
    use crate::ceiling::Counts;
    use crate::floor::FLOORS_PERCENT_OF_LIMIT;
    use proptest::prelude::*;

    const STOCK: Limits = Limits {
        thresh: 8_192,
        bg_thresh: 4_096,
        dirty: 6_000,
        dom_limit: 8_192,
    };
    const HOST: DrainHost = DrainHost {
        limit: 16_384,
        stock: 8_192,
        unused: 2_000,
        thresh: 0,
        avail: 65_536,
    };
    /// A pass of a writer over its cgroup's domain.
    const WRITER: Facts = Facts {
        has_wb: 1,
        has_gdtc: 1,
        gdtc_has_wb: 1,
        in_flusher: 0,
        strictlimit: 0,
    };

    /// A floor with room.
    fn below() -> FloorPass {
        FloorPass {
            floor: 2_048,
            memcg_dirty: 48,
            host_dirty: 6_000,
            host_thresh: 16_384,
            floors_total: 2_048,
            left: 4_096,
            cgroup_domain: 1,
            ..FloorPass::default()
        }
    }

    /// `host` after a pass over its domain has amended `stock`.
    fn seen(stock: Limits, host: DrainHost) -> DrainHost {
        let mut limits = stock;
        amend_global(&mut limits, Pass::Writer, &host, None);
        DrainHost {
            thresh: limits.thresh,
            ..host
        }
    }

    /// The example at the top of `policy/amend.c`.
    #[test]
    fn worked_example() {
        let mut host = STOCK;
        assert!(!amend_global(&mut host, Pass::Writer, &HOST, None));
        assert_eq!((host.thresh, host.bg_thresh), (14_384, 3_596));

        let after = seen(STOCK, HOST);
        let mut cgroup = STOCK;
        assert!(amend_memcg(&mut cgroup, &WRITER, &after, 65_536, false));
        assert_eq!(cgroup.thresh, 16_384, "the reservation is put back");
        cgroup.amend_by_ceiling(8_192, &Counts::default(), Pass::Writer);
        assert_eq!(cgroup.thresh, 6_144);

        let (mut host, mut cgroup) = (STOCK, STOCK);
        let released = amend_global(&mut host, Pass::Writer, &HOST, Some(&below()));
        assert!(released && host.dirty == 0 && host.thresh == 14_384);
        assert!(!amend_memcg(&mut cgroup, &WRITER, &after, 65_536, released));
        assert_eq!((cgroup.dirty, cgroup.thresh), (0, 16_384));
    }

    #[test]
    fn only_a_writer_below_its_floor_is_let_go() {
        let full = FloorPass {
            memcg_dirty: 2_048,
            ..below()
        };
        for (kind, floor) in [
            (Pass::Writer, Some(&full)),
            (Pass::Writer, None),
            (Pass::Flusher, Some(&below())),
        ] {
            let mut limits = STOCK;
            assert!(!amend_global(&mut limits, kind, &HOST, floor));
            assert_eq!(limits.dirty, STOCK.dirty);
        }
    }

    #[test]
    fn a_release_leaves_the_smoothed_limit_where_what_is_dirty_puts_it() {
        let host = DrainHost {
            limit: 0,
            unused: 6_000,
            ..HOST
        };
        let (mut kept, mut released) = (STOCK, STOCK);
        assert!(!amend_global(&mut kept, Pass::Writer, &host, None));
        assert!(amend_global(
            &mut released,
            Pass::Writer,
            &host,
            Some(&below())
        ));
        assert_eq!(kept.dom_limit, 6_000 + 6_000 / 256 + 1);
        assert_eq!(released, Limits { dirty: 0, ..kept });
    }

    #[test]
    fn readers_see_stock_in_both_domains() {
        let mut limits = STOCK;
        assert!(!amend_global(
            &mut limits,
            Pass::Reader,
            &HOST,
            Some(&below())
        ));
        let reader = Facts {
            gdtc_has_wb: 0,
            ..WRITER
        };
        let after = seen(STOCK, HOST);
        assert!(!amend_memcg(&mut limits, &reader, &after, 65_536, true));
        assert_eq!(limits, STOCK);
    }

    #[test]
    fn a_strictlimit_device_follows_drain_and_knows_no_ceiling() {
        let strict = Facts {
            strictlimit: 1,
            ..WRITER
        };
        let mut limits = STOCK;
        assert!(!amend_memcg(
            &mut limits,
            &strict,
            &seen(STOCK, HOST),
            65_536,
            false
        ));
        assert_eq!((limits.thresh, limits.dirty), (16_384, 6_000));
    }

    proptest! {
        /// Whatever drain makes of the host's limit, floors are promised a share of that.
        #[test]
        fn no_drain_limit_takes_a_reservation_back(
            thresh in 2..100_000u64, bg_percent in 0..100u64, dirty in 0..200_000u64,
            limit in prop_oneof![Just(0), 2..200_000u64], unused in any::<u64>(),
        ) {
            let stock = Limits { thresh, bg_thresh: thresh * bg_percent / 100, dirty,
                                 dom_limit: thresh };
            let host = DrainHost { limit, stock: thresh, unused, ..DrainHost::default() };
            let drained = seen(stock, DrainHost { unused: 0, ..host }).thresh;
            let most = arith::scale_pages(drained, FLOORS_PERCENT_OF_LIMIT, 100);
            prop_assert_eq!(seen(stock, host).thresh, drained - unused.min(most));
        }

        /// A reservation is about the host's domain: no cgroup's is lowered for it.
        #[test]
        fn a_cgroups_limit_does_not_depend_on_what_floors_reserve(
            thresh in 2..100_000u64, limit in prop_oneof![Just(0), 2..200_000u64],
            unused in any::<u64>(), avail in 1..400_000u64, host_avail in 1..400_000u64,
        ) {
            let stock = Limits { thresh, bg_thresh: thresh / 2, dirty: 0, dom_limit: thresh };
            let cgroup = |unused| {
                let host = DrainHost { limit, stock: thresh, unused, thresh: 0, avail: host_avail };
                let mut limits = Limits { thresh: thresh / 2, bg_thresh: thresh / 4, ..stock };
                amend_memcg(&mut limits, &WRITER, &seen(stock, host), avail, false);
                limits
            };
            prop_assert_eq!(cgroup(unused), cgroup(0));
        }
    }
}
