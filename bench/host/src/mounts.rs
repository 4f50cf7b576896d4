// SPDX-License-Identifier: GPL-2.0-only
//! What is mounted where, as /proc/self/mountinfo has it.

use std::fs;
use std::path::{Path, PathBuf};

/// One mount, as a line of mountinfo describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// `MAJOR:MINOR` of the filesystem, which need not be that of a device.
    pub number: String,
    /// The directory it is mounted on.
    pub at: PathBuf,
    /// The filesystem's type, as in `ext4`.
    pub kind: String,
    /// The device, if it is on one.
    pub source: PathBuf,
    /// Of the mount and of the filesystem.
    pub options: Vec<String>,
}

/// All mounts, in the order they were made.
pub fn all_mounts() -> Vec<Mount> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    text.lines().filter_map(parse_mount).collect()
}

/// The mount that a directory is on: the latest of those nearest to it.
pub fn mount_of(directory: &Path) -> Option<Mount> {
    let mounts = all_mounts().into_iter();
    mounts
        .filter(|mount| directory.starts_with(&mount.at))
        .max_by_key(|mount| mount.at.as_os_str().len())
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`
fn parse_mount(line: &str) -> Option<Mount> {
    let (mount, filesystem) = line.split_once(" - ")?;
    let mount: Vec<&str> = mount.split(' ').collect();
    let filesystem: Vec<&str> = filesystem.split(' ').collect();
    let options = [mount.get(5)?, filesystem.get(2)?];
    Some(Mount {
        number: (*mount.get(2)?).to_owned(),
        at: unescape_path(mount.get(4)?).into(),
        kind: (*filesystem.first()?).to_owned(),
        source: unescape_path(filesystem.get(1)?).into(),
        options: options
            .iter()
            .flat_map(|list| list.split(','))
            .map(str::to_owned)
            .collect(),
    })
}

/// The kernel writes space, tab, newline and backslash as octal digits.
fn unescape_path(text: &str) -> String {
    [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ]
    .iter()
    .fold(text.to_owned(), |text, (code, sign)| {
        text.replace(code, sign)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_mountinfo_is_read() {
        let line = "36 35 98:0 / /mnt/a\\040b rw,noatime master:1 - ext4 /dev/sda1 rw,commit=30";
        let mount = parse_mount(line).expect("a mount");
        assert_eq!(mount.at, Path::new("/mnt/a b"));
        assert_eq!(
            (mount.number.as_str(), mount.kind.as_str()),
            ("98:0", "ext4")
        );
        assert_eq!(mount.options, ["rw", "noatime", "rw", "commit=30"]);
        assert_eq!(parse_mount("garbage"), None);
    }
}
