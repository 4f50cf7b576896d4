// SPDX-License-Identifier: GPL-2.0-only
//! Hearing of new cgroups from the kernel (inotify), a watch for each directory; and, for who asks
//! for it, of cgroups that are gone and of files that were written. (What the kernel itself changes
//! in a file is not told.)
//!
//! Between a directory's making and its watch, others may be made in it: after adding a watch, look
//! into the directory afterwards. Where the kernel grants no more watches, or lost events, the
//! caller's regular scan finds what was missed.

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

/// All inotify watches on cgroups.
pub struct CgroupWatch {
    inotify: Inotify,
    wanted: AddWatchFlags,
    directories: HashMap<WatchDescriptor, PathBuf>,
}

/// Events since the last call.
#[derive(Debug, Default, PartialEq)]
pub struct WatchEvents {
    /// Directories that were made.
    pub made: Vec<PathBuf>,
    /// Directories that are gone.
    pub gone: Vec<PathBuf>,
    /// Files that were written.
    pub written: Vec<PathBuf>,
    /// Events were lost: anything may have been made.
    pub lost: bool,
}

impl CgroupWatch {
    /// Makes a watch on no directory yet; directories that are made will be heard of.
    ///
    /// # Errors
    /// The kernel grants no instance.
    pub fn new() -> nix::Result<CgroupWatch> {
        CgroupWatch::with_flags(AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO)
    }

    /// Makes a watch on no directory yet; all that can be heard of will be.
    ///
    /// # Errors
    /// The kernel grants no instance.
    pub fn for_all_events() -> nix::Result<CgroupWatch> {
        CgroupWatch::with_flags(
            AddWatchFlags::IN_CREATE | AddWatchFlags::IN_DELETE | AddWatchFlags::IN_MODIFY,
        )
    }

    fn with_flags(wanted: AddWatchFlags) -> nix::Result<CgroupWatch> {
        Ok(CgroupWatch {
            inotify: Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?,
            wanted,
            directories: HashMap::new(),
        })
    }

    /// Number of directories watched.
    pub fn len(&self) -> usize {
        self.directories.len()
    }

    /// Watches one more; one that is watched already stays so.
    ///
    /// # Errors
    /// The kernel grants no more. A directory that is gone is none.
    pub fn add(&mut self, directory: &Path) -> nix::Result<()> {
        let only = AddWatchFlags::IN_ONLYDIR | AddWatchFlags::IN_DONT_FOLLOW;
        match self.inotify.add_watch(directory, self.wanted | only) {
            Ok(watch) => {
                self.directories.insert(watch, directory.into());
                Ok(())
            }
            Err(Errno::ENOENT | Errno::ENOTDIR) => Ok(()),
            Err(why) => Err(why),
        }
    }

    /// Reads the events since the last call.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn read_events(&mut self) -> nix::Result<WatchEvents> {
        let mut heard = WatchEvents::default();
        loop {
            let events = match self.inotify.read_events() {
                Ok(events) => events,
                Err(Errno::EAGAIN) => return Ok(heard),
                Err(Errno::EINTR) => continue,
                Err(why) => return Err(why),
            };
            for event in events {
                let is = |flag| event.mask.contains(flag);
                let to = if is(AddWatchFlags::IN_Q_OVERFLOW) {
                    heard.lost = true;
                    continue;
                } else if is(AddWatchFlags::IN_IGNORED) {
                    self.directories.remove(&event.wd);
                    continue;
                } else if is(AddWatchFlags::IN_MODIFY) {
                    &mut heard.written
                } else if !is(AddWatchFlags::IN_ISDIR) {
                    continue;
                } else if is(AddWatchFlags::IN_DELETE) {
                    &mut heard.gone
                } else {
                    &mut heard.made
                };
                let directory = self.directories.get(&event.wd).zip(event.name);
                to.extend(directory.map(|(parent, name)| parent.join(name)));
            }
        }
    }
}

impl AsFd for CgroupWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn directories_are_heard_of_and_files_are_not() {
        let dir = tempfile::tempdir().expect("made");
        let mut watch = CgroupWatch::new().expect("granted");
        watch.add(dir.path()).expect("granted");
        watch.add(&dir.path().join("gone")).expect("nothing to do");
        fs::create_dir(dir.path().join("a")).expect("made");
        fs::write(dir.path().join("file"), "").expect("written");
        let heard = watch.read_events().expect("told");
        assert_eq!(heard.made, [dir.path().join("a")]);
        assert!(!heard.lost);
        assert_eq!(watch.read_events().expect("told"), WatchEvents::default());
    }

    #[test]
    fn who_asks_hears_of_files_too() {
        let dir = tempfile::tempdir().expect("made");
        let mut watch = CgroupWatch::for_all_events().expect("granted");
        watch.add(dir.path()).expect("granted");
        let (a, file) = (dir.path().join("a"), dir.path().join("file"));
        fs::create_dir(&a).expect("made");
        fs::write(&file, "1").expect("written");
        fs::remove_dir(&a).expect("removed");
        fs::remove_file(&file).expect("removed");
        let heard = watch.read_events().expect("told");
        assert_eq!((heard.made, heard.gone), (vec![a.clone()], vec![a]));
        assert_eq!(heard.written, [file]);
    }

    #[test]
    fn a_watch_ends_with_its_directory() {
        let dir = tempfile::tempdir().expect("made");
        let mut watch = CgroupWatch::new().expect("granted");
        let below = dir.path().join("a");
        fs::create_dir(&below).expect("made");
        watch.add(&below).expect("granted");
        watch.add(&below).expect("granted");
        assert_eq!(watch.len(), 1);
        fs::remove_dir(&below).expect("removed");
        watch.read_events().expect("told");
        assert_eq!(watch.len(), 0);
    }
}
