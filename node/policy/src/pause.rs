// SPDX-License-Identifier: GPL-2.0-only
//! Whose limit put a task to sleep. See `policy/pause.c`.

mod c {
    use super::*;
    unsafe extern "C" {
        pub fn weir_pause_by(facts: *const Facts) -> By;
    }
}

/// The limit that a cgroup's domain was judged by in a pass.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub enum JudgedBy {
    /// The kernel's own limit for the cgroup.
    #[default]
    Kernel,
    /// The cgroup's ceiling.
    Ceiling,
    /// The ceiling of one above.
    Ancestor,
}

/// The decider of a pause.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// It cannot be told.
    Unknown,
    /// The host's limit.
    Host,
    /// The kernel's own limit for the cgroup.
    Cgroup,
    /// The cgroup's ceiling.
    Ceiling,
    /// An ancestor's ceiling.
    Ancestor,
    /// The device's share of a limit.
    Device,
}

/// Number of deciders.
pub const BY_COUNT: usize = By::Device as usize + 1;

/// Facts of a pause, in pages; the two before the last are C truth values.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct Facts {
    /// The limit of the domain the kernel decided by.
    pub thresh: u64,
    /// Dirty pages it counted there.
    pub dirty: u64,
    /// The limit of the cgroup's domain in the same pass, amended.
    pub cgroup_thresh: u64,
    /// The count of the cgroup's domain in the same pass, amended.
    pub cgroup_dirty: u64,
    /// The cgroup's domain was seen in this pass.
    pub cgroup_seen: u32,
    /// The device asked for strict limits of its own (FUSE).
    pub strictlimit: u32,
    /// The limit that the cgroup's domain was judged by.
    pub judged_by: JudgedBy,
}

impl Facts {
    /// The decider of the pause.
    pub fn decided_by(&self) -> By {
        // SAFETY: the pointer is valid for the call, and the C function returns enumerators only.
        unsafe { c::weir_pause_by(self) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example at the top of `policy/pause.c`.
    #[test]
    fn worked_example() {
        let ancestor = Facts {
            thresh: 16_384,
            dirty: 15_001,
            cgroup_thresh: 16_384,
            cgroup_dirty: 15_001,
            cgroup_seen: 1,
            strictlimit: 0,
            judged_by: JudgedBy::Ancestor,
        };
        assert_eq!(ancestor.decided_by(), By::Ancestor);
        let host = Facts {
            thresh: 100_000,
            dirty: 90_000,
            ..ancestor
        };
        assert_eq!(host.decided_by(), By::Host);
    }
}
