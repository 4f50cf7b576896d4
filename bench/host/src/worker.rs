// SPDX-License-Identifier: GPL-2.0-only
//! The process that does what the scenario says. It puts nothing back: that is the keeper's part,
//! which has to be able to do it whenever this process ends.

use crate::disk::Made;
use crate::ledger::{self, LedgerEntry};
use crate::{CGROUP, RUN, RunConfig, has_module, modules, mounts};
use anyhow::{Context, Result, anyhow, bail};
use runner::system::{self, CGROUP_ROOT};
use runner::{Channel, Machine, MountedDisk, Site, disks};
use scenario::model::{Arm, Scenario};
use scenario::rundir::Event;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// Runs one arm of the scenario, and says how that went.
pub fn run_worker(config: &RunConfig, channel: &Channel) {
    channel.send(&Event::Boot {
        release: system::kernel_release(),
    });
    channel.start_heartbeat();
    if let Err(error) = run(config, channel) {
        channel.send(&Event::Problem {
            text: format!("{error:#}"),
            failed: false,
        });
    }
}

fn run(config: &RunConfig, channel: &Channel) -> Result<()> {
    let scenario = &config.scenario;
    remember_settings(scenario)?;
    enable_controllers(scenario)?;
    let scratch = Path::new(RUN).join("tmp");
    fs::create_dir(&scratch).with_context(|| format!("making {}", scratch.display()))?;
    let mut made = Vec::new();
    let mut site = Site {
        cgroups: CGROUP.into(),
        disks: BTreeMap::new(),
        scratch,
    };
    for disk in &scenario.disks {
        let place = match config.disks.get(&disk.name) {
            Some(directory) => use_given_directory(directory),
            None => {
                channel.send_stage(format!("mkfs {}", disk.name));
                let new = Made::new(disk.size_bytes, disk.write_bandwidth, disk.read_bandwidth);
                new.and_then(|new| {
                    let place = mount_disk(disk, &new.device);
                    made.push(new);
                    place
                })
            }
        };
        let place = place.with_context(|| format!("disk {}", disk.name))?;
        if disk.io_cost {
            ledger::add(&LedgerEntry::Release {
                file: Path::new(CGROUP_ROOT).join("io.cost.qos"),
                value: format!("{} enable=0 ctrl=auto", place.number),
            })?;
        }
        site.disks.insert(disk.name.clone(), place);
    }
    let machine = Here {
        config,
        channel,
        made: RefCell::new(made),
    };
    runner::run(
        scenario,
        config.arm,
        config.record,
        &site,
        channel,
        &machine,
    )
}

/// Writes down what will be changed of the whole machine: sysctls, and parameters of a module that
/// is loaded.
fn remember_settings(scenario: &Scenario) -> Result<()> {
    // The phases' ends lift the dirty limits, so they are remembered in any case. The kernel shows
    // 0 for that one of each pair which is not in effect.
    for kind in ["dirty", "dirty_background"] {
        let file = |unit| PathBuf::from(format!("/proc/sys/vm/{kind}_{unit}"));
        let bytes = fs::read_to_string(file("bytes")).unwrap_or_default();
        let unit = if bytes.trim() == "0" {
            "ratio"
        } else {
            "bytes"
        };
        ledger::remember_value(&file(unit))?;
    }
    for name in scenario.host.sysctl.keys() {
        if !LIMITS.contains(&name.as_str()) {
            ledger::remember_value(&sysctl_file(name))?;
        }
    }
    for name in scenario.host.weir.keys().filter(|_| has_module()) {
        ledger::remember_value(&Path::new("/sys/module/weir/parameters").join(name))?;
    }
    Ok(())
}

/// The sysctls that come in pairs.
pub(crate) const LIMITS: [&str; 4] = [
    "vm.dirty_bytes",
    "vm.dirty_ratio",
    "vm.dirty_background_bytes",
    "vm.dirty_background_ratio",
];

/// The file of a sysctl.
pub(crate) fn sysctl_file(name: &str) -> PathBuf {
    Path::new("/proc/sys").join(name.replace('.', "/"))
}

/// Controllers that the root does not give its children yet, of those that a scenario needs.
pub(crate) fn missing_controllers(scenario: &Scenario) -> BTreeSet<String> {
    let enabled = fs::read_to_string(Path::new(CGROUP_ROOT).join("cgroup.subtree_control"));
    let enabled = enabled.unwrap_or_default();
    let mut wanted = system::needed_controllers(&scenario.cgroups);
    wanted.retain(|name| !enabled.split_whitespace().any(|other| other == name));
    wanted
}

