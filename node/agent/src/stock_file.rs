// SPDX-License-Identifier: GPL-2.0-only
//! Files of a stock kernel that are set for want of weir's own, each read and written as one word.

use crate::slow_file;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::{fs, path::Path};

/// Something that is set: a file, or its part.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StockSetting {
    /// A cgroup's `memory.high`, in bytes.
    High,
    /// A cgroup's `io.weight`, for all devices that have none of their own.
    Weight,
    /// `wbps` of a cgroup's `io.max` for the device with these numbers.
    Wbps(String),
    /// `vm.dirty_bytes` and `vm.dirty_ratio`, or the `_background_` ones: writing one clears the
    /// other, so they are one setting, `bytes N` or `ratio N`. The part before `_bytes`.
    Level(String),
    /// `max_ratio` or `min_ratio` of a device in percent, to the fourth place from Linux 6.2 on, where
    /// it has `max_ratio_fine` as well: who writes whole percent there loses what `max_bytes` was set
    /// to. Its path below the root.
    Percent(String),
    /// A file of the host that holds a number; its path below the root.
    File(String),
}

impl StockSetting {
    /// The value that it holds by default; a host's files always hold something.
    pub fn default_value(&self) -> Option<&'static str> {
        match self {
            StockSetting::High | StockSetting::Wbps(_) => Some("max"),
            StockSetting::Weight => Some("100"),
            StockSetting::Level(_) | StockSetting::Percent(_) | StockSetting::File(_) => None,
        }
    }

    /// Returns whether it is a limit of a cgroup, in bytes or `max`: a lower one keeps a higher one, too.
    pub fn is_limit(&self) -> bool {
        matches!(self, StockSetting::High | StockSetting::Wbps(_))
    }

    /// The file of a device that takes a part of a percent.
    pub fn fine_file(&self) -> Option<String> {
        match self {
            StockSetting::Percent(name) => Some(format!("{name}_fine")),
            _ => None,
        }
    }

    /// The file of a device that holds a number.
    pub fn device_file(&self) -> Option<String> {
        match self {
            StockSetting::File(name) if name.starts_with("sys/class/bdi/") => Some(name.clone()),
            _ => None,
        }
    }

    /// Reads the value that it holds in a directory: a cgroup's, or the host's root.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(&self, directory: &Path) -> io::Result<String> {
        let text = |name: &str| {
            let text = fs::read_to_string(directory.join(name))?;
            Ok::<_, io::Error>(text.trim().to_owned())
        };
        match self {
            StockSetting::High => text("memory.high"),
            StockSetting::Weight => {
                let all = text("io.weight")?;
                let mut lines = all.lines();
                let default = lines.find_map(|line| line.strip_prefix("default "));
                Ok(default.unwrap_or("100").into())
            }
            StockSetting::Wbps(device) => {
                let all = text("io.max")?;
                let mut lines = all.lines();
                let own = lines.find_map(|line| line.strip_prefix(device)?.strip_prefix(' '));
                let mut words = own.unwrap_or_default().split(' ');
                let wbps = words.find_map(|word| word.strip_prefix("wbps="));
                Ok(wbps.unwrap_or("max").into())
            }
            StockSetting::Level(name) => {
                let bytes = text(&format!("proc/sys/{name}_bytes"))?;
                if bytes != "0" {
                    return Ok(format!("bytes {bytes}"));
                }
                Ok(format!(
                    "ratio {}",
                    text(&format!("proc/sys/{name}_ratio"))?
                ))
            }
            StockSetting::Percent(name) => match text(&format!("{name}_fine")) {
                Ok(fine) => Ok(fine.parse().map(format_parts).unwrap_or(fine)),
                Err(_) => text(name),
            },
            StockSetting::File(name) => match slow_file::disk_of(name) {
                Some(disk) => {
                    let file = directory.join(name);
                    let text = move || fs::read_to_string(file);
                    Ok(slow_file::run_with_timeout(directory, disk, text)?
                        .trim()
                        .to_owned())
                }
                None => text(name),
            },
        }
    }

    /// Makes it hold this.
    ///
    /// # Errors
    /// The kernel's, or the file is not there.
    pub fn write(&self, directory: &Path, value: &str) -> io::Result<()> {
        let (name, text) = match self {
            StockSetting::High => ("memory.high".to_owned(), value.to_owned()),
            StockSetting::Weight => ("io.weight".to_owned(), value.to_owned()),
            StockSetting::Wbps(device) => ("io.max".to_owned(), format!("{device} wbps={value}")),
            StockSetting::Level(name) => {
                let (kind, number) = value.split_once(' ').unwrap_or(("bytes", value));
                (format!("proc/sys/{name}_{kind}"), number.to_owned())
            }
            StockSetting::Percent(name) => match parse_parts(value) {
                Some(parts) if value.contains('.') => (format!("{name}_fine"), parts.to_string()),
                _ => (name.clone(), value.to_owned()),
            },
            StockSetting::File(name) => (name.clone(), value.to_owned()),
        };
        let file = directory.join(&name);
        match slow_file::disk_of(&name) {
            Some(disk) => {
                slow_file::run_with_timeout(directory, disk, move || write_existing(&file, &text))
            }
            None => write_existing(&file, &text),
        }
    }
}

/// Writes to a file that is there.
fn write_existing(file: &Path, text: &str) -> io::Result<()> {
    // Not made: a directory that is no cgroup's would get one. Without waiting, kernels that can
    // leave reclaim to the cgroup's own tasks.
    let mut file = fs::OpenOptions::new()
        .write(true)
        .truncate(true)
        .custom_flags(nix::libc::O_NONBLOCK)
        .open(file)?;
    file.write_all(format!("{text}\n").as_bytes())
}

