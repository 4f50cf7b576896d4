// SPDX-License-Identifier: GPL-2.0-only
//! A thread of the agent that works until it is dropped.

use std::io;
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

/// A thread at work. Dropped, it ends and is waited for.
pub struct WorkerThread {
    /// The agent's end of a socket: closed, it ends the thread.
    end: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl WorkerThread {
    /// Starts a thread whose `work` ends when the socket that it is given is closed.
    ///
    /// # Errors
    /// There is no socket or no thread to be had.
    pub fn start(
        name: &str,
        work: impl FnOnce(&UnixStream) + Send + 'static,
    ) -> io::Result<WorkerThread> {
        let (end, ended) = UnixStream::pair()?;
        let thread = std::thread::Builder::new().name(name.into());
        let thread = thread.spawn(move || work(&ended))?;
        Ok(WorkerThread {
            end: Some(end),
            thread: Some(thread),
        })
    }
}

impl Drop for WorkerThread {
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            // If it panicked, that was said where it happened.
            let _ = thread.join();
        }
    }
}
