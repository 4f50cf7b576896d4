// SPDX-License-Identifier: GPL-2.0-only
//! One guest: a QEMU process, what it says, and how it ended.
//!
//! The guest's events arrive over a socket pair, the guest's second serial port; the first is the
//! console and goes to a file. Disks are fast until the guest says that it has prepared them
//! ([`Event::Prepared`]): laying files out on a disk of 256 KB/s takes minutes that show nothing.
//! QEMU is always told to emulate (TCG): nested KVM hangs on some machines, and results should not
//! depend on what the host allows.
//!
//! A guest that counts instructions is not booted for each run, but continued from where a boot had
//! come to when it was saved ([`snapshot`]).
//!
//! Nothing outlives the run. The QEMU process is killed by its id when the value that holds it is
//! dropped, and by the kernel (`PR_SET_PDEATHSIG`) if weir itself dies. Disk images and the
//! initramfs are files without a name, handed over as open descriptors: they vanish with the last
//! process that has them open, however that one ends.

mod arguments;
mod end;
mod images;
mod snapshot;
#[cfg(test)]
mod tests;

pub use end::{End, FailedBoot};
pub use images::Drive;

use crate::cache::Cache;
use crate::emulator::Emulator;
use crate::monitor::Monitor;
use crate::prepare::Base;
use crate::watchdog::Silence;
use anyhow::{Context, Result, bail};
use arguments::{Inherited, drive_id, fd_path, machine_arguments, madt_file};
use guest::protocol::Event;
use images::open_images;
use nix::sys::signal::Signal;
use scenario::model::Tier;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How often a guest is booted that does not reach its process 1.
const BOOTS: u32 = 3;

/// How often a silent guest is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// How long guests may be silent, in time that they could use (see [`Silence`]).
#[derive(Clone, Copy, Debug)]
struct Patience {
    /// Until process 1 says its first word. A boot takes 5 to 10 s of CPU time.
    boot: Duration,
    /// From then on. A guest beats every five seconds.
    later: Duration,
}

const PATIENCE: Patience = Patience {
    boot: Duration::from_secs(60),
    later: Duration::from_secs(60),
};

/// A kernel that checks every access to memory, many CPUs, or some emulated by one thread: a boot
/// takes minutes of CPU time, and beats are late.
const PATIENCE_WHEN_SLOW: Patience = Patience {
    boot: Duration::from_secs(300),
    later: Duration::from_secs(300),
};

/// The least memory of a PCI device, in bytes.
const LEAST_BYTES: u64 = 4096;

/// More CPUs than that are slow.
const FEW_CPUS: u32 = 8;
/// The same where one thread emulates them all.
const FEW_CPUS_IN_TURN: u32 = 2;

/// What to boot.
#[derive(Clone, Copy)]
pub struct Machine<'a> {
    /// What emulates it.
    pub emulator: &'a Emulator,
    /// The kernel image.
    pub image: &'a Path,
    /// What all guests of the kernel have in common.
    pub base: &'a Base,
    /// Archive of the work of this guest, as [`crate::prepare::write_work`] writes it.
    pub work: &'a File,
    /// Where saved guests are kept.
    pub cache: &'a Cache,
    /// RAM in bytes; the sum of the tiers, if there are any.
    pub memory: u64,
    /// Kinds of memory, fastest first; none: all of one kind.
    pub tiers: &'a [Tier],
    /// The last of them can be taken out.
    pub dimm: bool,
    /// Number of CPUs.
    pub cpus: u32,
    /// CPUs that its kernel makes per-CPU data for, if more than there are.
    pub possible_cpus: u32,
    /// Disks of the guest, in order.
    pub drives: &'a [Drive],
    /// Bytes of memory for each disk that the guest makes itself, in order.
    pub disk_memory: &'a [u64],
    /// One emulating thread, and a time stamp counter that counts the instructions of all CPUs.
    pub count_instructions: bool,
    /// A kernel that takes minutes to boot.
    pub instrumented: bool,
    /// More kernel command line.
    pub append: &'a str,
    /// Where the console's output goes.
    pub console: &'a Path,
    /// Where disk images may be made when memory is too scarce for them.
    pub scratch: &'a Path,
}

