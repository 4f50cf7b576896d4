// SPDX-License-Identifier: GPL-2.0-only
//! The machine as its files show it. Everything is read below one root directory, so that a test
//! can lay out a machine that has something wrong with it.

use nix::errno::Errno;
use std::fs;
use std::path::{Path, PathBuf};

/// Configuration of a guest of the lab, below its root.
pub const GUEST_CONFIG: &str = "guest.json";
/// Module for a guest's kernel, below its root.
pub const GUEST_MODULE: &str = "weir.ko";

/// A machine: its file tree, and whether the caller is root.
pub struct System {
    root: PathBuf,
    /// Release of the running kernel (`uname -r`).
    pub release: String,
    /// Architecture (`uname -m`).
    pub machine: String,
    /// `true` if the asker is root.
    pub is_root: bool,
}

/// Text of a file, or the reason why it could not be read: it is not there, or cannot be seen.
pub enum Content {
    /// Text of the file.
    Text(String),
    /// There is no such file.
    Missing,
    /// The file may be there, but cannot be read: why.
    Hidden(Errno),
}

impl System {
    /// The machine this runs on.
    pub fn this_machine() -> anyhow::Result<System> {
        let names = nix::sys::utsname::uname()?;
        let text = |name: &std::ffi::OsStr| name.to_string_lossy().into_owned();
        Ok(System {
            root: "/".into(),
            release: text(names.release()),
            machine: text(names.machine()),
            is_root: nix::unistd::geteuid().is_root(),
        })
    }

    /// A machine laid out below `root`, seen by root.
    #[cfg(test)]
    pub fn at_root(root: &Path, release: &str) -> System {
        System {
            root: root.into(),
            release: release.into(),
            machine: "x86_64".into(),
            is_root: true,
        }
    }

    /// The full path of `path`, which is relative to `/`.
    pub fn full_path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.join(path)
    }

    /// Returns whether something is at `path`.
    pub fn path_exists(&self, path: impl AsRef<Path>) -> bool {
        self.full_path(path).exists()
    }

    /// The text of `path`, without the last newline.
    pub fn read(&self, path: impl AsRef<Path>) -> Content {
        match fs::read(self.full_path(path)) {
            Ok(bytes) => Content::Text(String::from_utf8_lossy(&bytes).trim_end().to_string()),
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => Content::Missing,
            Err(why) => Content::Hidden(Errno::from_raw(why.raw_os_error().unwrap_or_default())),
        }
    }

    /// The text of `path`, if it can be had.
    pub fn read_text(&self, path: impl AsRef<Path>) -> Option<String> {
        match self.read(path) {
            Content::Text(text) => Some(text),
            _ => None,
        }
    }

    /// In a guest of the lab, the module that was built for its kernel.
    pub fn guest_module(&self) -> Option<PathBuf> {
        let module = self.full_path(GUEST_MODULE);
        let is_guest = self.path_exists(GUEST_CONFIG);
        Some(module).filter(|module| is_guest && module.is_file())
    }

    /// The module that was installed for the running kernel, compressed or not.
    pub fn installed_module(&self) -> Option<PathBuf> {
        let updates = self.full_path(format!("lib/modules/{}/updates", self.release));
        ["", "/dkms"]
            .iter()
            .flat_map(|dir| {
                ["ko", "ko.xz", "ko.zst", "ko.gz"].map(|end| format!("{dir}/weir.{end}"))
            })
            .map(|name| updates.join(name.trim_start_matches('/')))
            .find(|path| path.is_file())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_has_its_module_at_the_root() {
        let root = tempfile::tempdir().expect("made");
        let system = System::at_root(root.path(), "6.12");
        fs::write(root.path().join("weir.ko"), "").expect("written");
        assert_eq!(system.guest_module(), None, "a host's is any file");
        fs::write(root.path().join("guest.json"), "{}").expect("written");
        let module = system.guest_module();
        assert_eq!(module, Some(root.path().join("weir.ko")));
    }
}
