// SPDX-License-Identifier: GPL-2.0-only
//! Recording a phase as `weir record` does on a host, for its pictures.
//!
//! Only where the plan asks for it: looking again and again, and a record for each pause, are work
//! for an emulated CPU. The recording lies in memory until the phase is over, and leaves through
//! the channel then.

use crate::channel::Channel;
use crate::site::Site;
use crate::system;
use anyhow::{Context, Result, anyhow};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use observe::Target;
use observe::live::{self, LookOptions};
use observe::recording::Recording;
use scenario::rundir::Event;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Longer than any phase.
const FOREVER: Duration = Duration::from_secs(24 * 3600);
/// Bytes of a recording in one event.
const PART: usize = 32 << 10;

/// A phase being recorded.
pub struct Recorder {
    file: PathBuf,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<u64>>,
}

impl Recorder {
    /// Starts to record the phase.
    pub fn start(site: &Site) -> Result<Recorder> {
        let file = site.scratch.join("phase.weir");
        let mut recording = Recording::create(&file, &system::kernel_release())?;
        let stop = Arc::new(AtomicBool::new(false));
        let flag = stop.clone();
        let thread = std::thread::spawn(move || {
            let seen = live::observe_target(
                &Target::Host,
                LookOptions::for_time(FOREVER),
                &flag,
                Some(&mut recording),
            )?;
            recording.finish(seen)
        });
        Ok(Recorder { file, stop, thread })
    }

    /// Ends, and sends what was recorded.
    pub fn send_recording(self, phase: &str, channel: &Channel) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread
            .join()
            .map_err(|_| anyhow!("the recording thread panicked"))?
            .context("recording")?;
        let bytes = std::fs::read(&self.file).context("reading the recording")?;
        for part in bytes.chunks(PART) {
            channel.send(&Event::Recording {
                phase: phase.to_owned(),
                base64: STANDARD.encode(part),
            });
        }
        std::fs::remove_file(&self.file).context("removing the recording")
    }
}
