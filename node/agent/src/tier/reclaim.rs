// SPDX-License-Identifier: GPL-2.0-only
//! Moving pages down by asking the kernel to reclaim them (`memory.reclaim`), which demotes while
//! `demotion_enabled` is set. The kernel picks the coldest; but it may drop page cache and swap on
//! the way, and with demotion on, host-wide, it also demotes for reasons of its own. So only a
//! policy that names it gets it.

use crate::tier::engine::{Engine, Move, MoveOutcome};
use crate::tier::groups::held_pages_of;
use crate::tier::host::{PAGE, TierHost};
use std::fs::OpenOptions;
use std::io::{ErrorKind, Result, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// The kernel's switch for demotion by reclaim.
const DEMOTION: &str = "sys/kernel/mm/numa/demotion_enabled";

/// Asks the kernel to reclaim so many pages of the cgroup with this directory.
type Ask = fn(&Path, u64) -> Result<()>;

/// The engine; down only.
pub struct ReclaimEngine {
    ask: Ask,
}

impl ReclaimEngine {
    /// # Errors
    /// Reclaim does not demote here, and what to do.
    pub fn new(host: &TierHost) -> std::result::Result<ReclaimEngine, String> {
        match host.read_text(DEMOTION).as_deref() {
            Some("true" | "1") => Ok(ReclaimEngine {
                ask: request_reclaim,
            }),
            Some(_) => Err(format!(
                "reclaim would not demote: `echo 1 > /{DEMOTION}` switches that on, for the whole host"
            )),
            None => Err(format!(
                "this kernel cannot demote: there is no /{DEMOTION}"
            )),
        }
    }

    /// The kernel does not tell how much it reclaimed when that was less than asked for, nor
    /// whether it demoted or dropped it, nor from which node: what counts is what the cgroup has
    /// left in the tier.
    fn carry_out(&self, wanted: &Move) -> MoveOutcome {
        let mut outcome = MoveOutcome::default();
        let held = || Some(held_pages_of(&wanted.directory)?[wanted.tier]);
        let before = held();
        let asked = (self.ask)(&wanted.directory, wanted.pages);
        // One that is gone has nothing there, and is not missed.
        if let (Some(before), Some(after)) = (before, held()) {
            outcome.moved = before.saturating_sub(after);
        }
        outcome.why = match asked {
            Ok(()) => None,
            Err(why) if why.kind() == ErrorKind::NotFound => None,
            Err(why) if why.raw_os_error() == Some(nix::libc::EAGAIN) => (outcome.moved == 0)
                .then(|| "the kernel finds nothing of it that it could demote or drop".into()),
            Err(why) => Some(format!("memory.reclaim: {why}")),
        };
        outcome
    }
}

fn request_reclaim(directory: &Path, pages: u64) -> Result<()> {
    let file = directory.join("memory.reclaim");
    let mut file = OpenOptions::new().write(true).open(file)?;
    file.write_all((pages * PAGE).to_string().as_bytes())
}

impl Engine for ReclaimEngine {
    fn name(&self) -> &'static str {
        "reclaim"
    }

    fn carry_out_moves(&mut self, moves: &[Move], stop: &AtomicBool) -> Vec<MoveOutcome> {
        let carry = |wanted| match stop.load(Ordering::Relaxed) {
            true => MoveOutcome::default(),
            false => self.carry_out(wanted),
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
        let host = TierHost::at_root(dir.path());
        let refused = |host: &TierHost| ReclaimEngine::new(host).err().expect("refused");
        assert!(refused(&host).contains("cannot demote"));
        fs::create_dir_all(dir.path().join("sys/kernel/mm/numa")).expect("made");
        fs::write(dir.path().join(DEMOTION), "false\n").expect("written");
        assert!(refused(&host).contains("echo 1 > /sys/kernel/mm/numa/demotion_enabled"));
        fs::write(dir.path().join(DEMOTION), "true\n").expect("written");
        assert!(ReclaimEngine::new(&host).is_ok());
    }

    fn wanted(directory: &Path) -> Move {
        Move {
            cgroup: "/a".into(),
            directory: directory.into(),
            tier: 1,
            way: Way::Down,
            from: Vec::new(),
            held: 10,
            to: Vec::new(),
            pages: 3,
            fit: false,
        }
    }

    /// Pages that it has in the second tier.
    fn holds(directory: &Path, pages: u64) -> Result<()> {
        let bytes = pages * PAGE;
        let text = format!("tier0 nodes=0 bytes=4096\ntier1 nodes=1 bytes={bytes}\n");
        fs::write(directory.join("memory.tier_stat"), text)
    }

    #[test]
    fn a_group_is_asked_for_what_it_is_to_give() {
        let dir = tempfile::tempdir().expect("made");
        fs::write(dir.path().join("memory.reclaim"), "").expect("written");
        let moves = [wanted(dir.path()), wanted(&dir.path().join("it is gone"))];
        let outcomes = ReclaimEngine {
            ask: request_reclaim,
        }
        .carry_out_moves(&moves, &AtomicBool::new(false));
        let file = dir.path().join("memory.reclaim");
        assert_eq!(fs::read_to_string(file).expect("written"), "12288");
        assert_eq!((outcomes[0].moved, outcomes[1].moved), (0, 0));
        assert_eq!(outcomes[1].why, None, "nobody misses it");
    }

    #[test]
    fn what_left_the_tier_was_moved_whatever_the_kernel_says() {
        let dir = tempfile::tempdir().expect("made");
        let all = |directory: &Path, _| holds(directory, 7);
        let some = |directory: &Path, _| {
            holds(directory, 8)?;
            Err(std::io::Error::from_raw_os_error(nix::libc::EAGAIN))
        };
        let elsewhere = |directory: &Path, _| holds(directory, 10);
        let none = |_: &Path, _| Err(std::io::Error::from_raw_os_error(nix::libc::EAGAIN));
        let broken = |_: &Path, _| Err(std::io::Error::from_raw_os_error(nix::libc::EINVAL));
        let asks: [(Ask, u64, Option<&str>); 5] = [
            (all, 3, None),
            (some, 2, None),
            (elsewhere, 0, None),
            (none, 0, Some("nothing of it that it could demote")),
            (broken, 0, Some("memory.reclaim: Invalid argument")),
        ];
        for (ask, moved, why) in asks {
            holds(dir.path(), 10).expect("written");
            let outcome = ReclaimEngine { ask }.carry_out(&wanted(dir.path()));
            assert_eq!(outcome.moved, moved);
            match why {
                None => assert_eq!(outcome.why, None),
                Some(words) => assert!(outcome.why.is_some_and(|why| why.contains(words))),
            }
        }
    }
}
