// SPDX-License-Identifier: GPL-2.0-only
//! What lab and guest say to each other: a [`Plan`] goes in as `/plan.json` of the initramfs,
//! [`Event`]s come out as JSON lines on the second serial port.
//!
//! One event is one line, so that a guest that dies in the middle leaves everything it said before
//! readable, and a transcript can be kept and read by people.

use crate::memory::Report;
use scenario::model::{Arm, Filesystem, Scenario};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where the plan lies in the guest.
pub const PLAN_PATH: &str = "/plan.json";
/// Where the script of a script plan lies in the guest.
pub const SCRIPT_PATH: &str = "/script.sh";
/// Where the module lies in the guest, present but not loaded.
pub const MODULE_PATH: &str = "/weir.ko";
/// Where the module that makes [`Plan::own_disks`] lies in the guest.
pub const DISK_MODULE_PATH: &str = "/weir_disk.ko";
/// The port events leave through; the console is `ttyS0`.
pub const CHANNEL_PATH: &str = "/dev/ttyS1";
/// A guest sends [`Event::Beat`] this often, in milliseconds.
pub const BEAT_MS: u64 = 5_000;

/// Everything a guest has to do in its life.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Kernel modules to load first, by name; their files and `modules.dep` are in the initramfs.
    pub modules: Vec<String>,
    /// Block devices, the n-th with the serial `weir-n`.
    pub disks: Vec<PlanDisk>,
    /// The guest makes them of its own memory, with [`DISK_MODULE_PATH`]; else the lab attached them.
    #[serde(default)]
    pub own_disks: bool,
    /// What to do then.
    pub work: Work,
}

/// A block device and what to put on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanDisk {
    /// The device is linked as `/dev/weir/<name>`.
    pub name: String,
    /// In bytes.
    pub size: u64,
    /// Made and mounted at `/mnt/<name>`; `None` leaves the device blank.
    pub filesystem: Option<Filesystem>,
    /// As after `mount -o`.
    pub mount_options: Option<String>,
    /// What writes are throttled to once all is prepared, bytes per second; shapes the device's queue.
    pub write_bandwidth: Option<u64>,
    /// The same of reads, which are in nobody's way.
    pub read_bandwidth: Option<u64>,
    /// Put dm-crypt on top.
    #[serde(default)]
    pub encrypted: bool,
}

/// The two kinds of plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Work {
    /// Run [`SCRIPT_PATH`] with the guest's shell.
    Script {
        /// Its arguments.
        args: Vec<String>,
        /// Its environment, besides `PATH` and `HOME`.
        env: BTreeMap<String, String>,
    },
    /// Run the phases of a scenario.
    Scenario {
        /// As parsed on the host.
        scenario: Box<Scenario>,
        /// With the module and its knobs, or without.
        arm: Arm,
        /// Each phase is to be recorded as `weir record` does.
        #[serde(default)]
        record: bool,
    },
}

/// One line from the guest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// First of all; says which kernel this really is.
    Boot {
        /// `uname -r`.
        release: String,
    },
    /// Nothing new, still alive.
    Beat,
    /// The disks are formatted and files laid out. The lab now throttles the disks and answers with a line.
    Prepared,
    /// What the guest does now, for people who wait.
    Stage {
        /// E.g. `mkfs slow`.
        text: String,
    },
    /// A line of a script's output.
    Line {
        /// Without its newline.
        text: String,
    },
    /// A script ended.
    Exit {
        /// Its exit status; 128 + n when signal n killed it.
        status: i32,
    },
    /// A phase begins.
    PhaseStart {
        /// Its name.
        phase: String,
    },
    /// A phase has ended.
    PhaseEnd(Box<PhaseResult>),
    /// A part of a phase's recording; they come in their order, before the phase's end.
    Recording {
        /// The phase's name.
        phase: String,
        /// Bytes of the file.
        base64: String,
    },
    /// What the kernel log holds against this run.
    Kernel {
        /// `/proc/sys/kernel/tainted`.
        taint: u64,
        /// The lines that name a warning, an oops, a stall, ...
        lines: Vec<String>,
    },
    /// The plan could not be carried out, or not to its end.
    Problem {
        /// For people.
        text: String,
        /// True if this proves a fault; false if the run merely says nothing (inconclusive).
        failed: bool,
    },
    /// Last of all: everything was said.
    End,
}

