// SPDX-License-Identifier: GPL-2.0-only
//! What stands behind others' writes in a disk's queue: fsync, reads, umount.
//!
//! What is in flight is what they wait for, not what is dirty: a flood that may have 128 KiB in
//! flight on a disk of 16 MB/s, which it writes in 8 ms, has an fsync wait for 18 to 28 ms, and
//! still holds 60 MiB dirty (experiment 0046). A limit of dirty pages would have to be as small to
//! do the same. So what is named is twice the wait that is to be reached, in what the disk writes:
//! weir's window for one cgroup, and the disk's own queue, which bounds it for all.
//!
//! Example: 16.7 MB/s and 20 ms make 160 KiB, and 32 requests of 256 KiB become 5 of 32.

use super::command::cgroup_file;
use super::drain;
use super::holders::holders_by_cgroup;
use super::remedy::{Remedy, can_have_weir, echo_command, load_first, put_stock_first};
use crate::model::host::{Device, QueueBound};
use crate::model::observation::Observation;
use crate::model::text::format_size;
use knobs::Knob;
use policy::objective;

/// The wait to be reached, in milliseconds. Disks lose some of their rate for less.
const WAIT_MS: u64 = 20;
/// Bytes in flight below which a disk is not kept at work.
const LEAST: u64 = 64 << 10;
const PAGE_KIB: u64 = 4;
/// Part of the time below which a busy disk is not full of a flood's writes.
const BUSY: f64 = 0.6;

/// The cgroup that a task at `path` stands behind on the device: another, that writes most of what
/// is written there, if the device is busy for most of the time.
pub fn find_flood(seen: &Observation, path: &str, bdi: Option<&str>) -> Option<String> {
    let device = find_device(seen, bdi?)?;
    if drain::busy_part(seen, bdi) < BUSY {
        return None;
    }
    let written = holders_by_cgroup(seen, |cgroup| {
        cgroup.io.get(&device.bdi).map_or(0, |io| io.written)
    });
    let most = written.first()?;
    let is_other = most.cgroup.trim_start_matches('/') != path;
    (is_other && most.bytes * 2 > device.written).then(|| most.cgroup.clone())
}

/// Against waits behind what `flood` writes to the device.
pub fn flood_remedies(seen: &Observation, flood: Option<&str>, bdi: Option<&str>) -> Vec<Remedy> {
    let device = bdi.and_then(|bdi| find_device(seen, bdi));
    let (Some(device), Some(flood)) = (device, flood) else {
        return Vec::new();
    };
    let rate = (device.written as f64 / seen.seconds.max(1.0)) as u64;
    let bytes = (rate * WAIT_MS / 2 / 1_000).max(LEAST);
    // One that is as narrow already is halved, if that leaves enough.
    let now = seen
        .cgroup_at(flood.trim_start_matches('/'))
        .and_then(|cgroup| cgroup.window);
    let bytes = match now {
        Some(now) if now <= bytes => now / 2,
        _ => bytes,
    };
    let window = (can_have_weir(seen) && flood != "/" && bytes >= LEAST).then(|| {
        let window = Knob::WritebackBytes.file_name();
        let file = cgroup_file(flood, window);
        let value = format!("{}K", bytes / (PAGE_KIB << 10) * PAGE_KIB);
        let effect = format!(
            "{flood} has no more than that in flight, and as many dirty pages as now: what waits behind it waits for \
             about {}; less is sooner, until the disk writes less",
            format_wait(bytes, rate)
        );
        load_first(seen, echo_command(window, &value, &file, effect))
    });
    let disks = seen
        .device_stack()
        .device_and_below(&device.bdi)
        .into_iter();
    let disks = disks.filter_map(|bdi| self::find_device(seen, &bdi));
    let queues =
        disks.filter_map(|disk| queue_remedy(disk.disk.as_deref()?, &disk.queue?, bytes, rate));
    put_stock_first(seen, window.into_iter().chain(queues).collect())
}

fn find_device<'a>(seen: &'a Observation, bdi: &str) -> Option<&'a Device> {
    seen.devices.iter().find(|device| device.bdi == bdi)
}

/// The disk's own bound on what is in flight.
fn queue_remedy(disk: &str, own: &QueueBound, bytes: u64, rate: u64) -> Option<Remedy> {
    let now = objective::Queue {
        requests: own.requests,
        kib: own.kib,
    };
    let narrow = now.narrow_to((bytes >> 10) / PAGE_KIB)?;
    let (requests, kib) = (narrow.requests, narrow.kib);
    let directory = format!("/sys/block/{disk}/queue");
    Some(Remedy {
        knob: "nr_requests".into(),
        value: requests.to_string(),
        command: format!(
            "echo {requests} > {directory}/nr_requests && echo {kib} > {directory}/max_sectors_kb"
        ),
        effect: format!(
            "{disk} has {} in flight at most instead of {}, of all cgroups: what waits behind it waits for about {}; \
             double either if the disk writes less than before; until the next boot",
            format_size(in_flight(requests, kib)),
            format_size(in_flight(own.requests, own.kib)),
            format_wait(in_flight(requests, kib), rate)
        ),
    })
}

/// Bytes in flight: so many requests of that size.
fn in_flight(requests: u64, kib: u64) -> u64 {
    requests.saturating_mul(kib).saturating_mul(1 << 10)
}

/// Twice what the disk takes to write this, in words.
fn format_wait(bytes: u64, rate: u64) -> String {
    format!("{:.0} ms", bytes as f64 * 2_000.0 / rate.max(1) as f64)
}