impl fmt::Display for StockSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StockSetting::High => f.write_str("memory.high"),
            StockSetting::Weight => f.write_str("io.weight"),
            StockSetting::Wbps(device) => write!(f, "io.max {device} wbps"),
            StockSetting::Level(name) => f.write_str(&name.replace('/', ".")),
            StockSetting::Percent(name) | StockSetting::File(name) => write!(f, "/{name}"),
        }
    }
}

/// Parts of a percent that `max_ratio_fine` counts in.
const PARTS: u64 = 10_000;

/// Percent of so many parts; whole percent without a point.
pub fn format_parts(parts: u64) -> String {
    match parts % PARTS {
        0 => (parts / PARTS).to_string(),
        rest => format!("{}.{rest:04}", parts / PARTS),
    }
}

/// The share of a limit, in parts of a percent: one at least, and never more than all of it.
pub fn parts_of_limit(bytes: u64, limit: u64) -> u64 {
    let all = 100 * PARTS;
    let parts = u128::from(bytes) * u128::from(all) / u128::from(limit.max(1));
    u64::try_from(parts).unwrap_or(all).clamp(1, all)
}

/// The parts of a percentage, as [`format_parts`] writes it.
pub fn parse_parts(percent: &str) -> Option<u64> {
    let (whole, rest) = percent.split_once('.').unwrap_or((percent, "0"));
    Some(whole.parse::<u64>().ok()? * PARTS + rest.parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, text: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("made");
        fs::create_dir_all(dir.path().join("proc/sys/vm")).expect("made");
        fs::write(dir.path().join(name), text).expect("written");
        dir
    }

    #[test]
    fn a_part_of_a_file_is_read_by_itself() {
        let dir = file("io.weight", "default 100\n8:0 50\n");
        assert_eq!(StockSetting::Weight.read(dir.path()).expect("read"), "100");
        let text =
            "8:0 rbps=1 wbps=4096 riops=max wiops=max\n8:16 rbps=max wbps=max riops=9 wiops=max\n";
        let dir = file("io.max", text);
        let wbps = |device: &str| {
            StockSetting::Wbps(device.into())
                .read(dir.path())
                .expect("read")
        };
        assert_eq!(
            ["8:0", "8:16", "8:1"].map(wbps),
            ["4096", "max", "max"].map(String::from)
        );
    }

    #[test]
    fn bytes_and_percent_are_one_setting() {
        let dir = file("proc/sys/vm/dirty_ratio", "20\n");
        let bytes = dir.path().join("proc/sys/vm/dirty_bytes");
        fs::write(&bytes, "0\n").expect("written");
        let level = StockSetting::Level("vm/dirty".into());
        assert_eq!(level.read(dir.path()).expect("read"), "ratio 20");
        level.write(dir.path(), "bytes 33554432").expect("written");
        assert_eq!(level.read(dir.path()).expect("read"), "bytes 33554432");
        level.write(dir.path(), "ratio 15").expect("written");
        let ratio = fs::read_to_string(dir.path().join("proc/sys/vm/dirty_ratio"));
        assert_eq!(ratio.expect("read"), "15\n");
    }

    #[test]
    fn bytes_are_a_part_of_the_hosts_limit() {
        let part = |bytes, limit| format_parts(parts_of_limit(bytes, limit));
        assert_eq!(part(512 << 10, 64 << 20), "0.7812");
        assert_eq!(part(16 << 20, 64 << 20), "25");
        assert_eq!(part(1, u64::MAX), "0.0001");
        assert_eq!(part(u64::MAX, 64 << 20), "100");
        assert_eq!(part(1, 0), "100");
    }

    /// As of Linux 6.2, with `max_bytes` 524288 of a host's 64 MiB.
    #[test]
    fn a_part_of_a_percent_comes_back_as_it_was() {
        let ratio = StockSetting::Percent("bdi/max_ratio".into());
        let dir = file("memory.high", "max\n");
        fs::create_dir_all(dir.path().join("bdi")).expect("made");
        let write = |name: &str, text: &str| {
            fs::write(dir.path().join("bdi").join(name), text).expect("written");
        };
        let says =
            |name: &str| fs::read_to_string(dir.path().join("bdi").join(name)).expect("read");
        write("max_ratio", "0\n");
        assert_eq!(ratio.read(dir.path()).expect("read"), "0", "before 6.2");
        write("max_ratio_fine", "7812\n");
        let found = ratio.read(dir.path()).expect("read");
        assert_eq!(found, "0.7812");
        ratio.write(dir.path(), "10").expect("written");
        assert_eq!(says("max_ratio"), "10\n");
        write("max_ratio_fine", "100000\n");
        assert_eq!(ratio.read(dir.path()).expect("read"), "10");
        ratio.write(dir.path(), &found).expect("written");
        assert_eq!(says("max_ratio_fine"), "7812\n");
    }

    #[test]
    fn no_file_is_made() {
        let dir = file("memory.high", "max\n");
        StockSetting::High
            .write(dir.path(), "4096")
            .expect("written");
        assert_eq!(StockSetting::High.read(dir.path()).expect("read"), "4096");
        StockSetting::Weight
            .write(dir.path(), "50")
            .expect_err("none");
        assert!(!dir.path().join("io.weight").exists());
    }
}