/// Told what happens to a guest.
pub trait Listener {
    /// The guest sent an event.
    fn event(&mut self, event: Event);
    /// A boot failed, and the guest is booted again.
    fn failed_boot(&mut self, failed: &FailedBoot);
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Already dead is fine, and nothing else can go wrong with one's own child.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Boots the machine and hands each event over until the guest has ended, one way or another.
///
/// A guest that dies or hangs before its process 1 says a word is booted again, [`BOOTS`] times in
/// all: emulated CPUs lose a timer or trip over code patching now and then
/// (`docs/experiments/0002-boots-under-load.md`), and nothing of weir has run by then. Each failed
/// boot's console is kept beside the last one's, as `console.boot-N.log`. A guest that has said
/// anything at all is never booted again, whatever becomes of it.
pub fn boot(machine: Machine<'_>, limit: Duration, listener: &mut dyn Listener) -> Result<End> {
    let few = match machine.count_instructions {
        true => FEW_CPUS_IN_TURN,
        false => FEW_CPUS,
    };
    let slow = machine.instrumented || machine.cpus > few;
    let patience = if slow { PATIENCE_WHEN_SLOW } else { PATIENCE };
    let saves = machine.count_instructions && snapshot::has_room(machine.cache)?;
    let start = match saves {
        true => match snapshot::get_booted_state(&machine, limit, patience, listener)? {
            Ok(state) => Start::restored(state, machine.work)?,
            Err(end) => return Ok(end),
        },
        false => Start::Boot(
            machine
                .base
                .write_initramfs(machine.scratch, Some(machine.work))?,
        ),
    };
    boot_with_retries(&machine, &start, limit, patience, listener)
}

/// What a machine starts from.
enum Start<'a> {
    /// An initramfs, with the work in it.
    Boot(File),
    /// An initramfs without; the machine is saved in a file, and ended, when it waits for work.
    Save(File, &'a File),
    /// The file that a machine was saved in, and the work, of so many bytes.
    Restore(File, &'a File, u64),
}

impl Start<'_> {
    fn restored(state: File, work: &File) -> Result<Start<'_>> {
        let bytes = work.metadata().context("a guest's work")?.len();
        // The memory of a PCI device has a power of two of bytes.
        work.set_len(bytes.next_power_of_two().max(LEAST_BYTES))
            .context("a guest's work")?;
        Ok(Start::Restore(state, work, bytes))
    }

    /// What QEMU is to inherit of it.
    fn files(&self) -> Vec<&File> {
        match self {
            Start::Boot(initramfs) => vec![initramfs],
            Start::Save(initramfs, state) => vec![initramfs, state],
            Start::Restore(state, work, _) => vec![state, work],
        }
    }
}

fn boot_with_retries(
    machine: &Machine<'_>,
    start: &Start<'_>,
    limit: Duration,
    patience: Patience,
    listener: &mut dyn Listener,
) -> Result<End> {
    let kept = |number: u32| machine.console.with_extension(format!("boot-{number}.log"));
    for number in 1..BOOTS {
        // Of an earlier run with the same directory.
        match std::fs::remove_file(kept(number)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("{}", kept(number).display()));
            }
            _ => {}
        }
    }
    let mut number = 1;
    loop {
        let (end, spoke) = boot_once(machine, start, limit, patience, &mut |event| {
            listener.event(event)
        })?;
        let lost = match end {
            End::Died(_) | End::Silent(_) => !spoke,
            // Seen only before the disks were ready, so neither script nor scenario had begun.
            End::TimerLost => true,
            _ => false,
        };
        if number == BOOTS || !lost {
            return Ok(end);
        }
        let log = kept(number);
        std::fs::rename(machine.console, &log)
            .with_context(|| format!("keeping a failed boot's console as {}", log.display()))?;
        listener.failed_boot(&FailedBoot { number, end, log });
        number += 1;
    }
}

