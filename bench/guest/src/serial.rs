// SPDX-License-Identifier: GPL-2.0-only
//! The way out of the guest: a serial port that nothing else writes to.
//!
//! A serial port and not virtio-console, because its driver is built into every kernel the lab
//! boots (Debian 6.1 has virtio-console as a module) and works before and after everything else.

use crate::protocol::{CHANNEL_PATH, Event};
use anyhow::{Context, Result, ensure};
use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};
use runner::Channel;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader};

/// Opens the port and takes the terminal's own ideas (echo, newline translation) out of it.
pub fn open() -> Result<Channel> {
    let port = OpenOptions::new()
        .read(true)
        .write(true)
        .open(CHANNEL_PATH)
        .with_context(|| format!("{CHANNEL_PATH}: cannot open the channel to the host"))?;
    let mut mode = tcgetattr(&port).context("reading the serial port's mode")?;
    cfmakeraw(&mut mode);
    tcsetattr(&port, SetArg::TCSANOW, &mode).context("setting the serial port's mode")?;
    Ok(Channel::new(port))
}

/// Says that the disks are prepared, and waits until the lab has given them the speed they are to
/// have.
pub fn await_disk_throttle(channel: &Channel) -> Result<()> {
    channel.send(&Event::Prepared);
    read_line()
        .map(drop)
        .context("waiting for the lab to throttle the disks")
}

/// The next line that the lab says, with its end.
pub fn read_line() -> Result<String> {
    // A handle of its own: beats go on while this one waits.
    let port = File::open(CHANNEL_PATH).context(CHANNEL_PATH)?;
    let mut line = String::new();
    BufReader::new(port).read_line(&mut line)?;
    ensure!(!line.is_empty(), "the lab has closed {CHANNEL_PATH}");
    Ok(line)
}
