// SPDX-License-Identifier: GPL-2.0-only
//! `weir top` as a user meets it, on a machine that is laid out in a directory: as plain text, as
//! JSON, and on a terminal, which it leaves as it was.

use assert_cmd::Command;
use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{LocalFlags, tcgetattr};
use nix::unistd::Pid;
use predicates::str::{contains, diff};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::Child;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// A machine with one cgroup that holds 2 MiB.
fn machine() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("made");
    for (file, text) in [
        ("sys/fs/cgroup/cgroup.controllers", "io memory\n"),
        ("sys/fs/cgroup/memory.stat", "file_dirty 2097152\n"),
        ("sys/fs/cgroup/db/memory.stat", "file_dirty 2097152\n"),
        (
            "proc/vmstat",
            "nr_dirty 512\nnr_dirty_threshold 8192\nnr_dirty_background_threshold 4096\n",
        ),
    ] {
        let path = dir.path().join(file);
        fs::create_dir_all(path.parent().expect("has one")).expect("made");
        fs::write(path, text).expect("written");
    }
    dir
}

fn top(machine: &tempfile::TempDir) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command
        .args(["top", "--every", "100ms", "--root"])
        .arg(machine.path());
    command
}

#[test]
fn without_a_terminal_it_prints_tables() {
    let machine = machine();
    let output = top(&machine).args(["-n", "2"]).assert().code(0).stderr("");
    let text = String::from_utf8_lossy(&output.get_output().stdout).into_owned();
    let rows = text.lines().filter(|line| line.starts_with("/db "));
    assert_eq!(rows.count(), 2, "{text}");
    assert!(
        text.contains("host: 2.0M dirty + 0 in writeback; writers held from 24.0M, limit 32.0M\n")
    );
    let output = top(&machine).args(["-n", "2", "--json"]).assert().code(0);
    for line in String::from_utf8_lossy(&output.get_output().stdout).lines() {
        let json: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(json["cgroups"][1]["dirty_bytes"], 2 << 20);
    }
}

#[test]
fn without_cgroup2_it_says_so() {
    let empty = tempfile::tempdir().expect("made");
    top(&empty).assert().code(2).stdout("").stderr(diff(
        "weir: no cgroup2 is mounted at /sys/fs/cgroup: boot with systemd.unified_cgroup_hierarchy=1, or mount it there\n",
    ));
}

#[test]
fn what_cannot_be_is_refused() {
    let machine = machine();
    for (args, why) in [
        (["--every", "1ms"], "1ms is not in 100ms..1h"),
        (["--every", "2"], "`2`"),
        (["-n", "0"], "0 is not in 1.."),
        (["--sort", "size"], "[possible values: cgroup, dirty,"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command
            .arg("top")
            .args(args)
            .args(["--root".as_ref(), machine.path()]);
        command.assert().code(2).stderr(contains(why));
    }
}

/// weir on a terminal of 80 by 24.
struct Session {
    weir: Child,
    keys: File,
    screen: Receiver<Vec<u8>>,
    terminal: OwnedFd,
    shown: String,
}

/// No machine is so slow that weir has nothing to show for so long.
const PATIENCE: Duration = Duration::from_secs(100);

impl Session {
    fn begin(machine: &tempfile::TempDir) -> Session {
        let size = Winsize {
            ws_row: 24,
            ws_col: 80,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let pty = openpty(&size, None).expect("made");
        let terminal = || pty.slave.try_clone().expect("cloned");
        let weir = std::process::Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["top", "--every", "100ms", "--root"])
            .arg(machine.path())
            .env("TERM", "xterm")
            .stdin(terminal())
            .stdout(terminal())
            .stderr(terminal())
            .spawn()
            .expect("begun");
        let (sender, screen) = channel();
        let mut master = File::from(pty.master.try_clone().expect("cloned"));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(length) = master.read(&mut bytes) {
                if sender.send(bytes[..length].to_vec()).is_err() {
                    break;
                }
            }
        });
        Session {
            weir,
            keys: pty.master.into(),
            screen,
            terminal: pty.slave,
            shown: String::new(),
        }
    }

    /// Reads until this is on the screen. Only what changes is drawn: it must come in one piece.
    fn until(&mut self, text: &str) {
        while !self.shown.contains(text) {
            match self.screen.recv_timeout(PATIENCE) {
                Ok(bytes) => self.shown += &String::from_utf8_lossy(&bytes),
                Err(why) => panic!("no {text:?}, {why}: {:?}", self.shown),
            }
        }
    }

    fn is_raw(&self) -> bool {
        let modes = tcgetattr(&self.terminal).expect("known").local_flags;
        !modes.contains(LocalFlags::ICANON | LocalFlags::ECHO)
    }

    fn end(&mut self) -> Option<i32> {
        // Leaving the alternate screen is the last that is written.
        self.until("\x1b[?1049l");
        let status = self.weir.wait().expect("waited for");
        assert!(!self.is_raw(), "the terminal is as it was");
        status.code()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Gone already, unless the test failed.
        let _ = self.weir.kill();
        let _ = self.weir.wait();
    }
}

#[test]
fn a_terminal_is_drawn_on_and_left_as_it_was() {
    let machine = machine();
    let mut session = Session::begin(&machine);
    session.until("/db");
    assert!(session.is_raw());
    assert!(session.shown.contains("\x1b[?1049h"));
    // The q of the filter does not end it.
    session.keys.write_all(b"/q\rq").expect("typed");
    assert_eq!(session.end(), Some(0));
}

#[test]
fn a_signal_ends_it_as_a_key_does() {
    let machine = machine();
    let mut session = Session::begin(&machine);
    session.until("/db");
    let id = i32::try_from(session.weir.id()).expect("fits");
    kill(Pid::from_raw(id), Signal::SIGTERM).expect("sent");
    assert_eq!(session.end(), Some(0));
}
