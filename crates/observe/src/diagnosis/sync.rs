// SPDX-License-Identifier: GPL-2.0-only
//! Tasks that wait for their own writes or a filesystem's: fsync, and umount, syncfs, mount, freeze.
//!
//! An fsync stands in the disk's queue behind what others have in flight: a window on those shortens
//! it (`queue`), and so does their `io.max` being lifted where that is what holds the journal up. umount
//! and syncfs wait for all dirty pages of the filesystem, whose ever they are: a ceiling bounds those.
//! Example: /flood holds 60 MiB and the disk writes 8 MiB/s, so a container's umount takes 8 s and
//! more; with 8 MiB it is about one.

use super::group::Group;
use super::holders::by_cgroup;
use super::io_max::{self, HeldBack};
use super::remedy::{self, Remedy};
use super::verdict::{Cause, Verdict};
use super::{owed, queue};
use crate::model::cgroup::shown;
use crate::model::observation::Observation;
use crate::model::text::size;
use crate::model::wait::Wait;

/// The wait of an umount that is to be reached, in seconds of what the disk writes.
const SECONDS: u64 = 1;
const MIB: u64 = 1 << 20;

/// Fills in a verdict for fsync and the like.
pub fn judge(seen: &Observation, group: &Group, verdict: &mut Verdict) {
    verdict.cause = Cause::FsyncOrJournal;
    let device = verdict.device.clone();
    if let Some(held) = io_max::of_others(seen, &group.path, device.as_deref()) {
        verdict.cause = Cause::IoMax;
        verdict.culprit = Some(shown(&held.path));
        verdict.because = format!(
            "its tasks wait for fsync or the journal, which waits for pages that {} may write at {} only ({})",
            shown(&held.path),
            held.limit,
            held.line
        );
        verdict.limit = vec![held.sentence()];
        verdict.next = "io.max holds pages back that the journal's commit needs, whose ever they are; a limit on what is dirtied holds back none".into();
        verdict.remedies = instead_of(seen, &held);
        return;
    }
    let flushes = group.looked(Wait::Flush);
    if flushes > group.looked(Wait::Sync) + group.looked(Wait::Journal) {
        return flush(seen, group, verdict);
    }
    verdict.culprit = owed::most_of_syncs(seen, &group.path);
    verdict.because = match &verdict.culprit {
        Some(culprit) => {
            format!("its tasks wait for fsync or the journal, behind what {culprit} writes")
        }
        None => "its tasks wait for fsync or the journal".into(),
    };
    verdict.next = "a commit of the journal waits for all data ordered before it; no dirty limit shortens a wait under way".into();
    verdict.remedies = queue::remedies(seen, verdict.culprit.as_deref(), device.as_deref());
    if let (Some(first), false) = (verdict.remedies.first_mut(), group.path.is_empty()) {
        first.effect +=
            "; `[[objective]]` of weir agent keeps an fsync_p99 by such windows by itself";
    }
}

/// Waits for all that a filesystem has dirty.
fn flush(seen: &Observation, group: &Group, verdict: &mut Verdict) {
    let held = by_cgroup(seen, |cgroup| cgroup.dirty + cgroup.writeback);
    let all: u64 = held.iter().map(|holder| holder.bytes).sum();
    let own = shown(&group.path);
    let most = held
        .into_iter()
        .next()
        .filter(|most| most.bytes * 2 > all && most.cgroup != own);
    let writes = || owed::most_of_syncs(seen, &group.path).filter(|culprit| *culprit != own);
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
    let bytes = (rate * SECONDS).div_ceil(MIB).max(1) * MIB;
    let effect = format!(
        "{culprit} has no more than {} dirty, which {} writes in about {SECONDS} s",
        size(bytes),
        seen.device_name(&device.bdi)
    );
    let ceiling = remedy::ceiling(seen, culprit, bytes, effect);
    let high = remedy::part_dirty(seen).filter(|_| culprit != "/" && seen.weir.is_none());
    let high = high.map(|part| ((bytes as f64 / part) as u64).max(16 * MIB));
    let high = high.and_then(|high| remedy::high_of(seen, culprit, high));
    let for_all = Remedy {
        knob: "vm.dirty_bytes".into(),
        value: bytes.to_string(),
        command: format!("sysctl -w vm.dirty_bytes={bytes}"),
        effect: "no cgroup may hold more, so all writers wait for the disk sooner".into(),
    };
    let all = ceiling.into_iter().chain(high).chain([for_all]);
    verdict.remedies = remedy::stock_first(seen, all.collect());
}

/// Without the limit on the disk; with a limit on what is dirtied in its place.
fn instead_of(seen: &Observation, held: &HeldBack) -> Vec<Remedy> {
    let lifted = remedy::io_max(held);
    let bound = held.bytes.filter(|_| remedy::can_have_weir(seen)).map(|bytes| {
        let file = knobs::Knob::DirtyBandwidth.file();
        let path = super::command::cgroup_file(&held.path, file);
        let value = format!("{}K", bytes.div_ceil(1024).max(64));
        let effect = format!(
            "{} dirties no more than {}/s, which bounds what it writes and holds no page back once it is dirty",
            shown(&held.path),
            size(bytes)
        );
        let mut both = remedy::loaded_first(seen, remedy::echo(file, &value, &path, effect));
        if let Some(lifted) = lifted.first() {
            both.command += &format!(" && {}", lifted.command);
        }
        both
    });
    remedy::stock_first(seen, bound.into_iter().chain(lifted).collect())
}
