// SPDX-License-Identifier: GPL-2.0-only
//! Seconds of drain: the host's dirty limit by what its disks can write back in some seconds. See
//! `policy/drain.c`.

use crate::ceiling::Limits;
use crate::ffi as c;

/// The most of dirtyable memory that a lifted limit takes, in percent.
pub const PERCENT_OF_DIRTYABLE: u64 = c::WEIR_DRAIN_PERCENT_OF_DIRTYABLE as u64;
/// The most seconds there are.
pub const SECONDS_MAX: u64 = c::WEIR_DRAIN_SECONDS_MAX as u64;
/// Memory is taken for plentiful again after this long without a sign, in milliseconds.
pub const CALM_MS: u64 = c::WEIR_DRAIN_CALM_MS as u64;

/// Knowledge of the host, kept from beat to beat.
pub use c::weir_drain as Drain;

/// One beat's figures, in pages; flows since the beat before. The last one is a C truth value.
pub use c::weir_drain_beat as Beat;

impl Default for Drain {
    fn default() -> Self {
        let mut drain = Drain {
            rate: 0,
            seen_ms: 0,
            in_flight: 0,
            silent_ms: 0,
            calm_ms: 0,
            dirtyable: 0,
            limit: 0,
        };
        // SAFETY: the pointer is valid and exclusive for the call.
        unsafe { c::weir_drain_start(&mut drain) }
        drain
    }
}

impl Drain {
    /// Takes one beat's figures in; afterwards `limit` is what is in force.
    pub fn adapt_by_beat(&mut self, beat: &Beat) {
        // SAFETY: the pointers are valid for the call, `self` exclusively.
        unsafe { c::weir_drain_step(self, beat) }
    }
}

/// Amends the host's limits as if the sysctl were `limit` instead of `stock`.
pub fn amend_host(limits: &mut Limits, limit: u64, stock: u64) {
    // SAFETY: the pointer is valid and exclusive for the call.
    unsafe { c::weir_drain_amend(limits, limit, stock) }
}

/// The figures that amend the host's domain, and those that a cgroup's domain follows.
pub use c::weir_drain_host as DrainHost;

