// SPDX-License-Identifier: GPL-2.0-only
//! The host's dirty pages and limits, and the devices they go to.

use crate::family::Family;
use knobs::PAGE;
use observe::read::host;
use std::path::Path;
use std::sync::Arc;

/// Devices that are shown at most.
const DEVICES: usize = 64;

pub fn host_families(root: &Path) -> Vec<Family> {
    let limits = host::read_limits(root);
    let gauge = |name, help, pages: u64| Family::gauge(name, help).in_bytes().with(pages * PAGE);
    let mut families = vec![
        gauge("weir_host_dirty", "Dirty pages.", limits.dirty),
        gauge(
            "weir_host_writeback",
            "Pages being written to devices.",
            limits.writeback,
        ),
        gauge(
            "weir_host_dirty_limit",
            "The host's limit on dirty pages, as the kernel computes it now.",
            limits.thresh,
        ),
        gauge(
            "weir_host_dirty_background_limit",
            "The level above which flushers write in the background.",
            limits.background,
        ),
    ];
    // Those that nothing is mounted from are no concern of writeback's.
    let mut devices = host::read_devices(root);
    devices.retain(|device| device.mounted_at.is_some());
    devices.sort_by(|a, b| a.bdi.cmp(&b.bdi));
    let left_out = devices.len().saturating_sub(DEVICES);
    devices.truncate(DEVICES);
    let mut written = Family::counter("weir_device_written", "Written to the device.").in_bytes();
    let mut busy =
        Family::counter("weir_device_busy", "Time in which the device had work.").in_seconds();
    for device in &devices {
        let bdi: Arc<str> = device.bdi.as_str().into();
        let mounted: Arc<str> = device.mounted_at.as_deref().unwrap_or_default().into();
        let labels = [("device", &bdi), ("mountpoint", &mounted)];
        written.add(&labels, device.written);
        busy.add(&labels, device.busy_ms as f64 / 1e3);
    }
    families.extend([written, busy]);
    families.push(
        Family::gauge(
            "weir_devices_left_out",
            "Mounted devices beyond the first 64.",
        )
        .with(left_out as u64),
    );
    families
}
