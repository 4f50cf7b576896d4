// SPDX-License-Identifier: GPL-2.0-only
//! The process that waits for the end of the others, and then puts everything back.

use crate::lock::Lock;
use crate::{MARK, RunConfig, clean, worker};
use anyhow::{Context, Result, bail};
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, getppid, setsid};
use runner::Channel;
use runner::klog::{self, Log};
use scenario::rundir::Event;
use std::fs::File;
use std::io::stdin;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::process::ExitCode;

/// The program's name, which weir is started by.
pub const PROGRAM: &str = "weir-keeper";

/// `weir-keeper`: a [`RunConfig`] comes in as the first line of standard input, which then stays
/// open for as long as the run is wanted; events go out.
pub fn keep_run() -> ExitCode {
    let channel = match std::io::stdout().as_fd().try_clone_to_owned() {
        Ok(out) => Channel::new(File::from(out)),
        Err(_) => return ExitCode::FAILURE,
    };
    if let Err(error) = run(&channel) {
        channel.send(&Event::Problem {
            text: format!("{error:#}"),
            failed: false,
        });
    }
    channel.send(&Event::End);
    ExitCode::SUCCESS
}

fn run(channel: &Channel) -> Result<()> {
    // What is typed at the terminal is for `weir run` alone.
    setsid().context("leaving the terminal")?;
    let mut line = String::new();
    stdin().read_line(&mut line).context("reading the config")?;
    let config: RunConfig = serde_json::from_str(&line).context("reading the config")?;
    clean::clean_left_over()?;
    let Some(lock) = Lock::take_lock(false)? else {
        bail!("another `weir run --on host` goes on here: one at a time");
    };
    let (mut log, taint) = (Log::from_now(), klog::kernel_taint());
    let keeper = Pid::this();
    // SAFETY: this process has no other thread.
    let worker = match unsafe { fork() }.context("starting the worker")? {
        ForkResult::Child => {
            begin_worker(keeper);
            worker::run_worker(&config, channel);
            std::process::exit(0)
        }
        ForkResult::Parent { child } => child,
    };
    let text = match wait_for_worker(worker) {
        Ok(End::Wanted | End::Itself(WaitStatus::Exited(_, 0))) => None,
        Ok(End::Itself(WaitStatus::Signaled(_, signal, _))) => Some(format!(
            "the process that runs the scenario was killed by {signal}"
        )),
        Ok(End::Itself(status)) => Some(format!(
            "the process that runs the scenario ended: {status:?}"
        )),
        Err(why) => Some(format!("{why:#}")),
    };
    if let Some(text) = text {
        channel.send(&Event::Problem {
            text,
            failed: false,
        });
    }
    channel.send_stage("putting everything back");
    let cleaned = clean::clean_up(lock);
    channel.send(&klog::scan_log(&mut log, taint));
    cleaned
}

/// The worker's first steps.
fn begin_worker(keeper: Pid) {
    // The keeper may have ended before that: then no signal would come.
    if set_pdeathsig(Signal::SIGKILL).is_err() || getppid() != keeper {
        std::process::exit(1);
    }
    let path = std::env::var("PATH").unwrap_or_default();
    // SAFETY: this process has no other thread.
    unsafe {
        std::env::set_var(MARK, keeper.to_string());
        // Where mkfs and dmsetup are, which a user's PATH may lack.
        std::env::set_var("PATH", format!("{path}:/usr/sbin:/sbin:/usr/bin:/bin"));
    }
}

/// The way in which the worker came to its end.
enum End {
    /// `weir run` has ended, or wanted it.
    Wanted,
    /// By itself, or by a signal from outside.
    Itself(WaitStatus),
}

/// Waits for the worker's end, or ends it when `weir run` has ended or wants it to.
fn wait_for_worker(worker: Pid) -> Result<End> {
    let mut wanted = false;
    // SAFETY: a process id and no flags; the result is checked.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, worker.as_raw(), 0) };
    if fd >= 0 {
        // SAFETY: the kernel has just made it for this call.
        let pidfd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
        let stdin = stdin();
        let mut files = [
            PollFd::new(pidfd.as_fd(), PollFlags::POLLIN),
            PollFd::new(stdin.as_fd(), PollFlags::POLLIN),
        ];
        while let Err(nix::errno::Errno::EINTR) = poll(&mut files, PollTimeout::NONE) {}
        if !files[0].any().unwrap_or(false) {
            wanted = true;
            kill(worker, Signal::SIGKILL)?;
        }
    }
    loop {
        match waitpid(worker, None) {
            Err(nix::errno::Errno::EINTR) => {}
            Ok(_) if wanted => return Ok(End::Wanted),
            status => return Ok(End::Itself(status?)),
        }
    }
}
