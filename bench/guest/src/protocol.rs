// SPDX-License-Identifier: GPL-2.0-only
//! Messages between lab and guest: a [`GuestConfig`] goes in as `/guest.json` of the initramfs,
//! [`Event`]s come out as JSON lines on the second serial port.

use scenario::model::{Arm, Filesystem, Scenario};
pub use scenario::rundir::{Event, OUT};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Path of the configuration in the guest.
pub const CONFIG_PATH: &str = "/guest.json";
/// Path of the script in the guest, if that is the work.
pub const SCRIPT_PATH: &str = "/script.sh";
/// Path of the module in the guest, present but not loaded.
pub const MODULE_PATH: &str = "/weir.ko";
/// Path in the guest of the module that makes [`GuestConfig::own_disks`].
pub const DISK_MODULE_PATH: &str = "/weir_disk.ko";
/// Path in the guest of the module that makes writes cost CPU time.
pub const SUBMIT_MODULE_PATH: &str = "/weir_submit.ko";
/// Slot of the PCI device whose memory is the work of a guest that was booted before it had any.
/// Behind those of the disks, and below the board's own.
pub const WORK_SLOT: u8 = 0x1e;
/// The port events leave through; the console is `ttyS0`.
pub const CHANNEL_PATH: &str = match cfg!(target_arch = "aarch64") {
    true => "/dev/ttyAMA1",
    false => "/dev/ttyS1",
};

/// Everything a guest has to do in its life.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GuestConfig {
    /// Kernel modules to load first, by name; their files and `modules.dep` are in the initramfs.
    pub modules: Vec<String>,
    /// Block devices, the n-th with the serial `weir-n`.
    pub disks: Vec<GuestDisk>,
    /// The guest makes them, with [`DISK_MODULE_PATH`], of memory that the lab attached; else the
    /// lab attached the disks.
    #[serde(default)]
    pub own_disks: bool,
    /// Work to be done once all is prepared.
    pub work: Work,
}

/// A block device and what to put on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GuestDisk {
    /// The device is linked as `/dev/weir/<name>`.
    pub name: String,
    /// Capacity in bytes.
    pub size: u64,
    /// Made and mounted at `/mnt/<name>`; `None` leaves the device blank.
    pub filesystem: Option<Filesystem>,
    /// Options as after `mount -o`.
    pub mount_options: Option<String>,
    /// Bandwidth that writes are throttled to once all is prepared, bytes per second; shapes the
    /// device's queue.
    pub write_bandwidth: Option<u64>,
    /// The same of reads, which delay no writer.
    pub read_bandwidth: Option<u64>,
    /// Put dm-crypt on top.
    #[serde(default)]
    pub encrypted: bool,
    /// Bandwidth that one CPU can submit to it, bytes per second: takes [`SUBMIT_MODULE_PATH`].
    #[serde(default)]
    pub submit_bandwidth: Option<u64>,
}

/// The two kinds of work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Work {
    /// Run [`SCRIPT_PATH`] with the guest's shell.
    Script {
        /// Arguments of the script.
        args: Vec<String>,
        /// Its environment, besides `PATH` and `HOME`.
        env: BTreeMap<String, String>,
        /// `true` if files that the script leaves in [`OUT`] are sent.
        #[serde(default)]
        out: bool,
    },
    /// Run the phases of a scenario.
    Scenario {
        /// The scenario, as parsed on the host.
        scenario: Box<Scenario>,
        /// With the module and its knobs, or without.
        arm: Arm,
        /// Each phase is to be recorded as `weir record` does.
        #[serde(default)]
        record: bool,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_come_out_as_they_went_in() {
        let config = GuestConfig {
            modules: vec!["virtio_blk".into()],
            disks: vec![GuestDisk {
                name: "a".into(),
                size: 1 << 30,
                filesystem: Some(Filesystem::Xfs),
                mount_options: Some("noatime".into()),
                write_bandwidth: Some(1 << 20),
                read_bandwidth: None,
                encrypted: true,
                submit_bandwidth: Some(10 << 20),
            }],
            own_disks: true,
            work: Work::Script {
                args: vec!["a b".into(), "\"\n".into()],
                env: BTreeMap::from([("X".into(), "é".into())]),
                out: true,
            },
        };
        let text = serde_json::to_string(&config).expect("JSON");
        assert_eq!(
            serde_json::from_str::<GuestConfig>(&text).expect("a config"),
            config
        );
    }
}
