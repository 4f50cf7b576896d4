// SPDX-License-Identifier: GPL-2.0-only
//! DAMON's files below /sys/kernel/mm/damon/admin, and whose they are.
//!
//! There is one set of them for the whole host, and a program that writes `nr_kdamonds` throws away
//! what others set up. So they are claimed for a step at a time, only while no program has any, and
//! given back after it. What is claimed is noted in a file first: an agent that was killed left
//! kdamonds behind, and the next one ends those, and no others.

use crate::tier::engine::PATIENCE;
use crate::tier::host::TierHost;
use serde::{Deserialize, Serialize};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

const DIRECTORY: &str = "sys/kernel/mm/damon/admin/kdamonds";
/// Parts of the kernel that hold DAMON while they are on: `state = on` is refused then. Debian's 7.3
/// has `damon_stat` on from boot.
const HOLDERS: [&str; 3] = ["damon_stat", "damon_reclaim", "damon_lru_sort"];

/// The claim that is noted. The boot tells kdamonds of the running kernel from those of an earlier
/// one.
#[derive(Debug, Deserialize, PartialEq, Serialize)]
struct ClaimNote {
    boot: String,
    kdamonds: usize,
}

/// DAMON's files below /sys/kernel/mm/damon/admin.
pub struct Admin {
    directory: PathBuf,
    note: PathBuf,
    boot: String,
    /// Says `Y` while the part of the kernel of this name holds DAMON.
    holders: Vec<(&'static str, PathBuf)>,
}

impl Admin {
    /// Looks whether there are any, and takes over from an agent that was killed.
    ///
    /// # Errors
    /// There are none, or another program set them up.
    pub fn new(host: &TierHost, state: &Path) -> Result<Admin, String> {
        let directory = host.full_path(DIRECTORY);
        if !directory.is_dir() {
            return Err(format!(
                "this kernel has none that can be used: there is no /{DIRECTORY}"
            ));
        }
        let boot = host.read_text("proc/sys/kernel/random/boot_id");
        let holders = HOLDERS.map(|name| {
            let file = format!("sys/module/{name}/parameters/enabled");
            (name, host.full_path(&file))
        });
        let admin = Admin {
            directory,
            holders: holders.into(),
            note: state.join("damon.json"),
            boot: boot.ok_or("the kernel does not tell its boot_id")?,
        };
        admin.take_over()?;
        admin.check_unclaimed()?;
        Ok(admin)
    }

    fn take_over(&self) -> Result<(), String> {
        let Ok(text) = fs::read_to_string(&self.note) else {
            return Ok(());
        };
        let note: Option<ClaimNote> = serde_json::from_str(&text).ok();
        let ours = note.filter(|note| {
            note.boot == self.boot
                && self
                    .count_kdamonds()
                    .is_ok_and(|number| number == note.kdamonds)
        });
        match ours {
            Some(note) => self.release_kdamonds(note.kdamonds),
            None => self.remove_note(),
        }
    }

    fn remove_note(&self) -> Result<(), String> {
        match fs::remove_file(&self.note) {
            Err(why) if why.kind() != std::io::ErrorKind::NotFound => {
                Err(format!("cannot remove {}: {why}", self.note.display()))
            }
            _ => Ok(()),
        }
    }

    fn count_kdamonds(&self) -> Result<usize, String> {
        let text = self.read("nr_kdamonds")?;
        text.parse()
            .map_err(|_| format!("nr_kdamonds is `{text}`, not a number"))
    }

    fn check_unclaimed(&self) -> Result<(), String> {
        for (name, enabled) in &self.holders {
            if fs::read_to_string(enabled).is_ok_and(|text| text.trim() == "Y") {
                return Err(format!(
                    "the kernel's {name} holds DAMON (to free it: echo N >/sys/module/{name}/parameters/enabled)"
                ));
            }
        }
        match self.count_kdamonds()? {
            0 => Ok(()),
            _ => Err("another program has set up DAMON (/sys/kernel/mm/damon/admin)".into()),
        }
    }

    /// Takes so many kdamonds.
    ///
    /// # Errors
    /// Another program has them by now, or cannot be had.
    pub fn claim_kdamonds(&self, kdamonds: usize) -> Result<(), String> {
        self.check_unclaimed()?;
        let note = ClaimNote {
            boot: self.boot.clone(),
            kdamonds,
        };
        let text = serde_json::to_string(&note).map_err(|why| why.to_string())?;
        let parent = self.note.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(parent)
            .and_then(|()| fs::write(&self.note, text))
            .map_err(|why| format!("cannot write {}: {why}", self.note.display()))?;
        self.write("nr_kdamonds", kdamonds)
    }

    /// Ends and gives back what was claimed.
    ///
    /// # Errors
    /// They cannot be ended.
    pub fn release_kdamonds(&self, kdamonds: usize) -> Result<(), String> {
        for index in 0..kdamonds {
            self.end_kdamond(index)?;
        }
        self.write("nr_kdamonds", 0)?;
        self.remove_note()
    }

    /// Starts a kdamond. What does not fit in what was written for it shows here.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn start_kdamond(&self, index: usize) -> Result<(), String> {
        self.write(format!("{index}/state"), "on")
    }

