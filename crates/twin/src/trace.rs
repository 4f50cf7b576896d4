// SPDX-License-Identifier: GPL-2.0-only
//! Tracepoints of the modelled kernel.

use crate::sim::clock::Ns;

/// A pass that did not run freely (`balance_dirty_pages`): pages, pages a second, milliseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BalanceDirtyPages {
    /// Time of the pass.
    pub at: Ns,
    /// Number of the process.
    pub process: u32,
    /// Of its writeback, 0 for the root.
    pub cgroup: usize,
    /// Of its writeback.
    pub device: usize,
    /// The cgroup's domain decided, not the host's.
    pub by_cgroup: bool,
    /// The host's smoothed limit.
    pub limit: u64,
    /// Half way between that and the freerun level of the domain that decided.
    pub setpoint: u64,
    /// What that domain holds.
    pub dirty: u64,
    /// The device's part of the setpoint.
    pub bdi_setpoint: u64,
    /// What it holds.
    pub bdi_dirty: u64,
    /// The base rate.
    pub dirty_ratelimit: u64,
    /// What the process was held to.
    pub task_ratelimit: u64,
    /// Since its last pass.
    pub dirtied: u64,
    /// To be slept; not if negative or zero.
    pub pause_ms: i64,
    /// How long dirtying that much is to take.
    pub period_ms: u64,
}

/// What has been traced and not been read.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// In their order.
    pub passes: Vec<BalanceDirtyPages>,
    /// When which process woke in the throttle.
    pub wakes: Vec<(Ns, u32)>,
}
