// SPDX-License-Identifier: GPL-2.0-only
//! The machine of guests that count instructions, and of a twin that is held against them.

use scenario::model::Scenario;

/// Gives the scenario that machine: one CPU that takes a nanosecond for an instruction, whatever machine emulates it.
pub fn machine(scenario: &mut Scenario) {
    scenario.host.cpus = 1;
    let twin = &mut scenario.twin;
    twin.call_ns = Some(700);
    twin.page_ns = Some(6_400);
    twin.wake_ns = Some(3_700);
    twin.look_ns = Some(400_000);
    twin.start_ns = Some(280_000_000);
    twin.flusher_bandwidth = Some(1_860_000_000);
}
