// SPDX-License-Identifier: GPL-2.0-only
//! What tasks of a cgroup dirtied and its account did not pay for; see `policy/arrears.c`.

mod c {
    use super::*;
    unsafe extern "C" {
        pub fn weir_arrears_record(arrears: *mut Arrears, pages: u64);
        pub fn weir_arrears_match(arrears: *mut Arrears, pages: u64) -> u64;
        pub fn weir_arrears_report(arrears: *mut Arrears, pages: u64, strayed: u64, unpaid: u64);
        pub fn weir_arrears_forgive(arrears: *mut Arrears, pages: u64);
        pub fn weir_arrears_evades(arrears: *const Arrears) -> i32;
        pub fn weir_arrears_strays(arrears: *const Arrears) -> i32;
    }
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
    /// Of that, not recorded on this device.
    pub strayed: u64,
    /// Of that, recorded on no device; and what was forgiven.
    pub unpaid: u64,
}

impl Arrears {
    /// The cgroup's wb recorded `pages`.
    pub fn record(&mut self, pages: u64) {
        // SAFETY: the pointer is valid and exclusive for the call.
        unsafe { c::weir_arrears_record(self, pages) }
    }

    /// Of `pages` that a task reports, those that the wb did not record.
    pub fn vouch(&mut self, pages: u64) -> u64 {
        // SAFETY: the pointer is valid and exclusive for the call.
        unsafe { c::weir_arrears_match(self, pages) }
    }

    /// A task reported `pages` in a pass on the wb, which had not recorded `strayed` of them; no wb
    /// of the cgroup had recorded `unpaid`.
    pub fn report(&mut self, pages: u64, strayed: u64, unpaid: u64) {
        // SAFETY: the pointer is valid and exclusive for the call.
        unsafe { c::weir_arrears_report(self, pages, strayed, unpaid) }
    }

    /// Of what was recorded, `pages` are more than the cgroup can owe.
    pub fn forgive(&mut self, pages: u64) {
        // SAFETY: the pointer is valid and exclusive for the call.
        unsafe { c::weir_arrears_forgive(self, pages) }
    }

    /// Whether a sixteenth or more of what the cgroup dirtied lately is not paid for. True as long as
    /// nothing was reported.
    pub fn evades(&self) -> bool {
        // SAFETY: the pointer is valid for the call.
        unsafe { c::weir_arrears_evades(self) != 0 }
    }

    /// Whether a sixteenth or more of what passes on this device reported lately is not recorded
    /// there. True as long as nothing was reported.
    pub fn strays(&self) -> bool {
        // SAFETY: the pointer is valid for the call.
        unsafe { c::weir_arrears_strays(self) != 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pass of a task that dirtied `pages`; returns what nothing recorded.
    fn pass(arrears: &mut Arrears, pages: u64) -> u64 {
        let unpaid = arrears.vouch(pages);
        arrears.report(pages, unpaid, unpaid);
        unpaid
    }

    #[test]
    fn the_example_at_the_top_of_the_c_file() {
        let mut honest = Arrears::default();
        honest.record(100);
        assert_eq!((pass(&mut honest, 60), pass(&mut honest, 44)), (0, 4));
        assert!(!honest.evades());
        let mut other = Arrears::default();
        for _ in 0..100 {
            other.record(50);
            assert_eq!(pass(&mut other, 60), 10);
            assert!(other.evades());
        }
    }

    #[test]
    fn what_another_device_recorded_vouches_once() {
        let (mut here, mut there) = (Arrears::default(), Arrears::default());
        here.record(1);
        there.record(31);
        let rest = here.vouch(32);
        assert_eq!((rest, there.vouch(rest), there.vouch(rest)), (31, 0, 31));
        here.report(32, rest, 0);
        assert!(here.strays() && !here.evades());
    }

    #[test]
    fn who_reforms_is_believed_soon() {
        let mut arrears = Arrears::default();
        arrears.report(10_000, 10_000, 10_000);
        assert!(arrears.evades());
        let needed = (0..).find(|_| {
            arrears.record(32);
            pass(&mut arrears, 32);
            !arrears.evades()
        });
        assert!(needed < Some(200), "{needed:?} passes of 32 pages");
    }
}
