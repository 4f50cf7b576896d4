// SPDX-License-Identifier: GPL-2.0-only
//! The way out of the guest: a serial port that nothing else writes to.
//!
//! A serial port and not virtio-console, because its driver is built into every kernel the lab boots
//! (Debian 6.1 has virtio-console as a module) and works before and after everything else.

use crate::protocol::{BEAT_MS, CHANNEL_PATH, Event};
use anyhow::{Context, Result};
use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A handle that any thread may send through.
#[derive(Clone)]
pub struct Channel(Arc<Mutex<File>>);

impl Channel {
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
        Ok(Channel(Arc::new(Mutex::new(port))))
    }

    /// Sends one event. If the port fails the host notices the silence; the console gets the reason.
    pub fn send(&self, event: &Event) {
        let sent = serde_json::to_string(event)
            .map_err(std::io::Error::from)
            .and_then(|text| {
                let mut port = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                port.write_all(format!("{text}\n").as_bytes())
            });
        if let Err(error) = sent {
            eprintln!("weir guest: cannot report to the host: {error}");
        }
    }

    /// Says that the disks are prepared, and waits until the lab has given them the speed they are to have.
    pub fn prepared(&self) -> Result<()> {
        self.send(&Event::Prepared);
        // A handle of its own: beats go on while this one waits.
        let mut port = File::open(CHANNEL_PATH).context(CHANNEL_PATH)?;
        let mut byte = [0];
        port.read_exact(&mut byte)
            .context("waiting for the lab to throttle the disks")
    }

    /// Says what is being done now.
    pub fn stage(&self, text: impl Into<String>) {
        self.send(&Event::Stage { text: text.into() });
    }

    /// Beats for as long as the process lives, and turns a panic of any thread into a report.
    pub fn watch(&self) {
        let beat = self.clone();
        std::thread::spawn(move || {
            loop {
                beat.send(&Event::Beat);
                std::thread::sleep(Duration::from_millis(BEAT_MS));
            }
        });
        let hook = self.clone();
        std::panic::set_hook(Box::new(move |info| {
            hook.send(&Event::Problem {
                text: format!("the guest's own agent panicked, please report it: {info}"),
                failed: false,
            });
        }));
    }
}
