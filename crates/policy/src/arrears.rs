// SPDX-License-Identifier: GPL-2.0-only
//! What tasks of a cgroup dirtied and its account did not pay for; see `policy/arrears.c`.

mod c {
    use super::*;
    unsafe extern "C" {
        pub safe fn weir_arrears_newly(recorded: u64, paid: u64) -> u64;
        pub fn weir_arrears_record(arrears: *mut Arrears, pages: u64);
        pub fn weir_arrears_report(arrears: *mut Arrears, own: i32, pages: u64) -> u64;
        pub fn weir_arrears_forgive(arrears: *mut Arrears, pages: u64);
        pub fn weir_arrears_evades(arrears: *const Arrears) -> i32;
    }
}

/// The most pages that a wb may have recorded and no task reported.
pub const AHEAD_MOST: u64 = 2_048;

/// Pages newly recorded on a wb that has recorded `recorded` since it was made, and was paid for up
/// to `paid`. Less than that is an earlier look, or, if much less, a wb made anew.
pub fn newly(recorded: u64, paid: u64) -> u64 {
    c::weir_arrears_newly(recorded, paid)
}

/// Of one cgroup on one device, in pages.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct Arrears {
    /// Recorded on the cgroup's wb, and reported by no task yet.
    pub ahead: u64,
    /// Reported by its tasks, lately.
    pub passed: u64,
    /// Of that, not recorded; and what was forgiven.
    pub unpaid: u64,
}

impl Arrears {
    /// The cgroup's wb recorded `pages`.
    pub fn record(&mut self, pages: u64) {
        // SAFETY: the pointer is valid and exclusive for the call.
        unsafe { c::weir_arrears_record(self, pages) }
    }

    /// A task reports `pages`, in a pass on its cgroup's `own` wb or not. Returns those that nothing
    /// recorded.
    pub fn report(&mut self, own: bool, pages: u64) -> u64 {
        // SAFETY: the pointer is valid and exclusive for the call.
        unsafe { c::weir_arrears_report(self, own.into(), pages) }
    }

    /// Of what was recorded, `pages` are more than the cgroup can owe.
    pub fn forgive(&mut self, pages: u64) {
        // SAFETY: the pointer is valid and exclusive for the call.
        unsafe { c::weir_arrears_forgive(self, pages) }
    }

    /// Whether a quarter or more of what the cgroup dirtied lately is not paid for. True as long as
    /// nothing was reported.
    pub fn evades(&self) -> bool {
        // SAFETY: the pointer is valid for the call.
        unsafe { c::weir_arrears_evades(self) != 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_at_the_top_of_the_c_file() {
        let mut honest = Arrears::default();
        honest.record(100);
        assert_eq!((honest.report(true, 60), honest.report(true, 60)), (0, 20));
        assert!(!honest.evades());
        let mut other = Arrears::default();
        for _ in 0..100 {
            other.record(30);
            assert_eq!(other.report(true, 60), 30);
            assert!(other.evades());
        }
    }

    #[test]
    fn a_wb_that_stands_in_vouches_for_nothing() {
        let mut arrears = Arrears::default();
        arrears.record(100);
        assert_eq!(arrears.report(false, 60), 60);
        assert_eq!(arrears.ahead, 100);
    }

    #[test]
    fn who_reforms_is_believed_soon() {
        let mut arrears = Arrears::default();
        arrears.report(true, 10_000);
        assert!(arrears.evades());
        let needed = (0..).find(|_| {
            arrears.record(32);
            arrears.report(true, 32);
            !arrears.evades()
        });
        assert!(needed < Some(100), "{needed:?} passes of 32 pages");
    }

    #[test]
    fn looks_of_two_cpus_charge_each_page_once() {
        assert_eq!(newly(150, 100), 50);
        assert_eq!(newly(100, 150), 0, "an earlier look");
        assert_eq!(newly(10, 1_000_000), 10, "a wb made anew");
    }
}
