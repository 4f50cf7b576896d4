// SPDX-License-Identifier: GPL-2.0-only
//! The guest's disks: found by the serial the lab gave them, formatted and mounted.

use crate::protocol::{DISK_MODULE_PATH, GuestConfig, SUBMIT_MODULE_PATH};
use anyhow::{Context, Result};
use runner::disks::{encrypt_device, format_device, map_device, mount_disk, shape_queue};
use runner::system::{CGROUP_ROOT, run};
use runner::{Channel, MountedDisk, Site};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Module parameter: while `Y`, as when disks are prepared, submitting costs no CPU time.
const SUBMIT_IS_FREE: &str = "/sys/module/weir_submit/parameters/free";

/// Links every disk as `/dev/weir/<name>` and makes and mounts the filesystems asked for.
pub fn prepare_disks(config: &GuestConfig, channel: &Channel) -> Result<Site> {
    let mut disks = BTreeMap::new();
    std::fs::create_dir_all("/dev/weir").context("making /dev/weir")?;
    if config.own_disks {
        let sizes: Vec<String> = config
            .disks
            .iter()
            .map(|disk| disk.size.to_string())
            .collect();
        run(Command::new("insmod")
            .arg(DISK_MODULE_PATH)
            .arg(format!("size={}", sizes.join(","))))?;
    }
    for (index, disk) in config.disks.iter().enumerate() {
        let mut device = find_device(index).with_context(|| format!("disk {}", disk.name))?;
        if let Some(bandwidth) = disk.write_bandwidth {
            shape_queue(&device, bandwidth).with_context(|| format!("disk {}", disk.name))?;
        }
        if disk.encrypted {
            device = encrypt_device(&device, &disk.name)
                .with_context(|| format!("encrypting disk {}", disk.name))?;
        }
        if let Some(bandwidth) = disk.submit_bandwidth {
            device = stack_costly_device(&device, &disk.name, bandwidth)
                .with_context(|| format!("disk {}", disk.name))?;
        }
        let link = Path::new("/dev/weir").join(&disk.name);
        std::os::unix::fs::symlink(&device, &link)
            .with_context(|| format!("linking {}", link.display()))?;
        if let Some(filesystem) = disk.filesystem {
            channel.send_stage(format!("mkfs {}", disk.name));
            let directory = Path::new("/mnt").join(&disk.name);
            format_device(&device, filesystem)
                .and_then(|()| {
                    mount_disk(
                        &device,
                        &directory,
                        filesystem,
                        disk.mount_options.as_deref(),
                    )
                })
                .with_context(|| format!("disk {}", disk.name))?;
            disks.insert(disk.name.clone(), MountedDisk::new(&directory, &device)?);
        }
    }
    Ok(Site {
        cgroups: CGROUP_ROOT.into(),
        disks,
        scratch: "/tmp".into(),
    })
}

/// Puts on a device what takes CPU time for each write; returns what is on top.
fn stack_costly_device(device: &Path, name: &str, bandwidth: u64) -> Result<PathBuf> {
    run(Command::new("modprobe").arg("dm_mod"))?;
    // Each disk that costs brings its module; it is there once.
    if !Path::new("/sys/module/weir_submit").exists() {
        run(Command::new("insmod").arg(SUBMIT_MODULE_PATH).arg("free=Y"))?;
    }
    let target = format!("weir_submit {} {bandwidth}", device.display());
    map_device(device, &format!("{name}-submit"), &target)
}

/// Gives the guest's own disks the speed they are to have.
pub fn set_disk_bandwidths(config: &GuestConfig) -> Result<()> {
    if config
        .disks
        .iter()
        .any(|disk| disk.submit_bandwidth.is_some())
    {
        std::fs::write(SUBMIT_IS_FREE, "N").context(SUBMIT_IS_FREE)?;
    }
    let own = config.disks.iter().enumerate().filter(|_| config.own_disks);
    for (index, disk) in own {
        let device = find_device(index).with_context(|| format!("disk {}", disk.name))?;
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
fn find_device(index: usize) -> Result<PathBuf> {
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
