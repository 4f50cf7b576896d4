// SPDX-License-Identifier: GPL-2.0-only
//! Whose limit put a task to sleep. See `policy/pause.c`.

use crate::ffi as c;
use crate::names::c_text;

/// The limit that put a task to sleep: the one list of them, from `policy/names.h`.
pub use c::weir_pause_by as Decider;

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
        c_text(c::weir_decider_name(self)).unwrap_or_default()
    }

    /// The decider of a name.
    pub fn from_name(name: &str) -> Option<Decider> {
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
pub use c::weir_pause_facts as Facts;

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

    #[test]
    fn each_has_its_name_of_c() {
        for decider in Decider::ALL {
            assert_eq!(format!("{decider:?}").to_lowercase(), decider.name());
            assert_eq!(Decider::from_name(decider.name()), Some(decider));
        }
        let keys = (0..).map_while(crate::names::stat_key);
        let counted = keys.filter(|key| key.name.starts_with("nr_throttled_by_"));
        assert!(
            counted
                .map(|key| &key.name["nr_throttled_by_".len()..])
                .eq(Decider::ALL.map(Decider::name))
        );
    }

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
