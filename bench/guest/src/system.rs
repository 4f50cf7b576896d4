// SPDX-License-Identifier: GPL-2.0-only
//! The machine around the work: mounts, drivers, power.

use anyhow::{Context, Result};
use nix::mount::{MsFlags, mount};
use runner::system::{CGROUP_ROOT, enable_controllers, run};
use std::path::Path;
use std::process::Command;

/// Source, target, type, options. tracefs and debugfs may be missing from a kernel; the others not.
const MOUNTS: &[(&str, &str, &str, bool)] = &[
    ("proc", "/proc", "proc", true),
    ("sysfs", "/sys", "sysfs", true),
    ("devtmpfs", "/dev", "devtmpfs", true),
    ("tmpfs", "/run", "tmpfs", true),
    ("tmpfs", "/tmp", "tmpfs", true),
    ("cgroup2", "/sys/fs/cgroup", "cgroup2", true),
    ("debugfs", "/sys/kernel/debug", "debugfs", false),
    ("tracefs", "/sys/kernel/tracing", "tracefs", false),
];

/// Controllers that scenarios and scripts rely on.
const CONTROLLERS: [&str; 4] = ["memory", "io", "cpu", "pids"];

/// Mounts what a host has mounted and gives children of the cgroup root its controllers.
pub fn mount_all() -> Result<()> {
    for (source, target, fstype, required) in MOUNTS {
        let mounted = make_dir(target)
            .and_then(|()| {
                mount(
                    Some(*source),
                    *target,
                    Some(*fstype),
                    MsFlags::empty(),
                    None::<&str>,
                )
                .map_err(anyhow::Error::from)
            })
            .with_context(|| format!("mounting {fstype} on {target}"));
        match mounted {
            Err(error) if *required => return Err(error),
            Err(error) => eprintln!("weir guest: {error:#}"),
            Ok(()) => {}
        }
    }
    // Booting is quiet, because a console that prints every line of it costs seconds; from here on
    // the log is the console's.
    std::fs::write("/proc/sys/kernel/printk", "7").context("raising the console's log level")?;
    let controllers = CONTROLLERS.map(str::to_owned).into();
    enable_controllers(Path::new(CGROUP_ROOT), &controllers)
}

/// Directories under /proc and /sys exist already and cannot be made.
pub fn make_dir(path: &str) -> Result<()> {
    if Path::new(path).is_dir() {
        return Ok(());
    }
    std::fs::create_dir_all(path).with_context(|| format!("making {path}"))
}

/// Loads modules and what they depend on; the initramfs holds a `modules.dep` for them.
pub fn load_modules(names: &[String]) -> Result<()> {
    for name in names {
        run(Command::new("modprobe").arg(name))
            .with_context(|| format!("loading the kernel module {name}"))?;
    }
    Ok(())
}

/// Brings `lo` up, which programs of scripts talk over. A kernel without a network has none.
pub fn bring_up_loopback() {
    if !Path::new("/sys/class/net/lo").exists() {
        return;
    }
    if let Err(error) = run(Command::new("ip").args(["link", "set", "lo", "up"])) {
        eprintln!("weir guest: bringing lo up: {error:#}");
    }
}

/// Ends the machine at once, without writing dirty pages back.
pub fn power_off() -> ! {
    if let Err(error) = std::fs::write("/proc/sysrq-trigger", "o") {
        eprintln!("weir guest: sysrq power off: {error}");
    }
    // The kernel acts on it from a work queue; if it cannot, the host ends the guest.
    loop {
        std::thread::sleep(std::time::Duration::from_secs(1));
    }
}
