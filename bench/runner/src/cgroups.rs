// SPDX-License-Identifier: GPL-2.0-only
//! A scenario's cgroups: made, given their controllers, their files written.

use crate::site::Site;
use crate::system::{CGROUP_ROOT, enable_controllers, needed_controllers};
use anyhow::{Context, Result};
use scenario::model::{Cgroup, Disk};
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Makes every cgroup and those above it. Controllers are enabled only where a child needs them: a
/// cgroup that hands controllers down may not hold processes itself, and jobs run in the leaves.
pub fn create_cgroups(site: &Site, cgroups: &BTreeMap<String, Cgroup>) -> Result<()> {
    let wanted = needed_controllers(cgroups);
    for path in cgroups.keys() {
        let mut above = site.cgroups.clone();
        let parts: Vec<&str> = path.split('/').collect();
        for (depth, part) in parts.iter().enumerate() {
            if depth > 0 {
                enable_controllers(&above, &wanted)?;
            }
            above.push(part);
            if !above.is_dir() {
                fs::create_dir(&above)
                    .with_context(|| format!("making the cgroup {}", above.display()))?;
            }
        }
    }
    for (path, cgroup) in cgroups {
        for (name, value) in cgroup.files.iter().filter(|(name, _)| *name != IO_MAX) {
            write_file(&site.cgroup_directory(path).join(name), value)?;
        }
    }
    Ok(())
}

/// Its disks are named; their numbers are known here.
const IO_MAX: &str = "io.max";

/// Bounds and divides disks, which is not wanted yet while files are laid out.
pub fn configure_iocost(
    site: &Site,
    disks: &[Disk],
    cgroups: &BTreeMap<String, Cgroup>,
) -> Result<()> {
    for disk in disks.iter().filter(|disk| disk.io_cost) {
        let number = &site.find_disk(&disk.name)?.number;
        let bytes = disk.write_bandwidth.unwrap_or(u64::MAX);
        // A request costs its bytes, nothing else; and costs are never adapted to latencies: the
        // disk does what it is said to.
        // iocost charges by 4 KiB, whatever a page is.
        let pages = bytes.div_ceil(4096);
        let model = format!(
            "{number} ctrl=user model=linear rbps={bytes} rseqiops={pages} rrandiops={pages} wbps={bytes} wseqiops={pages} wrandiops={pages}"
        );
        let root = Path::new(CGROUP_ROOT);
        write_file(&root.join("io.cost.model"), &model)?;
        let quality =
            format!("{number} enable=1 ctrl=user rpct=0.00 wpct=0.00 min=100.00 max=100.00");
        write_file(&root.join("io.cost.qos"), &quality)?;
    }
    for (path, cgroup) in cgroups {
        let Some(text) = cgroup.files.get(IO_MAX) else {
            continue;
        };
        for limits in scenario::io_max::parse_io_max(text).map_err(anyhow::Error::msg)? {
            let line = limits.kernel_line(&site.find_disk(&limits.disk)?.number);
            write_file(&site.cgroup_directory(path).join(IO_MAX), &line)?;
        }
    }
    Ok(())
}

/// Writes files of one cgroup, by name.
pub fn write_files(site: &Site, path: &str, files: &BTreeMap<String, String>) -> Result<()> {
    for (name, value) in files {
        write_file(&site.cgroup_directory(path).join(name), value)?;
    }
    Ok(())
}

fn write_file(file: &Path, value: &str) -> Result<()> {
    fs::write(file, value).with_context(|| format!("writing `{value}` to {}", file.display()))
}

/// Lets a command run in a cgroup, the root if `None`.
pub fn move_to_cgroup_on_start(
    site: &Site,
    command: &mut Command,
    path: Option<&str>,
) -> Result<()> {
    let cgroup = path.map_or_else(|| CGROUP_ROOT.into(), |path| site.cgroup_directory(path));
    let procs = cgroup.join("cgroup.procs");
    let mut file = OpenOptions::new()
        .write(true)
        .open(&procs)
        .with_context(|| format!("{}", procs.display()))?;
    // SAFETY: one write(2) between fork and exec; "0" is the writing process.
    unsafe { command.pre_exec(move || file.write_all(b"0")) };
    Ok(())
}

/// The value of a key in a flat-keyed file's text (`file_dirty 4096`).
pub fn parse_flat_key(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        line.strip_prefix(key)?
            .strip_prefix(' ')?
            .trim()
            .parse()
            .ok()
    })
}

#[cfg(test)]
mod tests {
    use super::parse_flat_key;

    #[test]
    fn a_key_is_matched_whole() {
        let text = "dirty_min 5\ndirty 4096\nwriteback 0\n";
        assert_eq!(parse_flat_key(text, "dirty"), Some(4096));
        assert_eq!(parse_flat_key(text, "writeback"), Some(0));
        assert_eq!(parse_flat_key(text, "dirt"), None);
    }
}
