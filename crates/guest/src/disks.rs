// SPDX-License-Identifier: GPL-2.0-only
//! The guest's disks: found by the serial the lab gave them, formatted and mounted.

use crate::channel::Channel;
use crate::protocol::{DISK_MODULE_PATH, Plan, PlanDisk};
use crate::system::run;
use anyhow::{Context, Result};
use nix::mount::{MsFlags, mount};
use scenario::model::Filesystem;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Links every disk as `/dev/weir/<name>` and makes and mounts the filesystems asked for.
pub fn prepare(plan: &Plan, channel: &Channel) -> Result<()> {
    std::fs::create_dir_all("/dev/weir").context("making /dev/weir")?;
    if plan.own_disks {
        let sizes: Vec<String> = plan
            .disks
            .iter()
            .map(|disk| disk.size.to_string())
            .collect();
        run(Command::new("insmod")
            .arg(DISK_MODULE_PATH)
            .arg(format!("size={}", sizes.join(","))))?;
    }
    for (index, disk) in plan.disks.iter().enumerate() {
        let mut device = find(index).with_context(|| format!("disk {}", disk.name))?;
        if let Some(bandwidth) = disk.write_bandwidth {
            shape_queue(&device, bandwidth).with_context(|| format!("disk {}", disk.name))?;
        }
        if disk.encrypted {
            device = encrypt(&device, &disk.name)
                .with_context(|| format!("encrypting disk {}", disk.name))?;
        }
        let link = Path::new("/dev/weir").join(&disk.name);
        std::os::unix::fs::symlink(&device, &link)
            .with_context(|| format!("linking {}", link.display()))?;
        if let Some(filesystem) = disk.filesystem {
            channel.stage(format!("mkfs {}", disk.name));
            format_and_mount(&device, filesystem, disk)
                .with_context(|| format!("disk {}", disk.name))?;
        }
    }
    Ok(())
}

/// Gives the guest's own disks the speed they are to have.
pub fn slow_down(plan: &Plan) -> Result<()> {
    let own = plan.disks.iter().enumerate().filter(|_| plan.own_disks);
    for (index, disk) in own {
        let device = find(index).with_context(|| format!("disk {}", disk.name))?;
        let block = Path::new("/sys/block").join(device.file_name().unwrap_or_default());
        for (file, bandwidth) in [
            ("write_bandwidth", disk.write_bandwidth),
            ("read_bandwidth", disk.read_bandwidth),
        ] {
            let file = block.join(file);
            std::fs::write(&file, bandwidth.unwrap_or(0).to_string())
                .with_context(|| format!("{}", file.display()))?;
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

/// Puts dm-crypt on the device and returns what is on top. A write is encrypted where it is submitted
/// (`no_write_workqueue`), which for buffered writes is the flusher; by default another worker would.
fn encrypt(device: &Path, name: &str) -> Result<PathBuf> {
    for module in ["dm_crypt", "xts"] {
        run(Command::new("modprobe").arg(module))?;
    }
    let size = Path::new("/sys/block")
        .join(device.file_name().unwrap_or_default())
        .join("size");
    let sectors = std::fs::read_to_string(&size).with_context(|| format!("{}", size.display()))?;
    // A key for a disk that is thrown away.
    let table = format!(
        "0 {} crypt aes-xts-plain64 {} 0 {} 0 1 no_write_workqueue",
        sectors.trim(),
        "5a".repeat(64),
        device.display()
    );
    run(Command::new("dmsetup")
        .args(["--noudevrules", "--noudevsync", "create", name, "--table"])
        .arg(table))?;
    for entry in std::fs::read_dir("/sys/block").context("/sys/block")? {
        let entry = entry.context("/sys/block")?;
        let mapped = std::fs::read_to_string(entry.path().join("dm/name")).unwrap_or_default();
        if mapped.trim() == name {
            return Ok(Path::new("/dev").join(entry.file_name()));
        }
    }
    anyhow::bail!("dmsetup made no device")
}

/// Gives a slow disk the small queue that slow disks have. With a fast one's, a single merged request
/// takes 256 KB/s five seconds, and a queue of them minutes, all of it in front of the filesystem's
/// journal: writers then stall for half a minute on ext4's commits, not on dirty limits. Here one
/// request holds at most 1/64 of a second's bandwidth and the queue half a second's.
fn shape_queue(device: &Path, bandwidth: u64) -> Result<()> {
    let name = device.file_name().unwrap_or_default();
    let queue = Path::new("/sys/block").join(name).join("queue");
    for (name, value) in [
        ("max_sectors_kb", largest_request_kib(bandwidth)),
        ("nr_requests", REQUESTS),
    ] {
        let file = queue.join(name);
        std::fs::write(&file, value.to_string())
            .with_context(|| format!("writing {value} to {}", file.display()))?;
    }
    Ok(())
}

/// Enough for the kernel's own writeback throttling to keep some for the journal.
const REQUESTS: u64 = 32;

/// At least a page, at most what a virtio disk has by itself.
fn largest_request_kib(bandwidth: u64) -> u64 {
    (bandwidth / 64 / 1024).clamp(4, 1280)
}

/// mkfs with the filesystem's defaults, for a device that is all zeroes.
fn format_and_mount(device: &Path, filesystem: Filesystem, disk: &PlanDisk) -> Result<()> {
    let target = &Path::new("/mnt").join(&disk.name);
    let (program, args, kind): (&str, &[&str], &str) = match filesystem {
        // The image is all zeroes already. Writing them again takes minutes on a slow disk, and doing it
        // lazily would write in the background while phases are measured.
        Filesystem::Ext4 => (
            "mkfs.ext4",
            &["-q", "-F", "-E", "assume_storage_prezeroed=1,nodiscard"],
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
        disk.mount_options.as_deref(),
    )
    .with_context(|| format!("mounting {kind} on {}", target.display()))
}

#[cfg(test)]
mod tests {
    use super::largest_request_kib;

    #[test]
    fn requests_are_small_on_slow_disks() {
        assert_eq!(largest_request_kib(256 << 10), 4);
        assert_eq!(largest_request_kib(20 << 20), 320);
        assert_eq!(largest_request_kib(1 << 10), 4);
        assert_eq!(largest_request_kib(1 << 40), 1280);
    }
}
