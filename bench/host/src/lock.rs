// SPDX-License-Identifier: GPL-2.0-only
//! One run at a time: a lock on the directory of the run, which the process that puts things back
//! removes.
//!
//! A lock of flock(2) belongs to the open file, which the worker inherits: it is held until both
//! the keeper and the worker have ended.

use crate::RUN;
use anyhow::{Context, Result};
use nix::fcntl::{Flock, FlockArg};
use std::fs::{self, DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};

/// Held as long as it lives.
pub struct Lock(Flock<File>);

impl Lock {
    /// Makes the directory of the run and locks it; `None` if another run has it and `wait` is
    /// false.
    ///
    /// # Errors
    /// The directory cannot be made.
    pub fn take_lock(wait: bool) -> Result<Option<Lock>> {
        let how = match wait {
            true => FlockArg::LockExclusive,
            false => FlockArg::LockExclusiveNonblock,
        };
        loop {
            match DirBuilder::new().mode(0o700).create(RUN) {
                Err(why) if why.kind() != ErrorKind::AlreadyExists => {
                    return Err(why).context(format!("making {RUN}"));
                }
                _ => {}
            }
            // Gone again: another run has ended just now.
            let Ok(directory) = File::open(RUN) else {
                continue;
            };
            let lock = match Flock::lock(directory, how) {
                Ok(lock) => lock,
                Err((_, nix::errno::Errno::EWOULDBLOCK)) => return Ok(None),
                Err((_, nix::errno::Errno::EINTR)) => continue,
                Err((_, why)) => return Err(why).context(format!("locking {RUN}")),
            };
            let same = |found: fs::Metadata| Ok(found.ino() == lock.metadata()?.ino());
            match fs::metadata(RUN).and_then(same) {
                Ok(true) => return Ok(Some(Lock(lock))),
                _ => continue,
            }
        }
    }

    /// Removes the directory and gives the lock up.
    ///
    /// # Errors
    /// Something is still in it.
    pub fn remove(self) -> std::io::Result<()> {
        let removed = fs::remove_dir(RUN);
        drop(self.0);
        removed
    }
}
