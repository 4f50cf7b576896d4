// SPDX-License-Identifier: GPL-2.0-only
//! Effort of reclaim: how much at a time, and how often in vain.

/// Pages that a task takes for itself at a time.
pub const SWAP_CLUSTER_MAX: u64 = 32;

/// Looks in vain before kswapd gives up, or a task has another killed.
pub const MAX_RECLAIM_RETRIES: u32 = 16;
