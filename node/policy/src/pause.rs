// SPDX-License-Identifier: GPL-2.0-only
//! Whose limit put a task to sleep. See `policy/pause.c`.

mod c {
    use super::*;
    unsafe extern "C" {
        pub fn weir_pause_by(facts: *const Facts) -> Decider;
    }
}

/// The limit that put a task to sleep: the one list of them, from `policy/names.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub enum Decider {
    /// It cannot be told.
    #[default]
    Unknown,
    /// The host's limit.
    Host,
    /// The kernel's own limit for the cgroup.
    Cgroup,
    /// The cgroup's ceiling, set through weir.
    Ceiling,
    /// A limit or ceiling of a cgroup above.
    Ancestor,
    /// The device's share of a limit.
    Device,
}

impl Decider {
    /// Each by its number in `enum weir_pause_by`.
    pub const ALL: [Decider; 6] = [
        Decider::Unknown,
        Decider::Host,
        Decider::Cgroup,
        Decider::Ceiling,
        Decider::Ancestor,
        Decider::Device,
    ];

    /// The name that `memory.dirty_stat` and the event `weir:dirty_pause` have for it.
    pub fn name(self) -> &'static str {
        crate::names::decider_name(self as u32).unwrap_or_default()
    }

    /// The decider of a name.
    pub fn by_name(name: &str) -> Option<Decider> {
        Decider::ALL
            .into_iter()
            .find(|decider| decider.name() == name)
    }
}

/// In tables the one that cannot be told comes last.
impl Ord for Decider {
    fn cmp(&self, other: &Decider) -> std::cmp::Ordering {
        let place = |decider: &Decider| (*decider == Decider::Unknown, *decider as u32);
        place(self).cmp(&place(other))
    }
}

impl PartialOrd for Decider {
    fn partial_cmp(&self, other: &Decider) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

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
    /// Within the cgroup's domain: the kernel's own limit, the ceiling, or an ancestor's.
    pub judged_by: Decider,
}

impl Facts {
    /// The decider of the pause.
    pub fn decided_by(&self) -> Decider {
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
            judged_by: Decider::Ancestor,
        };
        assert_eq!(ancestor.decided_by(), Decider::Ancestor);
        let host = Facts {
            thresh: 100_000,
            dirty: 90_000,
            ..ancestor
        };
        assert_eq!(host.decided_by(), Decider::Host);
    }
}
