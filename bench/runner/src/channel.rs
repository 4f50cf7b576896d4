// SPDX-License-Identifier: GPL-2.0-only
//! The way out: whatever takes lines of text, a serial port or a pipe.

use scenario::rundir::{BEAT_MS, Event};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A handle that any thread may send through.
#[derive(Clone)]
pub struct Channel(Arc<Mutex<File>>);

impl Channel {
    /// Events leave through `file`.
    pub fn new(file: File) -> Channel {
        Channel(Arc::new(Mutex::new(file)))
    }

    /// Sends one event. If that fails the other side notices the silence; stderr gets the reason.
    pub fn send(&self, event: &Event) {
        let sent = serde_json::to_string(event)
            .map_err(std::io::Error::from)
            .and_then(|text| {
                let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                file.write_all(format!("{text}\n").as_bytes())
            });
        match sent {
            // A reader that is gone has been killed, and its end is noticed elsewhere.
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                // If that fails, too, there is no way left to say so.
                let _ = writeln!(
                    std::io::stderr(),
                    "weir: cannot report what goes on: {error}"
                );
            }
            _ => {}
        }
    }

    /// Says what is being done now.
    pub fn send_stage(&self, text: impl Into<String>) {
        self.send(&Event::Stage { text: text.into() });
    }

    /// Beats for as long as the process lives, and turns a panic of any thread into a report.
    pub fn start_heartbeat(&self) {
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
                text: format!("weir panicked while it ran the scenario, please report it: {info}"),
                failed: false,
            });
        }));
    }
}
