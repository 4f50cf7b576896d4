// SPDX-License-Identifier: GPL-2.0-only
//! The guest's disks: found by the serial the lab gave them, formatted and mounted.

use crate::channel::Channel;
use crate::protocol::PlanDisk;
use crate::system::run;
use anyhow::{Context, Result};
use nix::mount::{MsFlags, mount};
use scenario::model::Filesystem;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Links every disk as `/dev/weir/<name>` and makes and mounts the filesystems asked for.
pub fn prepare(disks: &[PlanDisk], channel: &Channel) -> Result<()> {
    std::fs::create_dir_all("/dev/weir").context("making /dev/weir")?;
    for (index, disk) in disks.iter().enumerate() {
        let device = find(index).with_context(|| format!("disk {}", disk.name))?;
        let link = Path::new("/dev/weir").join(&disk.name);
        std::os::unix::fs::symlink(&device, &link)
            .with_context(|| format!("linking {}", link.display()))?;
        if let Some(filesystem) = disk.filesystem {
            channel.stage(format!("mkfs {}", disk.name));
            format_and_mount(&device, filesystem, &Path::new("/mnt").join(&disk.name))
                .with_context(|| format!("disk {}", disk.name))?;
        }
    }
    Ok(())
}

/// The device with the serial `weir-<index>`. Drivers probe in the background, hence the patience.
fn find(index: usize) -> Result<PathBuf> {
    let wanted = format!("weir-{index}");
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        for entry in std::fs::read_dir("/sys/block").context("/sys/block")? {
            let entry = entry.context("/sys/block")?;
            // A device without a serial is not one of the lab's.
            let Ok(serial) = std::fs::read_to_string(entry.path().join("serial")) else {
                continue;
            };
            let device = Path::new("/dev").join(entry.file_name());
            if serial.trim() == wanted && device.exists() {
                return Ok(device);
            }
        }
        if Instant::now() > deadline {
            anyhow::bail!("no block device with the serial {wanted} appeared within 30 s");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// mkfs with the filesystem's defaults, except for what those would do in the background later.
fn format_and_mount(device: &Path, filesystem: Filesystem, target: &Path) -> Result<()> {
    let (program, args, kind): (&str, &[&str], &str) = match filesystem {
        // Without lazy initialisation: it would write to the disk while phases are measured.
        Filesystem::Ext4 => (
            "mkfs.ext4",
            &[
                "-q",
                "-F",
                "-E",
                "lazy_itable_init=0,lazy_journal_init=0,nodiscard",
            ],
            "ext4",
        ),
        Filesystem::Xfs => ("mkfs.xfs", &["-q", "-f", "-K"], "xfs"),
        Filesystem::Btrfs => ("mkfs.btrfs", &["-q", "-f", "-K"], "btrfs"),
        Filesystem::Vfat => ("mkfs.fat", &["-F", "32"], "vfat"),
    };
    run(Command::new(program).args(args).arg(device))?;
    std::fs::create_dir_all(target).with_context(|| format!("making {}", target.display()))?;
    mount(
        Some(device),
        target,
        Some(kind),
        MsFlags::empty(),
        None::<&str>,
    )
    .with_context(|| format!("mounting {kind} on {}", target.display()))
}
