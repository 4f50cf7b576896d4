// SPDX-License-Identifier: GPL-2.0-only
//! Time that a group of tasks lost.

use serde::Serialize;

/// Time that tasks lost.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Lost {
    /// Added up over tasks.
    pub seconds: f64,
    /// Tasks that lost any.
    pub tasks: usize,
    /// Part of the wall time of these tasks.
    pub share: f64,
    /// Part of the time looked at in which at least one of them lost it; 0 where that is estimated.
    pub some: f64,
    /// Times; nothing where it is estimated from looks.
    pub count: Option<usize>,
    /// Median length in milliseconds.
    pub p50_ms: f64,
    /// 99th percentile in milliseconds.
    pub p99_ms: f64,
    /// Longest loss in milliseconds.
    pub max_ms: f64,
    /// `slept`: measured from beginning to end; `announced`: what the throttle said it would be;
    /// `counted`: by weir's module; `looks`: estimated from looking now and then.
    pub measured: &'static str,
}

/// A task that lost time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TaskLost {
    /// Id of the task.
    pub task: u32,
    /// The task's name; `?` if that is not known.
    pub name: String,
    /// Seconds that it lost.
    pub seconds: f64,
}
