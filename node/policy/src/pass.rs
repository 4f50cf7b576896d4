// SPDX-License-Identifier: GPL-2.0-only
//! Who is asking for the dirty limits, and what may be amended for them; see `policy/pass.c`.

use crate::ffi as c;

/// The caller that asks for a domain's limits.
pub use c::weir_pass as Pass;

/// Facts that tell the three apart. Members are C truth values: non-zero is yes.
pub use c::weir_pass_facts as Facts;

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
