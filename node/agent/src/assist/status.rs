// SPDX-License-Identifier: GPL-2.0-only
//! What there is to tell of assistants in a scrape.

use crate::family::Family;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Threads and their CPU time as of the last step, by device.
#[derive(Clone, Debug, Default)]
pub struct AssistStatus {
    /// Threads that start writeback now.
    pub threads: BTreeMap<String, u64>,
    /// CPU time of all there were.
    pub cpu: BTreeMap<String, Duration>,
}

impl AssistStatus {
    /// The status as metrics.
    pub fn to_families(&self) -> Arc<[Family]> {
        let mut threads = Family::gauge(
            "weir_agent_assist_threads",
            "Threads of the agent that start writeback, as one flusher cannot feed the device.",
        );
        let mut cpu = Family::counter(
            "weir_agent_assist_cpu",
            "CPU time that the agent's threads took to start writeback.",
        )
        .in_seconds();
        for (device, used) in &self.cpu {
            let label: Arc<str> = Arc::from(device.as_str());
            let now = self.threads.get(device).copied().unwrap_or(0);
            threads.add(&[("device", &label)], now);
            cpu.add(&[("device", &label)], used.as_secs_f64());
        }
        Arc::from([threads, cpu])
    }
}