/// What was measured in one phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PhaseResult {
    /// The phase's name.
    pub phase: String,
    /// Length in milliseconds, from the first job's start to the last job's end.
    pub elapsed_ms: u64,
    /// By job name: the first element of fio's `jobs` array (`--output-format=json+`).
    pub jobs: BTreeMap<String, serde_json::Value>,
    /// `host` or a cgroup path to its samples.
    pub samples: BTreeMap<String, Series>,
    /// By disk name: bytes written and read over the phase.
    pub disks: BTreeMap<String, DiskBytes>,
    /// Stall time over the phase, microseconds.
    pub pressure: Pressure,
    /// By cgroup path, of I/O only.
    #[serde(default)]
    pub cgroup_pressure: BTreeMap<String, Pressure>,
    /// CPU time of flushers, microseconds.
    #[serde(default)]
    pub flusher_cpu_us: u64,
    /// Counters of `/proc/vmstat` over the phase, by their names there.
    #[serde(default)]
    pub events: BTreeMap<String, u64>,
    /// By cgroup path: `memory.dirty_stat` before and after, where the file exists.
    pub dirty_stat: BTreeMap<String, BeforeAfter>,
    /// By cgroup path: bytes it and its descendants had written to disks, by `io.stat`.
    #[serde(default)]
    pub written: BTreeMap<String, u64>,
    /// By job name: what jobs that read memory say of themselves.
    #[serde(default)]
    pub memory: BTreeMap<String, Report>,
    /// Where memory lay, on a host with tiers.
    #[serde(default)]
    pub tiers: Option<TierSamples>,
}

/// Where memory lay over a phase; times are milliseconds since it began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TierSamples {
    /// Nodes of the fastest tier.
    pub top_nodes: Vec<usize>,
    /// When the last job was started.
    pub last_start_ms: u32,
    /// When the time that counts began.
    pub mark_ms: u32,
    /// When the first job was told to end.
    pub end_ms: u32,
    /// When, and how many pages had been migrated since the host booted.
    pub migrated: Vec<(u32, u64)>,
    /// By cgroup path.
    pub cgroups: BTreeMap<String, TierSeries>,
}

/// Where a cgroup's memory lay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TierSeries {
    /// When.
    pub at_ms: Vec<u32>,
    /// How much was on each node.
    pub node_bytes: Vec<Vec<u64>>,
    /// How much was allowed in the fastest tier, if anything was said.
    pub budget_bytes: Vec<Option<u64>>,
}

/// Dirty + writeback of one subject over a phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// When, in milliseconds since the phase began.
    pub at_ms: Vec<u32>,
    /// How much, in KiB (compact; the kernel counts pages).
    pub dirty_kib: Vec<u64>,
    /// How much of it in writeback, in KiB; of the host only.
    #[serde(default)]
    pub writeback_kib: Vec<u64>,
    /// The limit, in KiB; of the host only.
    #[serde(default)]
    pub limit_kib: Vec<u64>,
    /// Where the flusher starts, in KiB; of the host only.
    #[serde(default)]
    pub background_kib: Vec<u64>,
}

/// Bytes moved by a block device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DiskBytes {
    /// Bytes written.
    pub written: u64,
    /// Bytes read.
    pub read: u64,
}

/// Totals of `/proc/pressure/*` over a phase, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pressure {
    /// `some` of `io`.
    pub io_some_us: u64,
    /// `full` of `io`.
    pub io_full_us: u64,
    /// `some` of `memory`.
    #[serde(default)]
    pub mem_some_us: u64,
    /// `full` of `memory`.
    pub mem_full_us: u64,
}

/// A flat-keyed file read twice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BeforeAfter {
    /// At the beginning of the phase.
    pub before: String,
    /// At its end.
    pub after: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_and_events_come_out_as_they_went_in() {
        let plan = Plan {
            modules: vec!["virtio_blk".into()],
            disks: vec![PlanDisk {
                name: "a".into(),
                size: 1 << 30,
                filesystem: Some(Filesystem::Xfs),
                mount_options: Some("noatime".into()),
                write_bandwidth: Some(1 << 20),
                read_bandwidth: None,
                encrypted: true,
            }],
            own_disks: true,
            work: Work::Script {
                args: vec!["a b".into(), "\"\n".into()],
                env: BTreeMap::from([("X".into(), "é".into())]),
            },
        };
        let text = serde_json::to_string(&plan).expect("JSON");
        assert_eq!(serde_json::from_str::<Plan>(&text).expect("a plan"), plan);

        for event in [
            Event::Beat,
            Event::Line {
                text: "ok 1 - a line\twith \u{1b}[1mnoise".into(),
            },
            Event::Exit { status: 137 },
            Event::Problem {
                text: "why".into(),
                failed: true,
            },
            Event::Kernel {
                taint: u64::MAX,
                lines: vec!["WARNING: x".into()],
            },
            Event::End,
        ] {
            let text = serde_json::to_string(&event).expect("JSON");
            assert!(!text.contains('\n'), "one event is one line: {text}");
            assert_eq!(
                serde_json::from_str::<Event>(&text).expect("an event"),
                event
            );
        }
    }
}
