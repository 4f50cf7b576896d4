// SPDX-License-Identifier: GPL-2.0-only
//! Who is asking for the dirty limits, and what may be amended for them; see `policy/pass.c`.

mod c {
    use super::*;
    unsafe extern "C" {
        pub fn weir_pass_kind(facts: *const Facts) -> Pass;
        pub fn weir_pass_may_cap(facts: *const Facts) -> i32;
    }
}

/// The caller that asks for a domain's limits.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// A task that dirtied pages and may be put to sleep.
    Writer,
    /// A device's flusher asking whether to go on writing.
    Flusher,
    /// A caller that only reads the limits, such as `/proc/vmstat`.
    Reader,
}

/// Facts that tell the three apart. Members are C truth values: non-zero is yes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct Facts {
    /// The domain's limits are asked for on behalf of a device's writeback.
    pub has_wb: u32,
    /// The domain is a cgroup's, not the global one.
    pub has_gdtc: u32,
    /// That cgroup domain's global counterpart belongs to a device's writeback too.
    pub gdtc_has_wb: u32,
    /// That device's flusher is what is running.
    pub in_flusher: u32,
    /// The device asked for strict limits of its own (FUSE).
    pub strictlimit: u32,
}

impl Facts {
    /// The caller that these facts tell of.
    pub fn pass_kind(&self) -> Pass {
        // SAFETY: the pointer is valid for the call, and the C function returns enumerators only.
        unsafe { c::weir_pass_kind(self) }
    }

    /// `true` if a ceiling may be applied to the domain in this pass.
    pub fn may_cap(&self) -> bool {
        // SAFETY: the pointer is valid for the call.
        unsafe { c::weir_pass_may_cap(self) != 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_caller_is_told_apart() {
        let writer = Facts {
            has_wb: 1,
            has_gdtc: 1,
            gdtc_has_wb: 1,
            ..Facts::default()
        };
        assert_eq!(writer.pass_kind(), Pass::Writer);
        assert!(writer.may_cap());

        let flusher = Facts {
            in_flusher: 1,
            ..writer
        };
        assert_eq!(flusher.pass_kind(), Pass::Flusher);
        assert!(flusher.may_cap(), "writer and flusher see one truth");

        let vmstat = Facts::default();
        assert_eq!(vmstat.pass_kind(), Pass::Reader);
        assert!(!vmstat.may_cap());

        let cgroup_reader = Facts {
            gdtc_has_wb: 0,
            ..writer
        };
        assert_eq!(cgroup_reader.pass_kind(), Pass::Reader);
        assert!(!cgroup_reader.may_cap());

        let global = Facts {
            has_gdtc: 0,
            gdtc_has_wb: 0,
            ..writer
        };
        assert_eq!(global.pass_kind(), Pass::Writer);
        assert!(!global.may_cap(), "a ceiling is the cgroup's domain's");

        assert!(
            !Facts {
                strictlimit: 1,
                ..writer
            }
            .may_cap()
        );
    }
}