/// Makes the run's cgroup, and lets its children use the controllers.
fn enable_controllers(scenario: &Scenario) -> Result<()> {
    let root = Path::new(CGROUP_ROOT);
    for controller in missing_controllers(scenario) {
        ledger::add(&LedgerEntry::Write {
            file: root.join("cgroup.subtree_control"),
            value: format!("-{controller}"),
        })?;
    }
    let wanted = system::needed_controllers(&scenario.cgroups);
    system::enable_controllers(root, &wanted)?;
    fs::create_dir(CGROUP).with_context(|| format!("making the cgroup {CGROUP}"))?;
    system::enable_controllers(Path::new(CGROUP), &wanted)
}

/// Puts what the scenario says on a block device, and mounts it.
fn mount_disk(disk: &scenario::model::Disk, device: &Path) -> Result<MountedDisk> {
    let kind = disks::kernel_name(disk.filesystem);
    if !has_filesystem(kind) {
        modules::load_with_dependencies(kind)?;
    }
    let mut device = device.to_owned();
    if disk.encrypted {
        for module in disks::ENCRYPTION {
            modules::load_with_dependencies(module)?;
        }
        device = disks::encrypt_device(&device, &format!("weir-run-{}", disk.name))?;
    }
    disks::format_device(&device, disk.filesystem)?;
    let directory = Path::new(RUN).join("mnt").join(&disk.name);
    disks::mount_disk(
        &device,
        &directory,
        disk.filesystem,
        disk.mount_options.as_deref(),
    )?;
    MountedDisk::new(&directory, &device)
}

/// Can the kernel mount such a filesystem without loading a module?
pub(crate) fn has_filesystem(kind: &str) -> bool {
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    known.split_whitespace().any(|word| word == kind)
}

/// A directory of the run's own in one that was given.
fn use_given_directory(directory: &Path) -> Result<MountedDisk> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let name = format!("weir-run-{}-{}", std::process::id(), now.as_nanos());
    let own = directory.join(name);
    // The name is new, so it is the run's if it is there.
    ledger::add(&LedgerEntry::Remove {
        directory: own.clone(),
    })?;
    fs::create_dir(&own).with_context(|| format!("making {}", own.display()))?;
    let number = device_number(directory).context("it is on no block device")?;
    Ok(MountedDisk {
        directory: own,
        number,
    })
}

/// `MAJOR:MINOR` of the whole disk that a directory is on.
pub(crate) fn device_number(directory: &Path) -> Option<String> {
    let mount = mounts::mount_of(directory)?;
    let device = Path::new("/sys/dev/block").join(&mount.number);
    let device = match device.exists() {
        true => device,
        // btrfs has a number of its own.
        false => {
            let number = MountedDisk::new(directory, &mount.source).ok()?.number;
            Path::new("/sys/dev/block").join(number)
        }
    };
    let whole = match device.join("partition").exists() {
        true => fs::canonicalize(&device).ok()?.parent()?.to_owned(),
        false => device,
    };
    let number = fs::read_to_string(whole.join("dev")).ok()?;
    Some(number.trim().to_owned())
}

/// The acts that only this machine can do for a scenario.
struct Here<'a> {
    config: &'a RunConfig,
    channel: &'a Channel,
    made: RefCell<Vec<Made>>,
}

impl Machine for Here<'_> {
    fn load_module(&self) -> Result<()> {
        if self.config.arm == Arm::Weir && has_module() {
            return Ok(());
        }
        let Some(module) = &self.config.module else {
            bail!("weir is not loaded any more, and no module was given to load");
        };
        self.channel.send_stage("loading weir.ko");
        ledger::add(&LedgerEntry::Unload {
            module: "weir".into(),
        })?;
        // In its own words, with those of the kernel's log.
        let output = Command::new("/proc/self/exe")
            .args(["load", "--module"])
            .arg(module)
            .output()
            .context("cannot start weir load")?;
        match output.status.success() {
            true => Ok(()),
            false => Err(anyhow!(
                "{}",
                String::from_utf8_lossy(&output.stderr).trim()
            )),
        }
    }

    fn throttle_disks(&self) -> Result<()> {
        self.made
            .borrow_mut()
            .iter_mut()
            .try_for_each(Made::start_throttling)
    }
}