impl DrainHost {
    /// Amends the limits of a cgroup with `avail` dirtyable memory along with the host's.
    pub fn amend_cgroup(&self, limits: &mut Limits, avail: u64) {
        // SAFETY: the pointers are valid for the call, `limits` exclusively.
        unsafe { c::weir_drain_follow(limits, avail, self) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arith;

    /// Pages in a megabyte.
    const M: u64 = 256;

    /// A guest of 3 GB with a limit of 256 MB, background 128 MB, draining 30 MB/s.
    const BUSY: Beat = Beat {
        seconds: 30,
        elapsed_ms: 200,
        thresh: 256 * M,
        bg_thresh: 128 * M,
        dirtyable: 2_600 * M,
        dirty: 200 * M,
        writeback: 10 * M,
        written: 6 * M,
        kswapd_scanned: 0,
        kswapd_taken: 0,
        direct_scanned: 0,
        memory_stall_percent: 0,
        tighten: 0,
    };

    fn after(beats: u32, drain: Drain, beat: Beat) -> Drain {
        let mut drain = drain;
        (0..beats).for_each(|_| drain.adapt_by_beat(&beat));
        drain
    }

    /// The guest above, with 1,000 MB dirty under a lifted limit.
    fn lifted() -> Drain {
        let drain = after(50, Drain::default(), BUSY);
        after(1, drain, full())
    }

    fn full() -> Beat {
        Beat {
            dirty: 1_000 * M,
            ..BUSY
        }
    }

    /// The example at the top of `policy/drain.c`, in pages of 4 KB: one GB is 250,000.
    #[test]
    fn worked_example() {
        let gb = |tenths: u64| tenths * 25_000;
        let published = Beat {
            dirtyable: gb(770),
            bg_thresh: gb(77),
            thresh: gb(155),
            dirty: gb(100),
            written: 578 * 250 / 5,
            ..BUSY
        };
        let drain = after(60, Drain::default(), published);
        assert_eq!(drain.rate, 578 * 250);
        assert_eq!(drain.limit, 2 * 30 * 578 * 250 - gb(77));
        let scarce = Beat {
            dirty: gb(160),
            direct_scanned: 1,
            ..published
        };
        let drain = after(1, drain, scarce);
        let held = gb(160) + BUSY.writeback;
        assert_eq!(drain.limit, held + held / 32 + 1, "16.5 GB");
        let drained = Beat {
            dirty: gb(150),
            writeback: 0,
            ..scarce
        };
        assert_eq!(after(1, drain, drained).limit, 0);
    }

    #[test]
    fn freerun_is_what_drains_in_the_seconds() {
        let beat = Beat {
            seconds: 10,
            ..BUSY
        };
        let drain = after(10, Drain::default(), beat);
        assert_eq!(arith::freerun_level(drain.limit, BUSY.bg_thresh), 300 * M);
    }

    #[test]
    fn bounded_by_dirtyable_memory() {
        assert_eq!(lifted().limit, 2_600 * M * 60 / 100);
    }

    #[test]
    fn nothing_is_lifted_before_the_rate_is_known() {
        assert_eq!(after(9, Drain::default(), BUSY).limit, 0);
        assert_ne!(after(10, Drain::default(), BUSY).limit, 0);
    }

    #[test]
    fn the_first_flood_of_a_tightened_host_is_bounded() {
        let tight = Beat {
            tighten: 1,
            seconds: 4,
            dirty: 0,
            writeback: 0,
            written: 0,
            ..BUSY
        };
        let idle = after(1_000, Drain::default(), tight);
        assert_eq!(idle.limit, 4 * M, "the least");
        // Two seconds of a busy disk that does 30 MB/s.
        let busy = Beat {
            dirty: 3 * M,
            written: 6 * M,
            ..tight
        };
        assert_eq!(after(9, idle, busy).limit, 4 * M);
        assert_eq!(after(10, idle, busy).limit, 90 * M);
        // What is dirty when it is switched on goes down from there.
        let late = Beat {
            dirty: 200 * M,
            ..tight
        };
        assert_eq!(
            after(1, Drain::default(), late).limit,
            200 * M + 200 * M / 32 + 1
        );
        // Unknown disks are no reason to lift.
        let far = Beat {
            seconds: 3_600,
            tighten: 0,
            ..busy
        };
        assert_eq!(after(9, Drain::default(), far).limit, 0);
    }

    /// Pauses may be longer than the disks take for what is allowed.
    #[test]
    fn a_limit_that_one_beat_writes_is_too_low() {
        let idle = Beat {
            tighten: 1,
            seconds: 1,
            dirty: 0,
            writeback: 0,
            written: 0,
            ..BUSY
        };
        let unknown = after(10, Drain::default(), idle);
        assert_eq!(unknown.limit, 4 * M);
        let written = |written| Beat { written, ..idle };
        assert_eq!(after(50, unknown, written(4 * M)).limit, 4 * M);
        let known = after(10, unknown, written(40 * M));
        assert_eq!((known.rate, known.limit), (200 * M, 150 * M));
        assert_eq!(after(50, known, written(40 * M)).rate, 200 * M);
        assert_eq!(after(50, known, written(M)).rate, 200 * M, "never lowered");
        let long = Beat {
            elapsed_ms: 5_000,
            ..written(151 * M)
        };
        assert_eq!(after(1, known, long).rate, 200 * M, "not in one beat");
    }

    /// Else a container's flood would be held at a level that never shows what disks do.
    #[test]
    fn a_cgroup_at_the_least_makes_the_host_busy() {
        let stock = 6_400 * M;
        let host = DrainHost {
            limit: 4 * M,
            stock,
            unused: 0,
            thresh: 4 * M,
            avail: 32_000 * M,
        };
        for (portion, left) in [(1_280, 4), (5, 4), (2, 2), (0, 0)] {
            let mut limits = Limits {
                thresh: portion * M,
                bg_thresh: portion * M / 2,
                dirty: 0,
                dom_limit: 0,
            };
            host.amend_cgroup(&mut limits, portion * 5 * M);
            assert_eq!(limits.thresh, left * M, "of {portion} MiB");
            assert_eq!(limits.bg_thresh, left * M / 2);
        }
        // Its writers sleep above its freerun: that is enough for the host.
        let flood = Beat {
            tighten: 1,
            seconds: 4,
            thresh: stock,
            bg_thresh: stock / 2,
            dirty: 0,
            writeback: 3 * M + 1,
            ..BUSY
        };
        // The first beat puts the limit in force.
        assert_eq!(after(11, Drain::default(), flood).limit, 90 * M);
    }

    #[test]
    fn idle_is_not_slow() {
        let before = lifted();
        let idle = Beat {
            dirty: 100 * M,
            written: 0,
            ..BUSY
        };
        let drain = after(1_000, before, idle);
        assert_eq!((drain.rate, drain.limit), (before.rate, before.limit));
    }

    #[test]
    fn a_slower_disk_is_learnt_in_some_seconds_and_never_goes_below_the_kernels_limit() {
        let slow = Beat {
            written: 6 * M / 30,
            ..BUSY
        };
        let drain = after(400, lifted(), slow);
        assert_eq!(drain.limit, 0);
        let tight = Beat {
            tighten: 1,
            dirty: 140 * M,
            ..slow
        };
        let held = (150 + 150 / 32 + 1) * M;
        assert!(after(400, drain, tight).limit < held);
        let drained = Beat {
            dirty: 20 * M,
            writeback: 0,
            ..tight
        };
        let limit = after(1, drain, drained).limit;
        assert!(
            (21 * M..28 * M).contains(&limit),
            "1 MB/s: the limit is 3/4 of what drains in 30 s; {limit}"
        );
    }

    /// ext4 completes all that one call submitted at once, here after three seconds without any.
    #[test]
    fn what_is_completed_at_once_counts_though_nothing_is_dirty_by_then() {
        let waits = Beat { written: 0, ..BUSY };
        let done = Beat {
            dirty: 0,
            writeback: 0,
            written: 90 * M,
            ..BUSY
        };
        let flown = Beat {
            writeback: 90 * M,
            ..waits
        };
        let mut drain = after(50, Drain::default(), BUSY);
        for _ in 0..20 {
            drain = after(14, drain, flown);
            drain = after(1, drain, done);
        }
        assert_eq!(drain.rate, 30 * M);
        let idle = Beat { written: 1, ..done };
        assert_eq!(after(50, drain, idle).rate, drain.rate, "idle is not slow");
        let mut slow = drain;
        for _ in 0..20 {
            slow = after(74, slow, flown);
            slow = after(1, slow, done);
        }
        assert_eq!(slow.rate, 6 * M, "90 MB in 15 s, longer than the average");
        assert_eq!(after(500, slow, flown).rate, slow.rate, "stopped");
        let gone = after(1, drain, flown);
        let stuck = Beat {
            writeback: 90 * M,
            written: 0,
            ..done
        };
        assert_eq!(
            after(500, gone, stuck).rate,
            gone.rate,
            "a server that has gone"
        );
        let trickle = Beat {
            written: 10,
            ..stuck
        };
        assert_eq!(
            after(3000, gone, trickle).rate,
            gone.rate,
            "the log of an idle host, beside it"
        );
    }

    /// Tightening scales the background level; the disk must still be seen to be busy there.
    #[test]
    fn a_tightened_host_notices_that_its_disk_is_fast_again() {
        let slow = Beat {
            written: 50,
            tighten: 1,
            ..BUSY
        };
        let mut drain = after(200, Drain::default(), slow);
        let fast = Beat {
            dirty: 20 * M,
            writeback: 0,
            ..slow
        };
        drain = after(1, drain, fast);
        assert!(drain.limit < 40 * M, "{drain:?}");
        // writers keep close to whatever the limit is
        for _ in 0..200 {
            let dirty = if drain.limit == 0 {
                BUSY.thresh
            } else {
                drain.limit * 9 / 10
            };
            drain.adapt_by_beat(&Beat {
                dirty,
                written: 6 * M,
                ..fast
            });
        }
        assert!(drain.limit > BUSY.thresh, "{drain:?}");
    }

    #[test]
    fn each_sign_of_scarcity_withdraws_and_ten_calm_seconds_lift_again() {
        let kswapd = Beat {
            kswapd_scanned: 2_000,
            kswapd_taken: 1_990,
            ..full()
        };
        for scarce in [
            Beat {
                direct_scanned: 1,
                ..full()
            },
            Beat {
                memory_stall_percent: 20,
                ..full()
            },
            Beat {
                kswapd_taken: 900,
                ..kswapd
            },
            Beat {
                dirtyable: 2_500 * M,
                ..kswapd
            },
        ] {
            let mut drain = after(1, lifted(), scarce);
            assert_eq!(drain.limit, (1_010 * M) + 1_010 * M / 32 + 1, "{scarce:?}");
            drain = after(49, drain, full());
            assert!(drain.limit < 1_100 * M);
            drain = after(1, drain, full());
            assert!(drain.limit > 1_400 * M);
        }
    }

    #[test]
    fn kswapd_turning_over_page_cache_is_no_scarcity() {
        let turnover = Beat {
            kswapd_scanned: 20_000,
            kswapd_taken: 19_000,
            ..full()
        };
        assert_eq!(after(100, lifted(), turnover).limit, lifted().limit);
        // One of many tasks stalls for some of the time then.
        let stalls = Beat {
            memory_stall_percent: 9,
            ..turnover
        };
        assert_eq!(after(100, lifted(), stalls).limit, lifted().limit);
    }

    /// With little room most of what is dirty is in writeback, and the rest below background.
    #[test]
    fn a_full_disk_queue_is_busy_too() {
        let queued = Beat {
            dirty: 100 * M,
            writeback: 120 * M,
            ..BUSY
        };
        assert_ne!(after(10, Drain::default(), queued).limit, 0);
    }

    #[test]
    fn off_withdraws_and_ends_at_stock() {
        let off = Beat {
            seconds: 0,
            ..full()
        };
        let drain = after(1, lifted(), off);
        assert!(drain.limit > full().dirty);
        assert_eq!(
            after(
                1,
                drain,
                Beat {
                    dirty: 50 * M,
                    ..off
                }
            )
            .limit,
            0
        );
    }

    #[test]
    fn a_lift_leaves_the_background_and_a_higher_limit() {
        let stock = Limits {
            thresh: 1_000,
            bg_thresh: 500,
            dirty: 900,
            dom_limit: 1_000,
        };
        let amended = |stock: Limits, limit, of| {
            let mut limits = stock;
            amend_host(&mut limits, limit, of);
            limits
        };
        assert_eq!(amended(stock, 0, 1_000), stock);
        assert_eq!(
            amended(stock, 4_000, 1_000),
            Limits {
                thresh: 4_000,
                ..stock
            }
        );
        let real_time = Limits {
            thresh: 5_000,
            ..stock
        };
        assert_eq!(amended(real_time, 4_000, 1_000), real_time);
        assert_eq!(
            amended(stock, 200, 1_000),
            Limits {
                thresh: 200,
                bg_thresh: 100,
                ..stock
            }
        );
    }

    /// As the kernel's own for a cgroup, with `vm.dirty_bytes` at the lifted limit.
    #[test]
    fn a_cgroup_keeps_its_share() {
        let host = DrainHost {
            limit: 10_000,
            stock: 1_000,
            thresh: 10_000,
            unused: 0,
            avail: 100_000,
        };
        let followed = |thresh, host: DrainHost| {
            let mut limits = Limits {
                thresh,
                bg_thresh: thresh / 2,
                dirty: 0,
                dom_limit: 0,
            };
            host.amend_cgroup(&mut limits, 40_960);
            limits.thresh
        };
        assert_eq!(followed(420, host), 40_960 * 410 / 4_096);
        assert_eq!(followed(5_000, host), 5_000, "never takes away");
        let lost = DrainHost {
            thresh: 1_000,
            ..host
        };
        assert_eq!(followed(410, lost), 410, "a lift lost in the host's domain");
        // 9,500 reserved and unused, of which a pass takes no more than 80 %
        for (thresh, unused) in [(10_000, 0), (6_000, 4_000), (2_000, 9_500)] {
            let reserved = DrainHost {
                thresh,
                unused,
                ..host
            };
            assert_eq!(
                followed(420, reserved),
                followed(420, host),
                "a reservation is about the host's domain"
            );
        }
        let huge = DrainHost {
            thresh: 200_000,
            ..host
        };
        assert_eq!(followed(420, huge), 40_960, "nor gives more than there is");
        assert_eq!(followed(420, DrainHost { limit: 0, ..host }), 420, "stock");
        assert_eq!(followed(420, DrainHost { avail: 0, ..host }), 420);
        let tight = DrainHost { limit: 500, ..host };
        assert_eq!(followed(4_200, tight), 2_100, "in proportion");
        assert_eq!(followed(420, tight), 420, "but it keeps 4 MiB");
    }
}
