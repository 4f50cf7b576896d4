// SPDX-License-Identifier: GPL-2.0-only
//! What the agent tells of tiers: a file beside its saved values that `weir tier status` reads.

use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The file, in the agent's directory of state.
pub const FILE: &str = "tier.json";

/// Status of tiers and cgroups; bytes.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct BalancerStatus {
    /// The time of the status, in seconds since the epoch.
    pub at: u64,
    /// The engine's name; none if there is none.
    pub engine: Option<String>,
    /// Why it is this one, or why there is none.
    pub why: String,
    /// `true` if a cgroup keeps memory that no other wants.
    pub lend: bool,
    /// `true` while something is being moved.
    pub moving: bool,
    /// The tiers, fastest first.
    pub tiers: Vec<TierStatus>,
    /// Cgroups without children, by path.
    pub cgroups: Vec<CgroupStatus>,
}

/// A tier as `weir tier status` shows it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct TierStatus {
    /// The nodes, as the kernel writes lists of nodes.
    pub nodes: String,
    /// Memory of the tier.
    pub capacity: u64,
    /// Free bytes of the capacity.
    pub free: u64,
    /// Memory that the agent does not fill.
    pub headroom: u64,
}

/// A cgroup as `weir tier status` shows it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct CgroupStatus {
    /// The cgroup's path from the root of the hierarchy.
    pub cgroup: String,
    /// Bytes that it has in each tier.
    pub bytes: Vec<u64>,
    /// Bytes that may lie in each tier when those above are full to their budgets, by its own
    /// limits and its ancestors'; none is without limit.
    pub budget: Vec<Option<u64>>,
    /// A word for programs.
    pub state: String,
    /// The cgroup's state, for people.
    pub words: String,
    /// Moved to slower tiers since the agent began.
    pub moved_down: u64,
    /// Moved to faster ones.
    pub moved_up: u64,
    /// Pages passed over in the last step because several processes share them.
    pub shared_pages: u64,
    /// The problem of the last step.
    pub problem: Option<String>,
}

impl BalancerStatus {
    /// Seconds since the epoch.
    pub fn seconds_since_epoch() -> u64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs())
    }

    /// Puts it in place of what was told before, whole.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, directory: &Path) -> io::Result<()> {
        fs::create_dir_all(directory)?;
        let new = directory.join(format!("{FILE}.new"));
        fs::write(&new, serde_json::to_vec(self)?)?;
        fs::rename(new, directory.join(FILE))
    }

    /// Reads what an agent told last; none if none did.
    ///
    /// # Errors
    /// It cannot be read, or is something else.
    pub fn read(file: &Path) -> io::Result<Option<BalancerStatus>> {
        match fs::read(file) {
            Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(why) => Err(why),
        }
    }

    /// Takes back what was told.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove(directory: &Path) -> io::Result<()> {
        match fs::remove_file(PathBuf::from(directory).join(FILE)) {
            Err(why) if why.kind() != io::ErrorKind::NotFound => Err(why),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_was_told() {
        let dir = tempfile::tempdir().expect("made");
        let run = dir.path().join("run");
        assert_eq!(
            BalancerStatus::read(&run.join(FILE)).expect("nothing"),
            None
        );
        let status = BalancerStatus {
            at: BalancerStatus::seconds_since_epoch(),
            engine: Some("damon".into()),
            cgroups: vec![CgroupStatus {
                cgroup: "/a".into(),
                bytes: vec![1, 2],
                budget: vec![Some(3), None],
                ..CgroupStatus::default()
            }],
            ..BalancerStatus::default()
        };
        status.write(&run).expect("written");
        assert_eq!(
            BalancerStatus::read(&run.join(FILE)).expect("told"),
            Some(status)
        );
        BalancerStatus::remove(&run).expect("removed");
        BalancerStatus::remove(&run).expect("nothing to remove");
        assert_eq!(
            BalancerStatus::read(&run.join(FILE)).expect("nothing"),
            None
        );
    }
}
