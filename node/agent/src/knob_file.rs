// SPDX-License-Identifier: GPL-2.0-only
//! Reading and writing a knob's file in a cgroup's directory.

use knobs::Knob;
use std::io::{self, Write};
use std::{fs, path::Path};

/// Reads the file of a knob.
///
/// # Errors
/// It is not there or cannot be read.
pub fn read(knob: Knob, directory: &Path) -> io::Result<String> {
    let text = fs::read_to_string(directory.join(knob.file_name()))?;
    Ok(text.trim().to_string())
}

/// Writes the file. It is never made: a directory that is no cgroup's would get one.
///
/// # Errors
/// It is not there, or the module refuses.
pub fn write(knob: Knob, directory: &Path, text: &str) -> io::Result<()> {
    let mut file = fs::OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(directory.join(knob.file_name()))?;
    file.write_all(format!("{text}\n").as_bytes())
}

/// An error of the file, and what the module means by it.
pub fn explain_error(knob: Knob, why: &io::Error) -> String {
    let means = match why.raw_os_error() {
        Some(nix::libc::EPERM) if knob == Knob::DirtyMin => {
            ": raising a floor takes CAP_SYS_RESOURCE in the initial user namespace"
        }
        Some(nix::libc::EBUSY) => ": a livepatch or another user of ftrace holds a hooked function",
        Some(nix::libc::EACCES) => {
            ": another user owns the file: writing it takes CAP_DAC_OVERRIDE"
        }
        Some(nix::libc::EROFS) => ": cgroups are mounted read-only here",
        _ => "",
    };
    format!("{why}{means}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_error_means_is_said() {
        let permission = io::Error::from_raw_os_error(nix::libc::EPERM);
        assert!(explain_error(Knob::DirtyMin, &permission).contains("CAP_SYS_RESOURCE"));
        assert!(!explain_error(Knob::DirtyBytes, &permission).contains("CAP_SYS_RESOURCE"));
        let busy = io::Error::from_raw_os_error(nix::libc::EBUSY);
        assert!(explain_error(Knob::DirtyMin, &busy).contains("livepatch"));
    }
}
