// SPDX-License-Identifier: GPL-2.0-only
//! Knobs that cannot act on what a job writes, because of the filesystem it writes to: nothing is wrong
//! with such a scenario, but its author should know.

use crate::executor::Refusal;
use crate::model::{Filesystem, Job, Scenario};
use knobs::Knob;

/// Knobs that go by who owns a page's writeback.
const BY_WRITEBACK: [Knob; 5] = [
    Knob::DirtyMin,
    Knob::DirtyBytes,
    Knob::DirtyRatio,
    Knob::DirtyWeight,
    Knob::WritebackBytes,
];

impl Filesystem {
    /// `true` if pages are written back for the cgroup that owns them. If not, all writeback of a
    /// disk is the root's, and so are the limits that writers meet.
    pub fn has_cgroup_writeback(self) -> bool {
        match self {
            Filesystem::Ext4 | Filesystem::Xfs | Filesystem::Btrfs => true,
            Filesystem::Vfat | Filesystem::Nfs | Filesystem::Fuse | Filesystem::Swap => false,
        }
    }

    /// `true` if a disk of ours is formatted with it, not a server's or a daemon's.
    pub fn is_local(self) -> bool {
        !matches!(self, Filesystem::Nfs | Filesystem::Fuse)
    }

    /// Its name in scenario files.
    pub fn name(self) -> &'static str {
        match self {
            Filesystem::Ext4 => "ext4",
            Filesystem::Xfs => "xfs",
            Filesystem::Btrfs => "btrfs",
            Filesystem::Vfat => "vfat",
            Filesystem::Nfs => "nfs",
            Filesystem::Fuse => "fuse",
            Filesystem::Swap => "swap",
        }
    }
}

/// Keys of knobs that do nothing for a job, and why.
pub fn keys_without_effect(scenario: &Scenario) -> Vec<Refusal> {
    let mut notes = Vec::new();
    for key in &scenario.keys {
        let (path, file) = match key.path.as_slice() {
            [table, path, file] if table == "cgroup" => (path, file),
            [table, set, path, file] if table == "phase" && set == "set" => (path, file),
            _ => continue,
        };
        let knob = Knob::by_file(file).filter(|knob| BY_WRITEBACK.contains(knob));
        if knob.is_none() {
            continue;
        }
        notes.extend(scenario.jobs.iter().filter_map(|job| {
            let filesystem = filesystem_without_cgroup_writeback(scenario, job, path)?;
            let what = format!(
                "does nothing for what job `{}` writes: {} has no cgroup writeback; {} acts there",
                job.name,
                filesystem.name(),
                Knob::DirtyBandwidth.file_name()
            );
            Some(Refusal::new(&*key.text, what))
        }));
    }
    notes
}

/// The filesystem without cgroup writeback that a job at or below `path` writes to.
fn filesystem_without_cgroup_writeback(
    scenario: &Scenario,
    job: &Job,
    path: &str,
) -> Option<Filesystem> {
    let rw = job.fio_pattern()?;
    let writes = rw.contains("write") || rw.contains("rw");
    let disk = scenario.disks.iter().find(|disk| disk.name == job.disk)?;
    let filesystem = Some(disk.filesystem).filter(|of| !of.has_cgroup_writeback());
    filesystem.filter(|_| writes && job.is_in_subtree(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knobs_by_writeback_do_nothing_without_cgroup_writeback() {
        for filesystem in ["vfat", "nfs", "fuse"] {
            knobs_by_writeback_do_nothing_on(filesystem);
        }
    }

    fn knobs_by_writeback_do_nothing_on(filesystem: &str) {
        let text = r#"
            title = "t"
            [host]
            memory = "1G"
            cpus = 1
            [[disk]]
            name = "stick"
            filesystem = "vfat"
            [[disk]]
            name = "d"
            filesystem = "ext4"
            [cgroup.pod]
            "memory.dirty_bytes" = "8M"
            "memory.dirty_bandwidth" = "2M"
            [cgroup."pod/inner"]
            [cgroup.other]
            "memory.dirty_min" = "8M"
            [[job]]
            name = "copies"
            cgroup = "pod/inner"
            disk = "stick"
            fio = { rw = "write", size = "1M" }
            [[job]]
            name = "writes"
            cgroup = "other"
            disk = "d"
            fio = { rw = "write", size = "1M" }
            [[job]]
            name = "reads"
            cgroup = "other"
            disk = "stick"
            fio = { rw = "randread", size = "1M" }
            [[phase]]
            name = "p"
            jobs = ["copies", "writes", "reads"]
            duration = "1s"
            set = { "pod" = { "memory.writeback_bytes" = "1M" } }
        "#;
        let text = text.replace("vfat", filesystem);
        let scenario = crate::parse("t", "t.toml", &text).expect("a scenario");
        let notes: Vec<(String, bool)> = keys_without_effect(&scenario)
            .into_iter()
            .map(|note| {
                (
                    note.key,
                    note.what
                        .contains(&format!("job `copies` writes: {filesystem} has no")),
                )
            })
            .collect();
        assert_eq!(
            notes,
            [
                ("cgroup.pod.\"memory.dirty_bytes\"".to_owned(), true),
                (
                    "phase[0].set.pod.\"memory.writeback_bytes\"".to_owned(),
                    true
                )
            ]
        );
    }
}
