// SPDX-License-Identifier: GPL-2.0-only
//! Moving pages down by asking the kernel to reclaim them (`memory.reclaim`), which demotes while
//! `demotion_enabled` is set. The kernel picks the coldest; but it may drop page cache and swap on the way, and with demotion
//! on, host-wide, it also demotes for reasons of its own. So only a policy that names it gets it.

use crate::tier::engine::{Engine, Move, Outcome};
use crate::tier::host::{Host, PAGE};
use std::fs::OpenOptions;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether reclaim demotes.
const DEMOTION: &str = "sys/kernel/mm/numa/demotion_enabled";

/// The engine; down only.
pub struct Reclaim {}

impl Reclaim {
    /// # Errors
    /// Reclaim does not demote here, and what to do.
    pub fn new(host: &Host) -> Result<Reclaim, String> {
        match host.text(DEMOTION).as_deref() {
            Some("true" | "1") => Ok(Reclaim {}),
            Some(_) => Err(format!(
                "reclaim would not demote: `echo 1 > /{DEMOTION}` switches that on, for the whole host"
            )),
            None => Err(format!(
                "this kernel cannot demote: there is no /{DEMOTION}"
            )),
        }
    }
}

impl Engine for Reclaim {
    fn name(&self) -> &'static str {
        "reclaim"
    }

    fn step(&mut self, moves: &[Move], stop: &AtomicBool) -> Vec<Outcome> {
        let carry = |wanted: &Move| {
            let mut outcome = Outcome::default();
            if stop.load(Ordering::Relaxed) {
                return outcome;
            }
            let bytes = (wanted.pages * PAGE).to_string();
            let file = wanted.directory.join("memory.reclaim");
            let opened = OpenOptions::new().write(true).open(file);
            match opened.and_then(|mut file| file.write_all(bytes.as_bytes())) {
                Ok(()) => outcome.moved = wanted.pages,
                // Less than asked for was reclaimed.
                Err(why) if why.raw_os_error() == Some(nix::libc::EAGAIN) => {}
                Err(why) if why.kind() == std::io::ErrorKind::NotFound => {}
                Err(why) => outcome.why = Some(format!("memory.reclaim: {why}")),
            }
            outcome
        };
        moves.iter().map(carry).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tier::engine::Way;
    use std::fs;

    #[test]
    fn it_is_there_where_reclaim_demotes() {
        let dir = tempfile::tempdir().expect("made");
        let host = Host::at(dir.path());
        let refused = |host: &Host| Reclaim::new(host).err().expect("refused");
        assert!(refused(&host).contains("cannot demote"));
        fs::create_dir_all(dir.path().join("sys/kernel/mm/numa")).expect("made");
        fs::write(dir.path().join(DEMOTION), "false\n").expect("written");
        assert!(refused(&host).contains("echo 1 > /sys/kernel/mm/numa/demotion_enabled"));
        fs::write(dir.path().join(DEMOTION), "true\n").expect("written");
        assert!(Reclaim::new(&host).is_ok());
    }

    #[test]
    fn a_group_is_asked_for_what_it_is_to_give() {
        let dir = tempfile::tempdir().expect("made");
        let wanted = |directory: std::path::PathBuf| Move {
            cgroup: "/a".into(),
            directory,
            tier: 0,
            way: Way::Down,
            from: Vec::new(),
            held: 10,
            to: Vec::new(),
            pages: 3,
            fit: false,
        };
        fs::write(dir.path().join("memory.reclaim"), "").expect("written");
        let moves = [
            wanted(dir.path().into()),
            wanted(dir.path().join("it is gone")),
        ];
        let outcomes = Reclaim {}.step(&moves, &AtomicBool::new(false));
        let file = dir.path().join("memory.reclaim");
        assert_eq!(fs::read_to_string(file).expect("written"), "12288");
        assert_eq!((outcomes[0].moved, outcomes[1].moved), (3, 0));
        assert_eq!(outcomes[1].why, None, "nobody misses it");
    }
}
