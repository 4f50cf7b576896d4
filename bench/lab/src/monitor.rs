// SPDX-License-Identifier: GPL-2.0-only
//! QEMU's monitor (QMP): lines of JSON over a socket pair, one command and its answer at a time.
//!
//! Written here because a handful of commands is all the lab needs; the crate for it generates QEMU's whole
//! schema.

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// QEMU answers at once or not at all; while it writes state, once that is on its way to the disk.
const PATIENCE: Duration = Duration::from_secs(120);
/// It writes or reads some hundred megabytes at most; a busy disk takes its time.
const PATIENCE_WITH_STATE: Duration = Duration::from_secs(300);
/// Pause between two questions whether it has written or read all.
const LOOK: Duration = Duration::from_millis(20);

/// A monitor that takes commands.
pub struct Monitor {
    socket: UnixStream,
    answers: BufReader<UnixStream>,
}

impl Monitor {
    /// Greets the QEMU at the other end of `socket`.
    pub fn new(socket: UnixStream) -> Result<Monitor> {
        socket.set_read_timeout(Some(PATIENCE))?;
        let answers = BufReader::new(socket.try_clone()?);
        let mut monitor = Monitor { socket, answers };
        monitor.send_command("qmp_capabilities", json!({}))?;
        Ok(monitor)
    }

    /// From now on the drive moves at most so many bytes per second; `None` is as fast as it goes.
    pub fn throttle_drive(
        &mut self,
        drive: &str,
        write: Option<u64>,
        read: Option<u64>,
    ) -> Result<()> {
        let arguments = json!({
            "device": drive,
            "bps": 0, "bps_wr": write.unwrap_or(0), "bps_rd": read.unwrap_or(0),
            "iops": 0, "iops_wr": 0, "iops_rd": 0,
        });
        self.send_command("block_set_io_throttle", arguments)
            .map(drop)
    }

    /// Stops the guest and writes its state to `file`, a path. Errors: QEMU cannot, or takes more
    /// than [`PATIENCE_WITH_STATE`].
    pub fn save(&mut self, file: &str) -> Result<()> {
        self.send_command("stop", json!({}))?;
        self.use_mapped_ram()?;
        self.send_command("migrate", json!({ "uri": format!("file:{file}") }))?;
        self.ask_until("query-migrate", &["completed"])
    }

    /// Reads the state of a guest that was saved into this one, which was started to wait for it,
    /// and continues it.
    pub fn restore_state(&mut self, file: &str) -> Result<()> {
        self.use_mapped_ram()?;
        self.send_command("migrate-incoming", json!({ "uri": format!("file:{file}") }))?;
        self.ask_until("query-status", &["paused"])?;
        self.send_command("cont", json!({})).map(drop)
    }

    /// Each page of memory has its place in the file: none is written twice, nor if it is zero.
    fn use_mapped_ram(&mut self) -> Result<()> {
        let capability = json!({ "capability": "mapped-ram", "state": true });
        let arguments = json!({ "capabilities": [capability] });
        self.send_command("migrate-set-capabilities", arguments)
            .map(drop)
    }

    /// Asks until the answer's status is one of `last`. Errors: it is `failed`.
    fn ask_until(&mut self, question: &str, last: &[&str]) -> Result<()> {
        let begun = Instant::now();
        loop {
            let answer = self.send_command(question, json!({}))?;
            let status = answer["status"].as_str().unwrap_or_default();
            if status == "failed" {
                let why = answer["error-desc"]
                    .as_str()
                    .unwrap_or("it does not say why");
                bail!("QEMU's monitor: {question}: failed: {why}");
            }
            if last.contains(&status) {
                return Ok(());
            }
            if begun.elapsed() > PATIENCE_WITH_STATE {
                bail!(
                    "QEMU's monitor: {question}: still `{status}` after {} s",
                    PATIENCE_WITH_STATE.as_secs()
                );
            }
            std::thread::sleep(LOOK);
        }
    }

    fn send_command(&mut self, name: &str, arguments: Value) -> Result<Value> {
        let doing = || format!("QEMU's monitor: {name}");
        let command = json!({ "execute": name, "arguments": arguments });
        writeln!(self.socket, "{command}").with_context(doing)?;
        loop {
            let mut line = String::new();
            if self.answers.read_line(&mut line).with_context(doing)? == 0 {
                bail!("QEMU's monitor: {name}: closed before it answered");
            }
            let mut answer: Value = serde_json::from_str(&line).with_context(doing)?;
            if let Some(error) = answer.get("error") {
                bail!("QEMU's monitor: {name}: {error}");
            }
            // Everything else is the greeting or an event.
            if let Some(returned) = answer.get_mut("return") {
                return Ok(returned.take());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A monitor whose QEMU says `lines` and closes.
    fn told(lines: &str) -> Result<Monitor> {
        let (ours, mut theirs) = UnixStream::pair()?;
        theirs.write_all(lines.as_bytes())?;
        theirs.shutdown(std::net::Shutdown::Write)?;
        let result = Monitor::new(ours);
        drop(theirs);
        result
    }

    #[test]
    fn a_greeting_and_events_are_no_answer() {
        let lines = "{\"QMP\":{}}\n{\"event\":\"RESUME\"}\n{\"return\":{}}\n";
        assert!(told(lines).is_ok());
        assert!(told("{\"QMP\":{}}\n").is_err());
    }

    #[test]
    fn what_qemu_refuses_is_an_error() {
        let Err(error) = told("{\"QMP\":{}}\n{\"error\":{\"desc\":\"no such drive\"}}\n") else {
            panic!("a refusal was taken for an answer");
        };
        assert!(error.to_string().contains("no such drive"), "{error:#}");
    }
}
