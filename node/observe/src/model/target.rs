// SPDX-License-Identifier: GPL-2.0-only
//! Whom a look is at.

/// Tasks to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// All cgroups of the host.
    Host,
    /// A cgroup and what is below it; its path below the root's directory.
    Cgroup(String),
    /// A process, and the cgroup it is in.
    Process(u32, String),
}