/// One boot: how it ended, and whether the guest said anything.
fn boot_once(
    machine: &Machine<'_>,
    start: &Start<'_>,
    limit: Duration,
    patience: Patience,
    on_event: &mut dyn FnMut(Event),
) -> Result<(End, bool)> {
    let images = open_images(machine.drives, machine.memory, machine.scratch)?;
    // QEMU opens it once more: what its stderr says must not begin where the log did.
    let console = File::options()
        .append(true)
        .create(true)
        .open(machine.console)
        .and_then(|file| file.set_len(0).map(|()| file))
        .with_context(|| format!("{}", machine.console.display()))?;
    let (channel_here, channel_there) = UnixStream::pair().context("a socket pair")?;
    let (monitor_here, monitor_there) = UnixStream::pair().context("a socket pair")?;
    let mut kept: Vec<RawFd> = images.iter().map(AsRawFd::as_raw_fd).collect();
    kept.extend(start.files().into_iter().map(AsRawFd::as_raw_fd));
    kept.push(console.as_raw_fd());
    kept.extend([channel_there.as_raw_fd(), monitor_there.as_raw_fd()]);
    let madt = (machine.possible_cpus > machine.cpus)
        .then(|| madt_file(machine.possible_cpus))
        .transpose()?;
    kept.extend(madt.iter().map(AsRawFd::as_raw_fd));
    let inherited = Inherited {
        images: &images,
        console: &console,
        madt: madt.as_ref(),
        channel: &channel_there,
        monitor: &monitor_there,
    };

    let mut command = machine.emulator.base_command();
    command
        .args(machine_arguments(machine, start, &inherited)?)
        .stdin(Stdio::null())
        .stdout(console.try_clone().context("the console's file")?)
        .stderr(console.try_clone().context("the console's file")?);
    // SAFETY: only async-signal-safe system calls between fork and exec.
    unsafe {
        command.pre_exec(move || {
            nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
            for fd in &kept {
                if nix::libc::fcntl(*fd, nix::libc::F_SETFD, 0) == -1 {
                    return Err(std::io::Error::last_os_error());
                }
            }
            Ok(())
        });
    }
    let mut running = Running(command.spawn().context("starting QEMU")?);
    // QEMU's copies are now the only ones, so that their end is QEMU's.
    drop((channel_there, monitor_there));
    let events = channel_here.try_clone().context("the guest's channel")?;
    let (sender, receiver) = channel();
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(events).split(b'\n') {
            let Ok(line) = line else { return };
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    let mut monitor = OnNeed(monitor_here, None);
    if let Start::Restore(state, _, bytes) = start {
        monitor.get()?.restore_state(&fd_path(state))?;
        writeln!(&channel_here, "{bytes}").context("telling the guest of its work")?;
    }
    let mut on_stop = |stop: Stop| match (stop, start) {
        (Stop::Booted, Start::Save(_, state)) => monitor.get()?.save(&fd_path(state)),
        (Stop::Booted, _) => bail!("the guest's process 1 found no configuration"),
        (Stop::Prepared, _) => throttle_drives(machine.drives, monitor.get()?, &channel_here),
    };
    let deadline = Instant::now() + limit;
    let mut spoke = false;
    let end = follow_guest(
        &receiver,
        &mut running,
        (deadline, patience),
        machine.console,
        &mut on_stop,
        &mut spoke,
        on_event,
    );
    drop(running);
    drop(receiver);
    if reader.join().is_err() {
        bail!("the thread that reads the guest's events panicked");
    }
    Ok((end?, spoke))
}

/// Where a guest waits for the lab.
enum Stop {
    /// It has booted, and has no work.
    Booted,
    /// Its disks are prepared.
    Prepared,
}

/// The monitor of a QEMU, greeted when it is first needed.
struct OnNeed(UnixStream, Option<Monitor>);

impl OnNeed {
    fn get(&mut self) -> Result<&mut Monitor> {
        let monitor = match self.1.take() {
            Some(monitor) => monitor,
            None => Monitor::new(self.0.try_clone().context("QEMU's monitor")?)?,
        };
        Ok(self.1.insert(monitor))
    }
}

/// Gives the disks the speed they are to have, and tells the guest that they have it.
fn throttle_drives(drives: &[Drive], monitor: &mut Monitor, mut guest: &UnixStream) -> Result<()> {
    for (index, drive) in drives.iter().enumerate() {
        monitor.throttle_drive(
            &drive_id(index),
            drive.write_bandwidth,
            drive.read_bandwidth,
        )?;
    }
    guest
        .write_all(b"\n")
        .context("telling the guest that its disks are set up")
}

/// Does the kernel say that a CPU's timer has stopped? Process 1 may go on on another CPU, and
/// beat, while whatever waits for that one waits for ever. A loaded host had one such boot in some
/// sixty.
fn has_lost_a_timer(console: &Path) -> bool {
    const WORDS: &[u8] = b"kthread timer wakeup didn't happen";
    let console = std::fs::read(console).unwrap_or_default();
    console.windows(WORDS.len()).any(|window| window == WORDS)
}

fn follow_guest(
    lines: &Receiver<Vec<u8>>,
    running: &mut Running,
    (deadline, patience): (Instant, Patience),
    console: &Path,
    on_stop: &mut dyn FnMut(Stop) -> Result<()>,
    spoke: &mut bool,
    on_event: &mut dyn FnMut(Event),
) -> Result<End> {
    let mut silence = Silence::of_process(running.0.id());
    let mut prepared = false;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let line = match lines.recv_timeout(left.min(LOOK)) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) if Instant::now() >= deadline => {
                return Ok(End::Deadline);
            }
            Err(RecvTimeoutError::Timeout) => {
                if !prepared && has_lost_a_timer(console) {
                    return Ok(End::TimerLost);
                }
                let most = if *spoke {
                    patience.later
                } else {
                    patience.boot
                };
                if silence.quiet_time() >= most {
                    return Ok(End::Silent(most));
                }
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => {
                let status = running.0.wait().context("waiting for QEMU")?;
                return Ok(End::Died(status.to_string()));
            }
        };
        *spoke = true;
        silence.restart_count();
        match serde_json::from_slice(&line) {
            Ok(Event::End) => return Ok(End::Complete),
            Ok(Event::Prepared) => {
                prepared = true;
                on_stop(Stop::Prepared)?;
            }
            Ok(Event::Booted) => {
                on_stop(Stop::Booted)?;
                return Ok(End::Complete);
            }
            Ok(event) => on_event(event),
            Err(error) => {
                let shown: String = String::from_utf8_lossy(&line).chars().take(200).collect();
                return Ok(End::Garbled(format!("{error}: {shown}")));
            }
        }
    }
}