    /// Returns whether a kdamond runs.
    pub fn is_running(&self, index: usize) -> bool {
        self.read(format!("{index}/state"))
            .is_ok_and(|state| state == "on")
    }

    /// Ends a kdamond that runs, when it is done with what it does.
    ///
    /// # Errors
    /// It cannot be ended.
    pub fn end_kdamond(&self, index: usize) -> Result<(), String> {
        if !self.is_running(index) {
            return Ok(());
        }
        match self.write(format!("{index}/state"), "off") {
            // It ended by itself.
            Err(_) if !self.is_running(index) => Ok(()),
            written => written,
        }
    }

    /// A file's text.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(&self, file: impl AsRef<Path>) -> Result<String, String> {
        let path = self.directory.join(file);
        let text = retry_while_busy(|| fs::read_to_string(&path));
        text.map(|text| text.trim_end().to_string())
            .map_err(|why| format!("{}: {why}", path.display()))
    }

    /// Writes a file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, file: impl AsRef<Path>, value: impl ToString) -> Result<(), String> {
        let path = self.directory.join(file);
        let value = value.to_string();
        let write = || {
            let mut file = OpenOptions::new().write(true).truncate(true).open(&path)?;
            file.write_all(value.as_bytes())
        };
        retry_while_busy(write).map_err(|why| format!("{} = {value}: {why}", path.display()))
    }

    /// Returns whether there is such a file.
    pub fn has_file(&self, file: impl AsRef<Path>) -> bool {
        self.directory.join(file).exists()
    }
}

/// Tries again while the file is in use: a kdamond is at it for an instant, but may lose its CPU
/// meanwhile.
fn retry_while_busy<T>(mut call: impl FnMut() -> std::io::Result<T>) -> std::io::Result<T> {
    let until = Instant::now() + PATIENCE;
    loop {
        match call() {
            Err(why) if why.raw_os_error() == Some(nix::libc::EBUSY) && Instant::now() < until => {
                sleep(Duration::from_millis(10));
            }
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new() -> Machine {
            let machine = Machine(tempfile::tempdir().expect("made"));
            machine.write("proc/sys/kernel/random/boot_id", "this\n");
            machine.write(&format!("{DIRECTORY}/nr_kdamonds"), "0\n");
            machine
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().expect("has one")).expect("made");
            fs::write(path, text).expect("written");
        }

        fn text(&self, path: &str) -> String {
            fs::read_to_string(self.0.path().join(path)).expect("there")
        }

        fn admin(&self) -> Result<Admin, String> {
            Admin::new(
                &TierHost::at_root(self.0.path()),
                &self.0.path().join("run"),
            )
        }
    }

    #[test]
    fn what_others_set_up_is_left_alone() {
        let machine = Machine::new();
        let nr = format!("{DIRECTORY}/nr_kdamonds");
        machine.write(&nr, "1\n");
        let why = machine.admin().err().expect("somebody else's");
        assert!(why.contains("another program"), "{why}");
        assert_eq!(machine.text(&nr), "1\n");
    }

    /// As on Debian's 7.3 from boot on, with `nr_kdamonds` 0.
    #[test]
    fn what_the_kernel_itself_holds_is_not_claimed() {
        let machine = Machine::new();
        let enabled = "sys/module/damon_stat/parameters/enabled";
        machine.write(enabled, "Y\n");
        let why = machine.admin().err().expect("held");
        assert!(why.contains("the kernel's damon_stat holds DAMON"), "{why}");
        machine.write(enabled, "N\n");
        let admin = machine.admin().expect("free");
        machine.write(enabled, "Y\n");
        assert!(admin.claim_kdamonds(1).is_err(), "since then");
    }

    #[test]
    fn a_killed_agents_kdamonds_are_ended_and_no_others() {
        let machine = Machine::new();
        let nr = format!("{DIRECTORY}/nr_kdamonds");
        let admin = machine.admin().expect("nobody's");
        admin.claim_kdamonds(1).expect("claimed");
        assert_eq!(machine.text(&nr), "1");
        machine.write(&format!("{DIRECTORY}/0/state"), "on\n");
        // It is killed here. Its successor:
        machine.admin().expect("taken over");
        assert_eq!(machine.text(&format!("{DIRECTORY}/0/state")), "off");
        assert_eq!(machine.text(&nr), "0");
        assert!(!machine.0.path().join("run/damon.json").exists());

        // The note is of an earlier boot, or another program has set up another number since.
        for (boot, kdamonds) in [("earlier", 1), ("this", 3)] {
            let note = format!("{{\"boot\":\"{boot}\",\"kdamonds\":{kdamonds}}}");
            machine.write("run/damon.json", &note);
            machine.write(&nr, "1");
            machine.write(&format!("{DIRECTORY}/0/state"), "on\n");
            assert!(machine.admin().is_err());
            assert_eq!(machine.text(&format!("{DIRECTORY}/0/state")), "on\n");
        }
    }

    #[test]
    fn a_kernel_without_damon_says_so() {
        let dir = tempfile::tempdir().expect("made");
        let why = Admin::new(&TierHost::at_root(dir.path()), dir.path()).err();
        assert!(why.expect("none").contains("no /sys/kernel/mm/damon"));
    }
}
