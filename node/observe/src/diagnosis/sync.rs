// SPDX-License-Identifier: GPL-2.0-only
//! Tasks that wait for their own writes or a filesystem's: fsync, and umount, syncfs, mount, freeze.
//!
//! An fsync stands in the disk's queue behind what others have in flight: a window on those shortens
//! it (`queue`). So it does where a neighbour's `io.max` has its requests come in bursts (0053). umount
//! and syncfs wait for all dirty pages of the filesystem, whose ever they are, and after that for what is
//! under writeback from the front of each file to its end, behind which a flood may go on writing: a
//! limit of what is dirty bounds both. Example: /flood rewrites 500 MiB on a disk of 8 MiB/s and holds
//! 110 MiB: syncfs takes 39 to 61 s; with `vm.dirty_bytes` of 9 MiB 2 to 3 s (0053).

use super::group::Group;
use super::holders::holders_by_cgroup;
use super::io_max::{self, HeldBack};
use super::remedy::{self, Remedy};
use super::verdict::{Cause, Verdict};
use super::{owed, queue};
use crate::model::cgroup::display_path;
use crate::model::observation::Observation;
use crate::model::text::format_size;
use crate::model::wait::Wait;

/// The wait of an umount that is to be reached, in parts of a second of what the disk writes.
const PARTS: u64 = 2;
const MIB: u64 = 1 << 20;

/// Fills in a verdict for fsync and the like.
pub fn judge_sync(seen: &Observation, group: &Group, verdict: &mut Verdict) {
    verdict.cause = Cause::FsyncOrJournal;
    let device = verdict.device.clone();
    if let Some(held) = io_max::find_others_limit(seen, &group.path, device.as_deref()) {
        verdict.cause = Cause::IoMax;
        verdict.culprit = Some(display_path(&held.path));
        verdict.because = format!(
            "its tasks wait for fsync or the journal, behind what {} has written at {}: its {} lets much go at a time",
            display_path(&held.path),
            held.limit,
            held.line
        );
        verdict.limit = vec![held.to_sentence()];
        verdict.next = "io.max holds requests back until all of each is allowed, and lets them go to the disk at once; a limit on what is dirtied holds back none".into();
        verdict.remedies = remedies_instead_of(seen, &held, device.as_deref());
        return;
    }
    let flushes = group.looked_seconds(Wait::Flush);
    if flushes > group.looked_seconds(Wait::Sync) + group.looked_seconds(Wait::Journal) {
        return judge_flush(seen, group, verdict);
    }
    verdict.culprit = owed::largest_sync_culprit(seen, &group.path);
    verdict.because = match &verdict.culprit {
        Some(culprit) => {
            format!("its tasks wait for fsync or the journal, behind what {culprit} writes")
        }
        None => "its tasks wait for fsync or the journal".into(),
    };
    verdict.next = "a commit of the journal waits for all data ordered before it; no dirty limit shortens a wait under way".into();
    verdict.remedies = queue::flood_remedies(seen, verdict.culprit.as_deref(), device.as_deref());
    if let (Some(first), false) = (verdict.remedies.first_mut(), group.path.is_empty()) {
        first.effect +=
            "; `[[objective]]` of weir agent keeps an fsync_p99 by such windows by itself";
    }
}

/// Waits for all that a filesystem has dirty.
fn judge_flush(seen: &Observation, group: &Group, verdict: &mut Verdict) {
    let held = holders_by_cgroup(seen, |cgroup| cgroup.dirty + cgroup.writeback);
    let all: u64 = held.iter().map(|holder| holder.bytes).sum();
    let own = display_path(&group.path);
    let most = held
        .into_iter()
        .next()
        .filter(|most| most.bytes * 2 > all && most.cgroup != own);
    let writes = || owed::largest_sync_culprit(seen, &group.path).filter(|culprit| *culprit != own);
    verdict.culprit = most.map(|most| most.cgroup).or_else(writes);
    let what = "its tasks wait until a filesystem's dirty pages are written (umount, syncfs, mount, freeze)";
    verdict.because = match &verdict.culprit {
        Some(culprit) => format!("{what}, most of them {culprit}'s"),
        None => what.into(),
    };
    verdict.next = "all that is dirty on that filesystem is written first, and what is dirtied meanwhile delays it".into();
    let device = seen
        .devices
        .iter()
        .find(|device| Some(&device.bdi) == verdict.device.as_ref());
    let (Some(culprit), Some(device)) = (verdict.culprit.as_deref(), device) else {
        return;
    };
    let rate = (device.written as f64 / seen.seconds.max(1.0)) as u64;
    let bytes = (rate / PARTS).div_ceil(MIB).max(1) * MIB;
    let effect = format!(
        "{culprit} has no more than {} dirty, which {} writes in about 1/{PARTS} s",
        format_size(bytes),
        seen.device_name(&device.bdi)
    );
    let ceiling = remedy::ceiling_remedy(seen, culprit, bytes, effect);
    let high = remedy::part_dirty(seen).filter(|_| culprit != "/" && seen.weir.is_none());
    let high = high.map(|part| ((bytes as f64 / part) as u64).max(16 * MIB));
    let high = high.and_then(|high| remedy::high_remedy(seen, culprit, high));
    let for_all = Remedy {
        knob: "vm.dirty_bytes".into(),
        value: bytes.to_string(),
        command: format!("sysctl -w vm.dirty_bytes={bytes}"),
        effect: "no cgroup may hold more, so all writers wait for the disk sooner".into(),
    };
    // memory.high leaves more dirty, as the kernel's counts of a cgroup are two seconds old.
    let all = ceiling.into_iter().chain([for_all]).chain(high);
    verdict.remedies = remedy::put_stock_first(seen, all.collect());
}

/// Remedies with a limit on what is dirtied in the place of the one on the disk; or with the disk's
/// queue narrowed, so that others pass what the limit lets go at a time. Lifted alone it would make
/// a flood of the cgroup, which its neighbours wait for all the time.
fn remedies_instead_of(seen: &Observation, held: &HeldBack, bdi: Option<&str>) -> Vec<Remedy> {
    let path = display_path(&held.path);
    let lifted = remedy::lift_io_max(held);
    let bound = held.bytes.filter(|_| remedy::can_have_weir(seen)).map(|bytes| {
        let file = knobs::Knob::DirtyBandwidth.file_name();
        let value = format!("{}K", bytes.div_ceil(1024).max(64));
        let effect = format!(
            "{path} dirties no more than {}/s, which bounds what it writes and holds no page back once it is dirty",
            format_size(bytes)
        );
        let set = remedy::echo_command(file, &value, &super::command::cgroup_file(&held.path, file), effect);
        let mut both = remedy::load_first(seen, set);
        if let Some(lifted) = lifted.first() {
            both.command += &format!(" && {}", lifted.command);
        }
        both
    });
    let queues = queue::flood_remedies(seen, Some(&path), bdi).into_iter();
    let queues = queues.filter(|remedy| remedy.knob == "nr_requests");
    remedy::put_stock_first(seen, bound.into_iter().chain(queues).collect())
}
